//! Transactions: from one request to the jobs that fulfil it.
//!
//! A pure function of the graph, the units' states, the installed jobs and the request. The steps:
//!
//! 1. *closure*: the anchor job and everything that its relations pull in; a job that has nothing
//!    to do pulls in nothing but stops for the sake of `Conflicts=`;
//! 2. *merge*: one job per unit; of two that contradict each other the one that is not required
//!    gives way;
//! 3. *drop redundant*: jobs whose unit is already where they lead;
//! 4. *minimise* (mode `fail`): jobs that are not required stop nothing and replace nothing; a
//!    start that needs such a stop goes with it, for two units that conflict never both run;
//! 5. *order check*, on the merged graph and through the installed jobs: a circle is broken by
//!    dropping one job that is not required, and reported whole;
//! 6. *meet the installed jobs*: replace them, or refuse.
//!
//! Redundant jobs go before the order check because a circle among units that already run blocks
//! nobody; minimising goes before it because the installed job that a dropped one would have
//! replaced stays. Ties are broken by unit name, so the plan does not depend on the order in which units
//! were loaded. What pulls in what is the table in `pulls`; its source is systemd.unit(5).

use crate::graph::Graph;
use crate::ids::UnitId;
use crate::job::{JobKind, JobMode, JobType};
use crate::request::Refusal;
use crate::state::ActiveState;
use std::collections::{BTreeMap, BTreeSet};
use warren_unit::{LoadState, Relation};

/// What a transaction needs to know of the units' states.
pub trait World {
    /// The state of a unit.
    fn active_state(&self, unit: UnitId) -> ActiveState;
    /// The installed job of a unit, and whether it is irreversible.
    fn installed(&self, unit: UnitId) -> Option<(JobKind, bool)>;
    /// Whether the installed job of a unit has begun, and so waits for nobody.
    fn has_begun(&self, unit: UnitId) -> bool;
    /// Every unit that is not down or has a job; asked for by `isolate` and `flush` only.
    fn busy_units(&self) -> Vec<UnitId>;
    /// Whether the unit can be reloaded now.
    fn can_reload(&self, unit: UnitId) -> bool;
    /// Whether the unit is a device that nobody looks for: it is taken for plugged in.
    fn is_unseen(&self, unit: UnitId) -> bool;
    /// Whether an administrator has to clear the unit before anything starts it.
    fn is_put_aside(&self, unit: UnitId) -> bool;
    /// Whether each line of `RequireAny=` of `unit` that names `other` has another unit that is up.
    fn does_without(&self, unit: UnitId, other: UnitId) -> bool;
}

/// The job that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// Its unit.
    pub unit: UnitId,
    /// Its type.
    pub job_type: JobType,
    /// How it meets the installed jobs.
    pub mode: JobMode,
}

/// One job of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Planned {
    /// Its unit.
    pub unit: UnitId,
    /// What it does.
    pub kind: JobKind,
    /// The unit whose job pulled it in; none for the anchor and for `isolate`'s stops.
    pub pulled_by: Option<UnitId>,
    /// Whether the pull was a conflict.
    pub by_conflict: bool,
}

/// A circle of jobs that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Circle {
    /// Its units; each waits for the next, the last for the first.
    pub units: Vec<UnitId>,
    /// The unit whose job was dropped.
    pub dropped: UnitId,
}

/// A start that was wanted and is not in the plan, because of what its unit requires.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The unit that was wanted.
    pub unit: UnitId,
    /// The unit that cannot be, required by it or through others.
    pub for_want_of: UnitId,
    /// Why not.
    pub refusal: Refusal,
}

/// The jobs to install, and what had to give way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The anchor first, then the others by unit name.
    pub jobs: Vec<Planned>,
    /// Installed jobs that go because the mode is `flush` or `isolate`.
    pub cancelled: Vec<UnitId>,
    /// Circles that were broken.
    pub circles: Vec<Circle>,
    /// Starts that were wanted in vain, by unit name.
    pub left_out: Vec<LeftOut>,
}

/// How a job pulls in another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Strength {
    /// Without it the puller cannot be.
    Required,
    /// It is tried.
    Wanted,
    /// A stop for the sake of somebody else's `Conflicts=`: gives way to a start.
    Conflicted,
}

