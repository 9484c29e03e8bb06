//! Which groups systemd-oomd is to look after, and how (`ManagedOOMSwap=` and its relatives,
//! systemd.resource-control(5)). Pure: who tells systemd-oomd is `control::varlink`.
//!
//! A start costs what its own settings say, however many groups there are, and so does a copy of all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use warren_core::model::ids::UnitId;
use warren_core::settings::Compiled;
use warren_unit::config::{CgroupConfig, ManagedOom};

use super::limits::cgroup_config;

/// Groups by their units; a copy costs a pointer.
pub(crate) type OomdTable = imbl::OrdMap<UnitId, OomdGroup>;

/// A group that systemd-oomd looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OomdGroup {
    /// Below the root of the tree; empty for the root.
    pub path: Arc<str>,
    /// When little swap is left it kills what is in groups below.
    pub swap: bool,
    /// The same when processes wait for memory.
    pub pressure: Option<Pressure>,
}

/// From when on systemd-oomd finds that processes wait for memory too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// Part of the time, in parts of 10,000; none is what systemd-oomd's own configuration says.
    pub limit: Option<u32>,
    /// How long it lasts; none likewise.
    pub duration: Option<Duration>,
}

impl OomdGroup {
    /// A unit's group at `path`; none if the settings ask for nothing.
    fn of(config: &CgroupConfig, path: &str) -> Option<OomdGroup> {
        let swap = config.managed_oom_swap == ManagedOom::Kill;
        let pressure = (config.managed_oom_memory_pressure == ManagedOom::Kill).then(|| Pressure {
            // 0% is the default, too.
            limit: config.managed_oom_memory_pressure_limit.filter(|limit| *limit > 0),
            duration: config.managed_oom_memory_pressure_duration,
        });
        (swap || pressure.is_some()).then(|| OomdGroup { path: path.into(), swap, pressure })
    }
}

/// The groups that are there.
#[derive(Debug, Default)]
pub(crate) struct OomdGroups {
    table: OomdTable,
    is_changed: bool,
}

impl OomdGroups {
    /// A unit has its group at this path, and these settings.
    pub(crate) fn note(&mut self, unit: UnitId, path: &str, settings: &Compiled) {
        let group = cgroup_config(settings).and_then(|config| OomdGroup::of(config, path));
        match group {
            None => self.forget(unit),
            Some(group) if self.table.get(&unit) == Some(&group) => {}
            Some(group) => {
                self.table.insert(unit, group);
                self.is_changed = true;
            }
        }
    }

    /// A unit has no group any more.
    pub(crate) fn forget(&mut self, unit: UnitId) {
        if !self.table.is_empty() && self.table.remove(&unit).is_some() {
            self.is_changed = true;
        }
    }

    /// Whether systemd-oomd looks after none.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// All of them, if they are others than when this was last asked.
    pub(crate) fn take_changed(&mut self) -> Option<OomdTable> {
        std::mem::take(&mut self.is_changed).then(|| self.table.clone())
    }
}

/// What systemd-oomd looks at in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Property {
    /// `ManagedOOMSwap=`
    Swap,
    /// `ManagedOOMMemoryPressure=`
    MemoryPressure,
}

/// What is new of one property of a group: it is looked at like this, or not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The group's path, as in [`OomdGroup`].
    pub path: Arc<str>,
    /// The property.
    pub property: Property,
    /// From when on it acts; none: not any more.
    pub rule: Option<Pressure>,
}

/// What has changed between two tables. What is looked at no more comes first; what another unit has at the same path
/// now is no change.
pub(crate) fn changes(before: &OomdTable, now: &OomdTable) -> Vec<Change> {
    let mut gone = BTreeMap::new();
    let mut new = BTreeMap::new();
    for item in before.diff(now) {
        let (old, group) = match item {
            imbl::ordmap::DiffItem::Add(_, group) => (None, Some(group)),
            imbl::ordmap::DiffItem::Update { old: (_, old), new: (_, group) } => {
                (Some(old), Some(group))
            }
            imbl::ordmap::DiffItem::Remove(_, old) => (Some(old), None),
        };
        gone.extend(old.into_iter().flat_map(properties));
        new.extend(group.into_iter().flat_map(properties));
    }
    gone.retain(|key, rule| match new.get(key) {
        Some(other) if other == rule => new.remove(key).is_none(),
        Some(_) => false,
        None => true,
    });
    let gone = gone.into_keys().map(|(path, property)| Change { path, property, rule: None });
    let new =
        new.into_iter().map(|((path, property), rule)| Change { path, property, rule: Some(rule) });
    gone.chain(new).collect()
}

