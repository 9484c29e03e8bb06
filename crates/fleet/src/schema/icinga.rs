//! Icinga 2's own schema: to check existing configurations, and to be compared with Icinga.
//!
//! Types and attributes are in `icinga_table`, what their values must be in `check`, `shape` and
//! `ranges`; here is what objects must be as a whole. Start at [`types`].

use super::check::{self, Subject};
use super::expectation::Check;
use super::icinga_table::{Attribute, BASES, COMMON, EXTENDS, STATE, STATES, TYPES};
use super::{newer, place_of};
use crate::eval::{Fault, Interpreter, World};
use crate::heap::Heap;
use crate::ops;
use crate::source::{Place, Source};
use crate::types::{Field, Kind, Naming, Rules, Type, Types};
use crate::value::{Object, ObjectId, StringId, TypeId, Value};

/// Which Icinga 2 a configuration is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 2.13, with whose program this schema is compared.
    #[default]
    V2_13,
    /// 2.16: what is new since 2.13 was compared with no program.
    V2_16,
}

/// The types, in the order in which objects are made.
pub fn types(version: Version) -> Vec<Type> {
    let mut all = types_of_2_13();
    if version == Version::V2_16 {
        newer::add(&mut all);
    }
    all
}

fn types_of_2_13() -> Vec<Type> {
    let bases = BASES.iter().map(|(name, extends)| Type {
        name: (*name).to_owned(),
        base: base(extends),
        fields: Vec::new(),
        rules: None,
    });
    TYPES.iter().map(|(name, groups)| of(name, groups)).chain(bases).collect()
}

/// The type of `BASES` with this name.
fn base(name: &str) -> Option<TypeId> {
    let position = BASES.iter().position(|(base, _)| *base == name)?;
    Some(Types::of_schema(TYPES.len() + position))
}

/// The file that is evaluated before a configuration: what the program brings itself, with the
/// names that configurations import ("Template Library") and the constants that are numbers. What
/// commands and periods do is not said: nothing is run here.
pub fn before(version: Version) -> Source {
    let newer = match version {
        Version::V2_13 => "",
        Version::V2_16 => newer::BEFORE,
    };
    Source::new("<icinga2>", format!("{BEFORE}{newer}").as_bytes())
}

/// The object that the program makes itself where a configuration defines none of its type; it is
/// written in no file.
pub fn application() -> Source {
    Source::new("", b"object IcingaApplication \"app\" { }\n")
}

