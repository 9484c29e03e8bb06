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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::model::job::{Ignores, Job, JobMode};
    use crate::model::part::Part;
    use crate::model::reason::Reason;
    use crate::model::time::{Moment, Monotonic};
    use warren_unit::UnitName;

    /// A unit with a waiting reload, installed at 5 µs.
    fn reloading() -> Units {
        let mut units = Units::default();
        let name = UnitName::parse("a.service").expect("a valid name");
        units.add_idle(&Graph::with_names(vec![Some(name)]));
        units.run_mut(UnitId(0)).job = Some(Part::new(Job {
            id: JobId(3),
            unit: UnitId(0),
            kind: JobKind::Reload,
            running: false,
            irreversible: false,
            ignores: Ignores::of(JobMode::Replace),
            blockers: 0,
            released_by: None,
            since: Monotonic(5),
            deadline: None,
            reason: Reason::default(),
        }));
        units
    }

    #[test]
    fn a_job_is_at_work_while_its_unit_is_told_of_it_and_once_it_has_begun() {
        let (mut units, mut jobs, unit) = (reloading(), Jobs::default(), UnitId(0));
        assert_eq!(jobs.at_work(&units, unit), None);
        jobs.performing = Some((unit, JobKind::Stop));
        assert_eq!(jobs.at_work(&units, unit), Some(JobKind::Stop));
        units.run_mut(unit).job.as_mut().expect("it was set").running = true;
        assert_eq!(jobs.at_work(&units, unit), Some(JobKind::Reload));
        jobs.performing = None;
        assert_eq!(jobs.at_work(&units, unit), Some(JobKind::Reload));
    }

    #[test]
    fn a_reload_of_what_has_not_come_up_since_has_a_start_in_it() {
        for (came_up, began, has_a_start) in [(4, 3, false), (3, 4, true), (6, 3, true)] {
            let (mut units, mut jobs, unit) = (reloading(), Jobs::default(), UnitId(0));
            let at = |us| Moment { monotonic: Monotonic(us), realtime_us: 0 };
            let history = units.history_mut(unit);
            (history.active_enter, history.inactive_exit) = (at(came_up), at(began));
            jobs.guess_starting_reloads(&units);
            assert_eq!(jobs.has_a_start(&units, unit), has_a_start, "{came_up} {began}");
        }
    }
}
