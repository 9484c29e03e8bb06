//! What clients may ask of the machine and what they are told; the bus and the control socket
//! both speak these types.

use crate::model::admin_marks::{Marked, MarkersChange};
use crate::model::ids::{JobId, UnitId};
use crate::model::job::{JobKind, JobMode, JobResult, JobType};
use crate::model::reason::{Code, Reason};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use warren_unit::UnitName;

/// Who asks, as the kernel vouches for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Asker {
    /// Effective user.
    pub uid: u32,
    /// Process; 0 when the manager itself asks.
    pub pid: u32,
}

impl Asker {
    /// In place of a process that has no number here: the client is outside of the manager's pid
    /// namespace.
    pub const OUTSIDE: u32 = u32::MAX;

    /// A client, as the kernel tells of the other end of a socket.
    pub fn client(uid: u32, pid: i32) -> Asker {
        let pid = u32::try_from(pid).ok().filter(|&pid| pid > 0);
        Asker { uid, pid: pid.unwrap_or(Asker::OUTSIDE) }
    }
}

/// Which processes of a unit a kill is for (`systemctl kill --kill-whom=`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum KillWhom {
    Main,
    Control,
    All,
}

/// A kind of directories that a unit has (`systemctl clean --what=`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum CleanKind {
    Runtime,
    State,
    Cache,
    Logs,
    Configuration,
}

impl CleanKind {
    /// All of them.
    pub const ALL: [CleanKind; 5] = [
        CleanKind::Runtime,
        CleanKind::State,
        CleanKind::Cache,
        CleanKind::Logs,
        CleanKind::Configuration,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            CleanKind::Runtime => "runtime",
            CleanKind::State => "state",
            CleanKind::Cache => "cache",
            CleanKind::Logs => "logs",
            CleanKind::Configuration => "configuration",
        }
    }
}

/// A request that changes run state. The unit is loaded before the core sees it.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// Make a job and all that comes with it.
    Enqueue {
        /// The unit of the anchor job.
        unit: UnitId,
        /// The anchor job's type.
        job_type: JobType,
        /// How it meets other jobs.
        mode: JobMode,
        /// Where the unit can reload, a restart that is asked for is a reload (`reload-or-restart`,
        /// `try-reload-or-restart`).
        reload_if_possible: bool,
    },
    /// Make a job for each of several units, and all that comes with them, at once: all of them or none.
    EnqueueMany {
        /// The units of the anchor jobs.
        units: Box<[UnitId]>,
        /// The type of each.
        job_type: JobType,
        /// How they meet other jobs.
        mode: JobMode,
        /// As for one.
        reload_if_possible: bool,
    },
    /// End a job before its time.
    CancelJob(JobId),
    /// End all jobs.
    ClearJobs,
    /// Forget failures and counters of one unit, or of all.
    ResetFailed(Option<UnitId>),
    /// Wait no longer for a unit that is being stopped.
    Hurry(UnitId),
    /// Put a unit aside, or say that it does less than it should.
    Mark {
        /// The unit.
        unit: UnitId,
        /// As what.
        marked: Marked,
        /// What is said to it.
        text: String,
    },
    /// Take the mark and the failure of a unit away.
    Clear(UnitId),
    /// Note what a unit that is up needs. One that is down needs nothing.
    SetMarkers {
        /// The unit.
        unit: UnitId,
        /// What is noted, or no more.
        change: MarkersChange,
    },
    /// Restart or reload the units for which that was noted.
    EnqueueMarked,
    /// Say something to the stop of a unit.
    Comment {
        /// The unit.
        unit: UnitId,
        /// What is said.
        text: String,
    },
    /// Have the processes of a unit stand still, or go on.
    Freeze {
        /// The unit.
        unit: UnitId,
        /// Which of both.
        frozen: bool,
    },
    /// Remove directories of a unit that is down.
    Clean {
        /// The unit.
        unit: UnitId,
        /// Which kinds of them.
        kinds: Vec<CleanKind>,
    },
    /// Start a scope, which takes these processes in.
    StartScope {
        /// The scope.
        unit: UnitId,
        /// How its job meets other jobs.
        mode: JobMode,
        /// The processes.
        pids: Box<[u32]>,
    },
    /// The program that made a scope looks after it no longer.
    AbandonScope(UnitId),
    /// Send a signal to processes of a unit.
    Kill {
        /// The unit.
        unit: UnitId,
        /// Which of its processes.
        whom: KillWhom,
        /// The signal's number.
        signal: i32,
    },
}

