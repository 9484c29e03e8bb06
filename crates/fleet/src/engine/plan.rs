//! What a stage makes: its objects, and for each rule the targets that it is for.

use std::collections::BTreeMap;

use super::copies;
use super::matcher::{Matcher, RuleFilter, Targets};
use super::{Notes, Options};
use crate::ast::{self, DefinitionKind, Kind, Module, NodeId};
use crate::eval::{Definition, Interpreter, Scope, World};
use crate::heap::Heap;
use crate::token::{Keyword, TokenKind};
use crate::value::{ObjectId, StringId, TypeId};

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Make an object.
    Object {
        /// Its number among the definitions of objects.
        definition: u32,
        /// Whether it has members by `assign where`.
        has_members: bool,
    },
    /// Make what a rule makes for a target.
    Product {
        /// The rule's number.
        rule: u32,
        /// The target.
        target: ObjectId,
        /// Whether the filter is still to be asked, for each product.
        ask_each: bool,
    },
}

/// The definition's node.
pub(super) fn node<'m>(module: &'m Module, definition: &Definition) -> &'m ast::Definition {
    match &module.node(definition.node).kind {
        Kind::Definition(node) => node,
        _ => panic!("a definition is made of a definition's node"),
    }
}

/// The variables of a rule's `for`.
pub(super) fn loop_variables(
    run: &Interpreter<'_>,
    module: &Module,
    node: &ast::Definition,
) -> Vec<StringId> {
    let DefinitionKind::Apply { each: Some(each), .. } = &node.kind else { return Vec::new() };
    each.key.into_iter().chain([each.value]).map(|atom| run.atom(module, atom)).collect()
}

/// The plan of a stage: its objects in the order of their definitions, then rule by rule the
/// targets in the order in which they were made.
pub(super) fn plan(
    world: &World,
    scope: &Scope<'_>,
    options: &Options<'_>,
    types: &[TypeId],
    notes: &mut Notes,
) -> Vec<Item> {
    let mut items = Vec::new();
    for (number, definition) in world.definitions.objects.iter().enumerate() {
        if types.contains(&definition.of_type) {
            let module = scope.modules.get(definition.file).expect("a definition's file is kept");
            let has_members = !node(module, definition).assign.is_empty();
            items.push(Item::Object { definition: number as u32, has_members });
        }
    }
    let mut by_target: BTreeMap<TypeId, Vec<u32>> = BTreeMap::new();
    for (number, rule) in world.definitions.rules.iter().enumerate() {
        if types.contains(&rule.definition.of_type) {
            by_target.entry(rule.target).or_default().push(number as u32);
        }
    }
    let mut products: Vec<(u32, Vec<Item>)> = Vec::new();
    for (target, rules) in by_target {
        products.extend(matches(world, scope, options, all(world, target), &rules, notes));
    }
    products.sort_by_key(|(rule, _)| *rule);
    items.extend(products.into_iter().flat_map(|(_, items)| items));
    items
}

/// The objects of a type, in the order in which they were made.
pub(super) fn all(world: &World, of_type: TypeId) -> Vec<ObjectId> {
    world.by_type.get(&of_type).cloned().unwrap_or_default()
}

/// What rules for one type make for these objects of it.
pub(super) fn matches(
    world: &World,
    scope: &Scope<'_>,
    options: &Options<'_>,
    rows: Vec<ObjectId>,
    rules: &[u32],
    notes: &mut Notes,
) -> Vec<(u32, Vec<Item>)> {
    let (mut run, lines) = options.interpreter(world, scope);
    let rows = rows.into_iter().filter(|row| copies::is_here(&run, *row)).collect();
    let targets = targets(&run, rows);
    let mut written = Vec::new();
    for number in rules {
        let definition = &world.definitions.rules[*number as usize].definition;
        let module = scope.modules.get(definition.file).expect("a definition's file is kept");
        let node = node(module, definition);
        let variables = loop_variables(&run, module, node);
        let ask_each = node
            .assign
            .iter()
            .chain(&node.ignore)
            .any(|filter| !variables.is_empty() && mentions(&run, module, *filter, &variables));
        written.push((*number, definition, node, variables, ask_each));
    }
    let mut matcher = Matcher::new(&mut run, &targets, options.matching);
    let mut out = Vec::new();
    for (rule, definition, node, variables, ask_each) in &written {
        let product =
            |ask_each| move |target: ObjectId| Item::Product { rule: *rule, target, ask_each };
        let all = || targets.rows.iter().copied().map(product(true)).collect();
        if *ask_each {
            out.push((*rule, all()));
            continue;
        }
        let filter = RuleFilter {
            file: definition.file,
            place: definition.place,
            captured: &definition.captured,
            assign: &node.assign,
            ignore: &node.ignore,
            loop_variables: variables,
        };
        match matcher.rows(&filter) {
            Ok(rows) => {
                let found = rows.rows().map(|row| targets.rows[row]);
                out.push((*rule, found.map(product(false)).collect()));
            }
            // Nobody asks whether nothing is to be made: a fault counts where `for` has an item.
            Err(_) if !variables.is_empty() => out.push((*rule, all())),
            Err((row, fault)) => {
                let object = world_object(world, scope, targets.rows[row]);
                let note = format!("evaluating this rule for {object}");
                notes.faults.push(fault.note(definition.place, &note).diagnostic());
            }
        }
    }
    notes.reads.append(&mut run.reads.borrow_mut());
    notes.lines.extend(lines.take());
    out
}

