//! What is done when the deadline of a unit has come.

use super::Core;
use crate::jobs::ends;
use crate::model::state::TypeState;
use crate::relations::{held_stops, rules};
use crate::types::{mount, service, socket};

impl Core {
    pub(super) fn serve_deadlines(&mut self) {
        let now = self.times.now.monotonic;
        while let Some(unit) = self.deadlines.pop_due(now) {
            self.units.note_served(unit);
            if self.deadlines.take_upheld_again(unit, now) {
                rules::return_if_allowed(self, unit);
                self.queues.queue_relations(unit);
            }
            held_stops::clearing_deadline(self, unit);
            ends::job_deadline(self, unit);
            match &self.units.run(unit).state {
                TypeState::Service(_) => service::deadline(self, unit),
                TypeState::Socket(_) => socket::deadline(self, unit),
                TypeState::Mount(_) | TypeState::Swap(_) => mount::deadline(self, unit),
                _ => {}
            }
        }
    }
}
