//! What a service tells the manager that started it: sd_notify(3), and sd_watchdog_enabled(3) for when.
//!
//! A message goes to the socket that is at the path now: the manager puts a new one there when somebody fills the
//! old one with what cannot be read, so a socket that was connected before may be heard by nobody.
//! What must not be here: how a service knows that it is well, which each program does by turning its own loop.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::fdpass;

/// Tells the manager something, with descriptors; nothing without a manager.
///
/// # Errors
/// What the system says when it cannot be sent.
pub fn send(text: &str, fds: &[BorrowedFd<'_>]) -> std::io::Result<bool> {
    let Ok(path) = std::env::var("NOTIFY_SOCKET") else { return Ok(false) };
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address?)?;
    let raw = |error: crate::Error| std::io::Error::from_raw_os_error(error.errno);
    fdpass::send(socket.as_fd(), text.as_bytes(), fds).map_err(raw)?;
    Ok(true)
}

/// When the manager wants to hear next that a service is well (`WatchdogSec=`). Times are µs of any clock that is
/// never set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watchdog {
    /// Half of what the manager waits.
    every_us: u64,
    due_us: u64,
}

impl Watchdog {
    /// What this process's environment asks for; the first message is due at once.
    pub fn of_environment(now_us: u64) -> Option<Watchdog> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_others = number("WATCHDOG_PID").is_some_and(|pid| pid != std::process::id().into());
        number("WATCHDOG_USEC").filter(|_| !is_others).and_then(|us| Watchdog::new(us, now_us))
    }

    fn new(limit_us: u64, now_us: u64) -> Option<Watchdog> {
        (limit_us > 0).then(|| Watchdog { every_us: (limit_us / 2).max(1), due_us: now_us })
    }

    /// When the next message is due.
    pub fn due_us(&self) -> u64 {
        self.due_us
    }

    /// Whether it is time for one; then the next is due later.
    pub fn is_due(&mut self, now_us: u64) -> bool {
        let is_due = now_us >= self.due_us;
        if is_due {
            self.due_us = now_us + self.every_us;
        }
        is_due
    }

    /// Tells the manager, if it is time. What cannot be sent is tried again the next time.
    pub fn feed(&mut self, now_us: u64) {
        if self.is_due(now_us) {
            let _ = send("WATCHDOG=1", &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_twice_in_the_time_that_the_manager_waits() {
        assert_eq!(Watchdog::new(0, 5), None);
        let mut watchdog = Watchdog::new(1000, 5).expect("a limit");
        let told = (0..2000).filter(|now| watchdog.is_due(*now)).collect::<Vec<u64>>();
        assert_eq!(told, [5, 505, 1005, 1505]);
        assert_eq!(watchdog.due_us(), 2005);
    }
}
