//! Forgetting units that nothing needs (systemd.unit(5), "UNIT GARBAGE COLLECTION"): instances
//! whose connection is over or that somebody only asked about, mounts that are gone, slices that
//! they lay in. What has a file stays loaded.
//!
//! The loader makes the generation without them, so between asking and putting it in force such a
//! unit is *leaving*: whoever names it meanwhile is sent through the loader, which brings it back. That
//! its mount has come back is told when the loader has answered.

use std::collections::BTreeSet;

use warren_core::graph::Delta;
use warren_core::model::ids::UnitId;
use warren_unit::search::is_transient;
use warren_unit::{LoadState, UnitName};

use crate::daemon::Daemon;
use crate::daemon::loads::AfterLoad;
use crate::published::orders::LoaderOrder;

impl Daemon {
    /// Notes which of these units could be forgotten.
    pub(crate) fn note_idle<'a>(&mut self, units: impl IntoIterator<Item = &'a UnitId>) {
        // Who has the name of a unit that is down stays no longer for its sake.
        let units = units.into_iter().flat_map(|&unit| [Some(unit), self.namer_of(unit)]);
        let groups = units.flatten().filter_map(|unit| self.forgotten_with(unit));
        let found: Vec<UnitId> = groups.flatten().collect();
        for unit in found {
            match self.is_transient(unit) {
                true => self.loads.collector.transient.add(unit),
                false => self.loads.collector.others.add(unit),
            }
        }
    }

    /// Whether a client made the unit.
    pub(super) fn is_transient(&self, unit: UnitId) -> bool {
        let fragment = self.core.graph().definition(unit).files.fragment.as_ref();
        fragment.is_some_and(|file| is_transient(file.path()))
    }

    /// All units are looked at once, when the manager starts.
    pub(crate) fn note_all_idle(&mut self) {
        let all: Vec<UnitId> = (0..self.core.graph().len()).map(|i| UnitId(i as u32)).collect();
        self.note_idle(&all);
    }

    /// The unit that the name of a displaced one leads to.
    fn namer_of(&self, unit: UnitId) -> Option<UnitId> {
        let graph = self.core.graph();
        let definition = graph.get(unit).filter(|d| d.load_state == LoadState::NotFound)?;
        graph.lookup(&definition.name).filter(|&other| other != unit)
    }

    /// The unit and those that can be forgotten with it only, if they can be.
    pub(super) fn forgotten_with(&self, unit: UnitId) -> Option<Vec<UnitId>> {
        self.core.forgotten_with(unit, |unit| self.is_kept(unit))
    }

    /// Whether something of the unit is kept here, or it is about to be forgotten.
    fn is_kept(&self, unit: UnitId) -> bool {
        self.loads.collector.is_leaving(unit)
            || self.loads.collector.referred.contains_key(&unit)
            || self.cgroup.groups.path(unit).is_some()
            || self.triggers.accepting.connections.contains_key(&unit)
            || self.process.stored_fds.has(unit)
            || self.peers.devices.keeps(self.core.graph().name(unit))
    }

    /// A client refers to a unit, or no longer does.
    pub(crate) fn refer(&mut self, unit: UnitId, on: bool) {
        let referred = &mut self.loads.collector.referred;
        if on {
            *referred.entry(unit).or_insert(0) += 1;
            return;
        }
        let Some(count) = referred.get_mut(&unit) else { return };
        *count -= 1;
        if *count == 0 {
            referred.remove(&unit);
            self.note_idle(&[unit]);
        }
    }

    /// Has forgotten what was at rest through a whole period.
    pub(crate) fn collect(&mut self) {
        if !self.event_loop.events.is_empty() {
            return;
        }
        let mut rested = self.loads.collector.transient.take_rested();
        rested.extend(self.loads.collector.others.take_rested());
        let may_leave = |unit: &UnitId| {
            let group = self.forgotten_with(*unit);
            group.is_some_and(|group| group.iter().all(|unit| rested.contains(unit)))
        };
        let leaving: BTreeSet<UnitId> = rested.iter().copied().filter(may_leave).collect();
        if leaving.is_empty() {
            return;
        }
        let graph = self.core.graph();
        let names: Vec<UnitName> = leaving.iter().map(|&unit| graph.name(unit).clone()).collect();
        self.loads.collector.leaving.extend(&leaving);
        let after = AfterLoad::Forgotten(leaving);
        self.load(|token| LoaderOrder::Forget { names, token }, after);
    }

    /// These are forgotten, or the loader found a reason to keep them. What only they named may
    /// follow.
    pub(crate) fn forgotten(&mut self, asked: &BTreeSet<UnitId>, delta: &Delta) {
        self.loads.collector.leaving.retain(|unit| !asked.contains(unit));
        // Of a start that was refused nothing else is left.
        let graph = self.core.graph().clone();
        let is_gone = |unit: &&UnitId| graph.get(**unit).is_none();
        asked.iter().filter(is_gone).for_each(|&unit| self.drop_passed(unit));
        self.note_idle(&delta.rewired);
        if !self.loads.collector.mounted.is_empty() {
            // Those that are still leaving are held again.
            let graph = self.core.graph().clone();
            self.triggers.mounts.tell_again_of(std::mem::take(&mut self.loads.collector.mounted));
            let changes = self.triggers.mounts.take(&graph);
            self.take_mount_changes(changes);
        }
    }
}
