//! The graph of units: one immutable generation, shared by everyone who reads it.
//!
//! A generation is never changed. [`Graph::apply`] makes the next one from the last and a list of
//! changed definitions, at a cost that follows the changes, not the units. A name keeps its id over
//! all generations, so run state needs no translation after a reload. Only what nothing refers to
//! and nothing runs of is forgotten ([`Graph::forget`]); its id rests before another name gets it.

use crate::chunked::Chunked;
use crate::ids::UnitId;
use crate::job::{JobKind, must_wait};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use warren_unit::load::Sources;
use warren_unit::parse::UnitFile;
use warren_unit::settings::Id;
use warren_unit::{LoadState, Loaded, Relation, UnitFlags, UnitName, UnitType};

/// Ids of forgotten units that rest at a time: what is under way somewhere and still names one of
/// them is over long before it means another unit.
const RESTING_IDS_DEFAULT: usize = 256;

/// One end of a relation: `relation` as seen from the unit that holds the edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Edge {
    /// What the holder has with the other unit.
    pub relation: Relation,
    /// The other unit.
    pub other: UnitId,
}

/// The files that make one unit, each shared with all other units that it makes.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The unit's own file; for an instance, its own or its template's.
    pub fragment: Option<Arc<UnitFile>>,
    /// Drop-ins in the order in which they apply.
    pub dropins: Box<[Arc<UnitFile>]>,
    /// What its `.wants`, `.requires` and `.upholds` directories link to.
    pub links: Box<[(Relation, UnitName)]>,
    /// A link to /dev/null was found first.
    pub masked: bool,
}

impl Files {
    /// As the unit crate takes them.
    pub fn sources(&self) -> Sources<'_> {
        Sources {
            fragment: self.fragment.as_ref(),
            dropins: &self.dropins,
            links: &self.links,
            masked: self.masked,
        }
    }
}

/// Equal when they are the same files: the loader keeps a file's value while its text is the same.
impl PartialEq for Files {
    fn eq(&self, other: &Files) -> bool {
        let fragment = match (&self.fragment, &other.fragment) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        fragment
            && self.masked == other.masked
            && self.links == other.links
            && self.dropins.len() == other.dropins.len()
            && self.dropins.iter().zip(&other.dropins).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// What the files say about one unit: frozen, shared between generations until its files change.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The unit's id.
    pub id: UnitId,
    /// The main name.
    pub name: UnitName,
    /// Further names (symlinks) that lead here.
    pub aliases: Box<[UnitName]>,
    /// Whether and how it could be loaded.
    pub load_state: LoadState,
    /// `Description=`, or the name.
    pub description: Arc<str>,
    /// What the job engine asks often.
    pub flags: UnitFlags,
    /// The slice that the unit's cgroup lies in; none for types without a cgroup and for `-.slice`.
    pub slice: Option<UnitId>,
    /// Relations that this unit's own files (or defaults) state; sorted, without repeats. For a
    /// target also those of `completed`.
    pub edges: Box<[Edge]>,
    /// Units that this target is ordered after only because it pulls them in (systemd.target(5),
    /// "Automatic Dependencies"); depends on what those units state.
    pub completed: Box<[UnitId]>,
    /// The files, from which typed settings are compiled when they are needed.
    pub files: Arc<Files>,
}

impl Definition {
    /// The unit's type.
    pub fn unit_type(&self) -> UnitType {
        self.name.unit_type()
    }

    /// Whether any of its files says something about this setting: of 40,000 units, few need be
    /// compiled to know what most leave as it is.
    pub fn mentions(&self, setting: Id) -> bool {
        let mut files = self.files.fragment.iter().chain(&*self.files.dropins);
        files.any(|file| file.entries().any(|entry| entry.setting == setting))
    }

