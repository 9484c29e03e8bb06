//! A few threads for what may take a moment: looking at paths, mounting what the kernel mounts by
//! itself, looking at PID files, killing large groups. Each of the last two has a pool of its own.
//!
//! A path may lie on a file system whose server does not answer. Whoever waits for that one waits
//! alone: with somebody behind it, a worker that is at one piece for long keeps that piece, and a
//! thread more does the rest ([`Workers::relieve`]).

use crate::base::patience::Patient;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warren_core::model::ids::EffectId;
use warren_core::protocol::event::Done;
use warren_sys::eventfd::EventFd;
use warren_sys::process;
use warren_unit::Scope;

/// Threads that are always there, unless more are asked for.
const WORKERS: usize = 2;

/// The same in the manager of a user, of which a machine may have hundreds. Whoever waits behind one that is held up is
/// relieved.
const WORKERS_OF_USER: usize = 1;

/// This is the manager of a user.
static IS_OF_USER: AtomicBool = AtomicBool::new(false);

/// Pools that are started from now on keep as many threads as a manager of this scope does.
pub fn keep_for(scope: Scope) {
    IS_OF_USER.store(scope == Scope::User, Ordering::Relaxed);
}

fn always() -> usize {
    if IS_OF_USER.load(Ordering::Relaxed) { WORKERS_OF_USER } else { WORKERS }
}

/// Threads at most, those included that are held up.
const WORKERS_MAX: usize = 64;

/// With more to do than this, several threads share it.
const DONE_BY_ONE_MIN: usize = 16;

/// With somebody behind it, a worker is held up when one piece takes so long.
const PATIENCE: Duration = Duration::from_millis(100);

/// One thing to do, and the effect that it answers.
pub type Piece = (EffectId, Box<dyn FnOnce() -> Done + Send>);

/// What threads hold open that may be held for ever.
pub type HeldOpen = Arc<dyn AsFd + Send + Sync>;

type Results = Vec<(EffectId, Done)>;

/// Pieces that are done by one worker and answered together.
struct Batch {
    pieces: VecDeque<Piece>,
    done: Results,
    /// When the piece began that it is at.
    since: Instant,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Batch>,
    /// By thread.
    under_way: BTreeMap<u64, Batch>,
    /// Threads that are at nothing, also those that have just been started.
    idle: usize,
    threads: usize,
    /// Threads so far.
    started: u64,
}

struct Pool {
    queue: Mutex<Queue>,
    ready: Condvar,
    answers: Sender<Results>,
    wake: Arc<EventFd>,
    /// Threads that may be held for ever hold nothing open but `wake` and these; `None`: all that is open.
    keeps: Option<Vec<HeldOpen>>,
    /// Threads that are always there.
    always: usize,
}

/// The pool.
pub struct Workers {
    pool: Arc<Pool>,
    results: Receiver<Results>,
}

impl Workers {
    /// Starts the threads; they wake the loop through `wake`.
    ///
    /// What they do must use no file descriptor that is open already: not even SIGKILL ends a thread
    /// that asks some servers, and what such a thread holds open stays open when the process is
    /// killed. So init, helpers and clients would not hear that it is gone.
    pub fn start(wake: Arc<EventFd>) -> std::io::Result<Workers> {
        Workers::start_with(wake, Some(Vec::new()), always())
    }

    /// The same with so many threads that are always there.
    pub fn start_many(wake: Arc<EventFd>, threads: usize) -> std::io::Result<Workers> {
        Workers::start_with(wake, Some(Vec::new()), threads)
    }

    /// The same with descriptors that they may use, by their numbers, and hold open.
    pub fn start_keeping(wake: Arc<EventFd>, keep: Vec<HeldOpen>) -> std::io::Result<Workers> {
        Workers::start_with(wake, Some(keep), always())
    }

    /// The same for what waits for nobody and uses what is open.
    pub fn start_beside(wake: Arc<EventFd>) -> std::io::Result<Workers> {
        Workers::start_with(wake, None, always())
    }

    fn start_with(
        wake: Arc<EventFd>,
        keeps: Option<Vec<HeldOpen>>,
        always: usize,
    ) -> std::io::Result<Workers> {
        let (answers, results) = channel();
        let (queue, ready) = (Mutex::default(), Condvar::new());
        let pool = Arc::new(Pool { queue, ready, answers, wake, keeps, always });
        let workers = Workers { pool, results };
        let numbers: Vec<u64> = (0..always).map(|_| workers.pool.lock().one_more()).collect();
        for number in numbers {
            let Err(e) = workers.pool.start_thread(number) else { continue };
            let mut queue = workers.pool.lock();
            queue.withdraw();
            // One serves all, and whoever waits behind it is relieved.
            if queue.threads == 0 {
                return Err(e);
            }
        }
        Ok(workers)
    }

    /// Has `task` done; its result comes back under `id`.
    pub fn run(&self, id: EffectId, task: impl FnOnce() -> Done + Send + 'static) {
        self.run_all([(id, Box::new(task) as Box<_>)].into());
    }

