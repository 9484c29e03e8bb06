//! Answers about units and their jobs.
//!
//! - Owns: what `List`, `Status`, `Job` and `Jobs` answer.
//! - Must not: have a field that only people read where a word of ours says the same.
//! - Runs on the thread of its caller.

use super::{
    ActiveState, Diagnostic, ErrorName, JobResult, ReasonAnswer, Remark, RestartAnswer, RuleOrigin,
    TimerRow, UnitRow,
};

answers! {
    /// Answers `List`.
    pub struct ListAnswer {
        /// The units.
        pub units: Vec<UnitRow>,
    }

    /// Answers `Status`.
    pub struct StatusAnswer {
        /// The unit.
        #[serde(flatten)]
        pub row: UnitRow,
        /// Its file, then its drop-ins.
        pub files: Vec<String>,
        /// Rules that made them.
        pub made_by: Vec<RuleOrigin>,
        /// Rules whose files are hidden by others.
        pub hides: Vec<RuleOrigin>,
        /// Whether its file is enabled, systemctl(1); null without a file.
        pub file_state: Option<String>,
        /// Its files have changed on the disk since they were read.
        pub differs_on_disk: bool,
        /// Since when it is in this state, in µs since 1970.
        pub since: Option<u64>,
        /// When it came up the last time, in µs since 1970.
        pub active_since: Option<u64>,
        /// Its main process.
        pub main_pid: Option<u32>,
        /// The process of a command beside it, such as `ExecStop=`.
        pub control_pid: Option<u32>,
        /// What it says of itself, sd_notify(3).
        pub status_text: String,
        /// How its last run ended, systemd's `Result` property.
        pub result: String,
        /// How often `Restart=` started it again.
        pub restarts: u32,
        /// What there is to say of restarts.
        pub restart: Option<RestartAnswer>,
        /// How its main process ended, for people.
        pub ended: Option<String>,
        /// Its processes.
        pub processes: Vec<ProcessRow>,
        /// Memory in use, in bytes.
        pub memory: Option<u64>,
        /// CPU time, in ns.
        pub cpu_ns: Option<u64>,
        /// Its tasks.
        pub tasks: Option<u64>,
        /// Its cgroup; empty where there is none.
        pub cgroup: String,
        /// Why it is in this state.
        pub reason: ReasonAnswer,
        /// Why its files cannot be used.
        pub load_fault: Option<Diagnostic>,
        /// What administrators said of it.
        pub remarks: Vec<Remark>,
        /// The last lines of its log.
        pub log: Vec<String>,
        /// They are left out, as the caller may not read the log.
        pub log_withheld: bool,
        /// Units that it starts.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub triggers: Vec<RelatedUnit>,
        /// Units that start it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub triggered_by: Vec<RelatedUnit>,
        /// `Documentation=`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub documentation: Vec<String>,
        /// Where a socket unit listens.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub listen: Vec<Listening>,
        /// Of a socket unit with `Accept=yes`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub connections: Option<SocketConnections>,
        /// What a mount unit mounts.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub what: Option<String>,
        /// Where a mount or automount unit mounts.
        #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
        pub where_: Option<String>,
        /// Of a timer, when it elapses.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timer: Option<TimerRow>,
    }

    /// A process of a unit.
    pub struct ProcessRow {
        /// Its number.
        pub pid: u32,
        /// Its command line.
        pub command: String,
    }

    /// A unit that has to do with another.
    pub struct RelatedUnit {
        /// Its name.
        pub name: String,
        /// Its state.
        pub active: ActiveState,
    }

    /// Something that a socket unit listens at.
    pub struct Listening {
        /// `Stream`, `Datagram`, `FIFO` and so on.
        pub kind: String,
        /// The address or path.
        pub address: String,
    }

    /// Connections of a socket unit.
    pub struct SocketConnections {
        /// Now.
        pub now: u64,
        /// Ever accepted.
        pub accepted: u64,
        /// Ever refused.
        pub refused: u64,
    }

    /// Answers `StopPlan`.
    pub struct StopPlanAnswer {
        /// The unit itself, then the units that would be stopped with it, by their names.
        pub stops: Vec<PlannedStop>,
        /// Units that would start it again when something happens: its sockets, timers, paths and automounts that are
        /// up and stay so.
        pub started_by: Vec<RelatedUnit>,
    }

    /// A unit that would be stopped.
    pub struct PlannedStop {
        /// Its name.
        pub name: String,
        /// Its state.
        pub active: ActiveState,
        /// The unit whose stop brings this one; null of the unit that was asked about.
        pub because_of: Option<String>,
    }

    /// Answers `Unprotected`.
    pub struct UnprotectedAnswer {
        /// Services that are up.
        pub up: u64,
        /// Of these, those whose files ask for no protection.
        pub total: u64,
        /// Of these, the first by their names; the manager has a bound.
        pub services: Vec<UnprotectedService>,
    }

    /// A service whose files ask for no protection.
    pub struct UnprotectedService {
        /// Its name.
        pub name: String,
        /// `User=`; empty where it is not set, so that it runs as root.
        pub user: String,
    }

    /// Answers `Job`.
    pub struct JobEnd {
        /// Its number, where it was not waited for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub job: Option<u32>,
        /// How it ended, where it was waited for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub result: Option<JobResult>,
    }

    /// A row of the answer of `Jobs`, which ends with an empty one.
    pub struct JobsRow {
        /// As of `Job`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub job: Option<u32>,
        /// As of `Job`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub result: Option<JobResult>,
        /// The job is refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<ErrorName>,
        /// Why, for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub message: Option<String>,
        /// The unit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub unit: Option<String>,
    }
}
