//! The third thread: seals, merges and vacuums, and reports what went wrong.
//!
//! A thin shell around [`warren_log_store::store::upkeep`], [`warren_log_store::store::vacuum`] and [`warren_log_store::ledger`]. A log that cannot
//! be sealed now is tried again with the next one; it is readable as it is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use warren_sys::eventfd::EventFd;
use warren_sys::time;

use warren_log_store::entry::Id128;
use warren_log_store::error::{Error, Result};
use warren_log_store::files::{Disk, Files};
use warren_log_store::ledger::book::Book;
use warren_log_store::store::age::{Clock, Trust, Uptime};
use warren_log_store::store::names::{Catalogue, FileName, SegmentName, TEMPORARY};
use warren_log_store::store::upkeep::{MergeBounds, merge_all, seal};
use warren_log_store::store::vacuum::{Limits, Vacuumed, vacuum};

/// What a directory may hold.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// What is removed.
    pub limits: Limits,
    /// What is joined.
    pub merge: MergeBounds,
    /// So long a wall clock has not jumped before it is believed how old files are, µs.
    pub trust_us: u64,
    /// What is left for the log at the beginning, bytes.
    pub room_bytes: u64,
}

/// What is to be done: closed logs to be sealed, and who is to be told afterwards.
#[derive(Default)]
struct Job {
    logs: Vec<FileName>,
    then: Option<Box<dyn FnOnce() + Send>>,
}

/// The handle of the thread.
pub struct Upkeep {
    jobs: Option<Sender<Job>>,
    reports: Receiver<String>,
    thread: Option<JoinHandle<()>>,
    /// Hung up when the thread ends.
    ended: Receiver<()>,
    interval_us: Option<u64>,
    /// What is left for the log, as far as was looked, bytes.
    room_bytes: Arc<AtomicU64>,
}

impl Upkeep {
    /// Starts the thread for a directory that is held and locked, for as long as the thread is at work. `event`
    /// becomes readable when there are reports.
    pub fn start(
        files: Arc<Disk>,
        lock: std::fs::File,
        (machine, boot): (Id128, Id128),
        bounds: Bounds,
        book: Option<Book>,
        event: Arc<EventFd>,
    ) -> Result<Upkeep> {
        let interval_us = book.as_ref().map(Book::interval_us);
        let room_bytes = Arc::new(AtomicU64::new(bounds.room_bytes));
        let room = room_bytes.clone();
        let (jobs, inbox) = channel();
        let (outbox, reports) = channel();
        let report = move |text: String| {
            // The other end is gone only when the process ends.
            let _ = outbox.send(text);
            event.notify();
        };
        let (end, ended) = channel();
        let work = move || {
            work((&files, book), &inbox, (machine, boot), (&bounds, &room), &report);
            drop((lock, end));
        };
        let thread = std::thread::Builder::new()
            .name("upkeep".to_owned())
            .spawn(work)
            .map_err(|e| Error::io("spawn", "upkeep", &e))?;
        let (jobs, thread) = (Some(jobs), Some(thread));
        Ok(Upkeep { jobs, reports, thread, ended, interval_us, room_bytes })
    }

    /// Length of an epoch of the ledger, µs; without a ledger none.
    pub fn interval_us(&self) -> Option<u64> {
        self.interval_us
    }

