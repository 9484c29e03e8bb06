//! Warrener's own schema: machines, containers and groups are targets; units are products.
//!
//! The settings of units are systemd's, by their names, from the table of `warren-unit`; there is
//! no other list of them.

use warren_unit::UnitType;
use warren_unit::settings::{SETTINGS, Section, Setting};

use super::{field, place_of};
use crate::eval::{Fault, Interpreter};
use crate::types::{Kind, Naming, Rules, Type};
use crate::value::{Object, Value};

/// Types that rules can be applied to.
pub const TARGETS: [&str; 3] = [CONTAINER, MACHINE, GROUP];

/// The attribute of a product that is no unit of its own but a drop-in, with the unit that it is for.
pub const DROP_IN_OF: &str = "drop_in_of";

/// The type of containers.
pub const CONTAINER: &str = "Container";

/// The type of groups of containers.
pub const GROUP: &str = "Group";

/// The type of hosts.
const MACHINE: &str = "Machine";

/// What is known of a host, where rules are evaluated for one of many: in rules for machines the variable `machine` is
/// the object.
const MACHINE_FACTS: [(&str, Kind); 7] = [
    ("capacity", Kind::Number),
    ("copies", Kind::Dictionary),
    ("cpus", Kind::Number),
    ("kernel", Kind::Text),
    ("labels", Kind::Dictionary),
    ("memory", Kind::Number),
    ("version", Kind::Text),
];

/// How many copies of a container run on all hosts together.
pub const REPLICAS: &str = "replicas";

/// The label of hosts over whose values the copies are spread.
pub const SPREAD: &str = "spread";

/// Copies of a container.
pub const REPLICAS_MAX: u32 = 10_000;

/// Sections of a unit that attributes are looked for in, in this order.
fn sections(unit_type: UnitType) -> [Section; 3] {
    [Section::Type(unit_type), Section::Unit, Section::Install]
}

/// The section that a setting of a unit type belongs to.
pub fn section_of(unit_type: UnitType, name: &str) -> Option<Section> {
    sections(unit_type).into_iter().find(|section| section.setting(name).is_some())
}

/// The types, in the order in which objects are made.
pub fn types() -> Vec<Type> {
    let mut out = vec![
        target(MACHINE, "machine", 0, None),
        target(CONTAINER, "container", 0, None),
        target(GROUP, "group", 1, Some(CONTAINER)),
    ];
    let products =
        UnitType::ALL.into_iter().filter(|t| !matches!(t, UnitType::Device | UnitType::Scope));
    out.extend(products.map(product));
    out
}

fn target(name: &str, variable: &'static str, stage: u8, members: Option<&'static str>) -> Type {
    let fields = [
        ("display_name", Kind::Text),
        ("groups", Kind::Array),
        ("name", Kind::Text),
        ("type", Kind::ReadOnly),
        ("vars", Kind::Dictionary),
    ];
    // Of a container with copies, one host runs some of all.
    let copies = [(REPLICAS, Kind::Count), (SPREAD, Kind::Text)];
    let copies = copies.into_iter().filter(|_| name == CONTAINER);
    let facts = MACHINE_FACTS.into_iter().filter(|_| name == MACHINE);
    let mut fields: Vec<(&str, Kind)> = fields.into_iter().chain(copies).chain(facts).collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    Type {
        name: name.to_owned(),
        base: None,
        fields: fields.into_iter().map(|(name, kind)| field(name, kind)).collect(),
        rules: Some(Rules { stage, members, variable, ..Rules::default() }),
    }
}

/// A unit type: `Service`, with all settings that its sections have.
fn product(unit_type: UnitType) -> Type {
    let mut fields = vec![
        field("container", Kind::Name("Container")),
        field(DROP_IN_OF, Kind::Text),
        field("group", Kind::Name("Group")),
        field("machine", Kind::Name("Machine")),
        field("name", Kind::Text),
        field("type", Kind::ReadOnly),
        field("vars", Kind::Dictionary),
    ];
    let mut names: Vec<&str> = SETTINGS.iter().map(|setting: &Setting| setting.name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let mut found = sections(unit_type).into_iter().filter_map(|s| s.setting(name));
        if let Some(id) = found.next() {
            fields.push(field(name, Kind::Setting(id)));
        }
    }
    let rules = Rules {
        stage: 2,
        naming: Naming::Prefixed,
        targets: TARGETS.to_vec(),
        members: None,
        variable: unit_type.suffix(),
        target_names: vec![("Container", "container"), ("Machine", "machine"), ("Group", "group")],
        ..Rules::default()
    };
    Type { name: unit_type.section().to_owned(), base: None, fields, rules: Some(rules) }
}

