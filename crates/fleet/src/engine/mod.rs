//! From the top level to objects: stages of matching and making, over a world that is frozen while
//! threads read it.
//!
//! Each stage plans what to make (sequential, cheap), makes it (threads, each in a heap of its
//! own) and joins the results in the order of the plan, so that neither threads nor luck can be
//! seen in them. Start at [`load`].

pub mod bits;
pub(crate) mod change;
pub mod column;
pub mod copies;
mod expand;
pub mod filter;
mod groups;
pub mod matcher;
pub mod membership;
mod plan;
mod transfer;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

pub use matcher::Matching;

use crate::diagnostic::{Diagnostic, Sink};
use crate::eval::{Addition, Bounds, Definition, Fault, Interpreter, Reads, Roots, Scope, World};
use crate::heap::Heap;
use crate::library;
use crate::modules::Modules;
use crate::outside::{Aside, Facts, Line, Lines, NoFacts, Nothing, Outside};
use crate::source::{Place, Source};
use crate::types::Types;
use crate::value::{ObjectId, TypeId};
use expand::Chunk;
use plan::Item;

/// How to load.
#[derive(Clone, Copy, Debug)]
pub struct Options<'o> {
    /// How many threads make objects; 1 makes them in the caller's.
    pub threads: usize,
    /// How rules are matched.
    pub matching: Matching,
    /// How much the top level, and each thread after it, may do.
    pub bounds: Bounds,
    /// What time it is, in seconds since 1970.
    pub now: f64,
    /// What functions say of the host.
    pub facts: &'o dyn Facts,
    /// Strings that are members of `globals`.
    pub constants: &'o [(&'o str, &'o str)],
    /// A file that is evaluated before all others, whether or not it is included.
    pub before: Option<&'o Source>,
    /// Files that are evaluated after all others.
    pub after: &'o [Addition],
    /// Files that are evaluated last, each if no object of its type has been defined.
    pub otherwise: &'o [(&'o str, &'o Source)],
    /// Objects are made one after another and may write to what the top level made; so does a
    /// configuration that sets the constant [`IN_SEQUENCE`].
    pub in_sequence: bool,
    /// `expect` and `expect_fault` may be called: the configuration is loaded to be tested.
    pub tests: bool,
    /// What stands beside a fault is looked at all the same, as editors want it; nothing may be done
    /// with what comes of it.
    pub goes_on: bool,
}

/// The constant by which a configuration says that its objects write to what the top level made.
pub const IN_SEQUENCE: &str = "MakeInSequence";

impl Default for Options<'_> {
    fn default() -> Self {
        let matching = Matching::default();
        let (now, bounds) = (0.0, Bounds::default());
        Options {
            threads: 1,
            matching,
            bounds,
            now,
            facts: &NoFacts,
            constants: &[],
            before: None,
            after: &[],
            otherwise: &[],
            in_sequence: false,
            tests: false,
            goes_on: false,
        }
    }
}

impl<'o> Options<'o> {
    /// An interpreter for what objects are made by, and what it logs.
    fn interpreter(&self, world: &'o World, scope: &Scope<'o>) -> (Interpreter<'o>, Lines) {
        let lines = Lines::default();
        let outside = Aside { now: self.now, lines: lines.clone() };
        let mut run = Interpreter::over(world, scope, Box::new(outside));
        run.facts = self.facts;
        (run, lines)
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
    let of_host = options.facts.constants();
    let of_host = of_host.iter().map(|(name, value)| (*name, value.as_str()));
    let constants: Vec<(&str, &str)> = of_host.chain(options.constants.iter().copied()).collect();
    let roots: Roots = library::install(&mut heap, types, &constants);
    let mut run = Interpreter::new(heap, types, modules, Cow::Owned(roots), outside);
    (run.bounds, run.facts) = (options.bounds, options.facts);
    let mut faults = Sink::default();
    (run.threads, run.goes_on) = (options.threads, options.goes_on);
    run.expected = options.tests.then(Vec::new);
    for source in options.before.cloned().into_iter().chain([source]) {
        if let Err(fault) = run.run_files(&[source], Place::default(), None) {
            faults.push(fault.diagnostic());
        }
    }
    if faults.is_empty() {
        run.add(options.after)
            .and_then(|()| run.define_the_rest(options.otherwise))
            .unwrap_or_else(|fault| faults.push(fault.diagnostic()));
    }
    let in_sequence = options.in_sequence || run.is_set(IN_SEQUENCE);
    let found = std::mem::take(&mut run.warnings);
    let (errors, warnings) =
        found.into_iter().partition(|found| found.severity == crate::Severity::Error);
    let (errors, mut warnings): (Vec<Diagnostic>, Vec<Diagnostic>) = (errors, warnings);
    errors.into_iter().for_each(|error| faults.push(error));
    let mut outside = std::mem::replace(&mut run.outside, Box::new(Nothing::default()));
    let mut world = run.into_world();
    world.in_sequence = in_sequence;
    let scope = Scope { types, modules, bounds: options.bounds, stage: None };
    let mut loading = Loading { world, scope, options: *options, notes: Notes::default() };
    if faults.is_empty() || options.goes_on {
        loading.stages();
    }
    let Loading { mut world, notes, .. } = loading;
    world.reads = notes.reads;
    for line in notes.lines {
        outside.log(line.severity, &line.facility, &line.text);
    }
    warnings.extend(notes.warnings);
    notes.faults.finish().into_iter().for_each(|fault| faults.push(fault));
    Fleet { world, faults: faults.finish(), warnings }
}

/// What stages have to tell, besides what they make.
#[derive(Debug, Default)]
struct Notes {
    faults: Sink,
    /// What is worth a warning.
    warnings: Vec<Diagnostic>,
    /// Rules that had something to make.
    matched: BTreeSet<u32>,
    /// What was looked up.
    reads: Reads,
    /// What was logged.
    lines: Vec<Line>,
}

struct Loading<'l> {
    world: World,
    scope: Scope<'l>,
    options: Options<'l>,
    notes: Notes,
}

