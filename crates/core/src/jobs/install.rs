//! From the anchor to installed jobs: the plan is made by [`transaction::build`].

use crate::features::{remarks, slice_limits};
use crate::graph::{Graph, STOPPED_WITH};
use crate::jobs::{dependency_groups, ends, waits};
use crate::model::active_state::ActiveState;
use crate::model::ids::{JobId, UnitId};
use crate::model::job::{Ignores, Job, JobKind, JobMode, JobResult, JobType};
use crate::model::part::Part;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::time::Moment;
use crate::parts::Core;
use crate::parts::unit_settings;
use crate::parts::units::Units;
use crate::protocol::request::{Notice, Refusal, Reply};
use crate::protocol::trace_event::What;
use crate::transaction::{Anchor, Circle, LeftOut, Plan, Planned};
use crate::{state_change, transaction};
use std::collections::BTreeMap;
use warren_unit::{LoadState, Relation};

/// Builds and installs the transaction for `anchor`. Once the end has begun nothing comes up
/// any more, whoever or whatever asks for it.
pub(crate) fn enqueue(core: &mut Core, anchor: Anchor, cause: Cause) -> Result<Reply, Refusal> {
    let cancels = anchor.mode == JobMode::Flush;
    if core.totals.stopping && (anchor.job_type != JobType::Stop || cancels) {
        return Err(Refusal::ShuttingDown);
    }
    // Whoever asks, also `OnFailureJobMode=`: it stops everything else.
    if anchor.mode == JobMode::Isolate && !core.graph.flags(anchor.unit).allow_isolate() {
        let refusal = Refusal::BadMode("Operation refused, unit may not be isolated.");
        return Err(note_refusal(core, anchor, cause, refusal));
    }
    let graph = core.graph.clone();
    match transaction::build(&graph, core, anchor) {
        Ok(plan) => Ok(install(core, plan, anchor, cause)),
        Err(refusal) => Err(note_refusal(core, anchor, cause, refusal)),
    }
}

/// The same for several anchors: all of their transactions or none. No job of one of them begins before those of all
/// are there, so that they keep their order.
pub(crate) fn enqueue_many(
    core: &mut Core,
    anchors: &[Anchor],
    cause: Cause,
) -> Result<Vec<(JobId, UnitId, JobKind)>, Refusal> {
    if anchors.iter().any(|anchor| matches!(anchor.mode, JobMode::Isolate | JobMode::Flush)) {
        return Err(Refusal::BadMode("This job mode is for one unit at a time."));
    }
    let graph = core.graph.clone();
    let mut asked: BTreeMap<UnitId, JobKind> = BTreeMap::new();
    for &anchor in anchors {
        if core.totals.stopping && anchor.job_type != JobType::Stop {
            return Err(Refusal::ShuttingDown);
        }
        let plan = transaction::build(&graph, core, anchor)
            .map_err(|refusal| note_refusal(core, anchor, cause, refusal))?;
        for Planned { unit, kind, .. } in plan.jobs {
            let up = core.units.active_state(unit).is_up_or_coming();
            let merged = asked.get(&unit).map_or(Some(kind), |other| kind.merge(*other, up));
            let conflict = || Refusal::JobsConflict(graph.name(unit).clone());
            asked.insert(unit, merged.ok_or_else(conflict)?);
        }
    }
    // What is down already needs no stop, and would be started all the same.
    let starts = |unit| matches!(asked.get(&unit), Some(JobKind::Start | JobKind::Restart));
    let started = asked.keys().copied().filter(|&unit| starts(unit));
    let rivals = |unit| graph.related(unit, Relation::Conflicts);
    if let Some(rival) = started.flat_map(rivals).find(|&rival| starts(rival)) {
        return Err(Refusal::JobsConflict(graph.name(rival).clone()));
    }
    let mut made = Vec::with_capacity(anchors.len());
    for &anchor in anchors {
        match enqueue(core, anchor, cause)? {
            Reply::Job { job, unit, kind, .. } => made.push((job, unit, kind)),
            other => unreachable!("an enqueued anchor is a job, not {other:?}"),
        }
    }
    Ok(made)
}

