//! Where values live: tables that only grow, read through numbers.
//!
//! A heap has two layers. The lower one is frozen: shared by all threads, never written, so that
//! reading it takes neither lock nor counter. The upper one belongs to one thread and can be cut
//! back to a [`Mark`]. Numbers below the lower layer's lengths point into it.

mod adopt;
mod collect;

use std::collections::BTreeMap;

pub use collect::UNREACHED_BYTES;

use crate::source::Place;
use crate::value::{
    Array, ArrayId, Closure, Dictionary, DictionaryId, FunctionId, Object, ObjectId, Reference,
    ReferenceId, StringId, Table, Trail, TrailId, TrailOf, Value,
};

/// The most items of one kind that a heap can have.
pub const ITEMS_MAX: usize = 1 << 27;

/// The most bytes of strings that a heap can have.
pub const STRING_BYTES_MAX: usize = 2 << 30;

/// For each array, dictionary or string that a run may make, so many items may be in all arrays and
/// dictionaries together.
const CELLS_PER_ITEM: u64 = 8;

/// How many nodes one run of an interpreter may evaluate, unless told otherwise.
pub const STEPS_MAX: u64 = 2_000_000_000;

/// How much an interpreter may do.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Steps of evaluation.
    pub steps: u64,
    /// Arrays, dictionaries, functions and strings, of each kind.
    pub items: usize,
    /// Bytes of all strings.
    pub string_bytes: usize,
    /// Bytes of all values after which those that nobody reaches are given back; 0 looks for them at
    /// each statement, which is for tests.
    pub unreached_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            steps: STEPS_MAX,
            items: ITEMS_MAX,
            string_bytes: STRING_BYTES_MAX,
            unreached_bytes: UNREACHED_BYTES,
        }
    }
}

/// Strings, each once.
#[derive(Debug, Default)]
struct Strings {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    slots: Vec<Slot>,
}

/// Where a string is looked for: its number plus one (0 is a free slot) and its hash, so that
/// most others are told apart without their bytes. There are as many as a power of two.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    number: u32,
    hash: u32,
}

impl Strings {
    fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.bytes[start..self.ends[index] as usize]
    }

    fn find(&self, bytes: &[u8], hash: u32) -> Option<usize> {
        let slot = self.slot(hash, |index| self.get(index) == bytes)?;
        self.slots[slot].number.checked_sub(1).map(|index| index as usize)
    }

    /// The slot of the string with this hash that is the wanted one, or the free slot where it
    /// belongs; none without slots.
    fn slot(&self, hash: u32, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            let other = slot.number.checked_sub(1).map(|index| index as usize);
            match other {
                Some(index) if slot.hash != hash || !is_wanted(index) => at = (at + 1) & mask,
                _ => return Some(at),
            }
        }
    }

    fn push(&mut self, bytes: &[u8], hash: u32) -> usize {
        if (self.ends.len() + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let slot = self.slot(hash, |_| false).expect("there are slots");
        let index = self.ends.len();
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
        self.slots[slot] = Slot { number: index as u32 + 1, hash };
        index
    }

    /// Twice the slots. Strings enter in the order of their numbers, as [`Strings::truncate`]
    /// needs it.
    fn grow(&mut self) {
        let slots = vec![Slot::default(); (self.slots.len() * 2).max(64)];
        let mut before = std::mem::replace(&mut self.slots, slots);
        before.retain(|slot| slot.number != 0);
        before.sort_unstable_by_key(|slot| slot.number);
        for old in before {
            let slot = self.slot(old.hash, |_| false).expect("there are slots");
            self.slots[slot] = old;
        }
    }

    /// Forgets the strings from this one on. The last one in is the first one out, so no search
    /// for another string passes over the slot that becomes free.
    fn truncate(&mut self, length: usize) {
        while self.ends.len() > length {
            let last = self.ends.len() - 1;
            let hash = hash(self.get(last));
            let slot = self.slot(hash, |index| index == last).expect("there are slots");
            self.slots[slot] = Slot::default();
            self.ends.pop();
            self.bytes.truncate(self.ends.last().map_or(0, |end| *end as usize));
        }
    }
}

/// Bytes to a number that spreads well; the same in every run.
fn hash(bytes: &[u8]) -> u32 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = bytes.len() as u64 ^ MULTIPLIER;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let product = u128::from(sum ^ u64::from_le_bytes(word)) * u128::from(MULTIPLIER);
        sum = (product as u64) ^ ((product >> 64) as u64).rotate_left(17);
    }
    (sum ^ (sum >> 32)) as u32
}

