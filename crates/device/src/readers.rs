//! Threads that read devices: several at once, each device in bounded time.
//!
//! A read of a dead disk may never return, and nothing can take it back. Its thread is soon taken for
//! slow and another takes its place, so that reads behind it do not wait; later it is written off, and
//! whoever waits is told [`Outcome::TimedOut`]. If the read does return after all, its result is
//! delivered late.

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
use crate::scan::{KnownTexts, Scan, scan};

mod all;

pub use all::Scans;

/// Devices read at one time, those aside that do not answer promptly.
pub const READERS: usize = 8;

/// Reads that may be slow or dead before no more threads are started: all paths through a controller
/// that died.
pub const STUCK_THREADS_MAX: usize = 512;

/// A read that takes longer than this, in milliseconds, does not keep the next device waiting.
pub const SLOW_MS: u64 = 300;

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

/// A read under way.
#[derive(Debug, Clone, Copy)]
struct Reading {
    device: DeviceNumber,
    /// When it began, in milliseconds of CLOCK_MONOTONIC.
    since_ms: u64,
    pace: Pace,
}

/// How long a read has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    Prompt,
    /// Another thread may take its place.
    Slow,
    /// Whoever waits was told so.
    GivenUp,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Reads under way, by thread.
    busy: BTreeMap<u64, Reading>,
    /// How many of them are not prompt.
    held: usize,
    threads: usize,
    next_thread: u64,
    known: KnownTexts,
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
    fn start_thread(&self, state: &mut State) -> bool {
        let live = state.threads - state.held;
        let idle = live - (state.busy.len() - state.held).min(live);
        if live >= READERS || state.held >= STUCK_THREADS_MAX || idle >= state.jobs.len() {
            return false;
        }
        state.threads += 1;
        state.next_thread += 1;
        let (shared, sender, id) = (self.shared.clone(), self.sender.clone(), state.next_thread);
        std::thread::spawn(move || read_jobs(&shared, &sender, id));
        true
    }

    /// Answers that are there.
    pub fn answers(&self) -> Vec<Answer> {
        self.shared.done.clear();
        self.answers.try_iter().collect()
    }

    /// Gives up reads that began too long before `now_ms` (milliseconds of CLOCK_MONOTONIC), and sees
    /// to it that nobody waits behind a slow one. When as many are stuck as may be, nothing that waits
    /// behind them is read either.
    pub fn give_up(&self, now_ms: u64) -> Vec<Answer> {
        let mut state = self.shared.lock();
        let mut late = Vec::new();
        let State { busy, held, .. } = &mut *state;
        for reading in busy.values_mut().filter(|reading| reading.pace != Pace::GivenUp) {
            let pace = self.pace(now_ms.saturating_sub(reading.since_ms));
            *held += usize::from(reading.pace == Pace::Prompt && pace != Pace::Prompt);
            reading.pace = pace;
            late.extend((pace == Pace::GivenUp).then_some(reading.device));
        }
        while self.start_thread(&mut state) {}
        if state.are_all_given_up() && state.held >= STUCK_THREADS_MAX {
            late.extend(state.jobs.drain(..).map(|job| job.device));
        }
        let answer = |device| Answer { device, outcome: Outcome::TimedOut };
        late.into_iter().map(answer).collect()
    }

    fn pace(&self, took_ms: u64) -> Pace {
        match took_ms {
            took_ms if took_ms >= self.timeout_ms => Pace::GivenUp,
            took_ms if took_ms >= SLOW_MS => Pace::Slow,
            _ => Pace::Prompt,
        }
    }

    /// When [`Readers::give_up`] may have something to do, in the same milliseconds. A job that no
    /// thread has taken yet cannot be late before a whole timeout from now.
    pub fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        let state = self.shared.lock();
        let is_waited_behind = !state.jobs.is_empty();
        let deadline = |reading: &Reading| {
            let ms = match reading.pace {
                Pace::GivenUp => return None,
                Pace::Prompt if is_waited_behind => SLOW_MS.min(self.timeout_ms),
                _ => self.timeout_ms,
            };
            Some(reading.since_ms.saturating_add(ms))
        };
        let queued = is_waited_behind.then(|| now_ms.saturating_add(self.timeout_ms));
        state.busy.values().filter_map(deadline).chain(queued).min()
    }
}

impl State {
    /// No read is under way that somebody waits for.
    fn are_all_given_up(&self) -> bool {
        self.busy.values().all(|reading| reading.pace == Pace::GivenUp)
    }
}

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
        let goes_on = finish(shared, id);
        // Nobody listens any more: the daemon ends.
        let _ = sender.send(Answer { device: job.device, outcome });
        shared.done.notify();
        if !goes_on {
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
            let reading = Reading { device: job.device, since_ms: now_ms(), pace: Pace::Prompt };
            state.busy.insert(id, reading);
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

fn now_ms() -> u64 {
    warren_sys::time::monotonic_ns() / 1_000_000
}

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(5);

/// A read is over; false when others are in this thread's place.
fn finish(shared: &Shared, id: u64) -> bool {
    let mut state = shared.lock();
    let reading = state.busy.remove(&id);
    if reading.is_some_and(|reading| reading.pace != Pace::Prompt) {
        state.held -= 1;
    }
    let goes_on = state.threads - state.held <= READERS;
    state.threads -= usize::from(!goes_on);
    goes_on
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
