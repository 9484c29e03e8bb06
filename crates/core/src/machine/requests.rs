//! What clients ask for, and what is asked of all units at once.

use crate::features::{cleanup, freezer, remarks, shutdown_state, survival};
use crate::graph::Graph;
use crate::jobs::{ends, install};
use crate::machine::admin_marks;
use crate::model::active_state::ActiveState;
use crate::model::ids::{ClientId, JobId, UnitId};
use crate::model::job::{JobKind, JobMode, JobResult, JobType};
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::{Service, TypeState};
use crate::parts::Core;
use crate::parts::units::Units;
use crate::protocol::event::{Effect, FollowUp, KillTarget};
use crate::protocol::request::{Asker, KillWhom, Notice, Refusal, Reply, Request};
use crate::state_change;
use crate::transaction::Anchor;
use crate::types::service::stop;
use crate::types::{mount, scope, socket};
use warren_unit::Relation;

pub(crate) fn request(core: &mut Core, client: ClientId, asker: Asker, request: Request) {
    let answer = serve(core, client, asker, request);
    if let Some(reply) = answer.unwrap_or_else(|refusal| Some(Reply::Refused(refusal))) {
        core.outbox.effects.push(Effect::Reply { client, reply });
    }
}

/// The answer, or none if it comes later.
fn serve(
    core: &mut Core,
    client: ClientId,
    asker: Asker,
    request: Request,
) -> Result<Option<Reply>, Refusal> {
    let cause = match asker.pid {
        // Every client's process is known; what has none is the manager's own wish.
        0 => Cause::Manager,
        pid => Cause::Request { uid: asker.uid, pid },
    };
    let reply = match request {
        Request::Enqueue { unit, job_type, mode, reload_if_possible } => {
            let anchor = anchor(core, (unit, job_type, mode), reload_if_possible, cause)?;
            install::enqueue(core, anchor, cause)
        }
        Request::EnqueueMany { units, job_type, mode, reload_if_possible } => {
            let mut anchors = Vec::with_capacity(units.len());
            for &unit in &units {
                let asked = (unit, job_type, mode);
                anchors.push(anchor(core, asked, reload_if_possible, cause)?);
            }
            install::enqueue_many(core, &anchors, cause).map(Reply::JobsOf)
        }
        Request::StartScope { unit, mode, pids } => {
            scope::await_processes(core, unit, pids)?;
            let anchor = Anchor { unit, job_type: JobType::Start, mode };
            let answer = install::enqueue(core, anchor, cause);
            if answer.is_err() {
                scope::give_up_processes(core, unit);
            }
            answer
        }
        Request::AbandonScope(unit) => scope::abandon(core, unit),
        Request::CancelJob(_) | Request::ClearJobs if core.totals.stopping => {
            Err(Refusal::ShuttingDown)
        }
        Request::CancelJob(id) => {
            let unit = job_unit(&core.units, id).ok_or(Refusal::NoSuchJob(id))?;
            let kind = core
                .units
                .run(unit)
                .job
                .as_ref()
                .map(|job| ends::asked_of(&core.units, &core.jobs, unit, job));
            let reason = Reason::new(Code::CanceledByUser, cause);
            ends::finish_job(core, unit, JobResult::Canceled, reason);
            kind.into_iter().for_each(|kind| ends::fail_dependents(core, unit, kind));
            Ok(Reply::Done)
        }
        Request::ClearJobs => {
            for unit in core.units.busy() {
                let reason = Reason::new(Code::CanceledByUser, cause);
                ends::finish_job(core, unit, JobResult::Canceled, reason);
            }
            Ok(Reply::Done)
        }
        Request::ResetFailed(Some(unit)) if remarks::is_put_aside(&core.units, unit) => {
            Err(Refusal::Maintenance(core.graph.name(unit).clone()))
        }
        Request::ResetFailed(unit) => {
            let all = || core.units.ids().collect();
            let mut units: Vec<UnitId> = unit.map_or_else(all, |unit| vec![unit]);
            units.retain(|&unit| !remarks::is_put_aside(&core.units, unit));
            units.into_iter().for_each(|unit| admin_marks::reset_failed(core, unit));
            Ok(Reply::Done)
        }
        Request::SetMarkers { unit, change } => {
            if !core.units.active_state(unit).is_down() {
                let history = core.units.history_mut(unit);
                history.markers = change.of(history.markers);
            }
            Ok(Reply::Done)
        }
        Request::EnqueueMarked => enqueue_marked(core, cause),
        Request::Mark { unit, marked, text } => admin_marks::mark(core, unit, marked, &text, cause),
        Request::Clear(unit) => admin_marks::clear(core, unit),
        Request::Comment { unit, text } => {
            remarks::comment(&core.graph, &mut core.units, core.times.now, unit, &text, cause)
        }
        Request::Hurry(unit) => hurry(core, unit, cause),
        Request::Kill { unit, whom, signal } => kill_request(core, unit, whom, signal),
        Request::Freeze { unit, frozen } => {
            return freezer::freeze_request(core, client, unit, frozen);
        }
        Request::Clean { unit, kinds } => return cleanup::clean(core, client, unit, &kinds),
    };
    reply.map(Some)
}