/// Who asks later why the unit is down is told that its start was refused, when and why. Its
/// reason becomes that of the refusal, unless the unit has failed or its own file says enough.
pub(crate) fn note_refusal(
    core: &mut Core,
    anchor: Anchor,
    cause: Cause,
    refusal: Refusal,
) -> Refusal {
    let unit = anchor.unit;
    let state = core.units.active_state(unit);
    let starts = matches!(anchor.job_type.collapse(state), JobKind::Start | JobKind::Restart);
    // Names of nothing are asked for in any number.
    let is_there = core.graph.get(unit).is_some_and(|d| d.load_state != LoadState::NotFound);
    if !starts || !is_there {
        return refusal;
    }
    let text = refusal.to_string();
    core.units.history_mut(unit).refusal =
        Some(Box::new(remarks::remark(core.times.now, cause, &text)));
    let other = refusal.unit().and_then(|name| core.graph.lookup(name));
    let reason = match other {
        Some(other) if other != unit => Reason::new(Code::LeftOut, Cause::Dependency(other)),
        _ => Reason::new(refusal.code(), cause),
    };
    if state != ActiveState::Inactive || !reason.code.is_refusal() {
        return refusal;
    }
    let had = std::mem::replace(&mut core.units.history_mut(unit).reason, reason);
    if had.code != reason.code {
        core.outbox.tell(Notice::Log { unit, reason, detail: text });
    }
    refusal
}

/// The same, for jobs that nobody waits for: a refusal is only logged.
pub(crate) fn enqueue_quietly(
    core: &mut Core,
    unit: UnitId,
    job_type: JobType,
    mode: JobMode,
    cause: Cause,
) -> bool {
    match enqueue(core, Anchor { unit, job_type, mode }, cause) {
        Ok(_) => true,
        Err(refusal) => {
            let history = core.units.run(unit).history.as_ref();
            let told = history.is_some_and(|h| h.reason.code.is_refusal());
            if !told {
                let reason = Reason::new(refusal.code(), cause);
                core.outbox.tell(Notice::Log { unit, reason, detail: refusal.to_string() });
            }
            false
        }
    }
}

/// The same with a reason of its own, which the job has from then on.
pub(crate) fn enqueue_because(
    core: &mut Core,
    unit: UnitId,
    job_type: JobType,
    mode: JobMode,
    reason: Reason,
) -> bool {
    let is_asked_for = enqueue_quietly(core, unit, job_type, mode, reason.cause);
    if is_asked_for && let Some(job) = core.units.run_mut(unit).job.as_mut() {
        job.reason = reason;
    }
    is_asked_for
}

fn install(core: &mut Core, plan: Plan, anchor: Anchor, cause: Cause) -> Reply {
    let mut out_of_turn = Vec::new();
    for circle in plan.circles {
        let Circle { units, at, is_kept } = circle;
        match is_kept {
            true => out_of_turn.push(at),
            false => note_circle(&core.graph, &mut core.units, core.times.now, at, &units, cause),
        }
        core.outbox.tell(Notice::CycleBroken { units, at, is_kept });
    }
    plan.left_out.into_iter().for_each(|left_out| note_left_out(core, left_out));
    for unit in plan.cancelled {
        ends::finish_job(core, unit, JobResult::Canceled, Reason::new(Code::Canceled, cause));
    }
    let mut made = Vec::with_capacity(plan.jobs.len());
    for planned in &plan.jobs {
        let reason = reason_of(&core.graph, planned, anchor, cause);
        let (unit, job) = (planned.unit, install_one(core, planned, anchor.mode, reason));
        let installed = core.units.run(unit).job.as_ref().filter(|installed| installed.id == job);
        made.push((job, unit, installed.map_or(planned.kind, |installed| installed.kind)));
    }
    out_of_turn.into_iter().for_each(|unit| waits::let_out_of_turn(core, unit));
    let (job, unit, kind) = made.remove(0);
    Reply::Job { job, unit, kind, affected: made }
}

/// A unit that was wanted stays down, as its start would wait for itself: it tells the circle, which
/// the log is told, too.
pub(crate) fn note_circle(
    graph: &Graph,
    units: &mut Units,
    now: Moment,
    unit: UnitId,
    circle: &[UnitId],
    cause: Cause,
) {
    if units.active_state(unit) != ActiveState::Inactive || units.run(unit).job.is_some() {
        return;
    }
    let names = circle.iter().map(|&unit| graph.name(unit).clone()).collect();
    let refusal = Box::new(remarks::remark(now, cause, &Refusal::Cycle(names).to_string()));
    let history = units.history_mut(unit);
    history.reason = Reason::new(Code::Circle, cause);
    history.refusal = Some(refusal);
}

