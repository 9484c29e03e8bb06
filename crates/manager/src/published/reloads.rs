//! The last reloads that changed units, for those who ask what changed.
//!
//! Owns: some names of each; the generations themselves are the loader's. Must not: grow with the number of units, or
//! outlive the process: a manager that comes back begins anew, and says since when it has counted.
//! The loop writes, threads that answer clients read; neither waits for more than a copy.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use warren_core::graph::{Delta, Graph};
use warren_core::model::ids::UnitId;
use warren_core::model::time::Moment;
use warren_wire::control::{ChangedUnits, PastReload, ReloadsAnswer};

/// Reloads that are kept: as many as there are generations to go back to.
const RELOADS_MAX: usize = 16;

/// Names that are kept of each kind of change.
const NAMES_MAX: usize = 100;

/// Some reloads.
#[derive(Debug)]
pub struct Reloads {
    since_us: u64,
    /// All that came into force.
    count: AtomicU64,
    last: Mutex<VecDeque<PastReload>>,
}

impl Reloads {
    /// None yet.
    pub fn new(now: Moment) -> Reloads {
        Reloads { since_us: now.realtime_us, count: AtomicU64::new(0), last: Mutex::default() }
    }

    /// A reload is in force. One that changed no unit is not kept.
    pub fn add(&self, now: Moment, graph: &Graph, delta: &Delta) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let [added, changed, removed] =
            [&delta.added, &delta.changed, &delta.removed].map(|units| some(graph, units));
        if [&added, &changed, &removed].iter().all(|units| units.total == 0) {
            return;
        }
        let (at_us, generation) = (now.realtime_us, graph.generation());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.truncate(RELOADS_MAX - 1);
        last.push_front(PastReload { at_us, generation, added, changed, removed });
    }

    /// How many there were, those that changed no unit among them.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The answer of `Reloads`.
    pub fn answer(&self) -> ReloadsAnswer {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        ReloadsAnswer { since_us: self.since_us, reloads: last.iter().cloned().collect() }
    }
}

/// The first of them by name.
fn some(graph: &Graph, units: &[UnitId]) -> ChangedUnits {
    let mut names: Vec<&str> = units.iter().map(|unit| graph.name(*unit).as_str()).collect();
    let total = names.len() as u64;
    if names.len() > NAMES_MAX {
        names.select_nth_unstable(NAMES_MAX);
        names.truncate(NAMES_MAX);
    }
    names.sort_unstable();
    ChangedUnits { total, names: names.into_iter().map(str::to_owned).collect() }
}