/// The answer to a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// The anchor job, and all the others that the transaction made or changed.
    Job {
        /// The anchor job.
        job: JobId,
        /// Its unit.
        unit: UnitId,
        /// What it was when it was made; it may be over by now.
        kind: JobKind,
        /// The others.
        affected: Vec<(JobId, UnitId, JobKind)>,
    },
    /// The anchor jobs of several transactions.
    Jobs(Vec<JobId>),
    /// The same, with their units and what they are, in the order of the units.
    JobsOf(Vec<(JobId, UnitId, JobKind)>),
    /// Done; nothing to tell.
    Done,
    /// Refused.
    Refused(Refusal),
}

/// Why a request was refused. Clients see systemd's error names for these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The anchor's unit (or one that it requires) has no file.
    NoSuchUnit(UnitName),
    /// It is masked.
    Masked(UnitName),
    /// Its file has an error.
    BadSetting(UnitName),
    /// Its file could not be read.
    LoadError(UnitName),
    /// `RefuseManualStart=` or `RefuseManualStop=`.
    OnlyByDependency(UnitName, &'static str),
    /// Two required jobs of the transaction contradict each other.
    JobsConflict(UnitName),
    /// A unit is not started, as another that it conflicts with is.
    Outdone {
        /// The one.
        unit: UnitName,
        /// The other.
        by: UnitName,
    },
    /// The transaction contradicts jobs that are installed and may not be replaced: what was asked for, and
    /// the first of them by name.
    Destructive {
        /// The anchor's unit.
        unit: UnitName,
        /// What was to be done with it.
        kind: JobKind,
        /// The unit of the job that stands against it.
        other: UnitName,
        /// That job.
        installed: JobKind,
        /// What was to be done with that unit.
        included: JobKind,
    },
    /// A unit that is up or comes up would be stopped, which was not to be (`--job-mode=lenient`).
    WouldStop(UnitName),
    /// The order of required jobs goes in a circle; every unit of it in order.
    Cycle(Vec<UnitName>),
    /// Units of this type do not do this.
    NotApplicable(UnitName),
    /// The mode cannot be used like this.
    BadMode(&'static str),
    /// There is no such job.
    NoSuchJob(JobId),
    /// The unit is not being stopped.
    NotStopping(UnitName),
    /// The unit is in maintenance.
    Maintenance(UnitName),
    /// The unit is not up.
    NotActive(UnitName),
    /// The unit is not marked and has not failed.
    NothingToClear(UnitName),
    /// The unit has no such process.
    NoSuchProcess(UnitName),
    /// A signal number out of range.
    BadSignal(i32),
    /// Units of this type are not frozen, or there are no cgroups.
    CannotFreeze(UnitName),
    /// The scope has no processes, or is on its way down.
    ScopeNotRunning(UnitName),
    /// The scope has processes, or a job that is to give it some.
    ScopeExists(UnitName),
    /// The unit is down.
    Inactive,
    /// The unit is not down, has failed, or has a job.
    NotAtRest,
    /// The unit has none of the directories that are to be removed.
    NothingToClean,
    /// The unit has a job.
    HasJob(UnitName),
    /// It is being frozen or thawed, or something else came in between.
    FreezerBusy(UnitName),
    /// The kernel refused; its words.
    Kernel(String),
    /// The system is shutting down and starts nothing any more.
    ShuttingDown,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::NoSuchUnit(u) => write!(f, "Unit {u} not found."),
            Refusal::Masked(u) => write!(f, "Unit {u} is masked."),
            Refusal::BadSetting(u) => write!(f, "Unit {u} has a bad unit file setting."),
            Refusal::LoadError(u) => write!(f, "Unit {u} failed to load properly."),
            Refusal::OnlyByDependency(u, verb) => write!(
                f,
                "Operation refused, unit {u} may be requested by dependency only \
                 (it is configured to refuse manual {verb})."
            ),
            Refusal::JobsConflict(u) => {
                write!(f, "Transaction contains conflicting jobs for {u}, all of them required.")
            }
            Refusal::Outdone { unit, by } => {
                write!(f, "Unit {unit} is not started, as {by} is, which it conflicts with.")
            }
            Refusal::Destructive { unit, kind, other, installed, included } => write!(
                f,
                "Transaction for {unit}/{} is destructive ({other} has '{}' job queued, but '{}' is \
                 included in transaction).",
                kind.as_str(),
                installed.as_str(),
                included.as_str(),
            ),
            Refusal::WouldStop(u) => {
                write!(f, "{u}/stop would stop a running unit, which job mode lenient forbids.")
            }
            Refusal::Cycle(units) => {
                write!(f, "Transaction order is cyclic: ")?;
                units.iter().try_for_each(|u| write!(f, "{u} -> "))?;
                units.first().map_or(Ok(()), |u| write!(f, "{u}"))
            }
            Refusal::NotApplicable(u) => {
                write!(f, "Job type is not applicable for unit {u}.")
            }
            Refusal::Maintenance(u) => {
                write!(f, "Unit {u} is in maintenance: 'warren clear {u}' when it is mended.")
            }
            Refusal::NotActive(u) => write!(f, "Unit {u} is not active."),
            Refusal::NothingToClear(u) => {
                write!(f, "Unit {u} is neither in maintenance nor degraded, and has not failed.")
            }
            Refusal::NotStopping(u) => write!(f, "Unit {u} is not being stopped."),
            Refusal::BadMode(why) => f.write_str(why),
            Refusal::NoSuchJob(job) => write!(f, "Job {} does not exist.", job.0),
            Refusal::NoSuchProcess(u) => write!(f, "Unit {u} has no such process."),
            Refusal::BadSignal(n) => write!(f, "Signal number {n} is out of range."),
            Refusal::CannotFreeze(u) => write!(f, "Unit '{u}' does not support freezing."),
            Refusal::ScopeNotRunning(u) => {
                write!(f, "Scope {u} is not running, cannot abandon.")
            }
            Refusal::ScopeExists(u) => write!(f, "Unit {u} was already loaded."),
            Refusal::NotAtRest => write!(f, "Unit is not inactive or has pending job."),
            Refusal::NothingToClean => write!(f, "No matching resources found."),
            Refusal::Inactive => write!(f, "Unit is inactive."),
            Refusal::HasJob(u) => write!(f, "Unit {u} has a pending job."),
            Refusal::FreezerBusy(u) => write!(f, "Unit {u} is being frozen, thawed or changed."),
            Refusal::Kernel(error) => f.write_str(error),
            Refusal::ShuttingDown => write!(f, "The manager is shutting down."),
        }
    }
}

