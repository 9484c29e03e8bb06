//! Transactions as the manual tells them, slowly: the naive builder that the core's is compared
//! with.
//!
//! Written from systemd.unit(5) and systemctl(1) and nothing else, for graphs of a few units. It
//! works on sets of (unit, kind) by applying rules until nothing changes; there are no links, no
//! garbage collection and no incremental state to get wrong. Where the manual leaves something
//! open (which of two optional jobs goes, in which order), the rule of the core's module head
//! counts: ties break by unit name.

use std::collections::{BTreeMap, BTreeSet};

use warren_core::model::active_state::ActiveState;
use warren_core::model::job::{JobKind, JobMode, JobType};
use warren_unit::Relation;

/// A unit's number; names sort as numbers do.
pub type Unit = usize;

/// A small set of units, all loaded.
#[derive(Clone, Debug, Default)]
pub struct Small {
    /// Who states which relation about whom.
    pub ties: Vec<(Unit, Relation, Unit)>,
    /// The state of each unit.
    pub states: Vec<ActiveState>,
    /// The installed job of each.
    pub installed: Vec<Option<JobKind>>,
    /// Jobs that have nothing to do bring what they bring all the same, as in systemd.
    pub whole: bool,
}

/// What comes of a request: the jobs by unit, or nothing if it is refused.
pub type Verdict = Option<BTreeMap<Unit, JobKind>>;

type Job = (Unit, JobKind);

/// A step in time of a unit's job, and whether it is a stop.
type Step = (Unit, bool);

impl Small {
    /// Units that `unit` has `relation` with, stated by either end.
    fn related(&self, unit: Unit, relation: Relation) -> BTreeSet<Unit> {
        let own = self.ties.iter().filter(|(u, r, _)| *u == unit && *r == relation);
        let inverse = relation.inverse();
        let other = self.ties.iter().filter(|(_, r, o)| *o == unit && *r == inverse);
        own.map(|(_, _, o)| *o).chain(other.map(|(u, _, _)| *u)).collect()
    }

    /// The unit is where the job leads, and no installed job is about to change that.
    fn has_nothing_to_do(&self, (unit, kind): Job) -> bool {
        self.installed[unit].is_none() && kind.is_redundant(self.states[unit])
    }

    fn is_up(&self, unit: Unit) -> bool {
        self.states[unit].is_up_or_coming()
    }

    /// What a job on a unit brings with it. One that has nothing to do brings only stops for the
    /// sake of `Conflicts=`.
    fn acts(&self, job: Job, anchor: Job, whole: bool) -> Vec<(Job, bool, bool)> {
        let mut brought = self.brings(job);
        if !whole && job != anchor && self.has_nothing_to_do(job) {
            let starts = matches!(job.1, JobKind::Start | JobKind::Restart);
            brought.retain(|((_, kind), ..)| starts && *kind == JobKind::Stop);
        }
        brought
    }

    /// What a job on a unit brings with it: (job, whether it is needed, whether for a conflict
    /// that the other unit states).
    fn brings(&self, (unit, kind): Job) -> Vec<(Job, bool, bool)> {
        let mut out = Vec::new();
        let mut add = |relation, job_type: JobType, needed, conflicted| {
            for other in self.related(unit, relation) {
                let kind = job_type.collapse(self.states[other]);
                if kind != JobKind::Nop {
                    out.push(((other, kind), needed, conflicted));
                }
            }
        };
        let starts = matches!(kind, JobKind::Start | JobKind::Restart);
        if starts {
            // "If this unit gets activated, the units listed will be activated as well."
            add(Relation::Requires, JobType::Start, true, false);
            add(Relation::BindsTo, JobType::Start, true, false);
            // "if the units listed here are not started already, they will not be started and the
            // starting of this unit will fail immediately"
            add(Relation::Requisite, JobType::VerifyActive, true, false);
            add(Relation::Wants, JobType::Start, false, false);
            add(Relation::Upholds, JobType::Start, false, false);
            // "starting the former will stop the latter and vice versa"
            add(Relation::Conflicts, JobType::Stop, true, false);
            add(Relation::ConflictedBy, JobType::Stop, false, true);
        }
        let propagated = match kind {
            JobKind::Stop => Some(JobType::Stop),
            JobKind::Restart => Some(JobType::TryRestart),
            _ => None,
        };
        if let Some(job_type) = propagated {
            // "this unit will be stopped (or restarted) if one of the other units is explicitly
            // stopped (or restarted)"
            for relation in [
                Relation::RequiredBy,
                Relation::BoundBy,
                Relation::RequisiteOf,
                Relation::ConsistsOf,
            ] {
                add(relation, job_type, true, false);
            }
            // "Issuing a stop request on a unit will automatically also enqueue stop requests":
            // of a restart it says nothing.
            if kind == JobKind::Stop {
                add(Relation::PropagatesStopTo, JobType::Stop, true, false);
            }
        }
        out
    }