/// What a job of `kind` on a unit pulls in over which relations.
fn pulls(kind: JobKind) -> &'static [(Relation, JobType, Strength)] {
    use JobType::{Start, Stop, TryReload, TryRestart, VerifyActive};
    use Relation::*;
    use Strength::*;
    const START: &[(Relation, JobType, Strength)] = &[
        (Relation::Requires, Start, Required),
        (BindsTo, Start, Required),
        (MountsFor, Start, Required),
        (Requisite, VerifyActive, Required),
        (Relation::Wants, Start, Wanted),
        (Upholds, Start, Wanted),
        (RequireAny, Start, Wanted),
        (Conflicts, Stop, Required),
        (ConflictedBy, Stop, Strength::Conflicted),
    ];
    const STOP: &[(Relation, JobType, Strength)] = &[
        (RequiredBy, Stop, Required),
        (BoundBy, Stop, Required),
        (RequisiteOf, Stop, Required),
        (ConsistsOf, Stop, Required),
        (MountsForOf, Stop, Required),
        (PropagatesStopTo, Stop, Required),
        (RestartOnRestartOf, Stop, Required),
        (RestartOnRefreshOf, Stop, Required),
    ];
    const RESTART: &[(Relation, JobType, Strength)] = &[
        (Relation::Requires, Start, Required),
        (BindsTo, Start, Required),
        (MountsFor, Start, Required),
        (Requisite, VerifyActive, Required),
        (Relation::Wants, Start, Wanted),
        (Upholds, Start, Wanted),
        (RequireAny, Start, Wanted),
        (Conflicts, Stop, Required),
        (ConflictedBy, Stop, Strength::Conflicted),
        (RequiredBy, TryRestart, Required),
        (BoundBy, TryRestart, Required),
        (RequisiteOf, TryRestart, Required),
        (ConsistsOf, TryRestart, Required),
        (MountsForOf, TryRestart, Required),
        (RestartOnRestartOf, TryRestart, Required),
        (RestartOnRefreshOf, TryRestart, Required),
    ];
    match kind {
        JobKind::Start => START,
        JobKind::Stop => STOP,
        JobKind::Restart => RESTART,
        JobKind::Reload => {
            &[(PropagatesReloadTo, TryReload, Wanted), (RestartOnRefreshOf, TryRestart, Wanted)]
        }
        JobKind::VerifyActive | JobKind::Nop => &[],
    }
}

/// Builds the plan for `anchor`, or says why there is none.
pub fn build(graph: &Graph, world: &dyn World, anchor: Anchor) -> Result<Plan, Refusal> {
    let mut draft = Draft::new(graph, world, anchor);
    draft.close()?;
    draft.add_mode_jobs();
    draft.merge()?;
    draft.drop_redundant();
    draft.minimise()?;
    draft.check_order()?;
    draft.meet_installed()?;
    Ok(draft.into_plan())
}

#[derive(Debug)]
struct Entry {
    unit: UnitId,
    kind: JobKind,
    /// Required by the anchor, directly or through others.
    required: bool,
    pulled_by: Option<UnitId>,
    by_conflict: bool,
    live: bool,
    /// Cannot be: the unit is not loadable, or the job does not apply to it.
    refused: Option<Refusal>,
    /// It is another unit that cannot be, and this one requires it.
    for_want_of: Option<UnitId>,
}

#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    strength: Strength,
}

/// A unit's job, and whether its second half is meant.
type Half = (UnitId, bool);

struct Draft<'a> {
    graph: &'a Graph,
    world: &'a dyn World,
    anchor: Anchor,
    entries: Vec<Entry>,
    index: BTreeMap<(UnitId, JobKind), usize>,
    links: Vec<Link>,
    /// Jobs after merging: unit to kind.
    jobs: BTreeMap<UnitId, JobKind>,
    circles: Vec<Circle>,
    cancelled: Vec<UnitId>,
    /// Follow also what jobs pull in that have nothing to do.
    whole: bool,
}

