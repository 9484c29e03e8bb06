//! What all types share at their start and end (conditions, limits, dispatch), and the types that
//! have next to no state of their own: targets and slices.

use crate::features::{cleanup, device_sight, start_limit};
use crate::graph::Graph;
use crate::jobs::{ends, halves};
use crate::machine::Core;
use crate::model::active_state::ActiveState;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::JobResult;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::parts::job_queue::Turn;
use crate::parts::unit_settings;
use crate::protocol::event::{Done, Effect, Verdict};
use crate::protocol::request::Notice;
use crate::state_change;
use warren_unit::{UnitFlags, UnitType};

impl Core {
    /// Begins to start a unit that is down: conditions first, then the start limit.
    pub(crate) fn start_unit(&mut self, unit: UnitId, reason: Reason) -> Turn {
        if !self.can_run(unit) {
            return Turn::Over(
                JobResult::Unsupported,
                Reason::new(Code::NotSupported, reason.cause),
            );
        }
        if self.graph.is_device(unit) {
            return self.await_device(unit, reason);
        }
        let invocation = self.ids.new_invocation();
        let history = self.units.history_mut(unit);
        history.invocation = invocation;
        history.reason = reason;
        if self.graph.flags(unit).contains(UnitFlags::HAS_CONDITIONS) {
            self.ask_conditions(unit);
            return Turn::Begun;
        }
        self.start_checked(unit)
    }

    fn can_run(&self, unit: UnitId) -> bool {
        match self.units.run(unit).state {
            TypeState::Unsupported | TypeState::Scope(_) => false,
            TypeState::Swap(_) => !self.totals.without_swaps,
            _ => true,
        }
    }

    /// A device is not started: its job waits until it is there.
    fn await_device(&mut self, unit: UnitId, reason: Reason) -> Turn {
        match device_sight::is_unseen(self, unit) {
            true => Turn::Over(JobResult::Unsupported, Reason::new(Code::NoDevices, reason.cause)),
            false => {
                self.units.history_mut(unit).reason = Reason::new(Code::AwaitsDevice, reason.cause);
                Turn::Begun
            }
        }
    }

    /// Starts a unit whose conditions hold. What a condition skips does not count as a start.
    fn start_checked(&mut self, unit: UnitId) -> Turn {
        if start_limit::count_start(self, unit) {
            let reason =
                self.units.run(unit).history.as_ref().map_or(Reason::default(), |h| h.reason);
            return self.refuse_start_limit(unit, reason);
        }
        let is_refused = match self.graph.definition(unit).unit_type() {
            UnitType::Socket => self.socket_refused_to_start(unit),
            UnitType::Automount => self.automount_refused_to_start(unit),
            _ => false,
        };
        if is_refused {
            let why = self.units.run(unit).history.as_ref().map(|h| h.reason).unwrap_or_default();
            return Turn::Over(JobResult::Failed, why);
        }
        let history = self.units.history_mut(unit);
        if history.reason.cause != Cause::Restart {
            history.restarts = 0;
            history.relapse = None;
        }
        match self.graph.definition(unit).unit_type() {
            UnitType::Service => self.service_start(unit),
            UnitType::Socket => self.socket_start(unit),
            UnitType::Mount | UnitType::Swap => self.mount_start(unit),
            UnitType::Automount => self.automount_start(unit),
            UnitType::Slice => self.slice_start(unit),
            UnitType::Target => self.target_start(unit),
            _ => {}
        }
        let reason = self.units.run(unit).history.as_ref().map_or(Reason::default(), |h| h.reason);
        match self.units.active_state(unit) {
            s if s.is_up() => Turn::Over(JobResult::Done, reason),
            ActiveState::Failed => Turn::Over(JobResult::Failed, reason),
            _ => Turn::Begun,
        }
    }

    // ---- conditions ----

    fn ask_conditions(&mut self, unit: UnitId) {
        let id = self.outbox.new_effect(unit);
        let section = unit_settings::compiled(self, unit).section.clone();
        self.units.history_mut(unit).checking = Some(id);
        self.outbox.effects.push(Effect::CheckConditions { id, unit, section });
    }

    /// Serves the answer to a check of conditions; returns whether it was one.
    pub(crate) fn conditions_done(
        &mut self,
        unit: UnitId,
        effect: EffectId,
        result: &Done,
    ) -> bool {
        if self.units.run(unit).history.as_ref().and_then(|h| h.checking) != Some(effect) {
            return false;
        }
        let now = self.times.now;
        self.units.history_mut(unit).checking = None;
        let (conditions, asserts) = match result {
            Done::Conditions { conditions, asserts } => {
                self.keep_verdicts(unit, conditions, asserts);
                (conditions.holds, asserts.holds)
            }
            _ => (false, true),
        };
        let history = self.units.history_mut(unit);
        history.conditions = Some((now, conditions));
        if conditions {
            history.asserts = Some((now, asserts));
        }
        history.skipped &= !conditions;
        let Some(job) = self.units.run(unit).job.as_ref() else { return true };
        let cause = job.reason.cause;
        if !conditions {
            // Units that are skipped at every start of something else are told of once.
            let again = self.units.run(unit).history.as_ref().is_some_and(|h| h.skipped);
            self.units.history_mut(unit).skipped = true;
            let reason = Reason::new(Code::ConditionFailed, cause);
            self.units.history_mut(unit).reason = reason;
            if !again {
                self.outbox.tell(Notice::Log { unit, reason, detail: String::new() });
            }
            ends::finish_job(
                self,
                unit,
                JobResult::Done,
                Reason::new(Code::ConditionFailed, cause),
            );
        } else if !asserts {
            state_change::note(self, unit, Code::AssertFailed, cause, String::new());
            ends::finish_job(self, unit, JobResult::Assert, Reason::new(Code::AssertFailed, cause));
        } else if cleanup::waits_for_clearing(self, unit) {
            halves::wait_again(self, unit);
        } else if let Turn::Over(result, reason) = self.start_checked(unit) {
            ends::finish_job(self, unit, result, reason);
        }
        true
    }

