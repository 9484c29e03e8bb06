//! The answer of `Timers`. Read from the published view by a thread of the control socket.

use std::sync::Arc;

use warren_bus::backend::Backend;
use warren_core::graph::Definition;
use warren_core::model::ids::UnitId;
use warren_core::model::state::{Timer, TimerMemory, TypeState};
use warren_core::model::time::Moment;
use warren_core::view::View;
use warren_unit::{LoadState, Relation, UnitType};
use warren_wire::control::{ActiveState, TimerRow, TimersAnswer};

use crate::base::clock::now;
use crate::published::shared::Shared;

/// The answer.
pub(crate) fn timers(shared: &Shared) -> TimersAnswer {
    let (view, now) = (shared.view(), now());
    let is_timer = |definition: &&Arc<Definition>| {
        let is_up = !view.active_state(definition.id).is_down();
        definition.unit_type() == UnitType::Timer
            && (definition.load_state == LoadState::Loaded || is_up)
    };
    let timers = view.graph.definitions().filter(is_timer);
    let mut timers: Vec<TimerRow> = timers.map(|d| row(&view, now, d)).collect();
    timers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    TimersAnswer { now_us: now.realtime_us, timers }
}

/// The row of a unit, if it is a timer.
pub(crate) fn of_unit(view: &View, unit: UnitId) -> Option<TimerRow> {
    let definition = view.definition(unit);
    (definition.unit_type() == UnitType::Timer).then(|| row(view, now(), definition))
}

/// The row of a timer.
pub(crate) fn row(view: &View, now: Moment, definition: &Definition) -> TimerRow {
    let run = view.run(definition.id);
    let memory: TimerMemory =
        run.history.as_ref().and_then(|history| history.timer).unwrap_or_default();
    let behind = view.graph.related(definition.id, Relation::Triggers).next();
    let active = |unit: UnitId| ActiveState::from(view.active_state(unit).as_str());
    TimerRow {
        name: definition.name.to_string(),
        active: active(definition.id),
        sub: view.sub_state(definition.id).to_owned(),
        unit: behind.map_or(String::new(), |unit| view.graph.name(unit).to_string()),
        unit_active: behind.map(active).unwrap_or_default(),
        next_us: next_us(&run.state, now),
        last_us: Some(memory.last_trigger.realtime_us).filter(|&at| at > 0),
        took_us: behind.and_then(|unit| took_us(view, now, unit)),
        missed: memory.missed.into(),
    }
}

/// The earlier of both clocks' elapses, on the wall clock.
fn next_us(state: &TypeState, now: Moment) -> Option<u64> {
    let TypeState::Timer(Timer::Up(run)) = state else { return None };
    let by_span = run.next_monotonic.map(|at| {
        let left = at.since(now.monotonic).as_micros();
        now.realtime_us.saturating_add(u64::try_from(left).unwrap_or(u64::MAX))
    });
    run.next_realtime_us.into_iter().chain(by_span).min()
}

/// How long the last run took, or has taken so far.
fn took_us(view: &View, now: Moment, unit: UnitId) -> Option<u64> {
    let history = view.run(unit).history.as_ref()?;
    let begin = Some(history.inactive_exit).filter(|at| !at.is_never())?;
    let end = match view.active_state(unit).is_down() {
        true => history.inactive_enter.monotonic,
        false => now.monotonic,
    };
    u64::try_from(end.since(begin.monotonic).as_micros()).ok()
}
