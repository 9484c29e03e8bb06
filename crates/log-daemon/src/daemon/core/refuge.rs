//! When the device of the store on disk has given up (EIO, a file system that is read-only now), says nothing
//! or has no room: what comes, and what was not known to be durable, is kept in memory until it takes files again.
//!
//! Bytes that were written and not synced may still come to the device. Their entries are kept in
//! memory now, so on the way back the logs are cut to what was durable: nothing is there twice. What is
//! to be cut and that the disk is to be tried outlives the daemon ([`Mark`]).
//!
//! Who mends a file system unmounts it first. What it was mounted on is not the disk: messages that go there are hidden
//! as soon as it is mounted again.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use crate::daemon::clock::now_us;
use crate::daemon::core::Core;
use crate::daemon::core::mark::Mark;
use crate::daemon::keep::Keep;
use crate::daemon::mirrors::Mirrors;
use crate::daemon::pending::Pending;
use crate::daemon::places::{Place, Places};
use crate::daemon::syncer::Syncer;
use warren_log_store::error::{Error, Result};
use warren_log_store::files::{Disk, Files};
use warren_log_store::store::names::FileName;
use warren_log_store::store::{LeftLog, Remains};

/// The disk is tried after so long, and after twice as long each time, µs.
const WAIT_MIN_US: u64 = 1_000_000;
const WAIT_MAX_US: u64 = 64_000_000;

/// A disk that was good for so long is tried soon again, µs.
const GOOD_US: u64 = 3_600_000_000;

/// So much more room than for what is kept in memory makes a disk worth going back to.
const SPARE_BYTES: u64 = 1 << 20;
const SPARE_FILES: u64 = 16;

/// How it stands with a disk that has given up.
#[derive(Debug, Default)]
pub struct Refuge {
    /// Why what was written last has failed, if the disk is to be left for that.
    is_wanted: Option<String>,
    /// When the disk is tried again, monotonic µs.
    due_us: Option<u64>,
    /// How long was waited the last time, µs.
    wait_us: u64,
    /// When it gave up the last time, monotonic µs.
    since_us: u64,
    /// It is being tried, by a thread that may wait for it.
    trial: Option<Receiver<bool>>,
    /// Logs that were left, and how much of each was durable, bytes.
    logs: Vec<(FileName, u64)>,
    /// The devices of what the disk was mounted on.
    beneath: Vec<u64>,
    /// What the next daemon would find of this.
    kept: Mark,
    /// Why the disk was not had the last time, which is said once.
    refusal: Option<String>,
}

impl Refuge {
    /// When the disk is to be tried, monotonic µs.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    fn cancel(&mut self) {
        (self.due_us, self.trial) = (None, None);
    }

    fn mark(&self) -> Mark {
        Mark { tries: self.tries(), logs: self.logs.clone(), beneath: self.beneath.clone() }
    }

    /// Whether the disk is to be tried, or is being tried.
    fn tries(&self) -> bool {
        self.due_us.is_some() || self.trial.is_some()
    }

    fn hasten(&mut self, now: u64) {
        self.wait_us = 0;
        self.due_us = self.due_us.map(|due| due.min(now + WAIT_MIN_US));
    }

    fn wait(&mut self, now: u64) {
        self.wait_us = (2 * self.wait_us).clamp(WAIT_MIN_US, WAIT_MAX_US);
        self.due_us = Some(now + self.wait_us);
    }
}

impl Core {
    /// Takes notice of an error of the store that is open.
    pub(super) fn judge_disk(&mut self, error: &Error) {
        let is_there = self.has_place(Place::Persistent) && self.places.has_volatile();
        if is_there && (error.is_of_device() || error.is_of_room()) {
            self.refuge.is_wanted = Some(error.to_string());
        }
    }

