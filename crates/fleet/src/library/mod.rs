//! The library: functions, methods, constants and constructors ("Library Reference").
//!
//! [`BUILTINS`] is the one table of functions; [`install`] makes the namespaces and prototypes of
//! a run from it. To add a function, add a row.

mod array;
mod call;
pub mod cidr;
mod dictionary;
mod fleet;
pub mod glob;
mod icinga;
mod json;
mod math;
mod performance;
pub mod regex;
mod string;
mod system;
mod table;

pub use call::{Builtin, Call};
pub use table::BUILTINS;

use call::{bytes, number, words};

use crate::eval::{Attribute, Interpreter, Outcome, Roots};
use crate::heap::Heap;
use crate::ops;
use crate::source::Place;
use crate::types::{Entry, Types, Unset};
use crate::value::{BuiltinId, Dictionary, DictionaryId, Rare, TypeId, Value, Writes};

/// The numbers of `match()`'s modes.
const CONSTANTS: &[(&str, f64)] = &[
    ("MatchAll", 0.0),
    ("MatchAny", 1.0),
    ("GlobFile", 1.0),
    ("GlobDirectory", 2.0),
    ("LogDebug", 0.0),
    ("LogNotice", 1.0),
    ("LogInformation", 2.0),
    ("LogWarning", 3.0),
    ("LogCritical", 4.0),
];

/// States and kinds of notifications: texts that are their own names.
const STATES: &[&str] = &[
    "Acknowledgement",
    "Critical",
    "Custom",
    "Down",
    "DowntimeEnd",
    "DowntimeNoChildren",
    "DowntimeNonTriggeredChildren",
    "DowntimeRemoved",
    "DowntimeStart",
    "DowntimeTriggeredChildren",
    "FlappingEnd",
    "FlappingStart",
    "OK",
    "Problem",
    "Recovery",
    "Unknown",
    "Up",
    "Warning",
];

/// Numbers of states, and of what a database keeps.
const NUMBERS: &[(&str, f64)] = &[
    ("DbCatAcknowledgement", 4.0),
    ("DbCatCheck", 256.0),
    ("DbCatComment", 8.0),
    ("DbCatConfig", 1.0),
    ("DbCatDowntime", 16.0),
    ("DbCatEventHandler", 32.0),
    ("DbCatEverything", -1.0),
    ("DbCatExternalCommand", 64.0),
    ("DbCatFlapping", 128.0),
    ("DbCatLog", 512.0),
    ("DbCatNotification", 1024.0),
    ("DbCatProgramStatus", 2048.0),
    ("DbCatRetention", 4096.0),
    ("DbCatState", 2.0),
    ("DbCatStateHistory", 8192.0),
    ("HostDown", 1.0),
    ("HostUp", 0.0),
    ("ServiceCritical", 2.0),
    ("ServiceOK", 0.0),
    ("ServiceUnknown", 3.0),
    ("ServiceWarning", 1.0),
];

/// What the system's log calls its facilities: `FacilityUser` is "LOG_USER".
const FACILITIES: &[&str] = &[
    "Auth", "AuthPriv", "Cron", "Daemon", "Ftp", "Kern", "Local0", "Local1", "Local2", "Local3",
    "Local4", "Local5", "Local6", "Local7", "Lpr", "Mail", "News", "Syslog", "User", "Uucp",
];

const MATH: &[(&str, f64)] = &[
    ("E", std::f64::consts::E),
    ("LN2", std::f64::consts::LN_2),
    ("LN10", std::f64::consts::LN_10),
    ("LOG2E", std::f64::consts::LOG2_E),
    ("LOG10E", std::f64::consts::LOG10_E),
    ("PI", std::f64::consts::PI),
    ("SQRT1_2", std::f64::consts::FRAC_1_SQRT_2),
    ("SQRT2", std::f64::consts::SQRT_2),
];