/// The job that a client asks for, unless it may not be asked for by hand.
fn anchor(
    core: &mut Core,
    (unit, job_type, mode): (UnitId, JobType, JobMode),
    reload_if_possible: bool,
    cause: Cause,
) -> Result<Anchor, Refusal> {
    let job_type = reload_or_restart(&core.graph, unit, job_type, reload_if_possible);
    let anchor = Anchor { unit, job_type, mode };
    match check_manual(&core.graph, &core.units, unit, job_type, mode) {
        Err(refusal @ Refusal::OnlyByDependency(..)) => {
            Err(install::note_refusal(core, anchor, cause, refusal))
        }
        other => other.map(|()| anchor),
    }
}

fn job_unit(units: &Units, id: JobId) -> Option<UnitId> {
    units.busy().into_iter().find(|&unit| units.run(unit).job_id() == Some(id))
}

/// `RefuseManualStart=`, `RefuseManualStop=` (systemd.unit(5)).
fn check_manual(
    graph: &Graph,
    units: &Units,
    unit: UnitId,
    job: JobType,
    mode: JobMode,
) -> Result<(), Refusal> {
    let (flags, name) = (graph.flags(unit), || graph.name(unit).clone());
    let restarts = matches!(job, JobType::Restart | JobType::TryRestart);
    // One that is up is reloaded.
    let is_up = units.active_state(unit).is_up_or_coming();
    let starts = restarts || job == JobType::Start || job == JobType::ReloadOrStart && !is_up;
    let stops = restarts || job == JobType::Stop;
    if mode == JobMode::Isolate && job != JobType::Start {
        return Err(Refusal::BadMode("Isolate is only valid for start."));
    }
    if mode == JobMode::Triggering && job != JobType::Stop {
        return Err(Refusal::BadMode("--job-mode=triggering is only valid for stop."));
    }
    if starts && flags.refuse_manual_start() {
        return Err(Refusal::OnlyByDependency(name(), "start"));
    }
    if stops && flags.refuse_manual_stop() {
        return Err(Refusal::OnlyByDependency(name(), "stop"));
    }
    Ok(())
}

/// `reload-or-restart`: a reload where the unit can, else the restart that was asked for.
fn reload_or_restart(graph: &Graph, unit: UnitId, job_type: JobType, wanted: bool) -> JobType {
    if !wanted || !graph.can_reload(unit) {
        return job_type;
    }
    match job_type {
        JobType::Restart => JobType::ReloadOrStart,
        JobType::TryRestart => JobType::TryReload,
        other => other,
    }
}

/// Makes a job for each unit for which somebody has noted that it needs one. Those that are refused are told to the log;
/// if there are no others, the first is the answer.
fn enqueue_marked(core: &mut Core, cause: Cause) -> Result<Reply, Refusal> {
    let markers = |core: &Core, unit| {
        core.units.run(unit).history.as_ref().map(|history| history.markers).unwrap_or_default()
    };
    let marked: Vec<UnitId> =
        core.units.ids().filter(|&unit| !markers(core, unit).is_empty()).collect();
    let (mut jobs, mut refused) = (Vec::new(), None);
    for unit in marked {
        // A job before it may have ended this one's need.
        let restart = match markers(core, unit) {
            needed if needed.is_empty() => continue,
            needed => needed.restart,
        };
        let job_type = reload_or_restart(&core.graph, unit, JobType::TryRestart, !restart);
        let anchor = Anchor { unit, job_type, mode: JobMode::Fail };
        match install::enqueue(core, anchor, cause) {
            Ok(Reply::Job { job, .. }) => jobs.push(job),
            Ok(_) => {}
            Err(refusal) => {
                let (reason, detail) = (Reason::new(refusal.code(), cause), refusal.to_string());
                core.outbox.tell(Notice::Log { unit, reason, detail });
                refused.get_or_insert(refusal);
            }
        }
    }
    match refused.filter(|_| jobs.is_empty()) {
        Some(refusal) => Err(refusal),
        None => Ok(Reply::Jobs(jobs)),
    }
}

