//! Automounts: a trap in the file system that mounts when somebody walks in
//! (systemd.automount(5)).

use crate::features::start_limit;
use crate::graph::Graph;
use crate::jobs::install;
use crate::model::active_state::ActiveState;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::{JobMode, JobType};
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code};
use crate::model::state::*;
use crate::parts::Core;
use crate::parts::outbox::Outbox;
use crate::parts::unit_settings;
use crate::parts::units::Units;
use crate::protocol::event::{Done, Effect};
use crate::relations::triggers;
use crate::state_change;
use warren_unit::{LoadState, Relation, UnitType};

/// Processes that may wait in one trap; the kernel merges waits, so this is never reached in earnest.
const WAITERS_MAX: usize = 4096;

/// Answers that are kept for the next incarnation.
const ANSWERS_KEPT: usize = 64;

/// The mount of its path, which has its name. One whose file is gone names nobody any more, but
/// its trap is set: who waits in it is let in by that mount all the same.
fn mount_behind(graph: &Graph, unit: UnitId) -> Option<UnitId> {
    let named = graph.related(unit, Relation::Triggers).next();
    named.or_else(|| graph.namesake(unit, UnitType::Mount))
}

fn set_running(core: &mut Core, unit: UnitId, running: bool) {
    state_change::transit(core, unit, false, |run| {
        if let TypeState::Automount(Automount::Up(automount)) = &mut run.state {
            automount.running = running;
        }
    });
}

/// A trap is not set over a mount, nor where nobody could mount anything.
pub(crate) fn refused_to_start(core: &mut Core, unit: UnitId) -> bool {
    let Some(mount) = mount_behind(&core.graph, unit) else { return false };
    // A trap is set when what goes before it has gone.
    let goes = core.resources.unmounted_unheard.contains(&mount);
    let why = if core.units.active_state(mount).is_up() && !goes {
        "is mounted already"
    } else if core.graph.definition(mount).load_state != LoadState::Loaded {
        "is not there"
    } else {
        return false;
    };
    let detail = format!("{} {why}", core.graph.name(mount));
    state_change::refuse_to_start(core, unit, Code::MountFailed, detail);
    true
}

pub(crate) fn start(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let id = core.outbox.new_effect(unit);
    let run = AutomountRun {
        asked: Some(id),
        running: false,
        missing: Vec::new(),
        expiring: Vec::new(),
        answered: Vec::new(),
        closing: None,
    };
    let history = core.units.history_mut(unit);
    history.outcome = Outcome::Success;
    history.status_text = String::new();
    state_change::transit(core, unit, false, |u| {
        u.state = TypeState::Automount(Automount::Up(Part::new(run)))
    });
    core.outbox.effects.push(Effect::SetTrap { id, unit, settings });
}

pub(crate) fn done(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    let Some(run) = core.units.automount(unit).filter(|run| run.asked == Some(effect)) else {
        return;
    };
    match (run.closing, result) {
        (Some(outcome), _) => gone(core, unit, outcome),
        (None, Done::Failed { error }) => {
            state_change::note(core, unit, Code::MountFailed, Cause::Kernel, error.clone());
            core.units.history_mut(unit).status_text = error;
            gone(core, unit, Outcome::Resources);
        }
        (None, _) => state_change::transit(core, unit, false, |u| {
            if let TypeState::Automount(Automount::Up(run)) = &mut u.state {
                run.asked = None;
            }
        }),
    }
}

pub(crate) fn stop(core: &mut Core, unit: UnitId) {
    enter_dead(core, unit, Outcome::Success);
}

/// Takes the trap away; one that is still being made is waited for, or it would stay.
fn enter_dead(core: &mut Core, unit: UnitId, outcome: Outcome) {
    let Some(run) = core.units.automount(unit) else { return };
    if run.asked.is_some() {
        return state_change::transit(core, unit, false, |u| {
            if let TypeState::Automount(Automount::Up(run)) = &mut u.state {
                run.closing = Some(outcome);
            }
        });
    }
    gone(core, unit, outcome);
}

fn gone(core: &mut Core, unit: UnitId, outcome: Outcome) {
    answer_missing(&mut core.units, &mut core.outbox, unit, false);
    answer_expiring(&mut core.units, &mut core.outbox, unit, false);
    let mount =
        mount_behind(&core.graph, unit).filter(|&mount| core.units.active_state(mount).is_up());
    core.resources.unmounted_unheard.extend(mount);
    core.outbox.effects.push(Effect::WatchIdle { unit, on: false });
    core.outbox.effects.push(Effect::CloseTrap { unit });
    core.units.history_mut(unit).outcome = outcome;
    let state =
        if outcome == Outcome::Success { Automount::Dead } else { Automount::Failed(outcome) };
    state_change::transit(core, unit, false, |u| u.state = TypeState::Automount(state));
}

fn answer_missing(units: &mut Units, outbox: &mut Outbox, unit: UnitId, ok: bool) {
    let tokens = std::mem::take(&mut units.automount_mut(unit).missing);
    answer(units, outbox, unit, tokens, ok);
}

fn answer_expiring(units: &mut Units, outbox: &mut Outbox, unit: UnitId, ok: bool) {
    let tokens = std::mem::take(&mut units.automount_mut(unit).expiring);
    answer(units, outbox, unit, tokens, ok);
}

fn answer(units: &mut Units, outbox: &mut Outbox, unit: UnitId, tokens: Vec<u32>, ok: bool) {
    if tokens.is_empty() {
        return;
    }
    let answered = &mut units.automount_mut(unit).answered;
    answered.extend(tokens.iter().map(|&token| (token, ok)));
    answered.drain(..answered.len().saturating_sub(ANSWERS_KEPT));
    outbox.effects.push(Effect::AnswerTrap { unit, tokens, ok });
}

