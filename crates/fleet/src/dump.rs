//! Objects as text, one after another: what tests and people compare.

use crate::eval::World;
use crate::heap::Heap;
use crate::library::glob;
use crate::source::Place;
use crate::text;
use crate::types::Types;
use crate::value::{ObjectId, Value};

/// Which objects are shown: those whose type and name match patterns, in letters of any case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Only<'o> {
    /// The pattern of types; all without one.
    pub of_type: Option<&'o str>,
    /// The pattern of names, of the full one or of the one that was given; all without one.
    pub name: Option<&'o str>,
}

impl Only<'_> {
    /// The objects, in the order of their types and names.
    pub(crate) fn objects(&self, world: &World, types: &Types) -> Vec<ObjectId> {
        let heap = Heap::over(&world.layer);
        let fits = |pattern: Option<&str>, text: &[u8]| {
            pattern.is_none_or(|pattern| glob::matches(pattern.as_bytes(), text))
        };
        let mut out = Vec::new();
        for id in types.of_objects() {
            if !fits(self.of_type, types.get(id).name.as_bytes()) {
                continue;
            }
            let mut all = world.by_type.get(&id).cloned().unwrap_or_default();
            all.retain(|id| {
                let object = heap.object(*id);
                let given = object.attributes.get(world.roots.name);
                let fits_given =
                    matches!(given, Some(Value::String(name)) if fits(self.name, heap.bytes(name)));
                fits(self.name, heap.bytes(object.name)) || fits_given
            });
            let name = |id: &ObjectId| heap.bytes(heap.object(*id).name);
            all.sort_by(|a, b| name(a).cmp(name(b)));
            out.extend(all);
        }
        out
    }
}

/// Objects in the order of their types and names: attributes as JSON, each with the places
/// where it was set. `describe` says a place.
pub fn objects(
    world: &World,
    types: &Types,
    only: Only<'_>,
    describe: &dyn Fn(Place) -> String,
) -> String {
    let heap = Heap::over(&world.layer);
    let mut out = String::new();
    for object in only.objects(world, types) {
        one(&heap, types, object, describe, &mut out);
    }
    out
}

fn one(
    heap: &Heap<'_>,
    types: &Types,
    id: ObjectId,
    describe: &dyn Fn(Place) -> String,
    out: &mut String,
) {
    let object = heap.object(id);
    let of_type = &types.get(object.of_type).name;
    out.push_str(&format!("{of_type} {} ({})\n", heap.text(object.name), describe(object.origin)));
    let mut attributes: Vec<_> = object.attributes.iter().collect();
    attributes.sort_by(|a, b| heap.bytes(a.0).cmp(heap.bytes(b.0)));
    for (key, value) in attributes {
        let json = text::json(heap, types, value);
        let json = String::from_utf8_lossy(&json);
        let places = heap.trail(object).hints.iter().filter(|hint| hint.attribute == key);
        let places: Vec<String> = places.map(|hint| describe(hint.place)).collect();
        let set =
            if places.is_empty() { String::new() } else { format!(" [{}]", places.join(" ")) };
        out.push_str(&format!("  {} = {json}{set}\n", heap.text(key)));
    }
}
