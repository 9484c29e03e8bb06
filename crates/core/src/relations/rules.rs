//! Rules of `[X-Warren]`: what the end of another unit does to this one, in the sense of smf(5).
//!
//! `ExcludeAll=` and `RestartOn=` act when the other unit changes. A unit that was stopped by one of them starts
//! again when the other allows it; its reason is the memory of that.

use crate::features::start_limit;
use crate::jobs::dependency_groups;
use crate::jobs::install;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode, JobType};
use crate::model::process::Outcome;
use crate::model::reason::{Cause, Code, Reason};
use crate::parts::Core;
use crate::parts::queues::Transition;
use crate::parts::units::Units;
use crate::transaction::Anchor;
use warren_unit::Relation;

/// All ties of `RestartOn=` that do something.
const ENDED_WITH: [Relation; 3] =
    [Relation::RestartOnErrorOf, Relation::RestartOnRestartOf, Relation::RestartOnRefreshOf];

/// What a change of one unit's state does over `RestartOn=` and `ExcludeAll=`. `told` is the job
/// that stops or restarts it, with what the transaction found; `ends`: other units are to hear of its end.
pub(crate) fn ripple_by_rules(
    core: &mut Core,
    transition: Transition,
    told: Option<JobKind>,
    ends: bool,
) {
    let Transition { unit, old, new, .. } = transition;
    if old.is_down() && !new.is_down() {
        make_room(core, unit);
    }
    if ends {
        stop_with(core, unit, told);
    }
    if !old.is_up() && new.is_up() {
        return_with(core, unit);
    }
    if !old.is_down() && new.is_down() {
        return_without(core, unit);
        return_if_allowed(core, unit);
    }
}

/// What excludes a unit that comes up gives way.
fn make_room(core: &mut Core, unit: UnitId) {
    let graph = core.graph.clone();
    for other in graph.related(unit, Relation::ExcludeAllOf) {
        if core.units.active_state(other).is_up_or_coming() {
            stop_by_rule(core, other, Reason::new(Code::GaveWay, Cause::Dependency(unit)));
        }
    }
}

/// A unit ends: those whose rule says so end with it. Where a transaction restarts it, that has
/// the others' restarts too, in whichever order, but for groups of which one suffices. A
/// transaction that stops it has the stops of those that were up then; who came up while the stop
/// waited for its turn ends now.
fn stop_with(core: &mut Core, unit: UnitId, told: Option<JobKind>) {
    let graph = core.graph.clone();
    let is_fault = told.is_none() && core.units.outcome(unit) != Outcome::Success;
    let are_told = told == Some(JobKind::Restart);
    for relation in ENDED_WITH {
        if relation == Relation::RestartOnErrorOf && !is_fault {
            continue;
        }
        for other in graph.related(unit, relation) {
            let one_of = graph.is_related(other, Relation::RequireAny, unit);
            let is_done =
                are_told && !one_of || one_of && dependency_groups::does_without(core, other, unit);
            if !is_done && core.units.active_state(other).is_up_or_coming() {
                let reason = Reason::new(Code::DependencyEnded, Cause::Dependency(unit));
                stop_by_rule(core, other, reason);
            }
        }
    }
}

/// What stands against it now, it is owed: a job that is irreversible keeps it up for no longer
/// than that job lasts.
fn stop_by_rule(core: &mut Core, unit: UnitId, reason: Reason) {
    let stops = |kind: JobKind| kind.is_stopping();
    if !core.units.run(unit).job.as_ref().is_some_and(|job| stops(job.kind)) {
        let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Replace };
        install::enqueue_for(core, anchor, reason);
    }
    let owed = core.queues.stands_off.contains(&unit).then_some(reason);
    if owed.is_some() || owed_stop(&core.units, unit).is_some() {
        core.units.history_mut(unit).owed_stop = owed;
    }
}

/// The stop by a rule that jobs stood against.
fn owed_stop(units: &Units, unit: UnitId) -> Option<Reason> {
    units.run(unit).history.as_ref()?.owed_stop
}

/// Tries again to stop a unit by a rule, if its files still say so; whether it was tried.
pub(crate) fn stop_if_owed(core: &mut Core, unit: UnitId) -> bool {
    let Some(reason) = owed_stop(&core.units, unit) else { return false };
    let Cause::Dependency(other) = reason.cause else { return false };
    let is_due = match reason.code {
        Code::GaveWay => dependency_groups::excluder(&core.graph, &core.units, unit).is_some(),
        _ => ENDED_WITH.iter().any(|&rule| core.graph.is_related(other, rule, unit)),
    };
    match is_due && core.units.active_state(unit).is_up_or_coming() {
        true => stop_by_rule(core, unit, reason),
        false => core.units.history_mut(unit).owed_stop = None,
    }
    is_due
}

/// A unit is up: those that had ended with it, or with another one of its group, come back.
fn return_with(core: &mut Core, unit: UnitId) {
    let graph = core.graph.clone();
    let tied = ENDED_WITH.into_iter().chain([Relation::RequireAnyOf]);
    for other in tied.flat_map(|relation| graph.related(unit, relation)) {
        return_if_allowed(core, other);
    }
}

/// A unit is down: those that had given way to it come back.
pub(crate) fn return_without(core: &mut Core, unit: UnitId) {
    let graph = core.graph.clone();
    for other in graph.related(unit, Relation::ExcludeAllOf) {
        return_if_allowed(core, other);
    }
}

/// Starts a unit again that a rule had stopped, if what stopped it allows it now.
pub(crate) fn return_if_allowed(core: &mut Core, unit: UnitId) {
    let idle = core.units.run(unit).job.is_none() && core.units.active_state(unit).is_down();
    let reason = core.units.run(unit).history.as_ref().map_or(Reason::default(), |h| h.reason);
    let Cause::Dependency(other) = reason.cause else { return };
    if !idle || core.totals.stopping {
        return;
    }
    let allowed = match reason.code {
        Code::GaveWay => dependency_groups::excluder(&core.graph, &core.units, unit).is_none(),
        Code::DependencyEnded => is_back(core, unit, other),
        _ => false,
    };
    if !allowed {
        return;
    }
    if let Some(at) = start_limit::count_return(core, unit) {
        core.deadlines.upheld_again.insert(unit, at);
        core.units.note_touched(unit);
    } else {
        let anchor = Anchor { unit, job_type: JobType::Start, mode: JobMode::Fail };
        install::enqueue_for(core, anchor, Reason::new(Code::Returned, Cause::Dependency(other)));
    }
}

/// Whether a unit that `unit` ended with is up and stays so, or another one that will do.
fn is_back(core: &Core, unit: UnitId, other: UnitId) -> bool {
    let stops = core.units.run(other).job.as_ref().is_some_and(|job| job.kind.is_stopping());
    let one_of = core.graph.is_related(unit, Relation::RequireAny, other);
    core.units.active_state(other).is_up() && !stops
        || one_of && dependency_groups::does_without(core, unit, other)
}

/// An administrator stops what is down already: it does not come back by a rule any more.
pub(crate) fn stays_down(units: &mut Units, unit: UnitId, reason: Reason) {
    let by_rule = |code| matches!(code, Code::GaveWay | Code::DependencyEnded);
    if units.run(unit).history.as_ref().is_some_and(|h| by_rule(h.reason.code)) {
        units.history_mut(unit).reason = reason;
    }
}
