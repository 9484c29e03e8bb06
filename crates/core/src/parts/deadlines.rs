//! When units want to be looked at: one deadline for each, the earliest of its own.

use crate::model::ids::UnitId;
use crate::model::state::{Mount, Scope, Service, Socket, Timer, TypeState, UnitRun};
use crate::model::time::Monotonic;
use crate::parts::units::Units;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// When a stop that failed is tried again, if the unit is still bound to something gone, or unneeded.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The deadlines of all units.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    by_time: BTreeSet<(Monotonic, UnitId)>,
    /// The one deadline of each unit that has one.
    armed: BTreeMap<UnitId, Monotonic>,
    /// Of these, those of timers that wake the machine.
    waking: BTreeSet<(Monotonic, UnitId)>,
    /// Units that standing relations are looked at again for: to be upheld, or to return by a rule,
    /// once their start limit allows it; to be stopped once more because the last stop failed.
    pub upheld_again: BTreeMap<UnitId, Monotonic>,
}

impl Deadlines {
    /// The earliest deadline of all units.
    pub fn next(&self) -> Option<Monotonic> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// The earliest deadline that a machine that sleeps is to be woken for.
    pub fn next_waking(&self) -> Option<Monotonic> {
        self.waking.first().map(|(at, _)| *at)
    }

    /// The next unit whose deadline is not after `now`; it has none afterwards, until it is armed again.
    pub fn pop_due(&mut self, now: Monotonic) -> Option<UnitId> {
        let unit = self.by_time.first().filter(|(at, _)| *at <= now).map(|(_, unit)| *unit)?;
        let due = self.by_time.pop_first();
        due.map(|due| self.waking.remove(&due));
        self.armed.remove(&unit);
        Some(unit)
    }

    /// Whether standing relations of the unit are due to be looked at again; they are not any more afterwards.
    pub fn take_upheld_again(&mut self, unit: UnitId, now: Monotonic) -> bool {
        let is_due = self.upheld_again.get(&unit).is_some_and(|&due| due <= now);
        if is_due {
            self.upheld_again.remove(&unit);
        }
        is_due
    }

    /// Has what standing relations ask of the unit looked at again after a while.
    pub fn try_later(&mut self, units: &mut Units, unit: UnitId, now: Monotonic) {
        self.upheld_again.insert(unit, now.after(AGAIN_AFTER));
        units.note_touched(unit);
    }

    /// Arms the deadlines of every unit that changed in this step.
    pub fn arm_changed(&mut self, units: &mut Units) {
        let touched = units.take_touched();
        touched.iter().for_each(|&unit| self.arm(units, unit));
        units.keep_touched(touched);
    }

    /// Arms the deadline that `unit` wants.
    pub fn arm(&mut self, units: &Units, unit: UnitId) {
        let upheld = self.upheld_again.get(&unit).copied();
        let wanted = [wanted(units.run(unit)), upheld].into_iter().flatten().min();
        let armed = self.armed.get(&unit).copied();
        let wakes = matches!(&units.run(unit).state, TypeState::Timer(Timer::Up(s)) if s.wakes);
        if wanted == armed && !wakes {
            return;
        }
        if let Some(at) = armed {
            self.waking.remove(&(at, unit));
            self.by_time.remove(&(at, unit));
            self.armed.remove(&unit);
        }
        if let Some(at) = wanted {
            self.by_time.insert((at, unit));
            self.armed.insert(unit, at);
            if wakes {
                self.waking.insert((at, unit));
            }
        }
    }
}

/// The earliest moment at which a unit with this run state wants to be looked at.
fn wanted(run: &UnitRun) -> Option<Monotonic> {
    let of_job = run.job.as_ref().and_then(|job| job.deadline);
    let of_state = match &run.state {
        TypeState::Service(Service::Up(s)) => {
            [s.deadline, s.runtime_deadline, s.watchdog_deadline].into_iter().flatten().min()
        }
        TypeState::Socket(Socket::Up(s)) => s.deadline,
        TypeState::Mount(Mount::Up(s)) | TypeState::Swap(Mount::Up(s)) => s.deadline,
        TypeState::Timer(Timer::Up(s)) => s.due,
        TypeState::Scope(Scope::Up(s)) => {
            [s.deadline, s.runtime_deadline].into_iter().flatten().min()
        }
        _ => None,
    };
    let clearing = run.history.as_ref().and_then(|history| history.clearing?.until);
    [of_job, of_state, clearing].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::model::ids::EffectId;
    use crate::model::state::Clearing;

    #[test]
    fn a_unit_has_one_deadline_and_it_moves() {
        let name = |text: &str| Some(warren_unit::UnitName::parse(text).expect("a valid name"));
        let mut units = Units::default();
        units.add_idle(&Graph::with_names(vec![name("a.service"), name("b.service")]));
        let (a, b) = (UnitId(0), UnitId(1));
        let mut deadlines = Deadlines::default();
        let mut set = |deadlines: &mut Deadlines, unit, until: Option<u64>| {
            let clearing = until.map(|until| Clearing {
                id: EffectId(1),
                restarting: false,
                again: false,
                until: Some(Monotonic(until)),
                managers_ended: 0,
            });
            units.history_mut(unit).clearing = clearing;
            deadlines.arm_changed(&mut units);
        };
        set(&mut deadlines, a, Some(5));
        set(&mut deadlines, b, Some(7));
        assert_eq!(deadlines.next(), Some(Monotonic(5)));
        set(&mut deadlines, a, Some(9));
        assert_eq!(deadlines.next(), Some(Monotonic(7)));
        assert_eq!(deadlines.pop_due(Monotonic(6)), None);
        assert_eq!(deadlines.pop_due(Monotonic(7)), Some(b));
        set(&mut deadlines, a, None);
        assert_eq!(deadlines.next(), None);
    }
}
