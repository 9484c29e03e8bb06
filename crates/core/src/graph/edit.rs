//! The next generation: this one with changes applied, at a cost that follows the changes.
//!
//! [`Graph::edit`] takes them in pieces. Each piece settles names first, then edges, then the reverse
//! lists, each list once ([`Wires`]); what targets are ordered after by default comes last, since it
//! depends on what others state.

use super::Graph;
use super::definition::{Definition, Edge, Files, NewDefinition};
use crate::model::ids::UnitId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use warren_unit::{LoadState, Loaded, Relation, UnitName};

/// One change to the set of definitions.
#[derive(Clone, Debug)]
pub enum Change {
    /// The unit is new or its definition was replaced.
    Set(Box<NewDefinition>),
    /// The unit's files are gone. Nothing of a unit that has this name only as an alias: that unit's
    /// own change takes the name away.
    Remove(UnitName),
}

/// What a new generation changed, by unit name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Units that had no definition before.
    pub added: Vec<UnitId>,
    /// Units whose definition differs.
    pub changed: Vec<UnitId>,
    /// Units whose definition is gone.
    pub removed: Vec<UnitId>,
    /// Units whose relations differ, their own or those of another towards them.
    pub rewired: Vec<UnitId>,
    /// Units that were forgotten: their ids mean nothing any more.
    pub forgotten: Vec<UnitId>,
    /// Ids of forgotten units that mean others now.
    pub reused: Vec<UnitId>,
}

impl Delta {
    /// Whether nothing changed at all.
    pub fn is_empty(&self) -> bool {
        [&self.added, &self.changed, &self.removed, &self.forgotten, &self.reused]
            .iter()
            .all(|units| units.is_empty())
    }
}

/// The next generation in the making.
pub struct Edit {
    graph: Graph,
    names_before: usize,
    delta: Delta,
}

impl Edit {
    /// What is there so far. Targets are not yet ordered after what they pull in.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Applies some changes. Names are settled within one piece only: an alias is to be in no
    /// later piece than whoever refers to it.
    pub fn apply(&mut self, changes: Vec<Change>) {
        self.graph.apply_piece(changes, &mut self.delta);
    }

    /// Has an id for a name even if nothing has it: as a unit that is not found.
    pub fn claim(&mut self, name: &UnitName) {
        self.graph.intern(name);
    }

    /// The next generation, with what differs. Without a difference it has the number of the last.
    pub fn finish(self) -> (Graph, Delta) {
        let Edit { mut graph, mut delta, .. } = self;
        graph.complete_targets(&mut delta);
        delta.reused = std::mem::take(&mut graph.reused);
        graph.generation += u64::from(!delta.is_empty());
        delta.sort();
        // What was first added and then changed is new to whoever sees only the sum.
        delta.changed.retain(|unit| delta.added.binary_search(unit).is_err());
        (graph, delta)
    }

    /// Whether no name was given an id so far.
    pub fn has_no_new_names(&self) -> bool {
        self.graph.len() == self.names_before
    }
}

impl Graph {
    /// The next generation: this one with `changes` applied. Returns it with what differs; a
    /// change that alters nothing is not in the delta, and without any the generation stays.
    pub fn apply(&self, changes: Vec<Change>) -> (Graph, Delta) {
        let mut edit = self.edit();
        edit.apply(changes);
        edit.finish()
    }

    /// The same in pieces, so that not all changes need be in memory at a time.
    pub fn edit(&self) -> Edit {
        Edit { graph: self.clone(), names_before: self.len(), delta: Delta::default() }
    }

    fn apply_piece(&mut self, changes: Vec<Change>, delta: &mut Delta) {
        let next = self;
        let mut wires = Wires::default();
        let mut moved = Vec::new();
        for change in &changes {
            if let Change::Set(new) = change {
                next.claim_names(new, &mut moved);
            }
        }
        moved.into_iter().for_each(|unit| next.settle_name(unit, delta, &mut wires));
        let mut recent = Recent::default();
        for change in changes {
            match change {
                Change::Set(new) => next.set(*new, &mut recent, delta, &mut wires),
                Change::Remove(name) => {
                    recent = Recent::default();
                    next.remove(&name, delta, &mut wires);
                }
            }
        }
        next.rewire(wires, delta);
    }

