//! Questions to a manager, again and again: its counters, and of its units only what has changed.
//!
//! - Owns: a connection, and what the manager told last.
//! - Must not: wait between two questions, or keep what it is told.
//! - Runs on the thread of its caller.

use std::time::{Duration, Instant};

use warren_wire::control::{OverviewAnswer, TopAnswer};

use crate::manager::{Connect, Manager, Trouble};

/// Time between two questions for counters and changes.
pub const PERIOD: Duration = Duration::from_secs(1);

/// Changes are asked for at least so often, though the manager has counted nothing.
const CHANGES_EVERY: Duration = Duration::from_secs(5);

/// Least time between two questions for all units.
const ALL_UNITS_EVERY: Duration = Duration::from_secs(10);

/// All units are asked for after so many times what the last answer took.
const REST_FACTOR: u32 = 20;

/// What a manager told.
#[derive(Debug)]
pub enum Update {
    /// Counters.
    Top(Box<TopAnswer>),
    /// Where cgroups lie, as the manager sees them.
    CgroupRoot(String),
    /// All units where that is true, otherwise those that changed.
    Overview(OverviewAnswer, bool),
}

/// Asks one manager.
#[derive(Default)]
pub struct Poller {
    manager: Option<Box<dyn Manager>>,
    since: Option<u64>,
    set: u32,
    /// Least time until all units are asked for again.
    rest: Duration,
    /// When they were asked for.
    asked: Option<Instant>,
    /// When changes were asked for, and what the manager had counted until then.
    told: Option<Instant>,
    counts: Option<([u64; 6], Option<u64>)>,
}

impl Poller {
    /// Asks once; `tell` says whether anybody listens still. True if everything is being stopped.
    ///
    /// # Errors
    /// Why there is no answer; the next question makes a new connection.
    pub fn ask(
        &mut self,
        connect: &dyn Connect,
        tell: &mut dyn FnMut(Update) -> bool,
    ) -> Result<bool, Trouble> {
        let asked = self.ask_connected(connect, tell);
        if asked.is_err() {
            self.manager = None;
        }
        asked
    }

    fn ask_connected(
        &mut self,
        connect: &dyn Connect,
        tell: &mut dyn FnMut(Update) -> bool,
    ) -> Result<bool, Trouble> {
        let manager = match &mut self.manager {
            Some(manager) => manager,
            none => none.insert(connect.connect()?),
        };
        let top = manager.top()?;
        let is_stopping = top.stopping;
        let counts = (
            [top.generation, top.loaded, top.active, top.failed_total, top.restarts, top.jobs],
            top.jobs_ever,
        );
        let is_heard = tell(Update::Top(Box::new(top)));
        // What changes a unit is counted, but for changes that nothing depends on.
        let is_known = self.counts == Some(counts) && self.since.is_some();
        if is_known && self.told.is_some_and(|at| at.elapsed() < CHANGES_EVERY) {
            return Ok(is_stopping);
        }
        let began = Instant::now();
        let answer = manager.overview(self.since)?;
        (self.counts, self.told) = (Some(counts), Some(began));
        let is_all = self.since.is_none();
        if is_all {
            self.rest = (began.elapsed() * REST_FACTOR).max(ALL_UNITS_EVERY);
            (self.asked, self.set) = (Some(began), answer.set);
        }
        // Another manager's clock may be behind; and units that came or went are not among the changes.
        let is_behind = self.since.is_some_and(|since| answer.now_us < since);
        let may_ask = self.asked.is_none_or(|at| at.elapsed() > self.rest);
        let is_stale = is_behind || (answer.set != self.set && may_ask);
        self.since = Some(answer.now_us).filter(|_| !is_stale);
        if let Some(root) = answer.cgroup_root.clone().filter(|_| is_heard) {
            tell(Update::CgroupRoot(root));
        }
        tell(Update::Overview(answer, is_all));
        Ok(is_stopping)
    }
}
