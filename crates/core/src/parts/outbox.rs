//! Effects: those of this step, and those that are under way.
//!
//! Owns: what the runner is to carry out, what it has to answer, and the trace of what happened.
//! Must not: know what an answer means to the unit that asked.

use crate::model::ids::{ClientId, EffectId, UnitId};
use crate::model::reason::{Cause, Code, Reason};
use crate::model::time::Monotonic;
use crate::parts::trace_queue::TraceQueue;
use crate::protocol::event::{Effect, KillTarget};
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;
use std::collections::BTreeMap;
use warren_unit::config::EmergencyAction;

/// What goes out of the machine.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// What is to be done at the end of this step, in order.
    pub effects: Vec<Effect>,
    /// What happened, until the runner takes it.
    pub trace: TraceQueue,
    /// The machine ends by other means than jobs: no command of a unit begins any more. Mounts may still go.
    pub given_up: bool,
    /// What service watchdogs and limits ask for is not done (systemctl(1), "service-watchdogs").
    pub ignores_watchdogs: bool,
    /// Who waits for a unit to be frozen or thawed, by the effect.
    pub waiting_clients: BTreeMap<EffectId, ClientId>,
    next_id: EffectId,
    /// Effects under way, and the unit that asked for each.
    pending: BTreeMap<EffectId, UnitId>,
    /// Spawns whose unit is down already, because it does not wait for them any longer: a process that
    /// comes of one is killed. One of them is forgotten when it is answered.
    too_late: BTreeMap<EffectId, UnitId>,
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox {
            effects: Vec::new(),
            trace: TraceQueue::default(),
            given_up: false,
            ignores_watchdogs: false,
            waiting_clients: BTreeMap::new(),
            next_id: EffectId(1),
            pending: BTreeMap::new(),
            too_late: BTreeMap::new(),
        }
    }
}

impl Outbox {
    /// What is to be done. Once the machine ends without stops, nothing is run, opened or mounted any more.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let begins = |effect: &Effect| {
            use Effect::{Listen, Mount, SetTrap, Spawn};
            matches!(effect, Spawn(..) | Listen { .. } | Mount { .. } | SetTrap { .. })
        };
        let mut effects = std::mem::take(&mut self.effects);
        if self.given_up {
            effects.retain(|effect| !begins(effect));
        }
        effects
    }

    pub fn tell(&mut self, notice: Notice) {
        self.effects.push(Effect::Tell(notice));
    }

    /// Has the machine rebooted or the like, if a unit's settings say so.
    pub fn emergency(
        &mut self,
        action: EmergencyAction,
        unit: UnitId,
        status: Option<u8>,
        argument: &Option<Box<str>>,
    ) {
        if action != EmergencyAction::None {
            let argument = argument.clone();
            self.effects.push(Effect::Emergency { action, unit, status, argument });
        }
    }

    /// The same for a limit that was reached, unless such are ignored, which the log is told.
    pub fn limit_emergency(
        &mut self,
        (setting, action): (&'static str, EmergencyAction),
        unit: UnitId,
        argument: &Option<Box<str>>,
    ) {
        if !self.ignores_watchdogs || action == EmergencyAction::None {
            return self.emergency(action, unit, None, argument);
        }
        let reason = Reason::new(Code::WatchdogIgnored, Cause::None);
        self.tell(Notice::Log { unit, reason, detail: format!("{setting}={}", action.as_str()) });
    }

    /// A new effect of `unit`, pending until it is done.
    pub fn new_effect(&mut self, unit: UnitId) -> EffectId {
        let id = self.next_id;
        self.next_id = EffectId(id.0 + 1);
        self.pending.insert(id, unit);
        id
    }

    /// The id that the next effect gets.
    pub fn next_id(&self) -> EffectId {
        self.next_id
    }

    /// Goes on where the last manager was.
    pub fn set_next_id(&mut self, id: EffectId) {
        self.next_id = id;
    }

    /// The answer to this effect no longer matters.
    pub fn forget_effect(&mut self, id: EffectId) {
        self.pending.remove(&id);
    }

    /// The effect is done: the unit that asked for it, if it still waits for that.
    pub fn take_pending(&mut self, id: EffectId) -> Option<UnitId> {
        self.pending.remove(&id)
    }

    /// The same effect again, after a restart of the manager.
    pub fn expect_effect(&mut self, id: EffectId, unit: UnitId) {
        self.pending.insert(id, unit);
    }

    /// The unit that asked for an effect under way.
    pub fn unit_of(&self, id: EffectId) -> Option<UnitId> {
        self.pending.get(&id).copied()
    }

    /// How many effects are under way.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// No unit waits for this spawn any more, as its unit is down.
    pub fn come_too_late(&mut self, id: EffectId, unit: UnitId) {
        self.forget_effect(id);
        self.too_late.insert(id, unit);
    }

    /// The unit of a spawn that came too late, which is answered now.
    pub fn take_too_late(&mut self, id: EffectId) -> Option<UnitId> {
        self.too_late.remove(&id)
    }

    /// Notes what happened to a unit.
    pub fn happened(&mut self, at: Monotonic, unit: UnitId, what: What) {
        self.trace.push(at, unit, what);
    }

    /// Notes the signals among these effects: they have many senders and one way out.
    pub fn note_signals(&mut self, at: Monotonic, effects: &[Effect]) {
        const SIGKILL: i32 = 9;
        for effect in effects {
            let (unit, target, signal) = match *effect {
                // Signal 0 only checks that a process exists.
                Effect::Kill { unit, target, signal, .. } if signal != 0 => (unit, target, signal),
                Effect::KillGroup { unit } => (unit, KillTarget::Group, SIGKILL),
                _ => continue,
            };
            self.happened(at, unit, What::Signal { target, signal });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_pending_until_it_is_answered_and_one_too_late_until_it_is_answered() {
        let mut outbox = Outbox::default();
        let (one, two) = (outbox.new_effect(UnitId(3)), outbox.new_effect(UnitId(4)));
        assert_eq!((one, two, outbox.next_id()), (EffectId(1), EffectId(2), EffectId(3)));
        outbox.come_too_late(two, UnitId(4));
        assert_eq!((outbox.unit_of(one), outbox.unit_of(two)), (Some(UnitId(3)), None));
        assert_eq!(outbox.take_pending(one), Some(UnitId(3)));
        assert_eq!(outbox.pending_count(), 0);
        assert_eq!(outbox.take_too_late(two), Some(UnitId(4)));
        assert_eq!(outbox.take_too_late(two), None);
    }

    #[test]
    fn nothing_begins_when_the_machine_ends_without_stops() {
        let mut outbox = Outbox { given_up: true, ..Outbox::default() };
        outbox.effects.push(Effect::KillGroup { unit: UnitId(1) });
        let accept = false;
        outbox.effects.push(Effect::WatchSockets { unit: UnitId(1), on: false, accept });
        let settings = crate::settings::Settings {
            context: std::sync::Arc::new(warren_unit::Context::system()),
            defaults: std::sync::Arc::new(warren_unit::Defaults::default()),
        };
        let name = warren_unit::UnitName::parse("a.mount").expect("a valid name");
        let graph = crate::graph::Graph::with_names(vec![Some(name)]);
        let settings = std::sync::Arc::new(settings.compile(graph.definition(UnitId(0))));
        outbox.effects.push(Effect::SetTrap { id: EffectId(1), unit: UnitId(0), settings });
        assert_eq!(outbox.take_effects().len(), 2);
        assert!(outbox.take_effects().is_empty());
    }
}
