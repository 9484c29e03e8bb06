//! Timers: units that start another one at a time (systemd.timer(5)).
//!
//! Start at [`start`]. What a timer waits for next is written into its run state, so that neither a reload nor
//! another manager asks again; `plan` is how it is found. A timer waits with one deadline in [`Deadlines`], like
//! any other unit.
//!
//! [`Deadlines`]: crate::parts::deadlines::Deadlines

pub(crate) mod plan;

use crate::graph::Graph;
use crate::jobs::install;
use crate::model::active_state::ActiveState;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::{JobKind, JobMode, JobType};
use crate::model::part::Part;
use crate::model::process::Outcome;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::{Timer, TimerPhase, TimerRun, TypeState};
use crate::model::time::Monotonic;
use crate::parts::Core;
use crate::parts::unit_settings;
use crate::protocol::event::{Done, Effect, TimerFiles};
use crate::relations::triggers;
use crate::state_change;
use plan::Anew;
use std::time::Duration;
use warren_calendar::Zone;
use warren_unit::LoadState;
use warren_unit::config::TimerConfig;
use warren_unit::settings::{Group, Id};

const ON_CLOCK_CHANGE: Id = Id::of(Group::Timer, "OnClockChange");

/// A timer's stamp or last run may lie so far ahead of the clock before the clock is taken to have been wrong then.
pub(crate) const AHEAD_MAX_US: u64 = 60_000_000;

/// A timer whose unit is not there would start nothing.
pub(crate) fn refused_to_start(core: &mut Core, unit: UnitId) -> bool {
    let Some(behind) = triggers::behind(&core.graph, unit) else { return false };
    if core.graph.definition(behind).load_state == LoadState::Loaded {
        return false;
    }
    let detail = format!("{} is not there", core.graph.name(behind));
    state_change::refuse_to_start(core, unit, Code::NotLoaded, detail);
    true
}

pub(crate) fn start(core: &mut Core, unit: UnitId) {
    let now = core.times.now;
    let settings = unit_settings::compiled(core, unit);
    let run = TimerRun {
        phase: TimerPhase::Waiting,
        asked: None,
        calendar_from_us: now.realtime_us,
        spans_from: Monotonic(0),
        delay_us: None,
        next_realtime_us: None,
        next_monotonic: None,
        due: None,
        accuracy_us: 0,
        wakes: settings.timer().wake_system,
    };
    let history = core.units.history_mut(unit);
    history.outcome = Outcome::Success;
    history.status_text = String::new();
    core.resources.timers.insert(unit);
    state_change::transit(core, unit, false, |u| {
        u.state = TypeState::Timer(Timer::Up(Part::new(run)));
    });
    let has_stamp = settings.timer().persistent && settings.timer().calendars().next().is_some();
    look_up_or_plan(core, unit, settings.timer(), has_stamp);
}

/// Finds what comes next; where its stamp file or zones must be read first, when that is done.
fn look_up_or_plan(core: &mut Core, unit: UnitId, config: &TimerConfig, has_stamp: bool) {
    let zones = plan::unread_zones(&core.times, config);
    if !has_stamp && zones.is_empty() {
        return plan::plan(core, unit, Anew::Everything);
    }
    let id = core.outbox.new_effect(unit);
    core.units.timer_mut(unit).asked = Some(id);
    core.outbox.effects.push(Effect::LookUpTimer { id, unit, has_stamp, zones });
}

/// The same again after a restart of the manager.
pub(crate) fn resume(core: &mut Core, unit: UnitId, run: &TimerRun) {
    core.resources.timers.insert(unit);
    let Some(id) = run.asked else {
        // The clock may have been set meanwhile.
        return plan::move_due(core, unit);
    };
    let settings = unit_settings::compiled(core, unit);
    let zones = plan::unread_zones(&core.times, settings.timer());
    let has_stamp = settings.timer().persistent;
    core.outbox.expect_effect(id, unit);
    core.outbox.effects.push(Effect::LookUpTimer { id, unit, has_stamp, zones });
}

pub(crate) fn done(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    if core.units.timer(unit).is_none_or(|run| run.asked != Some(effect)) {
        return;
    }
    core.units.timer_mut(unit).asked = None;
    match result {
        Done::TimerFiles(files) => take_files(core, unit, files),
        Done::Failed { error } => {
            state_change::note(core, unit, Code::Resources, Cause::Kernel, error.clone());
            core.units.history_mut(unit).status_text = error;
        }
        _ => {}
    }
    plan::plan(core, unit, Anew::Everything);
}

