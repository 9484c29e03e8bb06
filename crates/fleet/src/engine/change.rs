//! A change of a few objects in a loaded world: what reads them is made again, and nothing else.
//!
//! Only files that do nothing but define objects by their names can be changed this way: what they
//! say depends on nothing that was evaluated before them, and nothing after depends on them but
//! through the objects. Whatever else changes, and whatever goes wrong, is for a load from
//! scratch, which says what is wrong. Start at [`remake`].

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{self, Item};
use super::{Loading, Notes, Options, expand};
use crate::ast::{DefinitionKind, Kind, Module};
use crate::eval::{Definition, Scope, World};
use crate::heap::Heap;
use crate::source::{FileId, Place};
use crate::value::{ObjectId, StringId, TypeId};

/// What objects were made for, with what rules made for them.
pub(crate) type Products = BTreeMap<ObjectId, Vec<ObjectId>>;

/// A world after a change.
pub(crate) struct Remade {
    /// The world.
    pub world: World,
    /// Objects that are no more; they can still be read.
    pub gone: Vec<ObjectId>,
    /// Objects that take their places, and new ones.
    pub made: Vec<ObjectId>,
}

/// The object definitions of a file that has nothing else; nothing if it has.
pub(crate) fn plain_definitions(
    module: &Module,
    world: &World,
    scope: &Scope<'_>,
) -> Option<Vec<Definition>> {
    let heap = Heap::over(&world.layer);
    let links = world.links.get(module.file.0 as usize)?;
    let globals = heap.dictionary(world.roots.globals);
    let one = |id: &crate::ast::NodeId| {
        let Kind::Definition(node) = &module.node(*id).kind else { return None };
        let Kind::Name(of_type) = module.node(node.of_type).kind else { return None };
        let Kind::String(name) = module.node(node.name?).kind else { return None };
        let type_name = links[of_type.0 as usize];
        let of_type = scope.types.find(heap.bytes(type_name))?;
        let rules = scope.types.get(of_type).rules.as_ref()?;
        let is_plain = matches!(node.kind, DefinitionKind::Object)
            && node.captured.is_empty()
            && node.assign.is_empty()
            && node.ignore.is_empty()
            && rules.members.is_none()
            && globals.items.get(type_name).is_none();
        let name = links[name.0 as usize];
        (is_plain && !heap.bytes(name).contains(&b'!')).then(|| Definition {
            of_type,
            name,
            is_named: true,
            file: module.file,
            node: *id,
            captured: Box::default(),
            place: Place { file: module.file, span: node.head },
            // Warrener's types have neither.
            zone: None,
            package: None,
        })
    };
    let is_plain = module.usings.is_empty();
    is_plain.then(|| module.root.iter().map(one).collect()).flatten()
}

/// The text of a definition and its line.
type DefinitionText<'m> = (&'m [u8], u32);

/// What a definition says, and the line where it says so.
fn said<'m>(module: &'m Module, definition: &Definition) -> DefinitionText<'m> {
    let span = module.node(definition.node).span;
    let text = module.source.text.get(span.start as usize..span.end as usize).unwrap_or_default();
    (text, module.source.line_column(span.start).0)
}

/// What a file defines otherwise than before.
struct Difference {
    gone: Vec<Definition>,
    come: Vec<Definition>,
}

/// Definitions by name, with what they say.
fn index<'m>(
    module: &'m Module,
    all: &[Definition],
) -> BTreeSet<(TypeId, StringId, DefinitionText<'m>)> {
    all.iter().map(|d| (d.of_type, d.name, said(module, d))).collect()
}

/// The difference of two plain files. A definition that says the same in the same line stays.
fn difference(
    (old, before): (&Module, Vec<Definition>),
    (new, after): (&Module, Vec<Definition>),
) -> Difference {
    let (said_before, said_after) = (index(old, &before), index(new, &after));
    let without =
        |all: Vec<Definition>, module: &Module, others: &BTreeSet<_>| -> Vec<Definition> {
            let stays = |d: &Definition| others.contains(&(d.of_type, d.name, said(module, d)));
            all.into_iter().filter(|definition| !stays(definition)).collect()
        };
    let gone = without(before, old, &said_after);
    Difference { gone, come: without(after, new, &said_before) }
}

/// Puts a file in the place of another one that was read before; both must be plain. Nothing if
/// only a load from scratch can do that, or if it has faults.
pub(crate) fn remake(
    mut world: World,
    scope: Scope<'_>,
    options: Options<'_>,
    (old, new): (FileId, FileId),
    products: &Products,
) -> Option<Remade> {
    let (old, new) = (scope.modules.get(old)?, scope.modules.get(new)?);
    let before = (old, plain_definitions(old, &world, &scope)?);
    let after = (new, plain_definitions(new, &world, &scope)?);
    let Difference { gone, come } = difference(before, after);
    if gone.iter().chain(&come).any(|definition| is_read(&world, definition)) {
        return None;
    }
    let name = |d: &Definition| (d.of_type, d.name);
    let objects: Option<Vec<ObjectId>> =
        gone.iter().map(|d| world.objects.get(&name(d)).copied()).collect();
    gone.iter().for_each(|d| world.definitions.forget_object(d.of_type, d.name));
    let mut numbers = Vec::new();
    for definition in &come {
        // Another definition has this name.
        if world.definitions.object(definition.of_type, definition.name).is_some() {
            return None;
        }
        numbers.push(world.definitions.add_object(definition.clone()));
    }
    let loading = Loading { world, scope, options, notes: Notes::default() };
    let mut remaking = Remaking { loading, gone: Vec::new(), made: Vec::new() };
    remaking.take_away(&objects?, products);
    remaking.stages(&numbers)?;
    let Remaking { loading: Loading { mut world, mut notes, .. }, gone, made } = remaking;
    world.reads.append(&mut notes.reads);
    // Lines are told by a load.
    if !notes.lines.is_empty() {
        return None;
    }
    // One that gave itself another name is found by that alone.
    let are_found = come.iter().all(|d| world.objects.contains_key(&name(d)));
    are_found.then_some(Remade { world, gone, made })
}

