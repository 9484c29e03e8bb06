//! Inhibitor locks: somebody does something that an end would spoil. A lock is held by an open
//! connection of the control socket and is gone with it, so that nobody can forget one.
//!
//! An end that is asked for over the control socket is refused while there are locks, unless its
//! asker says that they do not count; one that was planned waits for them. What is asked for over
//! systemd's interface is not held up, as with systemd itself, where the locks are another
//! program's.
//!
//! Who holds a lock takes it again from a manager that comes in this one's place. Until then it counts as
//! held, by a file: an end must not slip through in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warren_core::protocol::request::Asker;

use crate::ending::plan::replace;
use crate::orders::Order;
use crate::say;
use crate::shared::Shared;

/// Locks at one time; each has a connection and a thread.
const LOCKS_MAX: usize = 16;

/// Bytes of `who` and `why` that are kept.
const TEXT_BYTES_MAX: usize = 256;

/// Who held a lock when the manager was replaced has so long to take it again.
const TAKEN_AGAIN_WITHIN: Duration = Duration::from_secs(10);

/// More is no list of locks.
const FILE_BYTES_MAX: u64 = 1 << 16;

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

    fn take(&mut self, lock: Lock) -> Option<u64> {
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

    fn release(&mut self, number: u64) {
        self.held.remove(&number);
        self.write();
    }

    fn write(&self) {
        let written = replace(&self.file, &value(&self.all()).to_string());
        if let Err(e) = written {
            say!("{}: {e}: the next manager will not know of all locks", self.file.display());
        }
    }
}

/// What [`Locks::write`] wrote; nothing where that cannot be read.
fn read(file: &Path) -> Vec<Lock> {
    let is_small = std::fs::metadata(file).is_ok_and(|file| file.len() <= FILE_BYTES_MAX);
    let text = is_small.then(|| std::fs::read_to_string(file).ok()).flatten();
    let all: Option<Vec<Value>> = text.and_then(|text| serde_json::from_str(&text).ok());
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let one = |lock: &Value| {
        Some(Lock {
            who: lock["who"].as_str()?.to_owned(),
            why: lock["why"].as_str()?.to_owned(),
            uid: number(&lock["uid"])?,
            pid: number(&lock["pid"]).unwrap_or(Asker::OUTSIDE),
        })
    };
    all.unwrap_or_default().iter().filter_map(one).take(LOCKS_MAX).collect()
}

/// A lock of one connection; it ends with this value.
pub struct Held {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.change_locks(|locks| locks.release(self.number));
        // An end that waits for it can go on.
        self.shared.order(Order::Unlocked);
    }
}

/// Takes a lock for a connection.
///
/// # Errors
/// Anything but `shutdown` to inhibit, or too many locks.
pub fn take(parameters: &Value, asker: Asker, shared: &Arc<Shared>) -> Result<Held, String> {
    let word = |key: &str, default: &str| {
        let text = parameters[key].as_str().unwrap_or(default);
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut plain: String = plain.collect();
        plain.truncate(plain.floor_char_boundary(TEXT_BYTES_MAX));
        plain
    };
    let what = word("what", "shutdown");
    if what != "shutdown" {
        return Err(format!("only shutdown can be inhibited, not {what}"));
    }
    let lock = Lock {
        who: word("who", "somebody"),
        why: word("why", "no reason given"),
        uid: asker.uid,
        pid: asker.pid,
    };
    let number = shared.change_locks(|locks| locks.take(lock));
    let number = number.ok_or_else(|| format!("there are {LOCKS_MAX} locks already"))?;
    Ok(Held { number, shared: shared.clone() })
}

/// For people: who holds locks, and what for.
pub fn line(locks: &[Lock]) -> String {
    let holder = |lock: &Lock| match lock.pid {
        Asker::OUTSIDE => "from outside".to_owned(),
        pid => format!("pid {pid}"),
    };
    let one = |lock: &Lock| format!("{} ({}): {}", lock.who, holder(lock), lock.why);
    locks.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// For programs.
pub fn value(locks: &[Lock]) -> Value {
    let one = |lock: &Lock| json!({"who": lock.who, "why": lock.why, "uid": lock.uid, "pid": (lock.pid != Asker::OUTSIDE).then_some(lock.pid)});
    locks.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

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
