//! What all types share at their start, stop and reload: conditions, limits, and which type it is.
//!
//! Must not: hold what only one type does.

use crate::features::{cleanup, device_sight, dynamic_user, ipc, start_limit};
use crate::graph::Graph;
use crate::jobs::{dependency_groups, ends, halves};
use crate::model::active_state::ActiveState;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::JobResult;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::parts::job_queue::Turn;
use crate::parts::units::Units;
use crate::parts::{Core, unit_settings};
use crate::protocol::event::{Done, Effect, NamesFound, Verdict};
use crate::protocol::request::Notice;
use crate::state_change;
use crate::types::service::stop;
use crate::types::{automount, mount, path, scope, service, simple, socket, timer};
use crate::view::Totals;
use warren_unit::{UnitFlags, UnitType};

fn refuse_start_limit(core: &mut Core, unit: UnitId, reason: Reason) -> Turn {
    state_change::note(core, unit, Code::StartLimit, reason.cause, String::new());
    // What ended it before says more than that it was not tried again; as systemd has it.
    let history = core.units.history_mut(unit);
    if history.outcome == Outcome::Success {
        history.outcome = Outcome::StartLimitHit;
    }
    let outcome = history.outcome;
    state_change::transit(core, unit, false, |run| match &mut run.state {
        TypeState::Service(state) => *state = Service::Failed(outcome),
        TypeState::Socket(state) => *state = Socket::Failed(outcome),
        TypeState::Mount(state) | TypeState::Swap(state) => *state = Mount::Failed(outcome),
        TypeState::Automount(state) => *state = Automount::Failed(outcome),
        TypeState::Timer(state) => *state = Timer::Failed(outcome),
        TypeState::Path(state) => *state = Path::Failed(outcome),
        TypeState::Scope(state) => *state = Scope::Failed(outcome),
        _ => {}
    });
    if core.graph.flags(unit).has_job_settings() {
        let section = unit_settings::compiled(core, unit).section.clone();
        let action = ("StartLimitAction", section.start_limit_action);
        core.outbox.limit_emergency(action, unit, &section.reboot_argument);
    }
    Turn::Over(JobResult::Failed, Reason::new(Code::StartLimit, reason.cause))
}

/// Begins to start a unit that is down: conditions first, then the start limit.
pub(crate) fn start_unit(core: &mut Core, unit: UnitId, reason: Reason) -> Turn {
    if !can_run(&core.units, &core.totals, unit) {
        return Turn::Over(JobResult::Unsupported, Reason::new(Code::NotSupported, reason.cause));
    }
    if core.graph.is_device(unit) {
        return await_device(core, unit, reason);
    }
    let invocation = core.ids.new_invocation();
    let history = core.units.history_mut(unit);
    history.invocation = invocation;
    history.reason = reason;
    if core.graph.flags(unit).contains(UnitFlags::HAS_CONDITIONS) {
        ask_conditions(core, unit);
        return Turn::Begun;
    }
    start_checked(core, unit)
}

fn can_run(units: &Units, totals: &Totals, unit: UnitId) -> bool {
    match units.run(unit).state {
        TypeState::Unsupported | TypeState::Scope(Scope::Perpetual) => false,
        TypeState::Swap(_) => !totals.without_swaps,
        _ => true,
    }
}

/// A device is not started: its job waits until it is there.
fn await_device(core: &mut Core, unit: UnitId, reason: Reason) -> Turn {
    match device_sight::is_unseen(core, unit) {
        true => Turn::Over(JobResult::Unsupported, Reason::new(Code::NoDevices, reason.cause)),
        false => {
            core.units.history_mut(unit).reason = Reason::new(Code::AwaitsDevice, reason.cause);
            Turn::Begun
        }
    }
}

