//! Paths: units that start another one when something happens in the file system (systemd.path(5)).
//!
//! The runner watches and looks; what that means is decided here. A change that comes while the unit runs starts it
//! once more, and so does one that came while no manager was there: `PathRun::print` says how things looked last.

use crate::features::start_limit;
use crate::graph::Graph;
use crate::jobs::install;
use crate::model::active_state::ActiveState;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::{JobKind, JobMode, JobType};
use crate::model::part::Part;
use crate::model::process::Outcome;
use crate::model::reason::{Cause, Code};
use crate::model::state::{Path, PathPhase, PathRun, RateWindow, TypeState};
use crate::parts::{Core, unit_settings};
use crate::protocol::event::{Done, Effect, PathLook};
use crate::relations::triggers;
use crate::state_change;
use warren_unit::LoadState;

/// A path unit whose unit is not there would start nothing.
pub(crate) fn refused_to_start(core: &mut Core, unit: UnitId) -> bool {
    let Some(behind) = triggers::behind(&core.graph, unit) else { return false };
    if core.graph.definition(behind).load_state == LoadState::Loaded {
        return false;
    }
    let detail = format!("{} is not there", core.graph.name(behind));
    state_change::refuse_to_start(core, unit, Code::NotLoaded, detail);
    true
}

pub(crate) fn start(core: &mut Core, unit: UnitId) {
    let run = PathRun {
        phase: PathPhase::Starting,
        asked: None,
        is_changed: false,
        print: 0,
        triggers: RateWindow::default(),
    };
    let history = core.units.history_mut(unit);
    history.outcome = Outcome::Success;
    history.status_text = String::new();
    state_change::transit(core, unit, false, |u| {
        u.state = TypeState::Path(Path::Up(Part::new(run)));
    });
    watch(core, unit, true);
}

/// Has the paths watched and looked at; `makes` the directories that are to be made.
fn watch(core: &mut Core, unit: UnitId, makes: bool) {
    let settings = unit_settings::compiled(core, unit);
    let id = core.outbox.new_effect(unit);
    if let Some(before) = core.units.path_mut(unit).asked.replace(id) {
        core.outbox.forget_effect(before);
    }
    core.outbox.effects.push(Effect::WatchPaths { id, unit, settings, makes });
}

/// The watches went with the manager.
pub(crate) fn resume(core: &mut Core, unit: UnitId) {
    let makes = core.units.path(unit).is_some_and(|run| run.phase == PathPhase::Starting);
    watch(core, unit, makes);
}

/// Its paths are watched, or were looked at again.
pub(crate) fn done(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    if core.units.path(unit).is_none_or(|run| run.asked != Some(effect)) {
        return;
    }
    core.units.path_mut(unit).asked = None;
    match result {
        Done::Paths(look) => take_look(core, unit, look),
        Done::Failed { error } => {
            core.units.history_mut(unit).status_text.clone_from(&error);
            give_up(core, unit, Outcome::Resources, Code::Resources, Cause::Kernel, error);
        }
        _ => {}
    }
}

fn take_look(core: &mut Core, unit: UnitId, look: PathLook) {
    let run = core.units.path_mut(unit);
    let (was, phase) = (run.print, run.phase);
    if look.print != 0 {
        run.print = look.print;
    }
    // At the start, and after an edit, things are as they are. Of what is watched each change was told.
    let is_known = phase != PathPhase::Starting && was != 0 && look.print != 0;
    let is_changed = is_known && was != look.print;
    match phase {
        PathPhase::Running => core.units.path_mut(unit).is_changed |= is_changed,
        PathPhase::Starting | PathPhase::Waiting => {
            set_phase(core, unit, PathPhase::Waiting);
            if look.is_met || is_changed {
                trigger(core, unit);
            }
        }
    }
}

/// Something happened at its paths.
pub(crate) fn touched(core: &mut Core, unit: UnitId, look: PathLook) {
    if core.units.known(unit).is_none() {
        return;
    }
    let Some(run) = core.units.path(unit).copied() else { return };
    // Of what happens while it is begun to watch the answer to that tells.
    if run.phase == PathPhase::Starting {
        return;
    }
    if look.print != 0 && run.print != look.print {
        core.units.path_mut(unit).print = look.print;
    }
    match run.phase {
        PathPhase::Waiting if look.is_met || look.is_changed => trigger(core, unit),
        PathPhase::Running if look.is_changed => core.units.path_mut(unit).is_changed = true,
        _ => {}
    }
}