impl<'a> Draft<'a> {
    fn new(graph: &'a Graph, world: &'a dyn World, anchor: Anchor) -> Self {
        Draft {
            graph,
            world,
            anchor,
            entries: Vec::new(),
            index: BTreeMap::new(),
            links: Vec::new(),
            jobs: BTreeMap::new(),
            circles: Vec::new(),
            cancelled: Vec::new(),
            whole: false,
        }
    }

    fn collapse(&self, unit: UnitId, job_type: JobType) -> JobKind {
        job_type.collapse(self.world.active_state(unit))
    }

    // ---- closure ----

    fn close(&mut self) -> Result<(), Refusal> {
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
    fn is_redundant(&self, unit: UnitId, kind: JobKind) -> bool {
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
            let pulled: &[_] = if self.entries[next].refused.is_some() { &[] } else { pulls(kind) };
            let conflict = |r| matches!(r, Relation::Conflicts | Relation::ConflictedBy);
            for &(relation, job_type, strength) in pulled {
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
            JobKind::Stop if definition.flags.perpetual() || self.graph.is_device(unit) => {
                return Some(Refusal::NotApplicable(name()));
            }
            JobKind::Stop | JobKind::Nop => return None,
            JobKind::Reload if !self.world.can_reload(unit) => {
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
            _ if self.world.active_state(unit).is_up() => None,
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
    fn left_out(&self) -> Vec<LeftOut> {
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

    fn links_by_end(&self) -> BTreeMap<usize, Vec<usize>> {
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
    fn collect_garbage(&mut self) {
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

    // ---- modes that add jobs ----

    fn add_mode_jobs(&mut self) {
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
        let named = self.needed_units();
        for unit in self.world.busy_units() {
            let definition = self.graph.definition(unit);
            let kept = definition.flags.ignore_on_isolate() || definition.flags.perpetual();
            if !kept && !named.contains(&unit) {
                self.add_from_anchor(unit, JobKind::Stop, Strength::Wanted);
            }
        }
    }

    /// The units of everything that the anchor pulls in, whether it has anything to do or not:
    /// these are not stopped by `isolate`.
    fn needed_units(&self) -> BTreeSet<UnitId> {
        let mut whole = Draft::new(self.graph, self.world, self.anchor);
        whole.whole = true;
        let closed = whole.close();
        let entries = if closed.is_ok() { &whole.entries } else { &self.entries };
        entries.iter().filter(|e| e.live).map(|e| e.unit).collect()
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

    // ---- merge ----

    fn merge(&mut self) -> Result<(), Refusal> {
        while let Some(unit) = self.first_contradiction() {
            self.settle(unit)?;
        }
        self.jobs = self.merged();
        Ok(())
    }

    /// Live entries of each unit.
    fn by_unit(&self) -> BTreeMap<UnitId, Vec<usize>> {
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
        self.end_entries(losers)
    }

    /// Ends entries, and those that cannot be without them.
    fn end_entries(&mut self, mut pending: Vec<usize>) -> Result<(), Refusal> {
        let by_end = self.links_by_end();
        while let Some(at) = pending.pop() {
            if !std::mem::replace(&mut self.entries[at].live, false) {
                continue;
            }
            if at == 0 {
                return Err(Refusal::JobsConflict(self.graph.name(self.entries[0].unit).clone()));
            }
            let needs_it = by_end.get(&at).into_iter().flatten().map(|&link| &self.links[link]);
            pending.extend(
                needs_it.filter(|link| link.strength == Strength::Required).map(|link| link.from),
            );
        }
        self.collect_garbage();
        Ok(())
    }

    fn merged(&self) -> BTreeMap<UnitId, JobKind> {
        let kind =
            |entries: &[usize]| self.merged_kind(entries).expect("contradictions are settled");
        self.by_unit().into_iter().map(|(unit, entries)| (unit, kind(&entries))).collect()
    }

    /// Whether the anchor needs the job of a unit: by requirement, or because a unit that it
    /// requires must not run beside this one.
    fn is_required(&self, unit: UnitId) -> bool {
        self.entries.iter().any(|e| e.live && e.unit == unit && e.required)
            || self.starts_against(unit).any(|i| self.entries[i].required)
    }

    /// The start jobs of units that this one conflicts with: its stop is for their sake, and
    /// without it they cannot be.
    fn starts_against(&self, unit: UnitId) -> impl Iterator<Item = usize> + '_ {
        let stops = move |i: usize| {
            let entry = &self.entries[i];
            entry.live && entry.unit == unit && entry.kind == JobKind::Stop
        };
        let pulls = move |link: &&Link| link.strength == Strength::Conflicted && stops(link.to);
        self.links.iter().filter(pulls).map(|link| link.from).filter(|&i| self.entries[i].live)
    }

    // ---- redundant jobs ----

    fn drop_redundant(&mut self) {
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.retain(|&unit, kind| unit == self.anchor.unit || !self.is_redundant(unit, *kind));
        self.jobs = jobs;
    }

    // ---- order ----

    fn check_order(&mut self) -> Result<(), Refusal> {
        if self.anchor.mode == JobMode::IgnoreDependencies {
            return Ok(());
        }
        while let Some(units) = self.find_circle() {
            self.break_circle(units)?;
        }
        Ok(())
    }

    /// The kind that a unit will have installed when the plan is carried out.
    fn coming_kind(&self, unit: UnitId) -> Option<JobKind> {
        let installed = self.world.installed(unit).map(|(kind, _)| kind);
        match (self.jobs.get(&unit), installed) {
            (Some(&new), Some(old)) => {
                let up = self.world.active_state(unit).is_up_or_coming();
                Some(new.merge(old, up).unwrap_or(new))
            }
            (Some(&new), None) => Some(new),
            (None, old) => old.filter(|_| !self.cancelled.contains(&unit)),
        }
    }

    /// The halves of other jobs that one half of the job of a unit would wait for. Every job has a
    /// first half; a restart has a second, the start that it becomes, which waits for its first.
    fn waits_for(&self, (unit, second): Half) -> Vec<Half> {
        let Some(kind) = self.coming_kind(unit) else { return Vec::new() };
        let installed = self.world.installed(unit).map(|(kind, _)| kind);
        if !second && installed == Some(kind) && self.world.has_begun(unit) {
            return Vec::new();
        }
        let kind = if second { JobKind::Start } else { kind };
        let mut halves = if second { vec![(unit, false)] } else { Vec::new() };
        for other in self.graph.ordered_with(unit) {
            let Some(other_kind) = self.coming_kind(other) else { continue };
            if self.graph.may_wait(unit, kind, other, other_kind) {
                halves.push((other, false));
            }
            let starts_again = other_kind == JobKind::Restart;
            if starts_again && self.graph.may_wait(unit, kind, other, JobKind::Start) {
                halves.push((other, true));
            }
        }
        halves.sort_unstable();
        halves.dedup();
        halves
    }

    /// A circle through a job of this transaction, smallest names first, if there is one.
    /// Depth-first over 'waits for', through installed jobs too.
    fn find_circle(&self) -> Option<Vec<UnitId>> {
        let mut done: BTreeSet<Half> = BTreeSet::new();
        let mut starts: Vec<UnitId> = self.jobs.keys().copied().collect();
        starts.sort_unstable_by_key(|&u| self.graph.name(u));
        let restarts = |unit: UnitId| self.coming_kind(unit) == Some(JobKind::Restart);
        starts
            .into_iter()
            .flat_map(|unit| [Some((unit, false)), restarts(unit).then_some((unit, true))])
            .flatten()
            .find_map(|start| self.search_circle(start, &mut done))
    }

    fn search_circle(&self, start: Half, done: &mut BTreeSet<Half>) -> Option<Vec<UnitId>> {
        if done.contains(&start) {
            return None;
        }
        let mut on_path: BTreeSet<Half> = BTreeSet::from([start]);
        let mut path = vec![(start, self.ordered_waits(start))];
        while let Some((half, waits)) = path.last_mut() {
            match waits.pop() {
                Some(next) if on_path.contains(&next) => {
                    let halves = path.iter().map(|(half, _)| *half);
                    let mut units: Vec<UnitId> =
                        halves.skip_while(|&half| half != next).map(|(unit, _)| unit).collect();
                    units.dedup();
                    return Some(units);
                }
                Some(next) if !done.contains(&next) => {
                    on_path.insert(next);
                    path.push((next, self.ordered_waits(next)));
                }
                Some(_) => {}
                None => {
                    on_path.remove(half);
                    done.insert(*half);
                    path.pop();
                }
            }
        }
        None
    }

    /// [`Self::waits_for`], so that popping gives the smallest name first.
    fn ordered_waits(&self, half: Half) -> Vec<Half> {
        let mut waits = self.waits_for(half);
        if waits.len() > 1 {
            let key = |half: &Half| (self.graph.name(half.0), half.1);
            waits.sort_unstable_by(|a, b| key(b).cmp(&key(a)));
        }
        waits
    }

    /// The rule: of the circle's jobs that are not required, the one whose unit name sorts last
    /// goes. If all are required there is no way out.
    fn break_circle(&mut self, units: Vec<UnitId>) -> Result<(), Refusal> {
        let may_go = units.iter().copied().filter(|&u| {
            u != self.anchor.unit && self.jobs.contains_key(&u) && !self.is_required(u)
        });
        let Some(dropped) = may_go.max_by_key(|&u| self.graph.name(u)) else {
            return Err(Refusal::Cycle(
                units.iter().map(|&u| self.graph.name(u).clone()).collect(),
            ));
        };
        self.drop_job(dropped)?;
        self.circles.push(Circle { units, dropped });
        Ok(())
    }

    /// Drops the job of one unit, and those that cannot be without it.
    fn drop_job(&mut self, unit: UnitId) -> Result<(), Refusal> {
        let of_unit = (0..self.entries.len())
            .filter(|&i| self.entries[i].live && self.entries[i].unit == unit);
        let losers = of_unit.chain(self.starts_against(unit)).collect();
        self.end_entries(losers)?;
        let alive = self.merged();
        self.jobs.retain(|unit, _| alive.contains_key(unit));
        for (unit, kind) in &mut self.jobs {
            *kind = alive[unit];
        }
        Ok(())
    }

    // ---- the installed jobs ----

    fn contradicts_installed(&self, unit: UnitId) -> Option<bool> {
        let (old, irreversible) = self.world.installed(unit)?;
        let up = self.world.active_state(unit).is_up_or_coming();
        self.jobs[&unit].merge(old, up).is_none().then_some(irreversible)
    }

    fn minimise(&mut self) -> Result<(), Refusal> {
        if self.anchor.mode != JobMode::Fail {
            return Ok(());
        }
        loop {
            let harmful = |&unit: &UnitId| {
                let stops_it = self.jobs[&unit].is_stopping()
                    && self.world.active_state(unit).is_up_or_coming();
                (stops_it || self.contradicts_installed(unit).is_some()) && !self.is_required(unit)
            };
            let first =
                self.jobs.keys().copied().filter(harmful).min_by_key(|&u| self.graph.name(u));
            match first {
                Some(unit) => self.drop_job(unit)?,
                None => return Ok(()),
            }
        }
    }

    fn meet_installed(&mut self) -> Result<(), Refusal> {
        let fail = self.anchor.mode == JobMode::Fail;
        let stands = |&unit: &UnitId| {
            self.contradicts_installed(unit).is_some_and(|irreversible| irreversible || fail)
        };
        if self.jobs.keys().copied().any(|unit| stands(&unit)) {
            return Err(Refusal::Destructive(self.graph.name(self.anchor.unit).clone()));
        }
        let jobs = &self.jobs;
        self.cancelled.retain(|unit| !jobs.contains_key(unit));
        Ok(())
    }

    fn into_plan(self) -> Plan {
        let left_out = self.left_out();
        let by_unit = self.by_unit();
        let mut jobs: Vec<Planned> = self
            .jobs
            .iter()
            .map(|(&unit, &kind)| {
                let from = by_unit.get(&unit).and_then(|entries| entries.first());
                let entry = from.map(|&i| &self.entries[i]);
                Planned {
                    unit,
                    kind,
                    pulled_by: entry.and_then(|e| e.pulled_by),
                    by_conflict: entry.is_some_and(|e| e.by_conflict),
                }
            })
            .collect();
        let anchor = self.anchor.unit;
        jobs.sort_unstable_by_key(|job| (job.unit != anchor, self.graph.name(job.unit)));
        Plan { jobs, cancelled: self.cancelled, circles: self.circles, left_out }
    }
}