/// What one layer holds.
#[derive(Debug, Default)]
pub struct Layer {
    strings: Strings,
    arrays: Vec<Array>,
    dictionaries: Vec<Dictionary>,
    functions: Vec<Closure>,
    references: Vec<Reference>,
    objects: Vec<Object>,
    trails: Vec<Trail>,
    /// The last trail of what each definition made.
    last_trails: BTreeMap<Place, TrailId>,
    /// How many items all arrays and dictionaries were made with, but for those given back.
    cells: u64,
    /// How many items were ever made.
    cells_made: u64,
    /// Numbers that are to be used again.
    free: Free,
    /// How many bytes were reached when that was last looked for.
    reached_bytes: u64,
}

/// Numbers of what nobody reaches any more, by kind.
#[derive(Debug, Default)]
struct Free {
    arrays: Vec<u32>,
    dictionaries: Vec<u32>,
    functions: Vec<u32>,
    references: Vec<u32>,
}

/// How much a heap holds: what to cut it back to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    strings: usize,
    arrays: usize,
    dictionaries: usize,
    functions: usize,
    references: usize,
    objects: usize,
    trails: usize,
}

impl Layer {
    fn mark(&self) -> Mark {
        Mark {
            strings: self.strings.ends.len(),
            arrays: self.arrays.len(),
            dictionaries: self.dictionaries.len(),
            functions: self.functions.len(),
            references: self.references.len(),
            objects: self.objects.len(),
            trails: self.trails.len(),
        }
    }
}

/// A write to something that belongs to the frozen layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// Where it was made.
    pub origin: Place,
}

/// A frozen layer, if any, and one that can be written.
#[derive(Debug, Default)]
pub struct Heap<'b> {
    base: Option<&'b Layer>,
    /// How much the frozen layer holds.
    floor: Mark,
    own: Layer,
}

/// Reads items of one kind, and makes them: in a place that was given back, if there is one.
macro_rules! items {
    ($kind:ident, $id:ident, $field:ident, $get:ident, $make:ident $(, $free:ident)?) => {
        impl Heap<'_> {
            #[doc = concat!("The ", stringify!($get), " with this number.")]
            pub fn $get(&self, id: $id) -> &$kind {
                let index = id.0 as usize;
                match (index.checked_sub(self.floor.$field), self.base) {
                    (None, Some(base)) => &base.$field[index],
                    (own, _) => &self.own.$field[own.unwrap_or(index)],
                }
            }

            #[doc = concat!("Makes a ", stringify!($get), ".")]
            pub fn $make(&mut self, item: $kind) -> $id {
                $(if let Some(own) = self.own.free.$free.pop() {
                    self.own.$field[own as usize] = item;
                    return $id((self.floor.$field + own as usize) as u32);
                })?
                let id = $id((self.floor.$field + self.own.$field.len()) as u32);
                self.own.$field.push(item);
                id
            }
        }
    };
}

items!(Array, ArrayId, arrays, array, make_array, arrays);
items!(Dictionary, DictionaryId, dictionaries, dictionary, make_dictionary, dictionaries);
items!(Closure, FunctionId, functions, function, make_function, functions);
items!(Reference, ReferenceId, references, reference, make_reference, references);
items!(Object, ObjectId, objects, object, make_object);
items!(Trail, TrailId, trails, shared_trail, make_trail);

/// The upper layer of a heap by itself.
#[derive(Debug)]
pub struct Detached {
    floor: Mark,
    own: Layer,
}

macro_rules! detached {
    ($kind:ident, $id:ident, $field:ident, $get:ident) => {
        impl Detached {
            #[doc = concat!("A ", stringify!($kind), " of this layer; none if it is of the lower one.")]
            pub fn $get(&self, id: $id) -> Option<&$kind> {
                (id.0 as usize).checked_sub(self.floor.$field).map(|own| &self.own.$field[own])
            }
        }
    };
}

detached!(Array, ArrayId, arrays, own_array);
detached!(Dictionary, DictionaryId, dictionaries, own_dictionary);
detached!(Closure, FunctionId, functions, own_function);
detached!(Reference, ReferenceId, references, own_reference);
detached!(Object, ObjectId, objects, own_object);
detached!(Trail, TrailId, trails, own_trail);

impl Detached {
    /// A string of this layer; none if it is of the lower one.
    pub fn own_bytes(&self, id: StringId) -> Option<&[u8]> {
        (id.0 as usize).checked_sub(self.floor.strings).map(|own| self.own.strings.get(own))
    }
}

