//! How jobs end: with their unit's state, with a result, by their time.

use crate::features::{cleanup, connections, dynamic_user, slice_limits};
use crate::graph::Graph;
use crate::jobs::{dependency_groups, outcomes, waits};
use crate::model::ids::UnitId;
use crate::model::job::{Ignores, Job, JobKind, JobResult};
use crate::model::process::Outcome;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::LostJob;
use crate::model::time::Moment;
use crate::parts::Core;
use crate::parts::jobs::Jobs;
use crate::parts::unit_settings;
use crate::parts::units::Units;
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;
use std::collections::BTreeSet;
use warren_unit::Relation;

/// Takes a job away and tells everybody whom it concerns.
pub(crate) fn finish_job(core: &mut Core, unit: UnitId, result: JobResult, reason: Reason) {
    // `ExecCondition=` of a service, which has begun and is down again.
    let said_no = |core: &Core| {
        core.units.active_state(unit).is_down_or_going()
            && core.units.outcome(unit) == Outcome::ExecCondition
    };
    let is_start = |job: &Job| job.kind == JobKind::Start;
    let is_skipped = reason.code == Code::ConditionFailed
        || core.units.run(unit).job.as_deref().is_some_and(is_start) && said_no(core);
    end_job(core, unit, result, reason, !is_skipped);
}

/// The same, where it is known whether its unit did something for it.
pub(crate) fn end_job(
    core: &mut Core,
    unit: UnitId,
    result: JobResult,
    reason: Reason,
    changed: bool,
) {
    let Some(job) = core.units.run(unit).job.clone() else { return };
    let asked = asked_of(&core.units, &core.jobs, unit, &job);
    core.jobs.starting_reloads.remove(&job.id);
    waits::unlink_job(core, unit);
    core.units.run_mut(unit).job = None;
    slice_limits::leave(core, unit);
    slice_limits::release_if_idle(core, unit);
    core.totals.jobs -= 1;
    core.jobs.running -= u32::from(job.running);
    drop_check(core, unit);
    remember_job(&mut core.units, core.times.now, unit, job.kind, result, reason);
    // What timed out, or failed for another, does not count, as systemd 252 has it.
    if result == JobResult::Failed {
        core.totals.failed_jobs_ever = core.totals.failed_jobs_ever.wrapping_add(1);
    }
    if result.is_failure() {
        let detail = format!("{} job: {}", job.kind.as_str(), result.as_str());
        core.outbox.tell(Notice::Log { unit, reason, detail });
    }
    core.outbox.tell(Notice::JobRemoved { job: job.id, unit, kind: job.kind, result, changed });
    core.outbox.happened(
        core.times.now.monotonic,
        unit,
        What::JobEnded { job: job.id, kind: job.kind, result, reason },
    );
    if result == JobResult::Timeout || result.is_failure() {
        note_never_begun(&mut core.units, unit, asked, reason);
    }
    if result.is_failure() && result != JobResult::Canceled {
        fail_dependents(core, unit, asked);
    }
    // Its state does not tell of it: it was not tried, or not waited for.
    let untold = matches!(result, JobResult::Dependency | JobResult::Timeout);
    if untold && asked == JobKind::Start {
        outcomes::start_by_outcome(core, unit, Relation::OnFailure, false);
    }
    if (job.kind, result) == (JobKind::Reload, JobResult::Done)
        && core.units.run(unit).history.as_ref().is_some_and(|history| history.markers.reload)
    {
        core.units.history_mut(unit).markers.reload = false;
    }
    match (job.kind, result) {
        // It would fail again at once: what is bound to something gone is stopped later.
        (JobKind::Stop, JobResult::Failed | JobResult::Timeout) => {
            core.deadlines.try_later(&mut core.units, unit, core.times.now.monotonic)
        }
        _ => {
            core.queues.bound.insert(unit);
        }
    }
    if core.units.active_state(unit).is_down() {
        cleanup::clear_what_was_kept(core, unit, &job);
        core.settings.forget(unit);
        connections::connection_ended(core, unit);
        // It was never up, or is not any more: what came up for it or is bound to it may go.
        core.queues.queue_what_may_go(&core.graph, unit);
    }
    // Nor is it, if its job was to have it come up again when it is down.
    if core.units.active_state(unit).is_down_or_going() {
        core.queues.bound.extend(core.graph.related(unit, Relation::BoundBy));
    }
    dependency_groups::look_at_group_waiters(core, unit);
    core.queues.job_ends.insert(unit, core.times.now);
    core.queues.unneeded.insert(unit);
    core.queues.try_again();
}

