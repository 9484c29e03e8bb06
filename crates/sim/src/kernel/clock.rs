//! The wall clock, the time zone, and stamp files of timers.

use std::collections::BTreeMap;
use std::time::Duration;

use warren_calendar::{Calendar, Zone, Zones};
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, Event, TimerFiles};

use super::Kernel;

/// The one zone that there is, besides that of the host.
const NAMED: (&str, &str) = ("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3");

/// What the wall shows and remembers.
#[derive(Debug)]
pub struct WallClock {
    /// µs by which it is ahead of the other clock.
    pub ahead_us: u64,
    /// The zone of the host.
    pub zone: Zone,
    /// When timers last elapsed, by their stamp files.
    pub stamps: BTreeMap<UnitId, u64>,
}

impl Default for WallClock {
    fn default() -> WallClock {
        WallClock { ahead_us: 0, zone: Zone::utc(), stamps: BTreeMap::new() }
    }
}

/// Reads `2026-03-28 12:00:00`, in UTC; µs since 1970.
pub fn moment(text: &str) -> Option<u64> {
    let calendar = Calendar::parse(&format!("{text} UTC")).ok()?;
    calendar.next_after(0, &Zones::default()).ok()?
}

/// Reads the rule of a zone, as in the variable TZ.
pub fn zone(rule: &str) -> Option<Zone> {
    Zone::from_rule(rule)
}

impl Kernel {
    /// The wall clock, in µs since 1970.
    pub fn realtime(&self) -> u64 {
        self.now + self.wall.ahead_us
    }

    /// Somebody sets the wall clock.
    pub fn set_clock(&mut self, us: u64) -> Event {
        self.wall.ahead_us = us.saturating_sub(self.now);
        Event::ClockSet { slept: Duration::ZERO }
    }

    /// The machine sleeps: only the wall clock goes on.
    pub fn sleep(&mut self, slept: Duration) -> Event {
        self.wall.ahead_us += u64::try_from(slept.as_micros()).expect("no plan sleeps that long");
        Event::ClockSet { slept }
    }

    pub(super) fn look_up_timer(
        &mut self,
        id: EffectId,
        unit: UnitId,
        has_stamp: bool,
        names: Vec<Box<str>>,
    ) {
        if self.random.chance(self.faults.listen) {
            return self.answer(id, Done::Failed { error: "no such disk".to_owned() });
        }
        let stamp_us = self.wall.stamps.get(&unit).copied().filter(|_| has_stamp);
        if has_stamp && stamp_us.is_none() {
            self.wall.stamps.insert(unit, self.realtime());
        }
        let zone = |name: &str| (name == NAMED.0).then(|| Zone::from_rule(NAMED.1)).flatten();
        let zones = names.into_iter().map(|name| (name.clone(), zone(&name))).collect();
        self.answer(id, Done::TimerFiles(TimerFiles { stamp_us, zones }));
    }
}