    /// Has several things done, and answered together unless one of them takes long.
    pub fn run_all(&self, pieces: VecDeque<Piece>) {
        let batch = Batch { pieces, done: Vec::new(), since: Instant::now() };
        self.pool.lock().waiting.push_back(batch);
        self.pool.ready.notify_one();
    }

    /// The same by so many threads that share it, if there is much to do.
    pub fn share_out(&self, mut pieces: VecDeque<Piece>, threads: usize) {
        let share = pieces.len().div_ceil(threads).max(DONE_BY_ONE_MIN);
        while !pieces.is_empty() {
            let rest = pieces.split_off(share.min(pieces.len()));
            self.run_all(std::mem::replace(&mut pieces, rest));
        }
    }

    /// Results that are there.
    pub fn results(&self) -> impl Iterator<Item = (EffectId, Done)> + '_ {
        self.results.try_iter().flatten()
    }

    /// The eventfd that the loop watches.
    pub fn wake(&self) -> &Arc<EventFd> {
        &self.pool.wake
    }
}

impl Patient for Workers {
    // How long nobody is taken for held up, if somebody may be.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        let queue = self.pool.lock();
        let waits = queue.is_somebody_waiting();
        let behind = |batch: &&Batch| waits || !batch.pieces.is_empty() || !batch.done.is_empty();
        let since = queue.under_way.values().filter(behind).map(|batch| batch.since);
        // What has been taken over leaves nothing behind the one that is held up.
        let late = since.map(|since| (since + PATIENCE).saturating_duration_since(now));
        late.min().filter(|_| queue.threads < WORKERS_MAX)
    }

    // Has done by others what waits behind workers that are held up.
    fn relieve(&self, now: Instant) {
        let Some(Relief { done, thread }) = self.pool.lock().relieve(now) else { return };
        self.pool.answer(done);
        match thread {
            // Without a thread more, they wait as before.
            Some(number) if self.pool.start_thread(number).is_err() => self.pool.lock().withdraw(),
            Some(_) => {}
            // Behind several there may be something, and somebody for each.
            None => self.pool.ready.notify_all(),
        }
    }
}

/// What is to be done when somebody is held up.
struct Relief {
    /// Results that it had already.
    done: Results,
    /// The number of a thread that is to be started.
    thread: Option<u64>,
}

impl Queue {
    fn is_somebody_waiting(&self) -> bool {
        !self.waiting.is_empty() && self.idle == 0
    }

    /// Counts a thread that is about to be started; its number.
    fn one_more(&mut self) -> u64 {
        self.started += 1;
        self.threads += 1;
        self.idle += 1;
        self.started
    }

    /// It could not be started.
    fn withdraw(&mut self) {
        self.threads -= 1;
        self.idle -= 1;
    }

    /// Takes what lies behind workers that are held up; nothing if none is.
    fn relieve(&mut self, now: Instant) -> Option<Relief> {
        let mut done = None;
        for batch in self.under_way.values_mut().filter(|batch| batch.since + PATIENCE <= now) {
            // One thread more for each time of patience.
            batch.since = now;
            done.get_or_insert_with(Results::new).append(&mut batch.done);
            let pieces = std::mem::take(&mut batch.pieces);
            if !pieces.is_empty() {
                self.waiting.push_back(Batch { pieces, done: Vec::new(), since: now });
            }
        }
        let starts = |queue: &mut Queue| queue.is_somebody_waiting() && queue.threads < WORKERS_MAX;
        done.map(|done| Relief { done, thread: starts(self).then(|| self.one_more()) })
    }
}

