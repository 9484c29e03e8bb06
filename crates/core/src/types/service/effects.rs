//! Answers to what a service asked for: spawns, searches, signals, freezing, removals.
//!
//! Start at [`done`].

use crate::features::{cleanup, dynamic_user, freezer};
use crate::model::ids::{EffectId, UnitId};
use crate::model::process::*;
use crate::model::state::*;
use crate::parts::{Core, unit_settings};
use crate::protocol::event::Done;
use crate::protocol::request::{Refusal, Reply};
use crate::relations::held_stops;
use crate::types::service::{self, events, stop};

pub(crate) fn done(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    if freezer_done(core, unit, effect, &result) || clearing_done(core, unit, effect, &result) {
        return;
    }
    let Some(run) = core.units.service(unit) else { return };
    let signalled = Some(run.phase).filter(|phase| phase.is_signalled());
    let has_failed = !matches!(result, Done::Spawned { .. });
    if run.main.asked() == Some(effect) {
        core.units.service_mut(unit).main.take_asked();
        match result {
            Done::Spawned { pid } => service::main_spawned(core, unit, pid),
            Done::SpawnFailed { exit_code, error } => {
                service::main_not_spawned(core, unit, exit_code, error)
            }
            Done::NeverBegun if signalled.is_some() => {}
            _ => service::main_not_spawned(core, unit, 0, "the request was lost".to_owned()),
        }
        if let Some(phase) = signalled.filter(|_| has_failed) {
            stop::latecomer_missing(core, unit, phase);
        }
    } else if run.control == Some(Control::Asked(effect)) {
        match result {
            Done::Spawned { pid } => events::control_spawned(core, unit, pid),
            Done::SpawnFailed { exit_code, error } => {
                events::control_not_spawned(core, unit, exit_code, error)
            }
            _ => events::control_not_spawned(core, unit, 0, "the request was lost".to_owned()),
        }
        if let Some(phase) = signalled.filter(|_| has_failed) {
            stop::latecomer_missing(core, unit, phase);
        }
    } else if run.kill_asked == Some(effect) {
        core.units.service_mut(unit).kill_asked = None;
        // Said of the moment of the signal: processes that come later are not in it. For one
        // that came since, the signal was sent again, so this is after it, and it is gone too.
        let run = core.units.service_mut(unit);
        let since = run.main.asked().is_some() || matches!(run.control, Some(Control::Asked(_)));
        if matches!(result, Done::Killed { processes: 0 }) && !since {
            run.group_empty = true;
        }
        stop::advance_if_stopped(core, unit);
    } else if run.doomed.contains(&effect) {
        events::doomed_done(core, unit, effect, result);
    } else if run.main_search == Some(effect) {
        core.units.service_mut(unit).main_search = None;
        let pid = if let Done::MainProcess { pid } = result { pid } else { None };
        service::main_found(core, unit, pid);
    }
}

/// Serves the answer to an effect that froze or thawed; returns whether it was one.
fn freezer_done(core: &mut Core, unit: UnitId, effect: EffectId, result: &Done) -> bool {
    let freezer = core.units.freezer(unit);
    if freezer.asked() != Some(effect) {
        return false;
    }
    let was_asked_to_freeze = matches!(freezer, Freezer::Freezing(_));
    let is_done = !matches!(result, Done::Failed { .. });
    let is_frozen = was_asked_to_freeze == is_done;
    core.units.history_mut(unit).freezer =
        if is_frozen { Freezer::Frozen } else { Freezer::Running };
    match is_frozen {
        // Who cannot run cannot say that he lives.
        true => core.units.service_mut(unit).watchdog_deadline = None,
        false if service::is_guarded(&core.units, unit) => service::arm_watchdog(core, unit),
        false => {}
    }
    let reply = match result {
        Done::Failed { error } => Reply::Refused(Refusal::Kernel(error.clone())),
        _ => Reply::Done,
    };
    freezer::answer_freezer(&mut core.outbox, effect, reply);
    true
}

/// Serves the answer to a removal; returns whether it was one.
fn clearing_done(core: &mut Core, unit: UnitId, effect: EffectId, result: &Done) -> bool {
    let Some(clearing) = core.units.clearing(unit).filter(|clearing| clearing.id == effect) else {
        return false;
    };
    core.units.history_mut(unit).clearing = None;
    core.resources.removals.remove(unit);
    let reply = match result {
        Done::Failed { error } => Reply::Refused(Refusal::Kernel(error.clone())),
        _ => Reply::Done,
    };
    freezer::answer_freezer(&mut core.outbox, effect, reply);
    if clearing.again {
        let settings = unit_settings::compiled(core, unit);
        cleanup::clear_away(core, unit, &settings, false);
    }
    dynamic_user::release_if_over(core, unit);
    if !cleanup::is_stop_held(&core.units, unit) {
        held_stops::end_held_stop(core, unit);
    }
    for waiter in core.resources.removals.take_waiters(unit) {
        match service::waits_idly(core, waiter) {
            true if service::has_idled_enough(&core.units, waiter) => {
                service::idle_over(core, waiter)
            }
            true => _ = core.queues.idle_services.insert(waiter),
            false => core.queues.queue_job(&core.units, waiter),
        }
    }
    true
}
