//! What the top level leaves behind for those that make objects: data that is shared and does not change.

use std::collections::{BTreeMap, BTreeSet};

use super::definitions::{DefinitionIndex, ObjectIndex};
use super::fault::Fault;
use crate::ast::NodeId;
use crate::heap::Layer;
use crate::source::{FileId, Place};
use crate::value::{DictionaryId, ObjectId, StringId, TypeId, Value};

/// What the top level left behind. Nothing in it changes while it is shared.
#[derive(Debug)]
pub struct World {
    /// The values.
    pub layer: Layer,
    /// The definitions.
    pub definitions: DefinitionIndex,
    /// The objects that are made, by type and full name.
    pub objects: ObjectIndex,
    /// The same, by type and in the order in which they were made.
    pub by_type: BTreeMap<TypeId, Vec<ObjectId>>,
    /// The members that `assign where` gave to groups.
    pub members: BTreeMap<ObjectId, Vec<ObjectId>>,
    /// What making objects and matching rules looked up, other than their own targets.
    pub reads: Reads,
    /// Its objects write to what the top level made, so they are made one after another.
    pub in_sequence: bool,
    /// What the includes in bodies find.
    pub(crate) snippets: Snippets,
    /// What is expected of what is made.
    pub(crate) expected: Vec<Expectation>,
    pub(crate) links: Vec<Box<[StringId]>>,
    pub(crate) roots: Roots,
}

/// What a test says of what rules make.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// What it is called; of an expected fault a part of its message.
    pub name: String,
    /// The function that must come to something true; none where a fault is expected.
    pub check: Option<Value>,
    /// Where it is said.
    pub place: Place,
}

/// Objects that were looked up by type and name; without a name, all of the type.
pub type Reads = BTreeSet<(TypeId, Option<Box<[u8]>>)>;

/// Dictionaries that everybody knows.
#[derive(Clone, Debug)]
pub struct Roots {
    /// `globals`.
    pub globals: DictionaryId,
    /// Namespaces whose members need no prefix, in order.
    pub imports: Vec<DictionaryId>,
    /// The methods of each type.
    pub prototypes: Vec<DictionaryId>,
    /// The attributes of each type, sorted by their names' numbers.
    pub attributes: Vec<Vec<Attribute>>,
    /// Those of them that an object must have.
    pub required: Vec<Vec<Attribute>>,
    /// The name of each type.
    pub type_names: Vec<Value>,
    /// The string `name`.
    pub name: StringId,
    /// The string `type`.
    pub kind: StringId,
}

/// An attribute of a type, found by its name's number.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// Its name.
    pub name: StringId,
    /// Its place among the type's fields.
    pub field: u16,
    /// What it reads as when nobody set it.
    pub unset: Value,
}

/// The files that an `include` in a body finds; else the fault that it is.
pub(super) type SnippetFiles = Result<Vec<FileId>, Box<Fault>>;

/// What the includes in bodies find, by their nodes.
#[derive(Clone, Debug, Default)]
pub struct Snippets {
    pub(super) found: BTreeMap<(FileId, NodeId), SnippetFiles>,
    /// Files that were read for bodies, by their paths.
    pub(super) files: BTreeMap<String, FileId>,
}
