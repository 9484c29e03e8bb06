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
    NeverStarted = 1, "nothing has asked for it since the manager started", "start it, or a unit that wants it";
    Started = 10, "a start job brought it up", "";
    Triggered = 11, "the unit that it is activated by was triggered", "";
    Restarted = 12, "Restart= started it again", "";
    Discovered = 13, "the kernel has it, nobody asked the manager for it", "";
    Upheld = 14, "Upholds= of an active unit keeps it up", "";
    PluggedIn = 15, "the device is there", "";
    MountedUnseen = 16, "nobody told of the device, but something of it is mounted", "";
    WantedByDevice = 17, "a device that wants it was plugged in", "";
    AwaitsDevice = 18, "it is waited for: the device is not there yet", "";
    Returned = 19, "the unit that had stopped it by a rule of its file allows it again", "";
    Stopped = 20, "a stop job took it down", "start it again";
    StoppedByConflict = 21, "a unit that conflicts with it was started", "stop that unit first";
    StoppedWithDependency = 22, "a unit that it requires, is part of or is bound to was stopped", "start that unit, then this one";
    Unneeded = 23, "StopWhenUnneeded= and no active unit needs it", "";
    Finished = 24, "it ended without a request, in a way that counts as success", "";
    BoundUnitGone = 25, "a unit that it is bound to went away", "bring back the unit that it is bound to";
    Expired = 26, "it was idle for TimeoutIdleSec=", "";
    Vanished = 27, "it went away in the kernel without a request", "";
    Sudden = 28, "it holds nothing to save, so the end of the manager killed it without asking", "";
    Hurried = 29, "an administrator did not want to wait for it any longer", "";
    ConditionFailed = 30, "a condition was not met, so it was skipped", "see the Condition*= settings of the unit";
    AssertFailed = 31, "an assertion was not met", "see the Assert*= settings of the unit";
    ExitCode = 40, "a process left with an exit code that is not a success", "see its last log lines";
    Signal = 41, "a process was ended by a signal", "see its last log lines";
    CoreDump = 42, "a process crashed and dumped core", "see its last log lines";
    StartTimeout = 43, "it was not ready within TimeoutStartSec=", "find out what it waits for, or raise the timeout";
    StopTimeout = 44, "it did not stop within TimeoutStopSec= and was killed", "find out why it ignores the stop signal";
    RuntimeTimeout = 45, "it ran for longer than RuntimeMaxSec=", "start it again; raise the limit if it may run for longer";
    WatchdogTimeout = 46, "it did not feed its watchdog", "see its last log lines";
    Protocol = 47, "it did not follow the protocol of its Type=", "check Type=, PIDFile= and NotifyAccess=";
    StartLimit = 48, "it was started too often", "see why it ends so often, then `warren reset-failed UNIT`";
    TriggerLimit = 49, "it was triggered too often", "see why its service does not take the traffic, then `warren reset-failed UNIT` and start it";
    OomKilled = 50, "the kernel ran out of memory and killed a process of it", "give it more memory or less to do";
    ExecFailed = 51, "its program could not be executed", "see the error in the status text; check the path, the working directory, the user and the permissions";
    Resources = 52, "a resource could not be had", "see the error in the status text";
    ListenFailed = 53, "its sockets could not be opened", "see the error in the status text";
    MountFailed = 54, "the mount failed", "see its last log lines; check What=, Type= and Options=";
    UnmountFailed = 55, "the unmount failed", "see who still uses the mount point";
    ServiceLimit = 56, "the unit that it activates ran into its start limit", "see why that unit ends so often, then `warren reset-failed` both and start this one";
    ReloadFailed = 57, "the reload command failed; it runs on with its old configuration", "see its last log lines";
    DependencyFailed = 60, "a unit that it requires could not be started", "mend that unit";
    RequisiteMissing = 61, "a unit named in Requisite= is not active", "start that unit first";
    LeftOut = 62, "it was skipped as an optional dependency: a unit that it requires cannot start, or a conflicting unit was started", "mend the unit that it requires, or give it its file; or want only one of those in conflict";
    DeviceMissing = 63, "the device did not show up in time", "plug it in, or see `warren devices` for what it waits for";
    NoneOfGroup = 64, "no unit of a line of RequireAny= is up or about to be", "start one of them";
    Excluded = 65, "a unit that ExcludeAll= names is up", "stop that unit first";
    OutcomeLimit = 66, "OnFailure= or OnSuccess= of other units asked for it too often", "see why those units end so often, and whether its conditions ever hold";
    Canceled = 70, "a later request took the job's place", "";
    CanceledByUser = 71, "an administrator cancelled the job", "";
    JobTimeout = 72, "the job did not end within its timeout", "see what it waited for";
    Isolated = 73, "isolate stopped everything that its target does not need", "";
    DependencyEnded = 74, "a unit that RestartOn= names ended; it starts again with that unit", "start that unit, or mend it";
    GaveWay = 75, "a unit that ExcludeAll= names was started; it starts again when that unit is down", "stop that unit";
    NotLoaded = 80, "the unit has no file", "make the unit file, or correct the name";
    Masked = 81, "the unit is masked", "unmask it";
    BadSetting = 82, "the unit file has an error", "see `warren verify UNIT`";
    NotSupported = 83, "units of this type are not run here", "";
    NoDevices = 84, "warren-deviced is not running, so all devices are assumed to be present", "start warren-deviced.service, where there are devices";
    Maintenance = 85, "it is in maintenance", "mend it, then `warren clear UNIT` and start it";
    ManagerExit = 90, "the manager is going down", "";
    Circle = 91, "its start was refused: jobs that it needs wait for each other in a circle", "take an After= or Before= of the circle away";
    Contradiction = 92, "its start was refused: it needs a unit up and down at once", "take one of the relations away, or start less at once";
    StoodAgainst = 93, "its start was refused: a conflicting job is queued and may not be replaced", "start it when that job is over, or cancel the job";
    NotByHand = 94, "its start was refused: RefuseManualStart= leaves that to other units", "start a unit that wants it";
    StopCommandTimeout = 95, "a command of its stop did not end in its share of TimeoutStopSec=", "find out what ExecStop= or ExecStopPost= waits for";
    StopLeft = 96, "it did not stop within TimeoutStopSec=, and with SendSIGKILL=no its remaining processes were left running", "end the processes that the log names as left over, or take SendSIGKILL=no away";
    UnmountTimeout = 97, "it was not unmounted within TimeoutSec=", "see what the unmount waits for: a server that does not answer, or much that is to be written";
    KernelHolds = 98, "processes survived SIGKILL (uninterruptible sleep): see the log of the unit for their pids", "bring back what the kernel waits for there: mostly a server of a file system that does not answer, or a disk";
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
        let cure = if code.cure().is_empty() { "nothing needs to be" } else { code.cure() };
        out += &format!("| [`{id}`](#{}) | {text} | {cure} |\n", id.to_lowercase());
    }
    Code::ALL.iter().for_each(|&code| out += &section(code));
    out
}

fn section(code: Code) -> String {
    let Explained { cause, look, clears } = explained(code);
    format!(
        "\n## {}\n\n*{}*\n\n- **How it comes about:** {cause}\n- **What to look at:** {look}\n\
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
