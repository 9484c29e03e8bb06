//! Threads that read devices: several at once, each device in bounded time.
//!
//! A read of a dead disk may never return, and nothing can take it back. Its thread is written
//! off and another takes its place; whoever waits is told [`Outcome::TimedOut`]. If the read does
//! return after all, its result is delivered late.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use warren_sys::eventfd::EventFd;

use crate::file::DeviceFile;
use crate::index::DeviceNumber;
use crate::read::{ReadAt, Scratch};
use crate::scan::{Known, Scan, scan};

/// Devices read at one time.
pub const READERS: usize = 8;

/// Threads that may be stuck in a read before no more are started.
pub const STUCK_THREADS_MAX: usize = 64;

/// A read that takes longer than this, in milliseconds, is given up. SCSI gives a command 30 s and
/// then begins to recover; waiting through that would hold the boot for one dead disk.
pub const READ_TIMEOUT_MS: u64 = 10_000;

/// How devices are opened; tests have disks of their own.
pub type Opener = dyn Fn(&Path) -> io::Result<Box<dyn ReadAt>> + Send + Sync;

/// What became of a read.
#[derive(Debug)]
pub enum Outcome {
    /// The device was read.
    Scanned(Box<Scan>),
    /// It could not be opened or read.
    Failed(io::Error),
    /// It did not answer in time; a late answer may follow.
    TimedOut,
}

/// The answer to a job.
#[derive(Debug)]
pub struct Answer {
    /// The device that was to be read.
    pub device: DeviceNumber,
    /// What became of it.
    pub outcome: Outcome,
}

#[derive(Debug, Clone)]
struct Job {
    device: DeviceNumber,
    node: PathBuf,
    /// Read the metadata text even when it is said to be known.
    whole: bool,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Reads under way: by thread, since when and of what.
    busy: BTreeMap<u64, (u64, DeviceNumber)>,
    /// Threads that were given up.
    stuck: usize,
    threads: usize,
    next_thread: u64,
    known: Known,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    done: EventFd,
    open: Box<Opener>,
}

impl Shared {
    /// A reader that panicked has changed nothing half: every change is one statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The readers.
pub struct Readers {
    shared: Arc<Shared>,
    answers: Receiver<Answer>,
    sender: Sender<Answer>,
    timeout_ms: u64,
}

impl Readers {
    /// Readers of real devices.
    pub fn new() -> warren_sys::Result<Readers> {
        let open =
            |path: &Path| -> io::Result<Box<dyn ReadAt>> { Ok(Box::new(DeviceFile::open(path)?)) };
        Readers::with(Box::new(open), READ_TIMEOUT_MS)
    }

    /// Readers that open devices in another way and give up after another time.
    pub fn with(open: Box<Opener>, timeout_ms: u64) -> warren_sys::Result<Readers> {
        let (sender, answers) = channel();
        let state = Mutex::new(State::default());
        let shared = Shared { state, work: Condvar::new(), done: EventFd::new()?, open };
        Ok(Readers { shared: Arc::new(shared), answers, sender, timeout_ms })
    }

    /// Becomes readable when there are answers.
    pub fn fd(&self) -> &EventFd {
        &self.shared.done
    }

    /// Reads a device some time soon. `whole`: with its metadata text, whoever else has it.
    pub fn submit(&self, device: DeviceNumber, node: &Path, whole: bool) {
        let mut state = self.shared.lock();
        state.jobs.push_back(Job { device, node: node.to_path_buf(), whole });
        self.start_thread(&mut state);
        drop(state);
        self.shared.work.notify_one();
    }

    /// Starts a thread when all are at work and there may be more.
    fn start_thread(&self, state: &mut State) {
        let live = state.threads - state.stuck;
        let idle = live - (state.busy.len() - state.stuck).min(live);
        if live >= READERS || state.stuck >= STUCK_THREADS_MAX || idle >= state.jobs.len() {
            return;
        }
        state.threads += 1;
        state.next_thread += 1;
        let (shared, sender, id) = (self.shared.clone(), self.sender.clone(), state.next_thread);
        std::thread::spawn(move || read_jobs(&shared, &sender, id));
    }

    /// Answers that are there.
    pub fn answers(&self) -> Vec<Answer> {
        self.shared.done.clear();
        self.answers.try_iter().collect()
    }

    /// Gives up reads that began too long before `now_ms` (milliseconds of CLOCK_MONOTONIC).
    pub fn give_up(&self, now_ms: u64) -> Vec<Answer> {
        let mut state = self.shared.lock();
        let late = |since: u64| now_ms.saturating_sub(since) >= self.timeout_ms;
        let mut out = Vec::new();
        let State { busy, stuck, .. } = &mut *state;
        for (since, device) in
            busy.values_mut().filter(|(since, _)| *since != GIVEN_UP && late(*since))
        {
            *since = GIVEN_UP;
            *stuck += 1;
            out.push(Answer { device: *device, outcome: Outcome::TimedOut });
        }
        for _ in 0..out.len() {
            self.start_thread(&mut state);
        }
        out
    }

    /// When [`Readers::give_up`] may have something to give up, in the same milliseconds. A job that
    /// no thread has taken yet cannot be late before a whole timeout from now.
    pub fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        let state = self.shared.lock();
        let waiting =
            state.busy.values().map(|(since, _)| *since).filter(|since| *since != GIVEN_UP);
        let queued = (!state.jobs.is_empty()).then_some(now_ms);
        waiting.chain(queued).min().map(|since| since.saturating_add(self.timeout_ms))
    }
}

/// Start time of a read that was given up.
const GIVEN_UP: u64 = u64::MAX;

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }
}

fn read_jobs(shared: &Shared, sender: &Sender<Answer>, id: u64) {
    let mut scratch = Scratch::default();
    while let Some(job) = next_job(shared, id) {
        let outcome = read(shared, &job, &mut scratch);
        let in_time = finish(shared, id);
        // Nobody listens any more: the daemon ends.
        let _ = sender.send(Answer { device: job.device, outcome });
        shared.done.notify();
        if !in_time {
            return;
        }
    }
}

/// Waits for a job; `None` at the end.
fn next_job(shared: &Shared, id: u64) -> Option<Job> {
    let mut state = shared.lock();
    loop {
        if state.closed {
            return None;
        }
        if let Some(job) = state.jobs.pop_front() {
            state.busy.insert(id, (warren_sys::time::monotonic_ns() / 1_000_000, job.device));
            return Some(job);
        }
        let waited = shared.work.wait_timeout(state, IDLE);
        let (next, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        state = next;
        if timeout.timed_out() && state.jobs.is_empty() {
            state.threads -= 1;
            return None;
        }
    }
}

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(5);

/// A read is over; false when it had been given up, and another thread is in this one's place.
fn finish(shared: &Shared, id: u64) -> bool {
    let mut state = shared.lock();
    let given_up = state.busy.remove(&id).is_some_and(|(since, _)| since == GIVEN_UP);
    if given_up {
        state.stuck -= 1;
        state.threads -= 1;
    }
    !given_up
}

/// No lock is held while the device is read.
fn read(shared: &Shared, job: &Job, scratch: &mut Scratch) -> Outcome {
    let result = (shared.open)(&job.node).and_then(|source| {
        // The first who asks for a text reads it; the others need not.
        let mut known = |key| !job.whole && shared.lock().known.claim(key);
        scan(&*source, scratch, &mut known).map_err(|e| io::Error::from_raw_os_error(e.errno))
    });
    match result {
        Ok(scan) => Outcome::Scanned(Box::new(scan)),
        Err(error) => Outcome::Failed(error),
    }
}

#[cfg(test)]
mod tests;
