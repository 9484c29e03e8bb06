//! The answer of `Overview`: what a table of all units shows, and later only what has changed.
//!
//! - Owns: its names and units.
//! - Must not: have a text for each unit but its name: 40,000 rows are answered.
//! - Runs on the thread of its caller.

use std::collections::BTreeMap;

use super::{ActiveState, ReasonCode};

answers! {
    /// Answers `Overview`.
    pub struct OverviewAnswer {
        /// The moment of the answer on the monotonic clock, in µs: the next question's `changed_since_us`.
        pub now_us: u64,
        /// Differs when units came, went, or were loaded anew: then rows of all are to be asked for again.
        pub set: u32,
        /// How many units there are.
        pub units_total: u64,
        /// Where the cgroups of the units lie; none without cgroups.
        pub cgroup_root: Option<String>,
        /// Names of slices; rows have their place in it.
        pub slices: Vec<String>,
        /// Type and name of what rules made units for; rows have their place in it.
        pub targets: Vec<String>,
        /// Texts of the reason codes in the rows, for people.
        pub texts: BTreeMap<String, String>,
        /// The units, sorted by name.
        pub rows: Vec<OverviewRow>,
    }

    /// A unit.
    pub struct OverviewRow {
        /// Its name.
        pub name: String,
        /// Its state.
        pub active: ActiveState,
        /// Its state in the words of its type.
        pub sub: String,
        /// Why it is in it, for programs.
        pub code: ReasonCode,
        /// Its slice, a place in `slices`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub slice: Option<u32>,
        /// What a rule made it for, a place in `targets`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub target: Option<u32>,
        /// The unit that set off what it is in.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cause: Option<String>,
        /// When it came into its state, in µs since 1970; none if it was never in another.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub since_us: Option<u64>,
        /// How often `Restart=` started it again since somebody asked for it.
        #[serde(skip_serializing_if = "is_zero")]
        pub restarts: u32,
        /// The file that counts more than the one that rules make for it; empty if it is masked, none if none does.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub hidden_by: Option<String>,
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
