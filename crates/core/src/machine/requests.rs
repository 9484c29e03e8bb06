//! What clients ask for, and what is asked of all units at once.

use crate::features::{freezer, remarks, shutdown_state, survival};
use crate::jobs::{ends, install};
use crate::model::active_state::ActiveState;
use crate::model::ids::{ClientId, JobId, UnitId};
use crate::model::job::{JobKind, JobMode, JobResult, JobType};
use crate::model::process::Outcome;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::{
    Automount, History, Mount, RateWindow, Service, ServicePhase, Socket, TypeState,
};
use crate::parts::Core;
use crate::protocol::event::{Effect, FollowUp, KillTarget};
use crate::protocol::request::{Asker, KillWhom, Refusal, Reply, Request};
use crate::state_change;
use crate::transaction::Anchor;
use crate::types::service::stop;
use crate::types::{mount, socket};
use warren_unit::Relation;

impl Core {
    pub(crate) fn request(&mut self, client: ClientId, asker: Asker, request: Request) {
        let answer = self.serve(client, asker, request);
        if let Some(reply) = answer.unwrap_or_else(|refusal| Some(Reply::Refused(refusal))) {
            self.outbox.effects.push(Effect::Reply { client, reply });
        }
    }

    /// The answer, or none if it comes later.
    fn serve(
        &mut self,
        client: ClientId,
        asker: Asker,
        request: Request,
    ) -> Result<Option<Reply>, Refusal> {
        let cause = match asker.pid {
            // Every client's process is known; what has none is the manager's own wish.
            0 => Cause::Manager,
            pid => Cause::Request { uid: asker.uid, pid },
        };
        let reply = match request {
            Request::Enqueue { unit, job_type, mode, reload_if_possible } => {
                let job_type = self.reload_or_restart(unit, job_type, reload_if_possible);
                if let Err(refusal) = self.check_manual(unit, job_type, mode) {
                    let is_for_good = matches!(refusal, Refusal::OnlyByDependency(..));
                    let anchor = Anchor { unit, job_type, mode };
                    return Err(match is_for_good {
                        true => install::note_refusal(self, anchor, cause, refusal),
                        false => refusal,
                    });
                }
                install::enqueue(self, Anchor { unit, job_type, mode }, cause)
            }
            Request::CancelJob(_) | Request::ClearJobs if self.totals.stopping => {
                Err(Refusal::ShuttingDown)
            }
            Request::CancelJob(id) => {
                let unit = self.job_unit(id).ok_or(Refusal::NoSuchJob(id))?;
                let kind =
                    self.units.run(unit).job.as_ref().map(|job| ends::asked_of(self, unit, job));
                let reason = Reason::new(Code::CanceledByUser, cause);
                ends::finish_job(self, unit, JobResult::Canceled, reason);
                kind.into_iter().for_each(|kind| ends::fail_dependents(self, unit, kind));
                Ok(Reply::Done)
            }
            Request::ClearJobs => {
                for unit in self.units.busy() {
                    let reason = Reason::new(Code::CanceledByUser, cause);
                    ends::finish_job(self, unit, JobResult::Canceled, reason);
                }
                Ok(Reply::Done)
            }
            Request::ResetFailed(Some(unit)) if remarks::is_put_aside(self, unit) => {
                Err(Refusal::Maintenance(self.graph.name(unit).clone()))
            }
            Request::ResetFailed(unit) => {
                let all = || self.units.ids().collect();
                let mut units: Vec<UnitId> = unit.map_or_else(all, |unit| vec![unit]);
                units.retain(|&unit| !remarks::is_put_aside(self, unit));
                units.into_iter().for_each(|unit| self.reset_failed(unit));
                Ok(Reply::Done)
            }
            Request::Mark { unit, marked, text } => self.mark(unit, marked, &text, cause),
            Request::Clear(unit) => self.clear(unit),
            Request::Comment { unit, text } => remarks::comment(self, unit, &text, cause),
            Request::Hurry(unit) => self.hurry(unit, cause),
            Request::Kill { unit, whom, signal } => self.kill_request(unit, whom, signal),
            Request::Freeze { unit, frozen } => {
                return freezer::freeze_request(self, client, unit, frozen);
            }
        };
        reply.map(Some)
    }

    fn job_unit(&self, id: JobId) -> Option<UnitId> {
        self.units.busy().into_iter().find(|&unit| self.units.run(unit).job_id() == Some(id))
    }

