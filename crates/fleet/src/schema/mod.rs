//! The types of objects that a configuration is about, and what their attributes may hold.

mod check;
mod convert;
mod expectation;
pub mod icinga;
mod icinga_table;
mod newer;
mod ranges;
mod shape;
pub mod warrener;

pub(crate) use convert::convert;
pub use expectation::Check;

use crate::eval::{Fault, Interpreter};
use crate::source::Place;
use crate::types::{Field, Kind, Unset};
use crate::value::{Object, ObjectId, StringId, Value};

/// An attribute that need not be set.
pub(crate) fn field(name: &str, kind: Kind) -> Field {
    let (required, unset, check) = (false, Unset::Null, Check::Nothing);
    Field { name: name.to_owned(), kind, required, unset, check, is_state: false }
}

/// Where an attribute of an object was set last; else where the object is defined.
pub fn place_of(run_heap: &crate::heap::Heap<'_>, object: &Object, attribute: &str) -> Place {
    let hints = run_heap.trail(object).hints.iter().rev();
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
    let mut deep = Depths::default();
    let mut attributes = object.attributes.iter();
    if let Some((key, _)) = attributes.find(|(_, value)| !deep.is_shallow(run, id, *value)) {
        let (attribute, name) = (run.heap.text(key), run.heap.text(object.name));
        let message =
            format!("attribute '{attribute}' of '{name}' is nested too deeply or contains itself");
        return Err(Fault::at(place_of(&run.heap, object, &attribute), message));
    }
    match of_type.rules.as_ref().is_some_and(|rules| rules.converts) {
        true => icinga::check(run, object),
        false => warrener::check(run, object),
    }
}

/// Whether there is, or will be, an object of this name.
fn exists(run: &Interpreter<'_>, of_type: &str, name: StringId) -> bool {
    let of_type = run.types.find(of_type.as_bytes());
    of_type.is_some_and(|of_type| run.is_defined(of_type, name))
}

/// How deep the values of attributes may be nested.
const VALUE_DEPTH_MAX: usize = 100;

/// How many items the values of one attribute may have, shared ones counted each time.
const VALUE_ITEMS_MAX: usize = 1 << 20;

/// Values of one depth and of the next: the same room for all attributes of an object.
#[derive(Default)]
struct Depths {
    level: Vec<Value>,
    next: Vec<Value>,
}

impl Depths {
    /// Whether a value ends, soon enough to be copied and shown.
    fn is_shallow(&mut self, run: &Interpreter<'_>, owner: ObjectId, value: Value) -> bool {
        self.next.clear();
        if !descend(run, owner, value, &mut self.next) {
            return false;
        }
        let mut items = self.next.len();
        for _ in 1..VALUE_DEPTH_MAX {
            if self.next.is_empty() || items > VALUE_ITEMS_MAX {
                return self.next.is_empty();
            }
            std::mem::swap(&mut self.level, &mut self.next);
            self.next.clear();
            for value in &self.level {
                if !descend(run, owner, *value, &mut self.next) {
                    return false;
                }
            }
            items += self.next.len();
        }
        self.next.is_empty() && items <= VALUE_ITEMS_MAX
    }
}

/// Adds what is in a value; false if the value is the owner itself.
fn descend(run: &Interpreter<'_>, owner: ObjectId, value: Value, out: &mut Vec<Value>) -> bool {
    match value {
        Value::Array(id) => out.extend_from_slice(&run.heap.array(id).items),
        Value::Dictionary(id) => {
            out.extend(run.heap.dictionary(id).items.iter().map(|(_, value)| value));
        }
        Value::Function(id) => {
            out.extend(run.heap.function(id).captured.iter().map(|(_, value)| *value));
        }
        Value::Reference(id) => out.push(run.heap.reference(id).base),
        Value::Object(id) => return id != owner,
        _ => {}
    }
    true
}
