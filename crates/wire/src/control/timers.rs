//! The answer of `Timers`.
//!
//! - Owns: when timers elapse and elapsed, and what came of it.
//! - Must not: say what collides with what; whoever shows the answer works that out.
//! - Runs on the thread of its caller.

use super::ActiveState;

answers! {
    /// Answers `Timers`.
    pub struct TimersAnswer {
        /// The wall clock of the answer, in µs since 1970.
        pub now_us: u64,
        /// All timers that are loaded, by their names.
        pub timers: Vec<TimerRow>,
    }

    /// A timer.
    pub struct TimerRow {
        /// Its name.
        pub name: String,
        /// Its state.
        pub active: ActiveState,
        /// Its state in the words of its type.
        pub sub: String,
        /// The unit that it starts.
        pub unit: String,
        /// The state of that unit.
        pub unit_active: ActiveState,
        /// When it elapses next, in µs since 1970; none if no further run is due.
        pub next_us: Option<u64>,
        /// When it elapsed last, in µs since 1970; none if it never did, as far as is known.
        pub last_us: Option<u64>,
        /// How long the last run of its unit took, or has taken so far, in µs.
        pub took_us: Option<u64>,
        /// Elapses by the calendar that started nothing, because its unit ran, or the machine slept or was off. One
        /// run was made up for them all, unless the timer leaves them out.
        pub missed: u64,
    }
}