fn take_files(core: &mut Core, unit: UnitId, files: TimerFiles) {
    core.times.zones.named.extend(files.zones);
    let now_us = core.times.now.realtime_us;
    let Some(stamp_us) = files.stamp_us else { return };
    // One that is far ahead is of a clock that was wrong.
    if stamp_us <= now_us.saturating_add(AHEAD_MAX_US) {
        core.units.timer_mut(unit).calendar_from_us = stamp_us;
        let memory = core.units.history_mut(unit).timer.get_or_insert_default();
        if memory.last_trigger.realtime_us < stamp_us {
            memory.last_trigger.realtime_us = stamp_us;
        }
    }
}

pub(crate) fn stop(core: &mut Core, unit: UnitId) {
    enter_dead(core, unit, Outcome::Success);
}

pub(crate) fn enter_dead(core: &mut Core, unit: UnitId, outcome: Outcome) {
    if let Some(id) = core.units.timer(unit).and_then(|run| run.asked) {
        core.outbox.forget_effect(id);
    }
    core.resources.timers.remove(&unit);
    core.units.history_mut(unit).outcome = outcome;
    let state = match outcome {
        Outcome::Success => Timer::Dead,
        _ => Timer::Failed(outcome),
    };
    state_change::transit(core, unit, false, |u| u.state = TypeState::Timer(state));
}

pub(crate) fn set_phase(core: &mut Core, unit: UnitId, phase: TimerPhase) {
    state_change::transit(core, unit, false, |run| {
        if let TypeState::Timer(Timer::Up(timer)) = &mut run.state {
            timer.phase = phase;
        }
    });
}

pub(crate) fn give_up(core: &mut Core, unit: UnitId, code: Code, cause: Cause, detail: String) {
    state_change::note(core, unit, code, cause, detail);
    enter_dead(core, unit, Outcome::Resources);
}

/// What the timer waits for may have come.
pub(crate) fn deadline(core: &mut Core, unit: UnitId) {
    let now = core.times.now;
    let Some(run) = core.units.timer(unit) else { return };
    let is_due = run.due.is_some_and(|due| due <= now.monotonic);
    if run.phase != TimerPhase::Waiting || !is_due {
        return;
    }
    let by_calendar = run.next_realtime_us.is_some_and(|at| at <= now.realtime_us);
    let by_span = run.next_monotonic.is_some_and(|at| at <= now.monotonic);
    match by_calendar || by_span {
        true => elapse(core, unit),
        // The clock was set back, and nobody has said so yet.
        false => plan::move_due(core, unit),
    }
}

/// Starts its unit.
pub(crate) fn elapse(core: &mut Core, unit: UnitId) {
    let job = core.units.run(unit).job.as_ref();
    if core.totals.stopping || job.is_some_and(|job| job.kind == JobKind::Stop) {
        core.units.timer_mut(unit).due = None;
        return;
    }
    if let Some(code) = triggers::lets_nobody_in(&core.graph, unit) {
        return give_up(core, unit, code, Cause::None, String::new());
    }
    let Some(behind) = triggers::behind(&core.graph, unit) else {
        return give_up(core, unit, Code::NotLoaded, Cause::None, String::new());
    };
    note_elapse(core, unit);
    set_phase(core, unit, TimerPhase::Running);
    let (kind, mode) = (JobType::Start, JobMode::Replace);
    if !install::enqueue_quietly(core, behind, kind, mode, Cause::Trigger(unit)) {
        give_up(core, unit, Code::DependencyFailed, Cause::Dependency(behind), String::new());
    }
}

/// From now on what comes next counts.
fn note_elapse(core: &mut Core, unit: UnitId) {
    let now = core.times.now;
    let missed = plan::count_missed(core, unit);
    let memory = core.units.history_mut(unit).timer.get_or_insert_default();
    memory.last_trigger = now;
    memory.missed = memory.missed.saturating_add(missed);
    let run = core.units.timer_mut(unit);
    run.calendar_from_us = now.realtime_us;
    run.spans_from = now.monotonic;
    (run.delay_us, run.due) = (None, None);
    (run.next_realtime_us, run.next_monotonic) = (None, None);
    if unit_settings::compiled(core, unit).timer().persistent {
        core.outbox.effects.push(Effect::StampTimer { unit, at_us: now.realtime_us });
    }
}

