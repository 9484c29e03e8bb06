//! Scopes: groups of processes that other programs started (systemd.scope(5)).
//!
//! A scope is made with the processes that it is to hold. It is down as soon as it has none, and it is ended by its
//! controller, where it has one, or by signals to all of its processes.

use crate::features::runtime_limit;
use crate::graph::Graph;
use crate::model::ids::{EffectId, UnitId};
use crate::model::part::Part;
use crate::model::process::Outcome;
use crate::model::reason::{Cause, Code};
use crate::model::state::{Scope, ScopePhase, ScopeRun, TypeState};
use crate::model::time::Monotonic;
use crate::parts::units::Units;
use crate::parts::{Core, unit_settings};
use crate::protocol::event::{Done, Effect, FollowUp, KillTarget};
use crate::protocol::request::{Notice, Refusal, Reply};
use crate::state_change;
use crate::types::service::stop::KILL_WAIT_MAX;
use warren_unit::Signal;
use warren_unit::config::{KillMode, OomPolicy, ScopeConfig};

/// Has the next start of a scope take in these processes.
pub(crate) fn await_processes(
    core: &mut Core,
    unit: UnitId,
    pids: Box<[u32]>,
) -> Result<(), Refusal> {
    let run = core.units.run(unit);
    let name = || core.graph.name(unit).clone();
    match &run.state {
        TypeState::Scope(_) if !run.active_state().is_down() || run.job.is_some() => {
            return Err(Refusal::ScopeExists(name()));
        }
        TypeState::Scope(Scope::Perpetual) => return Err(Refusal::ScopeExists(name())),
        TypeState::Scope(_) => {}
        _ => return Err(Refusal::NotApplicable(name())),
    }
    set(core, unit, Scope::Awaiting(pids));
    Ok(())
}

/// The start that was to take processes in is not to be.
pub(crate) fn give_up_processes(core: &mut Core, unit: UnitId) {
    if matches!(core.units.run(unit).state, TypeState::Scope(Scope::Awaiting(_))) {
        set(core, unit, Scope::Dead);
    }
}

/// Without processes there is nothing to start.
pub(crate) fn refused_to_start(core: &mut Core, unit: UnitId) -> bool {
    if matches!(core.units.run(unit).state, TypeState::Scope(Scope::Awaiting(_))) {
        return false;
    }
    let detail = "a scope is started with the processes that it holds".to_owned();
    state_change::refuse_to_start(core, unit, Code::Resources, detail);
    true
}

pub(crate) fn start(core: &mut Core, unit: UnitId) {
    let TypeState::Scope(Scope::Awaiting(pids)) = core.units.run(unit).state.clone() else {
        return;
    };
    let history = core.units.history_mut(unit);
    history.outcome = Outcome::Success;
    history.status_text = String::new();
    history.begin_account();
    history.has_cgroup = true;
    let run = ScopeRun {
        phase: ScopePhase::Starting,
        pids,
        asked: None,
        deadline: None,
        runtime_deadline: None,
        outcome: Outcome::Success,
        group_empty: false,
        abandoned: false,
    };
    set(core, unit, Scope::Up(Part::new(run)));
    attach(core, unit);
}

/// Has the processes moved into the group.
fn attach(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let id = core.outbox.new_effect(unit);
    let run = core.units.scope_mut(unit);
    run.asked = Some(id);
    let pids = run.pids.clone();
    core.outbox.effects.push(Effect::AttachProcesses { id, unit, pids, settings });
}

/// Whether the processes could be moved into its group.
pub(crate) fn done(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    if core.units.scope(unit).is_none_or(|run| run.asked != Some(effect)) {
        return;
    }
    let run = core.units.scope_mut(unit);
    run.asked = None;
    run.pids = Box::default();
    let (phase, is_empty) = (run.phase, run.group_empty);
    match result {
        Done::Failed { error } => {
            core.units.history_mut(unit).status_text.clone_from(&error);
            state_change::note(core, unit, Code::Resources, Cause::Kernel, error);
            set_outcome(&mut core.units, unit, Outcome::Resources);
            enter_dead(core, unit);
        }
        // They have ended since.
        _ if is_empty => enter_dead(core, unit),
        _ if phase == ScopePhase::Starting => enter_running(core, unit),
        // It is to go already, and they came after the signal.
        _ => signal(core, unit, phase),
    }
}

fn enter_running(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let now = core.times.now;
    let deadline = runtime_limit::scope_deadline(&core.units, now, unit, settings.scope());
    core.units.scope_mut(unit).runtime_deadline = deadline;
    set_phase(core, unit, ScopePhase::Running);
}

/// None of its processes is left.
pub(crate) fn group_empty(core: &mut Core, unit: UnitId) {
    match core.units.scope(unit).map(|run| run.asked) {
        Some(Some(_)) => core.units.scope_mut(unit).group_empty = true,
        Some(None) => enter_dead(core, unit),
        None => {}
    }
}