    /// Goes from a disk that has given up to memory, with everything that it may not have; true when
    /// that was done.
    pub(super) fn leave_dead_disk(&mut self) -> bool {
        let Some(why) = self.refuge.is_wanted.clone() else { return false };
        let answers = self.wait_for_disk().is_ok() && !self.door.hangs();
        if !self.forget_syncs() {
            return false;
        }
        self.refuge.is_wanted = None;
        let keep = match self.opening().open(Place::Volatile) {
            Ok(Some((keep, _))) => keep,
            Ok(None) => return false,
            Err(e) => {
                self.trouble(&e);
                return false;
            }
        };
        let now = now_us();
        if now - self.refuge.since_us > GOOD_US {
            self.refuge.wait_us = 0;
        }
        self.refuge.since_us = now;
        self.try_again();
        if let Err(e) = self.places.remember(Place::Volatile) {
            // The next daemon begins with the disk.
            warren_sys::tell!("warren-journald: {e}");
        }
        self.mirror.iter_mut().for_each(Mirrors::flush);
        if let Some(dead) = self.keep.replace(keep) {
            self.take_from(
                dead,
                if answers { self.config.disk_patience() } else { Duration::ZERO },
            );
        }
        self.warn(&format!("Cannot write to disk; keeping messages in memory: {why}"));
        self.flush_or_say();
        if self.unwritten_us.is_none() {
            // Not before what is cut from the disk outlives this process elsewhere.
            self.keep_mark();
        }
        true
    }

    /// What comes of syncs that a disk has not answered is about a store that is not there any more. False when there
    /// is nobody for those of the next one.
    pub(super) fn forget_syncs(&mut self) -> bool {
        if self.syncer.is_idle() {
            return true;
        }
        match Syncer::start(self.event.clone()) {
            Ok(syncer) => self.syncer = syncer,
            Err(e) => {
                self.trouble(&e);
                return false;
            }
        }
        true
    }

    /// Closes the logs that are open, of a disk that gives up just now those in memory.
    pub fn rotate_last(&mut self) -> Result<()> {
        match self.rotate() {
            Err(_) if self.leave_dead_disk() => self.rotate(),
            rotated => rotated,
        }
    }

    fn take_from(&mut self, mut dead: Keep, patience: Duration) {
        self.refuge.beneath = std::mem::take(&mut dead.beneath);
        let logs = self.take_again(dead.end(patience));
        self.refuge.logs = logs.into_iter().map(|log| (log.name, log.durable)).collect();
    }

    /// Takes again what a store had that may be on no device; gives the logs that have a part of it.
    pub(super) fn take_again(&mut self, left: Remains) -> Vec<LeftLog> {
        // The mirror and the memory for the next daemon have them.
        let pending = std::mem::replace(&mut self.pending, Pending::none());
        let mirror = self.mirror.take();
        for (class, entry) in left.entries {
            self.append_at(&class, &entry.stamp, &entry.context, &entry.fields);
            if self.keep.as_ref().is_some_and(|keep| keep.store.wants_flush()) {
                self.flush_or_say();
            }
        }
        (self.pending, self.mirror) = (pending, mirror);
        left.logs
    }

    /// Whether a disk that had given up takes files again; it is tried when it is time.
    pub fn disk_is_back(&mut self) -> bool {
        let now = now_us();
        match self.refuge.trial.as_ref().map(Receiver::try_recv) {
            Some(Ok(true)) => {
                self.refuge.trial = None;
                // Should it not be had after all.
                self.refuge.wait(now);
                return true;
            }
            // It does not answer yet: it is not asked again before it does.
            Some(Err(TryRecvError::Empty)) => return false,
            Some(Ok(false) | Err(TryRecvError::Disconnected)) => {
                self.refuge.trial = None;
                self.refuge.wait(now);
            }
            None => {}
        }
        if !self.is_due() {
            return false;
        }
        self.refuge.due_us = None;
        let (answer, trial) = channel();
        let (places, event) = (self.places.clone(), self.event.clone());
        let beneath = self.refuge.beneath.clone();
        self.refuge.trial = Some(trial);
        self.door.post(move || {
            let is_mounted = || places.device().is_none_or(|device| !beneath.contains(&device));
            let is_good = || {
                let Ok(Some(path)) = places.directory(Place::Persistent) else { return false };
                let disk = Disk::new(path);
                disk.try_out().is_ok() && has_room(&places, &disk)
            };
            // Nobody hears it when the daemon ends.
            let _ = answer.send(is_mounted() && places.may_persist() && is_good());
            event.notify();
        });
        false
    }

