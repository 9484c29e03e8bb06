//! A few threads for what may take a moment: looking at paths, mounting what the kernel mounts by
//! itself, finding main processes. What may hang for ever is done by child processes instead.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use warren_core::event::Done;
use warren_core::ids::EffectId;
use warren_sys::eventfd::EventFd;

/// Threads.
const WORKERS: usize = 2;

type Task = Box<dyn FnOnce() -> Vec<(EffectId, Done)> + Send>;

/// The pool.
pub struct Workers {
    tasks: Sender<Task>,
    results: Receiver<Vec<(EffectId, Done)>>,
    wake: Arc<EventFd>,
}

impl Workers {
    /// Starts the threads; they wake the loop through `wake`.
    pub fn start(wake: Arc<EventFd>) -> std::io::Result<Workers> {
        let (tasks, queue) = channel::<Task>();
        let (answer, results) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for n in 0..WORKERS {
            let (queue, answer, wake) = (queue.clone(), answer.clone(), wake.clone());
            let serve = move || {
                loop {
                    // The lock is held while waiting for a task only: another worker waits behind it.
                    let next = queue.lock().ok().and_then(|queue| queue.recv().ok());
                    let Some(task) = next else { return };
                    if answer.send(task()).is_err() {
                        return;
                    }
                    wake.notify();
                }
            };
            std::thread::Builder::new().name(format!("worker-{n}")).spawn(serve)?;
        }
        Ok(Workers { tasks, results, wake })
    }

    /// Has `task` done; its result comes back under `id`.
    pub fn run(&self, id: EffectId, task: impl FnOnce() -> Done + Send + 'static) {
        self.run_all(move || vec![(id, task())]);
    }

    /// Has one task done that answers several effects.
    pub fn run_all(&self, task: impl FnOnce() -> Vec<(EffectId, Done)> + Send + 'static) {
        // The threads end only with the process.
        let _ = self.tasks.send(Box::new(task));
    }

    /// Results that are there.
    pub fn results(&self) -> impl Iterator<Item = (EffectId, Done)> + '_ {
        self.results.try_iter().flatten()
    }

    /// The eventfd that the loop watches.
    pub fn wake(&self) -> &Arc<EventFd> {
        &self.wake
    }
}
