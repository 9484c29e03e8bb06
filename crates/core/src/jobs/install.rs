//! From the anchor to installed jobs: the plan is made by [`transaction::build`].

use crate::features::remarks;
use crate::graph::{Graph, STOPPED_WITH};
use crate::machine::Core;
use crate::model::active_state::ActiveState;
use crate::model::ids::{JobId, UnitId};
use crate::model::job::{Ignores, Job, JobKind, JobMode, JobResult, JobType};
use crate::model::part::Part;
use crate::model::reason::{Cause, Code, Reason};
use crate::parts::unit_settings;
use crate::protocol::request::{Notice, Refusal, Reply};
use crate::protocol::trace_event::What;
use crate::transaction::{Anchor, Circle, LeftOut, Plan, Planned};
use crate::{state_change, transaction};
use warren_unit::LoadState;

impl Core {
    /// Builds and installs the transaction for `anchor`. Once the end has begun nothing comes up
    /// any more, whoever or whatever asks for it.
    pub(crate) fn enqueue(&mut self, anchor: Anchor, cause: Cause) -> Result<Reply, Refusal> {
        let cancels = anchor.mode == JobMode::Flush;
        if self.totals.stopping && (anchor.job_type != JobType::Stop || cancels) {
            return Err(Refusal::ShuttingDown);
        }
        // Whoever asks, also `OnFailureJobMode=`: it stops everything else.
        if anchor.mode == JobMode::Isolate && !self.graph.flags(anchor.unit).allow_isolate() {
            let refusal = Refusal::BadMode("Operation refused, unit may not be isolated.");
            return Err(self.note_refusal(anchor, cause, refusal));
        }
        let graph = self.graph.clone();
        match transaction::build(&graph, self, anchor) {
            Ok(plan) => Ok(self.install(plan, anchor, cause)),
            Err(refusal) => Err(self.note_refusal(anchor, cause, refusal)),
        }
    }

    /// Who asks later why the unit is down is told that its start was refused, when and why. Its
    /// reason becomes that of the refusal, unless the unit has failed or its own file says enough.
    pub(crate) fn note_refusal(
        &mut self,
        anchor: Anchor,
        cause: Cause,
        refusal: Refusal,
    ) -> Refusal {
        let unit = anchor.unit;
        let state = self.units.active_state(unit);
        let starts = matches!(anchor.job_type.collapse(state), JobKind::Start | JobKind::Restart);
        // Names of nothing are asked for in any number.
        let is_there = self.graph.get(unit).is_some_and(|d| d.load_state != LoadState::NotFound);
        if !starts || !is_there {
            return refusal;
        }
        let text = refusal.to_string();
        self.units.history_mut(unit).refusal = Some(Box::new(remarks::remark(self, cause, &text)));
        let other = refusal.unit().and_then(|name| self.graph.lookup(name));
        let reason = match other {
            Some(other) if other != unit => Reason::new(Code::LeftOut, Cause::Dependency(other)),
            _ => Reason::new(refusal.code(), cause),
        };
        if state != ActiveState::Inactive || !reason.code.is_refusal() {
            return refusal;
        }
        let had = std::mem::replace(&mut self.units.history_mut(unit).reason, reason);
        if had.code != reason.code {
            self.outbox.tell(Notice::Log { unit, reason, detail: text });
        }
        refusal
    }

    /// The same, for jobs that nobody waits for: a refusal is only logged.
    pub(crate) fn enqueue_quietly(
        &mut self,
        unit: UnitId,
        job_type: JobType,
        mode: JobMode,
        cause: Cause,
    ) -> bool {
        match self.enqueue(Anchor { unit, job_type, mode }, cause) {
            Ok(_) => true,
            Err(refusal) => {
                let history = self.units.run(unit).history.as_ref();
                let told = history.is_some_and(|h| h.reason.code.is_refusal());
                if !told {
                    let reason = Reason::new(refusal.code(), cause);
                    self.outbox.tell(Notice::Log { unit, reason, detail: refusal.to_string() });
                }
                false
            }
        }
    }

    /// The same with a reason of its own, which the job has from then on.
    pub(crate) fn enqueue_because(
        &mut self,
        unit: UnitId,
        job_type: JobType,
        mode: JobMode,
        reason: Reason,
    ) -> bool {
        let is_asked_for = self.enqueue_quietly(unit, job_type, mode, reason.cause);
        if is_asked_for && let Some(job) = self.units.run_mut(unit).job.as_mut() {
            job.reason = reason;
        }
        is_asked_for
    }

