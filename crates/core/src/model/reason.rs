//! Why: the code and the cause that every transition and every end of a job carries.
//!
//! One table of codes; texts and documentation come from it. A code's number is stable and is
//! shown as `WR-nnnn`; a code that is no longer used keeps its number. State files count codes by their
//! place: a new one goes to the end.

mod explained;

pub use explained::{Explained, explained};

use crate::model::ids::UnitId;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $cure:literal;)*) => {
        /// What happened. The documentation of each code is its text.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
        #[repr(u16)]
        pub enum Code {
            $(#[doc = $text] $(#[$doc])* $name = $number,)*
        }

        impl Code {
            /// Every code, by number.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// One line for people.
            pub fn text(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// What clears it; empty where nothing needs to be cleared.
            pub fn cure(self) -> &'static str {
                match self { $(Code::$name => $cure,)* }
            }
        }
    };
}

codes! {
    #[default]
    NeverStarted = 1, "not started since the manager started", "start it, or a unit that wants it";
    Started = 10, "started by a start job", "";
    Triggered = 11, "started by its trigger unit", "";
    Restarted = 12, "restarted by Restart=", "";
    Discovered = 13, "found in the kernel, not started by the manager", "";
    Upheld = 14, "kept up by Upholds= of an active unit", "";
    PluggedIn = 15, "the device is present", "";
    MountedUnseen = 16, "the device was not reported, but a file system or swap on it is in use", "";
    WantedByDevice = 17, "started because a device that wants it appeared", "";
    AwaitsDevice = 18, "waiting for the device to appear", "";
    Returned = 19, "started again: the unit that had stopped it (ExcludeAll=, RestartOn=) permits it again", "";
    Stopped = 20, "stopped by a stop job", "start it again";
    StoppedByConflict = 21, "stopped because a conflicting unit was started", "stop that unit first";
    StoppedWithDependency = 22, "stopped together with a unit that it depends on", "start that unit, then this one";
    Unneeded = 23, "stopped by StopWhenUnneeded=: no active unit needs it", "";
    Finished = 24, "exited successfully", "";
    BoundUnitGone = 25, "a unit named in BindsTo= is not active", "start the unit that it is bound to";
    Expired = 26, "unmounted after being idle for TimeoutIdleSec=", "";
    Vanished = 27, "disappeared from the kernel without a job", "";
    Sudden = 28, "killed at shutdown without a stop signal: it has nothing to save", "";
    Hurried = 29, "an administrator skipped the wait for it", "";
    ConditionFailed = 30, "skipped: a condition was not met", "see the Condition*= settings of the unit";
    AssertFailed = 31, "an assertion was not met", "see the Assert*= settings of the unit";
    ExitCode = 40, "a process exited with a failure status", "see its last log lines";
    Signal = 41, "a process was killed by a signal", "see its last log lines";
    CoreDump = 42, "a process crashed and dumped core", "see its last log lines";
    StartTimeout = 43, "not ready within TimeoutStartSec=", "find out what it waits for, or raise the timeout";
    StopTimeout = 44, "killed: it did not stop within TimeoutStopSec=", "find out why it ignores the stop signal";
    RuntimeTimeout = 45, "stopped: it ran for longer than RuntimeMaxSec=", "start it again; raise the limit if it may run for longer";
    WatchdogTimeout = 46, "no watchdog message within WatchdogSec=", "see its last log lines";
    Protocol = 47, "it did not behave as its Type= requires", "check Type=, PIDFile= and NotifyAccess=";
    StartLimit = 48, "started too often", "find out why it keeps ending, then `warren reset-failed UNIT`";
    TriggerLimit = 49, "triggered too often", "find out why its service does not read the traffic, then `warren reset-failed UNIT` and start it";
    OomKilled = 50, "a process was killed because memory ran out", "raise its memory limit or reduce its memory use";
    ExecFailed = 51, "its program could not be executed", "see the error in the status text; check the path, the working directory, the user and the permissions";
    Resources = 52, "the system lacks a resource that it needs", "see the error in the status text";
    ListenFailed = 53, "its sockets could not be opened", "see the error in the status text";
    MountFailed = 54, "the mount failed", "see its last log lines; check What=, Type= and Options=";
    UnmountFailed = 55, "the unmount failed", "find the processes that use the mount point";
    ServiceLimit = 56, "the unit that it activates reached its start limit", "find out why that unit keeps ending, then `warren reset-failed` both and start this one";
    ReloadFailed = 57, "the reload failed; it keeps running with its old configuration", "see its last log lines";
    DependencyFailed = 60, "a unit that it requires failed to start", "fix that unit";
    RequisiteMissing = 61, "a unit named in Requisite= is not active", "start that unit first";
    LeftOut = 62, "skipped as an optional dependency: a unit that it requires cannot start, or a conflicting unit was started", "fix the unit that it requires or create its file; or start only one of the conflicting units";
    DeviceMissing = 63, "the device did not appear in time", "connect it, or see `warren devices` for what it waits for";
    NoneOfGroup = 64, "no unit of its RequireAny= group is active or starting", "start one of them";
    Excluded = 65, "a unit named in ExcludeAll= is active", "stop that unit first";
    OutcomeLimit = 66, "started too often by OnFailure= or OnSuccess= of other units", "find out why those units keep ending, and whether its conditions can be met";
    Canceled = 70, "a later request replaced its job", "";
    CanceledByUser = 71, "an administrator cancelled its job", "";
    JobTimeout = 72, "its job did not complete within its timeout", "find out what it waited for";
    Isolated = 73, "stopped by isolate: the target does not need it", "";
    DependencyEnded = 74, "stopped because a unit named in RestartOn= went down; it starts again with that unit", "start or fix that unit";
    GaveWay = 75, "stopped because a unit named in ExcludeAll= was started; it starts again when that unit is down", "stop that unit";
    NotLoaded = 80, "the unit has no unit file", "create the unit file, or correct the name";
    Masked = 81, "the unit is masked", "unmask it";
    BadSetting = 82, "the unit file has an error", "see `warren verify UNIT`";
    NotSupported = 83, "this version does not run units of this type", "";
    NoDevices = 84, "warren-deviced is not running, so all devices are assumed to be present", "start warren-deviced.service, where there are devices";
    Maintenance = 85, "in maintenance", "fix it, then `warren clear UNIT` and start it";
    ManagerExit = 90, "the system is shutting down", "";
    Circle = 91, "start refused: jobs that it needs wait for each other in a cycle", "remove an After= or Before= from the cycle";
    Contradiction = 92, "start refused: it needs a unit to be both started and stopped", "remove one of the two relations, or start fewer units at once";
    StoodAgainst = 93, "start refused: a conflicting job is queued and may not be replaced", "start it when that job has completed, or cancel the job";
    NotByHand = 94, "start refused: RefuseManualStart=yes, only other units can start it", "start a unit that wants it";
    StopCommandTimeout = 95, "a stop command was still running when its share of TimeoutStopSec= was used up", "find out what ExecStop= or ExecStopPost= waits for";
    StopLeft = 96, "it did not stop within TimeoutStopSec=, and with SendSIGKILL=no its remaining processes were left running", "end the leftover processes that the log names, or remove SendSIGKILL=no";
    UnmountTimeout = 97, "not unmounted within TimeoutSec=", "find out what the unmount waits for: a server that does not respond, or unwritten data";
    KernelHolds = 98, "processes survived SIGKILL (uninterruptible sleep): their PIDs are in the unit's log", "bring back what the kernel waits for: usually a file server that does not respond, or a disk";
    Elapsed = 99, "nothing that the timer waits for is to come (RemainAfterElapse=no)", "start it again, for what is to come from then on";
    WatchdogIgnored = 100, "not done what a watchdog or a limit asks for: service watchdogs are off", "`systemctl service-watchdogs yes`";
    SliceFull = 101, "start refused: as many units of its slice are active as ConcurrencyHardMax= allows", "stop one of them, or raise the limit";
}

