//! The part of the manager's state that is about cgroups.

use crate::cgroup::nft_sets::{NftSets, NftThread};
use crate::cgroup::oomd::OomdGroups;
use crate::cgroup::slices::OfSlices;
use crate::cgroup::tree::Groups;
use crate::cgroup::unwatched::UnwatchedGroups;
use std::collections::BTreeMap;
use warren_core::model::ids::{EffectId, UnitId};

/// The cgroups of the units.
pub(crate) struct CgroupState {
    pub(crate) groups: Groups,
    /// What slices say for the units in them.
    pub(crate) of_slices: OfSlices,
    pub(crate) unwatched_groups: UnwatchedGroups,
    /// Units that are being frozen or thawed, and which of both.
    pub(crate) freezing: BTreeMap<UnitId, (EffectId, bool)>,
    /// Which of them systemd-oomd looks after.
    pub(crate) oomd: OomdGroups,
    /// What sets of nf_tables are told of units.
    pub(crate) nft_sets: NftSets,
    /// Who changes them.
    pub(crate) nft_thread: NftThread,
}
