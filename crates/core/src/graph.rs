//! The graph of units: one immutable generation, shared by everyone who reads it.
//!
//! A generation is never changed. [`Graph::apply`] makes the next one from the last and a list of
//! changed definitions, at a cost that follows the changes, not the units. A name keeps its id over
//! all generations, so run state needs no translation after a reload. Only what nothing refers to
//! and nothing runs of is forgotten ([`Graph::forget`]); its id rests before another name gets it.

pub mod cgroup_path;
mod definition;
mod edit;

pub use definition::{Definition, Edge, Files, NewDefinition};
pub use edit::{Change, Delta, Edit};

use crate::model::chunked::Chunked;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, must_wait};
use std::sync::Arc;
use warren_unit::{LoadState, Relation, UnitFlags, UnitName, UnitType};

/// Ids of forgotten units that rest at a time: what is under way somewhere and still names one of
/// them is over long before it means another unit.
const RESTING_IDS_DEFAULT: usize = 256;

/// What a stop of the other unit does to units that are tied to it by these.
pub(crate) const STOPPED_WITH: [Relation; 2] =
    [Relation::RestartOnRestartOf, Relation::RestartOnRefreshOf];

/// One generation of all units.
#[derive(Clone, Debug)]
pub struct Graph {
    generation: u64,
    names: imbl::OrdMap<UnitName, UnitId>,
    /// Units whose name is an alias of another now, by that name: something of them may still run.
    displaced: imbl::OrdMap<UnitName, UnitId>,
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
            displaced: imbl::OrdMap::new(),
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
            let id = graph.append(&name.clone().unwrap_or_else(name_of_forgotten));
            match name {
                Some(name) => drop(graph.names.insert(name, id)),
                None => graph.lay_to_rest(id),
            }
        }
        graph
    }

    /// The generation that was written down as these definitions (see [`crate::persist::generation`]): ids are
    /// those of `names` in order, and what has no definition has no file.
    pub(crate) fn of_definitions(
        names: Vec<Option<UnitName>>,
        definitions: impl Iterator<Item = Arc<Definition>>,
        generation: u64,
    ) -> Graph {
        let mut table: Vec<Option<Arc<Definition>>> = vec![None; names.len()];
        let mut graph = Graph { generation, ..Graph::default() };
        let mut reverse = Reverse::new(names.len());
        for definition in definitions {
            let id = definition.id;
            for alias in &definition.aliases {
                graph.names.insert(alias.clone(), id);
            }
            reverse.count(&definition);
            table[id.index()] = Some(definition);
        }
        graph.reverse = reverse.fill(table.iter().flatten());
        for (index, name) in names.into_iter().enumerate() {
            let id = UnitId(index as u32);
            let missing = |name| Some(Arc::new(Definition::missing(id, name)));
            match (table[index].take(), name) {
                (definition, Some(name)) => {
                    let definition = definition.or_else(|| missing(name.clone()));
                    let is_there = |d: &Arc<Definition>| d.load_state != LoadState::NotFound;
                    // One that was known before it became an alias is another unit's now.
                    if definition.as_ref().is_some_and(is_there) || !graph.names.contains_key(&name)
                    {
                        graph.names.insert(name, id);
                    } else {
                        graph.displaced.insert(name, id);
                    }
                    graph.definitions.push(definition);
                }
                (_, None) => {
                    graph.definitions.push(missing(name_of_forgotten()));
                    graph.lay_to_rest(id);
                }
            }
        }
        graph
    }

    /// The definitions that are not those of `before`; without it, all that say more than a name.
    pub(crate) fn differing(&self, before: Option<&Graph>) -> Vec<Arc<Definition>> {
        let is_new = |definition: &Arc<Definition>| match before {
            Some(before) => {
                before.get(definition.id).is_none_or(|old| !Arc::ptr_eq(old, definition))
            }
            None => {
                let missing = Definition::missing(definition.id, definition.name.clone());
                **definition != missing || definition.files.before().is_some()
            }
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

    /// The unit that `name` is the own name of, also if it leads to another one now, of which it is an alias.
    pub fn lookup_own(&self, name: &UnitName) -> Option<UnitId> {
        let own = self.lookup(name).filter(|&unit| self.name(unit) == name);
        own.or_else(|| self.displaced.get(name).copied())
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

    /// How many names there are, aliases among them.
    pub fn names_count(&self) -> usize {
        self.names.len()
    }

    /// Whether no unit was ever named.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }

    /// The switches of `unit` that its files state.
    pub(crate) fn flags(&self, unit: UnitId) -> UnitFlags {
        self.definition(unit).flags
    }

    /// Units that this one has any of these relations with; ascending, no repeats.
    pub(crate) fn related_by_any(&self, unit: UnitId, relations: &[Relation]) -> Vec<UnitId> {
        let all = relations.iter().flat_map(|&relation| self.related(unit, relation));
        let mut all: Vec<UnitId> = all.collect();
        if relations.len() > 1 {
            all.sort_unstable();
            all.dedup();
        }
        all
    }

    /// The unit of this type that has the name of `unit` otherwise.
    pub(crate) fn namesake(&self, unit: UnitId, unit_type: UnitType) -> Option<UnitId> {
        self.lookup(&self.name(unit).change_type(unit_type).ok()?)
    }

    /// All definitions, by id; not those of units that were forgotten.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.definitions.iter().flatten().filter(|d| d.load_state != LoadState::Stub)
    }

    /// Whether the unit is a device: it comes and goes with its hardware, not by jobs.
    pub fn is_device(&self, unit: UnitId) -> bool {
        self.definition(unit).unit_type() == UnitType::Device
    }

    /// Units that state a relation with this one; may repeat.
    pub fn named_by(&self, unit: UnitId) -> impl Iterator<Item = UnitId> + '_ {
        let edges = self.reverse.get(unit.index()).into_iter().flat_map(|edges| edges.iter());
        edges.map(|edge| edge.other).filter(|&other| self.has_its_name(other))
    }

    /// Whether its name leads to it, and not to another unit, of which it is an alias now.
    pub fn has_its_name(&self, unit: UnitId) -> bool {
        self.lookup(self.name(unit)) == Some(unit)
    }

    /// Units whose names are aliases of this one now: what still runs of them goes with it.
    pub fn displaced_by(&self, unit: UnitId) -> impl Iterator<Item = UnitId> + '_ {
        let aliases = self.definition(unit).aliases.iter();
        let own = aliases.filter(move |alias| self.lookup(alias) == Some(unit));
        own.filter_map(|alias| self.displaced.get(alias).copied())
    }

    /// Units that keep `unit` in systemd's memory while they are in it: those that state a relation
    /// with it. Rules of `[X-Warren]` act from both ends, so they count from both; may repeat.
    pub fn holders(&self, unit: UnitId) -> impl Iterator<Item = UnitId> + '_ {
        use Relation::*;
        let is_rule = |edge: &&Edge| {
            matches!(
                edge.relation,
                RequireAny
                    | OptionalAll
                    | ExcludeAll
                    | RestartOnError
                    | RestartOnRestart
                    | RestartOnRefresh
            )
        };
        let own = self.definition(unit).edges.iter().filter(is_rule);
        self.reverse[unit.index()].iter().chain(own).map(|edge| edge.other)
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

    /// The slice of a unit, that of the slice, and so on.
    pub fn slices_above(&self, unit: UnitId) -> impl Iterator<Item = UnitId> + '_ {
        let above = |unit: &UnitId| self.related(*unit, Relation::InSlice).next();
        std::iter::successors(above(&unit), above)
    }

    /// Units in a slice and in those below it.
    pub fn members(&self, slice: UnitId) -> Vec<UnitId> {
        let mut all: Vec<UnitId> = self.related(slice, Relation::SliceOf).collect();
        let mut at = 0;
        while let Some(&unit) = all.get(at) {
            all.extend(self.related(unit, Relation::SliceOf));
            at += 1;
        }
        all
    }

    /// The units that `unit` itself states `relation` with: not those that state it from their end.
    pub fn stated(&self, unit: UnitId, relation: Relation) -> impl Iterator<Item = UnitId> + '_ {
        range(&self.definition(unit).edges, relation).iter().map(|edge| edge.other)
    }

    /// Whether `unit` has `relation` with `other`, whoever states it.
    pub fn is_related(&self, unit: UnitId, relation: Relation, other: UnitId) -> bool {
        // Both ends know it: a target that orders thousands is not searched for one of them.
        let (near, far) = (&self.reverse[unit.index()], &self.reverse[other.index()]);
        let (unit, reverse, edge) = match near.len() <= far.len() {
            true => (unit, near, Edge { relation, other }),
            false => (other, far, Edge { relation: relation.inverse(), other: unit }),
        };
        self.definition(unit).edges.binary_search(&edge).is_ok()
            || reverse.binary_search(&edge).is_ok()
    }

    /// Whether the unit can be reloaded: by itself, or, of those that do not reload themselves, by passing it on
    /// (`PropagatesReloadTo=`). For a service that is not enough, as with systemd 252.
    pub fn can_reload(&self, unit: UnitId) -> bool {
        let definition = self.definition(unit);
        let passes_on = || self.related(unit, Relation::PropagatesReloadTo).next().is_some();
        definition.flags.can_reload() || definition.unit_type() != UnitType::Service && passes_on()
    }

    /// Every unit that is ordered against `unit` in either direction; may repeat.
    pub fn ordered_with(&self, unit: UnitId) -> impl Iterator<Item = UnitId> + '_ {
        use Relation::*;
        // Most units have a dozen edges: going through them is less than a search for each relation.
        let orders = |edge: &&Edge| {
            matches!(
                edge.relation,
                Before
                    | After
                    | MountsFor
                    | MountsForOf
                    | RequireAny
                    | RequireAnyOf
                    | OptionalAll
                    | OptionalAllOf
            )
        };
        let own = self.definition(unit).edges.iter();
        own.chain(self.reverse[unit.index()].iter()).filter(orders).map(|edge| edge.other)
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

    fn lay_to_rest(&mut self, id: UnitId) {
        let name = self.name(id).clone();
        let stub = Definition { load_state: LoadState::Stub, ..Definition::missing(id, name) };
        *self.definitions.get_mut(id.index()).expect("given out") = Some(Arc::new(stub));
        self.resting.push_back(id);
    }

    /// The units whose edges would lead elsewhere if `name` led elsewhere: the loader sets them
    /// again, in the same list of changes, when it makes or ends an alias.
    pub fn referrers(&self, name: &UnitName) -> Vec<UnitId> {
        let Some(id) = self.lookup(name) else { return Vec::new() };
        let owners = self.reverse[id.index()].iter().map(|e| e.other);
        let mut owners: Vec<UnitId> = owners.filter(|&owner| self.has_its_name(owner)).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    fn append(&mut self, name: &UnitName) -> UnitId {
        let id = UnitId(u32::try_from(self.definitions.len()).expect("fewer than 4 billion names"));
        self.definitions.push(Some(Arc::new(Definition::missing(id, name.clone()))));
        self.reverse.push(Arc::from([]));
        id
    }
}

