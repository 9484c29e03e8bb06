//! How jobs end: with their unit's state, with a result, by their time.

use crate::features::{cleanup, connections};
use crate::machine::Core;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{Ignores, Job, JobKind, JobResult};
use crate::model::process::Outcome;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::{LostJob, Mount, Service, TypeState};
use crate::parts::unit_settings;
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;
use std::collections::BTreeSet;
use warren_unit::Relation;

impl Core {
    /// The unit's state changed: its running job may be over.
    pub(crate) fn job_after_change(&mut self, unit: UnitId, new: ActiveState) {
        let Some(job) = self.units.run(unit).job.as_ref() else { return };
        let (kind, reason) = (job.kind, job.reason);
        if !job.running {
            self.release(unit, unit);
            return;
        }
        let own_reason = self.units.run(unit).history.as_ref().map_or(reason, |h| h.reason);
        match kind {
            JobKind::Start | JobKind::VerifyActive => match new {
                s if s.is_up() => self.finish_job(unit, JobResult::Done, reason),
                // One that has failed is waited for until nothing of it runs any more.
                ActiveState::Activating | ActiveState::Deactivating => {}
                // It may come yet: the job's timeout says for how long it is waited for.
                ActiveState::Inactive if self.graph.is_device(unit) => {}
                ActiveState::Inactive if self.ended_well(unit) => {
                    self.finish_job(unit, JobResult::Done, reason);
                }
                _ => self.finish_job(unit, JobResult::Failed, own_reason),
            },
            // Its traces go first; that ends the job.
            JobKind::Stop if new.is_down() && cleanup::is_stop_held(self, unit) => {}
            JobKind::Stop if new.is_down() => self.finish_job(unit, JobResult::Done, reason),
            JobKind::Restart if new.is_down() => {
                self.turn_into_start(unit);
            }
            JobKind::Stop | JobKind::Restart if new.is_up_or_coming() => {
                self.finish_job(unit, JobResult::Failed, own_reason);
            }
            JobKind::Reload => match new {
                ActiveState::Active if self.reload_failed(unit) => {
                    let reason = Reason::new(Code::ReloadFailed, reason.cause);
                    self.finish_job(unit, JobResult::Failed, reason);
                }
                ActiveState::Active => self.finish_job(unit, JobResult::Done, reason),
                ActiveState::Reloading | ActiveState::Activating | ActiveState::Deactivating => {}
                _ => self.finish_job(unit, JobResult::Failed, own_reason),
            },
            _ => {}
        }
    }

    /// Whether a unit that is gone again has done what a start asks for: a oneshot that succeeded, or a
    /// start that a condition made unnecessary.
    pub(super) fn ended_well(&self, unit: UnitId) -> bool {
        let outcome = self.units.outcome(unit);
        matches!(outcome, Outcome::Success | Outcome::ExecCondition)
    }

    fn reload_failed(&self, unit: UnitId) -> bool {
        match &self.units.run(unit).state {
            TypeState::Service(Service::Up(run)) => run.reload_outcome != Outcome::Success,
            TypeState::Mount(Mount::Up(run)) => run.reload_outcome != Outcome::Success,
            _ => false,
        }
    }

    /// Takes a job away and tells everybody whom it concerns.
    pub(crate) fn finish_job(&mut self, unit: UnitId, result: JobResult, reason: Reason) {
        // `ExecCondition=` of a service, which has begun and is down again.
        let said_no = |core: &Core| {
            core.units.active_state(unit).is_down_or_going()
                && core.units.outcome(unit) == Outcome::ExecCondition
        };
        let is_start = |job: &Job| job.kind == JobKind::Start;
        let is_skipped = reason.code == Code::ConditionFailed
            || self.units.run(unit).job.as_deref().is_some_and(is_start) && said_no(self);
        self.end_job(unit, result, reason, !is_skipped);
    }

