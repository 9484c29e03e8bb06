//! Which slices say how many units in them may be active, how many are, and which starts wait for their turn
//! (`ConcurrencyHardMax=`, `ConcurrencySoftMax=`, systemd.slice(5)).
//!
//! Owns: the counts of such slices alone, so that a start costs a look at the few slices above its unit, however many
//! units there are. A unit counts from when its start is let through to when it is down.
//! Must not: know why a unit starts or stops.

use crate::graph::Graph;
use crate::model::ids::UnitId;
use crate::view::SliceWaiters;
use std::collections::{BTreeMap, BTreeSet};
use warren_unit::UnitName;

/// How many units a slice may have active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bounds {
    /// From so many on starts wait.
    pub soft: Option<u32>,
    /// With so many, and those that wait, starts are refused.
    pub hard: Option<u32>,
}

/// A slice with bounds.
#[derive(Debug, Default)]
struct Limited {
    bounds: Bounds,
    /// Units in it, or in slices below it, that count.
    active: u32,
    /// Starts of units in it, or in slices below it, that wait for their turn, be it here or elsewhere.
    queued: u32,
    /// Those of them that wait for this slice, by name.
    waiters: BTreeSet<(UnitName, UnitId)>,
}

impl Limited {
    fn has_room(&self) -> bool {
        self.bounds.soft.is_none_or(|soft| self.active < soft)
    }
}

/// What is said to a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// It may begin, and its unit counts from now on.
    Admitted,
    /// It waits for its turn in this slice.
    Waits(UnitId),
    /// This slice has as many units as it may have.
    Refused(UnitId),
}

/// Slices with bounds, and what is in them.
#[derive(Debug, Default)]
pub(crate) struct SliceLimits {
    limited: BTreeMap<UnitId, Limited>,
    /// Units that count, each with the slices with bounds that it is in.
    counted: BTreeMap<UnitId, Box<[UnitId]>>,
    waiting: SliceWaiters,
    /// Slices in which it may be somebody's turn.
    roomy: BTreeSet<UnitId>,
    /// The start whose turn it is.
    called: Option<UnitId>,
}

impl SliceLimits {
    /// Whether no slice has bounds: then there is nothing to count.
    pub fn is_empty(&self) -> bool {
        self.limited.is_empty()
    }

    /// Sets the bounds of a slice, or takes them away. What is in it is to be counted anew afterwards.
    pub fn set(&mut self, slice: UnitId, bounds: Bounds) {
        match bounds == Bounds::default() {
            true => _ = self.limited.remove(&slice),
            false => self.limited.entry(slice).or_default().bounds = bounds,
        }
    }

    /// Forgets what counts and what waits; returns the units whose starts waited.
    pub fn clear(&mut self) -> Vec<UnitId> {
        self.counted.clear();
        (self.called, self.roomy) = (None, BTreeSet::new());
        for limited in self.limited.values_mut() {
            *limited = Limited { bounds: limited.bounds, ..Limited::default() };
        }
        std::mem::take(&mut self.waiting).keys().copied().collect()
    }

    fn limited_above(&self, graph: &Graph, unit: UnitId) -> Vec<UnitId> {
        graph.slices_above(unit).filter(|slice| self.limited.contains_key(slice)).collect()
    }

    /// Whether this unit is counted.
    pub fn counts(&self, unit: UnitId) -> bool {
        self.counted.contains_key(&unit)
    }

    /// The unit counts from now on, whatever the bounds say.
    pub fn count(&mut self, graph: &Graph, unit: UnitId) {
        if self.limited.is_empty() || self.counts(unit) {
            return;
        }
        let slices = self.limited_above(graph, unit);
        for slice in &slices {
            self.limited_mut(*slice).active += 1;
        }
        if !slices.is_empty() {
            self.counted.insert(unit, slices.into());
        }
    }

    /// The unit does not count any more.
    pub fn uncount(&mut self, unit: UnitId) {
        for &slice in self.counted.remove(&unit).iter().flatten() {
            let limited = self.limited_mut(slice);
            limited.active -= 1;
            if !limited.waiters.is_empty() {
                self.roomy.insert(slice);
            }
        }
    }

