//! Makes what a plan says, on several threads.
//!
//! The items are cut into chunks, which `share` gives to the threads: nothing else is shared and
//! changes. The world that they read is frozen; what each makes is in a heap of its own.

use super::Options;
use super::copies;
use super::plan::{self, Item};
use super::transfer::Transfer;
use crate::ast::{DefinitionKind, Loop};
use crate::eval::{Definition, Fault, Flow, Frame, Instance, Interpreter, Reads, Scope, World};
use crate::heap::{Detached, Heap};
use crate::ops;
use crate::outside::{Line, Lines};
use crate::share::{self, Claims};
use crate::text;
use crate::value::{Dictionary, Hint, ObjectId, StringId, Table, Value};

/// How many items a thread takes at once.
const CHUNK_ITEMS: usize = 256;

/// What came of an item.
pub(super) struct Expansion {
    /// The item's number in the plan.
    pub item: usize,
    /// There was something to make, whether or not that went well.
    pub matched: bool,
    /// The objects, in the thread's heap.
    pub outcome: Result<Vec<ObjectId>, Box<Fault>>,
}

/// What came of a chunk.
pub(super) struct Chunk {
    /// The values.
    pub heap: Detached,
    /// The items, in order.
    pub made: Vec<Expansion>,
    /// What making them looked up.
    pub reads: Reads,
    /// What making them logged.
    pub lines: Vec<Line>,
}

/// Makes all items; the chunks are in the order of the plan.
pub(super) fn expand(
    world: &World,
    scope: &Scope<'_>,
    options: &Options<'_>,
    items: &[Item],
) -> Vec<Chunk> {
    let chunks: Vec<&[Item]> = items.chunks(CHUNK_ITEMS).collect();
    share::out(chunks.len(), options.threads, |claims| {
        Worker::new(world, scope, options).work(&chunks, claims)
    })
}

/// Makes all items in the world's own heap, so that each can write to what is there and sees what
/// those before it wrote.
pub(super) fn in_sequence(
    world: &mut World,
    scope: &Scope<'_>,
    options: &Options<'_>,
    items: &[Item],
) -> (Vec<Expansion>, Vec<Line>) {
    let layer = std::mem::take(&mut world.layer);
    let mut worker = Worker::new(world, scope, options);
    worker.run.heap = Heap::from_layer(layer);
    let mut made = Vec::with_capacity(items.len());
    for (number, item) in items.iter().enumerate() {
        worker.run.random = number as u64;
        made.push(worker.item(number, *item));
    }
    let layer = std::mem::take(&mut worker.run.heap).into_layer();
    let lines = worker.lines.take();
    drop(worker);
    world.layer = layer;
    (made, lines)
}

struct Worker<'w> {
    run: Interpreter<'w>,
    /// What is kept of a chunk: both heaps are emptied after each.
    kept: Heap<'w>,
    lines: Lines,
    world: &'w World,
    scope: Scope<'w>,
}

impl<'w> Worker<'w> {
    fn new(world: &'w World, scope: &Scope<'w>, options: &Options<'w>) -> Worker<'w> {
        let (run, lines) = options.interpreter(world, scope);
        Worker { run, kept: Heap::over(&world.layer), lines, world, scope: *scope }
    }

    fn work(mut self, chunks: &[&[Item]], claims: &Claims) -> Vec<(usize, Chunk)> {
        let make = |number: usize| {
            let made = self.chunk(number * CHUNK_ITEMS, chunks[number]);
            let reads = self.run.reads.take();
            let lines = self.lines.take();
            (number, Chunk { heap: self.kept.detach(), made, reads, lines })
        };
        std::iter::from_fn(|| claims.take()).map(make).collect()
    }

    fn chunk(&mut self, start: usize, items: &[Item]) -> Vec<Expansion> {
        let mut made: Vec<Expansion> = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            // What `random()` says must not depend on who makes an item.
            self.run.random = (start + at) as u64;
            made.push(self.item(start + at, *item));
        }
        let scratch = self.run.heap.detach();
        let mut transfer = Transfer::new(&scratch, &mut self.kept);
        for objects in made.iter_mut().filter_map(|made| made.outcome.as_mut().ok()) {
            for object in objects {
                transfer.next_object();
                *object = transfer.object(*object);
            }
        }
        made
    }

    fn item(&mut self, number: usize, item: Item) -> Expansion {
        let held = self.run.held();
        let made = self.made(number, item);
        self.run.let_go(held);
        made
    }

