//! Icinga 2's own schema: to check existing configurations, and to be compared with Icinga.
//!
//! Types, attributes and which are required come from its documentation, "Object Types". What an
//! attribute that nobody set reads as is known for those that filters commonly read.

use super::icinga_table::TYPES;
use crate::types::{Field, Kind, Naming, Rules, Type, Unset};

/// Attributes that every object has.
const COMMON: [&str; 4] = ["package", "templates", "zone", "type"];

/// Types whose objects have custom variables.
const WITH_VARS: [&str; 13] = [
    "CheckCommand",
    "Dependency",
    "EventCommand",
    "Host",
    "HostGroup",
    "Notification",
    "NotificationCommand",
    "ScheduledDowntime",
    "Service",
    "ServiceGroup",
    "TimePeriod",
    "User",
    "UserGroup",
];

/// The types, in the order in which objects are made.
pub fn types() -> Vec<Type> {
    TYPES.iter().map(|(name, attributes)| of(name, attributes)).collect()
}

fn of(name: &str, attributes: &[super::icinga_table::Attribute]) -> Type {
    let field = |(name, kind, required): &super::icinga_table::Attribute| Field {
        name: (*name).to_owned(),
        kind: *kind,
        required: *required,
        unset: unset(name, *kind),
    };
    let mut fields: Vec<Field> = attributes.iter().map(field).collect();
    let mut add = |name: &str, kind: Kind| {
        if fields.iter().all(|field| field.name != name) {
            fields.push(super::field(name, kind));
        }
    };
    COMMON
        .iter()
        .for_each(|name| add(name, if *name == "zone" { Kind::Text } else { Kind::ReadOnly }));
    add("name", Kind::Text);
    if WITH_VARS.contains(&name) {
        add("vars", Kind::Dictionary);
    }
    Type { name: name.to_owned(), base: None, fields, rules: Some(rules(name)) }
}

/// Texts that nobody set read as empty ones.
fn unset(name: &str, kind: Kind) -> Unset {
    match (name, kind) {
        ("check_interval", _) => Unset::Number(300.0),
        ("retry_interval", _) => Unset::Number(60.0),
        ("max_check_attempts", _) => Unset::Number(3.0),
        (_, Kind::Text) => Unset::Text(""),
        _ => Unset::Null,
    }
}

/// Members of groups are known before rules are asked that may want to know.
fn rules(name: &str) -> Rules {
    let on_both = Rules {
        stage: 5,
        naming: Naming::Composite,
        targets: vec!["Host", "Service"],
        target_names: vec![("Service", "service_name"), ("Host", "host_name")],
        ..Rules::default()
    };
    match name {
        "Host" => Rules { stage: 1, variable: "host", ..Rules::default() },
        "User" => Rules { stage: 1, variable: "user", ..Rules::default() },
        "Service" => Rules {
            stage: 3,
            naming: Naming::Composite,
            targets: vec!["Host"],
            variable: "service",
            target_names: vec![("Host", "host_name")],
            ..Rules::default()
        },
        "HostGroup" => Rules { stage: 2, members: Some("Host"), ..Rules::default() },
        "ServiceGroup" => Rules { stage: 4, members: Some("Service"), ..Rules::default() },
        "UserGroup" => Rules { stage: 2, members: Some("User"), ..Rules::default() },
        "Dependency" => Rules {
            target_names: vec![("Service", "child_service_name"), ("Host", "child_host_name")],
            ..on_both
        },
        "Notification" | "ScheduledDowntime" => on_both,
        _ => Rules::default(),
    }
}
