//! From the top level to objects: stages of matching and making, over a world that is frozen while
//! threads read it.
//!
//! Each stage plans what to make (sequential, cheap), makes it (threads, each in a heap of its
//! own) and joins the results in the order of the plan, so that neither threads nor luck can be
//! seen in them. Start at [`load`].

pub mod bits;
pub mod column;
mod expand;
pub mod filter;
pub mod matcher;
mod plan;
mod transfer;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use matcher::Matching;

use crate::diagnostic::{Diagnostic, Sink};
use crate::eval::{Fault, Interpreter, Roots, STEPS_MAX, Scope, World};
use crate::heap::Heap;
use crate::library;
use crate::modules::Modules;
use crate::outside::Outside;
use crate::source::{Place, Source};
use crate::types::{Naming, Types};
use crate::value::{ObjectId, TypeId, Value};
use expand::Chunk;
use plan::Item;

/// How to load.
#[derive(Clone, Copy, Debug)]
pub struct Options<'o> {
    /// How many threads make objects; 1 makes them in the caller's.
    pub threads: usize,
    /// How rules are matched.
    pub matching: Matching,
    /// How many steps each thread may make.
    pub steps_max: u64,
    /// What time it is, in seconds since 1970.
    pub now: f64,
    /// Strings that are members of `globals`.
    pub constants: &'o [(&'o str, &'o str)],
}

impl Default for Options<'_> {
    fn default() -> Self {
        let matching = Matching::default();
        Options { threads: 1, matching, steps_max: STEPS_MAX, now: 0.0, constants: &[] }
    }
}

/// What came of a load.
#[derive(Debug)]
pub struct Fleet {
    /// The values, definitions and objects.
    pub world: World,
    /// Faults. If there are any, nothing of the world may be used.
    pub faults: Vec<Diagnostic>,
    /// What was worth a warning.
    pub warnings: Vec<Diagnostic>,
}

/// Loads a file and all it includes: evaluates the top level, makes all objects.
pub fn load(
    source: Source,
    types: &Types,
    modules: &Modules,
    outside: Box<dyn Outside + '_>,
    options: &Options<'_>,
) -> Fleet {
    let mut heap = Heap::default();
    let roots: Roots = library::install(&mut heap, types, options.constants);
    let mut run = Interpreter::new(heap, types, modules, Cow::Owned(roots), outside);
    run.steps_max = options.steps_max;
    let mut faults = Sink::default();
    let outcome = run.run_file(source, None);
    if let Err(fault) = outcome {
        faults.push(fault.diagnostic());
    }
    let found = std::mem::take(&mut run.warnings);
    let (errors, warnings) =
        found.into_iter().partition(|found| found.severity == crate::Severity::Error);
    let errors: Vec<Diagnostic> = errors;
    errors.into_iter().for_each(|error| faults.push(error));
    let world = run.into_world();
    let scope = Scope { types, modules, steps_max: options.steps_max };
    let mut loading = Loading { world, scope, options: *options, faults, warnings };
    if loading.faults.is_empty() {
        loading.stages();
    }
    let Loading { world, faults, warnings, .. } = loading;
    Fleet { world, faults: faults.finish(), warnings }
}

struct Loading<'l> {
    world: World,
    scope: Scope<'l>,
    options: Options<'l>,
    faults: Sink,
    warnings: Vec<Diagnostic>,
}