/// Makes the namespaces and prototypes of a run. `constants` are further members of globals, or with
/// `Configuration.` or `System.` before them of those, or other values of what is there anyhow.
pub fn install(heap: &mut Heap<'_>, types: &Types, constants: &[(&str, &str)]) -> Roots {
    let [globals, system, configuration, all_types, icinga, math, json] =
        std::array::from_fn(|_| heap.make_dictionary(Dictionary::default()));
    let prototypes: Vec<DictionaryId> =
        types.ids().map(|_| heap.make_dictionary(Dictionary::default())).collect();
    for (index, builtin) in BUILTINS.iter().enumerate() {
        let (scope, name) = builtin.scope_and_name();
        let scope = match scope {
            "System" => system,
            "Math" => math,
            "Json" => json,
            "Icinga" => icinga,
            // Functions of rules for units; configurations of Icinga have none of these.
            "Warrener" if types.find(b"Container").is_none() => continue,
            "Warrener" => system,
            scope => {
                let of_type = types.find(scope.as_bytes()).expect("methods belong to a type");
                prototypes[of_type.0 as usize]
            }
        };
        member(heap, scope, name, Value::Builtin(BuiltinId(index as u32)));
    }
    CONSTANTS.iter().for_each(|(name, value)| member(heap, system, name, Value::Number(*value)));
    MATH.iter().for_each(|(name, value)| member(heap, math, name, Value::Number(*value)));
    for name in STATES {
        let value = heap.string(name.as_bytes());
        member(heap, icinga, name, value);
    }
    NUMBERS.iter().for_each(|(name, value)| member(heap, icinga, name, Value::Number(*value)));
    for name in FACILITIES {
        let value = heap.string(format!("LOG_{}", name.to_uppercase()).as_bytes());
        member(heap, system, &format!("Facility{name}"), value);
    }
    for id in types.ids() {
        member(heap, all_types, &types.get(id).name, Value::Type(id));
        intern_rules(heap, types, id);
    }
    let type_names = types.ids().map(|id| heap.string(types.get(id).name.as_bytes())).collect();
    let (name, kind) = (heap.intern(b"name"), heap.intern(b"type"));
    for (name, space) in [("Math", math), ("Json", json), ("Configuration", configuration)] {
        member(heap, system, name, Value::Namespace(space));
    }
    for (name, space) in [("System", system), ("Types", all_types), ("Icinga", icinga)] {
        member(heap, globals, name, Value::Namespace(space));
    }
    for space in [system, configuration, all_types, icinga, math, json] {
        if let Ok(space) = heap.dictionary_mut(space) {
            space.rare.get_or_insert_with(Box::<Rare>::default).writes = Writes::Nothing;
        }
    }
    let imports = vec![system, configuration, all_types, icinga];
    for (name, value) in constants {
        let value = heap.string(value.as_bytes());
        let (space, name) = match name.split_once('.') {
            Some(("Configuration", name)) => (Some(configuration), name),
            Some(("System", name)) => (Some(system), name),
            _ => (None, *name),
        };
        let name = heap.intern(name.as_bytes());
        // A name that is there already has another value from now on, wherever it is.
        let has = |space: &&DictionaryId| heap.dictionary(**space).items.get(name).is_some();
        let space = space.or_else(|| imports.iter().find(has).copied()).unwrap_or(globals);
        set(heap, space, name, value);
    }
    let attributes: Vec<Vec<Attribute>> =
        types.ids().map(|id| attributes(heap, types, (id, configuration))).collect();
    let is_required = |id: TypeId, a: &Attribute| {
        let field = &types.get(id).fields[usize::from(a.field)];
        field.required && field.unset != Unset::Own
    };
    let of_type = |(all, id): (&Vec<Attribute>, TypeId)| {
        all.iter().copied().filter(|attribute| is_required(id, attribute)).collect()
    };
    let required = attributes.iter().zip(types.ids()).map(of_type).collect();
    Roots { globals, imports, prototypes, attributes, required, type_names, name, kind }
}

/// A constant member.
fn member(heap: &mut Heap<'_>, space: DictionaryId, name: &str, value: Value) {
    let name = heap.intern(name.as_bytes());
    set(heap, space, name, value);
    if let Ok(space) = heap.dictionary_mut(space) {
        let rare = space.rare.get_or_insert_with(Box::<Rare>::default);
        let at = rare.constants.partition_point(|other| *other < name);
        rare.constants.insert(at, name);
    }
}

fn set(heap: &mut Heap<'_>, space: DictionaryId, name: crate::value::StringId, value: Value) {
    if let Ok(space) = heap.dictionary_mut(space) {
        space.items.set(name, value);
    }
}

/// Naming a target makes no string: all such names are there from the beginning.
fn intern_rules(heap: &mut Heap<'_>, types: &Types, id: TypeId) {
    let Some(rules) = &types.get(id).rules else { return };
    heap.intern(rules.variable.as_bytes());
    for (_, name) in &rules.target_names {
        heap.intern(name.as_bytes());
    }
}