/// Something that subscribers want to hear of. Changes of state are not here: after each batch
/// the units that changed are published with the view.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// A job was installed.
    JobNew {
        /// Its number.
        job: JobId,
        /// Its unit.
        unit: UnitId,
    },
    /// A job ended.
    JobRemoved {
        /// Its number.
        job: JobId,
        /// Its unit.
        unit: UnitId,
        /// What it was to do.
        kind: JobKind,
        /// How.
        result: JobResult,
        /// Whether its unit did something for it: nothing was left to do for a start of what is up, or a stop of
        /// what is down, and what conditions skip did nothing.
        changed: bool,
    },
    /// A unit became known.
    UnitNew(UnitId),
    /// A unit's definition is gone and nothing of it runs.
    UnitRemoved(UnitId),
    /// Something for the log, about one unit.
    Log {
        /// The unit.
        unit: UnitId,
        /// What happened.
        reason: Reason,
        /// More about it: an exit code, a path, an error text.
        detail: String,
    },
    /// What the last run of a service left in the file system stays, as several managers ended while it was
    /// being removed.
    RemovalGivenUp {
        /// The service.
        unit: UnitId,
        /// Its paths.
        paths: Vec<PathBuf>,
    },
    /// The controller of a scope is asked to end its processes.
    RequestStop(UnitId),
    /// An order that goes in a circle was broken.
    CycleBroken {
        /// Every unit of the circle, in order.
        units: Vec<UnitId>,
        /// The one whose job was dropped, or waits for nobody.
        at: UnitId,
        /// Whether the job is kept: a stop.
        is_kept: bool,
    },
}

impl Refusal {
    /// The unit that it is about, where it is about one.
    pub fn unit(&self) -> Option<&UnitName> {
        match self {
            Refusal::NoSuchUnit(unit)
            | Refusal::Masked(unit)
            | Refusal::BadSetting(unit)
            | Refusal::LoadError(unit)
            | Refusal::Maintenance(unit)
            | Refusal::OnlyByDependency(unit, _) => Some(unit),
            _ => None,
        }
    }

    /// The reason code that says the same.
    pub fn code(&self) -> Code {
        match self {
            Refusal::Masked(_) => Code::Masked,
            Refusal::BadSetting(_) | Refusal::LoadError(_) => Code::BadSetting,
            Refusal::NoSuchUnit(_) => Code::NotLoaded,
            Refusal::ShuttingDown => Code::ManagerExit,
            Refusal::Maintenance(_) => Code::Maintenance,
            Refusal::NotApplicable(_) => Code::NotSupported,
            Refusal::Cycle(_) => Code::Circle,
            Refusal::JobsConflict(_) => Code::Contradiction,
            Refusal::Outdone { .. } => Code::LeftOut,
            Refusal::Destructive { .. } | Refusal::WouldStop(_) => Code::StoodAgainst,
            Refusal::OnlyByDependency(..) => Code::NotByHand,
            _ => Code::Canceled,
        }
    }
}
