//! Automounts: a trap in the file system that mounts when somebody walks in
//! (systemd.automount(5)).

use crate::features::start_limit;
use crate::jobs::install;
use crate::machine::Core;
use crate::model::active_state::ActiveState;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::{JobMode, JobType};
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code};
use crate::model::state::*;
use crate::parts::unit_settings;
use crate::protocol::event::{Done, Effect};
use crate::state_change;
use warren_unit::{LoadState, Relation, UnitType};

/// Processes that may wait in one trap; the kernel merges waits, so this is never reached in earnest.
const WAITERS_MAX: usize = 4096;

/// Answers that are kept for the next incarnation.
const ANSWERS_KEPT: usize = 64;

impl Core {
    /// The mount of its path, which has its name. One whose file is gone names nobody any more, but
    /// its trap is set: who waits in it is let in by that mount all the same.
    fn mount_behind(&self, unit: UnitId) -> Option<UnitId> {
        let named = self.graph.related(unit, Relation::Triggers).next();
        named.or_else(|| self.graph.namesake(unit, UnitType::Mount))
    }

    fn set_running(&mut self, unit: UnitId, running: bool) {
        state_change::transit(self, unit, false, |run| {
            if let TypeState::Automount(Automount::Up(automount)) = &mut run.state {
                automount.running = running;
            }
        });
    }

    /// A trap is not set over a mount, nor where nobody could mount anything.
    pub(crate) fn automount_refused_to_start(&mut self, unit: UnitId) -> bool {
        let Some(mount) = self.mount_behind(unit) else { return false };
        // A trap is set when what goes before it has gone.
        let goes = self.resources.unmounted_unheard.contains(&mount);
        let why = if self.units.active_state(mount).is_up() && !goes {
            "is mounted already"
        } else if self.graph.definition(mount).load_state != LoadState::Loaded {
            "is not there"
        } else {
            return false;
        };
        let detail = format!("{} {why}", self.graph.name(mount));
        state_change::refuse_to_start(self, unit, Code::MountFailed, detail);
        true
    }

    pub(crate) fn automount_start(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let id = self.outbox.new_effect(unit);
        let run = AutomountRun {
            asked: Some(id),
            running: false,
            missing: Vec::new(),
            expiring: Vec::new(),
            answered: Vec::new(),
            closing: None,
        };
        let history = self.units.history_mut(unit);
        history.outcome = Outcome::Success;
        history.status_text = String::new();
        state_change::transit(self, unit, false, |u| {
            u.state = TypeState::Automount(Automount::Up(Part::new(run)))
        });
        self.outbox.effects.push(Effect::SetTrap { id, unit, settings });
    }

    pub(crate) fn automount_done(&mut self, unit: UnitId, effect: EffectId, result: Done) {
        let Some(run) = self.units.automount(unit).filter(|run| run.asked == Some(effect)) else {
            return;
        };
        match (run.closing, result) {
            (Some(outcome), _) => self.automount_gone(unit, outcome),
            (None, Done::Failed { error }) => {
                state_change::note(self, unit, Code::MountFailed, Cause::Kernel, error.clone());
                self.units.history_mut(unit).status_text = error;
                self.automount_gone(unit, Outcome::Resources);
            }
            (None, _) => state_change::transit(self, unit, false, |u| {
                if let TypeState::Automount(Automount::Up(run)) = &mut u.state {
                    run.asked = None;
                }
            }),
        }
    }

    pub(crate) fn automount_stop(&mut self, unit: UnitId) {
        self.automount_dead(unit, Outcome::Success);
    }

    /// Takes the trap away; one that is still being made is waited for, or it would stay.
    fn automount_dead(&mut self, unit: UnitId, outcome: Outcome) {
        let Some(run) = self.units.automount(unit) else { return };
        if run.asked.is_some() {
            return state_change::transit(self, unit, false, |u| {
                if let TypeState::Automount(Automount::Up(run)) = &mut u.state {
                    run.closing = Some(outcome);
                }
            });
        }
        self.automount_gone(unit, outcome);
    }

    fn automount_gone(&mut self, unit: UnitId, outcome: Outcome) {
        self.answer_missing(unit, false);
        self.answer_expiring(unit, false);
        let mount = self.mount_behind(unit).filter(|&mount| self.units.active_state(mount).is_up());
        self.resources.unmounted_unheard.extend(mount);
        self.outbox.effects.push(Effect::WatchIdle { unit, on: false });
        self.outbox.effects.push(Effect::CloseTrap { unit });
        self.units.history_mut(unit).outcome = outcome;
        let state =
            if outcome == Outcome::Success { Automount::Dead } else { Automount::Failed(outcome) };
        state_change::transit(self, unit, false, |u| u.state = TypeState::Automount(state));
    }

    fn answer_missing(&mut self, unit: UnitId, ok: bool) {
        let tokens = std::mem::take(&mut self.units.automount_mut(unit).missing);
        self.answer(unit, tokens, ok);
    }

    fn answer_expiring(&mut self, unit: UnitId, ok: bool) {
        let tokens = std::mem::take(&mut self.units.automount_mut(unit).expiring);
        self.answer(unit, tokens, ok);
    }

