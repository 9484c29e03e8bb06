//! Jobs at work: installing a plan, finding out whose turn it is, running, finishing.
//!
//! A job waits while `blockers` > 0: the number of installed jobs of units that it is ordered
//! against and that must go first ([`must_wait`]). The number is kept up to date at every change of
//! a job, so that finding the next job looks at nobody who waits.

use crate::event::{Effect, FollowUp, KillTarget};
use crate::graph::Graph;
use crate::groups::STOPPED_WITH;
use crate::happening::What;
use crate::ids::{ClientId, JobId, UnitId};
use crate::job::{Job, JobKind, JobMode, JobResult, JobType};
use crate::machine::Core;
use crate::reason::{Cause, Code, Reason};
use crate::request::{Asker, KillWhom, Notice, Refusal, Reply, Request};
use crate::state::*;
use crate::transaction::{self, Anchor, LeftOut, Plan, Planned, World};
use std::collections::{BTreeMap, BTreeSet};
use warren_unit::config::EmergencyAction;
use warren_unit::{LoadState, Relation};

impl World for Core {
    fn active_state(&self, unit: UnitId) -> ActiveState {
        Core::active_state(self, unit)
    }

    fn installed(&self, unit: UnitId) -> Option<(JobKind, bool)> {
        self.run(unit).job.as_ref().map(|job| (job.kind, job.irreversible))
    }

    fn has_begun(&self, unit: UnitId) -> bool {
        self.run(unit).job.as_ref().is_some_and(|job| job.running)
    }

    fn busy_units(&self) -> Vec<UnitId> {
        self.busy()
    }

    fn can_reload(&self, unit: UnitId) -> bool {
        self.flags(unit).can_reload()
    }

    fn is_unseen(&self, unit: UnitId) -> bool {
        Core::is_unseen(self, unit)
    }

    fn is_put_aside(&self, unit: UnitId) -> bool {
        Core::is_put_aside(self, unit)
    }

    fn does_without(&self, unit: UnitId, other: UnitId) -> bool {
        Core::does_without(self, unit, other)
    }
}

impl Core {
    // ---- requests ----

    pub(crate) fn request(&mut self, client: ClientId, asker: Asker, request: Request) {
        let reply = self.serve(asker, request).unwrap_or_else(Reply::Refused);
        self.out.push(Effect::Reply { client, reply });
    }

    fn serve(&mut self, asker: Asker, request: Request) -> Result<Reply, Refusal> {
        let cause = match asker.pid {
            // Every client's process is known; what has none is the manager's own wish.
            0 => Cause::Manager,
            pid => Cause::Request { uid: asker.uid, pid },
        };
        match request {
            Request::Enqueue { unit, job_type, mode, reload_if_possible } => {
                self.check_manual(unit, job_type, mode)?;
                let job_type = self.reload_or_restart(unit, job_type, reload_if_possible);
                self.enqueue(Anchor { unit, job_type, mode }, cause)
            }
            Request::CancelJob(_) | Request::ClearJobs if self.totals.stopping => {
                Err(Refusal::ShuttingDown)
            }
            Request::CancelJob(id) => {
                let unit = self.job_unit(id).ok_or(Refusal::NoSuchJob(id))?;
                let reason = Reason::new(Code::CanceledByUser, cause);
                self.finish_job(unit, JobResult::Canceled, reason);
                Ok(Reply::Done)
            }
            Request::ClearJobs => {
                for unit in self.busy() {
                    let reason = Reason::new(Code::CanceledByUser, cause);
                    self.finish_job(unit, JobResult::Canceled, reason);
                }
                Ok(Reply::Done)
            }
            Request::ResetFailed(Some(unit)) if self.is_put_aside(unit) => {
                Err(Refusal::Maintenance(self.graph.name(unit).clone()))
            }
            Request::ResetFailed(unit) => {
                let all = || (0..self.units.len()).map(|i| UnitId(i as u32)).collect();
                let mut units: Vec<UnitId> = unit.map_or_else(all, |unit| vec![unit]);
                units.retain(|&unit| !self.is_put_aside(unit));
                units.into_iter().for_each(|unit| self.reset_failed(unit));
                Ok(Reply::Done)
            }
            Request::Mark { unit, marked, text } => self.mark(unit, marked, &text, cause),
            Request::Clear(unit) => self.clear(unit),
            Request::Comment { unit, text } => self.comment(unit, &text, cause),
            Request::Hurry(unit) => self.hurry(unit, cause),
            Request::Kill { unit, whom, signal } => self.kill_request(unit, whom, signal),
        }
    }