/// The unit that it starts has changed its state to `new`, or has no job any more.
pub(crate) fn unit_changed(core: &mut Core, unit: UnitId, behind: UnitId, new: ActiveState) {
    let Some(run) = core.units.timer(unit) else { return };
    if triggers::behind(&core.graph, unit) != Some(behind) || run.asked.is_some() {
        return;
    }
    match run.phase {
        TimerPhase::Running if new.is_down() => wait_again(core, unit),
        TimerPhase::Running => {}
        TimerPhase::Waiting | TimerPhase::Elapsed => {
            // The calendar goes on as it did.
            if plan::may_count_from_unit(&core.graph, unit) {
                plan::plan(core, unit, Anew::Spans);
            }
        }
    }
}

/// The unit is down again. What has elapsed meanwhile starts it once more, unless that is not wanted.
fn wait_again(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    if settings.timer().defer_reactivation {
        let missed = plan::count_missed(core, unit);
        let memory = core.units.history_mut(unit).timer.get_or_insert_default();
        memory.missed = memory.missed.saturating_add(missed);
        core.units.timer_mut(unit).calendar_from_us = core.times.now.realtime_us;
    }
    look_up_or_plan(core, unit, settings.timer(), false);
}

/// The wall clock was set, or the machine slept for `slept`.
pub(crate) fn clock_was_set(core: &mut Core, slept: Duration) {
    let now_us = core.times.now.realtime_us;
    for unit in core.resources.timers.clone() {
        if hears_of_clock(core, unit) && is_at_rest(core, unit) {
            elapse(core, unit);
            continue;
        }
        let run = core.units.timer(unit).copied().expect("those that are listed are active");
        if run.wakes && !slept.is_zero() {
            let next = run.next_monotonic.map(|at| at.before(slept));
            core.units.timer_mut(unit).next_monotonic = next;
        }
        // The clock went back past the last run: its times come again. Else they stay where they are.
        if run.calendar_from_us > now_us.saturating_add(AHEAD_MAX_US) {
            core.units.timer_mut(unit).calendar_from_us = now_us;
            plan::plan_if_waiting(core, unit, Anew::Calendar);
        }
        plan::move_due(core, unit);
    }
}

/// `OnClockChange=`; cheap where no file speaks of it.
fn hears_of_clock(core: &mut Core, unit: UnitId) -> bool {
    core.graph.definition(unit).mentions(ON_CLOCK_CHANGE)
        && unit_settings::compiled(core, unit).timer().on_clock_change
}

/// The host is in another time zone.
pub(crate) fn zone_was_set(core: &mut Core, zone: Zone) {
    if core.times.zones.local == zone {
        return;
    }
    core.times.zones.local = zone;
    let now_us = core.times.now.realtime_us;
    for unit in core.resources.timers.clone() {
        let settings = unit_settings::compiled(core, unit);
        if settings.timer().on_timezone_change && is_at_rest(core, unit) {
            elapse(core, unit);
            continue;
        }
        if !settings.timer().persistent {
            core.units.timer_mut(unit).calendar_from_us = now_us;
        }
        plan::plan_if_waiting(core, unit, Anew::Calendar);
    }
}

fn is_at_rest(core: &Core, unit: UnitId) -> bool {
    let rests = |run: &TimerRun| run.phase != TimerPhase::Running && run.asked.is_none();
    core.units.timer(unit).is_some_and(rests)
}

/// A timer that is active was edited: what comes from now on is found by what its files say now. Only
/// `Persistent=` makes up for what lies between the last run and now.
pub(crate) fn plan_anew_if_edited(core: &mut Core, unit: UnitId, before: &Graph) {
    let Some(was) = before.get(unit).filter(|_| core.units.timer(unit).is_some()) else { return };
    let was = core.settings.common.compile_running(was);
    let is = unit_settings::compiled(core, unit);
    if was.own == is.own {
        return;
    }
    let now = core.times.now;
    let run = core.units.timer_mut(unit);
    if !is.timer().persistent {
        run.calendar_from_us = now.realtime_us;
    }
    (run.spans_from, run.delay_us) = (now.monotonic, None);
    run.wakes = is.timer().wake_system;
    let rests = run.phase != TimerPhase::Running && run.asked.is_none();
    if is.timer().persistent && !was.timer().persistent {
        let at_us = core.units.timer_mut(unit).calendar_from_us;
        core.outbox.effects.push(Effect::StampTimer { unit, at_us });
    }
    if rests {
        look_up_or_plan(core, unit, is.timer(), false);
    }
}

/// Why a timer that is active waits for nothing: for those who ask.
pub(crate) fn nothing_left() -> Reason {
    Reason::new(Code::Elapsed, Cause::None)
}