impl Loading<'_> {
    /// Every stage, until one has faults.
    fn stages(&mut self) {
        let mut stages: BTreeMap<u8, Vec<TypeId>> = BTreeMap::new();
        for id in self.scope.types.of_objects() {
            let stage = self.scope.types.get(id).rules.as_ref().map_or(0, |rules| rules.stage);
            stages.entry(stage).or_default().push(id);
        }
        for types in stages.values() {
            let items =
                plan::plan(&self.world, &self.scope, &self.options, types, &mut self.faults);
            if !self.faults.is_empty() {
                return;
            }
            let chunks = expand::expand(&self.world, &self.scope, &self.options, &items);
            let groups = self.join(&items, chunks);
            if !self.faults.is_empty() {
                return;
            }
            self.members(&groups);
        }
    }

    /// Takes what threads made into the world, in the order of the plan. Returns the objects that
    /// have members by `assign where`, with their definitions.
    fn join(&mut self, items: &[Item], chunks: Vec<Chunk>) -> Vec<(u32, ObjectId)> {
        let mut heap = Heap::from_layer(std::mem::take(&mut self.world.layer));
        let mut groups = Vec::new();
        for chunk in chunks {
            let mut transfer = transfer::Transfer::new(&chunk.heap, &mut heap);
            let mut moved = Vec::new();
            for made in chunk.made {
                match made.outcome {
                    Ok(objects) => {
                        for object in objects {
                            transfer.next_object();
                            moved.push((made.item, transfer.object(object)));
                        }
                    }
                    Err(fault) => self.faults.push(fault.diagnostic()),
                }
            }
            for (item, object) in moved {
                self.register(&heap, object);
                if let Item::Object { definition, has_members: true } = items[item] {
                    groups.push((definition, object));
                }
            }
        }
        self.world.layer = heap.into_layer();
        groups
    }

    /// Enters an object under its name; two of one name are a fault that names both.
    fn register(&mut self, heap: &Heap<'_>, id: ObjectId) {
        let object = heap.object(id);
        if let Some(before) = self.world.objects.insert((object.of_type, object.name), id) {
            let name = heap.text(object.name);
            let of_type = &self.scope.types.get(object.of_type).name;
            let message = format!("two objects of type '{of_type}' have the name '{name}'");
            let fault = Fault::at(object.origin, message);
            let first = heap.object(before).origin;
            self.faults.push(fault.note(first, "the other one is made here").diagnostic());
        }
        self.world.by_type.entry(object.of_type).or_default().push(id);
    }

    /// Finds the members of groups, and tells the members.
    fn members(&mut self, groups: &[(u32, ObjectId)]) {
        if groups.is_empty() {
            return;
        }
        let found =
            plan::members(&self.world, &self.scope, &self.options, groups, &mut self.faults);
        let mut heap = Heap::from_layer(std::mem::take(&mut self.world.layer));
        let attribute = heap.intern(b"groups");
        for (group, members) in &found {
            let object = heap.object(*group);
            let (name, place) = (Value::String(object.name), object.origin);
            for member in members {
                add_to_array(&mut heap, *member, attribute, name, place);
            }
        }
        self.world.members.extend(found);
        self.world.layer = heap.into_layer();
    }
}

/// Adds to an array attribute; the array it had may belong to others, so it gets one of its own.
fn add_to_array(
    heap: &mut Heap<'_>,
    id: ObjectId,
    attribute: crate::value::StringId,
    value: Value,
    place: Place,
) {
    let mut items = match heap.object(id).attributes.get(attribute) {
        Some(Value::Array(array)) => heap.array(array).items.clone(),
        _ => Vec::new(),
    };
    if items.iter().any(|item| crate::ops::equal(heap, *item, value)) {
        return;
    }
    items.push(value);
    let array = heap.array_of(items, place);
    if let Ok(object) = heap.object_mut(id) {
        object.attributes.set(attribute, array);
    }
}

/// The full name of an object that was given a name.
fn full_name(run: &mut Interpreter<'_>, id: ObjectId, given: crate::value::StringId) {
    let object = run.heap.object(id);
    let (name, target) = (object.name, object.target);
    let rules = run.types.get(object.of_type).rules.as_ref();
    let prefix = match rules.map_or(Naming::Plain, |rules| rules.naming) {
        Naming::Plain => None,
        Naming::Prefixed if name != given => None,
        Naming::Prefixed => target.map(|target| (run.heap.object(target).name, b'-')),
        Naming::Composite => owner(run, id).map(|owner| (run.heap.object(owner).name, b'!')),
    };
    if let Some((prefix, between)) = prefix {
        let mut bytes = run.heap.bytes(prefix).to_vec();
        bytes.push(between);
        bytes.extend_from_slice(run.heap.bytes(name));
        let name = run.heap.intern(&bytes);
        if let Ok(object) = run.heap.object_mut(id) {
            object.name = name;
        }
    }
}

/// What an object belongs to: what a rule made it for, else what its attributes name.
fn owner(run: &Interpreter<'_>, id: ObjectId) -> Option<ObjectId> {
    let object = run.heap.object(id);
    if object.target.is_some() {
        return object.target;
    }
    let rules = run.types.get(object.of_type).rules.as_ref()?;
    let named = |(of_type, attribute): &(&str, &str)| {
        let attribute = run.heap.find(attribute.as_bytes())?;
        let Some(Value::String(name)) = object.attributes.get(attribute) else { return None };
        run.find_object(run.types.find(of_type.as_bytes())?, name)
    };
    rules.target_names.iter().find_map(named)
}

#[cfg(test)]
mod tests;
