//! Objects moved from one heap to another: what is reachable from them, and nothing else.

use crate::heap::{Detached, Heap};
use crate::value::{
    Array, ArrayId, Closure, Dictionary, DictionaryId, Hint, Object, ObjectId, Rare, Reference,
    StringId, Trail, TrailOf, Value,
};

/// Copies from the upper layer of one heap to another over the same lower layer.
pub struct Transfer<'t, 'b> {
    from: &'t Detached,
    to: &'t mut Heap<'b>,
    /// What was copied for this object: kind, number there, number here. Few.
    made: Vec<(u8, u32, u32)>,
}

impl<'t, 'b> Transfer<'t, 'b> {
    /// A transfer. Values that are shared in one heap are shared in the other.
    pub fn new(from: &'t Detached, to: &'t mut Heap<'b>) -> Transfer<'t, 'b> {
        Transfer { from, to, made: Vec::new() }
    }

    /// Forgets what was shared: for the next object, which shares nothing with this one.
    pub fn next_object(&mut self) {
        self.made.clear();
    }

    fn text(&mut self, id: StringId) -> StringId {
        match self.from.own_bytes(id) {
            Some(bytes) => self.to.intern(bytes),
            None => id,
        }
    }

    fn value(&mut self, value: Value) -> Value {
        match value {
            Value::String(id) => Value::String(self.text(id)),
            Value::Array(id) => Value::Array(self.array(id)),
            Value::Dictionary(id) => Value::Dictionary(self.dictionary(id)),
            Value::Namespace(id) => Value::Namespace(self.dictionary(id)),
            Value::Function(id) => self.function(id),
            Value::Reference(id) => self.reference(id),
            Value::Object(id) => Value::Object(self.object(id)),
            plain => plain,
        }
    }

    /// The number of something in the other heap, made if it is not there yet. It is known before
    /// its contents are, so that circles end.
    fn known<T: Copy>(&self, kind: u8, id: u32, new: impl Fn(u32) -> T) -> Option<T> {
        let found = self.made.iter().find(|made| (made.0, made.1) == (kind, id));
        found.map(|made| new(made.2))
    }

    fn array(&mut self, id: ArrayId) -> ArrayId {
        let Some(array) = self.from.own_array(id) else { return id };
        if let Some(known) = self.known(0, id.0, ArrayId) {
            return known;
        }
        let (origin, frozen) = (array.origin, array.frozen);
        let made = self.to.make_array(Array { items: Vec::new(), origin, frozen });
        self.made.push((0, id.0, made.0));
        let items = array.items.iter().map(|item| self.value(*item)).collect();
        if let Ok(array) = self.to.array_mut(made) {
            array.items = items;
        }
        made
    }

    fn dictionary(&mut self, id: DictionaryId) -> DictionaryId {
        let Some(dictionary) = self.from.own_dictionary(id) else { return id };
        if let Some(known) = self.known(1, id.0, DictionaryId) {
            return known;
        }
        let rare = dictionary.rare.as_ref().map(|rare| {
            let mut constants: Vec<StringId> =
                rare.constants.iter().map(|name| self.text(*name)).collect();
            constants.sort();
            Box::new(Rare { frozen: rare.frozen, constants, writes: rare.writes })
        });
        let origin = dictionary.origin;
        let made = self.to.make_dictionary(Dictionary { origin, rare, ..Dictionary::default() });
        self.made.push((1, id.0, made.0));
        let items = dictionary
            .items
            .iter()
            .map(|(key, value)| (self.text(key), self.value(value)))
            .collect();
        if let Ok(dictionary) = self.to.dictionary_mut(made) {
            dictionary.items = items;
        }
        made
    }

    fn function(&mut self, id: crate::value::FunctionId) -> Value {
        let Some(closure) = self.from.own_function(id) else { return Value::Function(id) };
        if let Some(known) = self.known(2, id.0, crate::value::FunctionId) {
            return Value::Function(known);
        }
        let name = closure.name.map(|name| self.text(name));
        let captured = closure.captured.iter();
        let captured =
            captured.map(|(name, value)| (self.text(*name), self.value(*value))).collect();
        let closure = Closure { name, captured, ..closure.clone() };
        let made = self.to.make_function(closure);
        self.made.push((2, id.0, made.0));
        Value::Function(made)
    }

    fn reference(&mut self, id: crate::value::ReferenceId) -> Value {
        let Some(reference) = self.from.own_reference(id) else { return Value::Reference(id) };
        let (base, key) = (self.value(reference.base), self.value(reference.key));
        Value::Reference(self.to.make_reference(Reference { base, key }))
    }

    fn trail(&mut self, trail: &Trail) -> Trail {
        let hints = trail.hints.iter().map(|hint| Hint {
            attribute: self.text(hint.attribute),
            key: hint.key.map(|key| self.text(key)),
            place: hint.place,
        });
        let hints = hints.collect();
        Trail { hints, templates: trail.templates.iter().map(|name| self.text(*name)).collect() }
    }

    /// An object.
    pub fn object(&mut self, id: ObjectId) -> ObjectId {
        let Some(object) = self.from.own_object(id) else { return id };
        if let Some(known) = self.known(3, id.0, ObjectId) {
            return known;
        }
        let name = self.text(object.name);
        let empty =
            Object { name, attributes: Default::default(), trail: TrailOf::default(), ..*object };
        let made = self.to.make_object(empty);
        self.made.push((3, id.0, made.0));
        let attributes = object.attributes.iter();
        let attributes =
            attributes.map(|(key, value)| (self.text(key), self.value(value))).collect();
        let trail = match &object.trail {
            TrailOf::One(trail) => Some(&**trail),
            TrailOf::Many(id) => self.from.own_trail(*id),
        };
        let trail = trail.map(|trail| self.trail(trail)).unwrap_or_default();
        if let Ok(object) = self.to.object_mut(made) {
            (object.attributes, object.trail) = (attributes, TrailOf::One(Box::new(trail)));
        }
        self.to.settle(made);
        made
    }
}
