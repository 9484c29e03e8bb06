//! The work queues: what follows from what was done in a step and has not been looked at yet.
//!
//! Owns: the queues that `machine::settle` drains, in its order.
//! Must not: do the work.

use crate::graph::Graph;
use crate::model::active_state::ActiveState;
use crate::model::ids::{JobId, UnitId};
use crate::model::job::JobKind;
use crate::model::state::TypeState;
use crate::model::time::Moment;
use crate::parts::job_queue::{JOBS_PER_STEP_MAX, JobQueue};
use crate::parts::units::Units;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use warren_unit::Relation;

/// A change of a unit's state that has not been propagated yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    pub unit: UnitId,
    pub old: ActiveState,
    pub new: ActiveState,
    /// `Restart=` will start it again: nothing that waits for its end fires.
    pub will_restart: bool,
    /// What job brought it about, if one was at work.
    pub by: Option<JobKind>,
}

/// What is still to be looked at.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Units whose job is to be looked at.
    pub turns: JobQueue,
    /// Jobs that one step looks at.
    pub jobs_per_step_max: usize,
    pub transitions: VecDeque<Transition>,
    /// Jobs without anything to do that were made beside another one, which are over when this is told.
    pub passing: Vec<(JobId, UnitId)>,
    /// Units that may be stopped because no unit needs them.
    pub unneeded: BTreeSet<UnitId>,
    /// Units that may have to be started because a unit upholds them.
    pub upheld: BTreeSet<UnitId>,
    /// Units that may have to stop because one that they are bound to is gone.
    pub bound: BTreeSet<UnitId>,
    /// Units whose job ended: those that trigger them may have waited for that.
    pub job_ends: BTreeMap<UnitId, Moment>,
    /// Units whose starts may be forgotten, as nothing holds them in memory any more.
    pub unheld: BTreeSet<UnitId>,
    /// Services of `Type=idle` that wait for the other jobs to end.
    pub idle_services: BTreeSet<UnitId>,
    /// Units whose relations ask for a job that other jobs stand against: looked at when a job ends.
    pub stands_off: BTreeSet<UnitId>,
}

impl Default for Queues {
    fn default() -> Queues {
        Queues {
            turns: JobQueue::default(),
            jobs_per_step_max: JOBS_PER_STEP_MAX,
            transitions: VecDeque::new(),
            passing: Vec::new(),
            unneeded: BTreeSet::new(),
            upheld: BTreeSet::new(),
            bound: BTreeSet::new(),
            job_ends: BTreeMap::new(),
            unheld: BTreeSet::new(),
            idle_services: BTreeSet::new(),
            stands_off: BTreeSet::new(),
        }
    }
}

impl Queues {
    /// Has the job of `unit` looked at.
    pub fn queue_job(&mut self, units: &Units, unit: UnitId) {
        let is_service = matches!(units.run(unit).state, TypeState::Service(_));
        self.turns.insert(unit, is_service);
    }

    /// The next unit whose job is to be looked at; `stopping`: the manager is going down.
    pub fn next_turn(&mut self, stopping: bool) -> Option<UnitId> {
        self.turns.pop(stopping)
    }

    /// Has all relations looked at that may ask for a start or a stop of the unit.
    pub fn queue_relations(&mut self, unit: UnitId) {
        self.unneeded.insert(unit);
        self.bound.insert(unit);
        self.upheld.insert(unit);
    }

    /// A job has ended: what stood off because of it may be done now.
    pub fn try_again(&mut self) {
        for unit in std::mem::take(&mut self.stands_off) {
            self.queue_relations(unit);
        }
    }

    /// Has the units looked at that `unit` needs and that may be stopped when no unit needs them.
    pub fn queue_what_may_go(&mut self, graph: &Graph, unit: UnitId) {
        const NEEDS: &[Relation] = &[
            Relation::Requires,
            Relation::Requisite,
            Relation::Wants,
            Relation::BindsTo,
            Relation::Upholds,
            Relation::RequireAny,
            Relation::MountsFor,
        ];
        let needed = NEEDS.iter().flat_map(|&relation| graph.related(unit, relation));
        self.unneeded.extend(needed.filter(|&unit| graph.flags(unit).stop_when_unneeded()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_off_is_looked_at_once_when_a_job_ends() {
        let mut queues = Queues::default();
        queues.stands_off.insert(UnitId(3));
        queues.try_again();
        let three = BTreeSet::from([UnitId(3)]);
        assert_eq!([&queues.unneeded, &queues.bound, &queues.upheld], [&three; 3]);
        queues.upheld.clear();
        queues.try_again();
        assert!(queues.upheld.is_empty());
    }
}