    /// What is to be cut from the disk since it is kept in memory: what of it was not known to be durable.
    pub(super) fn left_logs(&self) -> &[(FileName, u64)] {
        &self.refuge.logs
    }

    /// It is tried again by the clock, whatever becomes of this process.
    pub(super) fn try_again(&mut self) {
        self.refuge.wait(now_us());
        self.keep_mark();
    }

    /// Whether it is known that the disk is to be tried, so that it matters when it is mounted.
    pub fn waits_for_disk(&self) -> bool {
        self.refuge.tries()
    }

    /// Something was mounted, which may be the disk: it is tried soon, whatever was waited before.
    pub fn hasten_trial(&mut self) {
        self.refuge.hasten(now_us());
    }

    /// It is time to try again.
    pub(super) fn is_due(&self) -> bool {
        self.refuge.due_us.is_some_and(|due| now_us() >= due)
    }

    /// The disk is left alone: somebody wants messages to be in memory.
    pub(super) fn leave_alone(&mut self) {
        self.refuge.cancel();
        self.keep_mark();
    }

    /// The store is on the disk again.
    pub(super) fn end_refuge(&mut self) {
        self.refuge.cancel();
        self.refuge.logs.clear();
        self.refuge.beneath.clear();
        self.refuge.refusal = None;
        self.keep_mark();
    }

    /// Says why messages do not go to the disk, once for as long as it is the same.
    pub(super) fn note_refusal(&mut self, error: &Error) {
        let text = error.to_string();
        if self.refuge.refusal.as_ref() != Some(&text) {
            self.note(&format!("Cannot write to disk; messages stay in memory: {text}"));
            self.refuge.refusal = Some(text);
        }
    }

    /// Leaves to the next daemon how it stands.
    fn keep_mark(&mut self) {
        let mark = self.refuge.mark();
        if mark == self.refuge.kept {
            return;
        }
        match self.places.remember_refuge(&mark.to_string()) {
            Ok(()) => self.refuge.kept = mark,
            // The next daemon goes by what there is.
            Err(e) => warren_sys::tell!("warren-journald: {e}"),
        }
    }

    /// Goes on with what the last daemon left.
    pub(super) fn take_up_mark(&mut self) {
        let mark = Mark::parse(&self.places.refuge());
        if mark.tries {
            self.refuge.wait(now_us());
        }
        self.refuge.logs = mark.logs.clone();
        self.refuge.beneath = mark.beneath.clone();
        self.refuge.kept = mark;
    }
}

/// Whether all that is kept in memory has room on the disk, with something to spare: else the disk would be left
/// again at once.
fn has_room(places: &Places, disk: &Disk) -> bool {
    let Ok(Some(memory)) = places.directory(Place::Volatile) else { return true };
    let listing = Disk::new(memory).list().unwrap_or_default();
    let bytes: u64 = listing.iter().map(|file| file.bytes).sum();
    let stat = rustix::fs::statvfs(disk.directory());
    // Root may have all of it. Some file systems do not count their inodes.
    stat.is_ok_and(|stat| {
        let has_files = stat.f_files == 0 || stat.f_ffree >= SPARE_FILES;
        has_files && stat.f_bfree.saturating_mul(stat.f_frsize) >= bytes + SPARE_BYTES
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_mounts_it_does_not_wait_for_the_next_turn_of_the_clock() {
        let mut refuge = Refuge::default();
        refuge.hasten(0);
        assert!(!refuge.tries(), "nobody waits for a disk");
        (0..10).for_each(|_| refuge.wait(0));
        assert_eq!(refuge.due_us, Some(WAIT_MAX_US));
        refuge.hasten(5);
        // However much is mounted, it is tried once a second at most, and does not wait for the end of it.
        refuge.hasten(7);
        assert_eq!(refuge.due_us, Some(5 + WAIT_MIN_US));
        refuge.wait(10);
        assert_eq!(refuge.due_us, Some(10 + WAIT_MIN_US), "it begins anew");
        refuge.wait(10);
        assert_eq!(refuge.due_us, Some(10 + 2 * WAIT_MIN_US));
    }
}