    /// The same, where it is known whether its unit did something for it.
    pub(super) fn end_job(
        &mut self,
        unit: UnitId,
        result: JobResult,
        reason: Reason,
        changed: bool,
    ) {
        let Some(job) = self.units.run(unit).job.clone() else { return };
        let asked = self.asked_of(unit, &job);
        self.jobs.starting_reloads.remove(&job.id);
        self.unlink_job(unit);
        self.units.run_mut(unit).job = None;
        self.totals.jobs -= 1;
        self.jobs.running -= u32::from(job.running);
        self.drop_check(unit);
        self.remember_job(unit, job.kind, result, reason);
        // What timed out, or failed for another, does not count, as systemd 252 has it.
        if result == JobResult::Failed {
            self.totals.failed_jobs_ever = self.totals.failed_jobs_ever.wrapping_add(1);
        }
        if result.is_failure() {
            let detail = format!("{} job: {}", job.kind.as_str(), result.as_str());
            self.outbox.tell(Notice::Log { unit, reason, detail });
        }
        self.outbox.tell(Notice::JobRemoved { job: job.id, unit, kind: job.kind, result, changed });
        self.outbox.happened(
            self.times.now.monotonic,
            unit,
            What::JobEnded { job: job.id, kind: job.kind, result, reason },
        );
        if result == JobResult::Timeout || result.is_failure() {
            self.note_never_begun(unit, asked, reason);
        }
        if result.is_failure() && result != JobResult::Canceled {
            self.fail_dependents(unit, asked);
        }
        // Its state does not tell of it: it was not tried, or not waited for.
        let untold = matches!(result, JobResult::Dependency | JobResult::Timeout);
        if untold && asked == JobKind::Start {
            self.start_by_outcome(unit, Relation::OnFailure, false);
        }
        match (job.kind, result) {
            // It would fail again at once: what is bound to something gone is stopped later.
            (JobKind::Stop, JobResult::Failed | JobResult::Timeout) => {
                self.deadlines.try_later(&mut self.units, unit, self.times.now.monotonic)
            }
            _ => {
                self.queues.bound.insert(unit);
            }
        }
        if self.units.active_state(unit).is_down() {
            cleanup::clear_what_was_kept(self, unit, &job);
            self.settings.forget(unit);
            connections::connection_ended(self, unit);
            // It was never up, or is not any more: what came up for it or is bound to it may go.
            self.queues.queue_what_may_go(&self.graph, unit);
        }
        // Nor is it, if its job was to have it come up again when it is down.
        if self.units.active_state(unit).is_down_or_going() {
            self.queues.bound.extend(self.graph.related(unit, Relation::BoundBy));
        }
        self.look_at_group_waiters(unit);
        self.queues.job_ends.insert(unit, self.times.now);
        self.queues.unneeded.insert(unit);
        self.queues.try_again();
    }

    /// What a later question after a job that came to nothing is answered with.
    fn remember_job(&mut self, unit: UnitId, kind: JobKind, result: JobResult, reason: Reason) {
        // A look at whether it is up (Requisite=) is no job that it was to have.
        if kind == JobKind::VerifyActive {
            return;
        }
        let at = self.times.now;
        let lost = (result != JobResult::Done).then_some(LostJob { kind, result, reason, at });
        let had = self.units.run(unit).history.as_ref().and_then(|h| h.lost_job);
        // The stop that took the place of a start does not make one forget who asked for it.
        let stays = had.is_some_and(|had| kind == JobKind::Stop && had.kind == JobKind::Start);
        if lost.is_some() || had.is_some() && !stays {
            self.units.history_mut(unit).lost_job = lost;
        }
    }

    /// A check of conditions serves the start job that asked for it and ends with it.
    pub(super) fn drop_check(&mut self, unit: UnitId) {
        if self.units.run(unit).history.as_ref().is_some_and(|h| h.checking.is_some())
            && let Some(id) = self.units.history_mut(unit).checking.take()
        {
            self.outbox.forget_effect(id);
        }
    }