    /// Starts from what the last definition was completed with: most often it stays.
    fn keep_completion(&mut self, old: &Definition) {
        if old.completed.is_empty() {
            return;
        }
        let still = |other: &&UnitId| {
            let pulls = |e: &Edge| e.other == **other && Loaded::PULLS_IN.contains(&e.relation);
            let stated = Edge { relation: Relation::After, other: **other };
            self.edges.iter().any(pulls) && self.edges.binary_search(&stated).is_err()
        };
        let kept: Vec<UnitId> = old.completed.iter().filter(still).copied().collect();
        let mut edges = self.edges.to_vec();
        edges.extend(kept.iter().map(|&other| Edge { relation: Relation::After, other }));
        edges.sort_unstable();
        self.edges = edges.into();
        self.completed = kept.into();
    }

    fn missing(id: UnitId, name: UnitName) -> Definition {
        Definition {
            id,
            description: name.as_str().into(),
            name,
            aliases: Box::default(),
            load_state: LoadState::NotFound,
            flags: UnitFlags::default(),
            slice: None,
            edges: Box::default(),
            completed: Box::default(),
            files: Arc::default(),
        }
    }
}

/// A definition as the loader made it: names in place of ids.
#[derive(Clone, Debug)]
pub struct NewDefinition {
    /// The main name.
    pub name: UnitName,
    /// Further names that lead to this unit.
    pub aliases: Vec<UnitName>,
    /// Whether and how it could be loaded.
    pub load_state: LoadState,
    /// `Description=`, or the name.
    pub description: Arc<str>,
    /// What the job engine asks often.
    pub flags: UnitFlags,
    /// `Slice=` or the default slice.
    pub slice: Option<UnitName>,
    /// All relations: stated, implicit and default.
    pub relations: Vec<(Relation, UnitName)>,
    /// The files.
    pub files: Arc<Files>,
}

/// One change to the set of definitions.
#[derive(Clone, Debug)]
pub enum Change {
    /// The unit is new or its definition was replaced.
    Set(Box<NewDefinition>),
    /// The unit's files are gone.
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

/// One generation of all units.
#[derive(Clone, Debug)]
pub struct Graph {
    generation: u64,
    names: imbl::OrdMap<UnitName, UnitId>,
    definitions: Chunked<Option<Arc<Definition>>>,
    /// For each unit, the edges that others hold towards it, as seen from this end.
    reverse: Chunked<Arc<[Edge]>>,
    /// Ids of forgotten units, the one that rests longest first.
    resting: imbl::Vector<UnitId>,
    /// So many ids rest before the first of them is given out again.
    resting_min: usize,
    /// Ids that were given out again since this generation was begun.
    reused: Vec<UnitId>,
}

impl Default for Graph {
    fn default() -> Graph {
        Graph {
            generation: 0,
            names: imbl::OrdMap::new(),
            definitions: Chunked::default(),
            reverse: Chunked::default(),
            resting: imbl::Vector::new(),
            resting_min: RESTING_IDS_DEFAULT,
            reused: Vec::new(),
        }
    }
}

impl Graph {
    /// A graph without definitions whose ids are those of `names` in order: what a new incarnation
    /// begins with, so that run state needs no translation. None is a unit that was forgotten.
    pub fn with_names(names: Vec<Option<UnitName>>) -> Graph {
        let mut graph = Graph::default();
        for name in names {
            let stub = || UnitName::parse("forgotten.target").expect("a valid name");
            let id = graph.append(&name.clone().unwrap_or_else(stub));
            match name {
                Some(name) => drop(graph.names.insert(name, id)),
                None => graph.lay_to_rest(id),
            }
        }
        graph
    }

    /// The generation that was written down as these definitions (see [`crate::written`]): ids are
    /// those of `names` in order, and what has no definition has no file.
    pub(crate) fn of_definitions(
        names: Vec<Option<UnitName>>,
        definitions: impl Iterator<Item = Arc<Definition>>,
        generation: u64,
    ) -> Graph {
        let mut graph = Graph { generation, ..Graph::with_names(names) };
        let mut reverse: Vec<Vec<Edge>> = vec![Vec::new(); graph.len()];
        for definition in definitions {
            let id = definition.id;
            for alias in &definition.aliases {
                graph.names.insert(alias.clone(), id);
            }
            for edge in &definition.edges {
                reverse[edge.other.index()]
                    .push(Edge { relation: edge.relation.inverse(), other: id });
            }
            *graph.definitions.get_mut(id.index()).expect("it has a name") = Some(definition);
        }
        let sorted = |mut edges: Vec<Edge>| {
            edges.sort_unstable();
            edges.dedup();
            Arc::from(edges)
        };
        graph.reverse = reverse.into_iter().map(sorted).collect();
        graph
    }

