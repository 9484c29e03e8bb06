//! What a change of one unit's state does to its job, to the units tied to it and to whoever
//! waits.

use crate::features::{connections, restart_mode, start_limit};
use crate::jobs::{dependency_groups, halves, outcomes};
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::time::Moment;
use crate::parts::Core;
use crate::parts::queues::Transition;
use crate::relations::{neighbours, rules, standing, triggers};
use crate::types::service::stop;
use crate::types::{automount, device, path, socket, timer};
use warren_unit::UnitType;

/// Propagates one transition.
pub(crate) fn ripple(core: &mut Core, transition: Transition) {
    let Transition { unit, old, new, by, .. } = transition;
    halves::job_after_change(core, unit, new);
    if !old.is_up_or_coming()
        && new.is_up_or_coming()
        && by.is_none()
        && !core.units.waits_to_restart(unit)
    {
        neighbours::start_afterwards(core, unit);
    }
    let told = by.filter(|kind| kind.is_stopping());
    let ends = match told {
        None => restart_mode::has_ended_by_itself(core, unit, old, new),
        Some(_) => !old.is_down_or_going() && new.is_down_or_going(),
    };
    if ends && told.is_none() {
        neighbours::stop_afterwards(core, unit);
    }
    rules::ripple_by_rules(core, transition, told, ends);
    dependency_groups::look_at_group_waiters(core, unit);
    tell_triggers(core, unit, old, new);
    outcomes::fire_outcome(core, transition);
    neighbours::requeue_waiters(&core.units, &mut core.queues, unit);
    device::look_at_devices(core, unit);
    neighbours::look_at_neighbours(&core.graph, &mut core.queues, unit, old, new);
    if new.is_down() && core.units.run(unit).job.is_none() {
        core.settings.forget(unit);
        start_limit::look_whom_it_held(core, unit);
    }
}

/// Sockets, automounts, timers and paths follow the state of what they start.
fn tell_triggers(core: &mut Core, unit: UnitId, old: ActiveState, new: ActiveState) {
    for trigger in triggers::triggers_of(core, unit) {
        match core.graph.definition(trigger).unit_type() {
            UnitType::Socket => socket::service_changed(core, trigger, unit, new),
            UnitType::Automount => automount::mount_changed(core, trigger, unit, old, new),
            UnitType::Timer => timer::unit_changed(core, trigger, unit, new),
            UnitType::Path => path::unit_changed(core, trigger, unit, new),
            _ => {}
        }
    }
    if new.is_down() && !old.is_down() {
        core.resources.unmounted_unheard.remove(&unit);
        connections::connection_ended(core, unit);
    }
}

/// A unit has no job any more, perhaps without having changed its state: a start that failed
/// for want of a dependency, a stop that was cancelled. Who waits behind a socket or in an
/// automount must not wait for ever.
pub(crate) fn tell_triggers_of_job_end(core: &mut Core, unit: UnitId, at: Moment) {
    if core.units.run(unit).job.is_some() {
        return;
    }
    stop::restart_given_up(core, unit, at);
    let state = core.units.active_state(unit);
    if state.is_down() {
        start_limit::look_whom_it_held(core, unit);
        standing::start_again_if_lost(core, unit, at);
        // What gave way to it waited for its job too, which may have ended without a start.
        rules::return_without(core, unit);
    }
    for trigger in triggers::triggers_of(core, unit) {
        match core.graph.definition(trigger).unit_type() {
            UnitType::Socket if state.is_down() => {
                socket::service_changed(core, trigger, unit, state);
            }
            UnitType::Automount => automount::job_ended(core, trigger, state),
            UnitType::Timer => timer::unit_changed(core, trigger, unit, state),
            UnitType::Path => path::unit_changed(core, trigger, unit, state),
            _ => {}
        }
    }
}
