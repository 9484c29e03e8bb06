//! What a change of its unit does to a running job: it is over, it goes into its second half, or it waits again.

use crate::features::{cleanup, slice_limits};
use crate::jobs::{circles, ends, waits};
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{Ignores, JobKind, JobResult};
use crate::model::process::Outcome;
use crate::model::reason::{Code, Reason};
use crate::model::state::{Mount, Service, TypeState};
use crate::parts::Core;
use crate::parts::job_queue::Turn;
use crate::parts::units::Units;
use crate::protocol::trace_event::What;

/// What a start is to have is being removed, since it began: it has not begun after all.
pub(crate) fn wait_again(core: &mut Core, unit: UnitId) {
    let job = core.units.run_mut(unit).job.as_mut();
    let had_begun = job.is_some_and(|job| std::mem::take(&mut job.running));
    // Nor was that planned with jobs that come to wait for it now.
    core.jobs.circles_possible |= had_begun;
    core.jobs.running -= u32::from(had_begun);
    slice_limits::release_if_idle(core, unit);
    // It had its turn before those that wait for it now.
    if had_begun && waits::waits_for_itself(&core.graph, &core.units, unit) {
        waits::change_job(core, unit, |job| _ = job.ignores.add(Ignores::ORDER));
    }
}

/// The stop half of a restart is done: what is left is a start job, which waits like any, and which a
/// recording has as another.
pub(crate) fn turn_into_start(core: &mut Core, unit: UnitId) -> Turn {
    note_half(core, unit);
    waits::change_job(core, unit, |job| {
        job.kind = JobKind::Start;
        if std::mem::take(&mut job.running) {
            job.released_by = None;
        }
    });
    if core.jobs.circles_possible && waits::waits_for_itself(&core.graph, &core.units, unit) {
        circles::break_circles(core);
    }
    core.queues.queue_job(&core.units, unit);
    Turn::Wait
}

fn note_half(core: &mut Core, unit: UnitId) {
    let job = core.units.run(unit).job.as_deref().filter(|job| job.running);
    let Some((job, was, reason)) = job.map(|job| (job.id, job.kind, job.reason)) else {
        return;
    };
    core.jobs.running -= 1;
    let result = JobResult::Done;
    core.outbox.happened(
        core.times.now.monotonic,
        unit,
        What::JobEnded { job, kind: was, result, reason },
    );
    core.outbox.happened(
        core.times.now.monotonic,
        unit,
        What::JobQueued { job, kind: JobKind::Start, reason },
    );
}

/// The unit's state changed: its running job may be over.
pub(crate) fn job_after_change(core: &mut Core, unit: UnitId, new: ActiveState) {
    let Some(job) = core.units.run(unit).job.as_ref() else { return };
    let (kind, reason) = (job.kind, job.reason);
    if !job.running {
        waits::release(&mut core.units, &mut core.queues, unit, unit);
        return;
    }
    let own_reason = core.units.run(unit).history.as_ref().map_or(reason, |h| h.reason);
    match kind {
        JobKind::Start | JobKind::VerifyActive => match new {
            s if s.is_up() => ends::finish_job(core, unit, JobResult::Done, reason),
            // One that has failed is waited for until nothing of it runs any more.
            ActiveState::Activating | ActiveState::Deactivating => {}
            // It may come yet: the job's timeout says for how long it is waited for.
            ActiveState::Inactive if core.graph.is_device(unit) => {}
            ActiveState::Inactive if ended_well(&core.units, unit) => {
                ends::finish_job(core, unit, JobResult::Done, reason);
            }
            _ => ends::finish_job(core, unit, JobResult::Failed, own_reason),
        },
        // Its traces go first; that ends the job.
        JobKind::Stop if new.is_down() && cleanup::is_stop_held(&core.units, unit) => {}
        JobKind::Stop if new.is_down() => ends::finish_job(core, unit, JobResult::Done, reason),
        JobKind::Restart if new.is_down() => {
            turn_into_start(core, unit);
        }
        JobKind::Stop | JobKind::Restart if new.is_up_or_coming() => {
            ends::finish_job(core, unit, JobResult::Failed, own_reason);
        }
        JobKind::Reload => match new {
            ActiveState::Active if reload_failed(&core.units, unit) => {
                let reason = Reason::new(Code::ReloadFailed, reason.cause);
                ends::finish_job(core, unit, JobResult::Failed, reason);
            }
            ActiveState::Active => ends::finish_job(core, unit, JobResult::Done, reason),
            ActiveState::Reloading | ActiveState::Activating | ActiveState::Deactivating => {}
            _ => ends::finish_job(core, unit, JobResult::Failed, own_reason),
        },
        _ => {}
    }
}

/// Whether a unit that is gone again has done what a start asks for: a oneshot that succeeded, or a
/// start that a condition made unnecessary.
pub(crate) fn ended_well(units: &Units, unit: UnitId) -> bool {
    let outcome = units.outcome(unit);
    matches!(outcome, Outcome::Success | Outcome::ExecCondition)
}

fn reload_failed(units: &Units, unit: UnitId) -> bool {
    match &units.run(unit).state {
        TypeState::Service(Service::Up(run)) => run.reload_outcome != Outcome::Success,
        TypeState::Mount(Mount::Up(run)) => run.reload_outcome != Outcome::Success,
        _ => false,
    }
}
