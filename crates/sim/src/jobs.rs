//! What must hold of jobs: in which order they begin, and what does not begin any more.
//!
//! The rules are those of systemd.unit(5) and are written from it. Jobs are followed by what the
//! machine tells of them, so that one counts too that begins and ends within a step.

use std::collections::{BTreeMap, BTreeSet};

use warren_core::graph::Graph;
use warren_core::machine::Core;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::{Job, JobKind, JobResult};
use warren_core::protocol::trace_event::{Happening, What};
use warren_unit::Relation;

/// An installed job.
#[derive(Clone, Debug)]
struct Known {
    unit: UnitId,
    /// All that it was in this step: it is made another one without a word.
    kinds: BTreeSet<JobKind>,
    begun: bool,
    ignores_order: bool,
    /// Its end is not in sight: what it is can be looked up.
    stays: bool,
    /// The unit has been on its way up since it was installed, has been up.
    was_coming: bool,
    was_up: bool,
    /// Something of the unit's run is still there, though it is on its way down.
    is_going: bool,
}

impl Known {
    fn queued(unit: UnitId, kind: JobKind) -> Known {
        Known {
            unit,
            kinds: BTreeSet::from([kind]),
            begun: false,
            ignores_order: false,
            stays: false,
            was_coming: false,
            was_up: false,
            is_going: false,
        }
    }

    fn of(core: &Core, job: &Job) -> Known {
        let mut known = Known::queued(job.unit, job.kind);
        (known.begun, known.ignores_order, known.stays) = (job.running, job.ignores_order(), true);
        known.see(core.unit_run(job.unit).active_state());
        known
    }

    /// The unit is, or was, in this state.
    fn see(&mut self, state: ActiveState) {
        self.was_coming |= state == ActiveState::Activating;
        self.was_up |= state.is_up();
        self.is_going = state == ActiveState::Deactivating;
    }

    /// It is the same job as this one.
    fn inherit(&mut self, before: &Known) {
        self.ignores_order |= before.ignores_order;
        self.was_coming |= before.was_coming;
        self.was_up |= before.was_up;
    }

    /// What it is after the step, if it is not over then.
    fn learn(&mut self, now: Option<&Job>) {
        self.stays = now.is_some();
        match now {
            Some(now) => {
                self.kinds.insert(now.kind);
                self.ignores_order |= now.ignores_order();
            }
            // It may have been in its second half.
            None if self.kinds.contains(&JobKind::Restart) => _ = self.kinds.insert(JobKind::Start),
            None => {}
        }
    }

    fn only_starts(&self) -> bool {
        self.kinds.iter().all(|kind| matches!(kind, JobKind::Start | JobKind::VerifyActive))
    }
}

/// What a listener knows of jobs.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    known: BTreeMap<JobId, Known>,
    /// Those that ended in this step. A job that is made another one is told of as ended and queued.
    over: BTreeMap<JobId, Known>,
    /// Starts that cannot come to anything any more, and the unit that failed them.
    doomed: BTreeMap<JobId, UnitId>,
    /// Somebody has asked for a start with `--job-mode=ignore-requirements`.
    pub requirements_ignored: bool,
    /// The same in this step with `--job-mode=ignore-dependencies`.
    pub order_ignored: bool,
}

impl Jobs {
    /// Begins with what there is, as after a restart of the manager.
    pub fn begin_anew(&mut self, core: &Core) {
        self.doomed.clear();
        self.look(core);
    }

    /// Hears what happened in a step; the lines are what should not have.
    pub fn hear(&mut self, core: &Core, happenings: &[Happening]) -> Vec<String> {
        let view = core.view();
        self.known.iter_mut().for_each(|(&id, known)| known.learn(view.find_job(id)));
        let mut wrong = Vec::new();
        for happening in happenings {
            wrong.extend(self.hear_one(core, happening));
        }
        self.look(core);
        self.order_ignored = false;
        wrong
    }

    /// Takes up what is installed now.
    fn look(&mut self, core: &Core) {
        let before = std::mem::take(&mut self.known);
        self.over.clear();
        for job in core.view().jobs() {
            let mut known = Known::of(core, job);
            if let Some(before) = before.get(&job.id) {
                known.inherit(before);
            }
            self.known.insert(job.id, known);
        }
        let known = &self.known;
        let waits = |job: &JobId| known.get(job).is_some_and(|k| k.only_starts() && !k.begun);
        self.doomed.retain(|job, _| waits(job));
    }

    fn hear_one(&mut self, core: &Core, happening: &Happening) -> Vec<String> {
        let unit = happening.unit;
        match happening.what {
            What::JobQueued { job, kind, .. } => {
                let mut known = Known::queued(unit, kind);
                if let Some(before) = self.over.remove(&job) {
                    known.inherit(&before);
                }
                known.learn(core.view().find_job(job));
                self.known.insert(job, known);
            }
            What::JobBegan { job, kind, .. } => return self.begins(core, job, kind),
            What::JobEnded { job, kind, result, .. } => {
                self.doomed.remove(&job);
                let Some(known) = self.known.remove(&job) else { return Vec::new() };
                self.fail_those_behind(core, &known, kind, result);
                let wrong = ends_too_early(core, &known, kind, result);
                self.over.insert(job, known);
                return wrong.into_iter().collect();
            }
            What::State { active, .. } => {
                let own = self.known.values_mut().filter(|known| known.unit == unit);
                own.for_each(|known| known.see(active));
            }
            _ => {}
        }
        Vec::new()
    }

