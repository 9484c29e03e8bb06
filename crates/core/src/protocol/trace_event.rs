//! What happened, for the record: jobs, changes of state, processes, signals.
//!
//! The machine notes these as it goes and its shell takes them after each batch. Nothing is decided
//! by them. What a chart needs beyond them (time on other clocks, counters of cgroups) is added by
//! the shell.

use crate::model::active_state::ActiveState;
use crate::model::ids::{JobId, UnitId};
use crate::model::job::{JobKind, JobResult};
use crate::model::process::{CommandList, ExitStatus};
use crate::model::reason::Reason;
use crate::model::time::Monotonic;
use crate::protocol::event::KillTarget;

/// One thing that happened, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Happening {
    /// When the event that led to it was stepped through. The begin of a job may be told later than
    /// it was: many are not looked at in one step.
    pub at: Monotonic,
    /// The unit that it happened to.
    pub unit: UnitId,
    /// What it was.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A job was installed.
    JobQueued {
        /// The job.
        job: JobId,
        /// What it does.
        kind: JobKind,
        /// Why it exists.
        reason: Reason,
    },
    /// The unit was told to do its job. The two halves of a restart are told of as two jobs with one id;
    /// where the unit is down at once only the second one begins.
    JobBegan {
        /// The job.
        job: JobId,
        /// What it does.
        kind: JobKind,
        /// The unit that held it last, by its job or, as one of a group or the job's own unit, by its
        /// state; none if none did.
        released_by: Option<UnitId>,
    },
    /// A job is over.
    JobEnded {
        /// The job.
        job: JobId,
        /// What it did.
        kind: JobKind,
        /// How it ended.
        result: JobResult,
        /// Why it ended like this.
        reason: Reason,
    },
    /// The unit's state is another one.
    State {
        /// The ACTIVE column.
        active: ActiveState,
        /// The SUB column.
        sub: &'static str,
        /// Why.
        reason: Reason,
    },
    /// A process of the unit was started, or found to be its main process.
    ProcessStarted {
        /// The process.
        pid: u32,
        /// The command that it runs.
        list: CommandList,
        /// The main process rather than a control process.
        main: bool,
    },
    /// A process of the unit ended.
    ProcessEnded {
        /// The process.
        pid: u32,
        /// How.
        status: ExitStatus,
    },
    /// A signal was sent.
    Signal {
        /// To whom.
        target: KillTarget,
        /// Its number.
        signal: i32,
    },
    /// The last process of the unit's cgroup is gone.
    GroupEmpty,
}
