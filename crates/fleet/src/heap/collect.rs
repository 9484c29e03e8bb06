//! Frees unreachable values, so that a loop that appends needs no more memory than
//! what it comes to.
//!
//! Nothing moves: numbers stay what they are, and those that are free are used for what is made next.
//! Who runs it says what is reached from outside; all objects are.

use super::{Free, Heap, Mark, Strings, hash};
use crate::value::{
    ArrayId, DictionaryId, FunctionId, Reference, ReferenceId, StringId, Table, Trail, TrailOf,
    Value,
};

/// So much may be in use before it is worth looking, in bytes, unless told otherwise.
pub const UNREACHED_BYTES: u64 = 64 << 20;

/// What a value takes, about, in bytes.
const CELL_BYTES: u64 = 16;

/// What an array, dictionary or function takes besides its items, about, in bytes.
const ITEM_BYTES: u64 = 64;

impl Free {
    /// Forgets numbers of what was cut off.
    pub(super) fn keep_below(&mut self, mark: &Mark) {
        self.arrays.retain(|own| (*own as usize) < mark.arrays);
        self.dictionaries.retain(|own| (*own as usize) < mark.dictionaries);
        self.functions.retain(|own| (*own as usize) < mark.functions);
        self.references.retain(|own| (*own as usize) < mark.references);
    }
}

/// What is reached, by kind.
struct Marks {
    strings: Vec<bool>,
    arrays: Vec<bool>,
    dictionaries: Vec<bool>,
    functions: Vec<bool>,
    references: Vec<bool>,
    /// What is reached and was not looked into yet.
    waiting: Vec<Value>,
}

/// Notes an item of the own layer; true if it was not known.
fn note(known: &mut [bool], id: u32, floor: usize) -> bool {
    let own = (id as usize).checked_sub(floor);
    own.and_then(|own| known.get_mut(own)).is_some_and(|known| !std::mem::replace(known, true))
}

