//! Connections of sockets with `Accept=yes` (systemd.socket(5)): what is given back when an instance ends.

use crate::model::ids::UnitId;
use crate::parts::Core;
use crate::protocol::event::Effect;
use warren_unit::UnitType;

/// An instance of an `Accept=yes` socket has ended, or was never started: its connection is closed. This
/// holds for every instance, as its socket may have been removed or the manager restarted meanwhile.
pub(crate) fn connection_ended(core: &mut Core, unit: UnitId) {
    if core.graph.definition(unit).unit_type() == UnitType::Service
        && core.graph.name(unit).is_instance()
    {
        core.outbox.effects.push(Effect::DropConnection { unit });
    }
    core.resources.end_connection(&mut core.units, unit);
}