impl Code {
    /// The stable name: `WR-` and four digits.
    pub fn id(self) -> String {
        format!("WR-{:04}", self as u16)
    }

    /// Whether it tells of a start that was refused.
    pub fn is_refusal(self) -> bool {
        use Code::{Circle, Contradiction, LeftOut, NotByHand, StoodAgainst};
        matches!(self, LeftOut | Circle | Contradiction | StoodAgainst | NotByHand)
    }

    /// Whether it is the unit's trouble that it tells of, and not the ordinary way of things.
    pub fn is_trouble(self) -> bool {
        (30..70).contains(&(self as u16)) || (72..=72).contains(&(self as u16)) || self as u16 >= 80
    }
}

/// The page of the documentation that lists every code.
pub fn documentation() -> String {
    let mut out = String::from(
        "# Reasons\n\nGenerated from the table of reason codes. Every state that a unit is in and \
         every end of a job carries one; `warren why`, `warren status`, the log and the charts show \
         it. A code keeps its number for ever.\n\nUNIT stands for the unit that shows the code.\n\n\
         | code | what happened | what clears it |\n|--|--|--|\n",
    );
    for &code in Code::ALL {
        let (id, text) = (code.id(), code.text());
        let cure = if code.cure().is_empty() { "nothing" } else { code.cure() };
        out += &format!("| [`{id}`](#{}) | {text} | {cure} |\n", id.to_lowercase());
    }
    Code::ALL.iter().for_each(|&code| out += &section(code));
    out
}

