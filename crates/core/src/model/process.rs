//! Processes of units: which command a process runs, how it ended, and what came of a unit that way.
//!
//! Only data: who starts and follows processes is elsewhere.

use crate::model::ids::EffectId;
use crate::model::time::{Moment, Monotonic};
use serde::{Deserialize, Serialize};

/// Why a unit ended, as systemd's `Result=` property names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum Outcome {
    /// As it should.
    #[default]
    Success,
    /// Fork, cgroup, file descriptors or the like could not be had.
    Resources,
    /// The process did not follow its protocol (no READY=1, no PID file, ...).
    Protocol,
    /// A timeout ran out.
    Timeout,
    /// A process exited with a failure status.
    ExitCode,
    /// A process was killed by a signal that is not a success.
    Signal,
    /// A process was killed by a signal and dumped core.
    CoreDump,
    /// The watchdog was not fed.
    Watchdog,
    /// Started too often.
    StartLimitHit,
    /// The kernel's OOM killer ended a process.
    OomKill,
    /// `ExecCondition=` said no.
    ExecCondition,
    /// Sockets: the service could not be started too often.
    TriggerLimitHit,
    /// Sockets: the triggered service ran into its own start limit.
    ServiceStartLimitHit,
    /// Automounts: the mount ran into its own start limit.
    MountStartLimitHit,
    /// Automounts: the mount point was unmounted by someone else.
    Unmounted,
}

impl Outcome {
    /// The word that clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::Resources => "resources",
            Outcome::Protocol => "protocol",
            Outcome::Timeout => "timeout",
            Outcome::ExitCode => "exit-code",
            Outcome::Signal => "signal",
            Outcome::CoreDump => "core-dump",
            Outcome::Watchdog => "watchdog",
            Outcome::StartLimitHit => "start-limit-hit",
            Outcome::OomKill => "oom-kill",
            Outcome::ExecCondition => "exec-condition",
            Outcome::TriggerLimitHit => "trigger-limit-hit",
            Outcome::ServiceStartLimitHit => "service-start-limit-hit",
            Outcome::MountStartLimitHit => "mount-start-limit-hit",
            Outcome::Unmounted => "unmounted",
        }
    }
}

/// How a process ended, as waitid(2) tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ExitStatus {
    /// exit(2) with this code.
    Exited(u8),
    /// Ended by this signal.
    Killed(u8),
    /// Ended by this signal, with a core dump.
    Dumped(u8),
    /// Nobody can know any more: it ended while its parent was away.
    Unknown,
}

/// A process that ended, kept for `status` and `show`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// Its pid.
    pub pid: u32,
    /// When it was started.
    pub started: Moment,
    /// When its end was seen.
    pub ended: Moment,
    /// How it ended.
    pub status: ExitStatus,
}

/// A process that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Its pid in the manager's pid namespace.
    pub pid: u32,
    /// When it was started.
    pub started: Moment,
}

impl Process {
    /// Its end, seen at `now`. Where its beginning was seen in the same batch a microsecond lies between
    /// the two: `systemctl status` takes equal times for those of one that has not ended.
    pub(crate) fn ended(self, now: Moment, status: ExitStatus) -> Ended {
        let (monotonic, realtime_us) =
            (Monotonic(self.started.monotonic.0 + 1), self.started.realtime_us + 1);
        let is_later = now.monotonic > self.started.monotonic;
        let ended = if is_later { now } else { Moment { monotonic, realtime_us } };
        Ended { pid: self.pid, started: self.started, ended, status }
    }
}

/// Which list of commands a control process comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum CommandList {
    /// `ExecCondition=`
    Condition,
    /// `ExecStartPre=`
    StartPre,
    /// `ExecStart=`
    Start,
    /// `ExecStartPost=`
    StartPost,
    /// `ExecReload=`
    Reload,
    /// `ExecStop=`, and `ExecStopPre=` of sockets
    Stop,
    /// `ExecStopPost=`
    StopPost,
}

impl CommandList {
    /// The setting of services that has these commands.
    pub fn setting(self) -> &'static str {
        match self {
            CommandList::Condition => "ExecCondition",
            CommandList::StartPre => "ExecStartPre",
            CommandList::Start => "ExecStart",
            CommandList::StartPost => "ExecStartPost",
            CommandList::Reload => "ExecReload",
            CommandList::Stop => "ExecStop",
            CommandList::StopPost => "ExecStopPost",
        }
    }
}

/// A control process, or the request to have one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Control {
    /// Asked for; the effect is not done yet.
    Asked(EffectId),
    /// Running.
    Running(Process),
}

/// Ends of commands that are kept of a run: each is written down with every change of the unit, so
/// that a list of thousands would cost the square of it. The oldest go first.
pub const COMMAND_ENDS_MAX: usize = 64;
