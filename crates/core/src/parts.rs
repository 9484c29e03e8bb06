//! The parts of the machine: what it knows, by who looks after it.
//!
//! Owns: [`Core`], and one file a part. A part holds its own data and the rules that need nothing else.
//! Must not: know what a job, a unit type or a feature does; what touches several parts is above.
//! Runs on the thread of whoever owns the [`Core`]: in warrend the loop.

use crate::graph::Graph;
use crate::model::state::BootTimes;
use crate::model::time::{Moment, Monotonic};
use crate::parts::deadlines::Deadlines;
use crate::parts::ids::Ids;
use crate::parts::jobs::Jobs;
use crate::parts::outbox::Outbox;
use crate::parts::pids::Pids;
use crate::parts::queues::Queues;
use crate::parts::resources::Resources;
use crate::parts::unit_settings::UnitSettings;
use crate::parts::units::Units;
use crate::view::Totals;
use std::sync::Arc;
use warren_calendar::Zones;

pub(crate) mod deadlines;
pub(crate) mod dynamic_users;
pub(crate) mod ids;
pub(crate) mod ipc_users;
pub(crate) mod job_queue;
pub(crate) mod jobs;
pub(crate) mod outbox;
pub(crate) mod pids;
pub(crate) mod queues;
pub(crate) mod removals;
pub(crate) mod resources;
pub(crate) mod slice_limits;
pub(crate) mod trace_queue;
pub(crate) mod unit_settings;
pub(crate) mod units;

/// All units, their jobs, and what is under way. Its methods are in [`crate::machine`].
#[derive(Debug)]
pub struct Core {
    /// The generation in force.
    pub(crate) graph: Arc<Graph>,
    /// Typed settings.
    pub(crate) settings: UnitSettings,
    /// The run state of all units.
    pub(crate) units: Units,
    /// What is still to be looked at in this step.
    pub(crate) queues: Queues,
    /// Jobs that have begun, and what is to be checked of those that have not.
    pub(crate) jobs: Jobs,
    /// Which unit a process belongs to.
    pub(crate) pids: Pids,
    /// When units want to be looked at.
    pub(crate) deadlines: Deadlines,
    /// Effects: those of this step, and those that are under way.
    pub(crate) outbox: Outbox,
    /// Numbers that never repeat.
    pub(crate) ids: Ids,
    /// Counts that readers see.
    pub(crate) totals: Totals,
    /// The time of this step, and that of the boot.
    pub(crate) times: Times,
    /// What runs hold besides processes.
    pub(crate) resources: Resources,
}

/// The time of this step, and that of the boot.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// The time of the event that is being served.
    pub now: Moment,
    /// See [`Core::set_boot_times`].
    pub boot: BootTimes,
    /// When the machine began to run: of a container that is when its manager began.
    pub machine_begin: Monotonic,
    /// Time zones as far as they were read.
    pub zones: Zones,
}
