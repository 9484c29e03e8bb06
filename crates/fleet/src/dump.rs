//! Objects as text, one after another: what tests and people compare.

use crate::eval::World;
use crate::heap::Heap;
use crate::source::Place;
use crate::text;
use crate::types::Types;
use crate::value::ObjectId;

/// All objects in the order of their types and names: attributes as JSON, each with the places
/// where it was set. `describe` says a place.
pub fn objects(world: &World, types: &Types, describe: &dyn Fn(Place) -> String) -> String {
    let heap = Heap::over(&world.layer);
    let mut out = String::new();
    for id in types.of_objects() {
        let mut of_type = world.by_type.get(&id).cloned().unwrap_or_default();
        let name = |id: &ObjectId| heap.bytes(heap.object(*id).name);
        of_type.sort_by(|a, b| name(a).cmp(name(b)));
        for object in of_type {
            one(&heap, types, object, describe, &mut out);
        }
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
