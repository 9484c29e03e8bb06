//! One job for each unit, and none for what is there already.

use super::{Draft, Entry, Link, Strength};
use crate::model::ids::UnitId;
use crate::model::job::JobKind;
use crate::protocol::request::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use warren_unit::Relation;

impl Draft<'_> {
    pub(super) fn merge(&mut self) -> Result<(), Refusal> {
        while let Some(unit) = self.first_contradiction() {
            self.settle(unit)?;
        }
        self.jobs = self.merged();
        Ok(())
    }

    /// Live entries of each unit.
    pub(super) fn by_unit(&self) -> BTreeMap<UnitId, Vec<usize>> {
        let mut by_unit: BTreeMap<UnitId, Vec<usize>> = BTreeMap::new();
        for (i, entry) in self.entries.iter().enumerate().filter(|(_, e)| e.live) {
            by_unit.entry(entry.unit).or_default().push(i);
        }
        by_unit
    }

    fn merged_kind(&self, entries: &[usize]) -> Option<JobKind> {
        let up = entries
            .first()
            .is_some_and(|&i| self.world.active_state(self.entries[i].unit).is_up_or_coming());
        entries.iter().try_fold(JobKind::Nop, |kind, &i| kind.merge(self.entries[i].kind, up))
    }

    fn first_contradiction(&self) -> Option<UnitId> {
        let contradicts = |(unit, entries): (UnitId, Vec<usize>)| {
            self.merged_kind(&entries).is_none().then_some(unit)
        };
        self.by_unit().into_iter().filter_map(contradicts).min_by_key(|&u| self.graph.name(u))
    }

    /// Of a stop and something else on one unit, ends the one that is not required. If neither is,
    /// the unit that states `Conflicts=` wins (systemd.unit(5)).
    fn settle(&mut self, unit: UnitId) -> Result<(), Refusal> {
        let of_unit = |e: &Entry| e.live && e.unit == unit;
        let is_stop = |e: &Entry| e.kind == JobKind::Stop;
        let needed = self.starts_against(unit).any(|i| self.entries[i].required);
        let required = |stop: bool| {
            stop && needed
                || self.entries.iter().any(|e| of_unit(e) && is_stop(e) == stop && e.required)
        };
        let asked_for = |link: &Link| {
            let end = &self.entries[link.to];
            let lives = self.entries[link.from].live && of_unit(end) && is_stop(end);
            lives && link.strength != Strength::Conflicted
        };
        // Nobody asks for the stop but a unit that this one states to conflict with.
        let weak_stop = !self.links.iter().any(asked_for);
        let end_the_stop = match (required(true), required(false)) {
            (true, true) => return Err(Refusal::JobsConflict(self.graph.name(unit).clone())),
            (true, false) => false,
            (false, true) => true,
            (false, false) => weak_stop,
        };
        let losers: Vec<usize> = (0..self.entries.len())
            .filter(|&i| of_unit(&self.entries[i]) && is_stop(&self.entries[i]) == end_the_stop)
            .collect();
        let winner = if end_the_stop { None } else { self.conflicting_start(unit) };
        let before: Vec<bool> = self.entries.iter().map(|entry| entry.live).collect();
        self.end_entries(losers)?;
        if let Some(winner) = winner {
            self.note_outdone(unit, winner, &before);
        }
        Ok(())
    }

    /// A unit that is started and for which this one, which it conflicts with, is stopped.
    fn conflicting_start(&self, unit: UnitId) -> Option<UnitId> {
        let is_stop = |at: usize| {
            let entry = &self.entries[at];
            entry.live && entry.unit == unit && entry.kind == JobKind::Stop
        };
        let starts = self.links.iter().filter(|link| is_stop(link.to)).map(|link| link.from);
        let by = starts.filter(|&from| self.entries[from].live).map(|from| self.entries[from].unit);
        let conflicts = |by: &UnitId| {
            let relations = [Relation::Conflicts, Relation::ConflictedBy];
            relations.into_iter().any(|relation| self.graph.is_related(*by, relation, unit))
        };
        by.filter(conflicts).min_by_key(|&by| self.graph.name(by))
    }

    /// What of the entries that lived before has ended for `winner` can say so.
    fn note_outdone(&mut self, unit: UnitId, winner: UnitId, before: &[bool]) {
        let name = |unit| self.graph.name(unit).clone();
        let refusal = Refusal::Outdone { unit: name(unit), by: name(winner) };
        let ended = self.entries.iter_mut().zip(before).filter(|(e, lived)| **lived && !e.live);
        for (entry, _) in ended {
            entry.for_want_of = Some(if entry.unit == unit { winner } else { unit });
            entry.refused = Some(refusal.clone());
        }
    }

    /// Ends entries, and those that cannot be without them: a start cannot be without the stop of a unit
    /// that conflicts with it, unless that stop itself was to give way or has nothing to do.
    pub(super) fn end_entries(&mut self, mut pending: Vec<usize>) -> Result<(), Refusal> {
        let by_end = self.links_by_end();
        let given: BTreeSet<usize> = pending.iter().copied().collect();
        while let Some(at) = pending.pop() {
            if !std::mem::replace(&mut self.entries[at].live, false) {
                continue;
            }
            if at == 0 {
                return Err(Refusal::JobsConflict(self.graph.name(self.entries[0].unit).clone()));
            }
            let needs_it = by_end.get(&at).into_iter().flatten().map(|&link| &self.links[link]);
            let falls = |link: &&Link| match link.strength {
                Strength::Required => true,
                Strength::Conflicted => {
                    let stop = &self.entries[at];
                    !given.contains(&at) && !self.is_redundant(stop.unit, stop.kind)
                }
                Strength::Wanted => false,
            };
            pending.extend(needs_it.filter(falls).map(|link| link.from));
        }
        self.collect_garbage();
        Ok(())
    }

    pub(super) fn merged(&self) -> BTreeMap<UnitId, JobKind> {
        let kind =
            |entries: &[usize]| self.merged_kind(entries).expect("contradictions are settled");
        self.by_unit().into_iter().map(|(unit, entries)| (unit, kind(&entries))).collect()
    }

    /// Whether the anchor needs the job of a unit: by requirement, or because a unit that it
    /// requires must not run beside this one.
    pub(super) fn is_required(&self, unit: UnitId) -> bool {
        self.entries.iter().any(|e| e.live && e.unit == unit && e.required)
            || self.starts_against(unit).any(|i| self.entries[i].required)
    }

    /// The start jobs of units that this one conflicts with: its stop is for their sake, and
    /// without it they cannot be.
    pub(super) fn starts_against(&self, unit: UnitId) -> impl Iterator<Item = usize> + '_ {
        let stops = move |i: usize| {
            let entry = &self.entries[i];
            entry.live && entry.unit == unit && entry.kind == JobKind::Stop
        };
        let pulls = move |link: &&Link| link.strength == Strength::Conflicted && stops(link.to);
        self.links.iter().filter(pulls).map(|link| link.from).filter(|&i| self.entries[i].live)
    }

    pub(super) fn drop_redundant(&mut self) {
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.retain(|&unit, kind| unit == self.anchor.unit || !self.is_redundant(unit, *kind));
        self.jobs = jobs;
    }
}