    fn made(&mut self, number: usize, item: Item) -> Expansion {
        let (definition, made) = match item {
            Item::Object { definition, .. } => {
                let definition = &self.world.definitions.objects[definition as usize];
                let made = self.make(definition, definition.name, Table::default(), None);
                (definition, made.map(|id| vec![id]))
            }
            Item::Product { rule, target, ask_each } => {
                let definition = &self.world.definitions.rules[rule as usize].definition;
                let made = self.products(definition, target, ask_each);
                let made = made.map_err(|fault| {
                    let object = plan::object_in(&self.run.heap, &self.scope, target);
                    fault.note(definition.place, &format!("evaluating this rule for {object}"))
                });
                (definition, made)
            }
        };
        let matched = made.as_ref().map_or(true, |objects| !objects.is_empty());
        Expansion { item: number, matched, outcome: self.forgive(definition, made) }
    }

    /// `ignore_on_error` makes nothing of a fault.
    fn forgive(
        &self,
        definition: &Definition,
        made: Result<Vec<ObjectId>, Box<Fault>>,
    ) -> Result<Vec<ObjectId>, Box<Fault>> {
        let module = self.scope.modules.get(definition.file).expect("a definition's file is kept");
        match made {
            Err(_) if plan::node(module, definition).ignore_on_error => Ok(Vec::new()),
            made => made,
        }
    }

    /// An object; a product with its target and the variables of that.
    fn make(
        &mut self,
        definition: &'w Definition,
        name: StringId,
        locals: Table,
        target: Option<(ObjectId, &[(StringId, ObjectId)])>,
    ) -> Result<ObjectId, Box<Fault>> {
        self.run.check_name(definition, name)?;
        let preset = target.map(|(_, owners)| self.preset(definition, owners));
        let (mut preset, target) = (preset.unwrap_or_default(), target.map(|(target, _)| target));
        if target.is_some() {
            self.check_product_name(definition, name)?;
        }
        let zone = target.and_then(|target| self.preset_zone(definition, target, &mut preset));
        let instance = Instance { definition, name, locals, preset, target };
        let made = self.run.instantiate(instance)?;
        if let Some(attribute) = zone
            && let Some(trail) = self.run.heap.trail_mut(made)
        {
            trail.hints.insert(0, Hint { attribute, key: None, place: definition.place });
        }
        self.run.set_full_name(made, name);
        crate::schema::check(&self.run, made)?;
        self.run.heap.settle(made);
        Ok(made)
    }

    /// Icinga's rules make nothing without a name; a unit's name may be an attribute of its body.
    fn check_product_name(
        &self,
        definition: &Definition,
        name: StringId,
    ) -> Result<(), Box<Fault>> {
        let rules = self.run.types.get(definition.of_type).rules.as_ref();
        let needs_one = rules.is_some_and(|rules| rules.converts);
        match needs_one && self.run.heap.bytes(name).is_empty() {
            true => Err(Fault::at(definition.place, "Object name must not be empty.")),
            false => Ok(()),
        }
    }

    /// A product is in its target's zone unless its body says otherwise; the attribute, if it is.
    fn preset_zone(
        &self,
        definition: &Definition,
        target: ObjectId,
        preset: &mut Table,
    ) -> Option<StringId> {
        let zone = self.run.zone_attribute(definition.of_type)?;
        let value = self.run.heap.object(target).attributes.get(zone)?;
        ops::is_true(&self.run.heap, value).then(|| preset.set(zone, value)).map(|()| zone)
    }

    /// The attributes that name what a product belongs to.
    fn preset(&mut self, definition: &Definition, owners: &[(StringId, ObjectId)]) -> Table {
        let types = self.run.types;
        let rules = types.get(definition.of_type).rules.as_ref();
        let names = rules.map_or([&[][..]; 2], |rules| [&rules.target_names, &rules.preset_names]);
        let mut out = Table::default();
        for (_, owner) in owners {
            let object = self.run.heap.object(*owner);
            // The name that it was given: what it belongs to has an attribute of its own.
            let given = object.attributes.get(self.run.roots.name);
            let name = given.unwrap_or(Value::String(object.name));
            let owner_type = &types.get(object.of_type).name;
            let named = names.into_iter().flatten().filter(|(of_type, _)| of_type == owner_type);
            for (_, attribute) in named {
                out.set(self.run.heap.intern(attribute.as_bytes()), name);
            }
        }
        out
    }