impl<'b> Heap<'b> {
    /// A heap over a frozen layer.
    pub fn over(base: &'b Layer) -> Heap<'b> {
        Heap { base: Some(base), floor: base.mark(), own: Layer::default() }
    }

    /// The layer of a heap without a lower one: from here on it can be shared.
    ///
    /// # Panics
    /// If the heap has a lower layer.
    pub fn into_layer(self) -> Layer {
        assert!(self.base.is_none(), "only a heap of one layer becomes a layer");
        self.own
    }

    /// Takes the upper layer away, to be read only; the heap goes on with an empty one.
    pub fn detach(&mut self) -> Detached {
        let mut own = std::mem::take(&mut self.own);
        // Nothing is looked for in it by its bytes any more.
        own.strings.slots = Vec::new();
        Detached { floor: self.floor, own }
    }

    /// A heap that goes on with a layer.
    pub fn from_layer(layer: Layer) -> Heap<'static> {
        Heap { base: None, floor: Mark::default(), own: layer }
    }

    /// A string's bytes.
    pub fn bytes(&self, id: StringId) -> &[u8] {
        let index = id.0 as usize;
        match (index.checked_sub(self.floor.strings), self.base) {
            (None, Some(base)) => base.strings.get(index),
            (own, _) => self.own.strings.get(own.unwrap_or(index)),
        }
    }

    /// A string's text; what is not UTF-8 in it is replaced.
    pub fn text(&self, id: StringId) -> String {
        String::from_utf8_lossy(self.bytes(id)).into_owned()
    }

    /// The string with these bytes, made if there is none.
    pub fn intern(&mut self, bytes: &[u8]) -> StringId {
        let hash = hash(bytes);
        self.lookup(bytes, hash).unwrap_or_else(|| {
            let index = self.own.strings.push(bytes, hash);
            StringId((self.floor.strings + index) as u32)
        })
    }

    /// The string with these bytes, if there is one.
    pub fn find(&self, bytes: &[u8]) -> Option<StringId> {
        self.lookup(bytes, hash(bytes))
    }

    fn lookup(&self, bytes: &[u8], hash: u32) -> Option<StringId> {
        let below = self.base.and_then(|base| base.strings.find(bytes, hash));
        let own = || self.own.strings.find(bytes, hash).map(|index| index + self.floor.strings);
        below.or_else(own).map(|index| StringId(index as u32))
    }

    /// A string value.
    pub fn string(&mut self, bytes: &[u8]) -> Value {
        Value::String(self.intern(bytes))
    }

    /// An array value.
    pub fn array_of(&mut self, items: Vec<Value>, origin: Place) -> Value {
        self.count_cells(items.len());
        Value::Array(self.make_array(Array { items, origin, frozen: None }))
    }

    /// A dictionary value.
    pub fn dictionary_of(&mut self, items: Table, origin: Place) -> Value {
        self.count_cells(items.len());
        Value::Dictionary(self.make_dictionary(Dictionary { items, origin, rare: None }))
    }

    /// An array to write to.
    pub fn array_mut(&mut self, id: ArrayId) -> Result<&mut Array, Frozen> {
        match (id.0 as usize).checked_sub(self.floor.arrays) {
            Some(own) => Ok(&mut self.own.arrays[own]),
            None => Err(Frozen { origin: self.array(id).origin }),
        }
    }

    /// A dictionary or namespace to write to.
    pub fn dictionary_mut(&mut self, id: DictionaryId) -> Result<&mut Dictionary, Frozen> {
        match (id.0 as usize).checked_sub(self.floor.dictionaries) {
            Some(own) => Ok(&mut self.own.dictionaries[own]),
            None => Err(Frozen { origin: self.dictionary(id).origin }),
        }
    }

    /// An object to write to.
    pub fn object_mut(&mut self, id: ObjectId) -> Result<&mut Object, Frozen> {
        match (id.0 as usize).checked_sub(self.floor.objects) {
            Some(own) => Ok(&mut self.own.objects[own]),
            None => Err(Frozen { origin: self.object(id).origin }),
        }
    }

    /// Forgets what an object of the own layer says; what it is and whose stays known.
    pub fn empty_object(&mut self, id: ObjectId) {
        if let Ok(object) = self.object_mut(id) {
            (object.attributes, object.trail) = (Table::default(), TrailOf::default());
        }
    }

    /// Where what an object says comes from.
    pub fn trail<'a>(&'a self, object: &'a Object) -> &'a Trail {
        match &object.trail {
            TrailOf::One(trail) => trail,
            TrailOf::Many(id) => self.shared_trail(*id),
        }
    }

