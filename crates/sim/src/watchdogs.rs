//! Watchdogs: who says that something is wrong, or has promised to speak and is silent, is ended
//! (sd_notify(3), `WATCHDOG=` and `WATCHDOG_USEC=`).

use std::collections::BTreeMap;

use warren_core::machine::Core;
use warren_core::model::ids::UnitId;
use warren_core::protocol::event::{Event, Notify};
use warren_core::settings::TypeSettings;

use crate::world::World;

/// How late it may be noticed, µs.
const LATE_US: u64 = 1_000_000;

/// What a service has promised.
#[derive(Clone, Copy, Debug)]
struct Promise {
    invocation: u128,
    interval_us: u64,
    /// When it is to speak at the latest, µs.
    until: u64,
}

/// What services that run have promised by `WATCHDOG_USEC=`.
#[derive(Clone, Debug, Default)]
pub struct Watchdogs {
    promises: BTreeMap<UnitId, Promise>,
}

impl Watchdogs {
    /// An event comes in.
    pub fn hear(&mut self, core: &Core, now: u64, event: &Event) {
        let Some((unit, message)) = heard(core, event) else { return };
        let history = core.unit_run(unit).history.as_ref();
        let invocation = history.map_or(0, |history| history.invocation);
        match (message.watchdog_us, self.promises.get_mut(&unit)) {
            (Some(0), _) => _ = self.promises.remove(&unit),
            (Some(interval_us), _) => {
                let promise = Promise { invocation, interval_us, until: now + interval_us };
                self.promises.insert(unit, promise);
            }
            (None, Some(promise)) if message.watchdog => promise.until = now + promise.interval_us,
            _ => {}
        }
    }

    /// `silent`: nobody is up that is silent for longer than it has promised.
    pub fn at_rest(&self, world: &World) -> Vec<String> {
        let (core, now) = (&world.core, world.kernel.now);
        let is_late = |&(&unit, promise): &(&UnitId, &Promise)| {
            let run = core.unit_run(unit);
            let is_same = run.history.as_ref().is_some_and(|h| h.invocation == promise.invocation);
            // Of one that has exited and remains nobody is left to be silent.
            let is_up = is_same && run.active_state().is_up() && run.sub_state() != "exited";
            is_up && now > promise.until + LATE_US && !world.kernel.frozen.contains_key(&unit)
        };
        let late = self.promises.iter().filter(is_late);
        late.map(|(&unit, _)| format!("silent: {} stays up", world.name(unit))).collect()
    }
}

/// What a service says that runs and is to be heard.
fn heard<'a>(core: &Core, event: &'a Event) -> Option<(UnitId, &'a Notify)> {
    let Event::Notify { unit, pid, message } = event else { return None };
    let definition = core.graph().get(*unit)?;
    let compiled = core.settings().compile(definition);
    let TypeSettings::Service(config) = &compiled.own else { return None };
    let runs = core.unit_run(*unit).sub_state() == "running";
    (runs && core.hears(*unit, *pid, config.notify_access)).then_some((*unit, message))
}

/// A service that says `WATCHDOG=trigger`.
pub fn triggered(core: &Core, event: &Event) -> Option<UnitId> {
    heard(core, event).filter(|(_, message)| message.watchdog_trigger).map(|(unit, _)| unit)
}

/// `trigger`: it is ended as if it had been silent for too long, whatever else it says in the same
/// breath.
pub fn ends_by_trigger(core: &Core, triggered: Option<UnitId>) -> Option<String> {
    let unit = triggered.filter(|&unit| core.unit_run(unit).active_state().is_up())?;
    Some(format!("trigger: {} stays up", core.graph().name(unit)))
}
