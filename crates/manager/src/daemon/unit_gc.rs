//! Forgetting units that nothing needs (systemd.unit(5), "UNIT GARBAGE COLLECTION"): instances
//! whose connection is over or that somebody only asked about, mounts that are gone, slices that
//! they lay in. What has a file stays loaded.
//!
//! The loader makes the generation without them, so between asking and putting it in force such a
//! unit is *leaving*: whoever names it meanwhile is sent through the loader, which brings it back. That
//! its mount has come back is told when the loader has answered.

use crate::base::patience::Patient;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use warren_core::graph::Delta;
use warren_core::model::ids::UnitId;
use warren_core::model::time::Monotonic;
use warren_unit::search::is_transient;
use warren_unit::{LoadState, UnitName};

use crate::base::clock::now;
use crate::daemon::Daemon;
use crate::daemon::loads::AfterLoad;
use crate::published::orders::LoaderOrder;

/// A unit stays for so long at least after it was last busy: whoever started it may want to know
/// how it ended.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);

/// The same of a unit that a client made, whose name others may want.
const TRANSIENT_FORGOTTEN_AFTER: Duration = Duration::from_secs(1);

/// Units at rest that are forgotten after the same time.
struct Resting {
    /// They are forgotten when they have been at rest for one to two of these.
    period: Duration,
    /// Seen at rest since the last collection.
    idle: BTreeSet<UnitId>,
    /// At rest for some time.
    rested: BTreeSet<UnitId>,
    /// When they are looked at.
    due: Option<Monotonic>,
}

impl Resting {
    fn new(period: Duration) -> Resting {
        Resting { period, idle: BTreeSet::new(), rested: BTreeSet::new(), due: None }
    }

    fn add(&mut self, unit: UnitId) {
        self.idle.insert(unit);
        self.due.get_or_insert_with(|| now().monotonic.after(self.period));
    }

    /// Those that were at rest through a whole period. Who was busy in between is told of again when it rests.
    fn take_rested(&mut self) -> BTreeSet<UnitId> {
        if self.due.is_none_or(|due| now().monotonic < due) {
            return BTreeSet::new();
        }
        let mut rested = std::mem::take(&mut self.rested);
        self.rested = std::mem::take(&mut self.idle);
        self.due = (!self.rested.is_empty()).then(|| now().monotonic.after(self.period));
        rested.retain(|unit| !self.rested.contains(unit));
        rested
    }
}

/// What is known of units that may be forgotten.
pub struct Collector {
    /// Units that clients made.
    transient: Resting,
    /// All others.
    others: Resting,
    /// Given to the loader to be forgotten.
    leaving: BTreeSet<UnitId>,
    /// Those of them whose mounts came back.
    mounted: BTreeSet<UnitName>,
    /// Units that clients refer to, and how many do.
    referred: BTreeMap<UnitId, u32>,
}

impl Default for Collector {
    fn default() -> Collector {
        Collector {
            transient: Resting::new(TRANSIENT_FORGOTTEN_AFTER),
            others: Resting::new(FORGOTTEN_AFTER),
            leaving: BTreeSet::new(),
            mounted: BTreeSet::new(),
            referred: BTreeMap::new(),
        }
    }
}

impl Collector {
    /// Whether the unit is about to be forgotten.
    pub fn is_leaving(&self, unit: UnitId) -> bool {
        self.leaving.contains(&unit)
    }

    /// These units are given to the loader to be forgotten.
    pub(crate) fn leave(&mut self, units: &BTreeSet<UnitId>) {
        self.leaving.extend(units);
    }

    /// Whether this is to be told later, as the unit is about to be forgotten.
    pub(crate) fn holds_mounted(&mut self, unit: UnitId, name: &UnitName) -> bool {
        self.is_leaving(unit) && {
            self.mounted.insert(name.clone());
            true
        }
    }
}

impl Patient for Collector {
    // When `Daemon::collect` is due.
    fn deadline(&self) -> Option<Monotonic> {
        self.transient.due.into_iter().chain(self.others.due).min()
    }
}

impl Daemon {
    /// Notes which of these units could be forgotten.
    pub(crate) fn note_idle<'a>(&mut self, units: impl IntoIterator<Item = &'a UnitId>) {
        // Who has the name of a unit that is down stays no longer for its sake.
        let units = units.into_iter().flat_map(|&unit| [Some(unit), self.namer_of(unit)]);
        let groups = units.flatten().filter_map(|unit| self.forgotten_with(unit));
        let found: Vec<UnitId> = groups.flatten().collect();
        for unit in found {
            match self.is_transient(unit) {
                true => self.collector.transient.add(unit),
                false => self.collector.others.add(unit),
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
        self.collector.is_leaving(unit)
            || self.collector.referred.contains_key(&unit)
            || self.groups.path(unit).is_some()
            || self.accepting.connections.contains_key(&unit)
            || self.stored_fds.has(unit)
            || self.devices.keeps(self.core.graph().name(unit))
    }

    /// A client refers to a unit, or no longer does.
    pub(crate) fn refer(&mut self, unit: UnitId, on: bool) {
        let referred = &mut self.collector.referred;
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
        if !self.events.is_empty() {
            return;
        }
        let mut rested = self.collector.transient.take_rested();
        rested.extend(self.collector.others.take_rested());
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
        self.collector.leaving.extend(&leaving);
        let after = AfterLoad::Forgotten(leaving);
        self.load(|token| LoaderOrder::Forget { names, token }, after);
    }

    /// These are forgotten, or the loader found a reason to keep them. What only they named may
    /// follow.
    pub(crate) fn forgotten(&mut self, asked: &BTreeSet<UnitId>, delta: &Delta) {
        self.collector.leaving.retain(|unit| !asked.contains(unit));
        self.note_idle(&delta.rewired);
        if !self.collector.mounted.is_empty() {
            // Those that are still leaving are held again.
            let graph = self.core.graph().clone();
            self.mounts.tell_again_of(std::mem::take(&mut self.collector.mounted));
            let changes = self.mounts.take(&graph);
            self.take_mount_changes(changes);
        }
    }
}