/// What a later question after a job that came to nothing is answered with.
fn remember_job(
    units: &mut Units,
    now: Moment,
    unit: UnitId,
    kind: JobKind,
    result: JobResult,
    reason: Reason,
) {
    // A look at whether it is up (Requisite=) is no job that it was to have.
    if kind == JobKind::VerifyActive {
        return;
    }
    let at = now;
    let lost = (result != JobResult::Done).then_some(LostJob { kind, result, reason, at });
    let had = units.run(unit).history.as_ref().and_then(|h| h.lost_job);
    // The stop that took the place of a start does not make one forget who asked for it.
    let stays = had.is_some_and(|had| kind == JobKind::Stop && had.kind == JobKind::Start);
    if lost.is_some() || had.is_some() && !stays {
        units.history_mut(unit).lost_job = lost;
    }
}

/// A check of conditions serves the start job that asked for it and ends with it.
pub(crate) fn drop_check(core: &mut Core, unit: UnitId) {
    if core.units.run(unit).history.as_ref().is_some_and(|h| h.checking.is_some())
        && let Some(id) = core.units.history_mut(unit).checking.take()
    {
        core.outbox.forget_effect(id);
    }
    dynamic_user::release_if_over(core, unit);
}

/// A start that failed before the unit was told leaves its reason on the unit.
fn note_never_begun(units: &mut Units, unit: UnitId, asked: JobKind, reason: Reason) {
    if asked == JobKind::Start
        && units.active_state(unit).is_down()
        && reason.code.is_trouble()
        && !(reason.code == Code::Excluded && dependency_groups::gave_way(units, unit))
    {
        units.history_mut(unit).reason = reason;
    }
}

/// What a job was to bring about: a reload that has not begun, of a unit that is not up, had a start
/// merged into it (see [`JobKind::merge`]), and of a unit that is down a restart is a start.
pub(crate) fn asked_of(units: &Units, jobs: &Jobs, unit: UnitId, job: &Job) -> JobKind {
    match job.kind {
        JobKind::Restart if !job.running && units.active_state(unit).is_down() => JobKind::Start,
        JobKind::Reload
            if !job.running
                && !units.active_state(unit).is_up()
                && jobs.has_a_start(units, unit) =>
        {
            JobKind::Start
        }
        kind => kind,
    }
}

/// Jobs that cannot be without the one that failed fail with it.
pub(crate) fn fail_dependents(core: &mut Core, unit: UnitId, kind: JobKind) {
    let relations: &[Relation] = match kind {
        JobKind::Start | JobKind::VerifyActive => {
            &[Relation::RequiredBy, Relation::RequisiteOf, Relation::BoundBy, Relation::MountsForOf]
        }
        JobKind::Stop => &[Relation::ConflictedBy],
        _ => return,
    };
    let graph = core.graph.clone();
    let by_start = matches!(kind, JobKind::Start | JobKind::VerifyActive);
    let dependents: BTreeSet<UnitId> =
        relations.iter().flat_map(|&r| graph.related(unit, r)).collect();
    for other in dependents {
        let fails =
            core.units.run(other).job.as_ref().filter(|job| !job.running).is_some_and(|job| {
                match job.kind {
                    JobKind::Start | JobKind::VerifyActive => true,
                    JobKind::Restart => {
                        by_start && asked_of(&core.units, &core.jobs, other, job) == JobKind::Start
                    }
                    _ => false,
                }
            });
        if fails {
            let reason = Reason::new(Code::DependencyFailed, Cause::Dependency(unit));
            finish_job(core, other, JobResult::Dependency, reason);
        }
    }
}

pub(crate) fn job_deadline(core: &mut Core, unit: UnitId) {
    let now = core.times.now.monotonic;
    let due = |job: &Job| job.deadline.is_some_and(|at| at <= now);
    if !core.units.run(unit).job.as_ref().is_some_and(|job| due(job)) {
        return;
    }
    if core.totals.stopping {
        return stop_out_of_turn(core, unit);
    }
    let section = unit_settings::compiled(core, unit).section.clone();
    let code = match core.graph.is_device(unit) {
        true => Code::DeviceMissing,
        false => Code::JobTimeout,
    };
    let cause = waited_for(&core.graph, &core.units, unit).map_or(Cause::None, Cause::Dependency);
    finish_job(core, unit, JobResult::Timeout, Reason::new(code, cause));
    let action = ("JobTimeoutAction", section.job_timeout_action);
    core.outbox.limit_emergency(action, unit, &section.job_timeout_reboot_argument);
}

/// The first unit whose job this one's job waits for.
fn waited_for(graph: &Graph, units: &Units, unit: UnitId) -> Option<UnitId> {
    let kind = units.run(unit).job.as_ref().filter(|job| job.blockers > 0)?.kind;
    graph.ordered_with(unit).find(|&other| {
        let job = units.run(other).job.as_ref();
        job.is_some_and(|job| graph.may_wait(unit, kind, other, job.kind))
    })
}

/// At the end of the manager a stop job is not given up: it waits for others no longer, and the
/// stop itself has bounds of its own.
fn stop_out_of_turn(core: &mut Core, unit: UnitId) {
    waits::change_job(core, unit, |job| {
        job.ignores.add(Ignores::ORDER);
        job.deadline = None;
    });
    core.queues.queue_job(&core.units, unit);
}