    fn job_unit(&self, id: JobId) -> Option<UnitId> {
        self.busy().into_iter().find(|&unit| self.run(unit).job_id() == Some(id))
    }

    /// `RefuseManualStart=`, `RefuseManualStop=`, `AllowIsolate=` (systemd.unit(5)).
    fn check_manual(&self, unit: UnitId, job: JobType, mode: JobMode) -> Result<(), Refusal> {
        let (flags, name) = (self.flags(unit), || self.graph.name(unit).clone());
        let starts = matches!(job, JobType::Start | JobType::ReloadOrStart | JobType::Restart);
        let stops = matches!(job, JobType::Stop | JobType::Restart | JobType::TryRestart);
        if mode == JobMode::Isolate && job != JobType::Start {
            return Err(Refusal::BadMode("Isolate is only valid for start."));
        }
        if mode == JobMode::Triggering && job != JobType::Stop {
            return Err(Refusal::BadMode("--job-mode=triggering is only valid for stop."));
        }
        if mode == JobMode::Isolate && !flags.allow_isolate() {
            return Err(Refusal::BadMode("Operation refused, unit may not be isolated."));
        }
        if starts && flags.refuse_manual_start() {
            return Err(Refusal::OnlyByDependency(name(), "start"));
        }
        if stops && flags.refuse_manual_stop() {
            return Err(Refusal::OnlyByDependency(name(), "stop"));
        }
        Ok(())
    }

    /// `reload-or-restart`: a reload where the unit can, else the restart that was asked for.
    fn reload_or_restart(&self, unit: UnitId, job_type: JobType, wanted: bool) -> JobType {
        if !wanted || !self.flags(unit).can_reload() {
            return job_type;
        }
        match job_type {
            JobType::Restart => JobType::ReloadOrStart,
            JobType::TryRestart => JobType::TryReload,
            other => other,
        }
    }

    fn kill_request(
        &mut self,
        unit: UnitId,
        whom: KillWhom,
        signal: i32,
    ) -> Result<Reply, Refusal> {
        if !(1..=64).contains(&signal) {
            return Err(Refusal::BadSignal(signal));
        }
        let name = || Refusal::NoSuchProcess(self.graph.name(unit).clone());
        let run = self.run(unit);
        let target = match whom {
            KillWhom::Main => KillTarget::Process(run.main_process().ok_or_else(name)?.pid),
            KillWhom::Control => KillTarget::Process(run.control_pid().ok_or_else(name)?),
            KillWhom::All if run.active_state().is_down() => return Err(name()),
            KillWhom::All => KillTarget::Group,
        };
        let id = self.new_effect(unit);
        self.forget_effect(id);
        let then = FollowUp::default();
        self.out.push(Effect::Kill { id, unit, target, signal, then });
        Ok(Reply::Done)
    }

    pub(crate) fn reset_failed(&mut self, unit: UnitId) {
        if self.run(unit).history.is_none() {
            return;
        }
        self.transit(unit, false, |run| match &mut run.state {
            TypeState::Service(s @ Service::Failed(_)) => *s = Service::Dead,
            TypeState::Socket(s @ Socket::Failed(_)) => *s = Socket::Dead,
            TypeState::Mount(s @ Mount::Failed(_)) | TypeState::Swap(s @ Mount::Failed(_)) => {
                *s = Mount::Dead;
            }
            TypeState::Automount(s @ Automount::Failed(_)) => *s = Automount::Dead,
            _ => {}
        });
        let history = self.history_mut(unit);
        history.starts = RateWindow::default();
        history.restarts = 0;
        history.outcome = Outcome::Success;
    }

    // ---- from anchor to installed jobs ----