/// Starts its unit.
fn trigger(core: &mut Core, unit: UnitId) {
    let job = core.units.run(unit).job.as_ref();
    if core.totals.stopping || job.is_some_and(|job| job.kind == JobKind::Stop) {
        return;
    }
    if let Some(code) = triggers::lets_nobody_in(&core.graph, unit) {
        return give_up(core, unit, Outcome::Resources, code, Cause::None, String::new());
    }
    let Some(behind) = triggers::behind(&core.graph, unit) else {
        let code = Code::NotLoaded;
        return give_up(core, unit, Outcome::Resources, code, Cause::None, String::new());
    };
    let limit = unit_settings::compiled(core, unit).path().trigger_limit;
    let now = core.times.now.monotonic;
    let run = core.units.path_mut(unit);
    run.is_changed = false;
    let is_limited = !limit.interval.is_zero() && limit.burst > 0;
    if is_limited && run.triggers.count_one(now, limit.interval, limit.burst) {
        let outcome = Outcome::TriggerLimitHit;
        return give_up(core, unit, outcome, Code::TriggerLimit, Cause::None, String::new());
    }
    set_phase(core, unit, PathPhase::Running);
    let (kind, mode) = (JobType::Start, JobMode::Replace);
    if !install::enqueue_quietly(core, behind, kind, mode, Cause::Trigger(unit)) {
        let (code, cause) = (Code::DependencyFailed, Cause::Dependency(behind));
        give_up(core, unit, Outcome::Resources, code, cause, String::new());
    }
}

/// The unit that it starts has changed its state to `new`, or has no job any more.
pub(crate) fn unit_changed(core: &mut Core, unit: UnitId, behind: UnitId, new: ActiveState) {
    let is_running = |run: &PathRun| run.phase == PathPhase::Running;
    if !core.units.path(unit).is_some_and(is_running) || !new.is_down() {
        return;
    }
    if triggers::behind(&core.graph, unit) != Some(behind) {
        return;
    }
    if start_limit::hit_start_limit(&core.units, behind) {
        let (outcome, code) = (Outcome::UnitStartLimitHit, Code::ServiceLimit);
        return give_up(core, unit, outcome, code, Cause::Dependency(behind), String::new());
    }
    set_phase(core, unit, PathPhase::Waiting);
    match core.units.path(unit).is_some_and(|run| run.is_changed) {
        true => trigger(core, unit),
        // What it was started for may be there still, or again.
        false => look(core, unit),
    }
}

fn look(core: &mut Core, unit: UnitId) {
    if core.units.path(unit).is_some_and(|run| run.asked.is_some()) {
        return;
    }
    let id = core.outbox.new_effect(unit);
    core.units.path_mut(unit).asked = Some(id);
    core.outbox.effects.push(Effect::LookAtPaths { id, unit });
}

pub(crate) fn stop(core: &mut Core, unit: UnitId) {
    enter_dead(core, unit, Outcome::Success);
}

fn give_up(
    core: &mut Core,
    unit: UnitId,
    outcome: Outcome,
    code: Code,
    cause: Cause,
    detail: String,
) {
    state_change::note(core, unit, code, cause, detail);
    enter_dead(core, unit, outcome);
}

fn enter_dead(core: &mut Core, unit: UnitId, outcome: Outcome) {
    if let Some(id) = core.units.path(unit).and_then(|run| run.asked) {
        core.outbox.forget_effect(id);
    }
    core.outbox.effects.push(Effect::UnwatchPaths { unit });
    core.units.history_mut(unit).outcome = outcome;
    let state = match outcome {
        Outcome::Success => Path::Dead,
        _ => Path::Failed(outcome),
    };
    state_change::transit(core, unit, false, |u| u.state = TypeState::Path(state));
}

fn set_phase(core: &mut Core, unit: UnitId, phase: PathPhase) {
    state_change::transit(core, unit, false, |run| {
        if let TypeState::Path(Path::Up(path)) = &mut run.state {
            path.phase = phase;
        }
    });
}

/// A path unit that is up was edited: what its files say now is watched.
pub(crate) fn watch_anew_if_edited(core: &mut Core, unit: UnitId, before: &Graph) {
    let Some(was) = before.get(unit).filter(|_| core.units.path(unit).is_some()) else { return };
    let was = core.settings.common.compile_running(was);
    let is = unit_settings::compiled(core, unit);
    if was.own != is.own {
        // Other paths look otherwise without a change.
        core.units.path_mut(unit).print = 0;
        watch(core, unit, true);
    }
}