impl Pool {
    /// What is under the lock is whole between any two of its changes.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_thread(self: &Arc<Pool>, number: u64) -> std::io::Result<()> {
        let pool = self.clone();
        let serve = move || pool.serve(number);
        std::thread::Builder::new().name(format!("worker-{number}")).spawn(serve).map(|_| ())
    }

    fn serve(&self, number: u64) {
        if let Some(keeps) = &self.keeps {
            let keeps = keeps.iter().map(|kept| kept.as_fd()).chain([self.wake.as_fd()]);
            // Without, it holds open what the process has.
            let _ = process::keep_only_descriptors(&keeps.collect::<Vec<BorrowedFd<'_>>>());
        }
        let mut queue = self.lock();
        loop {
            queue = self
                .ready
                .wait_while(queue, |queue| queue.waiting.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
            if let Some(batch) = queue.waiting.pop_front() {
                queue.under_way.insert(number, batch);
            }
            queue = self.work(queue, number);
            // Whoever came for one that was held up goes when that one is back.
            if queue.idle >= self.always {
                queue.threads -= 1;
                return;
            }
            queue.idle += 1;
        }
    }

    /// Does what is under way in this thread, piece by piece.
    fn work<'a>(&'a self, mut queue: MutexGuard<'a, Queue>, number: u64) -> MutexGuard<'a, Queue> {
        while let Some(batch) = queue.under_way.get_mut(&number) {
            let Some((id, piece)) = batch.pieces.pop_front() else {
                let over = queue.under_way.remove(&number);
                drop(queue);
                over.into_iter().for_each(|batch| self.answer(batch.done));
                return self.lock();
            };
            batch.since = Instant::now();
            drop(queue);
            let result = piece();
            queue = self.lock();
            if let Some(batch) = queue.under_way.get_mut(&number) {
                batch.done.push((id, result));
            }
        }
        queue
    }

    fn answer(&self, done: Results) {
        // The loop is gone only with the process.
        if !done.is_empty() && self.answers.send(done).is_ok() {
            self.wake.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn pieces(
        ids: std::ops::Range<u64>,
        work: impl Fn(u64) + Send + Clone + 'static,
    ) -> VecDeque<Piece> {
        let piece = |id| {
            let work = work.clone();
            let task = move || {
                work(id);
                Done::Ok
            };
            (EffectId(id), Box::new(task) as Box<dyn FnOnce() -> Done + Send>)
        };
        ids.map(piece).collect()
    }

    /// The next results, as soon as there are some.
    fn next(workers: &Workers) -> Vec<u64> {
        let results = workers.results.recv().expect("the pool is there");
        results.into_iter().map(|(id, _)| id.0).collect()
    }

    /// More of them than there are workers, each with others behind it: those are done nevertheless,
    /// each once, and who held them up is answered when it comes back.
    #[test]
    fn who_waits_for_ever_holds_nobody_else_up() {
        const HELD: u64 = 5;
        let wake = Arc::new(EventFd::new().expect("an eventfd"));
        let workers = Workers::start(wake).expect("threads");
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        for held in 0..HELD {
            let gate = gate.clone();
            let work = move |id: u64| {
                if id % 100 == 1 {
                    let is_closed = |open: &mut bool| !*open;
                    let open = gate.0.lock().expect("no panic");
                    drop(gate.1.wait_while(open, is_closed).expect("no panic"));
                }
            };
            workers.run_all(pieces(100 * held..100 * held + 4, work));
        }
        let mut done = Vec::new();
        let held: Vec<u64> = (0..HELD).map(|held| 100 * held + 1).collect();
        let mut moment = Instant::now();
        warren_testkit::wait_until("all pieces but those that are held are done", || {
            // As if they had been at it for long already.
            moment += PATIENCE * 2;
            workers.relieve(moment);
            done.extend(workers.results().map(|(id, _)| id.0));
            done.len() >= HELD as usize * 3
        });
        done.sort_unstable();
        let all = (0..HELD).flat_map(|held| (0..4).map(move |n| 100 * held + n));
        assert_eq!(done, all.filter(|id| !held.contains(id)).collect::<Vec<_>>());
        assert_eq!(workers.patience_left(Instant::now()), None, "nobody waits behind them");
        *gate.0.lock().expect("no panic") = true;
        gate.1.notify_all();
        let mut late: Vec<u64> = Vec::new();
        while late.len() < held.len() {
            late.extend(next(&workers));
        }
        late.sort_unstable();
        assert_eq!(late, held);
        workers.run_all(pieces(7..8, |_| {}));
        assert_eq!(next(&workers), [7]);
    }

    /// What lies behind one waits for what lies behind the other.
    #[test]
    fn what_lies_behind_several_that_are_held_up_is_begun_at_once_by_those_who_are_idle() {
        const HELD: usize = 2;
        let wake = Arc::new(EventFd::new().expect("an eventfd"));
        let workers = Workers::start_many(wake, 2 * HELD).expect("threads");
        // All are there, and wait to be woken.
        let all = Arc::new(Barrier::new(2 * HELD));
        (0..2 * HELD as u64).for_each(|id| {
            let all = all.clone();
            workers.run_all(pieces(id..id + 1, move |_| _ = all.wait()));
        });
        let mut served = 0;
        warren_testkit::wait_until("all workers are idle again", || {
            served += workers.results().count();
            served >= 2 * HELD && workers.pool.lock().idle >= 2 * HELD
        });
        let begun = Arc::new(Barrier::new(HELD + 1));
        let (behind, over) = (Arc::new(Barrier::new(HELD)), begun.clone());
        for held in 0..HELD as u64 {
            let (begun, behind, over) = (begun.clone(), behind.clone(), over.clone());
            let work = move |id: u64| {
                if id.is_multiple_of(2) {
                    begun.wait();
                    over.wait();
                } else {
                    behind.wait();
                }
            };
            workers.run_all(pieces(2 * held..2 * held + 2, work));
        }
        begun.wait();
        workers.relieve(Instant::now() + PATIENCE * 2);
        let mut done = Vec::new();
        while done.len() < HELD {
            let results = workers.results.recv_timeout(Duration::from_secs(60));
            let results = results.expect("both are begun");
            done.extend(results.into_iter().map(|(EffectId(id), _)| id));
        }
        done.sort_unstable();
        assert_eq!(done, [1, 3]);
        over.wait();
    }

    #[test]
    fn what_was_asked_for_together_is_answered_together() {
        let wake = Arc::new(EventFd::new().expect("an eventfd"));
        let workers = Workers::start(wake).expect("threads");
        workers.run_all(pieces(0..100, |_| {}));
        assert_eq!(next(&workers), (0..100).collect::<Vec<_>>());
    }
}
