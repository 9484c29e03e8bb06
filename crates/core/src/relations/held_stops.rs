//! Stops of units that are down and wait for what the run has left to be removed.

use crate::jobs::ends;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobResult};
use crate::model::state::Clearing;
use crate::parts::Core;
use crate::relations::rules;

/// The stop of the unit has waited long enough for what cannot be removed.
pub(crate) fn clearing_deadline(core: &mut Core, unit: UnitId) {
    let now = core.times.now.monotonic;
    let due = |clearing: &Clearing| clearing.until.is_some_and(|until| until <= now);
    if !core.units.clearing(unit).as_ref().is_some_and(due) {
        return;
    }
    if let Some(clearing) = &mut core.units.history_mut(unit).clearing {
        clearing.until = None;
    }
    end_held_stop(core, unit);
}

/// The stop of a unit that is down waits for nothing any more.
pub(crate) fn end_held_stop(core: &mut Core, unit: UnitId) {
    let job = core.units.run(unit).job.as_ref().filter(|job| job.running);
    let stop = job.filter(|job| job.kind == JobKind::Stop).map(|job| job.reason);
    if let Some(reason) = stop.filter(|_| core.units.active_state(unit).is_down()) {
        ends::finish_job(core, unit, JobResult::Done, reason);
        // When it went down this job stood against what is to bring it up again.
        core.queues.upheld.insert(unit);
        rules::return_if_allowed(core, unit);
    }
}
