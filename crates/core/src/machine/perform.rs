//! The job whose turn it is: what its unit is told to do, and what comes of that.
//!
//! Start at [`run_next_job`].

use crate::features::{cleanup, device_sight, remarks, restart_mode, slice_limits};
use crate::jobs::{dependency_groups, ends, halves};
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobResult};
use crate::model::reason::{Cause, Code, Reason};
use crate::model::time::Moment;
use crate::parts::job_queue::Turn;
use crate::parts::jobs::Jobs;
use crate::parts::outbox::Outbox;
use crate::parts::units::Units;
use crate::parts::{Core, unit_settings};
use crate::protocol::trace_event::What;
use crate::relations::rules;
use crate::types::orders;
use crate::types::service::stop;
use warren_unit::{LoadState, Relation};

/// Has the next unit do its job whose turn has come; false if there is none.
pub(crate) fn run_next_job(core: &mut Core) -> bool {
    while let Some(unit) = core.queues.next_turn(core.totals.stopping) {
        let job = core.units.run(unit).job.as_ref();
        if job.is_some_and(|job| !job.running && job.blockers == 0) {
            run_job(core, unit);
            return true;
        }
    }
    false
}

/// Nothing holds it any more, and its turn has come.
fn run_job(core: &mut Core, unit: UnitId) {
    let Some(job) = core.units.run(unit).job.as_ref() else { return };
    let (kind, reason) = (job.kind, job.reason);
    let was_so = kind.is_redundant(core.units.active_state(unit));
    core.jobs.performing = Some((unit, kind));
    let turn = perform(core, unit, kind, reason);
    core.jobs.performing = None;
    match turn {
        Turn::Wait => {}
        Turn::Begun => {
            begin(core, unit);
            note_begun(&core.units, &mut core.outbox, core.times.now, unit);
        }
        Turn::Over(result, reason) => {
            note_begun(&core.units, &mut core.outbox, core.times.now, unit);
            ends::end_job(core, unit, result, reason, !was_so);
        }
    }
}

fn note_begun(units: &Units, outbox: &mut Outbox, now: Moment, unit: UnitId) {
    if let Some(job) = units.run(unit).job.as_deref() {
        let (job, kind, released_by) = (job.id, job.kind, job.released_by);
        outbox.happened(now.monotonic, unit, What::JobBegan { job, kind, released_by });
    }
}

fn begin(core: &mut Core, unit: UnitId) {
    let now = core.times.now.monotonic;
    let running_timeout = core
        .graph
        .flags(unit)
        .has_job_settings()
        .then(|| unit_settings::compiled(core, unit).section.job_running_timeout)
        .flatten();
    if let Some(job) = core.units.run_mut(unit).job.as_mut() {
        let begun_before = std::mem::replace(&mut job.running, true);
        let limit = running_timeout.map(|timeout| now.after(timeout));
        job.deadline = [job.deadline, limit].into_iter().flatten().min();
        core.jobs.running += u32::from(!begun_before);
    }
}

fn perform(core: &mut Core, unit: UnitId, kind: JobKind, reason: Reason) -> Turn {
    let state = core.units.active_state(unit);
    // A stop stood against the restart when it was due, and this job took its place: the restart
    // that is about to come takes this one over, or is waited for by it.
    if restart_mode::is_started_again(&core.units, unit) {
        return perform_start_of_down(core, unit, reason);
    }
    if core.units.waits_to_restart(unit) && !kind.is_stopping() && kind != JobKind::Nop {
        stop::restart_if_due(&mut core.units, core.times.now, unit);
        return Turn::Wait;
    }
    match kind {
        JobKind::Nop => Turn::Over(JobResult::Done, reason),
        JobKind::VerifyActive => match state {
            s if s.is_up() => Turn::Over(JobResult::Done, reason),
            ActiveState::Activating => Turn::Wait,
            _ => Turn::Over(JobResult::Skipped, Reason::new(Code::RequisiteMissing, reason.cause)),
        },
        JobKind::Start => perform_start(core, unit, state, reason),
        JobKind::Stop | JobKind::Restart => perform_stop(core, unit, state, kind, reason),
        JobKind::Reload => perform_reload(core, unit, state, reason),
    }
}

fn perform_start(core: &mut Core, unit: UnitId, state: ActiveState, reason: Reason) -> Turn {
    match state {
        s if s.is_up() => return Turn::Over(JobResult::Done, reason),
        // It is on its way already: the job ends with it.
        ActiveState::Activating => return Turn::Begun,
        ActiveState::Deactivating => return Turn::Wait,
        _ => {}
    }
    perform_start_of_down(core, unit, reason)
}