    fn install(&mut self, plan: Plan, anchor: Anchor, cause: Cause) -> Reply {
        let mut out_of_turn = Vec::new();
        for circle in plan.circles {
            let Circle { units, at, is_kept } = circle;
            match is_kept {
                true => out_of_turn.push(at),
                false => self.note_circle(at, &units, cause),
            }
            self.outbox.tell(Notice::CycleBroken { units, at, is_kept });
        }
        plan.left_out.into_iter().for_each(|left_out| self.note_left_out(left_out));
        for unit in plan.cancelled {
            self.finish_job(unit, JobResult::Canceled, Reason::new(Code::Canceled, cause));
        }
        let mut made = Vec::with_capacity(plan.jobs.len());
        for planned in &plan.jobs {
            let reason = reason_of(&self.graph, planned, anchor, cause);
            let (unit, job) = (planned.unit, self.install_one(planned, anchor.mode, reason));
            let installed =
                self.units.run(unit).job.as_ref().filter(|installed| installed.id == job);
            made.push((job, unit, installed.map_or(planned.kind, |installed| installed.kind)));
        }
        out_of_turn.into_iter().for_each(|unit| self.let_out_of_turn(unit));
        let (job, unit, kind) = made.remove(0);
        Reply::Job { job, unit, kind, affected: made }
    }

    /// A unit that was wanted stays down, as its start would wait for itself: it tells the circle, which
    /// the log is told, too.
    pub(super) fn note_circle(&mut self, unit: UnitId, circle: &[UnitId], cause: Cause) {
        if self.units.active_state(unit) != ActiveState::Inactive
            || self.units.run(unit).job.is_some()
        {
            return;
        }
        let names = circle.iter().map(|&unit| self.graph.name(unit).clone()).collect();
        let refusal = Box::new(remarks::remark(self, cause, &Refusal::Cycle(names).to_string()));
        let history = self.units.history_mut(unit);
        history.reason = Reason::new(Code::Circle, cause);
        history.refusal = Some(refusal);
    }

    /// A unit that was wanted stays down because of another: it and the log tell why.
    fn note_left_out(&mut self, left_out: LeftOut) {
        let LeftOut { unit, for_want_of, refusal } = left_out;
        let cause = Cause::Dependency(for_want_of);
        if self.units.active_state(unit).is_down() {
            state_change::note(self, unit, Code::LeftOut, cause, refusal.to_string());
        }
    }

    /// Installs one job, merged with or in place of the one that is there.
    fn install_one(&mut self, planned: &Planned, mode: JobMode, reason: Reason) -> JobId {
        let (unit, kind) = (planned.unit, planned.kind);
        let was_refused =
            self.units.run(unit).history.as_ref().is_some_and(|h| h.refusal.is_some());
        if was_refused && matches!(kind, JobKind::Start | JobKind::Restart) {
            self.units.history_mut(unit).refusal = None;
        }
        if let Some(old) = self.units.run(unit).job.clone() {
            if kind == JobKind::Nop {
                return self.pass(unit);
            }
            let up = self.units.active_state(unit).is_up_or_coming();
            let merged = kind.merge(old.kind, up);
            let starts = |kind| matches!(kind, JobKind::Start | JobKind::VerifyActive);
            if merged == Some(JobKind::Reload) && (starts(kind) || starts(old.kind)) {
                self.jobs.starting_reloads.insert(old.id);
            }
            match merged {
                // What a reload that is under way has read may have changed since.
                Some(merged) if merged == old.kind && !(old.running && kind == JobKind::Reload) => {
                    return self.strengthen(unit, mode);
                }
                Some(merged) => {
                    self.turn_into(unit, merged, reason);
                    return self.strengthen(unit, mode);
                }
                // It was to end with a unit of `RestartOn=`, and to come back: now it is restarted.
                None if is_owed_to_rule(&old) && kind == JobKind::Start => {
                    self.turn_into(unit, JobKind::Restart, old.reason);
                    return self.strengthen(unit, mode);
                }
                None => {}
            }
            self.finish_job(unit, JobResult::Canceled, Reason::new(Code::Canceled, reason.cause));
        }
        self.install_new(unit, kind, mode, reason)
    }

    /// A job that has nothing to do beside the one that is there: whoever asked for it does not wait for that.
    /// It is over when he has heard of it.
    fn pass(&mut self, unit: UnitId) -> JobId {
        let job = self.ids.new_job();
        self.totals.jobs_ever = self.totals.jobs_ever.wrapping_add(1);
        self.outbox.tell(Notice::JobNew { job, unit });
        self.queues.passing.push((job, unit));
        job
    }