/// `Container 'shop'`.
pub(super) fn world_object(world: &World, scope: &Scope<'_>, id: ObjectId) -> String {
    object_in(&Heap::over(&world.layer), scope, id)
}

/// The same of an object of a heap.
pub(super) fn object_in(heap: &Heap<'_>, scope: &Scope<'_>, id: ObjectId) -> String {
    let object = heap.object(id);
    format!("{} '{}'", scope.types.get(object.of_type).name, heap.text(object.name))
}

/// Whether an expression has one of these names in it, or what could stand for one.
fn mentions(run: &Interpreter<'_>, module: &Module, id: NodeId, names: &[StringId]) -> bool {
    let span = module.node(id).span;
    let from = module.tokens.partition_point(|token| token.span.start < span.start);
    let mut inside = module.tokens[from..].iter().take_while(|token| token.span.end <= span.end);
    inside.any(|token| match token.kind {
        TokenKind::Keyword(Keyword::Locals) => true,
        TokenKind::Name => {
            let text = &module.source.text[token.span.start as usize..token.span.end as usize];
            let text = text.strip_prefix(b"@").unwrap_or(text);
            run.heap.find(text).is_some_and(|name| names.contains(&name))
        }
        _ => false,
    })
}

/// Objects and the variables that stand for them and for what they belong to.
fn targets(run: &Interpreter<'_>, rows: Vec<ObjectId>) -> Targets {
    let mut variables: BTreeMap<StringId, Vec<Option<ObjectId>>> = BTreeMap::new();
    for (row, id) in rows.iter().enumerate() {
        for (name, object) in variables_of(run, *id) {
            variables.entry(name).or_insert_with(|| vec![None; rows.len()])[row] = Some(object);
        }
    }
    Targets { rows, variables: variables.into_iter().collect() }
}

/// The variables of a target: itself and what it belongs to.
pub(super) fn variables_of(run: &Interpreter<'_>, id: ObjectId) -> Vec<(StringId, ObjectId)> {
    let (mut out, mut next) = (Vec::new(), Some(id));
    while let Some(id) = next {
        let rules = run.types.get(run.heap.object(id).of_type).rules.as_ref();
        let name = rules.and_then(|rules| run.heap.find(rules.variable.as_bytes()));
        match name {
            Some(name) if out.iter().all(|(known, _)| *known != name) => out.push((name, id)),
            _ => break,
        }
        next = run.owner(id);
    }
    out
}

/// The members of groups among the objects of each type that `rows` gives.
pub(super) fn members(
    world: &World,
    scope: &Scope<'_>,
    options: &Options<'_>,
    groups: &[(u32, ObjectId)],
    rows: &dyn Fn(TypeId) -> Vec<ObjectId>,
    notes: &mut Notes,
) -> BTreeMap<ObjectId, Vec<ObjectId>> {
    let mut by_type: BTreeMap<TypeId, Vec<(u32, ObjectId)>> = BTreeMap::new();
    for (definition, group) in groups {
        let made = &world.definitions.objects[*definition as usize];
        let rules = scope.types.get(made.of_type).rules.as_ref();
        let members = rules.and_then(|rules| scope.types.find(rules.members?.as_bytes()));
        if let Some(members) = members {
            by_type.entry(members).or_default().push((*definition, *group));
        }
    }
    let mut out = BTreeMap::new();
    for (member_type, groups) in by_type {
        let (mut run, lines) = options.interpreter(world, scope);
        let targets = targets(&run, rows(member_type));
        let mut matcher = Matcher::new(&mut run, &targets, options.matching);
        for (number, group) in groups {
            let definition = &world.definitions.objects[number as usize];
            let module = scope.modules.get(definition.file).expect("a definition's file is kept");
            let node = node(module, definition);
            let written = RuleFilter {
                file: definition.file,
                place: definition.place,
                captured: &definition.captured,
                assign: &node.assign,
                ignore: &node.ignore,
                loop_variables: &[],
            };
            match matcher.rows(&written) {
                Ok(rows) => {
                    out.insert(group, rows.rows().map(|row| targets.rows[row]).collect());
                }
                Err((row, fault)) => {
                    let object = world_object(world, scope, targets.rows[row]);
                    let note = format!("evaluating membership of {object}");
                    notes.faults.push(fault.note(definition.place, &note).diagnostic());
                }
            }
        }
        notes.reads.append(&mut run.reads.borrow_mut());
        notes.lines.extend(lines.take());
    }
    out
}