fn kill_request(
    core: &mut Core,
    unit: UnitId,
    whom: KillWhom,
    signal: i32,
) -> Result<Reply, Refusal> {
    if !(1..=64).contains(&signal) {
        return Err(Refusal::BadSignal(signal));
    }
    let name = || Refusal::NoSuchProcess(core.graph.name(unit).clone());
    let run = core.units.run(unit);
    let target = match whom {
        KillWhom::Main => KillTarget::Process(run.main_process().ok_or_else(name)?.pid),
        KillWhom::Control => KillTarget::Process(run.control_pid().ok_or_else(name)?),
        KillWhom::All => KillTarget::Group,
    };
    let id = core.outbox.new_effect(unit);
    core.outbox.forget_effect(id);
    let then = FollowUp::default();
    core.outbox.effects.push(Effect::Kill { id, unit, target, signal, then });
    Ok(Reply::Done)
}

fn hurry(core: &mut Core, unit: UnitId, cause: Cause) -> Result<Reply, Refusal> {
    if !shutdown_state::may_be_hurried(core, unit) {
        return Err(Refusal::NotStopping(core.graph.name(unit).clone()));
    }
    state_change::note(core, unit, Code::Hurried, cause, String::new());
    let goes_on_by_itself = match core.units.run(unit).state {
        TypeState::Service(Service::Up(_)) => {
            stop::hurry_service(core, unit);
            false
        }
        TypeState::Socket(_) => !socket::hurry(core, unit),
        TypeState::Scope(_) => !scope::hurry(core, unit),
        TypeState::Mount(_) | TypeState::Swap(_) => {
            mount::hurry(core, unit);
            true
        }
        _ => true,
    };
    if goes_on_by_itself {
        // Nobody waits for it any more.
        ends::finish_job(core, unit, JobResult::Canceled, Reason::new(Code::Hurried, cause));
    }
    Ok(Reply::Done)
}

/// The last transaction: a stop job for every unit that is up or on its way, in place of
/// whatever job it has. What the kernel had before the manager came is left alone, and so is
/// what outlasts the end. Stops that are there, as those of an end that this one overtakes or that
/// files describe, go on.
pub(crate) fn stop_everything(core: &mut Core, soft: bool) {
    core.totals.stopping = true;
    core.outbox.given_up = false;
    let reason = Reason::new(Code::ManagerExit, Cause::Manager);
    for unit in core.units.busy() {
        match has_stop_job(&core.units, unit) {
            true => keep_stop(core, unit),
            false => ends::finish_job(core, unit, JobResult::Canceled, reason),
        }
    }
    let outlasting = survival::outlasting(core, soft);
    for unit in core.units.busy() {
        let stays = is_left_alone(&core.graph, &core.units, unit)
            || has_stop_job(&core.units, unit)
            || core.graph.is_device(unit)
            || outlasting.contains(&unit);
        if !core.graph.flags(unit).perpetual() && !stays {
            let mode = stopping_mode(&core.units, unit);
            install::install_new(core, unit, JobKind::Stop, mode, reason);
        }
    }
    core.jobs.circles_unchecked = true;
}

/// Its stop is from now on one of the end's.
fn keep_stop(core: &mut Core, unit: UnitId) {
    let mode = stopping_mode(&core.units, unit);
    install::strengthen(core, unit, mode);
    core.queues.queue_job(&core.units, unit);
}

fn has_stop_job(units: &Units, unit: UnitId) -> bool {
    units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Stop)
}

/// What somebody else mounted is unmounted only if it would be by `umount.target`.
fn is_left_alone(graph: &Graph, units: &Units, unit: UnitId) -> bool {
    let history = units.run(unit).history.as_ref();
    let found = history.is_some_and(|h| h.reason.code == Code::Discovered);
    let mut conflicts = graph.related(unit, Relation::Conflicts);
    found && !conflicts.any(|other| graph.name(other).as_str() == "umount.target")
}

/// The end without stops: all jobs are over, no `Restart=` brings anything back, and no command of a
/// stop begins beside who is killed.
pub(crate) fn give_up(core: &mut Core) {
    core.totals.stopping = true;
    core.outbox.given_up = true;
    let reason = Reason::new(Code::ManagerExit, Cause::Manager);
    for unit in core.units.busy() {
        ends::finish_job(core, unit, JobResult::Canceled, reason);
    }
}

/// A start is not waited for: who is ordered after it did not get what it promised.
fn stopping_mode(units: &Units, unit: UnitId) -> JobMode {
    match units.active_state(unit) {
        ActiveState::Activating => JobMode::IgnoreDependencies,
        _ => JobMode::ReplaceIrreversibly,
    }
}