    /// The job is to do what another one asks for, too: whoever waits for it waits for both. If it is
    /// under way it is begun anew, in its turn, which a recording has as another.
    fn turn_into(&mut self, unit: UnitId, kind: JobKind, reason: Reason) {
        self.drop_check(unit);
        let (timeout, now) = (self.job_timeout(unit), self.times.now.monotonic);
        let old = self.units.run(unit).job.as_deref().filter(|job| job.running);
        let old = old.map(|job| (job.id, job.kind));
        let was_running = old.is_some();
        self.jobs.running -= u32::from(was_running);
        if let Some((job, was)) = old {
            let (result, ended) = (JobResult::Canceled, Reason::new(Code::Canceled, reason.cause));
            self.outbox.happened(
                self.times.now.monotonic,
                unit,
                What::JobEnded { job, kind: was, result, reason: ended },
            );
            self.outbox.happened(
                self.times.now.monotonic,
                unit,
                What::JobQueued { job, kind, reason },
            );
        }
        let is_down = self.units.active_state(unit).is_down();
        self.change_job(unit, |job| {
            job.kind = kind;
            if std::mem::take(&mut job.running) {
                (job.reason, job.released_by) = (reason, None);
                // What its unit left for it when it went down stays for it.
                job.since = if is_down { job.since } else { now };
                job.deadline = timeout.map(|timeout| now.after(timeout));
            }
        });
        // It had its turn before those that wait for it now.
        if was_running && self.waits_for_itself(unit) {
            self.change_job(unit, |job| _ = job.ignores.add(Ignores::ORDER));
        }
        // Nor was it planned with those that come to wait for it when their restarts are halfway.
        self.jobs.circles_possible |= was_running;
        self.queues.queue_job(&self.units, unit);
        // Who waited for what it was to do may wait for nothing now.
        self.look_at_group_waiters(unit);
    }

    /// `JobTimeoutSec=`
    fn job_timeout(&mut self, unit: UnitId) -> Option<std::time::Duration> {
        let has_settings = self.graph.flags(unit).has_job_settings();
        has_settings.then(|| unit_settings::compiled(self, unit).section.job_timeout).flatten()
    }

    pub(crate) fn strengthen(&mut self, unit: UnitId, mode: JobMode) -> JobId {
        let job = self.units.run_mut(unit).job.as_mut().expect("the caller saw it");
        job.irreversible |= mode == JobMode::ReplaceIrreversibly;
        let id = job.id;
        let mut ignores = job.ignores;
        if ignores.add(Ignores::of(mode)) {
            self.change_job(unit, |job| job.ignores = ignores);
            self.queues.queue_job(&self.units, unit);
        }
        id
    }

    pub(crate) fn install_new(
        &mut self,
        unit: UnitId,
        kind: JobKind,
        mode: JobMode,
        reason: Reason,
    ) -> JobId {
        let id = self.ids.new_job();
        let timeout = self.job_timeout(unit);
        let now = self.times.now.monotonic;
        let job = Job {
            id,
            unit,
            kind,
            running: false,
            irreversible: mode == JobMode::ReplaceIrreversibly,
            ignores: Ignores::of(mode),
            blockers: 0,
            released_by: None,
            since: now,
            deadline: timeout.map(|timeout| now.after(timeout)),
            reason,
        };
        self.units.run_mut(unit).job = Some(Part::new(job));
        self.link_job(unit);
        self.totals.jobs += 1;
        self.totals.jobs_ever = self.totals.jobs_ever.wrapping_add(1);
        self.outbox.tell(Notice::JobNew { job: id, unit });
        self.outbox.happened(
            self.times.now.monotonic,
            unit,
            What::JobQueued { job: id, kind, reason },
        );
        self.queues.queue_job(&self.units, unit);
        id
    }
}

/// Whether a job is a stop by `RestartOn=` whose turn has not come.
fn is_owed_to_rule(job: &Job) -> bool {
    job.kind == JobKind::Stop && !job.running && job.reason.code == Code::DependencyEnded
}

fn reason_of(graph: &Graph, planned: &Planned, anchor: Anchor, cause: Cause) -> Reason {
    if planned.unit == anchor.unit {
        return Reason::new(code_of_anchor(planned.kind, cause), cause);
    }
    let by_rule = |puller: UnitId| {
        let mut rules = STOPPED_WITH.iter();
        rules.any(|&rule| graph.is_related(puller, rule, planned.unit))
    };
    let code = match (planned.kind, planned.by_conflict, planned.pulled_by) {
        (JobKind::Stop, true, _) => Code::StoppedByConflict,
        (JobKind::Stop, false, Some(puller)) if by_rule(puller) => Code::DependencyEnded,
        (JobKind::Stop, false, None) => Code::Isolated,
        (JobKind::Stop, false, Some(_)) => Code::StoppedWithDependency,
        _ => Code::Started,
    };
    let puller = planned.pulled_by.unwrap_or(anchor.unit);
    Reason::new(code, Cause::Dependency(puller))
}

/// What is asked for is a start or a stop, unless the cause says more.
fn code_of_anchor(kind: JobKind, cause: Cause) -> Code {
    match (kind, cause) {
        // An automount point asks for it when nobody has used the mount for a while.
        (JobKind::Stop, Cause::Trigger(_)) => Code::Expired,
        (JobKind::Stop, _) => Code::Stopped,
        (_, Cause::Trigger(_)) => Code::Triggered,
        (_, Cause::Restart) => Code::Restarted,
        _ => Code::Started,
    }
}
