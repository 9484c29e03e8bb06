//! Relations that hold all the time: `Upholds=`, `BindsTo=`, `StopWhenUnneeded=` (systemd.unit(5)).

use crate::features::{device_sight, restart_mode, start_limit};
use crate::jobs::install;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode, JobResult, JobType};
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::model::time::Moment;
use crate::parts::Core;
use crate::parts::deadlines::AGAIN_AFTER;
use crate::parts::deadlines::Deadlines;
use crate::parts::units::Units;
use crate::relations::rules;
use crate::transaction::Anchor;
use warren_unit::Relation;

/// A client, or the job of another unit, has taken away the start of a unit that stays down: it is
/// looked at again whether a unit upholds it or a rule has it return. systemd 252 starts again at
/// once what is upheld, after `systemctl cancel` and after `--job-mode=flush`. Where what it needs
/// has failed, or has kept it waiting for too long, that is done after a while; systemd 252 tries
/// 17 times at once, and never again.
pub(crate) fn start_again_if_lost(core: &mut Core, unit: UnitId, at: Moment) {
    let lost = core.units.run(unit).history.as_ref().and_then(|history| history.lost_job);
    // Of a unit that is down a restart is a start.
    let starts = |lost: &LostJob| matches!(lost.kind, JobKind::Start | JobKind::Restart);
    let is_start = |lost: &LostJob| lost.at == at && starts(lost);
    let Some(lost) = lost.filter(is_start) else { return };
    match lost.result {
        JobResult::Dependency | JobResult::Timeout if upholders(core, unit).next().is_some() => {
            core.deadlines.try_later(&mut core.units, unit, core.times.now.monotonic);
        }
        // It is as it was, and nothing else tells that it is tried again when the limit is over.
        _ if lost.reason.code == Code::StartLimit => _ = core.queues.upheld.insert(unit),
        // What was cancelled for the sake of a circle would be in it again.
        JobResult::Canceled if lost.reason.cause != Cause::Manager => {
            core.queues.upheld.insert(unit);
            rules::return_if_allowed(core, unit);
        }
        _ => {}
    }
}

/// `StopWhenUnneeded=`: stops the unit if no unit that needs it is up or has a job.
pub(crate) fn stop_if_unneeded(core: &mut Core, unit: UnitId) {
    let idle = core.units.run(unit).job.is_none() && core.units.active_state(unit).is_up();
    if !idle
        || !core.graph.flags(unit).stop_when_unneeded()
        || puts_off_stop(&mut core.units, &mut core.deadlines, core.times.now, unit)
    {
        return;
    }
    const NEEDED_BY: &[Relation] = &[
        Relation::RequiredBy,
        Relation::RequisiteOf,
        Relation::WantedBy,
        Relation::BoundBy,
        Relation::UpheldBy,
        Relation::RequireAnyOf,
        Relation::MountsForOf,
    ];
    let needs_it = |other: UnitId| {
        core.units.run(other).job.is_some() || !core.units.active_state(other).is_down()
    };
    if core.graph.related_by_any(unit, NEEDED_BY).into_iter().any(needs_it) {
        return;
    }
    let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Fail };
    install::enqueue_for(core, anchor, Reason::new(Code::Unneeded, Cause::None));
}

/// Whether a stop of the unit failed so recently that nothing is to be expected of another, which is
/// then made later.
fn puts_off_stop(units: &mut Units, deadlines: &mut Deadlines, now: Moment, unit: UnitId) -> bool {
    let failed = |lost: &LostJob| {
        let is_stop = lost.kind == JobKind::Stop && units.active_state(unit).is_up();
        is_stop && matches!(lost.result, JobResult::Failed | JobResult::Timeout)
    };
    let lost = units.run(unit).history.as_ref().and_then(|history| history.lost_job);
    let Some(lost) = lost.filter(failed) else { return false };
    let again = lost.at.monotonic.after(AGAIN_AFTER);
    let is_early = again > now.monotonic;
    // Nobody may have it planned, after a restart of the manager.
    if is_early && !deadlines.upheld_again.contains_key(&unit) {
        deadlines.upheld_again.insert(unit, again);
        units.note_touched(unit);
    }
    is_early
}

/// `BindsTo=` without `After=`: what it is bound to may have ended, or never have begun, before
/// this unit came up.
pub(crate) fn stop_if_unbound(core: &mut Core, unit: UnitId) {
    if puts_off_stop(&mut core.units, &mut core.deadlines, core.times.now, unit)
        || rules::stop_if_owed(core, unit)
    {
        return;
    }
    if core.units.run(unit).job.is_some() || !core.units.active_state(unit).is_up() {
        return;
    }
    let bound: Vec<UnitId> = core.graph.related(unit, Relation::BindsTo).collect();
    let gone = |core: &mut Core, other: &UnitId| {
        core.units.run(*other).job.is_none()
            && !core.graph.is_related(unit, Relation::RestartOnNone, *other)
            && core.units.active_state(*other).is_down_or_going()
            && (!core.graph.is_device(*other) || device_sight::has_gone(&core.units, *other))
            && !restart_mode::may_restart_unseen(core, *other)
    };
    let Some(bound) = bound.into_iter().find(|other| gone(core, other)) else { return };
    let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Replace };
    install::enqueue_for(core, anchor, Reason::new(Code::BoundUnitGone, Cause::Dependency(bound)));
}

/// A unit that is up, and to stay so, and upholds this one.
fn upholder(core: &Core, unit: UnitId) -> Option<UnitId> {
    upholders(core, unit).find(|&other| core.units.run(other).job.is_none())
}

/// Units that are up and uphold this one.
fn upholders(core: &Core, unit: UnitId) -> impl Iterator<Item = UnitId> + '_ {
    let related = core.graph.related(unit, Relation::UpheldBy);
    related.filter(|&other| core.units.active_state(other).is_up())
}

/// `Upholds=`: starts the unit again if an active unit upholds it.
pub(crate) fn start_if_upheld(core: &mut Core, unit: UnitId) {
    if core.totals.stopping
        || core.units.run(unit).job.is_some()
        || !core.units.active_state(unit).is_down()
    {
        return;
    }
    let Some(upholder) = upholder(core, unit) else {
        // One that has a job now may be there when that is over.
        if upholders(core, unit).next().is_some() {
            core.deadlines.try_later(&mut core.units, unit, core.times.now.monotonic);
        }
        return;
    };
    if let Some(at) = start_limit::start_limit_ends(core, unit) {
        core.deadlines.upheld_again.insert(unit, at);
        return core.units.note_touched(unit);
    }
    start_limit::count_upheld(core, unit);
    let anchor = Anchor { unit, job_type: JobType::Start, mode: JobMode::Fail };
    install::enqueue_for(core, anchor, Reason::new(Code::Upheld, Cause::Dependency(upholder)));
}