/// Starts a unit whose conditions hold. What a condition skips does not count as a start.
fn start_checked(core: &mut Core, unit: UnitId) -> Turn {
    if start_limit::count_start(core, unit) {
        let reason = core.units.run(unit).history.as_ref().map_or(Reason::default(), |h| h.reason);
        return refuse_start_limit(core, unit, reason);
    }
    let is_refused = match core.graph.definition(unit).unit_type() {
        UnitType::Socket => socket::refused_to_start(core, unit),
        UnitType::Automount => automount::refused_to_start(core, unit),
        UnitType::Timer => timer::refused_to_start(core, unit),
        UnitType::Path => path::refused_to_start(core, unit),
        UnitType::Scope => scope::refused_to_start(core, unit),
        _ => false,
    };
    if is_refused {
        let why = core.units.run(unit).history.as_ref().map(|h| h.reason).unwrap_or_default();
        return Turn::Over(JobResult::Failed, why);
    }
    let history = core.units.history_mut(unit);
    if history.reason.cause != Cause::Restart {
        history.restarts = 0;
        history.relapse = None;
    }
    if dynamic_user::look_up(core, unit) {
        return Turn::Begun;
    }
    start_named(core, unit)
}

/// Starts a unit of which is known who it runs as.
fn start_named(core: &mut Core, unit: UnitId) -> Turn {
    ipc::begin(core, unit);
    match core.graph.definition(unit).unit_type() {
        UnitType::Service => service::start(core, unit),
        UnitType::Socket => socket::start(core, unit),
        UnitType::Mount | UnitType::Swap => mount::start(core, unit),
        UnitType::Automount => automount::start(core, unit),
        UnitType::Timer => timer::start(core, unit),
        UnitType::Path => path::start(core, unit),
        UnitType::Scope => scope::start(core, unit),
        UnitType::Slice => simple::slice_start(core, unit),
        UnitType::Target => simple::target_start(core, unit),
        _ => {}
    }
    let reason = core.units.run(unit).history.as_ref().map_or(Reason::default(), |h| h.reason);
    match core.units.active_state(unit) {
        s if s.is_up() => Turn::Over(JobResult::Done, reason),
        ActiveState::Failed => Turn::Over(JobResult::Failed, reason),
        _ => Turn::Begun,
    }
}

fn ask_conditions(core: &mut Core, unit: UnitId) {
    let id = core.outbox.new_effect(unit);
    let section = unit_settings::compiled(core, unit).section.clone();
    core.units.history_mut(unit).checking = Some(id);
    core.outbox.effects.push(Effect::CheckConditions { id, unit, section });
}

/// Serves the answer to a check of conditions; returns whether it was one.
pub(crate) fn conditions_done(
    core: &mut Core,
    unit: UnitId,
    effect: EffectId,
    result: &Done,
) -> bool {
    if core.units.run(unit).history.as_ref().and_then(|h| h.checking) != Some(effect) {
        return false;
    }
    let now = core.times.now;
    core.units.history_mut(unit).checking = None;
    if let Done::Names(found) = result {
        names_done(core, unit, found);
        return true;
    }
    let (conditions, asserts) = match result {
        Done::Conditions { conditions, asserts } => {
            keep_verdicts(&mut core.units, unit, conditions, asserts);
            (conditions.holds, asserts.holds)
        }
        _ => (false, true),
    };
    let history = core.units.history_mut(unit);
    history.conditions = Some((now, conditions));
    if conditions {
        history.asserts = Some((now, asserts));
    }
    history.skipped &= !conditions;
    let Some(job) = core.units.run(unit).job.as_ref() else { return true };
    let cause = job.reason.cause;
    if !conditions {
        // Units that are skipped at every start of something else are told of once.
        let again = core.units.run(unit).history.as_ref().is_some_and(|h| h.skipped);
        core.units.history_mut(unit).skipped = true;
        let reason = Reason::new(Code::ConditionFailed, cause);
        core.units.history_mut(unit).reason = reason;
        if !again {
            core.outbox.tell(Notice::Log { unit, reason, detail: String::new() });
        }
        ends::finish_job(core, unit, JobResult::Done, Reason::new(Code::ConditionFailed, cause));
    } else if !asserts {
        state_change::note(core, unit, Code::AssertFailed, cause, String::new());
        ends::finish_job(core, unit, JobResult::Assert, Reason::new(Code::AssertFailed, cause));
    } else if cleanup::waits_for_clearing(core, unit) {
        halves::wait_again(core, unit);
    } else {
        go_on(core, unit, start_checked);
    }
    true
}

