//! Who waits for whom.
//!
//! A job waits while `blockers` > 0: the number of installed jobs of units that it is ordered
//! against and that must go first ([`crate::model::job::must_wait`]). The number is kept up to date at
//! every change of a job, so that finding the next job looks at nobody who waits.

use crate::graph::Graph;
use crate::machine::Core;
use crate::model::ids::UnitId;
use crate::model::job::{Ignores, Job, JobKind, JobResult};
use crate::model::part::Part;
use crate::model::reason::{Cause, Code, Reason};
use crate::protocol::request::Notice;
use std::collections::{BTreeMap, BTreeSet};

impl Core {
    /// Distinct units with a job that are ordered against `unit`; two units can be ordered both
    /// ways.
    fn job_neighbours(&self, unit: UnitId) -> Vec<UnitId> {
        let has_job = |&other: &UnitId| self.units.run(other).job.is_some();
        let mut others: Vec<UnitId> = self.graph.ordered_with(unit).filter(has_job).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Adds (or takes away) what the job of `unit` means to the waiting of its neighbours and of
    /// itself.
    fn weigh_job(&mut self, unit: UnitId, add: bool) {
        let Some(job) = self.units.run(unit).job.as_ref() else { return };
        let (kind, ignores) = (job.kind, job.ignores_order());
        let mut own = 0;
        for other in self.job_neighbours(unit) {
            let other_job = self.units.run(other).job.as_ref().expect("neighbours have jobs");
            let (other_kind, other_ignores) = (other_job.kind, other_job.ignores_order());
            own += u32::from(!ignores && self.graph.waits(unit, kind, other, other_kind));
            if !other_ignores && self.graph.waits(other, other_kind, unit, kind) {
                let job = self.units.run_mut(other).job.as_mut().expect("neighbours have jobs");
                job.blockers = if add { job.blockers + 1 } else { job.blockers.saturating_sub(1) };
                job.released_by = (job.blockers == 0).then_some(unit);
                if job.blockers == 0 {
                    self.queues.queue_job(&self.units, other);
                }
            }
        }
        self.units.run_mut(unit).job.as_mut().expect("looked at above").blockers =
            if add { own } else { 0 };
    }

    pub(super) fn link_job(&mut self, unit: UnitId) {
        self.weigh_job(unit, true);
    }

    pub(super) fn unlink_job(&mut self, unit: UnitId) {
        self.weigh_job(unit, false);
    }

    pub(super) fn change_job(&mut self, unit: UnitId, change: impl FnOnce(&mut Job)) {
        self.unlink_job(unit);
        if let Some(job) = self.units.run_mut(unit).job.as_mut() {
            change(job);
        }
        self.link_job(unit);
    }

    /// What a job may have waited for that is no other job has come about by a change of `by`: if nothing
    /// else holds the job it is looked at. A change of its own unit is not what let go a job whose turn
    /// was to come anyhow.
    pub(crate) fn release(&mut self, unit: UnitId, by: UnitId) {
        if by == unit && self.queues.turns.contains(unit) {
            return;
        }
        let job = self.units.run(unit).job.as_ref();
        if job.is_some_and(|job| !job.running && job.blockers == 0 && job.released_by != Some(by)) {
            self.units.run_mut(unit).job.as_mut().expect("looked at above").released_by = Some(by);
        }
        self.queues.queue_job(&self.units, unit);
    }

    /// How many jobs the job of `unit` waits for, counted afresh.
    pub(crate) fn count_blockers(&self, unit: UnitId) -> u32 {
        self.count_waits(unit, Graph::waits)
    }

    fn count_waits(
        &self,
        unit: UnitId,
        waits: fn(&Graph, UnitId, JobKind, UnitId, JobKind) -> bool,
    ) -> u32 {
        let Some(job) = self.units.run(unit).job.as_ref().filter(|job| !job.ignores_order()) else {
            return 0;
        };
        let is_waited_for = |&&other: &&UnitId| {
            let other_kind = self.units.run(other).job.as_ref().map(|job| job.kind);
            other_kind.is_some_and(|kind| waits(&self.graph, unit, job.kind, other, kind))
        };
        self.job_neighbours(unit).iter().filter(is_waited_for).count() as u32
    }

    /// The jobs of these units, whose relations differ from now on, may wait for others than before. No
    /// other job does, so that one more unit costs nothing where thousands are being started.
    pub(crate) fn look_at_rewired_jobs(&mut self, rewired: &[UnitId]) {
        self.jobs.circles_possible |= self.totals.jobs > 0 && !rewired.is_empty();
        let has_job = |unit: &UnitId| self.units.run(*unit).job.is_some();
        let units: Vec<UnitId> = rewired.iter().copied().filter(has_job).collect();
        if units.is_empty() {
            return;
        }
        self.recount_blockers(&units);
        self.break_circles();
        self.look_at_group_waiters_among(&units);
    }

    /// Counts the blockers of these units' jobs again, after a change of the graph.
    pub(crate) fn recount_blockers(&mut self, units: &[UnitId]) {
        for &unit in units {
            let blockers = self.count_blockers(unit);
            if let Some(job) = &self.units.run(unit).job
                && job.blockers != blockers
            {
                self.units.run_mut(unit).job.as_mut().expect("seen").blockers = blockers;
                self.queues.queue_job(&self.units, unit);
            }
        }
    }

    /// Installed jobs that wait for each other, which only a change of the graph can bring about
    /// (at once, or when a restart has come to its second half): as [`crate::transaction`] does it, one of the circle
    /// is cancelled, or, of stops, does not wait. At the end of the manager all are done: nothing may stay up.
    pub(crate) fn break_circles(&mut self) {
        while let Some(units) = self.circle_of_jobs() {
            let last = |units: &mut dyn Iterator<Item = UnitId>| {
                units.max_by_key(|&unit| self.graph.name(unit))
            };
            let all = || units.iter().copied();
            let stop = last(&mut all().filter(|&unit| self.kind(unit) == JobKind::Stop));
            let at = stop.or_else(|| last(&mut all())).expect("a circle has a unit");
            let is_kept = stop.is_some() || self.totals.stopping;
            if is_kept {
                self.let_out_of_turn(at);
            } else {
                let reason = Reason::new(Code::Circle, Cause::Manager);
                self.finish_job(at, JobResult::Canceled, reason);
                self.note_circle(at, &units, Cause::Manager);
            }
            self.outbox.tell(Notice::CycleBroken { units, at, is_kept });
        }
    }

    /// The job waits for nobody from now on.
    pub(super) fn let_out_of_turn(&mut self, unit: UnitId) {
        self.change_job(unit, |job| _ = job.ignores.add(Ignores::ORDER));
        self.queues.queue_job(&self.units, unit);
    }

    /// Whether the job of `unit` waits, directly or through others, for itself: a circle that has come
    /// about by a change of this job goes through it. Looks at those that it waits for and no others.
    pub(super) fn waits_for_itself(&self, unit: UnitId) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![unit]);
        while let Some(one) = next.pop().filter(|_| !seen.contains(&unit)) {
            let kind = self.kind(one);
            if self.ignores_order(one) {
                continue;
            }
            for other in self.job_neighbours(one) {
                let job = self.units.run(other).job.as_ref().filter(|job| !job.running);
                let waits = |job: &Part<Job>| self.graph.may_wait(one, kind, other, job.kind);
                if job.is_some_and(waits) && seen.insert(other) {
                    next.push(other);
                }
            }
        }
        seen.contains(&unit)
    }

    /// The units of a circle of jobs, if there is one; each waits for the next, the last for the first. Whoever is left
    /// when those that wait for nobody, and then those that waited for them only, are taken away, waits for somebody who is
    /// left: so that from one to the next it goes into a circle. Of those that wait for nobody nothing need be looked
    /// at.
    fn circle_of_jobs(&self) -> Option<Vec<UnitId>> {
        let waits = |&unit: &UnitId| {
            let job = self.units.run(unit).job.as_ref().filter(|job| !job.running);
            job.is_some_and(|job| job.blockers > 0 || self.graph.flags(unit).has_groups())
        };
        let waiting: BTreeMap<UnitId, JobKind> = self
            .units
            .busy()
            .into_iter()
            .filter(waits)
            .map(|unit| (unit, self.kind(unit)))
            .collect();
        let neighbours = |unit: UnitId| {
            let others = self.job_neighbours(unit).into_iter();
            others.filter_map(|other| Some((other, *waiting.get(&other)?)))
        };
        let mut blockers = BTreeMap::new();
        let mut free = Vec::new();
        for (&unit, &kind) in &waiting {
            let is_waited_for = |&(other, other_kind): &(UnitId, JobKind)| {
                self.graph.may_wait(unit, kind, other, other_kind)
            };
            match self.ignores_order(unit) {
                true => free.push(unit),
                false => match neighbours(unit).filter(is_waited_for).count() {
                    0 => free.push(unit),
                    count => _ = blockers.insert(unit, count),
                },
            }
        }
        while let Some(unit) = free.pop() {
            let kind = self.kind(unit);
            for (other, waiting) in neighbours(unit) {
                let Some(count) = blockers.get_mut(&other) else { continue };
                *count -= usize::from(self.graph.may_wait(other, waiting, unit, kind));
                if *count == 0 {
                    blockers.remove(&other);
                    free.push(other);
                }
            }
        }
        let by_name = |unit: &UnitId| self.graph.name(*unit);
        let next = |unit: UnitId| {
            let kind = waiting[&unit];
            let others = neighbours(unit).filter(|(other, _)| blockers.contains_key(other));
            let others =
                others.filter(|&(other, waiting)| self.graph.may_wait(unit, kind, other, waiting));
            others.map(|(other, _)| other).min_by_key(by_name)
        };
        let mut path = vec![blockers.keys().copied().min_by_key(by_name)?];
        loop {
            let unit = next(*path.last().expect("it has a first"))?;
            match path.iter().position(|&one| one == unit) {
                Some(at) => return Some(path.split_off(at)),
                None => path.push(unit),
            }
        }
    }

    fn kind(&self, unit: UnitId) -> JobKind {
        self.units.run(unit).job.as_ref().map_or(JobKind::Nop, |job| job.kind)
    }

    fn ignores_order(&self, unit: UnitId) -> bool {
        self.units.run(unit).job.as_ref().is_some_and(|job| job.ignores_order())
    }
}