    /// Everything that jobs bring with them, and which of it the anchor cannot do without. `gone`
    /// are jobs that gave way: nothing they bring counts.
    /// A job that has nothing to do brings nothing, except where `whole` is asked for.
    fn closure(&self, anchor: Job, roots: &[Job], gone: &BTreeSet<Job>, whole: bool) -> Closure {
        let mut closure = Closure::default();
        closure.jobs.insert(anchor, true);
        roots.iter().filter(|job| !gone.contains(*job)).for_each(|&job| {
            closure.jobs.entry(job).or_insert(false);
        });
        closure.wanted.extend(closure.jobs.keys().copied());
        loop {
            let before = (closure.jobs.clone(), closure.wanted.len());
            for (job, required) in before.0.clone() {
                for (other, needed, conflicted) in self.acts(job, anchor, whole) {
                    if gone.contains(&other) {
                        continue;
                    }
                    let known = closure.jobs.entry(other).or_insert(false);
                    *known |= required && needed;
                    if !conflicted {
                        closure.wanted.insert(other);
                    }
                }
            }
            if before == (closure.jobs.clone(), closure.wanted.len()) {
                return closure;
            }
        }
    }

    /// Builds the transaction: every outcome that the rules allow. They leave open which of
    /// several circles is broken first; all else has one outcome.
    pub fn build(&self, unit: Unit, job_type: JobType, mode: JobMode) -> BTreeSet<Verdict> {
        let anchor = (unit, job_type.collapse(self.states[unit]));
        if matches!(mode, JobMode::IgnoreDependencies | JobMode::IgnoreRequirements) {
            let jobs = BTreeMap::from([anchor]);
            // "the ordering dependencies will still be honored", by the first but not the second.
            let ordered = mode == JobMode::IgnoreRequirements;
            let circles = if ordered { self.circles(&jobs) } else { BTreeSet::new() };
            let refused = circles
                .iter()
                .any(|circle| circle.contains(&unit) && !self.has_stop(&jobs, circle));
            return BTreeSet::from([self.meet_installed(jobs, mode).filter(|_| !refused)]);
        }
        let roots = self.roots(anchor, mode);
        let mut verdicts = BTreeSet::new();
        let mut pending = vec![BTreeSet::new()];
        while let Some(gone) = pending.pop() {
            let closure = self.closure(anchor, &roots, &gone, self.looks_behind(mode));
            for fate in self.fates(&closure, anchor, mode) {
                match fate {
                    Fate::Refused => {
                        verdicts.insert(None);
                    }
                    Fate::Jobs(jobs) => {
                        verdicts.insert(self.meet_installed(jobs, mode));
                    }
                    Fate::Drop(losers) => {
                        let more = self.with_dependents(anchor, losers, &closure, mode);
                        if more.contains(&anchor) {
                            verdicts.insert(None);
                        } else {
                            pending.push(gone.union(&more).copied().collect());
                        }
                    }
                }
            }
        }
        verdicts
    }

    /// Whether jobs that have nothing to do bring what they bring: "Start the unit specified on the command line
    /// and its dependencies and stop all others".
    fn looks_behind(&self, mode: JobMode) -> bool {
        self.whole || mode == JobMode::Isolate
    }

    /// What may happen next to a closure.
    fn fates(&self, closure: &Closure, anchor: Job, mode: JobMode) -> Vec<Fate> {
        match self.conflict(closure) {
            Some(fate) => vec![fate],
            None => self.after_merge(closure, anchor, mode),
        }
    }

