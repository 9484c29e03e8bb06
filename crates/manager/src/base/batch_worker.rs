//! Work of many small pieces that the loop does not do itself: a thread does them in the order in
//! which they came, several at once where that helps. Whoever must not come before them asks
//! whether all are done ([`Aside::is_idle`]).
//!
//! Nothing here answers to the machine. What a manager that is killed leaves undone is done again by
//! the next: until a piece is done its unit is among [`Aside::under_way`], for the state file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use warren_core::model::ids::UnitId;
use warren_sys::eventfd::EventFd;

/// Pieces that are done with one call.
const TOGETHER_MAX: usize = 1024;

/// What is done, with so many pieces at once as are there.
type Work<T> = Arc<dyn Fn(Vec<T>) + Send + Sync>;

/// A thread for pieces of one kind. It is started with the first of them.
pub struct Aside<T> {
    name: &'static str,
    work: Work<T>,
    wake: Arc<EventFd>,
    pieces: Option<Sender<T>>,
    progress: Arc<Progress>,
    /// Units of the pieces that are not known to be done, in order.
    units: VecDeque<UnitId>,
    /// Pieces that are known to be done, ever.
    known: usize,
}

#[derive(Default)]
struct Progress {
    done: AtomicUsize,
    /// The loop is to be woken when something is done.
    is_awaited: AtomicBool,
}

impl<T: Send + 'static> Aside<T> {
    /// Nothing is begun yet. The loop is woken through `wake`.
    pub fn new(
        name: &'static str,
        wake: Arc<EventFd>,
        work: impl Fn(Vec<T>) + Send + Sync + 'static,
    ) -> Aside<T> {
        Aside {
            name,
            work: Arc::new(work),
            wake,
            pieces: None,
            progress: Arc::default(),
            units: VecDeque::new(),
            known: 0,
        }
    }

    /// Has a piece of this unit done. Without a thread it is done at once.
    pub fn begin(&mut self, unit: UnitId, piece: T) {
        if self.pieces.is_none() {
            self.pieces = self.start();
        }
        let left = match &self.pieces {
            Some(pieces) => pieces.send(piece).err().map(|error| error.0),
            None => Some(piece),
        };
        match left {
            Some(piece) => (self.work)(vec![piece]),
            None => self.units.push_back(unit),
        }
    }

    fn start(&self) -> Option<Sender<T>> {
        let (sender, pieces) = channel();
        let (work, wake, progress) = (self.work.clone(), self.wake.clone(), self.progress.clone());
        let serve = move || serve(&pieces, &work, &progress, &wake);
        let started = std::thread::Builder::new().name(self.name.to_owned()).spawn(serve);
        started.is_ok().then_some(sender)
    }

    /// Units of which something is not done yet.
    pub fn under_way(&mut self) -> impl Iterator<Item = UnitId> + '_ {
        let done = self.progress.done.load(Ordering::SeqCst);
        self.units.drain(..done - self.known);
        self.known = done;
        self.units.iter().copied()
    }

    /// Whether everything is done. If it is not, the loop is woken when more of it is.
    pub fn is_idle(&mut self) -> bool {
        if self.under_way().next().is_none() {
            return true;
        }
        self.progress.is_awaited.store(true, Ordering::SeqCst);
        // The last piece may have been done just before.
        self.under_way().next().is_none()
    }
}

fn serve<T>(pieces: &Receiver<T>, work: &Work<T>, progress: &Progress, wake: &EventFd) {
    while let Ok(first) = pieces.recv() {
        let more = pieces.try_iter().take(TOGETHER_MAX - 1);
        let batch: Vec<T> = std::iter::once(first).chain(more).collect();
        let count = batch.len();
        work(batch);
        progress.done.fetch_add(count, Ordering::SeqCst);
        if progress.is_awaited.swap(false, Ordering::SeqCst) {
            wake.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Done in order, told when asked for, and under way until then.
    #[test]
    fn pieces_are_done_in_order_and_the_loop_is_woken() {
        let wake = Arc::new(EventFd::new().expect("an eventfd"));
        let (open, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let work = {
            let seen = seen.clone();
            move |batch: Vec<u32>| {
                gate.lock().expect("one thread").recv().expect("the test opens it");
                seen.lock().expect("no panic").extend(batch);
            }
        };
        let mut aside = Aside::new("test", wake.clone(), work);
        assert!(aside.is_idle(), "nothing was begun");
        (0..10).for_each(|n| aside.begin(UnitId(n), n));
        assert_eq!(aside.under_way().count(), 10);
        assert!(!aside.is_idle());
        // As many calls as it likes to make of them.
        (0..10).for_each(|_| open.send(()).expect("the thread lives"));
        while !aside.is_idle() {
            let epoll = warren_sys::epoll::Epoll::new().expect("an epoll instance");
            epoll.add(&*wake, 0, warren_sys::epoll::Interest::READ).expect("it is watched");
            let mut events = warren_sys::epoll::Events::with_capacity(1);
            epoll.wait(&mut events, None).expect("a wake");
            wake.clear();
        }
        assert_eq!(*seen.lock().expect("no panic"), (0..10).collect::<Vec<_>>());
    }
}