/// Checks the attributes of an object.
///
/// # Errors
/// The first attribute, by name, that its type does not take; else a name of nothing.
pub(super) fn check(run: &Interpreter<'_>, object: &Object) -> Result<(), Box<Fault>> {
    let owner = || {
        let of_type = &run.types.get(object.of_type).name;
        format!("{of_type} '{}'", run.heap.text(object.name))
    };
    let known = |(key, value)| Some((run.known_field(object.of_type, key)?, value));
    let fields = || object.attributes.iter().filter_map(known);
    let wrong = fields().filter_map(|(field, value)| {
        let expected = fits(run, field.kind, value).err()?;
        Some((&field.name, expected, value))
    });
    if let Some((attribute, expected, value)) = wrong.min_by_key(|(attribute, ..)| *attribute) {
        let (found, owner) = (run.type_of(value), owner());
        let message =
            format!("attribute '{attribute}' of {owner} must be {expected}, not of type '{found}'");
        return Err(Fault::at(place_of(&run.heap, object, attribute), message));
    }
    for (field, value) in fields() {
        let (Kind::Name(of_type), Value::String(name)) = (field.kind, value) else { continue };
        // What a rule made it for is there.
        let target = object.target.map(|target| run.heap.object(target));
        let is_target = target.is_some_and(|target| {
            target.name == name && run.types.get(target.of_type).name == of_type
        });
        if !is_target && let Some(of_type) = run.types.find(of_type.as_bytes()) {
            // When that object is edited, this one is to be looked at again.
            run.note_read(of_type, Some(name));
        }
        if !is_target && !super::exists(run, of_type, name) {
            let (attribute, name) = (&field.name, run.heap.text(name));
            let message =
                format!("attribute '{attribute}' of {}: there is no {of_type} '{name}'", owner());
            return Err(Fault::at(place_of(&run.heap, object, attribute), message));
        }
    }
    Ok(())
}

/// Whether a kind takes a value; else what it takes.
fn fits(run: &Interpreter<'_>, kind: Kind, value: Value) -> Result<(), &'static str> {
    use Value::{Array, Boolean, Dictionary, Empty, Function, Number};
    let is_number = |value: Value| match value {
        Value::String(_) => crate::ops::to_number(&run.heap, run.types, value).is_ok(),
        value => matches!(value, Number(_) | Boolean(_)),
    };
    let is_text = |value: &Value| matches!(value, Value::String(_) | Number(_) | Boolean(_));
    let fits = match (kind, value) {
        (_, Empty) | (Kind::Any | Kind::ReadOnly, _) => return Ok(()),
        (Kind::Text | Kind::Name(_), value) => (is_text(&value), "a text"),
        (Kind::Number | Kind::Integer, value) => (is_number(value), "a number"),
        (Kind::Count, Number(n)) => {
            (n.fract() == 0.0 && (0.0..=f64::from(REPLICAS_MAX)).contains(&n), "from 0 to 10,000")
        }
        (Kind::Count, _) => (false, "a number"),
        (Kind::Boolean, value) => (matches!(value, Boolean(_) | Number(_)), "true or false"),
        (Kind::Array | Kind::Names(_), value) => (matches!(value, Array(_)), "an array"),
        (Kind::Dictionary, value) => (matches!(value, Dictionary(_)), "a dictionary"),
        (Kind::Function, value) => (matches!(value, Function(_)), "a function"),
        (Kind::Setting(_), Array(id)) => {
            let all = run.heap.array(id).items.iter().all(is_text);
            (all, "a text or an array of texts")
        }
        (Kind::Setting(_), Function(_)) => (false, "a text or an array of texts"),
        (Kind::Setting(_), value) => (is_text(&value), "a text or an array of texts"),
    };
    if fits.0 { Ok(()) } else { Err(fits.1) }
}
