//! What was defined, and found by its name: objects, templates and rules.

use std::collections::BTreeMap;

use crate::ast::NodeId;
use crate::source::{FileId, Place};
use crate::value::{ObjectId, StringId, TypeId, Value};

/// An object or template, or what a rule makes.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The type of what is made.
    pub of_type: TypeId,
    /// Its name; of a rule with `for`, what names begin with.
    pub name: StringId,
    /// Whether a name was written.
    pub is_named: bool,
    /// Where it is.
    pub file: FileId,
    /// Its node.
    pub node: NodeId,
    /// What `use` took along.
    pub captured: Box<[(StringId, Value)]>,
    /// From its keyword to its name.
    pub place: Place,
    /// The zone whose file it is in.
    pub zone: Option<StringId>,
    /// The package of configuration that its file is in; none for what an administrator keeps.
    pub package: Option<StringId>,
}

/// Objects by type and name.
pub type ObjectIndex = BTreeMap<(TypeId, StringId), ObjectId>;

/// An `apply`.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it makes.
    pub definition: Definition,
    /// The type of the objects that it makes something for.
    pub target: TypeId,
}

/// Everything that was defined, in the order in which it was met.
#[derive(Clone, Debug, Default)]
pub struct DefinitionIndex {
    /// Objects.
    pub objects: Vec<Definition>,
    /// Rules.
    pub rules: Vec<Rule>,
    pub(super) templates: Vec<Definition>,
    pub(super) objects_by_name: BTreeMap<(TypeId, StringId), u32>,
    pub(super) templates_by_name: BTreeMap<(TypeId, StringId), u32>,
    /// Default templates, by type.
    pub(super) defaults: BTreeMap<TypeId, Vec<u32>>,
}

impl DefinitionIndex {
    /// Every definition.
    pub(super) fn all(&self) -> impl Iterator<Item = &Definition> {
        let rules = self.rules.iter().map(|rule| &rule.definition);
        self.objects.iter().chain(&self.templates).chain(rules)
    }

    /// What an `import` of this name means: a template, else an object.
    pub(crate) fn importable(&self, of_type: TypeId, name: StringId) -> Option<&Definition> {
        let template = self.templates_by_name.get(&(of_type, name));
        let object = || self.objects_by_name.get(&(of_type, name));
        let template = template.map(|at| &self.templates[*at as usize]);
        template.or_else(|| object().map(|at| &self.objects[*at as usize]))
    }

    /// Whether an `import` of this name means an object's definition.
    pub(super) fn imports_object(&self, of_type: TypeId, name: StringId) -> bool {
        !self.templates_by_name.contains_key(&(of_type, name))
    }

    /// The number of an object's definition.
    pub fn object(&self, of_type: TypeId, name: StringId) -> Option<u32> {
        self.objects_by_name.get(&(of_type, name)).copied()
    }

    /// Adds a definition of which there is none of its name; returns its number.
    pub(crate) fn add_object(&mut self, made: Definition) -> u32 {
        self.objects_by_name.insert((made.of_type, made.name), self.objects.len() as u32);
        self.add_unnamed(made)
    }

    /// Adds a definition that is not found by its name: what its body says is part of the full name.
    pub(super) fn add_unnamed(&mut self, made: Definition) -> u32 {
        let number = self.objects.len() as u32;
        self.objects.push(made);
        number
    }

    /// The definition of an object or template that has this name already.
    pub(super) fn named(&self, of_type: TypeId, name: StringId) -> Option<&Definition> {
        let key = (of_type, name);
        let object = self.objects_by_name.get(&key).map(|at| &self.objects[*at as usize]);
        object.or_else(|| self.templates_by_name.get(&key).map(|at| &self.templates[*at as usize]))
    }

    /// Forgets the name of a definition, which is used no more.
    pub(crate) fn forget_object(&mut self, of_type: TypeId, name: StringId) {
        self.objects_by_name.remove(&(of_type, name));
    }

    /// The number of a template.
    pub(crate) fn find_template(&self, of_type: TypeId, name: StringId) -> Option<u32> {
        self.templates_by_name.get(&(of_type, name)).copied()
    }

    /// The numbers of a type's templates.
    pub(crate) fn templates_of(&self, of_type: TypeId) -> Vec<u32> {
        let range = (of_type, StringId(0))..=(of_type, StringId(u32::MAX));
        self.templates_by_name.range(range).map(|(_, at)| *at).collect()
    }

    /// A template.
    pub(crate) fn template(&self, number: u32) -> &Definition {
        &self.templates[number as usize]
    }

    /// The default templates of a type, in the order of their names: files may be read in any.
    pub(super) fn default_templates(&self, of_type: TypeId) -> Vec<Definition> {
        let Some(numbers) = self.defaults.get(&of_type) else { return Vec::new() };
        numbers.iter().map(|at| self.templates[*at as usize].clone()).collect()
    }
}
