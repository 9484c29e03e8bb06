//! The types that have next to no state of their own: targets and slices.

use crate::model::ids::{EffectId, UnitId};
use crate::model::process::*;
use crate::model::reason::{Cause, Code};
use crate::model::state::*;
use crate::parts::Core;
use crate::parts::unit_settings;
use crate::protocol::event::{Done, Effect};
use crate::state_change;

// ---- targets and slices ----

pub(crate) fn target_start(core: &mut Core, unit: UnitId) {
    state_change::transit(core, unit, false, |run| run.state = TypeState::Target(true));
}

pub(crate) fn slice_start(core: &mut Core, unit: UnitId) {
    let id = core.outbox.new_effect(unit);
    let settings = unit_settings::compiled(core, unit);
    state_change::transit(core, unit, false, |run| run.state = TypeState::Slice(Slice::Asked(id)));
    core.outbox.effects.push(Effect::MakeCgroup { id, unit, settings });
}

pub(crate) fn slice_done(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    if core.units.run(unit).state != TypeState::Slice(Slice::Asked(effect)) {
        return;
    }
    let made = match result {
        Done::Failed { error } => {
            state_change::note(core, unit, Code::Resources, Cause::Kernel, error);
            Slice::Dead
        }
        _ => Slice::Active,
    };
    core.units.history_mut(unit).has_cgroup = made == Slice::Active;
    let outcome = if made == Slice::Active { Outcome::Success } else { Outcome::Resources };
    core.units.history_mut(unit).outcome = outcome;
    state_change::transit(core, unit, false, |run| run.state = TypeState::Slice(made));
}

pub(crate) fn slice_stop(core: &mut Core, unit: UnitId) {
    if let TypeState::Slice(Slice::Asked(id)) = core.units.run(unit).state {
        core.outbox.forget_effect(id);
    }
    let settings = unit_settings::compiled(core, unit);
    core.units.history_mut(unit).has_cgroup = false;
    core.outbox.effects.push(Effect::CleanUp { unit, settings, restarting: false });
    state_change::transit(core, unit, false, |run| run.state = TypeState::Slice(Slice::Dead));
}