/// Goes on with a start when it is known which names the user database has.
fn names_done(core: &mut Core, unit: UnitId, found: &NamesFound) {
    if core.units.run(unit).job.is_none() {
        return dynamic_user::release_if_over(core, unit);
    }
    if dynamic_user::found(core, unit, found) {
        go_on(core, unit, start_named);
    }
}

/// Goes on with a start that waited for an answer. Units that it needs one of may have gone meanwhile.
fn go_on(core: &mut Core, unit: UnitId, start: fn(&mut Core, UnitId) -> Turn) {
    let turn = match dependency_groups::groups_against(core, unit) {
        Some(turn) => turn,
        None => start(core, unit),
    };
    match turn {
        Turn::Over(result, reason) => ends::finish_job(core, unit, result, reason),
        Turn::Wait => {
            dynamic_user::release_if_over(core, unit);
            halves::wait_again(core, unit);
        }
        Turn::Begun => {}
    }
}

/// Which conditions and assertions were not met, for those who ask. Where all are, nothing is
/// kept.
fn keep_verdicts(units: &mut Units, unit: UnitId, conditions: &Verdict, asserts: &Verdict) {
    let kept = |verdict: &Verdict| match verdict.each.iter().all(|&one| one == Tested::Met) {
        true => Box::default(),
        false => verdict.each.clone(),
    };
    // Assertions are not looked at where conditions do not hold.
    let asserts = if conditions.holds { kept(asserts) } else { Box::default() };
    let account = units.history_mut(unit).account_mut();
    (account.conditions, account.asserts) = (kept(conditions), asserts);
    units.history_mut(unit).drop_empty_account();
}

/// What came of conditions and assertions says nothing of those that an edit has put in their place: these were
/// not looked at, as systemd 252 has it.
pub(crate) fn forget_tests_of_others(core: &mut Core, unit: UnitId, before: &Graph) {
    let account =
        core.units.run(unit).history.as_ref().and_then(|history| history.account.as_ref());
    let is_told = account.is_some_and(|a| !a.conditions.is_empty() || !a.asserts.is_empty());
    let Some(was) = before.get(unit).filter(|_| is_told) else { return };
    let (was, is) = (core.settings.common.compile(was), unit_settings::compiled(core, unit));
    let (was, is) = (&was.section, &is.section);
    let account = core.units.history_mut(unit).account_mut();
    for (was, is, tested) in [
        (&was.conditions, &is.conditions, &mut account.conditions),
        (&was.asserts, &is.asserts, &mut account.asserts),
    ] {
        if !tested.is_empty() && was != is {
            *tested = vec![Tested::Untested; is.len()].into();
        }
    }
    core.units.history_mut(unit).drop_empty_account();
}

/// Begins to stop a unit that is up or coming.
pub(crate) fn stop_unit(core: &mut Core, unit: UnitId, reason: Reason) {
    core.units.history_mut(unit).reason = reason;
    if let Some(id) = core.units.run_mut(unit).history.as_mut().and_then(|h| h.checking.take()) {
        core.outbox.forget_effect(id);
    }
    match core.graph.definition(unit).unit_type() {
        UnitType::Service => stop::service_stop(core, unit),
        UnitType::Socket => socket::stop(core, unit),
        UnitType::Mount | UnitType::Swap => mount::stop(core, unit),
        UnitType::Automount => automount::stop(core, unit),
        UnitType::Timer => timer::stop(core, unit),
        UnitType::Path => path::stop(core, unit),
        UnitType::Scope => scope::stop(core, unit),
        UnitType::Slice => simple::slice_stop(core, unit),
        UnitType::Target => {
            state_change::transit(core, unit, false, |run| run.state = TypeState::Target(false))
        }
        _ => {}
    }
}

/// Begins to reload a unit that is active.
pub(crate) fn reload_unit(core: &mut Core, unit: UnitId, reason: Reason) -> Turn {
    match core.graph.definition(unit).unit_type() {
        UnitType::Service => service::reload(core, unit),
        UnitType::Mount if !mount::reload(core, unit) => {
            let reason = Reason::new(Code::ReloadFailed, reason.cause);
            return Turn::Over(JobResult::Failed, reason);
        }
        // Others only pass it on.
        _ => {}
    }
    match core.units.active_state(unit) {
        ActiveState::Active => Turn::Over(JobResult::Done, reason),
        _ => Turn::Begun,
    }
}
