//! The thread that waits for the disk: what was written is made durable here, while the other one
//! goes on receiving.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use warren_sys::eventfd::EventFd;

use crate::error::{Error, Result};
use crate::store::{SyncJob, Synced};

/// The handle of the thread, which ends when it is dropped.
pub struct Syncer {
    jobs: Sender<SyncJob>,
    done: Receiver<Synced>,
    /// Jobs whose end was not heard of.
    outstanding: usize,
}

impl Syncer {
    /// Starts the thread. `event` becomes readable when a job is done.
    pub fn start(event: Arc<EventFd>) -> Result<Syncer> {
        let (jobs, inbox) = channel::<SyncJob>();
        let (outbox, done) = channel();
        let work = move || {
            for job in inbox {
                // The other end is gone only when the process ends.
                let _ = outbox.send(job.run());
                event.notify();
            }
        };
        let thread = std::thread::Builder::new().name("sync".to_owned());
        thread.spawn(work).map_err(|e| Error::io("spawn", "sync", &e))?;
        Ok(Syncer { jobs, done, outstanding: 0 })
    }

    /// Hands over what is to be made durable.
    pub fn give(&mut self, jobs: Vec<SyncJob>) {
        for job in jobs {
            self.outstanding += usize::from(self.jobs.send(job).is_ok());
        }
    }

    /// What was done since the last call.
    pub fn take_done(&mut self) -> Vec<Synced> {
        let done: Vec<Synced> = self.done.try_iter().collect();
        self.outstanding -= done.len();
        done
    }

    /// Waits until everything is done, and gives what was.
    pub fn wait(&mut self) -> Vec<Synced> {
        let done: Vec<Synced> = self.done.iter().take(self.outstanding).collect();
        self.outstanding = 0;
        done
    }
}