    /// The next generation without those units that have one of `names` as their own and that none but
    /// each other have a relation with (systemd.unit(5), "UNIT GARBAGE COLLECTION"). That nothing runs of
    /// them is for the caller to see to.
    pub fn forget(&self, names: &[UnitName]) -> (Graph, Delta) {
        let mut next = self.clone();
        let mut delta = Delta::default();
        let mut wires = Wires::default();
        let free = self.free_of_others(names);
        for name in names {
            let is_free = |id: &UnitId| next.name(*id) == name && free.contains(id);
            let Some(id) = next.lookup(name).filter(is_free) else { continue };
            let definition = next.definition(id).clone();
            let aliases = definition.aliases.iter();
            let returned: Vec<UnitId> =
                aliases.filter_map(|alias| next.end_alias(alias, id)).collect();
            next.names.remove(name);
            wires.diff(id, &definition.edges, &[]);
            next.lay_to_rest(id);
            delta.forgotten.push(id);
            returned.into_iter().for_each(|unit| next.settle_name(unit, &mut delta, &mut wires));
        }
        next.rewire(wires, &mut delta);
        delta.rewired.retain(|id| !delta.forgotten.contains(id));
        next.complete_targets(&mut delta);
        next.generation += u64::from(!delta.is_empty());
        delta.sort();
        (next, delta)
    }

    /// Those of these units that no unit beside them has a relation with.
    fn free_of_others(&self, names: &[UnitName]) -> BTreeSet<UnitId> {
        let own = |name: &UnitName| self.lookup(name).filter(|&id| self.name(id) == name);
        let mut free: BTreeSet<UnitId> = names.iter().filter_map(own).collect();
        let is_held = |&id: &UnitId| self.named_by(id).any(|other| !free.contains(&other));
        let mut held: Vec<UnitId> = free.iter().copied().filter(is_held).collect();
        while let Some(id) = held.pop() {
            // What it names stays with it.
            if free.remove(&id) {
                held.extend(self.definition(id).edges.iter().map(|edge| edge.other));
            }
        }
        free
    }

    /// Orders targets after what they pull in, where either end may have changed.
    fn complete_targets(&mut self, delta: &mut Delta) {
        let orders = |unit: &UnitId| {
            let definition = self.definition(*unit);
            definition.flags.completes_ordering() || !definition.completed.is_empty()
        };
        let mut targets: BTreeSet<UnitId> = delta.rewired.iter().copied().filter(orders).collect();
        // Of a unit that only became the other end of an edge nothing changed that a target looks
        // at; and thousands may require it, as all units do with their slice.
        let redefined = [&delta.added, &delta.changed, &delta.removed, &delta.forgotten];
        for &unit in redefined.into_iter().flatten() {
            let pulled_by = Loaded::PULLS_IN.iter().map(|relation| relation.inverse());
            let pulled_by = pulled_by.flat_map(|relation| self.related(unit, relation));
            targets.extend(pulled_by.filter(orders));
        }
        let mut wires = Wires::default();
        for unit in targets {
            let old = self.definition(unit).clone();
            let completed = self.completion_of(&old);
            if completed == *old.completed {
                continue;
            }
            let after = |&other: &UnitId| Edge { relation: Relation::After, other };
            let is_completion = |e: &Edge| {
                e.relation == Relation::After && old.completed.binary_search(&e.other).is_ok()
            };
            let mut edges: Vec<Edge> =
                old.edges.iter().filter(|e| !is_completion(e)).copied().collect();
            edges.extend(completed.iter().map(after));
            edges.sort_unstable();
            edges.dedup();
            wires.diff(unit, &old.edges, &edges);
            let new =
                Definition { edges: edges.into(), completed: completed.into(), ..(*old).clone() };
            *self.definitions.get_mut(unit.index()).expect("interned") = Some(Arc::new(new));
        }
        self.rewire(wires, delta);
    }

