//! What the loop counts of itself for those who watch it from outside.
//!
//! Owns: turns by how long they took, and reloads. Must not: be asked by anything that decides.
//! The loop writes, threads that answer clients read; neither waits for the other.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use warren_wire::control::{Histogram, ReloadMetrics};

/// Upper bounds of turns, in µs; what took longer is counted behind them.
const TURN_BOUNDS_US: [u64; 11] =
    [10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000];

/// Counters since this process began.
#[derive(Debug)]
pub struct Counters {
    /// How often init started a manager again.
    pub manager_restarts: u64,
    turns: [AtomicU64; TURN_BOUNDS_US.len() + 1],
    turns_us: AtomicU64,
    reloads: AtomicU64,
    reloads_us: AtomicU64,
    reloads_loop_us: AtomicU64,
    last_reload_us: AtomicU64,
    last_reload_loop_us: AtomicU64,
}

impl Counters {
    /// Of the manager that init started as the `incarnation`th.
    pub fn new(incarnation: u64) -> Counters {
        Counters {
            manager_restarts: incarnation.saturating_sub(1),
            turns: Default::default(),
            turns_us: AtomicU64::default(),
            reloads: AtomicU64::default(),
            reloads_us: AtomicU64::default(),
            reloads_loop_us: AtomicU64::default(),
            last_reload_us: AtomicU64::default(),
            last_reload_loop_us: AtomicU64::default(),
        }
    }

    /// The loop was at work for so long, from waking up to the next wait.
    pub fn turn_took(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = TURN_BOUNDS_US.partition_point(|bound| *bound < us);
        self.turns[at].fetch_add(1, Relaxed);
        self.turns_us.fetch_add(us, Relaxed);
    }

    /// A reload was put in force: how long it took, and how long of that the loop was held up, in µs.
    pub fn reloaded(&self, took_us: u64, loop_us: u64) {
        self.reloads.fetch_add(1, Relaxed);
        self.reloads_us.fetch_add(took_us, Relaxed);
        self.reloads_loop_us.fetch_add(loop_us, Relaxed);
        self.last_reload_us.store(took_us, Relaxed);
        self.last_reload_loop_us.store(loop_us, Relaxed);
    }

    /// Turns by how long they took.
    pub fn turns(&self) -> Histogram {
        Histogram {
            bounds_us: TURN_BOUNDS_US.to_vec(),
            counts: self.turns.iter().map(|count| count.load(Relaxed)).collect(),
            sum_us: self.turns_us.load(Relaxed),
        }
    }

    /// Reloads, but for one that is under way.
    pub fn reloads(&self) -> ReloadMetrics {
        ReloadMetrics {
            count: self.reloads.load(Relaxed),
            took_us: self.reloads_us.load(Relaxed),
            loop_us: self.reloads_loop_us.load(Relaxed),
            last_took_us: self.last_reload_us.load(Relaxed),
            last_loop_us: self.last_reload_loop_us.load(Relaxed),
            under_way_us: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_counted_below_the_first_bound_that_it_does_not_exceed() {
        let counters = Counters::new(3);
        for us in [0, 10, 11, 1_000_000, 1_000_001] {
            counters.turn_took(Duration::from_micros(us));
        }
        let turns = counters.turns();
        assert_eq!(turns.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((turns.counts.len(), turns.sum_us), (turns.bounds_us.len() + 1, 2_000_022));
        assert_eq!(counters.manager_restarts, 2);
    }

    #[test]
    fn reloads_are_added_up_and_the_last_one_is_kept() {
        let counters = Counters::new(1);
        counters.reloaded(900, 40);
        counters.reloaded(100, 10);
        let reloads = counters.reloads();
        assert_eq!((reloads.count, reloads.took_us, reloads.loop_us), (2, 1000, 50));
        assert_eq!((reloads.last_took_us, reloads.last_loop_us), (100, 10));
    }
}