    /// What is left for the log, as far as was looked, bytes.
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes.load(Ordering::Relaxed)
    }

    /// Asks for room: what is over the limits is removed.
    pub fn make_room(&self) {
        self.seal(Vec::new());
    }

    /// Hands over closed logs. Their number is bounded by what the disk can take: each is a file.
    pub fn seal(&self, logs: Vec<FileName>) {
        self.give(Job { logs, then: None });
    }

    /// Has something done when all that was asked for before is.
    pub fn when_done(&self, then: impl FnOnce() + Send + 'static) {
        self.give(Job { then: Some(Box::new(then)), ..Job::default() });
    }

    fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // A thread that panicked leaves the logs, which the next start seals.
            let _ = jobs.send(job);
        }
    }

    /// What was reported since the last call.
    pub fn reports(&self) -> Vec<String> {
        self.reports.try_iter().collect()
    }

    /// Comes back when everything that was handed over is done, or when that takes too long: then it is
    /// done whenever the disk answers, and the directory stays locked until then.
    pub fn finish(&mut self, patience: Duration) {
        self.jobs = None;
        let Some(thread) = self.thread.take() else { return };
        if self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            warren_sys::tell!("warren-journald: maintenance of the log is still running");
        } else if thread.join().is_err() {
            warren_sys::tell!(
                "warren-journald: maintenance of the log failed; the next start repeats it"
            );
        }
    }
}

fn work(
    (files, mut book): (&Disk, Option<Book>),
    inbox: &Receiver<Job>,
    (machine, boot): (Id128, Id128),
    (bounds, room): (&Bounds, &AtomicU64),
    report: &dyn Fn(String),
) {
    let (mut waiting, mut damaged) = (Vec::<FileName>::new(), BTreeSet::new());
    let (mut ageless, mut trust) = (BTreeSet::new(), Trust::after(bounds.trust_us));
    // What is free is too little, and it was said.
    let mut is_short = false;
    while let Ok(Job { logs, then }) = inbox.recv() {
        waiting.extend(logs);
        waiting.retain(|log| match seal(files, log, machine, new_id()) {
            Ok(sealed) => {
                sealed.lost.iter().for_each(|bytes| {
                    report(format!("{log} is damaged from byte {} to {}", bytes.start, bytes.end));
                });
                false
            }
            Err(e) => {
                report(format!("Cannot seal {log}, will retry: {e}"));
                drop_temporaries(files);
                !e.is_gone()
            }
        });
        // What is proved stays as it is.
        if book.is_none() {
            merge(files, machine, bounds, &mut damaged, report);
        }
        let clock = read_clocks(boot, &mut trust);
        match vacuum(files, &bounds.limits, &clock) {
            Err(e) => report(format!("Cannot remove old files now: {e}")),
            Ok(Vacuumed { unreadable, for_space, short_by, .. }) => {
                if for_space > 0 {
                    report(format!(
                        "Removed the oldest messages ({for_space} files): the file system has less free space than \
                         KeepFree="
                    ));
                }
                if short_by > 0 && !is_short {
                    let missing = short_by >> 10;
                    report(format!(
                        "The file system has less free space than KeepFree=; removing all old messages would still \
                         leave {missing} KB too little, so none are removed"
                    ));
                }
                is_short = short_by > 0;
                let fresh = unreadable.into_iter().map(|e| e.to_string());
                let fresh = fresh.filter(|text| ageless.insert(text.clone()));
                fresh.for_each(|text| report(format!("Cannot tell the age of a file: {text}")));
            }
        }
        if let Ok(bytes) = room_bytes(files, &bounds.limits) {
            room.store(bytes, Ordering::Relaxed);
        }
        if let Some(Err(e)) = book.as_mut().map(|book| book.follow(files, clock.realtime_us)) {
            report(format!("Cannot write the ledger, will retry: {e}"));
        }
        then.into_iter().for_each(|then| then());
    }
}

/// How much more the log may take, bytes.
///
/// # Errors
/// When the device does not say it.
pub fn room_bytes(files: &dyn Files, limits: &Limits) -> Result<u64> {
    let taken: u64 = files.list()?.iter().map(|file| file.bytes).sum();
    let free = files.space()?.free_bytes.saturating_sub(limits.keep_free_bytes.unwrap_or(0));
    Ok(limits.bytes_max.map_or(free, |max| free.min(max.saturating_sub(taken))))
}

