//! Freezing services: their processes stay as they are and get no processor (cgroup-v2.rst,
//! `cgroup.freeze`; systemctl(1), `freeze`).
//!
//! What changes the state of a frozen unit thaws it first: stop commands and what a reload runs would
//! wait in its group for ever, and so would processes that are asked to end.

use crate::machine::Core;
use crate::model::ids::{ClientId, EffectId, UnitId};
use crate::model::state::{Freezer, TypeState};
use crate::protocol::event::{Done, Effect};
use crate::protocol::request::{Refusal, Reply};

impl Core {
    /// A client wants a unit frozen or thawed. The answer comes when the kernel has done so, or now if
    /// it is so already.
    pub(crate) fn freeze_request(
        &mut self,
        client: ClientId,
        unit: UnitId,
        frozen: bool,
    ) -> Result<Option<Reply>, Refusal> {
        let name = || self.graph.name(unit).clone();
        if !matches!(self.units.run(unit).state, TypeState::Service(_))
            || self.resources.without_cgroups
        {
            return Err(Refusal::CannotFreeze(name()));
        }
        if self.units.active_state(unit).is_down() {
            return Err(Refusal::Inactive);
        }
        if self.units.run(unit).job.is_some() {
            return Err(Refusal::HasJob(name()));
        }
        match (self.units.freezer(unit), frozen) {
            (Freezer::Frozen, true) | (Freezer::Running, false) => return Ok(Some(Reply::Done)),
            (Freezer::Freezing(_) | Freezer::Thawing(_), _) => {
                return Err(Refusal::FreezerBusy(name()));
            }
            (Freezer::Running, true) | (Freezer::Frozen, false) => {}
        }
        let id = self.outbox.new_effect(unit);
        let freezer = if frozen { Freezer::Freezing(id) } else { Freezer::Thawing(id) };
        self.units.history_mut(unit).freezer = freezer;
        self.outbox.effects.push(Effect::Freeze { id, unit, frozen });
        self.outbox.freeze_waiters.insert(id, client);
        Ok(None)
    }

    /// Serves the answer to an effect that froze or thawed; returns whether it was one.
    pub(crate) fn freezer_done(&mut self, unit: UnitId, effect: EffectId, result: &Done) -> bool {
        let freezer = self.units.freezer(unit);
        if freezer.asked() != Some(effect) {
            return false;
        }
        let was_asked_to_freeze = matches!(freezer, Freezer::Freezing(_));
        let is_done = !matches!(result, Done::Failed { .. });
        let is_frozen = was_asked_to_freeze == is_done;
        self.units.history_mut(unit).freezer =
            if is_frozen { Freezer::Frozen } else { Freezer::Running };
        match is_frozen {
            // Who cannot run cannot say that he lives.
            true => self.units.service_mut(unit).watchdog_deadline = None,
            false if self.is_guarded(unit) => self.arm_watchdog(unit),
            false => {}
        }
        let reply = match result {
            Done::Failed { error } => Reply::Refused(Refusal::Kernel(error.clone())),
            _ => Reply::Done,
        };
        self.answer_freezer(effect, reply);
        true
    }

    /// The state of a frozen unit changes: it is to run again, and who waited for it to be frozen hears
    /// of that. It counts as frozen until the kernel has thawed it; what is down has nobody to wait for.
    pub(crate) fn thaw_first(&mut self, unit: UnitId) {
        let (freezer, is_down) =
            (self.units.freezer(unit), self.units.active_state(unit).is_down());
        let is_thawing = matches!(freezer, Freezer::Thawing(_));
        if freezer == Freezer::Running || is_thawing && !is_down {
            return;
        }
        if let Some(asked) = freezer.asked() {
            self.outbox.forget_effect(asked);
            let reply = match is_thawing {
                true => Reply::Done,
                false => Reply::Refused(Refusal::FreezerBusy(self.graph.name(unit).clone())),
            };
            self.answer_freezer(asked, reply);
        }
        self.units.history_mut(unit).freezer = Freezer::Running;
        if is_thawing {
            return;
        }
        let id = self.outbox.new_effect(unit);
        match is_down {
            true => self.outbox.forget_effect(id),
            false => self.units.history_mut(unit).freezer = Freezer::Thawing(id),
        }
        self.outbox.effects.push(Effect::Freeze { id, unit, frozen: false });
    }

    fn answer_freezer(&mut self, effect: EffectId, reply: Reply) {
        if let Some(client) = self.outbox.freeze_waiters.remove(&effect) {
            self.outbox.effects.push(Effect::Reply { client, reply });
        }
    }

    /// What was under way when the last manager ended is asked for again.
    pub(crate) fn resume_freezer(&mut self, unit: UnitId) {
        let freezer = self.units.freezer(unit);
        if let Some(id) = freezer.asked() {
            let frozen = matches!(freezer, Freezer::Freezing(_));
            self.outbox.expect_effect(id, unit);
            self.outbox.effects.push(Effect::Freeze { id, unit, frozen });
        }
    }
}
