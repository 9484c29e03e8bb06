//! The thread that waits for the disk: what was written is made durable here, while the other one
//! goes on receiving.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use warren_sys::eventfd::EventFd;

use warren_log_store::error::{Error, Result};
use warren_log_store::store::{SyncJob, Synced};

/// The handle of the thread, which ends when it is dropped.
pub struct Syncer {
    jobs: Sender<SyncJob>,
    done: Receiver<Synced>,
    /// Jobs whose end was not heard of.
    outstanding: usize,
    /// It was waited for in vain, and nothing was done since.
    is_late: bool,
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
        Ok(Syncer { jobs, done, outstanding: 0, is_late: false })
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
        self.is_late &= done.is_empty();
        done
    }

    /// Waits until everything is done, and gives what was. A disk that needs longer than that for one of
    /// them is not waited for again before it has done something.
    pub fn wait(&mut self, patience: Duration) -> Vec<Synced> {
        let mut done = Vec::new();
        while self.outstanding > 0 {
            let patience = if self.is_late { Duration::ZERO } else { patience };
            match self.done.recv_timeout(patience) {
                Ok(synced) => {
                    self.outstanding -= 1;
                    self.is_late = false;
                    done.push(synced);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.is_late = true;
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => self.outstanding = 0,
            }
        }
        done
    }

    /// Whether the end of everything was heard of.
    pub fn is_idle(&self) -> bool {
        self.outstanding == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use warren_log_store::entry::{Id128, Stamp};
    use warren_log_store::files::{File, Files, Listed, Space};
    use warren_log_store::store::fault::Memory;
    use warren_log_store::store::{Setup, Store};

    /// A directory whose files are durable when somebody says so.
    struct Slow {
        inner: Memory,
        gate: Arc<Mutex<Receiver<()>>>,
    }

    struct SlowFile {
        inner: Box<dyn File>,
        gate: Arc<Mutex<Receiver<()>>>,
    }

    impl File for SlowFile {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
            self.inner.read_at(buffer, offset)
        }
        fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
            self.inner.write_at(bytes, offset)
        }
        fn sync(&self) -> Result<()> {
            self.gate.lock().expect("one thread").recv().expect("somebody says so");
            self.inner.sync()
        }
        fn len(&self) -> Result<u64> {
            self.inner.len()
        }
    }

    impl Files for Slow {
        fn list(&self) -> Result<Vec<Listed>> {
            self.inner.list()
        }
        fn open(&self, name: &str) -> Result<Box<dyn File>> {
            self.inner.open(name)
        }
        fn create(&self, name: &str) -> Result<Box<dyn File>> {
            let inner = self.inner.create(name)?;
            Ok(Box::new(SlowFile { inner, gate: self.gate.clone() }))
        }
        fn rename(&self, from: &str, to: &str) -> Result<()> {
            self.inner.rename(from, to)
        }
        fn unlink(&self, name: &str) -> Result<()> {
            self.inner.unlink(name)
        }
        fn sync_directory(&self) -> Result<()> {
            self.inner.sync_directory()
        }
        fn space(&self) -> Result<Space> {
            self.inner.space()
        }
    }

    /// Who waits for it would take no message any more.
    #[test]
    fn a_disk_that_hangs_is_not_waited_for_without_end() {
        let (open, gate) = channel();
        let slow = Slow { inner: Memory::new(), gate: Arc::new(Mutex::new(gate)) };
        let setup = Setup { machine: Id128::default(), new_id: Box::new(|| Id128([1; 16])) };
        let (mut store, _) = Store::open(Arc::new(slow), setup).expect("empty");
        let event = Arc::new(EventFd::new().expect("a descriptor"));
        let mut syncer = Syncer::start(event).expect("a thread");
        let mut begin = |syncer: &mut Syncer| {
            let stamp = Stamp { realtime_us: 1, monotonic_us: 1, boot: Id128::default() };
            let fields = [("MESSAGE", "x")].into_iter().collect();
            store.append("system", &stamp, &Arc::default(), &fields).expect("in bounds");
            store.flush().expect("no faults");
            let (jobs, begun) = store.begin_syncs(true);
            begun.expect("no faults");
            assert_eq!(jobs.len(), 1);
            syncer.give(jobs);
        };
        const LONG: Duration = Duration::from_secs(600);
        begin(&mut syncer);
        assert!(syncer.wait(Duration::from_millis(1)).is_empty() && !syncer.is_idle());
        assert!(syncer.wait(LONG).is_empty(), "not again");
        open.send(()).expect("the thread waits");
        warren_testkit::wait_until("the disk answers", || !syncer.take_done().is_empty());
        assert!(syncer.is_idle() && !syncer.is_late, "it answers again");
        assert!(syncer.wait(LONG).is_empty(), "nothing is under way");
    }
}
