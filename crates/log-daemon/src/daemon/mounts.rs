//! Hears that something is mounted while a disk is waited for: who mends one and mounts it again has his messages on it
//! within a second, not when the clock comes round.
//!
//! What must not be here: what is mounted where. On the receiving thread; costs nothing while the disk is good.

use std::fs::File;

use warren_sys::epoll::{Epoll, Interest};

use crate::daemon::tokens::TOKEN_MOUNTS;

/// The kernel's table of mounts, which tells by epoll(7) that it has changed (proc_pid_mountinfo(5)).
const TABLE: &str = "/proc/self/mountinfo";

/// The table of mounts, while it is watched.
#[derive(Default)]
pub struct Mounts(Option<File>);

impl Mounts {
    /// Watches while that is wanted. Where it cannot be had, the clock alone says when the disk is tried.
    pub fn watch(&mut self, epoll: &Epoll, is_wanted: bool) {
        if is_wanted == self.0.is_some() {
            return;
        }
        if let Some(table) = self.0.take() {
            let _ = epoll.remove(&table);
            return;
        }
        let table = File::open(TABLE).ok();
        self.0 = table.filter(|table| epoll.add(table, TOKEN_MOUNTS, Interest::PRIORITY).is_ok());
    }
}