/// A unit that was wanted stays down because of another: it and the log tell why.
fn note_left_out(core: &mut Core, left_out: LeftOut) {
    let LeftOut { unit, for_want_of, refusal } = left_out;
    let cause = Cause::Dependency(for_want_of);
    if core.units.active_state(unit).is_down() {
        state_change::note(core, unit, Code::LeftOut, cause, refusal.to_string());
    }
}

/// Installs one job, merged with or in place of the one that is there.
fn install_one(core: &mut Core, planned: &Planned, mode: JobMode, reason: Reason) -> JobId {
    let (unit, kind) = (planned.unit, planned.kind);
    let was_refused = core.units.run(unit).history.as_ref().is_some_and(|h| h.refusal.is_some());
    if was_refused && matches!(kind, JobKind::Start | JobKind::Restart) {
        core.units.history_mut(unit).refusal = None;
    }
    if let Some(old) = core.units.run(unit).job.clone() {
        if kind == JobKind::Nop {
            return pass(core, unit);
        }
        let up = core.units.active_state(unit).is_up_or_coming();
        let merged = kind.merge(old.kind, up);
        let starts = |kind| matches!(kind, JobKind::Start | JobKind::VerifyActive);
        if merged == Some(JobKind::Reload) && (starts(kind) || starts(old.kind)) {
            core.jobs.starting_reloads.insert(old.id);
        }
        match merged {
            // What a reload that is under way has read may have changed since.
            Some(merged) if merged == old.kind && !(old.running && kind == JobKind::Reload) => {
                return strengthen(core, unit, mode);
            }
            Some(merged) => {
                turn_into(core, unit, merged, reason);
                return strengthen(core, unit, mode);
            }
            // It was to end with a unit of `RestartOn=`, and to come back: now it is restarted.
            None if is_owed_to_rule(&old) && kind == JobKind::Start => {
                turn_into(core, unit, JobKind::Restart, old.reason);
                return strengthen(core, unit, mode);
            }
            None => {}
        }
        ends::finish_job(
            core,
            unit,
            JobResult::Canceled,
            Reason::new(Code::Canceled, reason.cause),
        );
    }
    install_new(core, unit, kind, mode, reason)
}

/// A job that has nothing to do beside the one that is there: whoever asked for it does not wait for that.
/// It is over when he has heard of it.
fn pass(core: &mut Core, unit: UnitId) -> JobId {
    let job = core.ids.new_job();
    core.totals.jobs_ever = core.totals.jobs_ever.wrapping_add(1);
    core.outbox.tell(Notice::JobNew { job, unit });
    core.queues.passing.push((job, unit));
    job
}

/// The job is to do what another one asks for, too: whoever waits for it waits for both. If it is
/// under way it is begun anew, in its turn, which a recording has as another.
fn turn_into(core: &mut Core, unit: UnitId, kind: JobKind, reason: Reason) {
    ends::drop_check(core, unit);
    let (timeout, now) = (job_timeout(core, unit), core.times.now.monotonic);
    let old = core.units.run(unit).job.as_deref().filter(|job| job.running);
    let old = old.map(|job| (job.id, job.kind));
    let was_running = old.is_some();
    core.jobs.running -= u32::from(was_running);
    if let Some((job, was)) = old {
        let (result, ended) = (JobResult::Canceled, Reason::new(Code::Canceled, reason.cause));
        core.outbox.happened(
            core.times.now.monotonic,
            unit,
            What::JobEnded { job, kind: was, result, reason: ended },
        );
        core.outbox.happened(core.times.now.monotonic, unit, What::JobQueued { job, kind, reason });
    }
    let is_down = core.units.active_state(unit).is_down();
    waits::change_job(core, unit, |job| {
        job.kind = kind;
        if std::mem::take(&mut job.running) {
            (job.reason, job.released_by) = (reason, None);
            // What its unit left for it when it went down stays for it.
            job.since = if is_down { job.since } else { now };
            job.deadline = timeout.map(|timeout| now.after(timeout));
        }
    });
    slice_limits::release_if_idle(core, unit);
    // It had its turn before those that wait for it now.
    if was_running && waits::waits_for_itself(&core.graph, &core.units, unit) {
        waits::change_job(core, unit, |job| _ = job.ignores.add(Ignores::ORDER));
    }
    // Nor was it planned with those that come to wait for it when their restarts are halfway.
    core.jobs.circles_possible |= was_running;
    core.queues.queue_job(&core.units, unit);
    // Who waited for what it was to do may wait for nothing now.
    dependency_groups::look_at_group_waiters(core, unit);
}