/// Gives the last answers again, after a restart of the manager.
pub(crate) fn answer_again(units: &Units, outbox: &mut Outbox, unit: UnitId) {
    let answered = units.automount(unit).map(|run| run.answered.clone()).unwrap_or_default();
    for (token, ok) in answered {
        outbox.effects.push(Effect::AnswerTrap { unit, tokens: vec![token], ok });
    }
}

/// Somebody walked in and waits for the mount.
pub(crate) fn trap_hit(core: &mut Core, unit: UnitId, token: u32) {
    if core.units.known(unit).is_none() || core.units.automount(unit).is_none() {
        return;
    }
    if core.units.automount_mut(unit).missing.len() >= WAITERS_MAX {
        return answer(&mut core.units, &mut core.outbox, unit, vec![token], false);
    }
    core.units.automount_mut(unit).missing.push(token);
    if let Some(code) = triggers::lets_nobody_in(&core.graph, unit) {
        state_change::note(core, unit, code, Cause::None, String::new());
        return enter_dead(core, unit, Outcome::Resources);
    }
    let Some(mount) = mount_behind(&core.graph, unit) else {
        return answer_missing(&mut core.units, &mut core.outbox, unit, false);
    };
    if core.units.active_state(mount).is_up() {
        return answer_missing(&mut core.units, &mut core.outbox, unit, true);
    }
    let stop_comes = core.units.run(unit).job.as_ref().is_some_and(|job| job.kind.is_stopping())
        || core.units.automount_mut(unit).closing.is_some();
    if stop_comes
        || !install::enqueue_quietly(
            core,
            mount,
            JobType::Start,
            JobMode::Replace,
            Cause::Trigger(unit),
        )
    {
        return answer_missing(&mut core.units, &mut core.outbox, unit, false);
    }
    // If it could be begun: the answer may have come already.
    if core.units.automount(unit).is_some_and(|run| !run.running && !run.missing.is_empty()) {
        set_running(core, unit, true);
    }
}

/// The mount behind was idle for `TimeoutIdleSec=`.
pub(crate) fn trap_idle(core: &mut Core, unit: UnitId, token: u32) {
    if core.units.known(unit).is_none() || core.units.automount(unit).is_none() {
        return;
    }
    core.units.automount_mut(unit).expiring.push(token);
    let Some(mount) = mount_behind(&core.graph, unit) else {
        return answer_expiring(&mut core.units, &mut core.outbox, unit, false);
    };
    if core.units.active_state(mount).is_down() {
        return answer_expiring(&mut core.units, &mut core.outbox, unit, true);
    }
    let cause = Cause::Trigger(unit);
    if !install::enqueue_quietly(core, mount, JobType::Stop, JobMode::Replace, cause) {
        answer_expiring(&mut core.units, &mut core.outbox, unit, false);
    }
}

/// Somebody unmounted the trap itself.
pub(crate) fn trap_gone(core: &mut Core, unit: UnitId) {
    if core.units.known(unit).is_some() && core.units.automount(unit).is_some() {
        state_change::note(core, unit, Code::Vanished, Cause::Kernel, String::new());
        enter_dead(core, unit, Outcome::Unmounted);
    }
}

/// The mount was started too often: nobody is let in any more.
fn mount_limit(core: &mut Core, unit: UnitId) {
    let cause = mount_behind(&core.graph, unit).map_or(Cause::None, Cause::Dependency);
    state_change::note(core, unit, Code::ServiceLimit, cause, String::new());
    enter_dead(core, unit, Outcome::MountStartLimitHit);
}

/// The mount behind the trap, in `state`, has no job any more.
pub(crate) fn job_ended(core: &mut Core, unit: UnitId, state: ActiveState) {
    if core.units.automount(unit).is_none() {
        return;
    }
    match state {
        s if s.is_down() => {
            if mount_behind(&core.graph, unit)
                .is_some_and(|mount| start_limit::hit_start_limit(&core.units, mount))
            {
                return mount_limit(core, unit);
            }
            answer_missing(&mut core.units, &mut core.outbox, unit, false);
            answer_expiring(&mut core.units, &mut core.outbox, unit, true);
            set_running(core, unit, false);
        }
        s if s.is_up() => {
            answer_missing(&mut core.units, &mut core.outbox, unit, true);
            answer_expiring(&mut core.units, &mut core.outbox, unit, false);
        }
        _ => {}
    }
}

/// The mount behind the trap has changed its state.
pub(crate) fn mount_changed(
    core: &mut Core,
    unit: UnitId,
    mount: UnitId,
    old: ActiveState,
    new: ActiveState,
) {
    if core.units.automount(unit).is_none() {
        return;
    }
    if new.is_up() && !old.is_up() {
        answer_missing(&mut core.units, &mut core.outbox, unit, true);
        set_running(core, unit, true);
        let settings = unit_settings::compiled(core, unit);
        if settings.automount().timeout_idle.is_some() {
            core.outbox.effects.push(Effect::WatchIdle { unit, on: true });
        }
    }
    if old == ActiveState::Deactivating && new.is_up() {
        answer_expiring(&mut core.units, &mut core.outbox, unit, false);
    }
    if new.is_down() {
        core.outbox.effects.push(Effect::WatchIdle { unit, on: false });
        answer_expiring(&mut core.units, &mut core.outbox, unit, true);
        if start_limit::hit_start_limit(&core.units, mount) {
            return mount_limit(core, unit);
        }
        if new == ActiveState::Failed || core.units.run(mount).job.is_none() {
            answer_missing(&mut core.units, &mut core.outbox, unit, false);
        }
        set_running(core, unit, false);
    }
}
