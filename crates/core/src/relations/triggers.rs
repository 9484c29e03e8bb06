//! Which sockets, automounts, timers and paths are in front of a unit, also when their file is gone.

use crate::graph::Graph;
use crate::model::ids::UnitId;
use crate::model::reason::Code;
use crate::parts::Core;
use crate::settings::{Compiled, TypeSettings};
use warren_unit::{LoadState, Relation, UnitName, UnitType};

/// Units that start this one when something happens.
pub(crate) fn triggers_of(core: &Core, unit: UnitId) -> Vec<UnitId> {
    let mut all = core.graph.related_by_any(unit, &[Relation::TriggeredBy]);
    let before: &[UnitType] = match core.graph.definition(unit).unit_type() {
        UnitType::Service => &[UnitType::Socket, UnitType::Timer, UnitType::Path],
        UnitType::Mount => &[UnitType::Automount],
        _ => return all,
    };
    let definition = core.graph.definition(unit);
    let names = definition.aliases.iter().chain([&definition.name]);
    for name in names {
        all.extend(before.iter().filter_map(|&before| orphan(core, name, before)));
    }
    all
}

/// The unit that a timer or path starts. One whose file is gone names none any more, but it is up: it starts the
/// service of its name.
pub(crate) fn behind(graph: &Graph, unit: UnitId) -> Option<UnitId> {
    let named = graph.stated(unit, Relation::Triggers).next();
    named.or_else(|| graph.namesake(unit, UnitType::Service))
}

/// A socket or an automount that is up and whose file is gone, or its name another one's: who has that name
/// otherwise is behind it.
fn orphan(core: &Core, name: &UnitName, unit_type: UnitType) -> Option<UnitId> {
    let trigger = core.graph.lookup_own(&name.change_type(unit_type).ok()?)?;
    // Whatever else is the matter with its file: then nothing is known of what it starts, either.
    let is_orphaned = core.graph.definition(trigger).load_state != LoadState::Loaded;
    let is_orphaned = is_orphaned && !core.units.active_state(trigger).is_down();
    // Behind one that takes connections are their instances.
    let accepts =
        |all: &Compiled| matches!(&all.own, TypeSettings::Socket(config) if config.accept);
    let is_before = is_orphaned && !core.settings.at_hand(trigger).is_some_and(accepts);
    is_before.then_some(trigger)
}

/// Why nobody is let in by a socket or an automount though it is up, as with systemd 252: it is masked, or its
/// file says no longer what it is to be. One whose file is gone does what it did.
pub(crate) fn lets_nobody_in(graph: &Graph, unit: UnitId) -> Option<Code> {
    match graph.definition(unit).load_state {
        LoadState::Loaded | LoadState::NotFound => None,
        LoadState::Masked => Some(Code::Masked),
        _ => Some(Code::BadSetting),
    }
}
