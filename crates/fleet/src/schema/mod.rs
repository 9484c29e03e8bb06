//! The types of objects that a configuration is about, and what their attributes may hold.

pub mod icinga;
mod icinga_table;
pub mod warrener;

use crate::eval::{Fault, Interpreter};
use crate::source::Place;
use crate::types::{Field, Kind, Unset};
use crate::value::{Object, ObjectId, Value};

/// An attribute that need not be set.
pub(crate) fn field(name: &str, kind: Kind) -> Field {
    Field { name: name.to_owned(), kind, required: false, unset: Unset::Null }
}

/// Where an attribute of an object was set last; else where the object is defined.
pub fn place_of(run_heap: &crate::heap::Heap<'_>, object: &Object, attribute: &str) -> Place {
    let hints = object.hints.iter().rev();
    let mut of_attribute =
        hints.filter(|hint| run_heap.bytes(hint.attribute) == attribute.as_bytes());
    of_attribute.next().map_or(object.origin, |hint| hint.place)
}

/// Checks the attributes of an object that was just made.
///
/// # Errors
/// The first attribute, by name, whose value its type does not take; else one that is missing.
pub fn check(run: &Interpreter<'_>, id: ObjectId) -> Result<(), Box<Fault>> {
    let object = run.heap.object(id);
    let of_type = run.types.get(object.of_type);
    let name = || run.heap.text(object.name);
    let wrong = object.attributes.iter().filter_map(|(key, value)| {
        let field = run.known_field(object.of_type, key)?;
        fits(run, field.kind, value).err().map(|expected| (&field.name, expected, value))
    });
    if let Some((attribute, expected, value)) = wrong.min_by_key(|(attribute, ..)| *attribute) {
        let (found, owner) = (run.type_of(value), format!("{} '{}'", of_type.name, name()));
        let message =
            format!("attribute '{attribute}' of {owner} must be {expected}, not of type '{found}'");
        return Err(Fault::at(place_of(&run.heap, object, attribute), message));
    }
    if let Some((key, _)) = object.attributes.iter().find(|(_, value)| !is_shallow(run, *value)) {
        let attribute = run.heap.text(key);
        let message = format!(
            "attribute '{attribute}' of '{}' is nested too deep or contains itself",
            name()
        );
        return Err(Fault::at(place_of(&run.heap, object, &attribute), message));
    }
    for field in of_type.fields.iter().filter(|field| field.required) {
        let key = run.heap.find(field.name.as_bytes());
        let value = key.and_then(|key| object.attributes.get(key)).unwrap_or(Value::Empty);
        if matches!(value, Value::Empty) {
            let message =
                format!("{} '{}' has no attribute '{}'", of_type.name, name(), field.name);
            return Err(Fault::at(object.origin, message));
        }
    }
    Ok(())
}

/// How deep the values of attributes may be nested.
const VALUE_DEPTH_MAX: usize = 100;

/// How many items the values of one attribute may have, shared ones counted each time.
const VALUE_ITEMS_MAX: usize = 1 << 20;

/// Whether a value ends, soon enough to be copied and shown.
fn is_shallow(run: &Interpreter<'_>, value: Value) -> bool {
    let mut level = vec![value];
    let mut items = 0;
    for _ in 0..VALUE_DEPTH_MAX {
        let mut next = Vec::new();
        for value in level {
            match value {
                Value::Array(id) => next.extend_from_slice(&run.heap.array(id).items),
                Value::Dictionary(id) => {
                    next.extend(run.heap.dictionary(id).items.iter().map(|(_, value)| value));
                }
                Value::Function(id) => {
                    next.extend(run.heap.function(id).captured.iter().map(|(_, value)| *value));
                }
                Value::Reference(id) => next.push(run.heap.reference(id).base),
                _ => {}
            }
        }
        items += next.len();
        if next.is_empty() || items > VALUE_ITEMS_MAX {
            return next.is_empty();
        }
        level = next;
    }
    false
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
        (Kind::Number, value) => (is_number(value), "a number"),
        (Kind::Boolean, value) => (matches!(value, Boolean(_) | Number(_)), "true or false"),
        (Kind::Array | Kind::Names(_), value) => (matches!(value, Array(_)), "an array"),
        (Kind::Dictionary, value) => (matches!(value, Dictionary(_)), "a dictionary"),
        (Kind::Setting(_), Array(id)) => {
            let all = run.heap.array(id).items.iter().all(is_text);
            (all, "a text or an array of texts")
        }
        (Kind::Setting(_), Function(_)) => (false, "a text or an array of texts"),
        (Kind::Setting(_), value) => (is_text(&value), "a text or an array of texts"),
    };
    if fits.0 { Ok(()) } else { Err(fits.1) }
}
