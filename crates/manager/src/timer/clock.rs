//! The wall clock as far as timers need it: that it was set, that the machine slept, and waking it.

use std::os::fd::AsFd;
use std::time::Duration;

use warren_core::model::time::Monotonic;
use warren_sys::epoll::{Epoll, Interest};
use warren_sys::eventfd::{Clock, Expiry, TimerFd};
use warren_sys::time;

use crate::base::say::say;
use crate::base::token;

/// The clock is set so far ahead that it never comes: only that it is set tells.
const NEVER_NS: u64 = 1 << 62;

/// By which the wall clock may drift from the other one, until that counts as set: reading both takes a moment.
const APART_MAX_NS: u64 = 1_000_000;

/// The kernel's timers for units.
pub(crate) struct WallClock {
    /// Becomes readable when the clock is set; none where that cannot be heard.
    watch: Option<TimerFd>,
    /// The wall clock less the monotonic one, in ns, when that was last looked at.
    ahead_ns: u64,
    /// How long the machine has slept so far, in ns.
    slept_ns: u64,
    /// Wakes the machine.
    alarm: Option<TimerFd>,
    /// There is no clock that does.
    has_no_alarm: bool,
    /// What the alarm is set to.
    alarm_at: Option<Monotonic>,
}

fn slept_ns() -> u64 {
    // In this order the difference is never too large.
    let boot = time::boottime_ns();
    boot.saturating_sub(time::monotonic_ns())
}

fn ahead_ns() -> u64 {
    time::realtime_ns().saturating_sub(time::monotonic_ns())
}

impl WallClock {
    /// Hears of the clock from now on.
    pub(crate) fn watched(epoll: &Epoll) -> WallClock {
        let watch = || {
            let watch = TimerFd::new(Clock::Realtime)?;
            watch.set(Some(NEVER_NS))?;
            epoll.add(watch.as_fd(), token::WALL_CLOCK, Interest::READ)?;
            Ok(watch)
        };
        let watch: warren_sys::Result<TimerFd> = watch();
        if let Err(e) = &watch {
            say!("cannot watch for clock changes, so timers do not follow them: {e}");
        }
        WallClock {
            watch: watch.ok(),
            ahead_ns: ahead_ns(),
            slept_ns: slept_ns(),
            alarm: None,
            has_no_alarm: false,
            alarm_at: None,
        }
    }

    /// The clock tells something: how long the machine has slept since, if it was set or did sleep.
    pub(crate) fn hear(&mut self) -> Option<Duration> {
        if let Some(alarm) = &self.alarm {
            let _ = alarm.read();
        }
        let watch = self.watch.as_ref()?;
        if matches!(watch.read(), Ok(Expiry::ClockSet | Expiry::Due))
            && let Err(e) = watch.set(Some(NEVER_NS))
        {
            say!("cannot watch for clock changes any longer: {e}");
        }
        let (ahead_ns, slept_ns) = (ahead_ns(), slept_ns());
        let slept = slept_ns.saturating_sub(self.slept_ns);
        let is_set = ahead_ns.abs_diff(self.ahead_ns) > APART_MAX_NS;
        if !is_set && slept <= APART_MAX_NS {
            return None;
        }
        (self.ahead_ns, self.slept_ns) = (ahead_ns, slept_ns);
        Some(Duration::from_nanos(slept))
    }

    /// Has the machine woken at that time, if it sleeps then; false: there is no clock that can, and that was not
    /// said yet.
    pub(crate) fn wake_at(&mut self, at: Option<Monotonic>, epoll: &Epoll) -> bool {
        if at == self.alarm_at || self.has_no_alarm {
            return true;
        }
        self.alarm_at = at;
        if self.alarm.is_none() {
            let Some(alarm) = alarm(epoll) else {
                self.has_no_alarm = true;
                return false;
            };
            self.alarm = Some(alarm);
        }
        let at_ns = at.map(|at| at.0.saturating_mul(1000).saturating_add(slept_ns()));
        self.alarm.as_ref().is_none_or(|alarm| alarm.set(at_ns).is_ok())
    }
}

fn alarm(epoll: &Epoll) -> Option<TimerFd> {
    let alarm = TimerFd::new(Clock::BoottimeAlarm).ok()?;
    epoll.add(alarm.as_fd(), token::WALL_CLOCK, Interest::READ).ok()?;
    Some(alarm)
}