fn read_clocks(boot: Id128, trust: &mut Trust) -> Clock {
    let realtime_us = time::realtime_ns() / 1000;
    let (monotonic_us, boottime_us) = (time::monotonic_ns() / 1000, time::boottime_ns() / 1000);
    let asleep_us = boottime_us.saturating_sub(monotonic_us);
    let is_trusted = trust.look(realtime_us, boottime_us);
    Clock { realtime_us, is_trusted, uptime: Some(Uptime { boot, monotonic_us, asleep_us }) }
}

fn merge(
    files: &Disk,
    machine: Id128,
    bounds: &Bounds,
    damaged: &mut BTreeSet<SegmentName>,
    report: &dyn Fn(String),
) {
    match merge_all(files, machine, &bounds.merge, &mut new_id, damaged) {
        Ok(faults) => {
            faults.iter().for_each(|fault| report(format!("Cannot merge a file: {fault}")))
        }
        Err(e) => {
            report(format!("Cannot merge files, will retry: {e}"));
            drop_temporaries(files);
        }
    }
}

/// What could not be finished takes room that it does not need. Only this thread makes such files.
fn drop_temporaries(files: &dyn Files) {
    let Ok(listing) = files.list() else { return };
    let leftovers = Catalogue::of(listing).leftovers;
    leftovers.iter().filter(|name| name.ends_with(TEMPORARY)).for_each(|name| {
        // What cannot be removed now is removed by the next start.
        let _ = files.unlink(name);
    });
}

fn new_id() -> Id128 {
    Id128(warren_sys::random::u128().to_le_bytes())
}

#[cfg(test)]
mod tests {
    use warren_log_store::entry::{Fields, Stamp};
    use warren_log_store::store::{DEFAULT_CLASS, Setup, Store};
    use warren_testkit::Scratch;

    use super::*;

    /// The disk below it was unmounted meanwhile, say, and another one mounted.
    #[test]
    fn what_comes_to_the_path_of_the_log_is_never_touched() {
        let scratch = Scratch::new("upkeep-held");
        let (path, moved) = (scratch.path("log"), scratch.path("moved"));
        std::fs::create_dir(&path).expect("made");
        let held = Arc::new(Disk::hold(&path).expect("it is there"));
        let lock = held.lock().expect("nobody else");
        let setup = Setup { machine: Id128::default(), new_id: Box::new(new_id) };
        let (mut store, _) = Store::open(held.clone(), setup).expect("an empty store");
        let fields: Fields = [("MESSAGE", "a text")].into_iter().collect();
        let stamp = Stamp { realtime_us: 1, ..Stamp::default() };
        store.append(DEFAULT_CLASS, &stamp, &Arc::default(), &fields).expect("taken");
        store.rotate().expect("closed");
        let logs = store.take_sealable();
        assert_eq!(logs.len(), 1);

        std::fs::rename(&path, &moved).expect("moved away");
        std::fs::create_dir(&path).expect("another one");
        let other = path.join(logs[0].to_string());
        std::fs::write(&other, "of another machine").expect("written");
        let bounds = Bounds {
            limits: Limits::default(),
            merge: MergeBounds::bytes(1 << 20),
            trust_us: 0,
            room_bytes: 0,
        };
        let event = Arc::new(EventFd::new().expect("made"));
        let ids = (Id128::default(), Id128::default());
        let upkeep = Upkeep::start(held, lock, ids, bounds, None, event);
        let mut upkeep = upkeep.expect("a thread");
        upkeep.seal(logs);
        upkeep.finish(Duration::MAX);
        assert_eq!(upkeep.reports(), Vec::<String>::new());
        assert_eq!(std::fs::read(&other).expect("it is as it was"), b"of another machine");
        assert_eq!(std::fs::read_dir(&path).expect("a directory").count(), 1);
        let sealed = std::fs::read_dir(&moved).expect("a directory").flatten();
        let sealed = sealed.filter(|entry| entry.path().extension().is_some_and(|e| e == "seg"));
        assert_eq!(sealed.count(), 1, "the log was sealed where it is");
    }
}
