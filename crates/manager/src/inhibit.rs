//! Inhibitor locks: somebody does something that an end would spoil. A lock is held by an open
//! connection of the control socket and is gone with it, so that nobody can forget one.
//!
//! An end that is asked for over the control socket is refused while there are locks, unless its
//! asker says that they do not count; one that was planned waits for them. What is asked for over
//! systemd's interface is not held up, as with systemd itself, where the locks are another
//! program's.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use warren_core::request::Asker;

use crate::orders::Order;
use crate::shared::Shared;

/// Locks at one time; each has a connection and a thread.
const LOCKS_MAX: usize = 16;

/// Bytes of `who` and `why` that are kept.
const TEXT_BYTES_MAX: usize = 256;

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
#[derive(Debug, Default)]
pub struct Locks {
    next: u64,
    held: BTreeMap<u64, Lock>,
}

impl Locks {
    /// Those that are held, the oldest first.
    pub fn all(&self) -> Vec<Lock> {
        self.held.values().cloned().collect()
    }

    fn take(&mut self, lock: Lock) -> Option<u64> {
        if self.held.len() == LOCKS_MAX {
            return None;
        }
        self.next += 1;
        self.held.insert(self.next, lock);
        Some(self.next)
    }
}

/// A lock of one connection; it ends with this value.
pub struct Held {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.change_locks(|locks| locks.held.remove(&self.number));
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