    /// What a target is to be ordered after besides what is stated.
    fn completion_of(&self, definition: &Definition) -> Vec<UnitId> {
        let mut out = Vec::new();
        if !definition.flags.completes_ordering() || definition.load_state != LoadState::Loaded {
            return out;
        }
        let stated = |relation, other| {
            definition.edges.binary_search(&Edge { relation, other }).is_ok()
                && definition.completed.binary_search(&other).is_err()
        };
        for edge in definition.edges.iter().filter(|e| Loaded::PULLS_IN.contains(&e.relation)) {
            let other = edge.other;
            let before_it = stated(Relation::Before, other)
                || self.reverse[definition.id.index()]
                    .binary_search(&Edge { relation: Relation::Before, other })
                    .is_ok();
            let wants_order = self.definition(other).flags.default_dependencies();
            if wants_order && !before_it && !stated(Relation::After, other) {
                out.push(other);
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Names are settled before any edge is resolved, so that the order of changes is no matter. Units whose
    /// own name is an alias from now on, or another unit's than it was, or is theirs again, are `moved`.
    fn claim_names(&mut self, new: &NewDefinition, moved: &mut Vec<UnitId>) {
        let id = self.own_id(&new.name);
        let old = self.definition(id).clone();
        for alias in old.aliases.iter().filter(|alias| !new.aliases.contains(alias)) {
            moved.extend(self.end_alias(alias, id));
        }
        for alias in &new.aliases {
            let before = self.names.insert(alias.clone(), id).filter(|&before| before != id);
            let Some(before) = before else { continue };
            if self.name(before) == alias {
                self.displaced.insert(alias.clone(), before);
            }
            moved.extend(self.displaced.get(alias));
        }
    }

    /// The unit has this name no more. Who had it as its own before has it again, and is returned.
    fn end_alias(&mut self, alias: &UnitName, unit: UnitId) -> Option<UnitId> {
        if self.lookup(alias) != Some(unit) {
            return None;
        }
        self.names.remove(alias);
        let had = self.displaced.remove(alias)?;
        self.names.insert(alias.clone(), had);
        Some(had)
    }

    /// What is left of a unit whose name was another's, or is: by who has it now. It has no files by then, or is
    /// defined by a change that follows.
    fn settle_name(&mut self, unit: UnitId, delta: &mut Delta, wires: &mut Wires) {
        let old = self.definition(unit).clone();
        // Of what was never loaded nothing runs.
        let may_run = old.load_state != LoadState::NotFound || !old.edges.is_empty();
        let left = match self.lookup(&old.name).filter(|&by| by != unit) {
            Some(by) if may_run => Definition::displaced(unit, old.name.clone(), by),
            // Nor did it have names, mostly.
            Some(_) if old.aliases.is_empty() => return,
            _ => Definition::missing(unit, old.name.clone()),
        };
        self.end_definition(left, delta, wires);
    }

    /// The next generation with the definitions of `old`, an earlier one of the same line: units
    /// that it did not have are gone again, but for instances, which come when they are named.
    pub fn restored_to(&self, old: &Graph) -> (Graph, Delta) {
        let mut next = self.clone();
        let (mut delta, mut wires) = (Delta::default(), Wires::default());
        let is_new_alias = |(name, id): &(&UnitName, UnitId)| {
            !old.names.contains_key(*name) && self.name(*id) != *name
        };
        for (alias, id) in self.names().filter(is_new_alias) {
            next.end_alias(alias, id);
        }
        let has_its_name = |then: &&Arc<Definition>| old.lookup(&then.name) == Some(then.id);
        let own: Vec<_> = old.definitions().filter(has_its_name).collect();
        for then in &own {
            next.own_id(&then.name);
        }
        for (alias, id) in old.names() {
            let id = next.intern(old.name(id));
            next.names.insert(alias.clone(), id);
        }
        for then in own {
            let id = next.intern(&then.name);
            let then = Definition { id, ..next.as_named_in(old, then) };
            next.set_again(id, then, &mut delta, &mut wires);
        }
        let goes =
            |now: &Definition| !now.name.is_instance() || now.load_state == LoadState::NotFound;
        for now in self.definitions() {
            let left = match next.lookup(&now.name).filter(|&by| by != now.id) {
                Some(by) => {
                    next.displaced.insert(now.name.clone(), now.id);
                    Definition::displaced(now.id, now.name.clone(), by)
                }
                None if old.lookup(&now.name).is_none() && goes(now) => {
                    Definition::missing(now.id, now.name.clone())
                }
                None => continue,
            };
            next.set_again(now.id, left, &mut delta, &mut wires);
        }
        next.rewire(wires, &mut delta);
        delta.reused = std::mem::take(&mut next.reused);
        next.generation += u64::from(!delta.is_empty());
        delta.sort();
        (next, delta)
    }

    /// A definition of another generation with the ids that its names have here.
    fn as_named_in(&mut self, old: &Graph, then: &Definition) -> Definition {
        let mut here = |id: UnitId| self.intern(old.name(id));
        let mut edges = then.edges.to_vec();
        edges.iter_mut().for_each(|edge| edge.other = here(edge.other));
        edges.sort_unstable();
        let mut completed: Vec<UnitId> = then.completed.iter().map(|&id| here(id)).collect();
        completed.sort_unstable();
        let slice = then.slice.map(here);
        Definition { edges: edges.into(), completed: completed.into(), slice, ..then.clone() }
    }

    fn set_again(&mut self, id: UnitId, then: Definition, delta: &mut Delta, wires: &mut Wires) {
        let now = self.definition(id).clone();
        if *now == then {
            return;
        }
        let known = |d: &Definition| d.load_state != LoadState::NotFound;
        match (known(&now), known(&then)) {
            (false, false) => {}
            (false, true) => delta.added.push(id),
            (true, true) => delta.changed.push(id),
            (true, false) => delta.removed.push(id),
        }
        self.put(id, then, Some(now), wires);
    }

    /// The same generation, made anew of all files: which of these units, that run by the word of an earlier manager,
    /// have a name that is another unit's by now is not in the files.
    #[must_use]
    pub fn with_running(mut self, running: impl Iterator<Item = UnitId>) -> Graph {
        let (mut delta, mut wires) = (Delta::default(), Wires::default());
        for unit in running {
            let Some(name) = self.get(unit).map(|definition| definition.name.clone()) else {
                continue;
            };
            if let Some(by) = self.lookup(&name).filter(|&by| by != unit) {
                let left = Definition::displaced(unit, name, by);
                self.end_definition(left, &mut delta, &mut wires);
            }
        }
        self.rewire(wires, &mut delta);
        self
    }

    fn set(
        &mut self,
        new: NewDefinition,
        recent: &mut Recent,
        delta: &mut Delta,
        wires: &mut Wires,
    ) {
        let id = self.lookup(&new.name).expect("claimed before");
        let mut definition = self.resolve(id, new, recent);
        let old = self.definitions[id.index()].clone();
        if let Some(old) = &old {
            definition.keep_completion(old);
            if **old == definition {
                return;
            }
        }
        let fresh = old.as_ref().is_none_or(|d| d.load_state == LoadState::NotFound);
        let had_names = |old: &Arc<Definition>| !old.aliases.is_empty();
        match (fresh, definition.load_state == LoadState::NotFound) {
            // Names of what is not found are told of as little as it is, but are a difference.
            (true, true)
                if definition.aliases.is_empty() && !old.as_ref().is_some_and(had_names) => {}
            (true, false) => delta.added.push(id),
            (false, true) => delta.removed.push(id),
            (true, true) | (false, false) => delta.changed.push(id),
        }
        self.put(id, definition, old, wires);
    }

    /// The id for a main name: an alias of that name that led elsewhere is taken over, and the unit that
    /// had the name before it has it again.
    fn own_id(&mut self, name: &UnitName) -> UnitId {
        let id = self.intern(name);
        if self.name(id) == name {
            return id;
        }
        let had = self.displaced.remove(name);
        let id = had.unwrap_or_else(|| self.new_id(name));
        self.names.insert(name.clone(), id);
        id
    }

    fn resolve(&mut self, id: UnitId, new: NewDefinition, recent: &mut Recent) -> Definition {
        let mut here = |name: &UnitName| recent.id(name, |name| self.intern(name));
        let mut edges: Vec<Edge> = new
            .relations
            .iter()
            .map(|(relation, name)| Edge { relation: *relation, other: here(name) })
            .filter(|edge| edge.other != id)
            .collect();
        edges.sort_unstable();
        edges.dedup();
        Definition {
            id,
            slice: new.slice.map(|name| here(&name)),
            name: new.name,
            aliases: new.aliases.into(),
            load_state: new.load_state,
            description: new.description,
            flags: new.flags,
            edges: edges.into(),
            completed: Box::default(),
            files: new.files,
        }
    }

    fn remove(&mut self, name: &UnitName, delta: &mut Delta, wires: &mut Wires) {
        if let Some(id) = self.lookup(name).filter(|&id| self.name(id) == name) {
            let left = Definition::missing(id, name.clone());
            self.end_definition(left, delta, wires);
        }
    }

    /// The unit has no unit files any more; `left` is what stays of it.
    fn end_definition(&mut self, left: Definition, delta: &mut Delta, wires: &mut Wires) {
        let id = left.id;
        let old = self.definition(id).clone();
        let is_gone = old.load_state == LoadState::NotFound;
        if is_gone && old.edges == left.edges && old.aliases.is_empty() {
            return;
        }
        let returned: Vec<UnitId> =
            old.aliases.iter().filter_map(|alias| self.end_alias(alias, id)).collect();
        match is_gone {
            false => delta.removed.push(id),
            true if !old.aliases.is_empty() => delta.changed.push(id),
            true => {}
        }
        self.put(id, left, Some(old), wires);
        returned.into_iter().for_each(|unit| self.settle_name(unit, delta, wires));
    }

    fn put(
        &mut self,
        id: UnitId,
        definition: Definition,
        old: Option<Arc<Definition>>,
        wires: &mut Wires,
    ) {
        let before = old.as_ref().map_or(&[][..], |d| &d.edges);
        wires.diff(id, before, &definition.edges);
        let definition = Definition { files: files_of(&definition, old.as_deref()), ..definition };
        *self.definitions.get_mut(id.index()).expect("interned") = Some(Arc::new(definition));
    }

    fn intern(&mut self, name: &UnitName) -> UnitId {
        if let Some(&id) = self.names.get(name) {
            return id;
        }
        let id = self.new_id(name);
        self.names.insert(name.clone(), id);
        id
    }

    fn new_id(&mut self, name: &UnitName) -> UnitId {
        if self.resting.len() > self.resting_min
            && let Some(id) = self.resting.pop_front()
        {
            let missing = Definition::missing(id, name.clone());
            *self.definitions.get_mut(id.index()).expect("given out") = Some(Arc::new(missing));
            self.reused.push(id);
            return id;
        }
        self.append(name)
    }

    /// Applies the collected differences to the reverse lists, each list once.
    fn rewire(&mut self, wires: Wires, delta: &mut Delta) {
        for (id, (gone, new)) in wires.by_end {
            let slot = self.reverse.get_mut(id.index()).expect("interned");
            *slot = rewired(slot, gone, new);
            delta.rewired.push(id);
        }
        delta.rewired.extend(wires.owners);
    }
}

/// Names that were looked up last, by what they hash to: nearly all relations are with the same
/// few targets and slices, and a look into the map of all names costs a dozen comparisons.
struct Recent([Option<(UnitName, UnitId)>; RECENT_NAMES]);

const RECENT_NAMES: usize = 64;

impl Default for Recent {
    fn default() -> Recent {
        Recent([const { None }; RECENT_NAMES])
    }
}

impl Recent {
    fn id(&mut self, name: &UnitName, find: impl FnOnce(&UnitName) -> UnitId) -> UnitId {
        // FNV-1a; any spread will do.
        let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        let hash = name.as_str().as_bytes().iter().fold(0x811c_9dc5, mix);
        let slot = &mut self.0[hash as usize % RECENT_NAMES];
        match slot {
            Some((known, id)) if known == name => *id,
            _ => {
                let id = find(name);
                *slot = Some((name.clone(), id));
                id
            }
        }
    }
}

/// Edges to take from and to add to each reverse list.
#[derive(Default)]
struct Wires {
    by_end: BTreeMap<UnitId, (Vec<Edge>, Vec<Edge>)>,
    owners: BTreeSet<UnitId>,
}

impl Wires {
    fn diff(&mut self, owner: UnitId, before: &[Edge], after: &[Edge]) {
        let seen_from_there =
            |edge: &Edge| Edge { relation: edge.relation.inverse(), other: owner };
        let mut note = |edge: &Edge, new: bool| {
            let (gone, added) = self.by_end.entry(edge.other).or_default();
            if new { added } else { gone }.push(seen_from_there(edge));
            self.owners.insert(owner);
        };
        before.iter().filter(|e| after.binary_search(e).is_err()).for_each(|e| note(e, false));
        after.iter().filter(|e| before.binary_search(e).is_err()).for_each(|e| note(e, true));
    }
}

impl Delta {
    fn sort(&mut self) {
        for list in [
            &mut self.added,
            &mut self.changed,
            &mut self.removed,
            &mut self.rewired,
            &mut self.forgotten,
            &mut self.reused,
        ] {
            list.sort_unstable();
            list.dedup();
        }
    }
}

/// Changes of a list up to which each is looked up in it; more are merged with all of it.
const EDGES_APART_MAX: usize = 8;

/// A sorted list without what is `gone` and with what is `new`. A popular unit's list is long, and
/// is not sorted again for what a piece of changes adds to it.
fn rewired(list: &[Edge], mut gone: Vec<Edge>, mut new: Vec<Edge>) -> Arc<[Edge]> {
    if gone.len() + new.len() <= EDGES_APART_MAX {
        let mut out = Vec::with_capacity(list.len() + new.len());
        out.extend_from_slice(list);
        for edge in gone {
            if let Ok(at) = out.binary_search(&edge) {
                out.remove(at);
            }
        }
        for edge in new {
            if let Err(at) = out.binary_search(&edge) {
                out.insert(at, edge);
            }
        }
        return out.into();
    }
    gone.sort_unstable();
    new.sort_unstable();
    let mut out = Vec::with_capacity(list.len() + new.len());
    let stays = |edge: &&Edge| gone.binary_search(edge).is_err();
    out.extend(list.iter().filter(stays));
    out.append(&mut new);
    // The stable sort finds the two sorted runs and merges them.
    out.sort();
    out.dedup();
    out.into()
}

/// A unit's files, with those that it had if it cannot be found any more.
fn files_of(definition: &Definition, old: Option<&Definition>) -> Files {
    let before = old.filter(|_| definition.load_state == LoadState::NotFound);
    let before = before.and_then(|old| match old.load_state {
        LoadState::NotFound => old.files.before().cloned(),
        _ => Some(old.files.clone()),
    });
    definition.files.clone().after(before)
}

#[cfg(test)]
mod tests;
