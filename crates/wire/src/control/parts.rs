//! Parts of answers that several methods give.
//!
//! - Owns: rows, reasons, causes, faults, remarks, rules, restarts.
//! - Must not: say of a state what its words do not.
//! - Runs on the thread of its caller.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ActiveState, CauseKind, JobKind, JobResult, LoadState, Severity};
use crate::answer::said;

/// Code of a reason, `WR-0024`; the page of reasons explains each. A newer manager may have more of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ReasonCode(Cow<'static, str>);

impl ReasonCode {
    /// The main process ended by itself, with success.
    pub const FINISHED: ReasonCode = ReasonCode(Cow::Borrowed("WR-0024"));
    /// A condition was not met, so the unit was skipped.
    pub const CONDITION_FAILED: ReasonCode = ReasonCode(Cow::Borrowed("WR-0030"));

    /// The code.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ReasonCode {
    fn from(code: String) -> ReasonCode {
        ReasonCode(code.into())
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

answers! {
    /// Nothing more is to be said: it is done.
    pub struct Done {}

    /// A unit in a list.
    pub struct UnitRow {
        /// Its name.
        pub name: String,
        /// Whether its files can be used.
        pub load: LoadState,
        /// Its state.
        pub active: ActiveState,
        /// Its state in the words of its type.
        pub sub: String,
        /// `Description=`, or its name.
        pub description: String,
        /// Its job, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub job: Option<JobRow>,
    }

    /// A job of a unit.
    pub struct JobRow {
        /// Its number.
        pub id: u32,
        /// What it does.
        #[serde(rename = "type")]
        pub kind: JobKind,
        /// Whether it waits for no other.
        pub running: bool,
    }

    /// Why a unit is in its state.
    pub struct ReasonAnswer {
        /// For programs.
        pub code: ReasonCode,
        /// For people.
        pub text: String,
        /// What clears it; empty where nothing is wrong.
        pub cure: String,
        /// What set it off.
        pub cause: Option<Cause>,
    }

    /// Who or what set something off.
    pub struct Cause {
        /// Who or what.
        pub kind: CauseKind,
        /// Of a request: the user.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub uid: Option<u32>,
        /// Of a request: the process; null for one of another pid namespace.
        #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
        pub pid: Option<Option<u32>>,
        /// Of another unit: its name; null where it is gone.
        #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
        pub unit: Option<Option<String>>,
    }

    /// What is wrong with a file.
    pub struct Diagnostic {
        /// The file.
        pub path: String,
        /// The line, from 1 on; 0 where it is the whole file.
        pub line: u32,
        /// The column, from 1 on; 0 where it is the whole line.
        pub column: u32,
        /// How bad.
        pub severity: Severity,
        /// For programs.
        pub code: String,
        /// For people.
        pub message: String,
    }

    /// What an administrator said of a unit.
    pub struct Remark {
        /// With what: `stop`, `disable`, `mask`, or a mark.
        pub of: String,
        /// It.
        pub text: String,
        /// Who said it.
        pub by: Option<Cause>,
        /// When, in µs since 1970.
        pub at: Option<u64>,
    }

    /// A rule that made a unit file.
    pub struct RuleOrigin {
        /// Its head, such as `apply Service "web"`.
        pub rule: String,
        /// The file that it is in.
        pub path: String,
        /// The line.
        pub line: u32,
        /// What the rule made the file for.
        pub target: Option<RuleTarget>,
        /// The unit that differs; in the answer of `ReloadConfiguration`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub unit: Option<String>,
        /// The setting of another unit which has this one differ.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub through: Option<Through>,
    }

    /// An object that a rule is applied to.
    pub struct RuleTarget {
        /// Its type and name.
        pub name: String,
        /// The file that it is in.
        pub path: String,
        /// The line.
        pub line: u32,
    }

    /// A setting of another unit.
    pub struct Through {
        /// Its name, without `=`.
        pub setting: String,
        /// The other unit.
        pub unit: String,
    }

    /// A service that `Restart=` starts again.
    pub struct RestartAnswer {
        /// How often it was started again since it was asked for.
        pub count: u32,
        /// Whether it waits to be.
        pub waits: bool,
        /// When it will be, in µs from now.
        pub next_in_us: Option<u64>,
        /// When it will be, in µs since 1970.
        pub next_at: Option<u64>,
        /// How much of the start limit is used; null without one.
        pub limit: Option<StartLimit>,
        /// What the run before this one ended by.
        pub before: Option<RestartBefore>,
    }

    /// `StartLimitBurst=` and `StartLimitIntervalSec=`.
    pub struct StartLimit {
        /// Starts in the interval.
        pub starts: u32,
        /// Starts that are allowed in it.
        pub burst: u32,
        /// The interval, in µs.
        pub interval_us: u64,
    }

    /// How a run ended.
    pub struct RestartBefore {
        /// Why.
        pub reason: ReasonAnswer,
        /// How its main process ended, for people.
        pub ended: Option<String>,
        /// When, in µs since 1970.
        pub at: Option<u64>,
    }

    /// A job that came to nothing.
    pub struct LostJob {
        /// What it was to do.
        #[serde(rename = "type")]
        pub kind: JobKind,
        /// How it ended.
        pub result: JobResult,
        /// When, in µs since 1970.
        pub at: Option<u64>,
        /// What asked for it.
        pub reason: ReasonAnswer,
    }
}