/// `JobTimeoutSec=`
fn job_timeout(core: &mut Core, unit: UnitId) -> Option<std::time::Duration> {
    let has_settings = core.graph.flags(unit).has_job_settings();
    has_settings.then(|| unit_settings::compiled(core, unit).section.job_timeout).flatten()
}

pub(crate) fn strengthen(core: &mut Core, unit: UnitId, mode: JobMode) -> JobId {
    let job = core.units.run_mut(unit).job.as_mut().expect("the caller saw it");
    job.irreversible |= mode == JobMode::ReplaceIrreversibly;
    let id = job.id;
    let mut ignores = job.ignores;
    if ignores.add(Ignores::of(mode)) {
        waits::change_job(core, unit, |job| job.ignores = ignores);
        core.queues.queue_job(&core.units, unit);
    }
    id
}

pub(crate) fn install_new(
    core: &mut Core,
    unit: UnitId,
    kind: JobKind,
    mode: JobMode,
    reason: Reason,
) -> JobId {
    let id = core.ids.new_job();
    let timeout = job_timeout(core, unit);
    let now = core.times.now.monotonic;
    let job = Job {
        id,
        unit,
        kind,
        running: false,
        irreversible: mode == JobMode::ReplaceIrreversibly,
        ignores: Ignores::of(mode),
        blockers: 0,
        released_by: None,
        since: now,
        deadline: timeout.map(|timeout| now.after(timeout)),
        reason,
    };
    core.units.run_mut(unit).job = Some(Part::new(job));
    waits::link_job(core, unit);
    core.totals.jobs += 1;
    core.totals.jobs_ever = core.totals.jobs_ever.wrapping_add(1);
    core.outbox.tell(Notice::JobNew { job: id, unit });
    core.outbox.happened(core.times.now.monotonic, unit, What::JobQueued { job: id, kind, reason });
    core.queues.queue_job(&core.units, unit);
    id
}

/// Whether a job is a stop by `RestartOn=` whose turn has not come.
fn is_owed_to_rule(job: &Job) -> bool {
    job.kind == JobKind::Stop && !job.running && job.reason.code == Code::DependencyEnded
}

fn reason_of(graph: &Graph, planned: &Planned, anchor: Anchor, cause: Cause) -> Reason {
    if planned.unit == anchor.unit {
        return Reason::new(code_of_anchor(planned.kind, cause), cause);
    }
    let by_rule = |puller: UnitId| {
        let mut rules = STOPPED_WITH.iter();
        rules.any(|&rule| graph.is_related(puller, rule, planned.unit))
    };
    let code = match (planned.kind, planned.by_conflict, planned.pulled_by) {
        (JobKind::Stop, true, _) => Code::StoppedByConflict,
        (JobKind::Stop, false, Some(puller)) if by_rule(puller) => Code::DependencyEnded,
        (JobKind::Stop, false, None) => Code::Isolated,
        (JobKind::Stop, false, Some(_)) => Code::StoppedWithDependency,
        _ => Code::Started,
    };
    let puller = planned.pulled_by.unwrap_or(anchor.unit);
    Reason::new(code, Cause::Dependency(puller))
}

/// What is asked for is a start or a stop, unless the cause says more.
fn code_of_anchor(kind: JobKind, cause: Cause) -> Code {
    match (kind, cause) {
        // An automount point asks for it when nobody has used the mount for a while.
        (JobKind::Stop, Cause::Trigger(_)) => Code::Expired,
        (JobKind::Stop, _) => Code::Stopped,
        (_, Cause::Trigger(_)) => Code::Triggered,
        (_, Cause::Restart) => Code::Restarted,
        _ => Code::Started,
    }
}

/// Makes a job that a standing relation asks for. If it may not disturb jobs that are there,
/// it is tried again when jobs have ended.
pub(crate) fn enqueue_for(core: &mut Core, anchor: Anchor, reason: Reason) {
    let unit = anchor.unit;
    match enqueue(core, anchor, reason.cause) {
        Ok(_) => {
            core.queues.stands_off.remove(&unit);
            if let Some(job) = core.units.run_mut(unit).job.as_mut() {
                job.reason = reason;
            }
        }
        Err(refusal) => {
            let again = matches!(refusal, Refusal::Destructive { .. });
            if !again || core.queues.stands_off.insert(unit) {
                let reason = Reason::new(refusal.code(), reason.cause);
                core.outbox.tell(Notice::Log { unit, reason, detail: refusal.to_string() });
            }
        }
    }
}