    /// What a rule makes for a target: one object, or one for each item of its `for`; of a target with copies, that
    /// for each copy.
    fn products(
        &mut self,
        definition: &'w Definition,
        target: ObjectId,
        ask_each: bool,
    ) -> Result<Vec<ObjectId>, Box<Fault>> {
        let module = self.scope.modules.get(definition.file).expect("a definition's file is kept");
        let node = plan::node(module, definition);
        let variables = plan::variables_of(&self.run, target);
        let base: Table = variables.iter().map(|(name, id)| (*name, Value::Object(*id))).collect();
        let DefinitionKind::Apply { each: Some(each), .. } = &node.kind else {
            return self.copies(definition, definition.name, base, (target, &variables));
        };
        let mut out = Vec::new();
        for (key, loop_variables) in self.turns(definition, each, &base)? {
            let mut locals = base.clone();
            loop_variables.iter().for_each(|(name, value)| locals.set(name, value));
            if ask_each && !self.holds(definition, &locals)? {
                continue;
            }
            let mut name = self.run.heap.bytes(definition.name).to_vec();
            name.extend(text::string(&self.run.heap, self.run.types, key));
            let name = self.run.heap.intern(&name);
            out.extend(self.copies(definition, name, locals, (target, &variables))?);
        }
        Ok(out)
    }

    /// One object, or one for each copy of the target that runs on this host.
    fn copies(
        &mut self,
        definition: &'w Definition,
        name: StringId,
        locals: Table,
        target: (ObjectId, &[(StringId, ObjectId)]),
    ) -> Result<Vec<ObjectId>, Box<Fault>> {
        let Some(copies) = copies::here(&self.run, target.0) else {
            return self.make(definition, name, locals, Some(target)).map(|id| vec![id]);
        };
        let variable = self.run.heap.intern(copies::VARIABLE);
        let mut out = Vec::with_capacity(copies.len());
        for copy in copies {
            let mut locals = locals.clone();
            locals.set(variable, Value::Number(f64::from(copy)));
            let name = [self.run.heap.bytes(name), format!("-{copy}").as_bytes()].concat();
            let name = self.run.heap.intern(&name);
            out.push(self.make(definition, name, locals, Some(target))?);
        }
        Ok(out)
    }

    fn frame(&mut self, definition: &Definition, locals: &Table) -> Frame<'w> {
        let module = self.scope.modules.get(definition.file).expect("a definition's file is kept");
        let mut items = locals.clone();
        definition.captured.iter().for_each(|(name, value)| items.set(*name, *value));
        let dictionary = Dictionary { items, ..Dictionary::default() };
        let locals = self.run.heap.make_dictionary(dictionary);
        let frame = Frame { module, this: Value::Namespace(self.run.roots.globals), locals };
        self.run.hold_frame(&frame);
        frame
    }

    /// The items of a rule's `for`: what the name ends in, and the variables. What is neither an
    /// array nor a dictionary has none; of Icinga's types, neither has what fails.
    fn turns(
        &mut self,
        definition: &Definition,
        each: &Loop,
        base: &Table,
    ) -> Result<Vec<(Value, Table)>, Box<Fault>> {
        let frame = self.frame(definition, base);
        let rules = self.run.types.get(definition.of_type).rules.as_ref();
        let collection = match self.run.evaluate(&frame, each.collection) {
            Ok(collection) => collection,
            // The installed program goes on without a word.
            Err(Flow::Fail(fault)) if fault.is_caught && rules.is_some_and(|r| r.converts) => {
                return Ok(Vec::new());
            }
            Err(Flow::Fail(fault)) => return Err(fault),
            Err(_) => return Err(Fault::at(definition.place, "Invalid flow control statement.")),
        };
        let module = frame.module;
        let value_name = self.run.atom(module, each.value);
        let key_name = each.key.map(|key| self.run.atom(module, key));
        match (collection, key_name) {
            (Value::Array(id), None) => {
                let items = self.run.heap.array(id).items.clone();
                let turn = |item| (item, Table::from_iter([(value_name, item)]));
                Ok(items.into_iter().map(turn).collect())
            }
            (Value::Dictionary(id), Some(key_name)) => {
                let turn = |(key, value)| {
                    let key = Value::String(key);
                    (key, Table::from_iter([(key_name, key), (value_name, value)]))
                };
                Ok(self.run.heap.sorted(id).into_iter().map(turn).collect())
            }
            (Value::Array(_), Some(_)) => Err(Fault::at(
                definition.place,
                "Dictionary iterator requires value to be a dictionary.",
            )),
            (Value::Dictionary(_), None) => {
                Err(Fault::at(definition.place, "Array iterator requires value to be an array."))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether a rule's filter holds for one product.
    fn holds(&mut self, definition: &Definition, locals: &Table) -> Result<bool, Box<Fault>> {
        let frame = self.frame(definition, locals);
        let node = plan::node(frame.module, definition);
        let mut any = |filters: &[crate::ast::NodeId]| -> Result<bool, Box<Fault>> {
            for filter in filters {
                if self.run.holds(&frame, *filter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let assigned = node.assign.is_empty() || any(&node.assign)?;
        Ok(assigned && !any(&node.ignore)?)
    }
}
