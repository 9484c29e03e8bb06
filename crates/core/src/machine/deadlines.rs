//! What is done when the deadline of a unit has come.

use super::Core;
use crate::jobs::ends;
use crate::model::state::TypeState;

impl Core {
    pub(super) fn serve_deadlines(&mut self) {
        let now = self.times.now.monotonic;
        while let Some(unit) = self.deadlines.pop_due(now) {
            self.units.note_served(unit);
            if self.deadlines.take_upheld_again(unit, now) {
                self.return_if_allowed(unit);
                self.queues.queue_relations(unit);
            }
            self.clearing_deadline(unit);
            ends::job_deadline(self, unit);
            match &self.units.run(unit).state {
                TypeState::Service(_) => self.service_deadline(unit),
                TypeState::Socket(_) => self.socket_deadline(unit),
                TypeState::Mount(_) | TypeState::Swap(_) => self.mount_deadline(unit),
                _ => {}
            }
        }
    }
}
