//! The vocabulary of events: small enums, each value with a number for files and a word for people.
//!
//! Numbers are part of the file format and are never given twice; a value that is no longer written
//! keeps its number. What must not be here: anything of the manager's own types, so that an old
//! recording can be read by any version.

/// Makes an enum with stable numbers and words. `from_number` gives `None` for numbers of newer
/// versions.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $number:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum $name { $(#[doc = $text] $variant = $number,)* }

        impl $name {
            /// Every value, by number.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// The word that people see.
            pub fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The number in files.
            pub fn number(self) -> u8 {
                self as u8
            }

            /// The value of a number.
            pub fn from_number(number: u8) -> Option<$name> {
                match number { $($number => Some($name::$variant),)* _ => None }
            }

            /// The value of a word.
            pub fn from_text(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$variant),)* _ => None }
            }
        }
    };
}

words! {
    /// What a recording is of.
    Subject {
        Live = 1, "live";
        Boot = 2, "boot";
        Reload = 3, "reload";
        Shutdown = 4, "shutdown";
    }
}

words! {
    /// What a job does to its unit.
    Work {
        Start = 1, "start";
        VerifyActive = 2, "verify-active";
        Stop = 3, "stop";
        Reload = 4, "reload";
        Restart = 5, "restart";
        Nop = 6, "nop";
        Own = 7, "by itself";
    }
}

impl Work {
    /// Takes its unit down: such jobs go before start jobs, and against the order of the units.
    pub fn is_stopping(self) -> bool {
        matches!(self, Work::Stop | Work::Restart)
    }
}

words! {
    /// Who asked for a job.
    Asked {
        Unknown = 1, "unknown";
        Request = 2, "a request";
        Dependency = 3, "a dependency";
        Trigger = 4, "a trigger";
        Restart = 5, "Restart=";
        Outcome = 6, "OnFailure= or OnSuccess=";
        Kernel = 7, "the kernel";
        Manager = 8, "the manager";
    }
}

words! {
    /// What let a waiting job run. A manager tells of the first two; that a job waited for the time of
    /// its restart follows from its unit's state. It has no words for the others.
    Release {
        AtOnce = 1, "nothing to wait for";
        Unit = 2, "a unit";
        Timer = 3, "a timer";
        Condition = 4, "a condition";
        Device = 5, "a device";
        Idle = 6, "no other job";
    }
}

impl Release {
    /// Waited for something that neither a unit nor the manager could hasten.
    pub fn is_outside(self) -> bool {
        matches!(self, Release::Timer | Release::Condition | Release::Device)
    }
}

words! {
    /// How a job ended, in the words of the `JobRemoved` signal. No manager writes the last two.
    Ending {
        Done = 1, "done";
        Canceled = 2, "canceled";
        Timeout = 3, "timeout";
        Failed = 4, "failed";
        Dependency = 5, "dependency";
        Skipped = 6, "skipped";
        Invalid = 7, "invalid";
        Assert = 8, "assert";
        Unsupported = 9, "unsupported";
        Collected = 10, "collected";
        Once = 11, "once";
        Frozen = 12, "frozen";
        Concurrency = 13, "concurrency";
    }
}

words! {
    /// The state of any unit.
    Active {
        Inactive = 1, "inactive";
        Activating = 2, "activating";
        Active = 3, "active";
        Reloading = 4, "reloading";
        Deactivating = 5, "deactivating";
        Failed = 6, "failed";
        Maintenance = 7, "maintenance";
    }
}

words! {
    /// The state of a unit in the words of its type.
    Sub {
        Unknown = 0, "unknown";
        Dead = 1, "dead";
        Failed = 2, "failed";
        Condition = 3, "condition";
        StartPre = 4, "start-pre";
        Start = 5, "start";
        StartPost = 6, "start-post";
        Running = 7, "running";
        Exited = 8, "exited";
        Reload = 9, "reload";
        ReloadSignal = 10, "reload-signal";
        ReloadNotify = 11, "reload-notify";
        Stop = 12, "stop";
        StopWatchdog = 13, "stop-watchdog";
        StopSigterm = 14, "stop-sigterm";
        StopSigkill = 15, "stop-sigkill";
        StopPost = 16, "stop-post";
        FinalWatchdog = 17, "final-watchdog";
        FinalSigterm = 18, "final-sigterm";
        FinalSigkill = 19, "final-sigkill";
        AutoRestart = 20, "auto-restart";
        StartChown = 21, "start-chown";
        Listening = 22, "listening";
        StopPre = 23, "stop-pre";
        StopPreSigterm = 24, "stop-pre-sigterm";
        StopPreSigkill = 25, "stop-pre-sigkill";
        Mounting = 26, "mounting";
        MountingDone = 27, "mounting-done";
        Mounted = 28, "mounted";
        Remounting = 29, "remounting";
        RemountingSigterm = 30, "remounting-sigterm";
        RemountingSigkill = 31, "remounting-sigkill";
        Unmounting = 32, "unmounting";
        UnmountingSigterm = 33, "unmounting-sigterm";
        UnmountingSigkill = 34, "unmounting-sigkill";
        Waiting = 35, "waiting";
        Active = 36, "active";
        Plugged = 37, "plugged";
        Tentative = 38, "tentative";
        Elapsed = 39, "elapsed";
        Abandoned = 40, "abandoned";
    }
}

