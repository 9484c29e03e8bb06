//! eventfd(2) and timerfd(2): waking an epoll loop from elsewhere and at a time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::error::{Context, Result};

/// A counter that makes its fd readable while it is not zero. Non-blocking.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A new one at zero.
    pub fn new() -> Result<EventFd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        rustix::event::eventfd(0, flags).call("eventfd").map(EventFd)
    }

    /// One that was received from another process.
    pub fn from_fd(fd: OwnedFd) -> EventFd {
        EventFd(fd)
    }

    /// Makes it readable. A full counter is readable already, so this cannot fail in effect.
    pub fn notify(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Back to zero; true when it was not.
    pub fn clear(&self) -> bool {
        let mut count = [0u8; 8];
        matches!(rustix::io::read(&self.0, &mut count), Ok(8))
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Which clock a [`TimerFd`] follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// CLOCK_MONOTONIC: stands still while the machine sleeps.
    Monotonic,
    /// CLOCK_REALTIME. Also becomes readable (as cancelled) when the clock is set.
    Realtime,
    /// CLOCK_BOOTTIME_ALARM: goes on while the machine sleeps, and wakes it. Wants CAP_WAKE_ALARM and a clock that can.
    BoottimeAlarm,
}

/// A one-shot timer with an absolute time. Non-blocking.
#[derive(Debug)]
pub struct TimerFd {
    fd: OwnedFd,
    clock: Clock,
}

impl TimerFd {
    /// A new one, not armed.
    pub fn new(clock: Clock) -> Result<TimerFd> {
        let id = match clock {
            Clock::Monotonic => TimerfdClockId::Monotonic,
            Clock::Realtime => TimerfdClockId::Realtime,
            Clock::BoottimeAlarm => TimerfdClockId::BoottimeAlarm,
        };
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(id, flags).call("timerfd_create")?;
        Ok(TimerFd { fd, clock })
    }

    /// Arms it for this time of its clock in nanoseconds (one in the past is due at once), or
    /// disarms it.
    pub fn set(&self, at_ns: Option<u64>) -> Result<()> {
        let at = at_ns.map_or(0, |ns| ns.max(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value =
            Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as _ };
        let mut flags = TimerfdTimerFlags::ABSTIME;
        if self.clock == Clock::Realtime {
            flags |= TimerfdTimerFlags::CANCEL_ON_SET;
        }
        let spec = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(&self.fd, flags, &spec).call("timerfd_settime").map(|_| ())
    }

    /// Takes note of what made it readable.
    pub fn read(&self) -> Result<Expiry> {
        let mut count = [0u8; 8];
        match rustix::io::read(&self.fd, &mut count) {
            Ok(_) => Ok(Expiry::Due),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Expiry::NotYet),
            Err(rustix::io::Errno::CANCELED) => Ok(Expiry::ClockSet),
            Err(e) => Err(e).call("read timerfd"),
        }
    }
}

/// Why a timer's fd was readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Its time has come.
    Due,
    /// It was not.
    NotYet,
    /// The real-time clock was set; the timer must be armed again.
    ClockSet,
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eventfd_is_set_once_and_cleared_once() {
        let e = EventFd::new().expect("eventfd");
        assert!(!e.clear());
        e.notify();
        e.notify();
        assert!(e.clear());
        assert!(!e.clear());
    }

    #[test]
    fn a_timer_of_the_past_is_due_at_once() {
        let t = TimerFd::new(Clock::Monotonic).expect("timerfd");
        assert_eq!(t.read(), Ok(Expiry::NotYet));
        t.set(Some(0)).expect("armed");
        assert_eq!(t.read(), Ok(Expiry::Due));
        t.set(Some(u64::MAX / 2)).expect("armed");
        assert_eq!(t.read(), Ok(Expiry::NotYet));
        t.set(None).expect("disarmed");
        assert_eq!(t.read(), Ok(Expiry::NotYet));
    }
}
