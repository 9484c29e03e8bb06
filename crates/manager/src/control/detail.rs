//! What `Status` tells of a unit by what it is for: what starts it and what it starts, where it listens and how many
//! are connected, what it mounts where, and where it is documented.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use warren_core::model::ids::UnitId;
use warren_core::model::state::{Socket, TypeState};
use warren_core::settings::TypeSettings;
use warren_core::view::View;
use warren_unit::Relation;
use warren_unit::config::{Listen, SocketConfig};

use crate::published::shared::Shared;

/// Empty lists and what the unit's type does not have are left out.
pub(crate) fn value(view: &View, shared: &Arc<Shared>, unit: UnitId) -> Map<String, Value> {
    let compiled = shared.settings().compile(view.definition(unit));
    let mut out = Map::new();
    let triggers = [("triggers", Relation::Triggers), ("triggered_by", Relation::TriggeredBy)];
    for (key, relation) in triggers {
        put_list(&mut out, key, related(view, unit, relation));
    }
    let documents = compiled.section.documentation.iter();
    put_list(&mut out, "documentation", documents.map(|uri| json!(&**uri)).collect());
    match &compiled.own {
        TypeSettings::Socket(config) => socket(&mut out, view, unit, config),
        TypeSettings::Mount(config) => {
            out.insert("what".to_owned(), json!(&*config.what));
            out.insert("where".to_owned(), json!(&*config.where_));
        }
        TypeSettings::Automount(config) => {
            out.insert("where".to_owned(), json!(&*config.where_));
        }
        _ => {}
    }
    out
}

fn put_list(out: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if !list.is_empty() {
        out.insert(key.to_owned(), Value::Array(list));
    }
}

fn related(view: &View, unit: UnitId, relation: Relation) -> Vec<Value> {
    let others = view.graph.related(unit, relation);
    let row = |other: UnitId| {
        json!({
            "name": view.graph.name(other).as_str(),
            "active": view.active_state(other).as_str(),
        })
    };
    others.map(row).collect()
}

fn socket(out: &mut Map<String, Value>, view: &View, unit: UnitId, config: &SocketConfig) {
    let listen = |one: &Listen| {
        let kind = one.kind.as_str();
        json!({
            "kind": kind.strip_prefix("Listen").unwrap_or(kind),
            "address": one.address.to_string(),
        })
    };
    put_list(out, "listen", config.listen.iter().map(listen).collect());
    if !config.accept {
        return;
    }
    let run = view.run(unit);
    let connected = match &run.state {
        TypeState::Socket(Socket::Up(run)) => run.connections.len(),
        _ => 0,
    };
    let counted = run.history.as_deref().map_or((0, 0), |h| (h.accepted, h.refused));
    let connections = json!({"now": connected, "accepted": counted.0, "refused": counted.1});
    out.insert("connections".to_owned(), connections);
}
