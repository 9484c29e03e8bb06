//! A layer taken into another heap as it is: its tables stay where they are in memory, and only the
//! numbers in them change. Nothing is copied but strings, nothing is allocated for each object, so
//! that one thread can take in what many made.

use super::{Detached, Heap, Layer, Mark};
use crate::value::{
    ArrayId, Closure, Dictionary, DictionaryId, FunctionId, Hint, Object, ObjectId, Reference,
    ReferenceId, StringId, Table, Trail, TrailId, TrailOf, Value,
};

/// How the numbers of a layer change when another heap takes it in.
#[derive(Debug)]
pub struct Renumbering {
    /// How much the layer below it held: what has a smaller number is of that and keeps it.
    floor: Mark,
    /// How much the heap held before.
    start: Mark,
    /// Each string's number there.
    strings: Vec<StringId>,
}

/// The number there of what has this number here.
fn moved(id: u32, floor: usize, start: usize) -> u32 {
    match (id as usize).checked_sub(floor) {
        Some(own) => (start + own) as u32,
        None => id,
    }
}

impl Renumbering {
    fn string(&self, id: StringId) -> StringId {
        let own = (id.0 as usize).checked_sub(self.floor.strings);
        own.map_or(id, |own| self.strings[own])
    }

    /// The object that this one is now.
    pub fn object(&self, id: ObjectId) -> ObjectId {
        ObjectId(moved(id.0, self.floor.objects, self.start.objects))
    }

    fn dictionary(&self, id: DictionaryId) -> DictionaryId {
        DictionaryId(moved(id.0, self.floor.dictionaries, self.start.dictionaries))
    }

    fn value(&self, value: Value) -> Value {
        let (floor, start) = (&self.floor, &self.start);
        match value {
            Value::String(id) => Value::String(self.string(id)),
            Value::Array(id) => Value::Array(ArrayId(moved(id.0, floor.arrays, start.arrays))),
            Value::Dictionary(id) => Value::Dictionary(self.dictionary(id)),
            Value::Namespace(id) => Value::Namespace(self.dictionary(id)),
            Value::Function(id) => {
                Value::Function(FunctionId(moved(id.0, floor.functions, start.functions)))
            }
            Value::Reference(id) => {
                Value::Reference(ReferenceId(moved(id.0, floor.references, start.references)))
            }
            Value::Object(id) => Value::Object(self.object(id)),
            plain @ (Value::Empty
            | Value::Boolean(_)
            | Value::Number(_)
            | Value::Builtin(_)
            | Value::Type(_)
            | Value::DateTime(_)) => plain,
        }
    }

    fn table(&self, table: &mut Table) {
        table.rename(|key, value| (self.string(key), self.value(value)));
    }

    fn in_dictionary(&self, dictionary: &mut Dictionary) {
        self.table(&mut dictionary.items);
        if let Some(rare) = &mut dictionary.rare {
            rare.constants.iter_mut().for_each(|name| *name = self.string(*name));
            rare.constants.sort_unstable();
        }
    }

    fn in_function(&self, function: &mut Closure) {
        function.name = function.name.map(|name| self.string(name));
        for (name, value) in &mut function.captured {
            (*name, *value) = (self.string(*name), self.value(*value));
        }
    }

    fn in_object(&self, object: &mut Object) {
        object.name = self.string(object.name);
        self.table(&mut object.attributes);
        match &mut object.trail {
            TrailOf::One(trail) => self.in_trail(trail),
            TrailOf::Many(TrailId(id)) => *id = moved(*id, self.floor.trails, self.start.trails),
        }
        object.target = object.target.map(|target| self.object(target));
    }

    fn in_trail(&self, trail: &mut Trail) {
        for Hint { attribute, key, .. } in &mut trail.hints {
            (*attribute, *key) = (self.string(*attribute), key.map(|key| self.string(key)));
        }
        trail.templates.iter_mut().for_each(|name| *name = self.string(*name));
    }
}