    fn begins(&mut self, core: &Core, id: JobId, kind: JobKind) -> Vec<String> {
        let Some(job) = self.known.get_mut(&id) else { return Vec::new() };
        job.begun = true;
        let job = job.clone();
        let mut wrong: Vec<String> = self.order(core, &job, kind).into_iter().collect();
        // One that only asks whether the unit is up starts nothing.
        let starts = kind == JobKind::Start;
        if let Some(failed) = self.doomed.remove(&id).filter(|_| starts) {
            let (unit, failed) = (core.graph().name(job.unit), core.graph().name(failed));
            wrong.push(format!("requires: {unit} is started though {failed} failed to start"));
        }
        wrong
    }

    /// `order`: a job that begins must not have another job to wait for. For a job that has already ended it is
    /// not known whether it was started early on purpose, to break a cycle of stops.
    fn order(&self, core: &Core, job: &Known, kind: JobKind) -> Option<String> {
        let graph = core.graph();
        let may_be = || {
            let stops = kind == JobKind::Stop && self.stops_in_a_circle(graph, job.unit);
            self.order_ignored || core.totals().stopping || stops
        };
        if job.ignores_order || !job.stays && may_be() {
            return None;
        }
        let goes_first = |other: &&Known| {
            let must = |&other_kind| waits(graph, (job.unit, kind), (other.unit, other_kind));
            other.unit != job.unit && other.kinds.iter().all(must)
        };
        let other = self.known.values().find(goes_first)?;
        let (unit, other) = (graph.name(job.unit), graph.name(other.unit));
        Some(format!(
            "order: the {} of {unit} began before the job of {other} was over",
            kind.as_str()
        ))
    }

    /// Whether the stop of a unit waits for itself through other stops.
    fn stops_in_a_circle(&self, graph: &Graph, unit: UnitId) -> bool {
        let stop = |unit: UnitId| (unit, JobKind::Stop);
        let stops = |known: &&Known| known.kinds.iter().any(|kind| kind.is_stopping());
        let all: BTreeSet<UnitId> = self.known.values().filter(stops).map(|k| k.unit).collect();
        let (mut seen, mut next) = (BTreeSet::new(), vec![unit]);
        while let Some(one) = next.pop() {
            let others = all.iter().copied().filter(|&other| waits(graph, stop(one), stop(other)));
            next.extend(others.filter(|&other| seen.insert(other)));
        }
        seen.contains(&unit)
    }

    /// Starts that wait for a unit that they cannot be without come to nothing if that does not come
    /// up (systemd.unit(5), `Requires=`: "this unit will not be started").
    fn fail_those_behind(&mut self, core: &Core, job: &Known, kind: JobKind, result: JobResult) {
        let starts = match kind {
            JobKind::Start | JobKind::VerifyActive => true,
            // It was made of a start that was under way.
            JobKind::Reload => job.was_coming && !job.was_up,
            _ => false,
        };
        let fails = result.is_failure() && result != JobResult::Canceled;
        if !starts || !fails || self.requirements_ignored {
            return;
        }
        let graph = core.graph();
        for (&id, behind) in &self.known {
            let waits = !behind.begun && !behind.ignores_order && behind.only_starts();
            if waits
                && needs(graph, behind.unit, job.unit)
                && comes_first(graph, job.unit, behind.unit)
            {
                self.doomed.insert(id, job.unit);
            }
        }
    }
}

/// `early-end`: a start or a reload that has failed is over when the unit is down, so that nothing of it
/// runs beside what is ordered after it; systemd 252 ends these jobs then.
fn ends_too_early(core: &Core, job: &Known, kind: JobKind, result: JobResult) -> Option<String> {
    let is_early = job.begun && job.is_going && result == JobResult::Failed;
    (is_early && !kind.is_stopping()).then(|| {
        let unit = core.graph().name(job.unit);
        format!("early-end: the {} of {unit} has failed while it stops", kind.as_str())
    })
}

/// Whether `unit` is not to be started if `other` fails to (systemd.unit(5)).
fn needs(graph: &Graph, unit: UnitId, other: UnitId) -> bool {
    let ties = [Relation::Requires, Relation::BindsTo, Relation::Requisite, Relation::MountsFor];
    ties.iter().any(|&tie| graph.is_related(unit, tie, other))
}

/// `After=`, `Before=` of the other one, or `RequiresMountsFor=`, which orders like `After=`.
fn comes_first(graph: &Graph, first: UnitId, second: UnitId) -> bool {
    let ties = [Relation::After, Relation::MountsFor];
    ties.iter().any(|&tie| graph.is_related(second, tie, first))
}

/// Whether the job of a unit waits for that of another one: starts in order, stops in reverse order, a
/// stop before a start whichever the order is (systemd.unit(5), `Before=`). A restart is a stop until
/// the unit is down. Stops that are ordered both ways are not ordered. What a unit names in
/// `RequireAny=` and `OptionalAll=` comes before it where one of the two stops.
fn waits(graph: &Graph, one: (UnitId, JobKind), other: (UnitId, JobKind)) -> bool {
    let ((unit, kind), (other, other_kind)) = (one, other);
    if kind == JobKind::Nop || other_kind == JobKind::Nop {
        return false;
    }
    let goes = |kind| matches!(kind, JobKind::Stop | JobKind::Restart);
    let groups = [Relation::RequireAny, Relation::OptionalAll];
    let first = |first, second| {
        let in_group = groups.iter().any(|&group| graph.is_related(second, group, first));
        comes_first(graph, first, second) || in_group && (goes(kind) || goes(other_kind))
    };
    let (after, before) = (first(other, unit), first(unit, other));
    match (goes(kind), goes(other_kind)) {
        (false, false) => after,
        (false, true) => after || before,
        (true, false) => false,
        (true, true) => before && !after,
    }
}
