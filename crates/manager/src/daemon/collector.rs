//! Units that may be forgotten, and those that are just being forgotten.

use crate::base::clock::now;
use crate::base::patience::Patient;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use warren_core::model::ids::UnitId;
use warren_core::model::time::Monotonic;
use warren_unit::UnitName;

/// A unit stays for so long at least after it was last busy: whoever started it may want to know
/// how it ended.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);

/// The same of a unit that a client made, whose name others may want.
const TRANSIENT_FORGOTTEN_AFTER: Duration = Duration::from_secs(1);

/// Units at rest that are forgotten after the same time.
pub(super) struct Resting {
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

    pub(super) fn add(&mut self, unit: UnitId) {
        self.idle.insert(unit);
        self.due.get_or_insert_with(|| now().monotonic.after(self.period));
    }

    /// Those that were at rest through a whole period. Who was busy in between is told of again when it rests.
    pub(super) fn take_rested(&mut self) -> BTreeSet<UnitId> {
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
    pub(super) transient: Resting,
    /// All others.
    pub(super) others: Resting,
    /// Given to the loader to be forgotten.
    pub(super) leaving: BTreeSet<UnitId>,
    /// Those of them whose mounts came back.
    pub(super) mounted: BTreeSet<UnitName>,
    /// Units that clients refer to, and how many do.
    pub(super) referred: BTreeMap<UnitId, u32>,
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