/// What stands in the place of the name of a unit that was forgotten.
fn name_of_forgotten() -> UnitName {
    UnitName::parse("forgotten.target").expect("a valid name")
}

/// Makes the edges of all units as seen from their other ends, in one piece of memory.
struct Reverse {
    /// Where the edges towards each unit end; where the next of them goes, while they are filled in.
    ends: Vec<usize>,
}

impl Reverse {
    fn new(units: usize) -> Reverse {
        Reverse { ends: vec![0; units] }
    }

    fn count(&mut self, definition: &Definition) {
        definition.edges.iter().for_each(|edge| self.ends[edge.other.index()] += 1);
    }

    /// The edges of `definitions`, which are those that were counted.
    fn fill<'a>(
        mut self,
        definitions: impl Iterator<Item = &'a Arc<Definition>>,
    ) -> Chunked<Arc<[Edge]>> {
        let mut all = 0;
        for end in &mut self.ends {
            all += std::mem::replace(end, all);
        }
        let none = Edge { relation: Relation::Requires, other: UnitId(0) };
        let mut edges = vec![none; all];
        for definition in definitions {
            for edge in &definition.edges {
                let place = &mut self.ends[edge.other.index()];
                let relation = edge.relation.inverse();
                edges[*place] = Edge { relation, other: definition.id };
                *place += 1;
            }
        }
        let mut begin = 0;
        let of_one = |end: usize| {
            let towards = &mut edges[std::mem::replace(&mut begin, end)..end];
            towards.sort_unstable();
            let distinct = towards.chunk_by(|a, b| a == b).map(|same| same[0]);
            match towards.is_sorted_by(|a, b| a < b) {
                true => Arc::from(&*towards),
                false => distinct.collect(),
            }
        };
        self.ends.into_iter().map(of_one).collect()
    }
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