    /// Which conditions and assertions were not met, for those who ask. Where all are, nothing is
    /// kept.
    fn keep_verdicts(&mut self, unit: UnitId, conditions: &Verdict, asserts: &Verdict) {
        let kept = |verdict: &Verdict| match verdict.each.iter().all(|&one| one == Tested::Met) {
            true => Box::default(),
            false => verdict.each.clone(),
        };
        // Assertions are not looked at where conditions do not hold.
        let asserts = if conditions.holds { kept(asserts) } else { Box::default() };
        let account = self.units.history_mut(unit).account_mut();
        (account.conditions, account.asserts) = (kept(conditions), asserts);
        self.units.history_mut(unit).drop_empty_account();
    }

    /// What came of conditions and assertions says nothing of those that an edit has put in their place: these were
    /// not looked at, as systemd 252 has it.
    pub(crate) fn forget_tests_of_others(&mut self, unit: UnitId, before: &Graph) {
        let account =
            self.units.run(unit).history.as_ref().and_then(|history| history.account.as_ref());
        let is_told = account.is_some_and(|a| !a.conditions.is_empty() || !a.asserts.is_empty());
        let Some(was) = before.get(unit).filter(|_| is_told) else { return };
        let (was, is) = (self.settings().compile(was), unit_settings::compiled(self, unit));
        let (was, is) = (&was.section, &is.section);
        let account = self.units.history_mut(unit).account_mut();
        for (was, is, tested) in [
            (&was.conditions, &is.conditions, &mut account.conditions),
            (&was.asserts, &is.asserts, &mut account.asserts),
        ] {
            if !tested.is_empty() && was != is {
                *tested = vec![Tested::Untested; is.len()].into();
            }
        }
        self.units.history_mut(unit).drop_empty_account();
    }

    // ---- stop and reload, by type ----

    /// Begins to stop a unit that is up or coming.
    pub(crate) fn stop_unit(&mut self, unit: UnitId, reason: Reason) {
        self.units.history_mut(unit).reason = reason;
        if let Some(id) = self.units.run_mut(unit).history.as_mut().and_then(|h| h.checking.take())
        {
            self.outbox.forget_effect(id);
        }
        match self.graph.definition(unit).unit_type() {
            UnitType::Service => self.service_stop(unit),
            UnitType::Socket => self.socket_stop(unit),
            UnitType::Mount | UnitType::Swap => self.mount_stop(unit),
            UnitType::Automount => self.automount_stop(unit),
            UnitType::Slice => self.slice_stop(unit),
            UnitType::Target => {
                state_change::transit(self, unit, false, |run| run.state = TypeState::Target(false))
            }
            _ => {}
        }
    }

    /// Begins to reload a unit that is active.
    pub(crate) fn reload_unit(&mut self, unit: UnitId, reason: Reason) -> Turn {
        match self.graph.definition(unit).unit_type() {
            UnitType::Service => self.service_reload(unit),
            UnitType::Mount if !self.mount_reload(unit) => {
                let reason = Reason::new(Code::ReloadFailed, reason.cause);
                return Turn::Over(JobResult::Failed, reason);
            }
            // Others only pass it on.
            _ => {}
        }
        match self.units.active_state(unit) {
            ActiveState::Active => Turn::Over(JobResult::Done, reason),
            _ => Turn::Begun,
        }
    }

    // ---- targets and slices ----

    fn target_start(&mut self, unit: UnitId) {
        state_change::transit(self, unit, false, |run| run.state = TypeState::Target(true));
    }

    fn slice_start(&mut self, unit: UnitId) {
        let id = self.outbox.new_effect(unit);
        let settings = unit_settings::compiled(self, unit);
        state_change::transit(self, unit, false, |run| {
            run.state = TypeState::Slice(Slice::Asked(id))
        });
        self.outbox.effects.push(Effect::MakeCgroup { id, unit, settings });
    }

    pub(crate) fn slice_done(&mut self, unit: UnitId, effect: EffectId, result: Done) {
        if self.units.run(unit).state != TypeState::Slice(Slice::Asked(effect)) {
            return;
        }
        let made = match result {
            Done::Failed { error } => {
                state_change::note(self, unit, Code::Resources, Cause::Kernel, error);
                Slice::Dead
            }
            _ => Slice::Active,
        };
        self.units.history_mut(unit).has_cgroup = made == Slice::Active;
        let outcome = if made == Slice::Active { Outcome::Success } else { Outcome::Resources };
        self.units.history_mut(unit).outcome = outcome;
        state_change::transit(self, unit, false, |run| run.state = TypeState::Slice(made));
    }

    fn slice_stop(&mut self, unit: UnitId) {
        if let TypeState::Slice(Slice::Asked(id)) = self.units.run(unit).state {
            self.outbox.forget_effect(id);
        }
        let settings = unit_settings::compiled(self, unit);
        self.units.history_mut(unit).has_cgroup = false;
        self.outbox.effects.push(Effect::CleanUp { unit, settings, restarting: false });
        state_change::transit(self, unit, false, |run| run.state = TypeState::Slice(Slice::Dead));
    }
}