    fn answer(&mut self, unit: UnitId, tokens: Vec<u32>, ok: bool) {
        if tokens.is_empty() {
            return;
        }
        let answered = &mut self.units.automount_mut(unit).answered;
        answered.extend(tokens.iter().map(|&token| (token, ok)));
        answered.drain(..answered.len().saturating_sub(ANSWERS_KEPT));
        self.outbox.effects.push(Effect::AnswerTrap { unit, tokens, ok });
    }

    /// Gives the last answers again, after a restart of the manager.
    pub(crate) fn answer_again(&mut self, unit: UnitId) {
        let answered =
            self.units.automount(unit).map(|run| run.answered.clone()).unwrap_or_default();
        for (token, ok) in answered {
            self.outbox.effects.push(Effect::AnswerTrap { unit, tokens: vec![token], ok });
        }
    }

    /// Somebody walked in and waits for the mount.
    pub(crate) fn trap_hit(&mut self, unit: UnitId, token: u32) {
        if self.units.known(unit).is_none() || self.units.automount(unit).is_none() {
            return;
        }
        if self.units.automount_mut(unit).missing.len() >= WAITERS_MAX {
            return self.answer(unit, vec![token], false);
        }
        self.units.automount_mut(unit).missing.push(token);
        if let Some(code) = self.lets_nobody_in(unit) {
            state_change::note(self, unit, code, Cause::None, String::new());
            return self.automount_dead(unit, Outcome::Resources);
        }
        let Some(mount) = self.mount_behind(unit) else {
            return self.answer_missing(unit, false);
        };
        if self.units.active_state(mount).is_up() {
            return self.answer_missing(unit, true);
        }
        let stop_comes =
            self.units.run(unit).job.as_ref().is_some_and(|job| job.kind.is_stopping())
                || self.units.automount_mut(unit).closing.is_some();
        if stop_comes
            || !install::enqueue_quietly(
                self,
                mount,
                JobType::Start,
                JobMode::Replace,
                Cause::Trigger(unit),
            )
        {
            return self.answer_missing(unit, false);
        }
        // If it could be begun: the answer may have come already.
        if self.units.automount(unit).is_some_and(|run| !run.running && !run.missing.is_empty()) {
            self.set_running(unit, true);
        }
    }

    /// The mount behind was idle for `TimeoutIdleSec=`.
    pub(crate) fn trap_idle(&mut self, unit: UnitId, token: u32) {
        if self.units.known(unit).is_none() || self.units.automount(unit).is_none() {
            return;
        }
        self.units.automount_mut(unit).expiring.push(token);
        let Some(mount) = self.mount_behind(unit) else {
            return self.answer_expiring(unit, false);
        };
        if self.units.active_state(mount).is_down() {
            return self.answer_expiring(unit, true);
        }
        let cause = Cause::Trigger(unit);
        if !install::enqueue_quietly(self, mount, JobType::Stop, JobMode::Replace, cause) {
            self.answer_expiring(unit, false);
        }
    }

    /// Somebody unmounted the trap itself.
    pub(crate) fn trap_gone(&mut self, unit: UnitId) {
        if self.units.known(unit).is_some() && self.units.automount(unit).is_some() {
            state_change::note(self, unit, Code::Vanished, Cause::Kernel, String::new());
            self.automount_dead(unit, Outcome::Unmounted);
        }
    }

    /// The mount was started too often: nobody is let in any more.
    fn mount_limit(&mut self, unit: UnitId) {
        let cause = self.mount_behind(unit).map_or(Cause::None, Cause::Dependency);
        state_change::note(self, unit, Code::ServiceLimit, cause, String::new());
        self.automount_dead(unit, Outcome::MountStartLimitHit);
    }

    /// The mount behind the trap, in `state`, has no job any more.
    pub(crate) fn automount_job_ended(&mut self, unit: UnitId, state: ActiveState) {
        if self.units.automount(unit).is_none() {
            return;
        }
        match state {
            s if s.is_down() => {
                if self
                    .mount_behind(unit)
                    .is_some_and(|mount| start_limit::hit_start_limit(self, mount))
                {
                    return self.mount_limit(unit);
                }
                self.answer_missing(unit, false);
                self.answer_expiring(unit, true);
                self.set_running(unit, false);
            }
            s if s.is_up() => {
                self.answer_missing(unit, true);
                self.answer_expiring(unit, false);
            }
            _ => {}
        }
    }

    /// The mount behind the trap has changed its state.
    pub(crate) fn automount_mount_changed(
        &mut self,
        unit: UnitId,
        mount: UnitId,
        old: ActiveState,
        new: ActiveState,
    ) {
        if self.units.automount(unit).is_none() {
            return;
        }
        if new.is_up() && !old.is_up() {
            self.answer_missing(unit, true);
            self.set_running(unit, true);
            let settings = unit_settings::compiled(self, unit);
            if settings.automount().timeout_idle.is_some() {
                self.outbox.effects.push(Effect::WatchIdle { unit, on: true });
            }
        }
        if old == ActiveState::Deactivating && new.is_up() {
            self.answer_expiring(unit, false);
        }
        if new.is_down() {
            self.outbox.effects.push(Effect::WatchIdle { unit, on: false });
            self.answer_expiring(unit, true);
            if start_limit::hit_start_limit(self, mount) {
                return self.mount_limit(unit);
            }
            if new == ActiveState::Failed || self.units.run(mount).job.is_none() {
                self.answer_missing(unit, false);
            }
            self.set_running(unit, false);
        }
    }
}