    /// Jobs that the mode adds to the anchor.
    fn roots(&self, anchor: Job, mode: JobMode) -> Vec<Job> {
        let none = BTreeSet::new();
        let named: BTreeSet<Unit> =
            self.closure(anchor, &[], &none, true).jobs.keys().map(|(unit, _)| *unit).collect();
        let all = 0..self.states.len();
        match mode {
            // "causes all other units to be stopped when the specified unit is started"
            JobMode::Isolate => all
                .filter(|u| !named.contains(u))
                .filter(|&u| !self.states[u].is_down() || self.installed[u].is_some())
                .map(|u| (u, JobKind::Stop))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Jobs that cannot be without those that give way. What falls with others may be the stop that is to
    /// make room for a unit, if it has something to do: that unit is not started either, for the two
    /// "never both run".
    fn with_dependents(
        &self,
        anchor: Job,
        losers: Vec<Job>,
        closure: &Closure,
        mode: JobMode,
    ) -> BTreeSet<Job> {
        let whole = self.looks_behind(mode);
        let given: BTreeSet<Job> = losers.into_iter().collect();
        let mut gone = given.clone();
        loop {
            let more: Vec<Job> = closure
                .jobs
                .keys()
                .copied()
                .filter(|job| !gone.contains(job))
                .filter(|&job| {
                    self.acts(job, anchor, whole).iter().any(|(other, needed, conflicted)| {
                        let makes_room = || {
                            *conflicted && !given.contains(other) && !self.has_nothing_to_do(*other)
                        };
                        gone.contains(other) && (*needed || makes_room())
                    })
                })
                .collect();
            if more.is_empty() {
                return gone;
            }
            gone.extend(more);
        }
    }

    /// The first unit with a stop and something else: which jobs give way. "the transaction will
    /// either fail (in case both are required parts of the transaction)".
    fn conflict(&self, closure: &Closure) -> Option<Fate> {
        for unit in 0..self.states.len() {
            let of_unit = || closure.jobs.iter().filter(move |(job, _)| job.0 == unit);
            let is_stop = |job: &Job| job.1 == JobKind::Stop;
            let jobs = |stop: bool| -> Vec<(Job, bool)> {
                of_unit().filter(|(j, _)| is_stop(j) == stop).map(|(&j, &r)| (j, r)).collect()
            };
            let (stops, others) = (jobs(true), jobs(false));
            if stops.is_empty() || others.is_empty() {
                continue;
            }
            let required = |list: &[(Job, bool)]| list.iter().any(|(_, required)| *required);
            // "starting the former will stop the latter": so it must where the start must be.
            let against =
                |job: &Job| self.brings(*job).contains(&((unit, JobKind::Stop), false, true));
            let needed = closure.jobs.iter().any(|(job, required)| *required && against(job));
            let end_stop = match (needed || required(&stops), required(&others)) {
                (true, true) => return Some(Fate::Refused),
                (true, false) => false,
                (false, true) => true,
                // "in case both are not required, the unit that conflicts will be started and the
                // unit that is conflicted is stopped"
                (false, false) => !stops.iter().any(|(job, _)| closure.wanted.contains(job)),
            };
            let losers = if end_stop { stops } else { others };
            return Some(Fate::Drop(losers.into_iter().map(|(job, _)| job).collect()));
        }
        None
    }

    /// Merged jobs without those that have nothing to do, unless one has to go first.
    fn after_merge(&self, closure: &Closure, anchor: Job, mode: JobMode) -> Vec<Fate> {
        let mut jobs: BTreeMap<Unit, JobKind> = BTreeMap::new();
        for (unit, kind) in closure.jobs.keys() {
            let up = self.is_up(*unit);
            let merged = jobs.get(unit).map_or(Some(*kind), |old| old.merge(*kind, up));
            jobs.insert(*unit, merged.expect("stops are settled"));
        }
        jobs.retain(|&unit, kind| unit == anchor.0 || !self.has_nothing_to_do((unit, *kind)));
        // "starting the former will stop the latter": a start goes with the stop it needs.
        let against = |unit: Unit| {
            let stops = |job: &Job| {
                let stop = ((unit, JobKind::Stop), false, true);
                closure.jobs.contains_key(&stop.0) && self.brings(*job).contains(&stop)
            };
            closure.jobs.keys().copied().filter(stops).collect::<Vec<Job>>()
        };
        let required = |unit: Unit| {
            closure.jobs.iter().any(|(job, required)| job.0 == unit && *required)
                || against(unit).iter().any(|job| closure.jobs[job])
        };
        let drop_unit = |unit: Unit| {
            let of_unit = closure.jobs.keys().copied().filter(|job| job.0 == unit);
            Fate::Drop(of_unit.chain(against(unit)).collect())
        };
        if mode == JobMode::Fail {
            let harmful = jobs.iter().find(|&(&unit, &kind)| {
                let stops = kind.is_stopping() && self.is_up(unit);
                (stops || self.contradicts(unit, kind)) && !required(unit)
            });
            if let Some((&unit, _)) = harmful {
                return vec![drop_unit(unit)];
            }
        }
        let circles = self.circles(&jobs);
        let broken = |circle: &BTreeSet<Unit>| {
            let may_go = |u: &Unit| *u != anchor.0 && jobs.contains_key(u) && !required(*u);
            circle.iter().copied().filter(may_go).max().map_or(Fate::Refused, drop_unit)
        };
        let ways: Vec<Fate> = circles
            .iter()
            .filter(|circle| circle.iter().any(|unit| jobs.contains_key(unit)))
            .filter(|circle| !self.has_stop(&jobs, circle))
            .map(broken)
            .collect();
        if ways.is_empty() { vec![Fate::Jobs(jobs)] } else { ways }
    }

    fn contradicts(&self, unit: Unit, kind: JobKind) -> bool {
        self.installed[unit].is_some_and(|old| kind.merge(old, self.is_up(unit)).is_none())
    }

    /// "fail": "causes an already pending start job to be reversed into a stop job or vice versa".
    fn meet_installed(&self, jobs: BTreeMap<Unit, JobKind>, mode: JobMode) -> Verdict {
        let against = jobs.iter().any(|(&unit, &kind)| self.contradicts(unit, kind));
        (mode != JobMode::Fail || !against).then_some(jobs)
    }

    // ---- order ----

    /// The kind that a unit's job will have.
    fn coming(&self, jobs: &BTreeMap<Unit, JobKind>, unit: Unit) -> Option<JobKind> {
        match (jobs.get(&unit), self.installed[unit]) {
            (Some(&new), Some(old)) => Some(new.merge(old, self.is_up(unit)).unwrap_or(new)),
            (new, old) => new.copied().or(old),
        }
    }

    /// Whether `first` comes before `second` when both start.
    fn before(&self, first: Unit, second: Unit) -> bool {
        self.related(second, Relation::After).contains(&first)
    }

    /// Steps of jobs in time: a restart is a stop and then a start. Whether step `a` must wait for
    /// step `b`: "bar.service's start-up is delayed until foo.service has finished starting up";
    /// stops in reverse; "the shutdown is ordered before the start-up" always.
    fn waits(&self, a: Step, b: Step) -> bool {
        match (a.1, b.1) {
            (false, false) => self.before(b.0, a.0),
            // Two units ordered both ways have no order to stop in: an administrator must be able
            // to stop what cannot be started.
            (true, true) => self.before(a.0, b.0) && !self.before(b.0, a.0),
            (false, true) => self.before(a.0, b.0) || self.before(b.0, a.0),
            (true, false) => false,
        }
    }

    /// The units of every circle of steps.
    fn circles(&self, jobs: &BTreeMap<Unit, JobKind>) -> BTreeSet<BTreeSet<Unit>> {
        let mut steps: Vec<Step> = Vec::new();
        for unit in 0..self.states.len() {
            match self.coming(jobs, unit) {
                Some(JobKind::Stop) => steps.push((unit, true)),
                Some(JobKind::Restart) => steps.extend([(unit, true), (unit, false)]),
                Some(JobKind::Nop) | None => {}
                Some(_) => steps.push((unit, false)),
            }
        }
        let mut circles = BTreeSet::new();
        for &step in &steps {
            self.walk(&steps, &mut vec![step], &mut circles);
        }
        circles
    }

    /// Stops wait for nothing but stops. A stop of this transaction need not wait: an administrator must be able to
    /// stop what was started.
    fn has_stop(&self, jobs: &BTreeMap<Unit, JobKind>, circle: &BTreeSet<Unit>) -> bool {
        circle
            .iter()
            .any(|unit| jobs.contains_key(unit) && self.coming(jobs, *unit) == Some(JobKind::Stop))
    }

    /// Follows every path that does not meet itself; notes those that come back to their start.
    fn walk(&self, steps: &[Step], path: &mut Vec<Step>, circles: &mut BTreeSet<BTreeSet<Unit>>) {
        let (first, last) = (path[0], path[path.len() - 1]);
        for &next in steps.iter().filter(|&&next| self.step_waits(last, next)) {
            if next == first {
                circles.insert(path.iter().map(|(unit, _)| *unit).collect());
            } else if !path.contains(&next) {
                path.push(next);
                self.walk(steps, path, circles);
                path.pop();
            }
        }
    }

    fn step_waits(&self, a: Step, b: Step) -> bool {
        match a.0 == b.0 {
            true => !a.1 && b.1,
            false => self.waits(a, b),
        }
    }
}

/// All jobs that are pulled in, each with whether the anchor cannot do without it.
#[derive(Default)]
struct Closure {
    jobs: BTreeMap<Job, bool>,
    /// Jobs that are there for more than somebody else's `Conflicts=`.
    wanted: BTreeSet<Job>,
}

enum Fate {
    /// There is no transaction.
    Refused,
    /// These jobs give way.
    Drop(Vec<Job>),
    /// These are the jobs.
    Jobs(BTreeMap<Unit, JobKind>),
}
