//! Jobs that have begun, and what is to be checked of those that have not. The jobs themselves are in the run
//! state of their units.

use crate::model::ids::{JobId, UnitId};
use crate::model::job::JobKind;
use crate::parts::units::Units;
use std::collections::BTreeSet;

/// What is known of jobs at work.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// The job that a unit is being told of: it may be over before it counts as running.
    pub performing: Option<(UnitId, JobKind)>,
    /// Jobs that have begun.
    pub running: u32,
    /// Reloads into which a start went.
    pub starting_reloads: BTreeSet<JobId>,
    /// The graph changed while jobs were installed: their order was not checked as a whole.
    pub circles_possible: bool,
    /// Jobs were installed without a plan. What waits for no job need not wait for the check.
    pub circles_unchecked: bool,
}

impl Jobs {
    /// The job of this unit that has begun, or is just about to.
    pub fn at_work(&self, units: &Units, unit: UnitId) -> Option<JobKind> {
        let job = units.run(unit).job.as_ref().filter(|job| job.running).map(|job| job.kind);
        job.or_else(|| self.performing.filter(|&(other, _)| other == unit).map(|(_, kind)| kind))
    }

    /// Whether a start went into the reload that is the unit's job (see [`JobKind::merge`]).
    pub fn has_a_start(&self, units: &Units, unit: UnitId) -> bool {
        units.run(unit).job_id().is_some_and(|job| self.starting_reloads.contains(&job))
    }

    /// After a restart of the manager: a reload of what has not come up yet had a start in it as a rule.
    pub fn guess_starting_reloads(&mut self, units: &Units) {
        for unit in units.busy() {
            let run = units.run(unit);
            let Some((job, history)) = run.job.as_ref().zip(run.history.as_ref()) else { continue };
            let (came, began) = (history.active_enter.monotonic, history.inactive_exit.monotonic);
            if job.kind == JobKind::Reload && !job.running && (came < began || came > job.since) {
                self.starting_reloads.insert(job.id);
            }
        }
    }
}