const BEFORE: &str = "\
if (!globals.contains(\"MaxConcurrentChecks\")) { globals.MaxConcurrentChecks = 512 }
if (!globals.contains(\"ReloadTimeout\")) { globals.ReloadTimeout = 300 }
template CheckCommand \"plugin-check-command\" default { }
template CheckCommand \"icinga-check-command\" { vars.icinga_min_version = \"\" }
template CheckCommand \"cluster-check-command\" { }
template CheckCommand \"cluster-zone-check-command\" { }
template CheckCommand \"dummy-check-command\" { }
template CheckCommand \"random-check-command\" { }
template CheckCommand \"exception-check-command\" { }
template CheckCommand \"null-check-command\" { }
template CheckCommand \"sleep-check-command\" { vars.sleep_time = 1 }
template CheckCommand \"ido-check-command\" { }
template EventCommand \"plugin-event-command\" default { }
template NotificationCommand \"plugin-notification-command\" default { }
template TimePeriod \"legacy-timeperiod\" default { }
";

fn of(name: &str, groups: &[&[Attribute]]) -> Type {
    let field = |attribute: &Attribute, is_state: bool| Field {
        name: attribute.name.to_owned(),
        kind: attribute.kind,
        required: attribute.required,
        unset: attribute.unset,
        check: attribute.check,
        is_state,
    };
    let state = STATES.iter().filter(|(owners, _)| owners.contains(&name));
    let state = state.flat_map(|(_, attributes)| *attributes).chain(STATE);
    let said = groups.iter().copied().chain([COMMON]).flatten();
    let fields = said.map(|a| field(a, false)).chain(state.map(|a| field(a, true))).collect();
    let rules = Rules { converts: true, ..rules(name) };
    let has_variables = groups.iter().copied().flatten().any(|a| a.name == "vars");
    let extends = EXTENDS.iter().find(|(_, types)| types.contains(&name)).map(|(base, _)| *base);
    let extends = extends.unwrap_or(if has_variables { "CustomVarObject" } else { "ConfigObject" });
    Type { name: name.to_owned(), base: base(extends), fields, rules: Some(rules) }
}

/// The order in which types are made, one a stage: an object sees those of the types before its own.
/// Icinga 2.13.6 makes them in this order (seen by what `get_object()` finds in each type's bodies);
/// what is not named here comes first.
const ORDER: [&str; 13] = [
    "UserGroup",
    "TimePeriod",
    "User",
    "ServiceGroup",
    "Zone",
    "NotificationCommand",
    "HostGroup",
    "EventCommand",
    "Endpoint",
    "ApiUser",
    "CheckCommand",
    "Host",
    "Service",
];

/// Types that stand on all others.
const LAST: [&str; 5] = ["Dependency", "Notification", "ScheduledDowntime", "Comment", "Downtime"];

fn stage(name: &str) -> u8 {
    let at = ORDER.iter().position(|other| *other == name).map(|at| at + 1);
    let last = LAST.contains(&name).then_some(ORDER.len() + 1);
    at.or(last).unwrap_or(0) as u8
}

fn rules(name: &str) -> Rules {
    Rules { stage: stage(name), ..rules_of_names(name) }
}

/// Members of groups are known before rules are asked that may want to know.
fn rules_of_names(name: &str) -> Rules {
    let on_both = Rules {
        naming: Naming::Composite,
        targets: vec!["Host", "Service"],
        target_names: vec![("Service", "service_name"), ("Host", "host_name")],
        ..Rules::default()
    };
    match name {
        "Host" => Rules { variable: "host", ..Rules::default() },
        "User" => Rules { variable: "user", ..Rules::default() },
        "Service" => Rules {
            naming: Naming::Composite,
            targets: vec!["Host"],
            variable: "service",
            target_names: vec![("Host", "host_name")],
            ..Rules::default()
        },
        "HostGroup" => Rules { members: Some("Host"), ..Rules::default() },
        "ServiceGroup" => Rules { members: Some("Service"), ..Rules::default() },
        "UserGroup" => Rules { members: Some("User"), ..Rules::default() },
        "Dependency" => Rules {
            target_names: vec![("Service", "child_service_name"), ("Host", "child_host_name")],
            // "Dependencies for Agent Checks": the parent is on the same host.
            preset_names: vec![("Host", "parent_host_name")],
            ..on_both
        },
        "Notification" | "ScheduledDowntime" => on_both,
        "Comment" | "Downtime" => Rules { targets: Vec::new(), ..on_both },
        "Zone" => Rules { after: Some(check_zone), ..Rules::default() },
        "Endpoint" => Rules { after: Some(check_endpoint), ..Rules::default() },
        _ => Rules::default(),
    }
}

/// `Validation failed for object 'a' of type 'Host'; Attribute 'b': ...`
fn invalid(run: &Interpreter<'_>, object: &Object, place: Place, what: &str) -> Box<Fault> {
    let (name, of_type) = (run.heap.text(object.name), &run.types.get(object.of_type).name);
    Fault::at(place, format!("Validation failed for object '{name}' of type '{of_type}'{what}"))
}

/// Checks the attributes of an object.
///
/// # Errors
/// The first attribute, by name, that is not as it must be; else what is wrong with the whole.
pub(super) fn check(run: &Interpreter<'_>, object: &Object) -> Result<(), Box<Fault>> {
    let said = object.attributes.iter().filter_map(|(key, value)| {
        let field = run.known_field(object.of_type, key)?;
        (!field.is_state).then_some((field, value))
    });
    let mut fields: Vec<(&Field, Value)> = Vec::with_capacity(object.attributes.len());
    fields.extend(said.chain(missing(run, object)));
    fields.sort_unstable_by(|a, b| a.0.name.cmp(&b.0.name));
    for (field, value) in fields {
        let at = |what: String| {
            let place = place_of(&run.heap, object, &field.name);
            invalid(run, object, place, &format!("; {what}"))
        };
        check_field(run, field, value)
            .map_err(|what| at(format!("Attribute '{}': {what}", field.name)))?;
        let subject = Subject { run, object };
        subject.check(field.check, value).map_err(|wrong| at(wrong.of(&field.name)))?;
        check_relations(run, object, field, value)?;
    }
    check_whole(run, object)
}

/// Attributes that must be there, that nobody set, and that have no value of their own.
fn missing<'r>(
    run: &'r Interpreter<'_>,
    object: &'r Object,
) -> impl Iterator<Item = (&'r Field, Value)> + 'r {
    let fields = &run.types.get(object.of_type).fields;
    let required = run.required_attributes(object.of_type);
    let unset = required.iter().filter(|a| object.attributes.get(a.name).is_none());
    unset.map(|attribute| (&fields[usize::from(attribute.field)], attribute.unset))
}

/// Whether a value is there where one must be, and names what there is.
fn check_field(run: &Interpreter<'_>, field: &Field, value: Value) -> Result<(), String> {
    let is_empty = match value {
        Value::Empty => true,
        Value::String(text) => run.heap.bytes(text).is_empty(),
        _ => false,
    };
    match field.kind {
        _ if field.required && is_empty => Err("Attribute must not be empty.".to_owned()),
        Kind::Name(of_type) | Kind::Names(of_type) => check_names(run, of_type, value),
        _ => Ok(()),
    }
}

/// Names of objects must be names of objects.
fn check_names(run: &Interpreter<'_>, of_type: &str, value: Value) -> Result<(), String> {
    let missing = |name: &str| Err(format!("Object '{name}' of type '{of_type}' does not exist."));
    match value {
        Value::String(name) if !run.heap.bytes(name).is_empty() => {
            match super::exists(run, of_type, name) {
                true => Ok(()),
                false => missing(&run.heap.text(name)),
            }
        }
        Value::Array(id) => run.heap.array(id).items.iter().try_for_each(|item| {
            let bytes = crate::text::string(&run.heap, run.types, *item);
            match run.heap.find(&bytes).is_some_and(|name| super::exists(run, of_type, name)) {
                true => Ok(()),
                false => missing(&String::from_utf8_lossy(&bytes)),
            }
        }),
        _ => Ok(()),
    }
}

/// An attribute of an object that is set to something.
fn set(run: &Interpreter<'_>, object: &Object, name: &str) -> Option<StringId> {
    match object.attributes.get(run.heap.find(name.as_bytes())?)? {
        Value::String(text) => Some(text).filter(|text| !run.heap.bytes(*text).is_empty()),
        _ => None,
    }
}

/// What an attribute must be because of others.
fn check_relations(
    run: &Interpreter<'_>,
    object: &Object,
    field: &Field,
    value: Value,
) -> Result<(), Box<Fault>> {
    match (field.check, value) {
        (Check::Service, Value::String(service)) if !run.heap.bytes(service).is_empty() => {
            check_service(run, object, &field.name, service)
        }
        (Check::Endpoint, Value::String(endpoint)) if !run.heap.bytes(endpoint).is_empty() => {
            check_command_endpoint(run, object, endpoint)
        }
        _ => Ok(()),
    }
}

/// A service belongs to the host beside it: `child_service_name` to `child_host_name`.
fn check_service(
    run: &Interpreter<'_>,
    object: &Object,
    attribute: &str,
    service: StringId,
) -> Result<(), Box<Fault>> {
    let host = set(run, object, &attribute.replace("service", "host"));
    let full = host.map(|host| format!("{}!{}", run.heap.text(host), run.heap.text(service)));
    let found = full.and_then(|full| run.heap.find(full.as_bytes()));
    let of_type = run.types.find(b"Service");
    if found.zip(of_type).and_then(|(name, of_type)| run.find_object(of_type, name)).is_some() {
        return Ok(());
    }
    let name = run.heap.text(object.name);
    let which = attribute.strip_suffix("service_name").unwrap_or_default().replace('_', " ");
    let message = match run.types.get(object.of_type).name.as_str() {
        "Notification" => {
            "Notification object refers to a host/service which doesn't exist.".to_owned()
        }
        of_type => {
            format!("{of_type} '{name}' references a {which}host/service which doesn't exist.")
        }
    };
    Err(Fault::at(place_of(&run.heap, object, attribute), message))
}

/// Checks that run elsewhere run in the object's zone or right below it.
fn check_command_endpoint(
    run: &Interpreter<'_>,
    object: &Object,
    endpoint: StringId,
) -> Result<(), Box<Fault>> {
    if run.types.get(object.of_type).name == "Notification" {
        return Ok(());
    }
    let wrong = |what: String| {
        let place = place_of(&run.heap, object, "command_endpoint");
        Err(invalid(run, object, place, &format!("; Attribute 'command_endpoint': {what}")))
    };
    let Some(zone) = set(run, object, "zone") else {
        return wrong("Checkable with command endpoint requires a zone. Please check the troubleshooting documentation.".to_owned());
    };
    let zones = run.types.find(b"Zone").map(|of_type| run.objects_of(of_type)).unwrap_or_default();
    let is_near = zones.into_iter().map(|id| run.heap.object(id)).any(|other| {
        let is_below = other.name == zone || set(run, other, "parent") == Some(zone);
        is_below && has_item(&run.heap, other, "endpoints", endpoint)
    });
    match is_near {
        true => Ok(()),
        false => wrong(format!(
            "Command endpoint must be in zone '{}' or in a direct child zone thereof.",
            run.heap.text(zone)
        )),
    }
}

fn has_item(heap: &Heap<'_>, object: &Object, attribute: &str, item: StringId) -> bool {
    let value = heap.find(attribute.as_bytes()).and_then(|key| object.attributes.get(key));
    match value {
        Some(Value::Array(id)) => heap
            .array(id)
            .items
            .iter()
            .any(|other| matches!(other, Value::String(name) if *name == item)),
        _ => false,
    }
}

/// What is wrong with an object whose attributes are all right.
fn check_whole(run: &Interpreter<'_>, object: &Object) -> Result<(), Box<Fault>> {
    let attribute = |name: &str| {
        let key = run.heap.find(name.as_bytes());
        key.and_then(|key| object.attributes.get(key)).unwrap_or(Value::Empty)
    };
    let has_items = |name: &str| ops::is_true(&run.heap, attribute(name));
    let is_set = |name: &str| !matches!(attribute(name), Value::Empty);
    match run.types.get(object.of_type).name.as_str() {
        "Notification" if !has_items("users") && !has_items("user_groups") => {
            let what = ": Validation failed: No users/user_groups specified.";
            Err(invalid(run, object, object.origin, what))
        }
        "IcingaApplication" if run.heap.bytes(object.name) != b"app" => {
            let what = "; Attribute 'name': Application object must be named 'app'.";
            Err(invalid(run, object, object.origin, what))
        }
        "CheckCommand" | "EventCommand" | "NotificationCommand"
            if is_set("arguments") && !is_set("command") =>
        {
            let what = format!("; {}", check::no_array().of("command"));
            Err(invalid(run, object, object.origin, &what))
        }
        of_type @ ("Host" | "Service") => check_is_in_one_zone(run, object, of_type),
        _ => Ok(()),
    }
}

/// What is checked is checked in one zone, not in all.
fn check_is_in_one_zone(
    run: &Interpreter<'_>,
    object: &Object,
    of_type: &str,
) -> Result<(), Box<Fault>> {
    let zone = set(run, object, "zone").zip(run.types.find(b"Zone"));
    let Some(zone) = zone.and_then(|(name, of_type)| run.find_object(of_type, name)) else {
        return Ok(());
    };
    let zone = run.heap.object(zone);
    if !is_global(&run.heap, zone) {
        return Ok(());
    }
    let (name, zone) = (run.heap.text(object.name), run.heap.text(zone.name));
    let message = format!("{of_type} '{name}' cannot be put into global zone '{zone}'.");
    Err(Fault::at(object.origin, message))
}

/// Whether a zone is one whose files all others get.
fn is_global(heap: &Heap<'_>, zone: &Object) -> bool {
    let value = heap.find(b"global").and_then(|key| zone.attributes.get(key));
    matches!(value, Some(Value::Boolean(true)))
}

/// The zone that is above another one.
fn parent<'w>(
    world: &World,
    heap: &'w Heap<'_>,
    types: &Types,
    zone: &Object,
) -> Option<&'w Object> {
    let Value::String(parent) = zone.attributes.get(heap.find(b"parent")?)? else { return None };
    let id = world.objects.get(&(types.find(b"Zone")?, parent))?;
    Some(heap.object(*id))
}

