//! Names of units that events mean: a number comes again for another unit once the first is forgotten
//! ([`warren_core::graph`]), while what happened to that one is still in the record.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use warren_core::graph::Graph;
use warren_core::model::ids::UnitId;
use warren_trace::event::{Event, NO_UNIT, What};
use warren_trace::record::Unit;
use warren_unit::UnitName;

/// Forgotten units whose names are kept; those of others are shown as numbers.
const FORMER_MAX: usize = 4096;

/// A unit that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// Its number.
    unit: u32,
    /// When, in µs: as the event says that tells of it.
    time_us: u64,
    /// Its slice, or [`NO_UNIT`].
    slice: u32,
    name: UnitName,
}

/// Those that were forgotten, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Formers(Arc<VecDeque<Former>>);

impl Formers {
    /// Keeps the names of units that are forgotten now, of the last generation that has them.
    pub fn add(&mut self, time_us: u64, units: &[UnitId], before: &Graph) {
        let known = units.iter().filter_map(|unit| before.get(*unit)).map(|definition| Former {
            unit: definition.id.0,
            time_us,
            slice: definition.slice.map_or(NO_UNIT, |slice| slice.0),
            name: definition.name.clone(),
        });
        let formers = Arc::make_mut(&mut self.0);
        formers.extend(known);
        formers.drain(..formers.len().saturating_sub(FORMER_MAX));
    }
}

/// Gives units that were forgotten since numbers of their own, from `free` on, in all events from before;
/// events are in the order in which they were written, and lose those that tell of it. These units, as
/// far as events name them.
pub fn tell_apart(events: &mut Vec<Event>, formers: &Formers, free: u32) -> Vec<Unit> {
    let is_renaming = |event: &Event| event.what() == Some(What::Renamed);
    if !events.iter().any(is_renaming) {
        return Vec::new();
    }
    let key = |former: &&Former| (former.unit, former.time_us);
    let names: BTreeMap<(u32, u64), &Former> =
        formers.0.iter().map(|former| (key(&former), former)).collect();
    let mut meant: BTreeMap<u32, u32> = BTreeMap::new();
    let (mut units, mut named) = (Vec::new(), BTreeSet::new());
    for event in events.iter_mut().rev() {
        if is_renaming(event) {
            let id = free.saturating_add(units.len() as u32);
            let former = names.get(&(event.unit, event.time_us));
            let name = former.map_or_else(|| format!("#{id}"), |former| former.name.to_string());
            units.push(Unit { id, slice: former.map_or(NO_UNIT, |former| former.slice), name });
            meant.insert(event.unit, id);
            continue;
        }
        for unit in [&mut event.unit, &mut event.cause] {
            if let Some(&id) = meant.get(unit) {
                *unit = id;
                named.insert(id);
            }
        }
    }
    events.retain(|event| !is_renaming(event));
    units.retain(|unit| named.contains(&unit.id));
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(time_us: u64, unit: u32, cause: u32) -> Event {
        Event::new(time_us, unit, cause, What::GroupEmpty { last_pid: 0 })
    }

    fn renamed(time_us: u64, unit: u32) -> Event {
        Event::new(time_us, unit, NO_UNIT, What::Renamed)
    }

    fn former(unit: u32, time_us: u64, name: &str) -> Former {
        let name = UnitName::parse(name).expect("a name");
        Former { unit, time_us, slice: 2, name }
    }

    #[test]
    fn each_unit_that_had_a_number_keeps_what_happened_to_it() {
        let formers = [former(7, 20, "a@1.service"), former(8, 20, "b.service")];
        let formers = Formers(Arc::new(formers.into()));
        let mut events = vec![
            empty(10, 7, NO_UNIT),
            empty(11, 9, 7),
            renamed(20, 7),
            renamed(20, 8),
            empty(30, 7, 8),
            renamed(40, 7),
            empty(50, 7, NO_UNIT),
        ];
        let units = tell_apart(&mut events, &formers, 100);
        let unit = |id, slice, name: &str| Unit { id, slice, name: name.into() };
        let expect = [unit(100, NO_UNIT, "#100"), unit(102, 2, "a@1.service")];
        assert_eq!(units, expect, "nothing happened to b.service");
        let expect =
            [empty(10, 102, NO_UNIT), empty(11, 9, 102), empty(30, 100, 8), empty(50, 7, NO_UNIT)];
        assert_eq!(events, expect);
    }

    #[test]
    fn without_a_unit_that_was_forgotten_nothing_is_changed() {
        let mut events = vec![empty(10, 7, NO_UNIT), empty(11, 9, 7)];
        let before = events.clone();
        assert_eq!(tell_apart(&mut events, &Formers::default(), 100), []);
        assert_eq!(events, before);
    }
}
