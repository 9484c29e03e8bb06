//! How a unit changes its state: the one way, with its times, its reason, the trace and the queue of transitions.
//!
//! Owns: [`transit`], which every unit type calls.
//! Must not: propagate the change; `machine::propagate` does it when the queue is worked off.

use crate::features::{dynamic_user, freezer, remarks, slice_limits};
use crate::model::active_state::ActiveState;
use crate::model::admin_marks::Markers;
use crate::model::ids::UnitId;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::parts::Core;
use crate::parts::queues::Transition;
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;

/// Notes why the unit is as it is, and tells the log.
pub(crate) fn note(core: &mut Core, unit: UnitId, code: Code, cause: Cause, detail: String) {
    let reason = Reason::new(code, cause);
    core.units.history_mut(unit).reason = reason;
    core.outbox.tell(Notice::Log { unit, reason, detail });
}

/// Changes a unit's state through `change`; if its active state differs afterwards, the
/// transition is stamped and queued for propagation.
pub(crate) fn transit(
    core: &mut Core,
    unit: UnitId,
    will_restart: bool,
    change: impl FnOnce(&mut UnitRun),
) {
    let run = core.units.run_mut(unit);
    let old = run.active_state();
    let old_sub = run.sub_state();
    change(run);
    let fails = run.active_state() == ActiveState::Failed && old != ActiveState::Failed;
    if fails && !will_restart && remarks::gives_up(core, unit) {
        remarks::give_it_up(&mut core.units, core.times.now, unit);
    }
    let run = core.units.run(unit);
    let (new, sub) = (run.active_state(), run.sub_state());
    if old == new && old_sub == sub {
        return;
    }
    let reason = run.history.as_ref().map_or_else(Reason::default, |history| history.reason);
    if fails && !will_restart {
        core.totals.failures.add(reason.code);
    }
    freezer::thaw_first(core, unit);
    core.outbox.happened(core.times.now.monotonic, unit, What::State { active: new, sub, reason });
    remarks::forget_remarks(&mut core.units, unit, old, new);
    if old.is_down() != new.is_down() {
        slice_limits::follow_state(core, unit);
    }
    stamp(core, unit, old, new);
    if !will_restart {
        dynamic_user::release_if_over(core, unit);
    }
    let by = core.jobs.at_work(&core.units, unit);
    core.queues.transitions.push_back(Transition { unit, old, new, will_restart, by });
}

fn stamp(core: &mut Core, unit: UnitId, old: ActiveState, new: ActiveState) {
    let now = core.times.now;
    let failed = |state: ActiveState| u32::from(state.as_str() == "failed");
    core.totals.failed = (core.totals.failed + failed(new)).saturating_sub(failed(old));
    if new.is_down() {
        core.resources.strays.remove(&unit);
    }
    let history = core.units.history_mut(unit);
    history.state_change = now;
    if old.is_down() != new.is_down() {
        history.markers = Markers::default();
    }
    if old.is_down() && !new.is_down() {
        history.inactive_exit = now;
    }
    if !old.is_down() && new.is_down() {
        history.owed_stop = None;
        history.inactive_enter = now;
    }
    if !old.is_up() && new.is_up() {
        history.active_enter = now;
    }
    if old.is_up() && !new.is_up() {
        history.active_exit = now;
    }
}

/// A start comes to nothing, and the unit stays as it is.
pub(crate) fn refuse_to_start(core: &mut Core, unit: UnitId, code: Code, detail: String) {
    note(core, unit, code, Cause::None, detail);
    // Conditions were met, or it would not have come to this.
    let met = Some((core.times.now, true));
    let history = core.units.history_mut(unit);
    (history.conditions, history.asserts) = (met, met);
}
