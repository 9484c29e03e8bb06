//! `told`: what the machine says that happened goes with what is.
//!
//! Charts and the record are made of happenings alone. So every job that is installed was queued,
//! every job that is gone has ended, and the last word about a unit's state is its state.

use std::collections::BTreeMap;

use warren_core::machine::Core;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::protocol::trace_event::{Happening, What};

/// What a listener knows who hears of nothing but happenings.
#[derive(Clone, Debug, Default)]
pub struct Told {
    jobs: BTreeMap<JobId, UnitId>,
}

impl Told {
    /// Begins with what there is, as after a restart of the manager.
    pub fn of(core: &Core) -> Told {
        Told { jobs: core.view().jobs().iter().map(|job| (job.id, job.unit)).collect() }
    }

    /// Hears what happened and compares with what is.
    pub fn hear(&mut self, core: &Core, happenings: &[Happening], lost: u64) -> Vec<String> {
        let mut wrong: Vec<String> =
            happenings.iter().filter_map(|happening| self.hear_one(happening)).collect();
        if lost > 0 {
            wrong.push(format!("told: {lost} happenings were lost"));
        }
        if self.jobs.len() != core.totals().jobs as usize {
            wrong.push(format!("told: {} jobs, not {}", self.jobs.len(), core.totals().jobs));
        }
        wrong.extend(untrue_states(core, happenings));
        wrong
    }

    fn hear_one(&mut self, happening: &Happening) -> Option<String> {
        let unit = happening.unit;
        match happening.what {
            What::JobQueued { job, .. } => {
                self.jobs.insert(job, unit).map(|_| format!("told: job {} came twice", job.0))
            }
            What::JobBegan { job, .. } => {
                let known = self.jobs.get(&job) == Some(&unit);
                (!known).then(|| format!("told: job {} began out of nowhere", job.0))
            }
            What::JobEnded { job, .. } => {
                let known = self.jobs.remove(&job) == Some(unit);
                (!known).then(|| format!("told: job {} ended without a beginning", job.0))
            }
            _ => None,
        }
    }
}

/// Units whose last `State` of this batch is not the state they are in.
fn untrue_states(core: &Core, happenings: &[Happening]) -> Vec<String> {
    let mut last = BTreeMap::new();
    for happening in happenings {
        if let What::State { active, sub, .. } = happening.what {
            last.insert(happening.unit, (active, sub));
        }
    }
    let is = |unit: UnitId| (core.unit_run(unit).active_state(), core.unit_run(unit).sub_state());
    let untrue = last.into_iter().filter(|(unit, said)| is(*unit) != *said);
    untrue.map(|(unit, _)| format!("told: another state of {}", core.graph().name(unit))).collect()
}