    /// `RefuseManualStart=`, `RefuseManualStop=` (systemd.unit(5)).
    fn check_manual(&self, unit: UnitId, job: JobType, mode: JobMode) -> Result<(), Refusal> {
        let (flags, name) = (self.graph.flags(unit), || self.graph.name(unit).clone());
        let restarts = matches!(job, JobType::Restart | JobType::TryRestart);
        // One that is up is reloaded.
        let is_up = self.units.active_state(unit).is_up_or_coming();
        let starts = restarts || job == JobType::Start || job == JobType::ReloadOrStart && !is_up;
        let stops = restarts || job == JobType::Stop;
        if mode == JobMode::Isolate && job != JobType::Start {
            return Err(Refusal::BadMode("Isolate is only valid for start."));
        }
        if mode == JobMode::Triggering && job != JobType::Stop {
            return Err(Refusal::BadMode("--job-mode=triggering is only valid for stop."));
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
        if !wanted || !self.graph.can_reload(unit) {
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
        let run = self.units.run(unit);
        let target = match whom {
            KillWhom::Main => KillTarget::Process(run.main_process().ok_or_else(name)?.pid),
            KillWhom::Control => KillTarget::Process(run.control_pid().ok_or_else(name)?),
            KillWhom::All => KillTarget::Group,
        };
        let id = self.outbox.new_effect(unit);
        self.outbox.forget_effect(id);
        let then = FollowUp::default();
        self.outbox.effects.push(Effect::Kill { id, unit, target, signal, then });
        Ok(Reply::Done)
    }

    pub(crate) fn reset_failed(&mut self, unit: UnitId) {
        let Some(history) = self.units.run(unit).history.as_ref() else { return };
        let counts = history.starts != RateWindow::default();
        if self.has_no_failure(unit, history) {
            if counts {
                let history = self.units.run_to_rearm(unit).history.as_mut();
                history.expect("looked at above").starts = RateWindow::default();
            }
            return;
        }
        state_change::transit(self, unit, false, |run| match &mut run.state {
            TypeState::Service(s @ Service::Failed(_)) => *s = Service::Dead,
            TypeState::Service(Service::Up(run)) if run.phase == ServicePhase::AutoRestart => {
                run.outcome = Outcome::Success;
            }
            TypeState::Socket(s @ Socket::Failed(_)) => *s = Socket::Dead,
            TypeState::Mount(s @ Mount::Failed(_)) | TypeState::Swap(s @ Mount::Failed(_)) => {
                *s = Mount::Dead;
            }
            TypeState::Automount(s @ Automount::Failed(_)) => *s = Automount::Dead,
            _ => {}
        });
        let history = self.units.history_mut(unit);
        history.starts = RateWindow::default();
        history.restarts = 0;
        history.outcome = Outcome::Success;
    }

    /// Whether clients see nothing of it that `reset-failed` takes away.
    fn has_no_failure(&self, unit: UnitId, history: &History) -> bool {
        let run = self.units.run(unit);
        let has_outcome = match &run.state {
            TypeState::Service(Service::Up(run)) => run.outcome != Outcome::Success,
            _ => false,
        };
        run.active_state() != ActiveState::Failed
            && !has_outcome
            && history.restarts == 0
            && history.outcome == Outcome::Success
    }

    fn hurry(&mut self, unit: UnitId, cause: Cause) -> Result<Reply, Refusal> {
        if !shutdown_state::may_be_hurried(self, unit) {
            return Err(Refusal::NotStopping(self.graph.name(unit).clone()));
        }
        state_change::note(self, unit, Code::Hurried, cause, String::new());
        let goes_on_by_itself = match self.units.run(unit).state {
            TypeState::Service(Service::Up(_)) => {
                stop::hurry_service(self, unit);
                false
            }
            TypeState::Socket(_) => !socket::hurry(self, unit),
            TypeState::Mount(_) | TypeState::Swap(_) => {
                mount::hurry(self, unit);
                true
            }
            _ => true,
        };
        if goes_on_by_itself {
            // Nobody waits for it any more.
            ends::finish_job(self, unit, JobResult::Canceled, Reason::new(Code::Hurried, cause));
        }
        Ok(Reply::Done)
    }

    /// The last transaction: a stop job for every unit that is up or on its way, in place of
    /// whatever job it has. What the kernel had before the manager came is left alone, and so is
    /// what outlasts the end. Stops that are there, as those of an end that this one overtakes or that
    /// files describe, go on.
    pub(crate) fn stop_everything(&mut self, soft: bool) {
        self.totals.stopping = true;
        self.outbox.given_up = false;
        let reason = Reason::new(Code::ManagerExit, Cause::Manager);
        for unit in self.units.busy() {
            match self.has_stop_job(unit) {
                true => self.keep_stop(unit),
                false => ends::finish_job(self, unit, JobResult::Canceled, reason),
            }
        }
        let outlasting = survival::outlasting(self, soft);
        for unit in self.units.busy() {
            let stays = self.is_left_alone(unit)
                || self.has_stop_job(unit)
                || self.graph.is_device(unit)
                || outlasting.contains(&unit);
            if !self.graph.flags(unit).perpetual() && !stays {
                let mode = self.stopping_mode(unit);
                install::install_new(self, unit, JobKind::Stop, mode, reason);
            }
        }
        self.jobs.circles_unchecked = true;
    }

    /// Its stop is from now on one of the end's.
    fn keep_stop(&mut self, unit: UnitId) {
        let mode = self.stopping_mode(unit);
        install::strengthen(self, unit, mode);
        self.queues.queue_job(&self.units, unit);
    }

    fn has_stop_job(&self, unit: UnitId) -> bool {
        self.units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Stop)
    }

    /// What somebody else mounted is unmounted only if it would be by `umount.target`.
    fn is_left_alone(&self, unit: UnitId) -> bool {
        let history = self.units.run(unit).history.as_ref();
        let found = history.is_some_and(|h| h.reason.code == Code::Discovered);
        let mut conflicts = self.graph.related(unit, Relation::Conflicts);
        found && !conflicts.any(|other| self.graph.name(other).as_str() == "umount.target")
    }

    /// The end without stops: all jobs are over, no `Restart=` brings anything back, and no command of a
    /// stop begins beside who is killed.
    pub(crate) fn give_up(&mut self) {
        self.totals.stopping = true;
        self.outbox.given_up = true;
        let reason = Reason::new(Code::ManagerExit, Cause::Manager);
        for unit in self.units.busy() {
            ends::finish_job(self, unit, JobResult::Canceled, reason);
        }
    }

    /// A start is not waited for: who is ordered after it did not get what it promised.
    fn stopping_mode(&self, unit: UnitId) -> JobMode {
        match self.units.active_state(unit) {
            ActiveState::Activating => JobMode::IgnoreDependencies,
            _ => JobMode::ReplaceIrreversibly,
        }
    }
}
