//! What a change of one unit's state does to its job, to the units tied to it and to whoever
//! waits.

use crate::features::{connections, start_limit};
use crate::jobs::{dependency_groups, halves, outcomes};
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::time::Moment;
use crate::parts::Core;
use crate::parts::queues::Transition;
use crate::relations::{neighbours, rules, standing, triggers};
use crate::types::service::stop;
use crate::types::{automount, device, socket};
use warren_unit::UnitType;

impl Core {
    /// Propagates one transition.
    pub(crate) fn ripple(&mut self, transition: Transition) {
        let Transition { unit, old, new, by, .. } = transition;
        halves::job_after_change(self, unit, new);
        if !old.is_up_or_coming()
            && new.is_up_or_coming()
            && by.is_none()
            && !self.units.waits_to_restart(unit)
        {
            neighbours::start_afterwards(self, unit);
        }
        let told = by.filter(|kind| kind.is_stopping());
        if !old.is_down_or_going() && new.is_down_or_going() && told.is_none() {
            neighbours::stop_afterwards(self, unit);
        }
        rules::ripple_by_rules(self, transition, told);
        dependency_groups::look_at_group_waiters(self, unit);
        self.tell_triggers(unit, old, new);
        outcomes::fire_outcome(self, transition);
        neighbours::requeue_waiters(self, unit);
        device::look_at_devices(self, unit);
        neighbours::look_at_neighbours(self, unit, old, new);
        if new.is_down() && self.units.run(unit).job.is_none() {
            self.settings.forget(unit);
            start_limit::look_whom_it_held(self, unit);
        }
    }

    /// Sockets and automounts follow the state of what they start.
    fn tell_triggers(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        for trigger in triggers::triggers_of(self, unit) {
            match self.graph.definition(trigger).unit_type() {
                UnitType::Socket => socket::service_changed(self, trigger, unit, new),
                UnitType::Automount => automount::mount_changed(self, trigger, unit, old, new),
                _ => {}
            }
        }
        if new.is_down() && !old.is_down() {
            self.resources.unmounted_unheard.remove(&unit);
            connections::connection_ended(self, unit);
        }
    }

    /// A unit has no job any more, perhaps without having changed its state: a start that failed
    /// for want of a dependency, a stop that was cancelled. Who waits behind a socket or in an
    /// automount must not wait for ever.
    pub(crate) fn tell_triggers_of_job_end(&mut self, unit: UnitId, at: Moment) {
        if self.units.run(unit).job.is_some() {
            return;
        }
        stop::restart_given_up(self, unit, at);
        let state = self.units.active_state(unit);
        if state.is_down() {
            start_limit::look_whom_it_held(self, unit);
            standing::start_again_if_lost(self, unit, at);
            // What gave way to it waited for its job too, which may have ended without a start.
            rules::return_without(self, unit);
        }
        for trigger in triggers::triggers_of(self, unit) {
            match self.graph.definition(trigger).unit_type() {
                UnitType::Socket if state.is_down() => {
                    socket::service_changed(self, trigger, unit, state);
                }
                UnitType::Automount => automount::job_ended(self, trigger, state),
                _ => {}
            }
        }
    }
}
