//! Whose job is to be looked at: it was made, nothing stands in its way any more, or its unit's
//! state changed.

use crate::model::ids::UnitId;
use crate::model::job::JobResult;
use crate::model::reason::Reason;
use std::collections::BTreeSet;

/// Jobs that one step looks at; with more, another step is to follow. So of thousands the first are
/// at work while the others are still being told, and what they lead to is heard of in between.
pub(crate) const JOBS_PER_STEP_MAX: usize = 256;

/// Units whose job is to be looked at, the lowest id first.
#[derive(Debug, Default)]
pub(crate) struct JobQueue {
    services: BTreeSet<UnitId>,
    others: BTreeSet<UnitId>,
}

impl JobQueue {
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && self.others.is_empty()
    }

    pub fn contains(&self, unit: UnitId) -> bool {
        self.services.contains(&unit) || self.others.contains(&unit)
    }

    pub fn insert(&mut self, unit: UnitId, is_service: bool) {
        let queue = if is_service { &mut self.services } else { &mut self.others };
        queue.insert(unit);
    }

    /// The next. At the end services come first: their processes take time, and nobody has to wait
    /// for the others' turn before that begins.
    pub fn pop(&mut self, stopping: bool) -> Option<UnitId> {
        let is_services = match (self.services.first(), self.others.first()) {
            (Some(service), Some(other)) => stopping || service < other,
            (service, _) => service.is_some(),
        };
        if is_services { self.services.pop_first() } else { self.others.pop_first() }
    }
}

/// What came of telling a unit to do its job.
pub(crate) enum Turn {
    /// Not yet: the job waits for a change of the unit itself.
    Wait,
    /// It is at it.
    Begun,
    /// The job is over.
    Over(JobResult, Reason),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stopping: bool, expected: [u32; 4]) {
        let ids = |ids: [u32; 2]| ids.into_iter().map(UnitId).collect();
        let mut turns = JobQueue { services: ids([2, 4]), others: ids([1, 3]) };
        let popped = std::iter::from_fn(|| turns.pop(stopping)).map(|unit| unit.0);
        assert_eq!(popped.collect::<Vec<_>>(), expected);
        assert!(turns.is_empty());
    }

    #[test]
    fn the_lowest_comes_first_and_at_the_end_services() {
        check(false, [1, 2, 3, 4]);
        check(true, [2, 4, 1, 3]);
    }
}