    /// The definitions that are not those of `before`; without it, all that say more than a name.
    pub(crate) fn differing(&self, before: Option<&Graph>) -> Vec<Arc<Definition>> {
        let is_new = |definition: &Arc<Definition>| match before {
            Some(before) => {
                before.get(definition.id).is_none_or(|old| !Arc::ptr_eq(old, definition))
            }
            None => **definition != Definition::missing(definition.id, definition.name.clone()),
        };
        let all = self.definitions.differing(before.map(|graph| &graph.definitions));
        let known = all.flatten().filter(|d| d.load_state != LoadState::Stub);
        known.filter(|definition| is_new(definition)).cloned().collect()
    }

    /// The same graph under another number: a load that was applied in pieces is one generation.
    #[must_use]
    pub fn renumbered(&self, generation: u64) -> Graph {
        Graph { generation, ..self.clone() }
    }

    /// The same graph, of which ids of forgotten units are given out again when more than `min`
    /// rest: 0 shows soonest who still holds one.
    #[must_use]
    pub fn with_resting_min(self, min: usize) -> Graph {
        Graph { resting_min: min, ..self }
    }

    /// Number of this generation; the empty graph is 0.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The unit that `name`, a main name or an alias, leads to.
    pub fn lookup(&self, name: &UnitName) -> Option<UnitId> {
        self.names.get(name).copied()
    }

    /// The definition of `unit`. Every id that this graph gave out has one.
    pub fn definition(&self, unit: UnitId) -> &Arc<Definition> {
        self.definitions[unit.index()].as_ref().expect("every id given out has a definition")
    }

    /// The definition of `unit`, if the id is of this generation or an earlier one.
    pub fn get(&self, unit: UnitId) -> Option<&Arc<Definition>> {
        self.definitions.get(unit.index())?.as_ref()
    }

    /// The main name of `unit`.
    pub fn name(&self, unit: UnitId) -> &UnitName {
        &self.definition(unit).name
    }

    /// Ids are below this number.
    pub fn len(&self) -> usize {
        self.definitions.len()
    }

    /// Whether no unit was ever named.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }

    /// All definitions, by id; not those of units that were forgotten.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.definitions.iter().flatten().filter(|d| d.load_state != LoadState::Stub)
    }

    /// Whether the unit is a device: it comes and goes with its hardware, not by jobs.
    pub fn is_device(&self, unit: UnitId) -> bool {
        self.definition(unit).unit_type() == UnitType::Device
    }

    /// Whether any other unit states a relation with this one.
    pub fn is_referred_to(&self, unit: UnitId) -> bool {
        self.reverse.get(unit.index()).is_some_and(|edges| !edges.is_empty())
    }

    /// All names that lead somewhere, in order, aliases included.
    pub fn names(&self) -> impl Iterator<Item = (&UnitName, UnitId)> {
        self.names.iter().map(|(name, &id)| (name, id))
    }

    /// The units that `unit` has `relation` with, whoever states it; ascending, no repeats.
    pub fn related(&self, unit: UnitId, relation: Relation) -> Related<'_> {
        let own = range(&self.definition(unit).edges, relation);
        Related { own, others: range(&self.reverse[unit.index()], relation) }
    }

    /// Whether `unit` has `relation` with `other`, whoever states it.
    pub fn is_related(&self, unit: UnitId, relation: Relation, other: UnitId) -> bool {
        let edge = Edge { relation, other };
        self.definition(unit).edges.binary_search(&edge).is_ok()
            || self.reverse[unit.index()].binary_search(&edge).is_ok()
    }

