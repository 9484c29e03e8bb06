//! The part of the manager's state that is about cgroups.

use crate::cgroup::tree::Groups;
use crate::cgroup::unwatched::UnwatchedGroups;
use std::collections::BTreeMap;
use warren_core::model::ids::{EffectId, UnitId};

/// The cgroups of the units.
pub(crate) struct CgroupState {
    pub(crate) groups: Groups,
    pub(crate) unwatched_groups: UnwatchedGroups,
    /// Units that are being frozen or thawed, and which of both.
    pub(crate) freezing: BTreeMap<UnitId, (EffectId, bool)>,
}