    /// Builds and installs the transaction for `anchor`. Once the end has begun nothing comes up
    /// any more, whoever or whatever asks for it.
    pub(crate) fn enqueue(&mut self, anchor: Anchor, cause: Cause) -> Result<Reply, Refusal> {
        let cancels = anchor.mode == JobMode::Flush;
        if self.totals.stopping && (anchor.job_type != JobType::Stop || cancels) {
            return Err(Refusal::ShuttingDown);
        }
        let graph = self.graph.clone();
        let plan = transaction::build(&graph, self, anchor)?;
        Ok(self.install(plan, anchor, cause))
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
                let history = self.run(unit).history.as_ref();
                let told = history.is_some_and(|h| h.reason.code == Code::LeftOut);
                if !told {
                    let reason = Reason::new(refusal.code(), cause);
                    self.tell(Notice::Log { unit, reason, detail: refusal.to_string() });
                }
                false
            }
        }
    }

    fn install(&mut self, plan: Plan, anchor: Anchor, cause: Cause) -> Reply {
        for circle in plan.circles {
            self.tell(Notice::CycleBroken { units: circle.units, dropped: circle.dropped });
        }
        plan.left_out.into_iter().for_each(|left_out| self.note_left_out(left_out));
        for unit in plan.cancelled {
            self.finish_job(unit, JobResult::Canceled, Reason::new(Code::Canceled, cause));
        }
        let mut ids = Vec::with_capacity(plan.jobs.len());
        for planned in &plan.jobs {
            let reason = reason_of(&self.graph, planned, anchor, cause);
            ids.push((self.install_one(planned, anchor.mode, reason), planned.unit));
        }
        let (job, unit) = ids.remove(0);
        Reply::Job { job, unit, affected: ids }
    }

    /// A unit that was wanted stays down because of another: it and the log tell why.
    fn note_left_out(&mut self, left_out: LeftOut) {
        let LeftOut { unit, for_want_of, refusal } = left_out;
        let cause = Cause::Dependency(for_want_of);
        if self.active_state(unit).is_down() {
            self.note(unit, Code::LeftOut, cause, refusal.to_string());
        }
    }

    /// Installs one job, merged with or in place of the one that is there.
    fn install_one(&mut self, planned: &Planned, mode: JobMode, reason: Reason) -> JobId {
        let unit = planned.unit;
        let mut kind = planned.kind;
        if let Some(old) = self.run(unit).job.clone() {
            let up = self.active_state(unit).is_up_or_coming();
            match kind.merge(old.kind, up) {
                // A running job goes on if it does what is asked; else it is begun anew.
                Some(merged) if merged == old.kind && (!old.running || kind == old.kind) => {
                    return self.strengthen(unit, mode);
                }
                Some(merged) if !old.running => {
                    self.change_job(unit, |job| job.kind = merged);
                    self.run_queue.insert(unit);
                    return self.strengthen(unit, mode);
                }
                Some(merged) if merged == old.kind => return self.strengthen(unit, mode),
                Some(merged) => kind = merged,
                None => {}
            }
            self.finish_job(unit, JobResult::Canceled, Reason::new(Code::Canceled, reason.cause));
        }
        self.install_new(unit, kind, mode, reason)
    }

    fn strengthen(&mut self, unit: UnitId, mode: JobMode) -> JobId {
        let job = self.run_mut(unit).job.as_mut().expect("the caller saw it");
        job.irreversible |= mode == JobMode::ReplaceIrreversibly;
        let id = job.id;
        if mode == JobMode::IgnoreDependencies && !job.ignore_order {
            self.change_job(unit, |job| job.ignore_order = true);
            self.run_queue.insert(unit);
        }
        id
    }

    fn install_new(&mut self, unit: UnitId, kind: JobKind, mode: JobMode, reason: Reason) -> JobId {
        let id = self.new_job_id();
        let timeout = self
            .flags(unit)
            .has_job_settings()
            .then(|| self.compiled(unit).section.job_timeout)
            .flatten();
        let now = self.now.monotonic;
        let job = Job {
            id,
            unit,
            kind,
            running: false,
            irreversible: mode == JobMode::ReplaceIrreversibly,
            ignore_order: mode == JobMode::IgnoreDependencies,
            blockers: 0,
            released_by: None,
            since: now,
            deadline: timeout.map(|timeout| now.after(timeout)),
            reason,
        };
        self.run_mut(unit).job = Some(Box::new(job));
        self.link_job(unit);
        self.totals.jobs += 1;
        self.totals.jobs_ever = self.totals.jobs_ever.wrapping_add(1);
        self.tell(Notice::JobNew { job: id, unit });
        self.happened(unit, What::JobQueued { job: id, kind, reason });
        self.run_queue.insert(unit);
        id
    }

    fn hurry(&mut self, unit: UnitId, cause: Cause) -> Result<Reply, Refusal> {
        if self.active_state(unit) != ActiveState::Deactivating {
            return Err(Refusal::NotStopping(self.graph.name(unit).clone()));
        }
        self.note(unit, Code::Hurried, cause, String::new());
        match self.run(unit).state {
            TypeState::Service(_) => self.hurry_service(unit),
            // It goes on by itself; nobody waits for it any more.
            _ => self.finish_job(unit, JobResult::Canceled, Reason::new(Code::Hurried, cause)),
        }
        Ok(Reply::Done)
    }

    /// The last transaction: a stop job for every unit that is up or on its way, in place of
    /// whatever job it has. What the kernel had before the manager came is left alone.
    pub(crate) fn stop_everything(&mut self) {
        self.totals.stopping = true;
        let reason = Reason::new(Code::ManagerExit, Cause::Manager);
        for unit in self.busy() {
            self.finish_job(unit, JobResult::Canceled, reason);
        }
        for unit in self.busy() {
            let stays = self.is_left_alone(unit) || self.graph.is_device(unit);
            if !self.flags(unit).perpetual() && !stays {
                self.install_new(unit, JobKind::Stop, self.stopping_mode(unit), reason);
            }
        }
        self.break_circles();
    }

    /// What somebody else mounted is unmounted only if it would be by `umount.target`.
    fn is_left_alone(&self, unit: UnitId) -> bool {
        let history = self.run(unit).history.as_ref();
        let found = history.is_some_and(|h| h.reason.code == Code::Discovered);
        let mut conflicts = self.graph.related(unit, Relation::Conflicts);
        found && !conflicts.any(|other| self.graph.name(other).as_str() == "umount.target")
    }

    /// The end without stops: all jobs are over, and no `Restart=` brings anything back.
    pub(crate) fn give_up(&mut self) {
        self.totals.stopping = true;
        let reason = Reason::new(Code::ManagerExit, Cause::Manager);
        for unit in self.busy() {
            self.finish_job(unit, JobResult::Canceled, reason);
        }
    }

    /// A start is not waited for: who is ordered after it did not get what it promised.
    fn stopping_mode(&self, unit: UnitId) -> JobMode {
        match self.active_state(unit) {
            ActiveState::Activating => JobMode::IgnoreDependencies,
            _ => JobMode::ReplaceIrreversibly,
        }
    }

    // ---- who waits for whom ----

    /// Distinct units with a job that are ordered against `unit`; two units can be ordered both
    /// ways.
    fn job_neighbours(&self, unit: UnitId) -> Vec<UnitId> {
        let has_job = |&other: &UnitId| self.run(other).job.is_some();
        let mut others: Vec<UnitId> = self.graph.ordered_with(unit).filter(has_job).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Adds (or takes away) what the job of `unit` means to the waiting of its neighbours and of
    /// itself.
    fn weigh_job(&mut self, unit: UnitId, add: bool) {
        let Some(job) = self.run(unit).job.as_ref() else { return };
        let (kind, ignores) = (job.kind, job.ignore_order);
        let mut own = 0;
        for other in self.job_neighbours(unit) {
            let other_job = self.run(other).job.as_ref().expect("neighbours have jobs");
            let (other_kind, other_ignores) = (other_job.kind, other_job.ignore_order);
            own += u32::from(!ignores && self.graph.waits(unit, kind, other, other_kind));
            if !other_ignores && self.graph.waits(other, other_kind, unit, kind) {
                let job = self.run_mut(other).job.as_mut().expect("neighbours have jobs");
                job.blockers = if add { job.blockers + 1 } else { job.blockers.saturating_sub(1) };
                job.released_by = (job.blockers == 0).then_some(unit);
                if job.blockers == 0 {
                    self.run_queue.insert(other);
                }
            }
        }
        self.run_mut(unit).job.as_mut().expect("looked at above").blockers =
            if add { own } else { 0 };
    }

    fn link_job(&mut self, unit: UnitId) {
        self.weigh_job(unit, true);
    }

    fn unlink_job(&mut self, unit: UnitId) {
        self.weigh_job(unit, false);
    }

    fn change_job(&mut self, unit: UnitId, change: impl FnOnce(&mut Job)) {
        self.unlink_job(unit);
        if let Some(job) = self.run_mut(unit).job.as_mut() {
            change(job);
        }
        self.link_job(unit);
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
        let Some(job) = self.run(unit).job.as_ref().filter(|job| !job.ignore_order) else {
            return 0;
        };
        let is_waited_for = |&&other: &&UnitId| {
            let other_kind = self.run(other).job.as_ref().map(|job| job.kind);
            other_kind.is_some_and(|kind| waits(&self.graph, unit, job.kind, other, kind))
        };
        self.job_neighbours(unit).iter().filter(is_waited_for).count() as u32
    }

    /// After a change of the graph: counts every job's blockers again.
    pub(crate) fn recount_blockers(&mut self) {
        for unit in self.busy() {
            let blockers = self.count_blockers(unit);
            if let Some(job) = &self.run(unit).job
                && job.blockers != blockers
            {
                self.run_mut(unit).job.as_mut().expect("seen").blockers = blockers;
                self.run_queue.insert(unit);
            }
        }
    }

    /// Installed jobs that wait for each other, which only a change of the graph can bring about
    /// (at once, or when a restart has come to its second half):
    /// the one whose unit's name sorts last is cancelled, until none are left. At the end of the
    /// manager it is done out of its turn instead: nothing may stay up.
    pub(crate) fn break_circles(&mut self) {
        while let Some(units) = self.waiting_in_circles() {
            let last = units.iter().copied().max_by_key(|&unit| self.graph.name(unit));
            let Some(dropped) = last else { return };
            self.tell(Notice::CycleBroken { units, dropped });
            if self.totals.stopping {
                self.change_job(dropped, |job| job.ignore_order = true);
                self.run_queue.insert(dropped);
                continue;
            }
            let reason = Reason::new(Code::Canceled, Cause::Manager);
            self.finish_job(dropped, JobResult::Canceled, reason);
        }
    }

    /// The units of jobs that wait, directly or through others, for a circle of jobs: what is left
    /// when those that wait for nobody, and then those that waited for them only, are taken away.
    fn waiting_in_circles(&self) -> Option<Vec<UnitId>> {
        let mut blockers: BTreeMap<UnitId, u32> = BTreeMap::new();
        let mut free = Vec::new();
        for unit in self.busy() {
            let Some(job) = self.run(unit).job.as_ref() else { continue };
            let count = match self.flags(unit).has_groups() {
                true => self.count_waits(unit, Graph::may_wait),
                false => job.blockers,
            };
            match count * u32::from(!job.running) {
                0 => free.push(unit),
                count => {
                    blockers.insert(unit, count);
                }
            }
        }
        while let Some(unit) = free.pop() {
            let kind = self.run(unit).job.as_ref().map_or(JobKind::Nop, |job| job.kind);
            for other in self.job_neighbours(unit) {
                let waiting = self.run(other).job.as_ref().map_or(JobKind::Nop, |job| job.kind);
                let Some(count) = blockers.get_mut(&other) else { continue };
                *count -= u32::from(self.graph.may_wait(other, waiting, unit, kind));
                if *count == 0 {
                    blockers.remove(&other);
                    free.push(other);
                }
            }
        }
        (!blockers.is_empty()).then(|| blockers.into_keys().collect())
    }

    // ---- running ----

    /// Runs the job of `unit` if its turn has come.
    pub(crate) fn run_job(&mut self, unit: UnitId) {
        let Some(job) = self.run(unit).job.as_ref() else { return };
        if job.running || job.blockers > 0 {
            return;
        }
        let (kind, reason) = (job.kind, job.reason);
        match self.perform(unit, kind, reason) {
            Turn::Wait => {}
            Turn::Begun => {
                self.begin(unit);
                self.note_begun(unit);
            }
            Turn::Over(result, reason) => {
                self.note_begun(unit);
                self.finish_job(unit, result, reason);
            }
        }
    }

    fn note_begun(&mut self, unit: UnitId) {
        if let Some(job) = self.run(unit).job.as_deref() {
            let (job, kind, released_by) = (job.id, job.kind, job.released_by);
            self.happened(unit, What::JobBegan { job, kind, released_by });
        }
    }

    fn begin(&mut self, unit: UnitId) {
        let now = self.now.monotonic;
        let running_timeout = self
            .flags(unit)
            .has_job_settings()
            .then(|| self.compiled(unit).section.job_running_timeout)
            .flatten();
        if let Some(job) = self.run_mut(unit).job.as_mut() {
            let begun_before = std::mem::replace(&mut job.running, true);
            let limit = running_timeout.map(|timeout| now.after(timeout));
            job.deadline = [job.deadline, limit].into_iter().flatten().min();
            self.running_jobs += u32::from(!begun_before);
        }
    }

    fn perform(&mut self, unit: UnitId, kind: JobKind, reason: Reason) -> Turn {
        let state = self.active_state(unit);
        match kind {
            JobKind::Nop => Turn::Over(JobResult::Done, reason),
            JobKind::VerifyActive => match state {
                s if s.is_up() => Turn::Over(JobResult::Done, reason),
                ActiveState::Activating => Turn::Wait,
                _ => Turn::Over(
                    JobResult::Skipped,
                    Reason::new(Code::RequisiteMissing, reason.cause),
                ),
            },
            JobKind::Start => self.perform_start(unit, state, reason),
            JobKind::Stop | JobKind::Restart => self.perform_stop(unit, state, kind, reason),
            JobKind::Reload => self.perform_reload(unit, state, reason),
        }
    }

    fn perform_start(&mut self, unit: UnitId, state: ActiveState, reason: Reason) -> Turn {
        match state {
            s if s.is_up() => return Turn::Over(JobResult::Done, reason),
            // The restart that is about to come takes the job over.
            ActiveState::Activating if self.waits_to_restart(unit) => {
                self.restart_if_due(unit);
                return Turn::Wait;
            }
            // It is on its way already: the job ends with it.
            ActiveState::Activating => return Turn::Begun,
            ActiveState::Deactivating => return Turn::Wait,
            _ => {}
        }
        let refused = |result, code| Turn::Over(result, Reason::new(code, reason.cause));
        match &self.definition(unit).load_state {
            LoadState::Loaded => {}
            LoadState::Masked => return refused(JobResult::Invalid, Code::Masked),
            LoadState::NotFound => return refused(JobResult::Invalid, Code::NotLoaded),
            _ => return refused(JobResult::Invalid, Code::BadSetting),
        }
        if self.is_put_aside(unit) {
            return refused(JobResult::Invalid, Code::Maintenance);
        }
        if let Some(missing) = self.missing_bound(unit) {
            return refused(JobResult::Dependency, missing);
        }
        match self.groups_against(unit) {
            Some(turn) => turn,
            None => self.start_unit(unit, reason),
        }
    }

    /// A unit that this one is bound to and ordered after, and that is not up (systemd.unit(5),
    /// `BindsTo=` with `After=`, and `Requisite=`).
    fn missing_bound(&self, unit: UnitId) -> Option<Code> {
        let down = |other: UnitId| !self.active_state(other).is_up() && !self.is_unseen(other);
        let ordered = |other: UnitId| self.graph.is_before(other, unit);
        let gone = |relation| {
            self.graph.related(unit, relation).any(|other| ordered(other) && down(other))
        };
        if gone(Relation::BindsTo) {
            return Some(Code::BoundUnitGone);
        }
        let missing = self
            .graph
            .related(unit, Relation::Requisite)
            .any(|other| self.active_state(other).is_down_or_going() && !self.is_unseen(other));
        missing.then_some(Code::RequisiteMissing)
    }

    fn perform_stop(
        &mut self,
        unit: UnitId,
        state: ActiveState,
        kind: JobKind,
        reason: Reason,
    ) -> Turn {
        if state.is_down() {
            if kind == JobKind::Restart {
                return self.turn_into_start(unit);
            }
            self.stays_down(unit, reason);
            return Turn::Over(JobResult::Done, reason);
        }
        if state != ActiveState::Deactivating {
            self.stop_unit(unit, reason);
        }
        match self.run(unit).active_state() {
            s if s.is_down() && kind == JobKind::Restart => self.turn_into_start(unit),
            s if s.is_down() => Turn::Over(JobResult::Done, reason),
            _ => Turn::Begun,
        }
    }

    /// The stop half of a restart is done: what is left is a start job, which waits like any.
    fn turn_into_start(&mut self, unit: UnitId) -> Turn {
        let running = self.run(unit).job.as_ref().is_some_and(|job| job.running);
        self.running_jobs -= u32::from(running);
        self.change_job(unit, |job| {
            job.kind = JobKind::Start;
            job.running = false;
        });
        if self.circles_possible {
            self.break_circles();
        }
        self.run_queue.insert(unit);
        Turn::Wait
    }

    fn perform_reload(&mut self, unit: UnitId, state: ActiveState, reason: Reason) -> Turn {
        match state {
            ActiveState::Active => self.reload_unit(unit, reason),
            ActiveState::Reloading | ActiveState::Activating => Turn::Wait,
            _ => Turn::Over(JobResult::Skipped, reason),
        }
    }

    /// The unit's state changed: its running job may be over.
    pub(crate) fn job_after_change(&mut self, unit: UnitId, new: ActiveState) {
        let Some(job) = self.run(unit).job.as_ref() else { return };
        let (kind, reason) = (job.kind, job.reason);
        if !job.running {
            self.run_queue.insert(unit);
            return;
        }
        let own_reason = self.run(unit).history.as_ref().map_or(reason, |h| h.reason);
        match kind {
            JobKind::Start | JobKind::VerifyActive => match new {
                s if s.is_up() => self.finish_job(unit, JobResult::Done, reason),
                ActiveState::Activating => {}
                // It may come yet: the job's timeout says for how long it is waited for.
                ActiveState::Inactive if self.graph.is_device(unit) => {}
                ActiveState::Inactive if self.ended_well(unit) => {
                    self.finish_job(unit, JobResult::Done, reason);
                }
                ActiveState::Deactivating if self.ended_well(unit) => {}
                _ => self.finish_job(unit, JobResult::Failed, own_reason),
            },
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
                ActiveState::Reloading | ActiveState::Activating => {}
                _ => self.finish_job(unit, JobResult::Failed, own_reason),
            },
            _ => {}
        }
    }

    /// Whether a unit that is going or gone again has done what a start asks for: a oneshot that
    /// succeeded, or a start that a condition made unnecessary.
    fn ended_well(&self, unit: UnitId) -> bool {
        let outcome = self.outcome(unit);
        matches!(outcome, Outcome::Success | Outcome::ExecCondition)
    }

    /// The outcome of the run that is under way, or of the last one.
    pub(crate) fn outcome(&self, unit: UnitId) -> Outcome {
        match &self.run(unit).state {
            TypeState::Service(Service::Up(run)) => run.outcome,
            TypeState::Service(Service::Failed(outcome)) => *outcome,
            TypeState::Socket(Socket::Up(run)) => run.outcome,
            TypeState::Socket(Socket::Failed(outcome)) => *outcome,
            TypeState::Mount(Mount::Up(run)) | TypeState::Swap(Mount::Up(run)) => run.outcome,
            TypeState::Mount(Mount::Failed(outcome)) | TypeState::Swap(Mount::Failed(outcome)) => {
                *outcome
            }
            TypeState::Automount(Automount::Failed(outcome)) => *outcome,
            _ => self.run(unit).history.as_ref().map_or(Outcome::Success, |h| h.outcome),
        }
    }

    fn reload_failed(&self, unit: UnitId) -> bool {
        match &self.run(unit).state {
            TypeState::Service(Service::Up(run)) => run.reload_outcome != Outcome::Success,
            TypeState::Mount(Mount::Up(run)) => run.reload_outcome != Outcome::Success,
            _ => false,
        }
    }

    // ---- the end of a job ----

    /// Takes a job away and tells everybody whom it concerns.
    pub(crate) fn finish_job(&mut self, unit: UnitId, result: JobResult, reason: Reason) {
        let Some(job) = self.run(unit).job.clone() else { return };
        self.unlink_job(unit);
        self.run_mut(unit).job = None;
        self.totals.jobs -= 1;
        self.running_jobs -= u32::from(job.running);
        self.drop_check(unit);
        self.remember_job(unit, job.kind, result, reason);
        if result.is_failure() {
            self.totals.failed_jobs_ever = self.totals.failed_jobs_ever.wrapping_add(1);
            let detail = format!("{} job: {}", job.kind.as_str(), result.as_str());
            self.tell(Notice::Log { unit, reason, detail });
        }
        self.tell(Notice::JobRemoved { job: job.id, unit, kind: job.kind, result });
        self.happened(unit, What::JobEnded { job: job.id, kind: job.kind, result, reason });
        if result == JobResult::Timeout || result.is_failure() {
            self.note_never_begun(unit, &job, reason);
        }
        if result.is_failure() && result != JobResult::Canceled {
            self.fail_dependents(unit, job.kind);
        }
        match (job.kind, result) {
            // It would fail again at once: what is bound to something gone is stopped later.
            (JobKind::Stop, JobResult::Failed | JobResult::Timeout) => self.try_later(unit),
            _ => {
                self.bound_queue.insert(unit);
            }
        }
        if self.active_state(unit).is_down() {
            self.forget_settings(unit);
            self.connection_ended(unit);
            // It was never up, or is not any more: what came up for it or is bound to it may go.
            self.queue_what_may_go(unit);
            self.bound_queue.extend(self.graph.related(unit, Relation::BoundBy));
        }
        self.look_at_group_waiters(unit);
        self.job_end_queue.insert(unit);
        self.unneeded_queue.insert(unit);
        self.try_again();
    }

    /// What a later question after a job that came to nothing is answered with.
    fn remember_job(&mut self, unit: UnitId, kind: JobKind, result: JobResult, reason: Reason) {
        let at = self.now;
        let lost = (result != JobResult::Done).then_some(LostJob { kind, result, reason, at });
        let had = self.run(unit).history.as_ref().and_then(|h| h.lost_job);
        // The stop that took the place of a start does not make one forget who asked for it.
        let stays = had.is_some_and(|had| kind == JobKind::Stop && !had.kind.is_stopping());
        if lost.is_some() || had.is_some() && !stays {
            self.history_mut(unit).lost_job = lost;
        }
    }

    /// A check of conditions serves the start job that asked for it and ends with it.
    fn drop_check(&mut self, unit: UnitId) {
        if self.run(unit).history.as_ref().is_some_and(|h| h.checking.is_some())
            && let Some(id) = self.history_mut(unit).checking.take()
        {
            self.forget_effect(id);
        }
    }

    /// A start that failed before the unit was told leaves its reason on the unit.
    fn note_never_begun(&mut self, unit: UnitId, job: &Job, reason: Reason) {
        if job.kind == JobKind::Start
            && self.active_state(unit).is_down()
            && reason.code.is_trouble()
            && !(reason.code == Code::Excluded && self.gave_way(unit))
        {
            self.history_mut(unit).reason = reason;
        }
    }

    /// Jobs that cannot be without the one that failed fail with it.
    fn fail_dependents(&mut self, unit: UnitId, kind: JobKind) {
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
        let dependents: BTreeSet<UnitId> =
            relations.iter().flat_map(|&r| graph.related(unit, r)).collect();
        for other in dependents {
            let fails = self.run(other).job.as_ref().is_some_and(|job| {
                matches!(job.kind, JobKind::Start | JobKind::VerifyActive) && !job.running
            });
            if fails {
                let reason = Reason::new(Code::DependencyFailed, Cause::Dependency(unit));
                self.finish_job(other, JobResult::Dependency, reason);
            }
        }
    }

    pub(crate) fn job_deadline(&mut self, unit: UnitId) {
        let now = self.now.monotonic;
        let due = |job: &Job| job.deadline.is_some_and(|at| at <= now);
        if !self.run(unit).job.as_ref().is_some_and(|job| due(job)) {
            return;
        }
        if self.totals.stopping {
            return self.stop_out_of_turn(unit);
        }
        let action = self.compiled(unit).section.job_timeout_action;
        let code = match self.graph.is_device(unit) {
            true => Code::DeviceMissing,
            false => Code::JobTimeout,
        };
        let reason = Reason::new(code, Cause::None);
        self.finish_job(unit, JobResult::Timeout, reason);
        self.emergency(action, unit);
    }

    /// At the end of the manager a stop job is not given up: it waits for others no longer, and the
    /// stop itself has bounds of its own.
    fn stop_out_of_turn(&mut self, unit: UnitId) {
        self.change_job(unit, |job| {
            job.ignore_order = true;
            job.deadline = None;
        });
        self.run_queue.insert(unit);
    }

    pub(crate) fn emergency(&mut self, action: EmergencyAction, unit: UnitId) {
        if action != EmergencyAction::None {
            self.out.push(Effect::Emergency { action, unit });
        }
    }
}

/// What came of telling a unit to do its job.
pub(crate) enum Turn {
    /// Not yet: the job waits for a change of the unit itself.
    Wait,
    /// It is at it.
    Begun,
    /// The job is over.
    Over(JobResult, Reason),
}

fn reason_of(graph: &Graph, planned: &Planned, anchor: Anchor, cause: Cause) -> Reason {
    if planned.unit == anchor.unit {
        let code = match planned.kind {
            JobKind::Stop => Code::Stopped,
            _ => Code::Started,
        };
        return Reason::new(code, cause);
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