/// Whether something but the rules for its type looks this object up.
fn is_read(world: &World, definition: &Definition) -> bool {
    let heap = Heap::over(&world.layer);
    let name = Some(heap.bytes(definition.name).into());
    [None, name].into_iter().any(|name| world.reads.contains(&(definition.of_type, name)))
}

/// A world under change.
struct Remaking<'r> {
    loading: Loading<'r>,
    gone: Vec<ObjectId>,
    made: Vec<ObjectId>,
}

impl Remaking<'_> {
    /// Takes objects out of the world, and what rules made for them.
    fn take_away(&mut self, objects: &[ObjectId], products: &Products) {
        let world = &mut self.loading.world;
        let of = |id: &ObjectId| products.get(id).into_iter().flatten().copied();
        self.gone = objects.iter().flat_map(|id| std::iter::once(*id).chain(of(id))).collect();
        let gone: BTreeSet<ObjectId> = self.gone.iter().copied().collect();
        let heap = Heap::over(&world.layer);
        for id in &gone {
            let object = heap.object(*id);
            world.objects.remove(&(object.of_type, object.name));
            // They are in the order in which they were made, which is that of their numbers.
            let all = world.by_type.entry(object.of_type).or_default();
            if let Ok(at) = all.binary_search(id) {
                all.remove(at);
            }
        }
        world.members.values_mut().for_each(|members| members.retain(|id| !gone.contains(id)));
    }

    /// Makes these definitions' objects and what rules make for them; nothing at a fault.
    fn stages(&mut self, definitions: &[u32]) -> Option<()> {
        for (stage, types) in self.loading.types_by_stage() {
            self.loading.scope.stage = Some(stage);
            let items = self.plan(stage, definitions);
            if !items.is_empty() && self.loading.notes.faults.is_empty() {
                let Loading { world, scope, options, .. } = &self.loading;
                let chunks = expand::expand(world, scope, options, &items);
                let (made, _) = self.loading.join(&items, chunks);
                self.made.extend(made);
            }
            self.loading.scope.stage = None;
            self.enter_groups(&types)?;
            if !self.loading.notes.faults.is_empty() {
                return None;
            }
        }
        Some(())
    }

    /// What is to be made in a stage.
    fn plan(&mut self, stage: u8, definitions: &[u32]) -> Vec<Item> {
        let Loading { world, scope, options, notes } = &mut self.loading;
        let stage_of = |id: TypeId| scope.types.stage(id);
        let all = &world.definitions;
        let own = definitions.iter().copied();
        let mut items: Vec<Item> = own
            .filter(|number| stage_of(all.objects[*number as usize].of_type) == stage)
            .map(|definition| Item::Object { definition, has_members: false })
            .collect();
        let mut rules: BTreeMap<TypeId, Vec<u32>> = BTreeMap::new();
        for (rule, number) in all.rules.iter().zip(0..) {
            if stage_of(rule.definition.of_type) == stage {
                rules.entry(rule.target).or_default().push(number);
            }
        }
        let heap = Heap::over(&world.layer);
        for (target, rules) in rules {
            let of_type = |id: &ObjectId| heap.object(*id).of_type == target;
            let rows: Vec<ObjectId> = self.made.iter().copied().filter(of_type).collect();
            if !rows.is_empty() {
                let found = plan::matches(world, scope, options, rows, &rules, notes);
                items.extend(found.into_iter().flat_map(|(_, items)| items));
            }
        }
        items
    }

    /// Enters what was made into the groups of these types; nothing if a group cannot be found.
    fn enter_groups(&mut self, types: &[TypeId]) -> Option<()> {
        let Loading { world, scope, .. } = &self.loading;
        let has_members =
            |id: &TypeId| scope.types.get(*id).rules.as_ref().is_some_and(|r| r.members.is_some());
        let types: Vec<TypeId> = types.iter().copied().filter(has_members).collect();
        if types.is_empty() || self.made.is_empty() {
            return Some(());
        }
        let mut groups = Vec::new();
        for (definition, number) in world.definitions.objects.iter().zip(0..) {
            if !types.contains(&definition.of_type) {
                continue;
            }
            let module = scope.modules.get(definition.file)?;
            if !plan::node(module, definition).assign.is_empty() {
                let group = world.objects.get(&(definition.of_type, definition.name))?;
                groups.push((number, *group));
            }
        }
        let found = self.loading.find_members(&groups, Some(&self.made));
        self.loading.set_members(&found);
        self.enter_groups_of_groups(&types);
        for (group, members) in found {
            self.loading.world.members.entry(group).or_default().extend(members);
        }
        Some(())
    }

    /// Enters what was made into the groups that its groups of these types are in.
    fn enter_groups_of_groups(&mut self, types: &[TypeId]) {
        for (group, member) in self.loading.types_of_groups() {
            let heap = Heap::over(&self.loading.world.layer);
            let is_member = |id: &ObjectId| heap.object(*id).of_type == member;
            let members: Vec<ObjectId> = self.made.iter().copied().filter(is_member).collect();
            drop(heap);
            if types.contains(&group) {
                self.loading.enter_groups_of(group, &members);
            }
        }
    }
}