    /// The trail of an object of the own layer, to write to.
    pub fn trail_mut(&mut self, id: ObjectId) -> Option<&mut Trail> {
        if let TrailOf::Many(shared) = self.object(id).trail {
            let own = self.shared_trail(shared).clone();
            self.object_mut(id).ok()?.trail = TrailOf::One(Box::new(own));
        }
        match &mut self.object_mut(id).ok()?.trail {
            TrailOf::One(trail) => Some(trail),
            TrailOf::Many(_) => None,
        }
    }

    /// An object is made: what it has in common with the last one of its definition is kept once, and
    /// memory that it does not need is given back.
    pub fn settle(&mut self, id: ObjectId) {
        let Ok(object) = self.object_mut(id) else { return };
        object.attributes.shrink();
        let TrailOf::One(trail) = std::mem::take(&mut object.trail) else { return };
        let origin = object.origin;
        let last = self.own.last_trails.get(&origin).copied();
        let shared = last.filter(|last| *self.shared_trail(*last) == *trail).unwrap_or_else(|| {
            let new = self.make_trail(*trail);
            self.own.last_trails.insert(origin, new);
            new
        });
        if let Ok(object) = self.object_mut(id) {
            object.trail = TrailOf::Many(shared);
        }
    }

    /// Every object, in the order in which they were made.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + use<> {
        let count = self.floor.objects + self.own.objects.len();
        (0..count as u32).map(ObjectId)
    }

    /// Keys and values of a dictionary or namespace, in the order of the keys' bytes.
    pub fn sorted(&self, id: DictionaryId) -> Vec<(StringId, Value)> {
        let mut items: Vec<_> = self.dictionary(id).items.iter().collect();
        items.sort_by(|a, b| self.bytes(a.0).cmp(self.bytes(b.0)));
        items
    }

    /// How much there is now.
    pub fn mark(&self) -> Mark {
        self.own.mark()
    }

    /// Forgets what was made since a mark.
    pub fn cut(&mut self, mark: Mark) {
        let own = &mut self.own;
        own.strings.truncate(mark.strings);
        own.arrays.truncate(mark.arrays);
        own.dictionaries.truncate(mark.dictionaries);
        own.functions.truncate(mark.functions);
        own.references.truncate(mark.references);
        own.objects.truncate(mark.objects);
        own.free.keep_below(&mark);
        if own.trails.len() > mark.trails {
            own.trails.truncate(mark.trails);
            let end = self.floor.trails + mark.trails;
            own.last_trails.retain(|_, id| (id.0 as usize) < end);
        }
    }

    /// Whether there is room for more.
    pub fn has_room(&self, bounds: &Bounds) -> bool {
        let mark = self.own.mark();
        let most = mark.strings.max(mark.arrays).max(mark.dictionaries).max(mark.functions);
        let items = bounds.items.min(ITEMS_MAX - self.floor.strings);
        let bytes = bounds.string_bytes.min(STRING_BYTES_MAX);
        let cells = bounds.items as u64 * CELLS_PER_ITEM;
        most < items && self.own.strings.bytes.len() < bytes && self.own.cells < cells
    }

    /// Counts items that an array gets beyond those that it was made with.
    pub fn count_cells(&mut self, count: usize) {
        self.own.cells += count as u64;
        self.own.cells_made += count as u64;
    }

    /// How many items arrays and dictionaries of the own layer were ever made with.
    pub fn cells_made(&self) -> u64 {
        self.own.cells_made
    }

    /// As if none had been made yet.
    pub(crate) fn count_anew(&mut self) {
        (self.own.cells, self.own.cells_made) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_kept_once_and_forgotten_in_order() {
        let mut heap = Heap::default();
        let first = heap.intern(b"first");
        let layer = heap.into_layer();
        let mut heap = Heap::over(&layer);
        assert_eq!(heap.intern(b"first"), first);
        for round in 0..3 {
            let mark = heap.mark();
            let ids: Vec<_> = (0..1000).map(|n| heap.intern(format!("s{n}").as_bytes())).collect();
            for (n, id) in ids.iter().enumerate() {
                assert_eq!(heap.intern(format!("s{n}").as_bytes()), *id, "round {round}");
                assert_eq!(heap.bytes(*id), format!("s{n}").as_bytes());
            }
            heap.cut(mark);
            assert_eq!(heap.find(b"s999"), None);
        }
    }

    #[test]
    fn what_is_frozen_says_where_it_was_made() {
        let mut heap = Heap::default();
        let origin = Place::default();
        let id = heap.make_array(Array { origin, ..Array::default() });
        assert!(heap.array_mut(id).is_ok());
        let layer = heap.into_layer();
        let mut heap = Heap::over(&layer);
        assert_eq!(heap.array_mut(id).err(), Some(Frozen { origin }));
    }
}
