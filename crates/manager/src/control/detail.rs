//! What `Status` tells of a unit by what it is for: what starts it and what it starts, where it listens and how many
//! are connected, what it mounts where, and where it is documented.

use std::sync::Arc;

use warren_core::model::ids::UnitId;
use warren_core::model::state::{Socket, TypeState};
use warren_core::settings::TypeSettings;
use warren_core::view::View;
use warren_unit::Relation;
use warren_unit::config::{Listen, SocketConfig};
use warren_wire::control::{Listening, RelatedUnit, SocketConnections, StatusAnswer};

use crate::control::answer::{active, name};
use crate::control::timers;
use crate::published::shared::Shared;

/// Adds it to the answer; what the unit's type does not have stays empty.
pub(crate) fn add(out: &mut StatusAnswer, view: &View, shared: &Arc<Shared>, unit: UnitId) {
    let compiled = shared.settings().compile(view.definition(unit));
    out.triggers = related(view, unit, Relation::Triggers);
    out.timer = timers::of_unit(view, unit);
    out.triggered_by = related(view, unit, Relation::TriggeredBy);
    out.documentation = compiled.section.documentation.iter().map(|uri| uri.to_string()).collect();
    match &compiled.own {
        TypeSettings::Socket(config) => socket(out, view, unit, config),
        TypeSettings::Mount(config) => {
            out.what = Some(config.what.to_string());
            out.where_ = Some(config.where_.to_string());
        }
        TypeSettings::Automount(config) => out.where_ = Some(config.where_.to_string()),
        _ => {}
    }
}

fn related(view: &View, unit: UnitId, relation: Relation) -> Vec<RelatedUnit> {
    let others = view.graph.related(unit, relation);
    others
        .map(|other| RelatedUnit { name: name(view, other), active: active(view, other) })
        .collect()
}

fn socket(out: &mut StatusAnswer, view: &View, unit: UnitId, config: &SocketConfig) {
    let listen = |one: &Listen| {
        let kind = one.kind.as_str();
        let kind = kind.strip_prefix("Listen").unwrap_or(kind).to_owned();
        Listening { kind, address: one.address.to_string() }
    };
    out.listen = config.listen.iter().map(listen).collect();
    if !config.accept {
        return;
    }
    let run = view.run(unit);
    let connected = match &run.state {
        TypeState::Socket(Socket::Up(run)) => run.connections.len(),
        _ => 0,
    };
    let (accepted, refused) = run.history.as_deref().map_or((0, 0), |h| (h.accepted, h.refused));
    out.connections = Some(SocketConnections { now: connected as u64, accepted, refused });
}
