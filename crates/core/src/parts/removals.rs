//! What is being removed from the file system after runs, and which starts wait for that.

use crate::model::ids::UnitId;
use crate::model::leftover::Trace;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is being removed, and which starts wait for that. A start looks along its own paths, whatever
/// else is being removed, and is looked at again when what it met is gone.
#[derive(Default, Debug)]
pub(crate) struct Removals {
    /// The units of which something is being removed, with where it is.
    pub(crate) units: BTreeMap<UnitId, Vec<PathBuf>>,
    /// The same by the path.
    pub(crate) paths: BTreeMap<PathBuf, BTreeSet<UnitId>>,
    /// Units whose starts wait, by the unit that they met.
    pub(crate) waiters: BTreeMap<UnitId, BTreeSet<UnitId>>,
    /// The unit that each waiting start waits for.
    pub(crate) waiting: BTreeMap<UnitId, UnitId>,
}

impl Removals {
    pub(crate) fn insert(&mut self, unit: UnitId, traces: &[Trace]) {
        let paths: Vec<PathBuf> =
            traces.iter().filter_map(|trace| trace.path().map(Path::to_owned)).collect();
        for path in &paths {
            self.paths.entry(path.clone()).or_default().insert(unit);
        }
        self.units.insert(unit, paths);
    }

    pub(crate) fn remove(&mut self, unit: UnitId) {
        for path in self.units.remove(&unit).unwrap_or_default() {
            if let Entry::Occupied(mut units) = self.paths.entry(path) {
                units.get_mut().remove(&unit);
                if units.get().is_empty() {
                    units.remove();
                }
            }
        }
    }

    /// A unit of which something is being removed that lies at this path, below or above it.
    pub(crate) fn met_by(&self, path: &Path) -> Option<UnitId> {
        // Paths are ordered by their parts, so what is below one follows it.
        let below = self.paths.range(path.to_owned()..).next();
        let below = below.filter(|(other, _)| other.starts_with(path)).map(|(_, units)| units);
        let mut above = path.ancestors().filter_map(|parent| self.paths.get(parent));
        below.or_else(|| above.next())?.first().copied()
    }

    pub(crate) fn wait(&mut self, waiter: UnitId, unit: UnitId) {
        self.stop_waiting(waiter);
        self.waiters.entry(unit).or_default().insert(waiter);
        self.waiting.insert(waiter, unit);
    }

    pub(crate) fn stop_waiting(&mut self, waiter: UnitId) {
        if let Some(unit) = self.waiting.remove(&waiter)
            && let Entry::Occupied(mut waiters) = self.waiters.entry(unit)
        {
            waiters.get_mut().remove(&waiter);
            if waiters.get().is_empty() {
                waiters.remove();
            }
        }
    }

    /// Those who waited for this unit, and do not any more.
    pub(crate) fn take_waiters(&mut self, unit: UnitId) -> BTreeSet<UnitId> {
        let waiters = self.waiters.remove(&unit).unwrap_or_default();
        waiters.iter().for_each(|waiter| _ = self.waiting.remove(waiter));
        waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_meets_what_is_removed_at_its_paths_below_and_above() {
        let mut removals = Removals::default();
        let directory = |path: &str| Trace::Directory(path.to_owned());
        let (one, two) = (UnitId(1), UnitId(2));
        removals.insert(one, &[directory("/run/a/b"), Trace::File("/run/c.pid".to_owned())]);
        removals.insert(two, &[directory("/run/a/b"), directory("/run/a-b")]);
        let met = |removals: &Removals, path: &str| removals.met_by(Path::new(path));
        for (path, want) in [
            ("/run/a", Some(one)),
            ("/run/a/b", Some(one)),
            ("/run/a/b/c", Some(one)),
            ("/run/a/c", None),
            ("/run/a/bc", None),
            ("/run/c.pid", Some(one)),
            ("/run/c", None),
            ("/run/a-b/c", Some(two)),
        ] {
            assert_eq!(met(&removals, path), want, "{path}");
        }
        removals.remove(one);
        assert_eq!(met(&removals, "/run/a"), Some(two));
        assert_eq!(met(&removals, "/run/c.pid"), None);
        removals.remove(two);
        assert!(removals.paths.is_empty() && removals.units.is_empty());
    }

    #[test]
    fn who_waits_is_looked_at_by_the_removal_that_it_met_alone() {
        let mut removals = Removals::default();
        removals.wait(UnitId(1), UnitId(7));
        removals.wait(UnitId(2), UnitId(8));
        removals.wait(UnitId(1), UnitId(8));
        assert_eq!(removals.take_waiters(UnitId(7)), BTreeSet::new());
        removals.stop_waiting(UnitId(2));
        assert_eq!(removals.take_waiters(UnitId(8)), BTreeSet::from([UnitId(1)]));
        assert!(removals.waiting.is_empty() && removals.waiters.is_empty());
    }
}