    /// Every unit that is ordered against `unit` in either direction; may repeat.
    pub fn ordered_with(&self, unit: UnitId) -> impl Iterator<Item = UnitId> + '_ {
        const ORDERS: [Relation; 8] = [
            Relation::Before,
            Relation::After,
            Relation::MountsFor,
            Relation::MountsForOf,
            Relation::RequireAnyOf,
            Relation::OptionalAllOf,
            Relation::RequireAny,
            Relation::OptionalAll,
        ];
        let count = if self.definition(unit).flags.has_groups() { 8 } else { 6 };
        ORDERS[..count].iter().flat_map(move |&relation| self.related(unit, relation))
    }

    /// Whether `first` must be up before `second` is started.
    pub fn is_before(&self, first: UnitId, second: UnitId) -> bool {
        self.is_related(second, Relation::After, first)
            || self.is_related(second, Relation::MountsFor, first)
    }

    /// Whether `second` names `first` in a group: it stops before it, and starts when the group as a
    /// whole allows it.
    fn is_loosely_before(&self, first: UnitId, second: UnitId) -> bool {
        self.definition(second).flags.has_groups()
            && (self.is_related(second, Relation::RequireAny, first)
                || self.is_related(second, Relation::OptionalAll, first))
    }

    /// Whether the job `kind` of `unit` waits for the job of `other` to end. What a start waits for
    /// besides, by its groups, is looked at when its turn has come.
    pub fn waits(&self, unit: UnitId, kind: JobKind, other: UnitId, other_kind: JobKind) -> bool {
        let stops = kind.is_stopping() || other_kind.is_stopping();
        let is_first = self.is_before(other, unit) || stops && self.is_loosely_before(other, unit);
        must_wait(kind, other_kind, is_first)
    }

    /// The same with every wait that a group may mean: where these make no circle, none comes up.
    pub fn may_wait(
        &self,
        unit: UnitId,
        kind: JobKind,
        other: UnitId,
        other_kind: JobKind,
    ) -> bool {
        let is_first = self.is_before(other, unit) || self.is_loosely_before(other, unit);
        must_wait(kind, other_kind, is_first)
    }

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
        for change in &changes {
            if let Change::Set(new) = change {
                next.claim_names(new);
            }
        }
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

    /// The next generation without those of `names` that no other unit has a relation with
    /// (systemd.unit(5), "UNIT GARBAGE COLLECTION"). That nothing runs of them is for the caller
    /// to see to.
    pub fn forget(&self, names: &[UnitName]) -> (Graph, Delta) {
        let mut next = self.clone();
        let mut delta = Delta::default();
        let mut wires = Wires::default();
        for name in names {
            let Some(id) = next.lookup(name).filter(|&id| !next.is_referred_to(id)) else {
                continue;
            };
            let definition = next.definition(id).clone();
            for name in definition.aliases.iter().chain([&definition.name]) {
                if next.lookup(name) == Some(id) {
                    next.names.remove(name);
                }
            }
            wires.diff(id, &definition.edges, &[]);
            next.lay_to_rest(id);
            delta.forgotten.push(id);
        }
        next.rewire(wires, &mut delta);
        delta.rewired.retain(|id| !delta.forgotten.contains(id));
        next.complete_targets(&mut delta);
        next.generation += u64::from(!delta.is_empty());
        delta.sort();
        (next, delta)
    }

    fn lay_to_rest(&mut self, id: UnitId) {
        let name = self.name(id).clone();
        let stub = Definition { load_state: LoadState::Stub, ..Definition::missing(id, name) };
        *self.definitions.get_mut(id.index()).expect("given out") = Some(Arc::new(stub));
        self.resting.push_back(id);
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

    /// The units whose edges would lead elsewhere if `name` led elsewhere: the loader sets them
    /// again, in the same list of changes, when it makes or ends an alias.
    pub fn referrers(&self, name: &UnitName) -> Vec<UnitId> {
        let Some(id) = self.lookup(name) else { return Vec::new() };
        let mut owners: Vec<UnitId> = self.reverse[id.index()].iter().map(|e| e.other).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Names are settled before any edge is resolved, so that the order of changes is no matter.
    fn claim_names(&mut self, new: &NewDefinition) {
        let id = self.own_id(&new.name);
        let old = self.definition(id).clone();
        for alias in old.aliases.iter().filter(|alias| !new.aliases.contains(alias)) {
            if self.lookup(alias) == Some(id) {
                self.names.remove(alias);
            }
        }
        for alias in &new.aliases {
            self.names.insert(alias.clone(), id);
        }
    }

    /// The next generation with the definitions of `old`, an earlier one of the same line: units
    /// that it did not have are gone again, but for instances, which come when they are named.
    pub fn restored_to(&self, old: &Graph) -> (Graph, Delta) {
        let mut next = self.clone();
        let (mut delta, mut wires) = (Delta::default(), Wires::default());
        let is_new_alias = |(name, id): &(&UnitName, UnitId)| {
            !old.names.contains_key(*name) && self.name(*id) != *name
        };
        for (alias, _) in self.names().filter(is_new_alias) {
            next.names.remove(alias);
        }
        for then in old.definitions() {
            let id = next.intern(&then.name);
            let then = Definition { id, ..next.as_named_in(old, then) };
            next.set_again(id, then, &mut delta, &mut wires);
        }
        for (alias, id) in old.names() {
            let id = next.intern(old.name(id));
            next.names.insert(alias.clone(), id);
        }
        for now in self.definitions() {
            if old.lookup(&now.name).is_none() && !now.name.is_instance() {
                let gone = Definition::missing(now.id, now.name.clone());
                next.set_again(now.id, gone, &mut delta, &mut wires);
            }
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
            (false, _) => delta.added.push(id),
            (true, true) => delta.changed.push(id),
            (true, false) => delta.removed.push(id),
        }
        self.put(id, then, Some(now), wires);
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
        match (fresh, definition.load_state == LoadState::NotFound) {
            (true, true) => {}
            (true, false) => delta.added.push(id),
            (false, _) => delta.changed.push(id),
        }
        self.put(id, definition, old, wires);
    }

    /// The id for a main name: an alias of that name that led elsewhere is taken over.
    fn own_id(&mut self, name: &UnitName) -> UnitId {
        let id = self.intern(name);
        if self.name(id) == name {
            return id;
        }
        let id = self.new_id(name);
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
        let Some(id) = self.lookup(name) else { return };
        let old = self.definition(id).clone();
        if old.load_state == LoadState::NotFound {
            return;
        }
        for alias in &old.aliases {
            if self.lookup(alias) == Some(id) {
                self.names.remove(alias);
            }
        }
        delta.removed.push(id);
        self.put(id, Definition::missing(id, old.name.clone()), Some(old), wires);
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

    fn append(&mut self, name: &UnitName) -> UnitId {
        let id = UnitId(u32::try_from(self.definitions.len()).expect("fewer than 4 billion names"));
        self.definitions.push(Some(Arc::new(Definition::missing(id, name.clone()))));
        self.reverse.push(Arc::from([]));
        id
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

/// A sorted list without what is `gone` and with what is `new`. A popular unit's list is long, and
/// is not sorted again for what a piece of changes adds to it.
fn rewired(list: &[Edge], mut gone: Vec<Edge>, mut new: Vec<Edge>) -> Arc<[Edge]> {
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

fn range(edges: &[Edge], relation: Relation) -> &[Edge] {
    let start = edges.partition_point(|edge| edge.relation < relation);
    let rest = &edges[start..];
    &rest[..rest.partition_point(|edge| edge.relation == relation)]
}

/// Iterator of [`Graph::related`]: two sorted lists merged.
#[derive(Clone, Debug)]
pub struct Related<'a> {
    own: &'a [Edge],
    others: &'a [Edge],
}

impl Iterator for Related<'_> {
    type Item = UnitId;

    fn next(&mut self) -> Option<UnitId> {
        let next = match (self.own.first(), self.others.first()) {
            (Some(a), Some(b)) => a.other.min(b.other),
            (Some(edge), None) | (None, Some(edge)) => edge.other,
            (None, None) => return None,
        };
        for list in [&mut self.own, &mut self.others] {
            if let Some((edge, rest)) = list.split_first()
                && edge.other == next
            {
                *list = rest;
            }
        }
        Some(next)
    }
}