/// Zones form trees, and what is global stands in none.
fn check_zone(world: &World, types: &Types, id: ObjectId) -> Result<(), Box<Fault>> {
    let heap = Heap::over(&world.layer);
    let zone = heap.object(id);
    let mut above = parent(world, &heap, types, zone);
    if above.is_some_and(|above| is_global(&heap, above)) {
        let name = heap.text(zone.name);
        let message = format!("Zone '{name}' can not have a global zone as parent.");
        return Err(Fault::at(zone.origin, message));
    }
    for _ in 0..ZONE_DEPTH_MAX {
        let Some(next) = above else { return Ok(()) };
        above = parent(world, &heap, types, next);
    }
    let message =
        "Infinite recursion detected while resolving zone graph. Check your zone hierarchy.";
    Err(Fault::at(zone.origin, message))
}

/// How deep zones may be nested, as in the installed program.
const ZONE_DEPTH_MAX: usize = 32;

/// An endpoint is in one zone.
fn check_endpoint(world: &World, types: &Types, id: ObjectId) -> Result<(), Box<Fault>> {
    let heap = Heap::over(&world.layer);
    let endpoint = heap.object(id);
    let zones = types.find(b"Zone").and_then(|of_type| world.by_type.get(&of_type));
    let count = |zone: &ObjectId| {
        let zone = heap.object(*zone);
        let value = heap.find(b"endpoints").and_then(|key| zone.attributes.get(key));
        let Some(Value::Array(id)) = value else { return 0 };
        let items = heap.array(id).items.iter();
        items.filter(|item| matches!(item, Value::String(name) if *name == endpoint.name)).count()
    };
    let name = heap.text(endpoint.name);
    let message = match zones.into_iter().flatten().map(count).sum::<usize>() {
        1 => return Ok(()),
        0 => format!("Endpoint '{name}' does not belong to a zone."),
        _ => format!("Endpoint '{name}' is in more than one zone."),
    };
    Err(Fault::at(endpoint.origin, message))
}
