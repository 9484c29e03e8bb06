//! `PollLimitIntervalSec=` and `PollLimitBurst=` (systemd.socket(5)): a socket in which traffic is found too often is not
//! looked at for the rest of the interval. Who comes meanwhile waits, and the unit stays up.
//!
//! Each socket of a unit is counted by itself. A manager that comes back begins to count anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use warren_core::model::ids::UnitId;
use warren_core::model::time::Monotonic;
use warren_unit::config::TriggerLimit;

use crate::base::patience::Patient;

/// One socket: its unit, and its place among the unit's.
pub(crate) type SocketPlace = (UnitId, u16);

/// An interval that has begun, and how often traffic was found in it.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Monotonic,
    count: u32,
}

/// Sockets of units with such a limit.
#[derive(Debug, Default)]
pub(crate) struct PollLimits {
    limits: BTreeMap<UnitId, TriggerLimit>,
    windows: BTreeMap<SocketPlace, Window>,
    /// Sockets that are not looked at, and until when.
    paused: BTreeMap<SocketPlace, Monotonic>,
    /// Units of which the log has heard since they were opened.
    told: BTreeSet<UnitId>,
}

/// What is done with a socket in which traffic was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// It is served.
    Serve,
    /// It is not looked at any more for so long; the log hears of the first time.
    Pause(Duration, bool),
}

impl PollLimits {
    /// Sets or takes away the limit of a unit.
    pub fn set(&mut self, unit: UnitId, limit: Option<TriggerLimit>) {
        match limit {
            Some(limit) => _ = self.limits.insert(unit, limit),
            None => self.forget(unit),
        }
    }

    /// The unit's sockets are closed, or it has no limit.
    pub fn forget(&mut self, unit: UnitId) {
        if self.limits.remove(&unit).is_some() {
            self.windows.retain(|place, _| place.0 != unit);
            self.paused.retain(|place, _| place.0 != unit);
            self.told.remove(&unit);
        }
    }

    /// Counts that traffic was found.
    pub fn found(&mut self, place: SocketPlace, now: Monotonic) -> Found {
        let Some(limit) = self.limits.get(&place.0) else { return Found::Serve };
        let fresh = Window { begin: now, count: 0 };
        let window = self.windows.entry(place).or_insert(fresh);
        if now.since(window.begin) >= limit.interval {
            *window = fresh;
        }
        if window.count < limit.burst {
            window.count += 1;
            return Found::Serve;
        }
        let until = window.begin.after(limit.interval);
        self.paused.insert(place, until);
        Found::Pause(until.since(now), self.told.insert(place.0))
    }

    /// Whether the socket is not looked at now.
    pub fn is_paused(&self, place: SocketPlace) -> bool {
        self.paused.contains_key(&place)
    }

    /// The sockets whose pause is over.
    pub fn take_over(&mut self, now: Monotonic) -> Vec<SocketPlace> {
        self.paused.extract_if(.., |_, until| *until <= now).map(|(place, _)| place).collect()
    }
}

impl Patient for PollLimits {
    fn deadline(&self) -> Option<Monotonic> {
        self.paused.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: UnitId = UnitId(7);

    fn at(seconds: u64) -> Monotonic {
        Monotonic(seconds * 1_000_000)
    }

    fn limits(burst: u32) -> PollLimits {
        let mut limits = PollLimits::default();
        limits.set(UNIT, Some(TriggerLimit { interval: Duration::from_secs(10), burst }));
        limits
    }

    #[test]
    fn a_socket_is_paused_for_the_rest_of_its_interval() {
        let mut limits = limits(2);
        let pause = |seconds, told| Found::Pause(Duration::from_secs(seconds), told);
        let found: Vec<Found> =
            [100, 103, 104].map(|second| limits.found((UNIT, 0), at(second))).into();
        assert_eq!(found, [Found::Serve, Found::Serve, pause(6, true)]);
        assert!(limits.is_paused((UNIT, 0)) && !limits.is_paused((UNIT, 1)));
        assert_eq!(limits.found((UNIT, 1), at(104)), Found::Serve, "each counts by itself");
        assert_eq!((limits.deadline(), limits.take_over(at(109))), (Some(at(110)), vec![]));
        assert_eq!(limits.take_over(at(110)), [(UNIT, 0)]);
        let found: Vec<Found> =
            [110, 111, 112].map(|second| limits.found((UNIT, 0), at(second))).into();
        assert_eq!(found, [Found::Serve, Found::Serve, pause(8, false)]);
    }

    #[test]
    fn what_is_closed_or_has_no_limit_is_forgotten() {
        let mut limits = limits(1);
        limits.found((UNIT, 0), at(100));
        limits.found((UNIT, 0), at(100));
        limits.set(UNIT, None);
        assert!(!limits.is_paused((UNIT, 0)) && limits.deadline().is_none());
        assert_eq!(limits.found((UNIT, 0), at(100)), Found::Serve);
        assert!(limits.windows.is_empty());
    }
}