fn section(code: Code) -> String {
    let Explained { cause, look, clears } = explained(code);
    format!(
        "\n## {}\n\n*{}*\n\n- **Cause:** {cause}\n- **Where to look:** {look}\n\
         - **What clears it:** {clears}\n",
        code.id(),
        capital(code.text()),
    )
}

/// The same with a capital letter, as a sentence begins.
fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}.", first.to_uppercase())
}

/// Who or what set something off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Cause {
    /// Nothing is known or nothing was needed.
    #[default]
    None,
    /// A client's request.
    Request {
        /// The client's user.
        uid: u32,
        /// The client's process; 0 when it is not known.
        pid: u32,
    },
    /// A dependency of this unit pulled it in or took it down.
    Dependency(UnitId),
    /// This unit triggered it (a socket its service, an automount its mount).
    Trigger(UnitId),
    /// `Restart=` of the unit itself.
    Restart,
    /// `OnFailure=` or `OnSuccess=` of this unit.
    Outcome(UnitId),
    /// The kernel: a process ended, a mount came or went.
    Kernel,
    /// The manager's start or end.
    Manager,
}

/// A code with its cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reason {
    /// What happened.
    pub code: Code,
    /// Who or what set it off.
    pub cause: Cause,
}

impl Reason {
    /// A reason from its parts.
    pub fn new(code: Code, cause: Cause) -> Reason {
        Reason { code, cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_trouble_has_a_cure() {
        for pair in Code::ALL.windows(2) {
            assert!((pair[0] as u16) < pair[1] as u16, "{pair:?}");
        }
        let cureless = [Code::NotSupported, Code::ManagerExit];
        for code in Code::ALL.iter().filter(|c| c.is_trouble() && !cureless.contains(c)) {
            assert!(!code.cure().is_empty(), "{code:?} does not say what clears it");
        }
        assert_eq!(Code::ExitCode.id(), "WR-0040");
    }

    /// A code between others would change what state files of the versions before mean.
    #[test]
    fn new_codes_go_to_the_end() {
        let place = |code: Code| postcard::to_stdvec(&code).expect("plain data");
        for (code, expected) in [(Code::Stopped, 11), (Code::ExitCode, 23), (Code::ManagerExit, 60)]
        {
            assert_eq!(place(code), [expected], "{code:?}");
        }
    }
}
