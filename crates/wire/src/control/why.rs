//! The answer of `Why`.
//!
//! - Owns: paths from units to their root causes, and what is said of each unit on the way.
//! - Must not: have people's sentences where the fields say the same.
//! - Runs on the thread of its caller.

use super::{
    Cause, Diagnostic, InhibitorLock, LostJob, PlannedShutdown, ReasonAnswer, Remark,
    RestartAnswer, RuleOrigin, ShutdownWait, TimerRow, UnitRow,
};
use crate::answer::said;

answers! {
    /// Answers `Why`. What is about the whole host is left out of the answer about one unit.
    pub struct WhyAnswer {
        /// The unit, or root causes; those that hold back most come first.
        pub units: Vec<WhyUnit>,
        /// Lines of logs are left out, as the caller may not read them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub log_withheld: Option<bool>,
        /// Everything is being stopped.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stopping: Option<bool>,
        /// What that waits for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub waits: Option<Vec<ShutdownWait>>,
        /// Bytes that wait to be written to devices; null while nothing is being stopped.
        #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
        pub unwritten_bytes: Option<Option<u64>>,
        /// A shutdown that is planned; null if none is.
        #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
        pub planned: Option<Option<PlannedShutdown>>,
        /// Locks against it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub inhibitors: Option<Vec<InhibitorLock>>,
    }

    /// A unit with what explains it.
    pub struct WhyUnit {
        /// The unit.
        pub unit: String,
        /// It, then what explains it, and so on to the root cause.
        pub path: Vec<WhyStep>,
        /// Units that it holds back.
        pub impact: Vec<String>,
    }

    /// A unit on the way to a root cause.
    pub struct WhyStep {
        /// The unit.
        #[serde(flatten)]
        pub row: UnitRow,
        /// Why it is in its state.
        pub reason: ReasonAnswer,
        /// Conditions that are not met now; null where it did not turn out in time, or none is why.
        pub unmet: Option<Vec<String>>,
        /// Conditions that were not met when it was to start.
        pub unmet_then: Option<Vec<String>>,
        /// Why its files cannot be used.
        pub load_fault: Option<Diagnostic>,
        /// Rules that made its files.
        pub made_by: Vec<RuleOrigin>,
        /// The last start that was refused.
        pub refusal: Option<Refusal>,
        /// What it says of itself, sd_notify(3).
        pub detail: String,
        /// How its device stands, for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub device: Option<String>,
        /// Of a timer, when it elapses.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timer: Option<TimerRow>,
        /// What administrators said of it.
        pub remarks: Vec<Remark>,
        /// How its main process ended, for people.
        pub ended: Option<String>,
        /// How a command such as `ExecStop=` ended, for people.
        pub command_ended: Option<String>,
        /// What there is to say of restarts.
        pub restart: Option<RestartAnswer>,
        /// Since when it is in this state, in µs since 1970.
        pub since: Option<u64>,
        /// How its last run ended, systemd's `Result` property.
        pub result: String,
        /// A start, stop or reload that is under way.
        pub under_way: Option<UnderWay>,
        /// Its last job that came to nothing.
        pub lost_job: Option<LostJob>,
        /// The unit that its job waits for.
        pub waits_for: Option<String>,
        /// More of them.
        pub waits_for_also: Vec<String>,
        /// How many there are beside these.
        pub waits_for_more: usize,
        /// A removal that its start waits for.
        pub removal: Option<Removal>,
        /// Processes of a service that is down, for people.
        pub left_over: Vec<String>,
        /// The last lines of its log.
        pub log: Vec<String>,
    }

    /// A start that was refused.
    pub struct Refusal {
        /// Why, for people.
        pub text: String,
        /// Who asked for it.
        pub by: Option<Cause>,
        /// When, in µs since 1970.
        pub at: Option<u64>,
    }

    /// What a unit is at.
    pub struct UnderWay {
        /// For how long, in µs.
        pub so_far_us: u64,
        /// Until it is given up, in µs; null without a limit.
        pub left_us: Option<u64>,
        /// The process that is waited for, for people.
        pub process: Option<String>,
        /// The server that is waited for, for people.
        pub server: Option<String>,
    }

    /// Files of an earlier run, which are removed.
    pub struct Removal {
        /// The unit that left them.
        pub unit: String,
        /// Where they are.
        pub path: String,
    }
}