impl Loading<'_> {
    /// Every stage, until one has faults.
    fn stages(&mut self) {
        let mut waiting = Vec::new();
        for (stage, types) in &self.types_by_stage() {
            self.scope.stage = Some(*stage);
            let items = plan::plan(&self.world, &self.scope, &self.options, types, &mut self.notes);
            if self.ends() {
                return;
            }
            let (made, groups) = match self.world.in_sequence {
                true => self.make_in_sequence(&items),
                false => {
                    let chunks = expand::expand(&self.world, &self.scope, &self.options, &items);
                    self.join(&items, chunks)
                }
            };
            self.scope.stage = None;
            self.check_after(&made);
            if self.ends() {
                return;
            }
            // Groups may be made before what they have as members.
            waiting.extend(groups);
            let types = self.scope.types;
            let groups: Vec<(u32, ObjectId)> = waiting
                .extract_if(.., |(definition, _)| self.members_stage(types, *definition) <= *stage)
                .collect();
            let found = self.find_members(&groups, None);
            self.set_members(&found);
            self.world.members.extend(found);
            self.enter_groups_of_groups(*stage);
        }
        self.warn_of_idle_rules();
    }

    /// Whether there are faults that end it all.
    fn ends(&self) -> bool {
        !self.notes.faults.is_empty() && !self.options.goes_on
    }

    /// The types of objects that are made together.
    fn types_by_stage(&self) -> BTreeMap<u8, Vec<TypeId>> {
        let mut stages: BTreeMap<u8, Vec<TypeId>> = BTreeMap::new();
        for id in self.scope.types.of_objects() {
            stages.entry(self.scope.types.stage(id)).or_default().push(id);
        }
        stages
    }

    /// The stage that makes the members of a group.
    fn members_stage(&self, types: &Types, definition: u32) -> u8 {
        let of_type = self.world.definitions.objects[definition as usize].of_type;
        let members = types.get(of_type).rules.as_ref().and_then(|rules| rules.members);
        members.and_then(|name| types.find(name.as_bytes())).map_or(0, |id| types.stage(id))
    }

    /// Makes what a plan says in the world's own heap, one after another.
    fn make_in_sequence(&mut self, items: &[Item]) -> (Vec<ObjectId>, Vec<(u32, ObjectId)>) {
        let (made, lines) = expand::in_sequence(&mut self.world, &self.scope, &self.options, items);
        self.notes.lines.extend(lines);
        let heap = Heap::from_layer(std::mem::take(&mut self.world.layer));
        let (mut all, mut groups) = (Vec::new(), Vec::new());
        for expand::Expansion { item, matched, outcome } in made {
            self.note_match(items[item], matched);
            match outcome {
                Ok(objects) => {
                    self.enter(&heap, items[item], &objects, &mut groups);
                    all.extend(objects);
                }
                Err(fault) => self.notes.faults.push(fault.diagnostic()),
            }
        }
        self.world.layer = heap.into_layer();
        (all, groups)
    }

    /// Notes that a rule had something to make.
    fn note_match(&mut self, item: Item, matched: bool) {
        if let (Item::Product { rule, .. }, true) = (item, matched) {
            self.notes.matched.insert(rule);
        }
    }

    /// A rule that makes nothing at all is often one that misspells what it asks for.
    fn warn_of_idle_rules(&mut self) {
        let heap = Heap::over(&self.world.layer);
        for (rule, number) in self.world.definitions.rules.iter().zip(0..) {
            if self.notes.matched.contains(&number) {
                continue;
            }
            let Definition { of_type, name, place, .. } = rule.definition;
            let (name, of_type) = (heap.text(name), &self.scope.types.get(of_type).name);
            let message =
                format!("Apply rule '{name}' for type '{of_type}' does not match anywhere!");
            self.notes.warnings.push(Diagnostic::warning(place, message));
        }
    }

    /// Enters what came of an item.
    fn enter(
        &mut self,
        heap: &Heap<'_>,
        item: Item,
        objects: &[ObjectId],
        groups: &mut Vec<(u32, ObjectId)>,
    ) {
        if let (Item::Object { definition, .. }, []) = (item, objects) {
            self.forget(definition);
        }
        for object in objects {
            self.register(heap, *object);
            if let Item::Object { definition, has_members: true } = item {
                groups.push((definition, *object));
            }
        }
    }

    /// Takes what threads made into the world, in the order of the plan. Returns it, and the
    /// objects that have members by `assign where`, with their definitions.
    fn join(
        &mut self,
        items: &[Item],
        chunks: Vec<Chunk>,
    ) -> (Vec<ObjectId>, Vec<(u32, ObjectId)>) {
        let mut heap = Heap::from_layer(std::mem::take(&mut self.world.layer));
        let (mut all, mut groups) = (Vec::new(), Vec::new());
        for mut chunk in chunks {
            self.notes.reads.extend(std::mem::take(&mut chunk.reads));
            self.notes.lines.append(&mut chunk.lines);
            let numbers = heap.adopt(chunk.heap);
            for made in chunk.made {
                self.note_match(items[made.item], made.matched);
                match made.outcome {
                    Ok(mut objects) => {
                        objects.iter_mut().for_each(|object| *object = numbers.object(*object));
                        self.enter(&heap, items[made.item], &objects, &mut groups);
                        all.extend(objects);
                    }
                    Err(fault) => self.notes.faults.push(fault.diagnostic()),
                }
            }
        }
        self.world.layer = heap.into_layer();
        (all, groups)
    }

    /// What `ignore_on_error` made nothing of is not there for others to name.
    fn forget(&mut self, definition: u32) {
        let all = &mut self.world.definitions;
        let Definition { of_type, name, .. } = all.objects[definition as usize];
        all.forget_object(of_type, name);
    }

    /// What can be said of objects only when all of their stage are there.
    fn check_after(&mut self, objects: &[ObjectId]) {
        let types = self.scope.types;
        for id in objects {
            let of_type = Heap::over(&self.world.layer).object(*id).of_type;
            let after = types.get(of_type).rules.as_ref().and_then(|rules| rules.after);
            let checked = after.map(|after| after(&self.world, types, *id));
            if let Some(Err(fault)) = checked {
                self.notes.faults.push(fault.diagnostic());
            }
        }
    }

    /// Enters an object under its name; two of one name are a fault that names both.
    fn register(&mut self, heap: &Heap<'_>, id: ObjectId) {
        let object = heap.object(id);
        if let Some(before) = self.world.objects.insert((object.of_type, object.name), id) {
            let name = heap.text(object.name);
            let of_type = &self.scope.types.get(object.of_type).name;
            let message =
                format!("An object with type '{of_type}' and name '{name}' already exists");
            let fault = Fault::at(object.origin, message);
            let first = heap.object(before).origin;
            self.notes.faults.push(fault.note(first, "the other one is here").diagnostic());
        }
        self.world.by_type.entry(object.of_type).or_default().push(id);
    }

    /// The members of groups, among these objects or among all.
    fn find_members(&mut self, groups: &[(u32, ObjectId)], among: Option<&[ObjectId]>) -> Members {
        if groups.is_empty() {
            return Members::new();
        }
        let world = &self.world;
        let rows = |of_type: TypeId| match among {
            None => plan::all(world, of_type),
            Some(some) => {
                let heap = Heap::over(&world.layer);
                some.iter().copied().filter(|id| heap.object(*id).of_type == of_type).collect()
            }
        };
        plan::members(world, &self.scope, &self.options, groups, &rows, &mut self.notes)
    }
}

/// Members by group.
type Members = BTreeMap<ObjectId, Vec<ObjectId>>;

#[cfg(test)]
mod host_tests;
#[cfg(test)]
mod tests;