words! {
    /// Which command of a unit a process came from. No manager writes the first and the last.
    Command {
        Other = 0, "process";
        Condition = 1, "ExecCondition=";
        StartPre = 2, "ExecStartPre=";
        Start = 3, "ExecStart=";
        StartPost = 4, "ExecStartPost=";
        Reload = 5, "ExecReload=";
        Stop = 6, "ExecStop=";
        StopPost = 7, "ExecStopPost=";
        Helper = 8, "mount helper";
    }
}

words! {
    /// How a process ended.
    Exit {
        Unknown = 0, "unknown";
        Exited = 1, "exited";
        Killed = 2, "killed";
        Dumped = 3, "dumped core";
    }
}

words! {
    /// What a counter of a unit counts.
    Counter {
        CpuUs = 1, "CPU time, us";
        MemoryPeakBytes = 2, "memory peak, bytes";
        IoReadBytes = 3, "read, bytes";
        IoWriteBytes = 4, "written, bytes";
        Tasks = 5, "tasks";
    }
}

words! {
    /// When a counter was read. Managers read them when a unit goes down.
    Reading {
        Start = 1, "at start";
        Stop = 2, "at stop";
    }
}

words! {
    /// What the manager was doing. The first three contain others, and [`Phase::may_hold`] says which.
    /// No manager writes `Kernel`, `Initrd`, `Parse`, `Plan`, `Sync` and `HandOver`.
    Phase {
        Boot = 1, "boot";
        Reload = 2, "reload";
        Shutdown = 3, "shutdown";
        Kernel = 10, "kernel";
        Initrd = 11, "initrd";
        Recover = 12, "take over running units";
        Generators = 13, "generators";
        Scan = 14, "look for changed files";
        Parse = 15, "parse";
        Link = 16, "compute units";
        Apply = 17, "swap the generation";
        Plan = 18, "plan";
        StartUnits = 19, "start units";
        StopUnits = 20, "stop units";
        Stragglers = 21, "stop leftover processes";
        Storage = 22, "storage";
        Sync = 23, "sync";
        HandOver = 24, "hand over";
        Load = 25, "load";
        Activate = 26, "start volume groups and arrays";
        Enabled = 27, "read what is enabled";
        Prepare = 28, "prepare to start units";
        Loop = 29, "wait for the manager's loop";
        Restore = 30, "the new manager starts";
        LeftOver = 31, "wait for leftover processes";
        Held = 32, "wait for processes stuck in the kernel";
    }
}

impl Phase {
    /// The phase that a recording of `subject` covers; none for a live one.
    pub fn of(subject: Subject) -> Option<Phase> {
        match subject {
            Subject::Live => None,
            Subject::Boot => Some(Phase::Boot),
            Subject::Reload => Some(Phase::Reload),
            Subject::Shutdown => Some(Phase::Shutdown),
        }
    }

    /// The manager waits for processes of no unit, which it can do nothing to hasten.
    pub fn is_outside(self) -> bool {
        matches!(self, Phase::LeftOver | Phase::Held)
    }

    /// Whether `inner`, begun within this phase, is over at the latest when this one is. What other
    /// threads did is told when it is over, so that phases may cross.
    pub fn may_hold(self, inner: Phase) -> bool {
        use Phase::{
            Apply, Boot, Enabled, Generators, Held, LeftOver, Link, Load, Loop, Parse, Plan,
            Prepare, Recover, Reload, Restore, Scan, Shutdown, StartUnits, StopUnits, Storage,
            Stragglers,
        };
        match self {
            Boot => !matches!(inner, Shutdown | StopUnits | Stragglers | Storage),
            Shutdown => !matches!(inner, Boot | Prepare | StartUnits),
            Reload => {
                matches!(
                    inner,
                    Generators | Scan | Parse | Load | Link | Plan | Enabled | Loop | Apply
                )
            }
            Recover => inner == Restore,
            Stragglers | Storage => matches!(inner, LeftOver | Held),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and words lead back to the value, and no word is given twice.
    macro_rules! check {
        ($($name:ident)*) => {$(
            for value in $name::ALL {
                assert_eq!($name::from_number(value.number()), Some(*value));
                assert_eq!($name::from_text(value.text()), Some(*value));
            }
            assert_eq!($name::from_number(255), None);
        )*};
    }

    #[test]
    fn numbers_and_words_lead_back() {
        check!(Subject Work Asked Release Ending Active Sub Command Exit Counter Reading Phase);
    }
}