/// The attributes of a type by the numbers of their names.
fn attributes(
    heap: &mut Heap<'_>,
    types: &Types,
    (id, configuration): (TypeId, DictionaryId),
) -> Vec<Attribute> {
    let mut out = Vec::new();
    for (at, field) in types.get(id).fields.iter().enumerate() {
        let unset = match field.unset {
            Unset::Null | Unset::Own => Value::Empty,
            Unset::Number(value) => Value::Number(value),
            Unset::Boolean(value) => Value::Boolean(value),
            Unset::Text(text) => heap.string(text.as_bytes()),
            Unset::NoItems => heap.array_of(Vec::new(), Place::default()),
            Unset::Entries(entries) => of_entries(heap, entries),
            Unset::Below(directory, path) => below(heap, configuration, directory, path),
            // These are the object's own.
            Unset::ItsName | Unset::FullName | Unset::Owner | Unset::Location => Value::Empty,
        };
        let name = heap.intern(field.name.as_bytes());
        out.push(Attribute { name, field: at as u16, unset });
    }
    out.sort_by_key(|attribute| attribute.name);
    out
}

fn of_entries(heap: &mut Heap<'_>, entries: &[(&str, Entry)]) -> Value {
    let of = |(key, entry): &(&str, Entry)| {
        let value = match entry {
            Entry::Text(text) => heap.string(text.as_bytes()),
            Entry::Entries(entries) => of_entries(heap, entries),
        };
        (heap.intern(key.as_bytes()), value)
    };
    let items = entries.iter().map(of).collect();
    heap.dictionary_of(items, Place::default())
}

/// A path below a directory that a member of `Configuration` names; empty without one.
fn below(heap: &mut Heap<'_>, configuration: DictionaryId, directory: &str, path: &str) -> Value {
    let name = heap.find(directory.as_bytes());
    let known = name.and_then(|name| heap.dictionary(configuration).items.get(name));
    let bytes = match known {
        Some(Value::String(directory)) => [heap.bytes(directory), path.as_bytes()].concat(),
        _ => Vec::new(),
    };
    heap.string(&bytes)
}

/// A type called as a function: a new value, or one made of another.
pub(crate) fn construct(run: &mut Interpreter<'_>, id: TypeId, call: &Call<'_>) -> Outcome {
    match (id, call.given(0)) {
        (Types::NUMBER, None) => Ok(Value::Number(0.0)),
        (Types::BOOLEAN, None) => Ok(Value::Number(0.0)),
        (Types::STRING, None) => Ok(run.heap.string(b"")),
        (Types::NUMBER, Some(value)) => number(run, call, value).map(Value::Number),
        (Types::BOOLEAN, Some(value)) => Ok(Value::Boolean(ops::is_true(&run.heap, value))),
        (Types::STRING, Some(value)) => {
            let bytes = bytes(run, value);
            Ok(run.heap.string(&bytes))
        }
        (Types::DATE_TIME, _) => date_time(run, call),
        (Types::ARRAY, None) => Ok(run.heap.array_of(Vec::new(), call.place)),
        (Types::DICTIONARY, None) => Ok(run.heap.dictionary_of(Default::default(), call.place)),
        (Types::NAMESPACE, None) => {
            let origin = call.place;
            let made = Dictionary { origin, ..Dictionary::default() };
            Ok(Value::Namespace(run.heap.make_dictionary(made)))
        }
        (Types::PERFDATA_VALUE, None) => Ok(performance::value(run, call.place)),
        (_, Some(_)) => Err(call.fail("Constructor does not take any arguments.")),
        (_, None) => {
            let name = &run.types.get(id).name;
            Err(call.fail(format!("values of type '{name}' cannot be made by a call")))
        }
    }
}

/// `DateTime()`, `DateTime(seconds)`, `DateTime(year, month, day[, hours, minutes, seconds])`;
/// dates are UTC.
fn date_time(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let mut parts = [0.0; 6];
    let given = call.arguments.len();
    if !matches!(given, 0 | 1 | 3 | 6) {
        return Err(call.fail("Invalid number of arguments for the DateTime constructor."));
    }
    for (part, value) in parts.iter_mut().zip(call.arguments) {
        *part = match value {
            Value::DateTime(at) => *at,
            value => number(run, call, *value)?,
        };
    }
    let [year, month, day, hours, minutes, seconds] = parts;
    Ok(Value::DateTime(match given {
        0 => run.outside.now(),
        1 => year,
        _ => {
            // Beyond these bounds there are no calendars.
            let year = year.clamp(-100_000.0, 100_000.0) as i64;
            let [month, day] = [month, day].map(|part| part.clamp(-1e6, 1e6) as i64);
            let days = crate::time::days_of(year, month, day);
            days as f64 * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds
        }
    }))
}

// What functions need again and again.
