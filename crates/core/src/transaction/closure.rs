//! What a request pulls in, and what cannot be of it.

use super::{Draft, Entry, LeftOut, Link, Strength, pulls};
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode, JobType};
use crate::protocol::request::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use warren_unit::{LoadState, Relation};

impl Draft<'_> {
    pub(super) fn close(&mut self) -> Result<(), Refusal> {
        let kind = self.collapse(self.anchor.unit, self.anchor.job_type);
        let first = self.entry(self.anchor.unit, kind);
        if let Some(refusal) = self.entries[first].refused.clone() {
            return Err(refusal);
        }
        if !matches!(self.anchor.mode, JobMode::IgnoreDependencies | JobMode::IgnoreRequirements) {
            self.expand_from(first);
        }
        self.spread_refusals()?;
        self.mark_required();
        Ok(())
    }

    /// The entry for a job, made if there is none.
    fn entry(&mut self, unit: UnitId, kind: JobKind) -> usize {
        if let Some(&at) = self.index.get(&(unit, kind)) {
            return at;
        }
        let at = self.entries.len();
        self.index.insert((unit, kind), at);
        self.entries.push(Entry {
            unit,
            kind,
            required: false,
            pulled_by: None,
            by_conflict: false,
            live: true,
            refused: self.refusal(unit, kind),
            for_want_of: None,
        });
        at
    }

    /// Whether a job has nothing to do: its unit is where it leads, and no other job is about to
    /// change that.
    pub(super) fn is_redundant(&self, unit: UnitId, kind: JobKind) -> bool {
        self.world.installed(unit).is_none() && kind.is_redundant(self.world.active_state(unit))
    }

    /// Expands entries in breadth from `at` until nothing new is pulled in. A job that has nothing
    /// to do pulls in nothing but the stops of what its unit conflicts with: what a running unit
    /// needs was brought up with it, and following it would make every start cost as much as the
    /// whole system.
    fn expand_from(&mut self, at: usize) {
        let mut next = at;
        while next < self.entries.len() {
            let (unit, kind) = (self.entries[next].unit, self.entries[next].kind);
            let acts = next == 0 || self.whole || !self.is_redundant(unit, kind);
            let is_refused = self.entries[next].refused.is_some();
            let conflict = |r| matches!(r, Relation::Conflicts | Relation::ConflictedBy);
            for &(relation, job_type, strength) in pulls(kind).filter(|_| !is_refused) {
                if acts || conflict(relation) {
                    for other in self.graph.related(unit, relation) {
                        self.pull(next, other, relation, job_type, strength);
                    }
                }
            }
            next += 1;
        }
    }

    fn pull(
        &mut self,
        from: usize,
        other: UnitId,
        relation: Relation,
        job_type: JobType,
        strength: Strength,
    ) {
        let kind = self.collapse(other, job_type);
        let absent = matches!(relation, Relation::MountsFor)
            && self.graph.definition(other).load_state != LoadState::Loaded;
        if kind == JobKind::Nop || absent || self.world.is_unseen(other) {
            return;
        }
        if self.is_untouched(self.entries[from].unit, other, relation) {
            return;
        }
        let known = self.index.contains_key(&(other, kind));
        let to = self.entry(other, kind);
        let puller = self.entries[from].unit;
        let entry = &mut self.entries[to];
        let conflicted = strength == Strength::Conflicted;
        if !known {
            entry.pulled_by = Some(puller);
            entry.by_conflict = conflicted || relation == Relation::Conflicts;
        }
        self.links.push(Link { from, to, strength });
    }

    /// Whether a job of `unit` leaves `other` alone over this relation: because the file of `other`
    /// says so, or because another unit of a group does or may do (`RestartOn=`, `RequireAny=`).
    fn is_untouched(&self, unit: UnitId, other: UnitId, relation: Relation) -> bool {
        use Relation::*;
        match relation {
            RequiredBy | BoundBy | RequisiteOf | ConsistsOf | MountsForOf => {
                self.graph.is_related(other, RestartOnNone, unit)
            }
            RestartOnRestartOf | RestartOnRefreshOf => {
                self.graph.is_related(other, RequireAny, unit)
            }
            RequireAny => self.world.does_without(unit, other),
            _ => false,
        }
    }

    /// Why a job cannot be on a unit at all.
    fn refusal(&self, unit: UnitId, kind: JobKind) -> Option<Refusal> {
        let definition = self.graph.definition(unit);
        let name = || definition.name.clone();
        match kind {
            // Of a device that is not there it has nothing to do, as with systemd 252.
            JobKind::Stop
                if definition.flags.perpetual()
                    || self.graph.is_device(unit) && !self.world.active_state(unit).is_down() =>
            {
                return Some(Refusal::NotApplicable(name()));
            }
            JobKind::Stop | JobKind::Nop => return None,
            JobKind::Reload
                if definition.load_state == LoadState::Loaded && !self.world.can_reload(unit) =>
            {
                return Some(Refusal::NotApplicable(name()));
            }
            JobKind::Restart if definition.flags.perpetual() || self.graph.is_device(unit) => {
                return Some(Refusal::NotApplicable(name()));
            }
            _ => {}
        }
        match definition.load_state {
            LoadState::Loaded if self.world.is_put_aside(unit) && kind != JobKind::Reload => {
                Some(Refusal::Maintenance(name()))
            }
            LoadState::Loaded => None,
            LoadState::Masked => Some(Refusal::Masked(name())),
            LoadState::BadSetting => Some(Refusal::BadSetting(name())),
            LoadState::Error => Some(Refusal::LoadError(name())),
            _ if kind != JobKind::Reload && self.world.active_state(unit).is_up() => None,
            _ => Some(Refusal::NoSuchUnit(name())),
        }
    }

    /// Who requires something that cannot be cannot be either. A reload or stop that does not
    /// apply to a dependent harms nobody: it just is not done.
    fn spread_refusals(&mut self) -> Result<(), Refusal> {
        let mut pending: Vec<usize> =
            (0..self.entries.len()).filter(|&i| self.entries[i].refused.is_some()).collect();
        let by_end = self.links_by_end();
        while let Some(at) = pending.pop() {
            self.entries[at].live = false;
            let Some(refusal) = self.entries[at].refused.clone() else { continue };
            if matches!(refusal, Refusal::NotApplicable(_)) {
                continue;
            }
            let root = self.entries[at].for_want_of.unwrap_or(self.entries[at].unit);
            for &link in by_end.get(&at).into_iter().flatten() {
                let Link { from, strength, .. } = self.links[link];
                if strength == Strength::Required && self.entries[from].refused.is_none() {
                    self.entries[from].refused = Some(refusal.clone());
                    self.entries[from].for_want_of = Some(root);
                    pending.push(from);
                }
            }
        }
        match &self.entries[0].refused {
            Some(refusal) => Err(refusal.clone()),
            None => {
                self.collect_garbage();
                Ok(())
            }
        }
    }

    /// Starts that a job of the plan wants, and that cannot be for want of something else.
    pub(super) fn left_out(&self) -> Vec<LeftOut> {
        let wanted = |link: &&Link| {
            link.strength == Strength::Wanted
                && self.entries[link.from].live
                && self.entries[link.to].kind == JobKind::Start
        };
        let entries: BTreeSet<usize> =
            self.links.iter().filter(wanted).map(|link| link.to).collect();
        let left_out = |at: usize| {
            let Entry { unit, for_want_of, refused, .. } = &self.entries[at];
            Some(LeftOut { unit: *unit, for_want_of: (*for_want_of)?, refusal: refused.clone()? })
        };
        let mut out: Vec<LeftOut> = entries.into_iter().filter_map(left_out).collect();
        out.sort_by_key(|left_out| self.graph.name(left_out.unit));
        out
    }

    pub(super) fn links_by_end(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut by_end: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (i, link) in self.links.iter().enumerate() {
            by_end.entry(link.to).or_default().push(i);
        }
        by_end
    }

    fn links_by_start(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut by_start: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (i, link) in self.links.iter().enumerate() {
            by_start.entry(link.from).or_default().push(i);
        }
        by_start
    }

    /// Marks what the anchor cannot do without.
    fn mark_required(&mut self) {
        let by_start = self.links_by_start();
        let mut pending = vec![0];
        while let Some(at) = pending.pop() {
            if std::mem::replace(&mut self.entries[at].required, true) {
                continue;
            }
            for &link in by_start.get(&at).into_iter().flatten() {
                let Link { to, strength, .. } = self.links[link];
                if strength == Strength::Required && self.entries[to].live {
                    pending.push(to);
                }
            }
        }
    }

    /// Ends jobs that nobody pulls in any more.
    pub(super) fn collect_garbage(&mut self) {
        let by_start = self.links_by_start();
        let mut reached = vec![false; self.entries.len()];
        let mut pending = vec![0];
        while let Some(at) = pending.pop() {
            if !self.entries[at].live || std::mem::replace(&mut reached[at], true) {
                continue;
            }
            pending
                .extend(by_start.get(&at).into_iter().flatten().map(|&link| self.links[link].to));
        }
        for (entry, reached) in self.entries.iter_mut().zip(reached) {
            entry.live &= reached;
        }
    }

    pub(super) fn add_mode_jobs(&mut self) {
        match self.anchor.mode {
            JobMode::Isolate => self.add_isolate_stops(),
            JobMode::Triggering => {
                let triggers: Vec<UnitId> =
                    self.graph.related(self.anchor.unit, Relation::TriggeredBy).collect();
                for unit in triggers {
                    if !self.world.active_state(unit).is_down() {
                        self.add_from_anchor(unit, JobKind::Stop, Strength::Required);
                    }
                }
                self.mark_required_again();
            }
            JobMode::RestartDependencies => self.add_dependents(),
            JobMode::Flush => {
                let busy = self.world.busy_units();
                self.cancelled =
                    busy.into_iter().filter(|&u| self.world.installed(u).is_some()).collect();
            }
            _ => {}
        }
    }

    fn add_isolate_stops(&mut self) {
        // What the anchor pulls in, whether it has anything to do or not, is not stopped.
        let live = self.entries.iter().filter(|entry| entry.live);
        let named: BTreeSet<UnitId> = live.map(|entry| entry.unit).collect();
        let stays = |unit: &UnitId| {
            let flags = self.graph.definition(*unit).flags;
            flags.ignore_on_isolate() || flags.perpetual() || named.contains(unit)
        };
        // What a unit triggers that stays belongs to it, and so does who serves a connection of it.
        let is_kept = |unit: &UnitId| {
            let by = self.graph.related(*unit, Relation::TriggeredBy);
            stays(unit) || by.chain(self.world.accepted_by(*unit)).any(|by| stays(&by))
        };
        let busy = self.world.busy_units();
        for unit in busy {
            if !is_kept(&unit) {
                self.add_from_anchor(unit, JobKind::Stop, Strength::Wanted);
            }
        }
    }

    /// `restart-dependencies`: what depends on the unit is restarted with it.
    fn add_dependents(&mut self) {
        let from = [Relation::RequiredBy, Relation::BoundBy, Relation::ConsistsOf];
        let dependents: BTreeSet<UnitId> =
            from.iter().flat_map(|&r| self.graph.related(self.anchor.unit, r)).collect();
        for unit in dependents {
            if self.collapse(unit, JobType::TryRestart) == JobKind::Restart {
                self.add_from_anchor(unit, JobKind::Restart, Strength::Wanted);
            }
        }
    }

    fn add_from_anchor(&mut self, unit: UnitId, kind: JobKind, strength: Strength) {
        let fresh = self.entries.len();
        let to = self.entry(unit, kind);
        self.links.push(Link { from: 0, to, strength });
        self.expand_from(fresh);
        for entry in &mut self.entries[fresh..] {
            entry.live = entry.refused.is_none();
        }
    }

    fn mark_required_again(&mut self) {
        self.entries.iter_mut().for_each(|e| e.required = false);
        self.mark_required();
    }
}