    /// A start asks whether it may begin. One that waits keeps its place until it asks again or [`Self::leave`]s.
    pub fn enter(&mut self, graph: &Graph, unit: UnitId) -> Entry {
        self.leave(graph, unit);
        let is_called = self.called.take_if(|called| *called == unit).is_some();
        if self.limited.is_empty() || self.counts(unit) {
            return Entry::Admitted;
        }
        let slices = self.limited_above(graph, unit);
        let is_full = |slice: &&UnitId| {
            let limited = &self.limited[slice];
            limited.bounds.hard.is_some_and(|hard| limited.active + limited.queued >= hard)
        };
        // One that waited was let into the queue before.
        if let Some(&full) = slices.iter().find(is_full).filter(|_| !is_called) {
            return Entry::Refused(full);
        }
        let holds = |slice: &&UnitId| {
            let limited = &self.limited[slice];
            !limited.has_room() || !is_called && !limited.waiters.is_empty()
        };
        let Some(&at) = slices.iter().find(holds) else {
            self.count(graph, unit);
            return Entry::Admitted;
        };
        slices.iter().for_each(|slice| self.limited_mut(*slice).queued += 1);
        let waiters = &mut self.limited_mut(at).waiters;
        waiters.insert((graph.name(unit).clone(), unit));
        self.waiting.insert(unit, at);
        Entry::Waits(at)
    }

    /// A start does not wait any more: it was given up, or asks again.
    pub fn leave(&mut self, graph: &Graph, unit: UnitId) {
        let Some(at) = self.waiting.remove(&unit) else { return };
        self.limited_mut(at).waiters.remove(&(graph.name(unit).clone(), unit));
        for slice in self.limited_above(graph, unit) {
            self.limited_mut(slice).queued -= 1;
        }
    }

    /// The start whose turn has come, which is to ask again: the first by name. The next one is
    /// called after this one was decided on, so that no start waits while there is room.
    pub fn call(&mut self, graph: &Graph) -> Option<UnitId> {
        while let Some(&slice) = self.roomy.first() {
            let next = self.limited.get(&slice).filter(|limited| limited.has_room());
            let next = next.and_then(|limited| limited.waiters.first()).map(|(_, unit)| *unit);
            if let Some(unit) = next {
                self.leave(graph, unit);
                self.called = Some(unit);
                return Some(unit);
            }
            self.roomy.remove(&slice);
        }
        None
    }

    /// Which starts wait for their turn in which slice.
    pub fn waiting(&self) -> &SliceWaiters {
        &self.waiting
    }

    /// What does not hold of the counts, where `occupying` are the units that are to be counted.
    pub fn check(&self, graph: &Graph, occupying: impl Iterator<Item = UnitId>) -> Vec<String> {
        let mut expected: BTreeMap<UnitId, u32> = BTreeMap::new();
        let mut wrong = Vec::new();
        for unit in occupying {
            if !self.counts(unit) && !self.limited_above(graph, unit).is_empty() {
                wrong.push(format!("{}: its slice does not count it", graph.name(unit)));
            }
        }
        for slice in self.counted.values().flat_map(|slices| slices.iter()) {
            *expected.entry(*slice).or_default() += 1;
        }
        for (slice, limited) in &self.limited {
            let (name, active) = (graph.name(*slice), expected.remove(slice).unwrap_or(0));
            if limited.active != active {
                wrong.push(format!("{name}: {active} units count, not {}", limited.active));
            }
            if limited.has_room() && !limited.waiters.is_empty() && !self.roomy.contains(slice) {
                wrong.push(format!("{name}: starts wait though there is room"));
            }
        }
        wrong
    }

