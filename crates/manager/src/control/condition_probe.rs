//! Looks at conditions for clients, each time in a thread of its own: a path may lie behind a server that
//! does not answer. Whoever is held up there holds up neither the client nor, by what it has open, the end of
//! the manager.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use warren_bus::backend::Backend;
use warren_core::model::state::Tested;
use warren_sys::process;
use warren_unit::config::Condition;

use crate::base::conditions;
use crate::published::shared::Shared;

/// How long all looks for one answer may take.
const WITHIN: Duration = Duration::from_secs(1);

/// Threads that look at a time, those included that are held up.
const THREADS_MAX: usize = 8;

/// One of the threads, counted until it ends.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(threads: &Arc<AtomicUsize>) -> Option<Counted> {
        let is_room = threads.fetch_add(1, Ordering::Relaxed) < THREADS_MAX;
        let counted = Counted(threads.clone());
        is_room.then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The looks for one answer.
pub(crate) struct Looks<'a> {
    shared: &'a Arc<Shared>,
    left: Duration,
}

impl Looks<'_> {
    pub fn new(shared: &Arc<Shared>) -> Looks<'_> {
        Looks { shared, left: WITHIN }
    }

    /// What the conditions are now; nothing if that does not turn out in time.
    pub fn at(&mut self, conditions: &[Condition]) -> Option<Vec<Tested>> {
        let counted = Counted::new(&self.shared.looks)?;
        let (shared, conditions) = (self.shared.clone(), conditions.to_vec());
        let (sender, tested) = channel();
        let look = move || {
            let _counted = counted;
            // Without, it holds open what the process has.
            let _ = process::keep_only_descriptors(&[shared.waker()]);
            let facts = shared.facts();
            let host = shared.host(&facts);
            let test = |condition| match conditions::holds(condition, &host) {
                true => Tested::Met,
                false => Tested::Unmet,
            };
            // Who no longer waits needs no answer.
            let _ = sender.send(conditions.iter().map(test).collect());
        };
        std::thread::Builder::new().name("look".into()).spawn(look).ok()?;
        let began = Instant::now();
        let tested = tested.recv_timeout(self.left).ok();
        self.left = self.left.saturating_sub(began.elapsed());
        tested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_threads_look_at_a_time_and_one_that_ends_makes_room() {
        let threads = Arc::default();
        let mut all: Vec<_> = (0..THREADS_MAX).map(|_| Counted::new(&threads)).collect();
        assert!(all.iter().all(Option::is_some) && Counted::new(&threads).is_none());
        all.pop();
        assert!(Counted::new(&threads).is_some());
    }
}