/// What is looked at in a group, each by path and property.
fn properties(group: &OomdGroup) -> impl Iterator<Item = ((Arc<str>, Property), Pressure)> {
    let swap = group.swap.then_some((Property::Swap, Pressure::default()));
    let pressure = group.pressure.map(|pressure| (Property::MemoryPressure, pressure));
    let path = group.path.clone();
    swap.into_iter().chain(pressure).map(move |(property, rule)| ((path.clone(), property), rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(path: &str, swap: bool, limit: Option<u32>) -> OomdGroup {
        let pressure = limit.map(|limit| Pressure { limit: Some(limit), duration: None });
        OomdGroup { path: path.into(), swap, pressure }
    }

    /// Groups are `UNIT PATH`, with `swap` and the limit of pressure behind it.
    fn table(lines: &[&str]) -> OomdTable {
        let read = |line: &&str| {
            let words: Vec<&str> = line.split(' ').collect();
            let unit = UnitId(words[0].parse().expect("a number"));
            let limit = words.iter().skip(2).find_map(|word| word.parse().ok());
            (unit, group(words[1], words.contains(&"swap"), limit))
        };
        lines.iter().map(read).collect()
    }

    #[track_caller]
    fn check(before: &[&str], now: &[&str], expected: &[&str]) {
        let line = |change: &Change| {
            let property = match change.property {
                Property::Swap => "swap",
                Property::MemoryPressure => "pressure",
            };
            let limit = change.rule.map(|rule| rule.limit.unwrap_or(0));
            let mode = limit.map_or("auto".to_owned(), |limit| format!("kill {limit}"));
            format!("{} {property} {mode}", change.path)
        };
        let found: Vec<String> = changes(&table(before), &table(now)).iter().map(line).collect();
        assert_eq!(found, expected, "{before:?} {now:?}");
    }

    #[test]
    fn what_is_new_is_told_and_what_is_gone() {
        check(&[], &[], &[]);
        check(&[], &["1 a swap 50"], &["a swap kill 0", "a pressure kill 50"]);
        check(&["1 a swap 50"], &["1 a swap 50"], &[]);
        check(&["1 a swap 50"], &["1 a swap 60"], &["a pressure kill 60"]);
        check(&["1 a swap 50"], &["1 a 50"], &["a swap auto"]);
        check(&["1 a swap 50"], &[], &["a swap auto", "a pressure auto"]);
        check(&["1 a swap"], &["1 b swap"], &["a swap auto", "b swap kill 0"]);
        check(&["1 a swap", "2 b swap"], &["2 b swap"], &["a swap auto"]);
    }

    #[test]
    fn a_path_that_another_unit_has_now_is_not_told_to_be_gone() {
        check(&["1 a swap"], &["2 a swap"], &[]);
        check(&["1 a 50"], &["2 a swap 60"], &["a swap kill 0", "a pressure kill 60"]);
    }

    #[test]
    fn groups_are_changed_by_what_their_settings_say() {
        let mut groups = OomdGroups::default();
        let kill = CgroupConfig {
            managed_oom_memory_pressure: ManagedOom::Kill,
            managed_oom_memory_pressure_limit: Some(0),
            ..CgroupConfig::empty()
        };
        let found = OomdGroup::of(&kill, "a.service").expect("it is looked after");
        assert_eq!(found.pressure, Some(Pressure::default()), "0% is the default");
        assert_eq!(OomdGroup::of(&CgroupConfig::empty(), "a.service"), None);
        groups.forget(UnitId(1));
        assert_eq!(groups.take_changed(), None);
        groups.table.insert(UnitId(1), found);
        groups.forget(UnitId(1));
        assert_eq!(groups.take_changed(), Some(OomdTable::default()));
        assert_eq!(groups.take_changed(), None);
    }
}
