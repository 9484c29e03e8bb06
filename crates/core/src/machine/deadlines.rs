//! What is done when the deadline of a unit has come.

use super::Core;
use crate::jobs::ends;
use crate::model::state::TypeState;
use crate::relations::{held_stops, rules};
use crate::types::{mount, scope, service, socket, timer};

pub(crate) fn serve_deadlines(core: &mut Core) {
    let now = core.times.now.monotonic;
    while let Some(unit) = core.deadlines.pop_due(now) {
        core.units.note_served(unit);
        if core.deadlines.take_upheld_again(unit, now) {
            rules::return_if_allowed(core, unit);
            core.queues.queue_relations(unit);
        }
        held_stops::clearing_deadline(core, unit);
        ends::job_deadline(core, unit);
        match &core.units.run(unit).state {
            TypeState::Service(_) => service::deadline(core, unit),
            TypeState::Socket(_) => socket::deadline(core, unit),
            TypeState::Mount(_) | TypeState::Swap(_) => mount::deadline(core, unit),
            TypeState::Timer(_) => timer::deadline(core, unit),
            TypeState::Scope(_) => scope::deadline(core, unit),
            _ => {}
        }
    }
}
