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
    /// Paths: the unit that it starts ran into its own start limit.
    UnitStartLimitHit,
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
            Outcome::UnitStartLimitHit => "unit-start-limit-hit",
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

/// The main process of a service, as far as it is known. A service can run without a known one: it has forked its
/// process and no PID file names it, or it has left others behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MainProcess {
    /// None is known, and none is on the way.
    #[default]
    None,
    /// Its spawn is under way.
    Asked(EffectId),
    /// It runs.
    Running(Process),
    /// The service has named it (sd_notify(3), `MAINPID=`), and a spawn is still under way, the answer to which
    /// names the first process.
    Named {
        /// The one that was named.
        process: Process,
        /// The spawn.
        asked: EffectId,
    },
}

impl MainProcess {
    /// The process, while it runs.
    pub fn process(self) -> Option<Process> {
        match self {
            MainProcess::Running(process) | MainProcess::Named { process, .. } => Some(process),
            MainProcess::None | MainProcess::Asked(_) => None,
        }
    }

    /// The spawn that is under way.
    pub fn asked(self) -> Option<EffectId> {
        match self {
            MainProcess::Asked(asked) | MainProcess::Named { asked, .. } => Some(asked),
            MainProcess::None | MainProcess::Running(_) => None,
        }
    }

    /// What is known and what is on the way, as one.
    pub(crate) fn of(process: Option<Process>, asked: Option<EffectId>) -> MainProcess {
        match (process, asked) {
            (None, None) => MainProcess::None,
            (None, Some(asked)) => MainProcess::Asked(asked),
            (Some(process), None) => MainProcess::Running(process),
            (Some(process), Some(asked)) => MainProcess::Named { process, asked },
        }
    }

    /// Its spawn is asked for.
    pub(crate) fn ask(&mut self, asked: EffectId) {
        *self = MainProcess::of(self.process(), Some(asked));
    }

    /// The spawn is answered.
    pub(crate) fn take_asked(&mut self) {
        *self = MainProcess::of(self.process(), None);
    }

    /// This process is the main one from now on.
    pub(crate) fn set(&mut self, process: Process) {
        *self = MainProcess::of(Some(process), self.asked());
    }

    /// The process has ended, or is another unit's or a control process.
    pub(crate) fn take_process(&mut self) -> Option<Process> {
        let process = self.process();
        *self = MainProcess::of(None, self.asked());
        process
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_process_that_names_itself_keeps_the_spawn_that_is_under_way() {
        let (asked, process) = (EffectId(3), Process { pid: 7, started: Moment::default() });
        let mut main = MainProcess::default();
        main.ask(asked);
        assert_eq!(main, MainProcess::Asked(asked));
        main.set(process);
        assert_eq!(main, MainProcess::Named { process, asked });
        assert_eq!((main.process(), main.asked()), (Some(process), Some(asked)));
        let mut answered = main;
        answered.take_asked();
        assert_eq!(answered, MainProcess::Running(process));
        assert_eq!(main.take_process(), Some(process));
        assert_eq!((main, main.take_process()), (MainProcess::Asked(asked), None));
    }
}