/// The kernel killed a process of it for want of memory (`OOMPolicy=`).
pub(crate) fn out_of_memory(core: &mut Core, unit: UnitId) {
    let Some(phase) = core.units.scope(unit).map(|run| run.phase) else { return };
    let policy = unit_settings::compiled(core, unit).scope().oom_policy;
    if policy == OomPolicy::Continue {
        return;
    }
    state_change::note(core, unit, Code::OomKilled, Cause::Kernel, String::new());
    set_outcome(&mut core.units, unit, Outcome::OomKill);
    match policy {
        _ if !is_up(phase) => {}
        OomPolicy::Kill => enter_signal(core, unit, ScopePhase::StopSigkill),
        _ => enter_signal(core, unit, ScopePhase::StopSigterm),
    }
}

fn is_up(phase: ScopePhase) -> bool {
    matches!(phase, ScopePhase::Starting | ScopePhase::Running | ScopePhase::Abandoned)
}

/// The program that made it looks after it no longer: its end is that of its processes.
pub(crate) fn abandon(core: &mut Core, unit: UnitId) -> Result<Reply, Refusal> {
    match core.units.scope(unit).map(|run| run.phase) {
        Some(ScopePhase::Running | ScopePhase::Abandoned) => {
            core.units.scope_mut(unit).abandoned = true;
            set_phase(core, unit, ScopePhase::Abandoned);
            Ok(Reply::Done)
        }
        _ => Err(Refusal::ScopeNotRunning(core.graph.name(unit).clone())),
    }
}

pub(crate) fn stop(core: &mut Core, unit: UnitId) {
    match core.units.scope(unit).map(|run| run.phase) {
        Some(phase) if is_up(phase) => enter_signal(core, unit, ScopePhase::StopSigterm),
        _ => {}
    }
}

/// An administrator waits no longer. Returns whether something is still waited for.
pub(crate) fn hurry(core: &mut Core, unit: UnitId) -> bool {
    match core.units.scope(unit).map(|run| run.phase) {
        Some(ScopePhase::StopSigkill) => {
            enter_dead(core, unit);
            true
        }
        Some(_) => {
            enter_signal(core, unit, ScopePhase::StopSigkill);
            true
        }
        None => false,
    }
}

/// Enters a phase that ends its processes, or is down if there are none that may be ended.
fn enter_signal(core: &mut Core, unit: UnitId, phase: ScopePhase) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.scope();
    let asks = asks_controller(core, unit, config, phase);
    // None of its processes is the main one.
    let mixed = config.kill.mode == KillMode::Mixed && config.kill.send_sigkill;
    if phase == ScopePhase::StopSigterm && mixed && !asks {
        return enter_signal(core, unit, ScopePhase::StopSigkill);
    }
    if core.resources.without_cgroups || !asks && !kills_group(config, phase) {
        return enter_dead(core, unit);
    }
    let now = core.times.now.monotonic;
    let run = core.units.scope_mut(unit);
    run.runtime_deadline = None;
    run.deadline = match phase {
        ScopePhase::StopSigkill => Some(now.after(KILL_WAIT_MAX)),
        _ => config.timeout_stop.map(|timeout| now.after(timeout)),
    };
    set_phase(core, unit, phase);
    match asks {
        true => core.outbox.tell(Notice::RequestStop(unit)),
        false => signal(core, unit, phase),
    }
}

/// Whether its controller is asked in the place of a signal. One that was abandoned has none.
fn asks_controller(core: &Core, unit: UnitId, config: &ScopeConfig, phase: ScopePhase) -> bool {
    let is_abandoned = core.units.scope(unit).is_some_and(|run| run.abandoned);
    phase == ScopePhase::StopSigterm && config.controller.is_some() && !is_abandoned
}

fn kills_group(config: &ScopeConfig, phase: ScopePhase) -> bool {
    match config.kill.mode {
        KillMode::ControlGroup => true,
        KillMode::Mixed => phase == ScopePhase::StopSigkill,
        KillMode::Process | KillMode::None => false,
    }
}

/// Sends what a phase of the way down sends.
fn signal(core: &mut Core, unit: UnitId, phase: ScopePhase) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.scope();
    let (signal, then) = match phase {
        ScopePhase::StopSigkill if config.kill.final_signal == Signal::KILL => {
            core.outbox.effects.push(Effect::KillGroup { unit });
            return;
        }
        ScopePhase::StopSigkill => (config.kill.final_signal, FollowUp::default()),
        _ => {
            let then = FollowUp { hangup: config.kill.send_sighup, resume: true };
            (config.kill.signal, then)
        }
    };
    let id = core.outbox.new_effect(unit);
    core.outbox.forget_effect(id);
    let (target, signal) = (KillTarget::Group, signal.number());
    core.outbox.effects.push(Effect::Kill { id, unit, target, signal, then });
}

