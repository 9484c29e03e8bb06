//! Which objects are in which groups: members by `assign where`, and members of groups that are in groups.
//!
//! The installed program has them in this order, which configurations can see in `host.groups`: what
//! the object's body says, what rules of groups add (by the names of the groups), then for each of
//! these the groups that it is in, the farthest first.

use std::collections::BTreeMap;

use super::{Loading, Members, plan};
use crate::diagnostic::Diagnostic;
use crate::heap::Heap;
use crate::ops;
use crate::source::Place;
use crate::value::{ObjectId, StringId, TypeId, Value};

/// How deep groups may be in groups; the installed program has the same bound.
const NESTED_MAX: usize = 20;

impl Loading<'_> {
    /// Tells members which groups they are in.
    pub(super) fn set_members(&mut self, found: &Members) {
        if found.is_empty() {
            return;
        }
        let mut heap = Heap::from_layer(std::mem::take(&mut self.world.layer));
        let attribute = heap.intern(b"groups");
        let mut groups: Vec<&ObjectId> = found.keys().collect();
        groups.sort_by_key(|id| heap.bytes(heap.object(**id).name));
        for group in groups {
            let object = heap.object(*group);
            let (name, place) = (object.name, object.origin);
            for member in &found[group] {
                let mut groups = names(&heap, *member, attribute);
                add(&mut groups, name);
                set_names(&mut heap, *member, attribute, groups, place);
            }
        }
        self.world.layer = heap.into_layer();
    }

    /// Tells the members of groups whose types were made up to this stage, the last one in it, which
    /// groups their groups are in.
    pub(super) fn enter_groups_of_groups(&mut self, stage: u8) {
        for (group, member) in self.types_of_groups() {
            let types = self.scope.types;
            if types.stage(group).max(types.stage(member)) == stage {
                let members = plan::all(&self.world, member);
                self.enter_groups_of(group, &members);
            }
        }
    }

    /// The types of groups, each with that of its members.
    pub(super) fn types_of_groups(&self) -> Vec<(TypeId, TypeId)> {
        let types = self.scope.types;
        let members = |group: TypeId| {
            let members = types.get(group).rules.as_ref()?.members?;
            Some((group, types.find(members.as_bytes())?))
        };
        types.of_objects().filter_map(members).collect()
    }

    /// Tells these objects which groups the groups of this type are in that they are in.
    pub(super) fn enter_groups_of(&mut self, group: TypeId, members: &[ObjectId]) {
        let mut heap = Heap::from_layer(std::mem::take(&mut self.world.layer));
        if let Some(attribute) = heap.find(b"groups") {
            let groups = plan::all(&self.world, group);
            let tree = Tree::of(&heap, &groups, attribute);
            for member in members.iter().filter(|_| !tree.above.is_empty()) {
                let own = names(&heap, *member, attribute);
                let mut walk = Walk { tree: &tree, seen: BTreeMap::new(), all: own.clone() };
                let failed: Vec<Option<StringId>> =
                    own.iter().map(|name| walk.enter(*name, 0).err()).collect();
                let all = walk.all;
                for name in failed.into_iter().flatten() {
                    let warning = too_nested(&heap, &self.scope, (group, name), *member, &tree);
                    self.notes.warnings.push(warning);
                }
                if all.len() > own.len() {
                    let place = heap.object(*member).origin;
                    set_names(&mut heap, *member, attribute, all, place);
                }
            }
        }
        self.world.layer = heap.into_layer();
    }
}

/// Which groups each group is in itself.
struct Tree {
    above: BTreeMap<StringId, Vec<StringId>>,
    places: BTreeMap<StringId, Place>,
}

impl Tree {
    fn of(heap: &Heap<'_>, groups: &[ObjectId], attribute: StringId) -> Tree {
        let name = |id: &ObjectId| heap.object(*id).name;
        let above = groups.iter().map(|id| (name(id), names(heap, *id, attribute)));
        let above = above.filter(|(_, above)| !above.is_empty()).collect();
        Tree {
            above,
            places: groups.iter().map(|id| (name(id), heap.object(*id).origin)).collect(),
        }
    }
}

/// A walk from an object's groups to those that they are in.
struct Walk<'t> {
    tree: &'t Tree,
    /// Groups that were entered, with the depth at which that was: from a lesser one all is known.
    seen: BTreeMap<StringId, usize>,
    all: Vec<StringId>,
}

impl Walk<'_> {
    /// Enters what a group is in, then the group.
    ///
    /// # Errors
    /// The group that is too deep; none of those on the way to it is entered.
    fn enter(&mut self, group: StringId, depth: usize) -> Result<(), StringId> {
        if depth > NESTED_MAX {
            return Err(group);
        }
        if self.seen.get(&group).is_some_and(|seen| *seen >= depth) {
            return Ok(());
        }
        for above in self.tree.above.get(&group).into_iter().flatten() {
            self.enter(*above, depth + 1)?;
        }
        self.seen.insert(group, depth);
        if self.tree.places.contains_key(&group) {
            add(&mut self.all, group);
        }
        Ok(())
    }
}

fn add(names: &mut Vec<StringId>, name: StringId) {
    if !names.contains(&name) {
        names.push(name);
    }
}

fn too_nested(
    heap: &Heap<'_>,
    scope: &crate::eval::Scope<'_>,
    (of_type, group): (TypeId, StringId),
    member: ObjectId,
    tree: &Tree,
) -> Diagnostic {
    let member = plan::object_in(heap, scope, member);
    let (name, of_type) = (heap.text(group), &scope.types.get(of_type).name);
    let message = format!(
        "{of_type}: Too many nested groups for group '{name}': {member} membership assignment failed."
    );
    Diagnostic::warning(tree.places.get(&group).copied().unwrap_or_default(), message)
}

/// The texts in an array attribute.
fn names(heap: &Heap<'_>, id: ObjectId, attribute: StringId) -> Vec<StringId> {
    let Some(Value::Array(array)) = heap.object(id).attributes.get(attribute) else {
        return Vec::new();
    };
    let text = |item: &Value| match item {
        Value::String(name) => Some(*name),
        _ => None,
    };
    heap.array(array).items.iter().filter_map(text).collect()
}

/// Sets an array attribute; the array that it had may belong to others, so it gets one of its own.
fn set_names(
    heap: &mut Heap<'_>,
    id: ObjectId,
    attribute: StringId,
    names: Vec<StringId>,
    place: Place,
) {
    let before = match heap.object(id).attributes.get(attribute) {
        Some(Value::Array(array)) => heap.array(array).items.clone(),
        _ => Vec::new(),
    };
    let new = names.into_iter().map(Value::String);
    let new: Vec<Value> =
        new.filter(|name| !before.iter().any(|item| ops::equal(heap, *item, *name))).collect();
    if new.is_empty() {
        return;
    }
    let array = heap.array_of(before.into_iter().chain(new).collect(), place);
    if let Ok(object) = heap.object_mut(id) {
        object.attributes.set(attribute, array);
    }
}
