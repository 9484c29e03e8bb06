//! The answer of `Totals`.
//!
//! - Owns: counts of units, and what there is to say of the manager.
//! - Must not: name a unit.
//! - Runs on the thread of its caller.

use std::collections::BTreeMap;

answers! {
    /// Answers `Totals`.
    pub struct TotalsAnswer {
        /// The manager's version.
        pub version: String,
        /// Units that are loaded.
        pub loaded: u64,
        /// Units by their state.
        pub by_state: BTreeMap<String, u64>,
        /// Units by their type.
        pub by_type: BTreeMap<String, u64>,
        /// Jobs there are.
        pub jobs: u32,
        /// Units that have failed.
        pub failed: u32,
        /// Generation in force.
        pub generation: u64,
        /// State of the host, as `systemctl is-system-running` has it.
        pub state: String,
        /// The first jobs have ended.
        pub started: Option<bool>,
        /// Everything is being stopped.
        pub stopping: bool,
        /// How long the first load took, in µs.
        pub load_us: u64,
        /// How long it took to be up, in µs; 0 until then.
        pub startup_us: u64,
        /// Resident memory of the manager, in bytes.
        pub resident_bytes: u64,
        /// The manager's process.
        pub pid: u32,
    }
}