pub(crate) fn deadline(core: &mut Core, unit: UnitId) {
    let now = core.times.now.monotonic;
    let due = |at: Option<Monotonic>| at.is_some_and(|at| at <= now);
    let Some(run) = core.units.scope(unit) else { return };
    let (phase, is_over, runtime) = (run.phase, due(run.deadline), due(run.runtime_deadline));
    if is_over {
        core.units.scope_mut(unit).deadline = None;
        stop_timeout(core, unit, phase);
    } else if runtime {
        core.units.scope_mut(unit).runtime_deadline = None;
        state_change::note(core, unit, Code::RuntimeTimeout, Cause::Manager, String::new());
        set_outcome(&mut core.units, unit, Outcome::Timeout);
        enter_signal(core, unit, ScopePhase::StopSigterm);
    }
}

fn stop_timeout(core: &mut Core, unit: UnitId, phase: ScopePhase) {
    let kills = unit_settings::compiled(core, unit).scope().kill.send_sigkill;
    let (code, cause) = match phase {
        ScopePhase::StopSigkill => (Code::KernelHolds, Cause::Kernel),
        _ if kills => (Code::StopTimeout, Cause::Manager),
        _ => (Code::StopLeft, Cause::Manager),
    };
    state_change::note(core, unit, code, cause, String::new());
    set_outcome(&mut core.units, unit, Outcome::Timeout);
    match phase {
        ScopePhase::StopSigterm if kills => enter_signal(core, unit, ScopePhase::StopSigkill),
        _ => enter_dead(core, unit),
    }
}

fn set_outcome(units: &mut Units, unit: UnitId, outcome: Outcome) {
    let run = units.scope_mut(unit);
    if run.outcome == Outcome::Success {
        run.outcome = outcome;
    }
}

/// A move of processes that is under way counts no more.
fn drop_move(core: &mut Core, unit: UnitId) {
    if let Some(id) = core.units.scope_mut(unit).asked.take() {
        core.outbox.forget_effect(id);
    }
}

/// It has no processes any more, or those that are left are not its own.
fn enter_dead(core: &mut Core, unit: UnitId) {
    drop_move(core, unit);
    let settings = unit_settings::compiled(core, unit);
    let outcome = core.units.scope(unit).map_or(Outcome::Success, |run| run.outcome);
    let history = core.units.history_mut(unit);
    history.outcome = outcome;
    history.has_cgroup = false;
    core.outbox.effects.push(Effect::CleanUp { unit, settings, restarting: false });
    let state = match outcome {
        Outcome::Success => Scope::Dead,
        _ => Scope::Failed(outcome),
    };
    set(core, unit, state);
}

fn set(core: &mut Core, unit: UnitId, scope: Scope) {
    state_change::transit(core, unit, false, |run| run.state = TypeState::Scope(scope));
}

fn set_phase(core: &mut Core, unit: UnitId, phase: ScopePhase) {
    state_change::transit(core, unit, false, |run| {
        if let TypeState::Scope(Scope::Up(scope)) = &mut run.state {
            scope.phase = phase;
        }
    });
}

/// The manager ended while something was under way: it is done again.
pub(crate) fn resume(core: &mut Core, unit: UnitId, run: &ScopeRun) {
    let settings = unit_settings::compiled(core, unit);
    if let Some(id) = run.asked {
        let (pids, settings) = (run.pids.clone(), settings.clone());
        core.outbox.expect_effect(id, unit);
        core.outbox.effects.push(Effect::AttachProcesses { id, unit, pids, settings });
    }
    match run.phase {
        ScopePhase::Starting | ScopePhase::Running | ScopePhase::Abandoned => {}
        phase if asks_controller(core, unit, settings.scope(), phase) => {
            core.outbox.tell(Notice::RequestStop(unit));
        }
        phase => signal(core, unit, phase),
    }
}

/// The scope was edited, and `before` is the generation before that: `RuntimeMaxSec=` holds for what runs too,
/// counted from its start.
pub(crate) fn renew_runtime_limit(core: &mut Core, unit: UnitId, before: &Graph) {
    let runs = |run: &ScopeRun| matches!(run.phase, ScopePhase::Running | ScopePhase::Abandoned);
    if !core.units.scope(unit).is_some_and(runs) {
        return;
    }
    let Some(was) = before.get(unit) else { return };
    let was = core.settings.common.compile_running(was);
    let settings = unit_settings::compiled(core, unit);
    if was.scope().runtime_max == settings.scope().runtime_max {
        return;
    }
    let history = core.units.run(unit).history.as_ref();
    let since = history.map_or(core.times.now, |history| history.active_enter);
    let deadline = runtime_limit::scope_deadline(&core.units, since, unit, settings.scope());
    core.units.scope_mut(unit).runtime_deadline = deadline;
}
