//! The answer of `Top`: counters, of which the reader makes rates.
//!
//! - Owns: their names and units.
//! - Must not: have a rate.
//! - Runs on the thread of its caller.

use super::{JobKind, ReasonCode, ShutdownWait};

answers! {
    /// Answers `Top`.
    pub struct TopAnswer {
        /// When, on the monotonic clock, in µs.
        pub now_us: u64,
        /// CPU time of the manager, in µs.
        pub cpu_us: u64,
        /// Resident memory of the manager, in bytes.
        pub resident_bytes: u64,
        /// Generation in force.
        pub generation: u64,
        /// Everything is being stopped.
        pub stopping: bool,
        /// For how long a reload has been under way, in µs; null if none is.
        pub reloading_us: Option<u64>,
        /// Jobs ever made. None of a manager that does not count them.
        pub jobs_ever: Option<u64>,
        /// Units that are loaded.
        pub loaded: u64,
        /// Of these, units that are up.
        pub active: u64,
        /// How often `Restart=` started units again.
        pub restarts: u64,
        /// Jobs there are.
        pub jobs: u64,
        /// Of these, those that wait for no other.
        pub jobs_running: u64,
        /// The oldest jobs.
        pub job_rows: Vec<TopJob>,
        /// How many units a shutdown waits for.
        pub waits_total: u64,
        /// Of these, those that it waited for longest.
        pub waits: Vec<ShutdownWait>,
        /// Bytes that wait to be written to devices; null while nothing is being stopped.
        pub unwritten_bytes: Option<u64>,
        /// How many units have failed.
        pub failed_total: u64,
        /// Of these, those that failed last.
        pub failed: Vec<TopFailed>,
        /// Services that fail and are started again.
        pub restarting: Vec<TopRestarting>,
        /// Slices, those nearest to the root first.
        pub slices: Vec<TopSlice>,
    }

    /// A job.
    pub struct TopJob {
        /// Its unit.
        pub unit: String,
        /// What it does.
        #[serde(rename = "type")]
        pub kind: JobKind,
        /// For how long it has been there, in µs.
        pub age_us: u64,
        /// How many others it waits for.
        pub waits_for: u32,
        /// One of them, which is at work if one is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub waits_on: Option<String>,
    }

    /// A unit that has failed.
    pub struct TopFailed {
        /// Its name.
        pub unit: String,
        /// Why, for programs.
        pub code: ReasonCode,
        /// Why, for people.
        pub text: String,
    }

    /// A service that fails and is started again.
    pub struct TopRestarting {
        /// Its name.
        pub unit: String,
        /// Why it fails, for programs.
        pub code: ReasonCode,
        /// Why it fails, for people.
        pub text: String,
        /// How often it was started again.
        pub restarts: u32,
    }

    /// A slice that is up.
    pub struct TopSlice {
        /// Its name.
        pub name: String,
        /// CPU time, in µs.
        pub cpu_us: Option<u64>,
        /// Memory in use, in bytes.
        pub memory_bytes: Option<u64>,
        /// Bytes read from devices.
        pub read_bytes: Option<u64>,
        /// Bytes written to devices.
        pub written_bytes: Option<u64>,
        /// Its tasks.
        pub tasks: Option<u64>,
    }
}