impl Heap<'_> {
    /// Takes in a layer that was made over what this heap held then; returns what became of its
    /// numbers.
    pub fn adopt(&mut self, detached: Detached) -> Renumbering {
        let Detached { floor, own: layer } = detached;
        let Layer { strings, mut arrays, mut dictionaries, mut functions, .. } = layer;
        let Layer { mut references, mut objects, mut trails, cells, .. } = layer;
        let strings = (0..strings.ends.len()).map(|at| self.intern(strings.get(at))).collect();
        let numbers = Renumbering { floor, start: self.all(), strings };
        for array in &mut arrays {
            array.items.iter_mut().for_each(|item| *item = numbers.value(*item));
        }
        dictionaries.iter_mut().for_each(|dictionary| numbers.in_dictionary(dictionary));
        functions.iter_mut().for_each(|function| numbers.in_function(function));
        for Reference { base, key } in &mut references {
            (*base, *key) = (numbers.value(*base), numbers.value(*key));
        }
        objects.iter_mut().for_each(|object| numbers.in_object(object));
        trails.iter_mut().for_each(|trail| numbers.in_trail(trail));
        self.own.cells += cells;
        self.own.cells_made += cells;
        self.own.arrays.append(&mut arrays);
        self.own.dictionaries.append(&mut dictionaries);
        self.own.functions.append(&mut functions);
        self.own.references.append(&mut references);
        self.own.objects.append(&mut objects);
        self.own.trails.append(&mut trails);
        numbers
    }

    /// How much both layers hold.
    fn all(&self) -> Mark {
        let (below, own) = (&self.floor, self.own.mark());
        Mark {
            strings: below.strings + own.strings,
            arrays: below.arrays + own.arrays,
            dictionaries: below.dictionaries + own.dictionaries,
            functions: below.functions + own.functions,
            references: below.references + own.references,
            objects: below.objects + own.objects,
            trails: below.trails + own.trails,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{FileId, Place};
    use crate::value::{Array, Rare, TypeId};

    /// An object that has something of each kind, with names of its own.
    fn thing(heap: &mut Heap<'_>, word: &str) -> ObjectId {
        let place = Place::default();
        let (common, own) = (heap.intern(b"common"), heap.intern(word.as_bytes()));
        let item = Value::String(own);
        let array = heap.array_of(vec![item, Value::Number(1.0)], place);
        let inner = heap.dictionary_of(Table::from_iter([(own, array)]), place);
        let (captured, node) = (Box::from([(own, inner)]), crate::ast::NodeId(0));
        let function = Closure { file: FileId(0), node, name: Some(own), captured };
        let function = Value::Function(heap.make_function(function));
        let reference = Value::Reference(heap.make_reference(Reference { base: inner, key: item }));
        let rare = Rare { constants: vec![own], ..Rare::default() };
        let items = Table::from_iter([(common, function), (own, reference)]);
        let dictionary = Dictionary { items, origin: place, rare: Some(Box::new(rare)) };
        let outer = Value::Dictionary(heap.make_dictionary(dictionary));
        let hints = vec![Hint { attribute: own, key: Some(common), place }];
        let trail = Trail { hints, templates: vec![own, common] };
        let made = heap.make_object(Object {
            of_type: TypeId(0),
            name: own,
            attributes: Table::from_iter([(common, outer), (own, array)]),
            trail: TrailOf::One(Box::new(trail)),
            origin: place,
            target: Some(ObjectId(0)),
        });
        // One in two is settled.
        if word.len().is_multiple_of(2) {
            heap.settle(made);
        }
        made
    }

    /// Everything that an object says, in words.
    fn said(heap: &Heap<'_>, id: ObjectId) -> String {
        let object = heap.object(id);
        let names = |names: &[StringId]| names.iter().map(|n| heap.text(*n)).collect::<Vec<_>>();
        let Trail { hints, templates } = heap.trail(object);
        let hints = hints.iter().map(|hint| (hint.attribute, hint.key));
        let hints: Vec<_> =
            hints.map(|(a, k)| (heap.text(a), k.map(|key| heap.text(key)))).collect();
        let (name, target) = (heap.text(object.name), object.target);
        let attributes = table(heap, &object.attributes);
        format!("{name} {target:?} {hints:?} {:?} {attributes}", names(templates))
    }

    fn table(heap: &Heap<'_>, items: &Table) -> String {
        let mut items: Vec<_> = items
            .iter()
            .map(|(key, item)| format!("{}={}", heap.text(key), value(heap, item)))
            .collect();
        items.sort();
        // A key is found by its number.
        items.push(format!("{}", items.len()));
        items.join(" ")
    }

    fn value(heap: &Heap<'_>, what: Value) -> String {
        match what {
            Value::String(id) => heap.text(id),
            Value::Array(id) => {
                let Array { items, .. } = heap.array(id);
                format!("{:?}", items.iter().map(|item| value(heap, *item)).collect::<Vec<_>>())
            }
            Value::Dictionary(id) => {
                let Dictionary { items, rare, .. } = heap.dictionary(id);
                let constants = rare.iter().flat_map(|rare| &rare.constants);
                let constants: Vec<_> = constants.map(|name| heap.text(*name)).collect();
                assert!(items.iter().all(|(key, _)| items.get(key).is_some()), "keys are in order");
                format!("{{{} {constants:?}}}", table(heap, items))
            }
            Value::Function(id) => {
                let Closure { name, captured, .. } = heap.function(id);
                let captured: Table = captured.iter().copied().collect();
                format!("{:?}({})", name.map(|name| heap.text(name)), table(heap, &captured))
            }
            Value::Reference(id) => {
                let Reference { base, key } = heap.reference(id);
                format!("&{}.{}", value(heap, *base), value(heap, *key))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_is_taken_in_says_what_it_said() {
        let mut heap = Heap::default();
        let first = thing(&mut heap, "first");
        let base = heap.into_layer();
        let make = |words: &[&str]| {
            let mut heap = Heap::over(&base);
            let made: Vec<ObjectId> = words.iter().map(|word| thing(&mut heap, word)).collect();
            let said: Vec<String> = made.iter().map(|id| said(&heap, *id)).collect();
            (heap.detach(), made, said)
        };
        // The second thread meets what the first met, the other way round.
        let threads = [make(&["here", "there", "first"]), make(&["there", "elsewhere", "here"])];
        let said_first = said(&Heap::over(&base), first);
        let mut heap = Heap::from_layer(base);
        for (detached, made, before) in threads {
            let numbers = heap.adopt(detached);
            let after = made.iter().map(|id| said(&heap, numbers.object(*id)));
            assert_eq!(after.collect::<Vec<_>>(), before);
        }
        assert_eq!(said(&heap, first), said_first);
        assert_eq!(heap.objects().count(), 7);
    }
}