impl Heap<'_> {
    fn bytes_in_use(&self) -> u64 {
        let (own, free) = (&self.own, &self.own.free);
        let used = own.arrays.len() + own.dictionaries.len() + own.functions.len();
        let unused = free.arrays.len() + free.dictionaries.len() + free.functions.len();
        let items = used.saturating_sub(unused) as u64 * ITEM_BYTES;
        own.cells * CELL_BYTES + own.strings.bytes.len() as u64 + items
    }

    /// Whether there is so much that it is worth looking for what nobody reaches: so many bytes, and
    /// twice what was reached the last time.
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        self.bytes_in_use() > bytes.max(self.own.reached_bytes.saturating_mul(2)) || bytes == 0
    }

    /// Gives back what is reached neither from these values, names and objects, nor from any object
    /// of the own layer.
    pub(crate) fn collect(&mut self, values: Vec<Value>, names: &[StringId]) {
        let mut reached = Marks {
            strings: vec![false; self.own.strings.ends.len()],
            arrays: vec![false; self.own.arrays.len()],
            dictionaries: vec![false; self.own.dictionaries.len()],
            functions: vec![false; self.own.functions.len()],
            references: vec![false; self.own.references.len()],
            waiting: values,
        };
        names.iter().for_each(|name| self.reach_name(&mut reached, *name));
        for object in &self.own.objects {
            self.reach_name(&mut reached, object.name);
            self.reach_table(&mut reached, &object.attributes);
            if let TrailOf::One(trail) = &object.trail {
                self.reach_trail(&mut reached, trail);
            }
        }
        self.own.trails.iter().for_each(|trail| self.reach_trail(&mut reached, trail));
        while let Some(value) = reached.waiting.pop() {
            self.reach(&mut reached, value);
        }
        self.give_back(&reached);
        self.own.reached_bytes = self.bytes_in_use();
    }

    fn reach_name(&self, reached: &mut Marks, name: StringId) {
        note(&mut reached.strings, name.0, self.floor.strings);
    }

    fn reach_table(&self, reached: &mut Marks, table: &Table) {
        for (name, value) in table.iter() {
            self.reach_name(reached, name);
            reached.waiting.push(value);
        }
    }

    fn reach_trail(&self, reached: &mut Marks, trail: &Trail) {
        for hint in &trail.hints {
            self.reach_name(reached, hint.attribute);
            hint.key.iter().for_each(|key| self.reach_name(reached, *key));
        }
        trail.templates.iter().for_each(|name| self.reach_name(reached, *name));
    }

    fn reach(&self, reached: &mut Marks, value: Value) {
        match value {
            Value::String(name) => self.reach_name(reached, name),
            Value::Array(ArrayId(id)) => {
                if note(&mut reached.arrays, id, self.floor.arrays) {
                    reached.waiting.extend_from_slice(&self.array(ArrayId(id)).items);
                }
            }
            Value::Dictionary(DictionaryId(id)) | Value::Namespace(DictionaryId(id)) => {
                if note(&mut reached.dictionaries, id, self.floor.dictionaries) {
                    let dictionary = self.dictionary(DictionaryId(id));
                    self.reach_table(reached, &dictionary.items);
                    let constants = dictionary.rare.iter().flat_map(|rare| &rare.constants);
                    constants.for_each(|name| self.reach_name(reached, *name));
                }
            }
            Value::Function(FunctionId(id)) => {
                if note(&mut reached.functions, id, self.floor.functions) {
                    let function = self.function(FunctionId(id));
                    function.name.iter().for_each(|name| self.reach_name(reached, *name));
                    for (name, value) in &function.captured {
                        self.reach_name(reached, *name);
                        reached.waiting.push(*value);
                    }
                }
            }
            Value::Reference(ReferenceId(id)) => {
                if note(&mut reached.references, id, self.floor.references) {
                    let Reference { base, key } = *self.reference(ReferenceId(id));
                    reached.waiting.extend([base, key]);
                }
            }
            // All objects are reached.
            Value::Object(_)
            | Value::Empty
            | Value::Boolean(_)
            | Value::Number(_)
            | Value::Builtin(_)
            | Value::Type(_)
            | Value::DateTime(_) => {}
        }
    }

    fn give_back(&mut self, reached: &Marks) {
        let own = &mut self.own;
        own.free = Free::default();
        let unreached = |known: &[bool]| -> Vec<u32> {
            let numbers = known.iter().zip(0..).filter(|(known, _)| !**known);
            numbers.map(|(_, number)| number).collect()
        };
        own.free.arrays = unreached(&reached.arrays);
        own.free.dictionaries = unreached(&reached.dictionaries);
        own.free.functions = unreached(&reached.functions);
        own.free.references = unreached(&reached.references);
        own.free.arrays.iter().for_each(|at| own.arrays[*at as usize] = Default::default());
        for at in &own.free.dictionaries {
            own.dictionaries[*at as usize] = Default::default();
        }
        for at in &own.free.functions {
            let function = &mut own.functions[*at as usize];
            (function.name, function.captured) = (None, Box::default());
        }
        for at in &own.free.references {
            own.references[*at as usize] = Reference { base: Value::Empty, key: Value::Empty };
        }
        own.strings.keep(&reached.strings);
        let arrays: usize = own.arrays.iter().map(|array| array.items.len()).sum();
        let items: usize = own.dictionaries.iter().map(|dictionary| dictionary.items.len()).sum();
        own.cells = (arrays + items) as u64;
    }
}

impl Strings {
    /// Forgets the bytes of all other strings. Their numbers stay taken: they are of no bytes, and
    /// found no more.
    fn keep(&mut self, reached: &[bool]) {
        let (mut bytes, mut start) = (Vec::new(), 0);
        for (end, reached) in self.ends.iter_mut().zip(reached) {
            let next = *end as usize;
            if *reached {
                bytes.extend_from_slice(&self.bytes[start..next]);
            }
            (*end, start) = (bytes.len() as u32, next);
        }
        self.bytes = bytes;
        self.slots.fill(super::Slot::default());
        for (index, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
            let hash = hash(self.get(index));
            let slot = self.slot(hash, |_| false).expect("there are slots");
            self.slots[slot] = super::Slot { number: index as u32 + 1, hash };
        }
    }
}