    fn limited_mut(&mut self, slice: UnitId) -> &mut Limited {
        self.limited.get_mut(&slice).expect("what counts or waits is in slices with bounds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Change, NewDefinition};
    use warren_unit::{LoadState, Relation, UnitFlags};

    fn name(text: &str) -> UnitName {
        UnitName::parse(text).expect("a valid name")
    }

    fn unit(unit: &str, slice: Option<&str>) -> Change {
        let relations = slice.map(|slice| (Relation::InSlice, name(slice)));
        Change::Set(Box::new(NewDefinition {
            name: name(unit),
            aliases: Vec::new(),
            load_state: LoadState::Loaded,
            description: "".into(),
            flags: UnitFlags::default(),
            slice: slice.map(name),
            relations: relations.into_iter().collect(),
            files: Default::default(),
        }))
    }

    /// `a` and `b` in `l.slice`, `c` and `d` in `l-m.slice`, which is in `l.slice` and counts there when it is up.
    fn graph() -> Graph {
        let inner = ["c.service", "d.service"].map(|one| unit(one, Some("l-m.slice")));
        let outer = ["a.service", "b.service", "l-m.slice"].map(|one| unit(one, Some("l.slice")));
        let changes = inner.into_iter().chain(outer).chain([unit("l.slice", None)]).collect();
        Graph::default().apply(changes).0
    }

    /// Plays steps: `x` asks to start, `-x` is down, `!` calls whose turn it is, `~x` gives up its start. What each
    /// comes to: `+` admitted, `=` waits, `X` refused, or the name of the unit that is called.
    #[track_caller]
    fn check(outer: [Option<u32>; 2], inner: [Option<u32>; 2], steps: &str, expected: &str) {
        let graph = graph();
        let id = |text: &str| graph.lookup(&name(text)).expect("it is there");
        let of = |text: &str| id(&format!("{text}.service"));
        let mut limits = SliceLimits::default();
        for (slice, [soft, hard]) in [("l.slice", outer), ("l-m.slice", inner)] {
            limits.set(id(slice), Bounds { soft, hard });
        }
        let mut up = BTreeSet::new();
        let mut got = Vec::new();
        for step in steps.split(' ') {
            got.push(match step.split_at(1) {
                ("-", unit) => {
                    limits.uncount(of(unit));
                    up.remove(&of(unit));
                    ".".to_owned()
                }
                ("~", unit) => {
                    limits.leave(&graph, of(unit));
                    ".".to_owned()
                }
                ("!", _) => limits
                    .call(&graph)
                    .map_or("none".to_owned(), |unit| graph.name(unit).stem().to_owned()),
                (unit, _) => match limits.enter(&graph, of(unit)) {
                    Entry::Admitted => {
                        up.insert(of(unit));
                        "+".to_owned()
                    }
                    Entry::Waits(_) => "=".to_owned(),
                    Entry::Refused(_) => "X".to_owned(),
                },
            });
            assert_eq!(limits.check(&graph, up.iter().copied()), [""; 0], "{steps}: {step}");
        }
        assert_eq!(got.join(" "), expected, "{steps}");
    }

    #[test]
    fn starts_wait_and_are_called_by_name_when_there_is_room() {
        let none = [None, None];
        check(none, none, "a b c d", "+ + + +");
        check([Some(1), None], none, "b a a ! -b ! a !", "+ = = none . a + none");
        check([Some(2), None], none, "d c b a -d ! a ! -c ! b", "+ + = = . a + none . b +");
        // Who comes while others wait goes to the end of the queue, though there is room.
        check([Some(1), None], none, "a b -a c ! b", "+ = . = b +");
        // Who is called and does not come leaves the place to the next.
        check([Some(1), None], none, "d a b c -d ! ! b !", "+ = = = . a b + none");
        check([Some(1), None], none, "a b c ~b -a !", "+ = = . . c");
    }

    #[test]
    fn starts_beyond_the_hard_limit_are_refused_and_those_that_wait_count() {
        let none = [None, None];
        check([None, Some(1)], none, "a b -a b a", "+ X . + X");
        check([Some(1), Some(2)], none, "a b c -a ! b c", "+ = X . b + =");
        check([Some(1), Some(2)], none, "a b ~b c", "+ = . =");
    }

    #[test]
    fn a_limit_counts_for_what_is_below_its_slice() {
        let none = [None, None];
        check(none, [Some(1), None], "c d a b -c ! d", "+ = + + . d +");
        // The one whose turn it is outside waits inside, and another one is called.
        check([Some(2), None], [Some(1), None], "c a d b -a ! b -c ! d", "+ + = = . b + . d +");
        check([None, Some(2)], [Some(1), None], "c d a", "+ = X");
    }
}
