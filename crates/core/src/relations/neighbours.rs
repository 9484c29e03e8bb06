//! What follows the start or stop of a unit that no job brought about, and which relations are looked at again.

use crate::graph::Graph;
use crate::jobs::install;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{JobMode, JobType};
use crate::model::reason::{Cause, Code, Reason};
use crate::parts::Core;
use crate::parts::queues::Queues;
use crate::parts::units::Units;
use warren_unit::Relation;

/// A unit came up without a job of its own (a mount found in the kernel's table, a service that
/// restarts): what it requires is started now, what conflicts is stopped.
pub(crate) fn start_afterwards(core: &mut Core, unit: UnitId) {
    let by = |code| Reason::new(code, Cause::Dependency(unit));
    let wanted = match core.graph.is_device(unit) {
        true => by(Code::WantedByDevice),
        false => by(Code::Started),
    };
    let missing = |core: &Core, relations: &[Relation], after: bool| -> Vec<UnitId> {
        let idle = |&u: &UnitId| {
            core.units.run(u).job.is_none() && !core.units.active_state(u).is_up_or_coming()
        };
        let ordered = |&u: &UnitId| after || !core.graph.is_before(u, unit);
        core.graph
            .related_by_any(unit, relations)
            .into_iter()
            .filter(idle)
            .filter(ordered)
            .collect()
    };
    for other in missing(core, &[Relation::Requires, Relation::BindsTo], false) {
        install::enqueue_because(core, other, JobType::Start, JobMode::Replace, wanted);
    }
    for other in missing(core, &[Relation::Wants, Relation::Upholds], false) {
        install::enqueue_because(core, other, JobType::Start, JobMode::Fail, wanted);
    }
    for other in core.graph.related_by_any(unit, &[Relation::Conflicts, Relation::ConflictedBy]) {
        if !core.units.active_state(other).is_down_or_going() {
            let reason = by(Code::StoppedByConflict);
            install::enqueue_because(core, other, JobType::Stop, JobMode::Replace, reason);
        }
    }
}

/// A unit went down without a job of its own: what is bound to it follows (`BindsTo=`), and what its
/// stop is passed on to.
pub(crate) fn stop_afterwards(core: &mut Core, unit: UnitId) {
    for other in core.graph.related_by_any(unit, &[Relation::PropagatesStopTo]) {
        if !core.units.active_state(other).is_down_or_going() {
            let reason = Reason::new(Code::StoppedWithDependency, Cause::Dependency(unit));
            install::enqueue_because(core, other, JobType::Stop, JobMode::Replace, reason);
        }
    }
    for other in core.graph.related_by_any(unit, &[Relation::BoundBy]) {
        let stays = core.graph.is_related(other, Relation::RestartOnNone, unit);
        if !stays && !core.units.active_state(other).is_down_or_going() {
            let reason = Reason::new(Code::BoundUnitGone, Cause::Dependency(unit));
            if !install::enqueue_because(core, other, JobType::Stop, JobMode::Replace, reason) {
                // A job that may not be replaced stands against it now.
                core.queues.stands_off.insert(other);
            }
        }
    }
}

/// The unit's own job may have waited for its state rather than for another job.
pub(crate) fn requeue_waiters(units: &Units, queues: &mut Queues, unit: UnitId) {
    if units.run(unit).job.is_some() {
        queues.queue_job(units, unit);
    }
}

/// Who may be unneeded now, who is to be kept up.
pub(crate) fn look_at_neighbours(
    graph: &Graph,
    queues: &mut Queues,
    unit: UnitId,
    old: ActiveState,
    new: ActiveState,
) {
    let goes = new.is_down_or_going() && !old.is_down_or_going();
    if goes || new.is_down() && !old.is_down() {
        queues.queue_what_may_go(graph, unit);
    }
    if new.is_up() && !old.is_up() {
        queues.unneeded.insert(unit);
        queues.bound.insert(unit);
        let upheld = graph.related_by_any(unit, &[Relation::Upholds]);
        queues.upheld.extend(upheld);
    }
    if new.is_down() && !old.is_down() {
        queues.upheld.insert(unit);
    }
}
