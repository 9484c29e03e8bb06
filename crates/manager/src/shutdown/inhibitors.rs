//! Inhibitor locks: a program is doing something that a shutdown would spoil. A lock is held by an open
//! connection of the control socket and is gone with it, so that none is forgotten.
//!
//! An end that is asked for over the control socket is refused while there are locks, unless its
//! asker says that they do not count; one that was planned waits for them. What is asked for over
//! systemd's interface is not held up, as with systemd itself, where the locks are another
//! program's.
//!
//! Who holds a lock takes it again from a manager that comes in this one's place. Until then it counts as
//! held, by a file: a shutdown must not slip through in between.

use crate::published::locks::{LOCKS_MAX, Lock};
use crate::published::orders::Order;
use crate::published::shared::Shared;
use std::sync::Arc;
use warren_core::protocol::request::Asker;
use warren_wire::control::Inhibit;

/// Bytes of `who` and `why` that are kept.
const TEXT_BYTES_MAX: usize = 256;

/// A lock of one connection; it ends with this value.
pub struct LockHandle {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for LockHandle {
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
pub fn take(request: &Inhibit, asker: Asker, shared: &Arc<Shared>) -> Result<LockHandle, String> {
    let word = |given: &Option<String>, default: &str| {
        let text = given.as_deref().unwrap_or(default);
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut plain: String = plain.collect();
        plain.truncate(plain.floor_char_boundary(TEXT_BYTES_MAX));
        plain
    };
    let what = word(&request.what, "shutdown");
    if what != "shutdown" {
        return Err(format!("only shutdown can be inhibited, not {what}"));
    }
    let lock = Lock {
        who: word(&request.who, "somebody"),
        why: word(&request.why, "no reason given"),
        uid: asker.uid,
        pid: asker.pid,
    };
    let number = shared.change_locks(|locks| locks.take(lock));
    let number = number.ok_or_else(|| format!("there are {LOCKS_MAX} locks already"))?;
    Ok(LockHandle { number, shared: shared.clone() })
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
