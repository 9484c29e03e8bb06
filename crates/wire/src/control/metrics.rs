//! The answer of `Metrics`: counts and counters, of a bounded number however many units there are.
//!
//! - Owns: their names and units.
//! - Must not: have a rate, or a row for each unit but those that were asked for.
//! - Runs on the thread of its caller.

use std::collections::BTreeMap;

use super::{ActiveState, ReasonCode, TimerRow};

answers! {
    /// Answers `Metrics`. What is counted is counted since this manager's process began.
    pub struct MetricsAnswer {
        /// The manager's version.
        pub version: String,
        /// The wall clock of the answer, in µs since 1970.
        pub now_us: u64,
        /// State of the host, as `systemctl is-system-running` has it.
        pub state: String,
        /// The manager's process.
        pub manager: ManagerMetrics,
        /// Turns of the manager's loop.
        pub turns: Histogram,
        /// Reloads.
        pub reloads: ReloadMetrics,
        /// Jobs.
        pub jobs: JobMetrics,
        /// Units by their type and state; none of types and states that no unit has.
        pub units: Vec<UnitCount>,
        /// How often units failed for good, by the reason.
        pub failures: BTreeMap<String, u64>,
        /// How often `Restart=` started units again, by the reason for which they had ended.
        pub restarts: BTreeMap<String, u64>,
        /// Devices that jobs wait for.
        pub devices_waiting: u64,
        /// For how long the oldest of them has been waited for, in µs.
        pub device_wait_us: u64,
        /// warren-deviced runs.
        pub devices_seen: bool,
        /// The boot, as far as it went.
        pub boot: BootMetrics,
        /// Name of the recording of the last shutdown; none without one.
        pub shutdown_record: Option<String>,
        /// Timers that are loaded.
        pub timers_total: u64,
        /// Of these, as many as were asked for: those that missed most and are most overdue first.
        pub timers: Vec<TimerRow>,
        /// What the log daemon has counted; none if it does not answer.
        pub log: Option<LogCounts>,
        /// Where the cgroups of the units lie; none without cgroups.
        pub cgroup_root: Option<String>,
        /// Units that the patterns of the request match.
        pub rows_total: u64,
        /// Of these, as many as were asked for, by their names.
        pub rows: Vec<UnitMetrics>,
    }

    /// The manager's process.
    pub struct ManagerMetrics {
        /// Its number.
        pub pid: u32,
        /// How often init started a manager again.
        pub restarts: u64,
        /// CPU time, in µs.
        pub cpu_us: u64,
        /// Resident memory, in bytes.
        pub resident_bytes: u64,
        /// Descriptors that are open; none where the kernel does not tell.
        pub descriptors: Option<u64>,
        /// How many may be.
        pub descriptors_max: u64,
        /// Units that are loaded.
        pub loaded: u64,
        /// Generation in force.
        pub generation: u64,
        /// Everything is being stopped.
        pub stopping: bool,
    }

    /// How often something took so long.
    pub struct Histogram {
        /// Upper bounds, in µs. There is one count more than bounds: of what took longer.
        pub bounds_us: Vec<u64>,
        /// How often it took no longer than the bound, and longer than the one before.
        pub counts: Vec<u64>,
        /// How long all of them took, in µs.
        pub sum_us: u64,
    }

    /// Reloads.
    pub struct ReloadMetrics {
        /// How many were put in force.
        pub count: u64,
        /// How long all of them took, in µs.
        pub took_us: u64,
        /// How long of that the loop was held up, in µs.
        pub loop_us: u64,
        /// How long the last one took, in µs.
        pub last_took_us: u64,
        /// How long of that the loop was held up, in µs.
        pub last_loop_us: u64,
        /// For how long one has been under way, in µs; null if none is.
        pub under_way_us: Option<u64>,
    }

    /// Jobs.
    pub struct JobMetrics {
        /// Jobs that are at work.
        pub running: u64,
        /// Jobs that wait.
        pub waiting: u64,
        /// Age of the oldest that is at work, in µs.
        pub running_us: u64,
        /// Age of the oldest that waits, in µs.
        pub waiting_us: u64,
        /// Jobs ever made, with those of earlier managers.
        pub ever: u64,
        /// Jobs that failed, with those of earlier managers.
        pub failed_ever: u64,
    }

    /// Units of a type that are in a state.
    pub struct UnitCount {
        /// The type.
        #[serde(rename = "type")]
        pub kind: String,
        /// The state.
        pub state: ActiveState,
        /// How many.
        pub count: u64,
    }

    /// The boot.
    pub struct BootMetrics {
        /// How long the first load took, in µs.
        pub load_us: u64,
        /// How long it took to be up, in µs; 0 until then.
        pub startup_us: u64,
        /// When that was, in µs since 1970; 0 until then.
        pub finished_us: u64,
    }

    /// What the log daemon has counted since its process began.
    pub struct LogCounts {
        /// Entries that were taken.
        pub entries: u64,
        /// Their bytes.
        pub bytes: u64,
        /// Entries that a rate limit left out.
        pub suppressed: u64,
        /// What is not in the log, or not whole, by why.
        pub lost: BTreeMap<String, u64>,
        /// Entries for which neither disk nor memory had room.
        pub unkept: u64,
        /// Streams of services that are open.
        pub streams: u64,
        /// What comes is kept in memory, since the disk takes nothing.
        pub refuge: bool,
        /// What is wrong with the disk, for people.
        pub trouble: Option<String>,
    }

    /// One unit.
    pub struct UnitMetrics {
        /// Its name.
        pub name: String,
        /// Its state.
        pub active: ActiveState,
        /// Why it is in it, for programs.
        pub code: ReasonCode,
        /// When it came into its state, in µs since 1970; none if it was never in another.
        pub since_us: Option<u64>,
        /// How often `Restart=` started it again since somebody asked for it.
        pub restarts: u64,
    }
}
