//! Values: small, copied, and meaningless without the heap that their numbers point into.

use crate::ast::NodeId;
use crate::source::{FileId, Place};

macro_rules! ids {
    ($( $(#[$doc:meta])* $name:ident, )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u32);
    )* };
}

ids! {
    /// A string; two strings of a heap are equal when their numbers are.
    StringId,
    /// An array.
    ArrayId,
    /// A dictionary or a namespace.
    DictionaryId,
    /// A function of a file, with what it took along.
    FunctionId,
    /// A reference to a place in a container.
    ReferenceId,
    /// An object.
    ObjectId,
    /// A trail that several objects have.
    TrailId,
    /// A function of the library, in the order of its table.
    BuiltinId,
    /// A type, in the order of the run's types.
    TypeId,
}

/// A value of the language.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// `null`.
    Empty,
    /// `true` or `false`.
    Boolean(bool),
    /// A number; there is one kind.
    Number(f64),
    /// Bytes.
    String(StringId),
    /// An array, shared by all that hold it.
    Array(ArrayId),
    /// A dictionary, shared by all that hold it.
    Dictionary(DictionaryId),
    /// A namespace.
    Namespace(DictionaryId),
    /// A function of a file.
    Function(FunctionId),
    /// A function of the library.
    Builtin(BuiltinId),
    /// A type.
    Type(TypeId),
    /// A reference.
    Reference(ReferenceId),
    /// An object.
    Object(ObjectId),
    /// A point in time, in seconds since 1970.
    DateTime(f64),
}

/// Keys and values, sorted by the key's number: small, and found by halving.
#[derive(Clone, Debug, Default)]
pub struct Table {
    entries: Vec<(StringId, Value)>,
}

impl Table {
    fn find(&self, key: StringId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&key, |entry| entry.0)
    }

    /// The value of a key.
    pub fn get(&self, key: StringId) -> Option<Value> {
        self.find(key).ok().map(|at| self.entries[at].1)
    }

    /// Sets a key.
    pub fn set(&mut self, key: StringId, value: Value) {
        match self.find(key) {
            Ok(at) => self.entries[at].1 = value,
            Err(at) => self.entries.insert(at, (key, value)),
        }
    }

    /// Removes a key.
    pub fn remove(&mut self, key: StringId) -> Option<Value> {
        self.find(key).ok().map(|at| self.entries.remove(at).1)
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values in the order of the keys' numbers, which nobody may see from outside.
    pub fn iter(&self) -> impl Iterator<Item = (StringId, Value)> + '_ {
        self.entries.iter().copied()
    }

    /// Puts other keys and values in the places of these.
    pub(crate) fn rename(&mut self, new: impl Fn(StringId, Value) -> (StringId, Value)) {
        self.entries.iter_mut().for_each(|entry| *entry = new(entry.0, entry.1));
        if !self.entries.is_sorted_by_key(|entry| entry.0) {
            self.entries.sort_unstable_by_key(|entry| entry.0);
        }
    }

    /// Gives unused memory back.
    pub fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }
}

impl FromIterator<(StringId, Value)> for Table {
    fn from_iter<I: IntoIterator<Item = (StringId, Value)>>(entries: I) -> Table {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by_key(|entry| entry.0);
        Table { entries }
    }
}

/// An array's contents.
#[derive(Clone, Debug, Default)]
pub struct Array {
    /// Its items.
    pub items: Vec<Value>,
    /// Where it was made.
    pub origin: Place,
    /// Where `freeze()` was called on it.
    pub frozen: Option<Place>,
}

/// A dictionary's or namespace's contents.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    /// Its items.
    pub items: Table,
    /// Where it was made.
    pub origin: Place,
    /// What few have.
    pub rare: Option<Box<Rare>>,
}

/// What few dictionaries have.
#[derive(Clone, Debug, Default)]
pub struct Rare {
    /// Where `freeze()` was called on it.
    pub frozen: Option<Place>,
    /// Keys that cannot be changed, sorted.
    pub constants: Vec<StringId>,
    /// What may be written to it.
    pub writes: Writes,
}

/// What may be written to a dictionary or namespace, besides its constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// Anything.
    #[default]
    Any,
    /// Each key once: what is set is a constant.
    Once,
    /// Nothing: it is the program's own.
    Nothing,
}

/// A function of a file.
#[derive(Clone, Debug)]
pub struct Closure {
    /// The file.
    pub file: FileId,
    /// The node of the function.
    pub node: NodeId,
    /// Its name, for messages.
    pub name: Option<StringId>,
    /// What `use` took along.
    pub captured: Box<[(StringId, Value)]>,
}

/// A reference: a container and a key in it.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// The container.
    pub base: Value,
    /// The key.
    pub key: Value,
}

/// Where an attribute of an object was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hint {
    /// The attribute.
    pub attribute: StringId,
    /// The key in it, when one key was set: `role` of `vars.role`.
    pub key: Option<StringId>,
    /// The assignment.
    pub place: Place,
}

/// Where what an object says comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Where each attribute was set, in the order of assignments.
    pub hints: Vec<Hint>,
    /// The object's own name and those of the templates it imported, in order.
    pub templates: Vec<StringId>,
}

/// An object's trail: by itself while the object is made, then one for all that a rule made alike,
/// as it would be a third of what a service takes.
#[derive(Clone, Debug)]
pub enum TrailOf {
    /// By itself.
    One(Box<Trail>),
    /// That of others too.
    Many(TrailId),
}

impl Default for TrailOf {
    fn default() -> TrailOf {
        TrailOf::One(Box::default())
    }
}

/// An object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its type.
    pub of_type: TypeId,
    /// The name it was given.
    pub name: StringId,
    /// Its attributes that were set, and those the engine sets.
    pub attributes: Table,
    /// Where they come from: see `Heap::trail`.
    pub trail: TrailOf,
    /// Its definition, or the rule that made it.
    pub origin: Place,
    /// The object that a rule made it for.
    pub target: Option<ObjectId>,
}