    /// A start that failed before the unit was told leaves its reason on the unit.
    fn note_never_begun(&mut self, unit: UnitId, asked: JobKind, reason: Reason) {
        if asked == JobKind::Start
            && self.units.active_state(unit).is_down()
            && reason.code.is_trouble()
            && !(reason.code == Code::Excluded && self.gave_way(unit))
        {
            self.units.history_mut(unit).reason = reason;
        }
    }

    /// What a job was to bring about: a reload that has not begun, of a unit that is not up, had a start
    /// merged into it (see [`JobKind::merge`]), and of a unit that is down a restart is a start.
    pub(crate) fn asked_of(&self, unit: UnitId, job: &Job) -> JobKind {
        match job.kind {
            JobKind::Restart if !job.running && self.units.active_state(unit).is_down() => {
                JobKind::Start
            }
            JobKind::Reload
                if !job.running
                    && !self.units.active_state(unit).is_up()
                    && self.jobs.has_a_start(&self.units, unit) =>
            {
                JobKind::Start
            }
            kind => kind,
        }
    }

    /// Jobs that cannot be without the one that failed fail with it.
    pub(crate) fn fail_dependents(&mut self, unit: UnitId, kind: JobKind) {
        let relations: &[Relation] = match kind {
            JobKind::Start | JobKind::VerifyActive => &[
                Relation::RequiredBy,
                Relation::RequisiteOf,
                Relation::BoundBy,
                Relation::MountsForOf,
            ],
            JobKind::Stop => &[Relation::ConflictedBy],
            _ => return,
        };
        let graph = self.graph.clone();
        let by_start = matches!(kind, JobKind::Start | JobKind::VerifyActive);
        let dependents: BTreeSet<UnitId> =
            relations.iter().flat_map(|&r| graph.related(unit, r)).collect();
        for other in dependents {
            let fails =
                self.units.run(other).job.as_ref().filter(|job| !job.running).is_some_and(|job| {
                    match job.kind {
                        JobKind::Start | JobKind::VerifyActive => true,
                        JobKind::Restart => by_start && self.asked_of(other, job) == JobKind::Start,
                        _ => false,
                    }
                });
            if fails {
                let reason = Reason::new(Code::DependencyFailed, Cause::Dependency(unit));
                self.finish_job(other, JobResult::Dependency, reason);
            }
        }
    }

    pub(crate) fn job_deadline(&mut self, unit: UnitId) {
        let now = self.times.now.monotonic;
        let due = |job: &Job| job.deadline.is_some_and(|at| at <= now);
        if !self.units.run(unit).job.as_ref().is_some_and(|job| due(job)) {
            return;
        }
        if self.totals.stopping {
            return self.stop_out_of_turn(unit);
        }
        let section = unit_settings::compiled(self, unit).section.clone();
        let code = match self.graph.is_device(unit) {
            true => Code::DeviceMissing,
            false => Code::JobTimeout,
        };
        let cause = self.waited_for(unit).map_or(Cause::None, Cause::Dependency);
        self.finish_job(unit, JobResult::Timeout, Reason::new(code, cause));
        self.outbox.emergency(
            section.job_timeout_action,
            unit,
            None,
            &section.job_timeout_reboot_argument,
        );
    }

    /// The first unit whose job this one's job waits for.
    fn waited_for(&self, unit: UnitId) -> Option<UnitId> {
        let kind = self.units.run(unit).job.as_ref().filter(|job| job.blockers > 0)?.kind;
        self.graph.ordered_with(unit).find(|&other| {
            let job = self.units.run(other).job.as_ref();
            job.is_some_and(|job| self.graph.may_wait(unit, kind, other, job.kind))
        })
    }

    /// At the end of the manager a stop job is not given up: it waits for others no longer, and the
    /// stop itself has bounds of its own.
    fn stop_out_of_turn(&mut self, unit: UnitId) {
        self.change_job(unit, |job| {
            job.ignores.add(Ignores::ORDER);
            job.deadline = None;
        });
        self.queues.queue_job(&self.units, unit);
    }
}
