//! The table of processes: what the manager knows of a process beside what the core knows.
//!
//! Owns: pidfds, start times and parents of followed processes; exits and notify messages that came before the
//! process that they are about was known; exits that nobody reported.
//! Must not: decide whose a process is (that is the core's, by pid).
//! Thread: the loop.

use crate::process::early_exits::EarlyExits;
use crate::process::notify_messages::EarlyNotice;
use crate::process::start_times::Since;
use crate::process::unreported_exits::Missing;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use warren_core::model::ids::UnitId;

/// What is known of processes of units.
#[derive(Default)]
pub(crate) struct Processes {
    pub(crate) pidfds: BTreeMap<u32, OwnedFd>,
    /// Parents of main processes that are no children of init.
    pub(crate) parents: BTreeMap<u32, OwnedFd>,
    /// Since when processes are there.
    pub(crate) since: BTreeMap<u32, Since>,
    /// Processes that have ended, of which no record was there yet.
    pub(crate) unreported: Missing,
    /// Ends of processes that no helper has told of yet.
    pub(crate) early_exits: EarlyExits,
    /// What processes said before the helper that made them, where their cgroup does not tell their unit.
    pub(crate) early_notices: Vec<EarlyNotice>,
    /// Processes of spawns that were answered in this turn and are not known to the core yet, with
    /// their units.
    pub(crate) fresh_pids: BTreeMap<u32, Option<UnitId>>,
    /// Processes that units named as their main ones in this turn, or that were found to be.
    pub(crate) named_mains: Vec<(UnitId, u32)>,
}