/// Starts a unit of which nothing runs.
fn perform_start_of_down(core: &mut Core, unit: UnitId, reason: Reason) -> Turn {
    let refused = |result, code| Turn::Over(result, Reason::new(code, reason.cause));
    match &core.graph.definition(unit).load_state {
        LoadState::Loaded => {}
        LoadState::Masked => return refused(JobResult::Invalid, Code::Masked),
        LoadState::NotFound => return refused(JobResult::Invalid, Code::NotLoaded),
        _ => return refused(JobResult::Invalid, Code::BadSetting),
    }
    if remarks::is_put_aside(&core.units, unit) {
        return refused(JobResult::Invalid, Code::Maintenance);
    }
    if let Some((code, missing)) = missing_bound(core, unit) {
        let reason = Reason::new(code, Cause::Dependency(missing));
        return Turn::Over(JobResult::Dependency, reason);
    }
    if cleanup::waits_for_clearing(core, unit) {
        return Turn::Wait;
    }
    let against = dependency_groups::groups_against(core, unit);
    match against.or_else(|| slice_limits::slices_against(core, unit)) {
        Some(turn) => turn,
        None => orders::start_unit(core, unit, reason),
    }
}

/// A unit that this one is bound to and ordered after, and that is not up (systemd.unit(5),
/// `BindsTo=` with `After=`, and `Requisite=`, which a job may ignore).
fn missing_bound(core: &Core, unit: UnitId) -> Option<(Code, UnitId)> {
    let down = |other: UnitId| {
        !core.units.active_state(other).is_up() && !device_sight::is_unseen(core, other)
    };
    let ordered = |other: UnitId| core.graph.is_before(other, unit);
    let mut bound = core.graph.related(unit, Relation::BindsTo);
    if let Some(gone) = bound.find(|&other| ordered(other) && down(other)) {
        return Some((Code::BoundUnitGone, gone));
    }
    if core.units.run(unit).job.as_ref().is_some_and(|job| job.ignores_requirements()) {
        return None;
    }
    let mut needed = core.graph.related(unit, Relation::Requisite);
    let is_missing = |other: UnitId| {
        core.units.active_state(other).is_down_or_going() && !device_sight::is_unseen(core, other)
    };
    needed.find(|&other| is_missing(other)).map(|missing| (Code::RequisiteMissing, missing))
}

fn perform_stop(
    core: &mut Core,
    unit: UnitId,
    state: ActiveState,
    kind: JobKind,
    reason: Reason,
) -> Turn {
    if state.is_down() {
        if kind == JobKind::Restart {
            return halves::turn_into_start(core, unit);
        }
        rules::stays_down(&mut core.units, unit, reason);
        return match cleanup::is_stop_held(&core.units, unit) {
            true => Turn::Begun,
            false => Turn::Over(JobResult::Done, reason),
        };
    }
    if state != ActiveState::Deactivating {
        orders::stop_unit(core, unit, reason);
    }
    match core.units.run(unit).active_state() {
        s if s.is_down() && kind == JobKind::Stop && cleanup::is_stop_held(&core.units, unit) => {
            Turn::Begun
        }
        s if s.is_down() && kind == JobKind::Restart => halves::turn_into_start(core, unit),
        s if s.is_down() => Turn::Over(JobResult::Done, reason),
        _ => Turn::Begun,
    }
}

fn perform_reload(core: &mut Core, unit: UnitId, state: ActiveState, reason: Reason) -> Turn {
    match state {
        ActiveState::Active => orders::reload_unit(core, unit, reason),
        ActiveState::Reloading | ActiveState::Activating => Turn::Wait,
        // As a start waits for what is going again.
        ActiveState::Deactivating if core.jobs.has_a_start(&core.units, unit) => Turn::Wait,
        _ => start_ended(&core.units, &core.jobs, unit)
            .unwrap_or(Turn::Over(JobResult::Invalid, reason)),
    }
}

/// What came of the start whose job was made into a reload while it was under way, if the unit is
/// down again.
fn start_ended(units: &Units, jobs: &Jobs, unit: UnitId) -> Option<Turn> {
    let since = units.run(unit).job.as_ref()?.since;
    let history = units.run(unit).history.as_ref()?;
    if history.state_change.monotonic < since || !jobs.has_a_start(units, unit) {
        return None;
    }
    Some(match halves::ended_well(units, unit) {
        true => Turn::Over(JobResult::Done, history.reason),
        false => Turn::Over(JobResult::Failed, history.reason),
    })
}
