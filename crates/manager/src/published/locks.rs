//! The inhibitor locks that are held, and the file that has them over a change of managers.

use crate::base::replace_file::replace;
use crate::base::say::say;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warren_core::protocol::request::Asker;
use warren_wire::control::InhibitorLock;

/// Locks at one time; each has a connection and a thread.
pub(crate) const LOCKS_MAX: usize = 16;

/// Who held a lock when the manager was replaced has so long to take it again.
pub(crate) const TAKEN_AGAIN_WITHIN: Duration = Duration::from_secs(10);

/// More is no list of locks.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 16;

/// One lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Who holds it, in its own words.
    pub who: String,
    /// What for.
    pub why: String,
    /// Its user.
    pub uid: u32,
    /// Its process.
    pub pid: u32,
}

/// All locks.
#[derive(Debug)]
pub struct Locks {
    next: u64,
    held: BTreeMap<u64, Lock>,
    /// Held when an earlier manager ended, and not taken again so far.
    awaited: Vec<Lock>,
    /// They count until then.
    awaited_until: Instant,
    file: PathBuf,
}

impl Locks {
    /// None is held; those that a file has of an earlier manager are waited for.
    pub fn in_file(file: PathBuf) -> Locks {
        let awaited = read(&file);
        let awaited_until = Instant::now() + TAKEN_AGAIN_WITHIN;
        Locks { next: 0, held: BTreeMap::new(), awaited, awaited_until, file }
    }

    /// Those that are held, the oldest first.
    pub fn all(&self) -> Vec<Lock> {
        let awaited = self.awaited.iter().filter(|_| Instant::now() < self.awaited_until);
        awaited.chain(self.held.values()).cloned().collect()
    }

    /// When those that nobody has taken again do not count any more.
    pub fn awaited_until(&self) -> Option<Instant> {
        (!self.awaited.is_empty()).then_some(self.awaited_until)
    }

    pub(crate) fn take(&mut self, lock: Lock) -> Option<u64> {
        if self.held.len() == LOCKS_MAX {
            return None;
        }
        if let Some(again) = self.awaited.iter().position(|awaited| *awaited == lock) {
            self.awaited.remove(again);
        }
        self.next += 1;
        self.held.insert(self.next, lock);
        self.write();
        Some(self.next)
    }

    pub(crate) fn release(&mut self, number: u64) {
        self.held.remove(&number);
        self.write();
    }

    fn write(&self) {
        let text = serde_json::to_string(&answers(&self.all())).expect("texts and numbers");
        let written = replace(&self.file, &text);
        if let Err(e) = written {
            say!(
                "{}: {e}: some inhibitor locks will be lost when the manager restarts",
                self.file.display()
            );
        }
    }
}

/// What [`Locks::write`] wrote; nothing where that cannot be read.
pub(crate) fn read(file: &Path) -> Vec<Lock> {
    let is_small = std::fs::metadata(file).is_ok_and(|file| file.len() <= FILE_BYTES_MAX);
    let text = is_small.then(|| std::fs::read_to_string(file).ok()).flatten();
    let all: Option<Vec<InhibitorLock>> = text.and_then(|text| serde_json::from_str(&text).ok());
    let one = |lock: InhibitorLock| Lock {
        who: lock.who,
        why: lock.why,
        uid: lock.uid,
        pid: lock.pid.unwrap_or(Asker::OUTSIDE),
    };
    all.unwrap_or_default().into_iter().map(one).take(LOCKS_MAX).collect()
}

/// As clients are answered, and as the file has them.
pub fn answers(locks: &[Lock]) -> Vec<InhibitorLock> {
    let one = |lock: &Lock| InhibitorLock {
        who: lock.who.clone(),
        why: lock.why.clone(),
        uid: lock.uid,
        pid: (lock.pid != Asker::OUTSIDE).then_some(lock.pid),
    };
    locks.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::scratch::Scratch;

    #[test]
    fn locks_of_an_earlier_manager_count_until_they_are_taken_again() {
        let scratch = Scratch::new("locks");
        let file = scratch.0.join("locks");
        let lock = |who: &str, pid| Lock { who: who.into(), why: "x".into(), uid: 0, pid };
        let mut before = Locks::in_file(file.clone());
        assert!(before.all().is_empty());
        let (backup, outside) = (lock("backup", 7), lock("outside", Asker::OUTSIDE));
        before.take(backup.clone()).expect("room for a lock");
        let second = before.take(outside.clone()).expect("room for a lock");
        let third = before.take(lock("short", 8)).expect("room for a lock");
        before.release(third);
        // The manager is killed.
        let mut now = Locks::in_file(file.clone());
        assert_eq!(now.all(), [backup.clone(), outside.clone()]);
        now.take(backup.clone()).expect("room for a lock");
        assert_eq!(now.all(), [outside, backup.clone()]);
        now.awaited_until = Instant::now();
        assert_eq!(now.all(), std::slice::from_ref(&backup), "who does not come back has no lock");
        before.release(second);
        std::fs::write(&file, "[{}, 7").expect("it can be written");
        assert!(Locks::in_file(file).all().is_empty());
    }
}
