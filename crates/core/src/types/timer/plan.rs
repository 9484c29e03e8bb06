//! When a timer elapses next.
//!
//! Must not: start anything. What is found is written into the run state of the timer.

use super::{enter_dead, give_up, nothing_left, set_phase};
use crate::graph::Graph;
use crate::model::ids::UnitId;
use crate::model::process::Outcome;
use crate::model::reason::{Cause, Code};
use crate::model::state::{TimerPhase, TimerRun};
use crate::model::time::{Moment, Monotonic};
use crate::parts::{Core, Times, unit_settings};
use crate::relations::triggers;
use std::time::Duration;
use warren_calendar::Calendar;
use warren_unit::config::{TimerBase, TimerConfig};
use warren_unit::settings::{Group, Id};

const ON_UNIT_ACTIVE: Id = Id::of(Group::Timer, "OnUnitActiveSec");
const ON_UNIT_INACTIVE: Id = Id::of(Group::Timer, "OnUnitInactiveSec");

/// Elapses that are counted as missed at once.
const MISSED_MAX: u32 = 1000;

/// Timers are moved to the same places in these spans, if `AccuracySec=` lets them, the longest first.
const STEPS: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(10),
    Duration::from_secs(1),
    Duration::from_millis(250),
];

/// What of a plan is made anew.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anew {
    /// All, as it has elapsed, was started or edited.
    Everything,
    /// Only what the calendar says: the clock was set.
    Calendar,
    /// Only spans: the unit that they may count from has changed.
    Spans,
}

/// Zones that the timer's expressions name and that were not read yet.
pub(crate) fn unread_zones(times: &Times, config: &TimerConfig) -> Vec<Box<str>> {
    let now_us = times.now.realtime_us;
    let unread = |name: &&str| {
        !times.zones.named.contains_key(*name) && !times.zones.is_local_time(name, now_us)
    };
    let names = config.calendars().filter_map(Calendar::needs_zone);
    let mut names: Vec<Box<str>> = names.filter(unread).map(Into::into).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a change of the unit that it starts may be one for the timer; cheap.
pub(crate) fn may_count_from_unit(graph: &Graph, unit: UnitId) -> bool {
    let definition = graph.definition(unit);
    definition.mentions(ON_UNIT_ACTIVE) || definition.mentions(ON_UNIT_INACTIVE)
}

/// Makes the calendar's part anew while the timer waits; one that runs or looks at files does it afterwards.
pub(crate) fn plan_if_waiting(core: &mut Core, unit: UnitId, anew: Anew) {
    let run = core.units.timer(unit);
    if run.is_some_and(|run| run.phase != TimerPhase::Running && run.asked.is_none()) {
        plan(core, unit, anew);
    }
}

/// Finds what comes next and waits for it. If there is nothing the timer has elapsed.
pub(crate) fn plan(core: &mut Core, unit: UnitId, anew: Anew) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.timer();
    let Some(run) = core.units.timer(unit).copied() else { return };
    let delay_us = match run.delay_us {
        Some(delay_us) if anew != Anew::Everything => delay_us,
        _ => draw_delay(core, unit, config),
    };
    let next_realtime_us = match anew {
        Anew::Spans => run.next_realtime_us,
        Anew::Everything | Anew::Calendar => {
            let base = next_by_calendar(core, unit, config, run.calendar_from_us);
            base.map(|base| with_delay(core.times.now, &run, base, delay_us, anew))
        }
    };
    let next_monotonic = match anew {
        Anew::Calendar => run.next_monotonic,
        Anew::Everything | Anew::Spans => next_by_span(core, unit, config, run.spans_from)
            .map(|at| at.max(core.times.now.monotonic).after(Duration::from_micros(delay_us))),
    };
    let run = core.units.timer_mut(unit);
    run.delay_us = Some(delay_us);
    run.accuracy_us = micros(config.accuracy);
    (run.next_realtime_us, run.next_monotonic) = (next_realtime_us, next_monotonic);
    match next_realtime_us.is_some() || next_monotonic.is_some() {
        true => {
            set_phase(core, unit, TimerPhase::Waiting);
            move_due(core, unit);
        }
        false => nothing_comes(core, unit, config),
    }
}

/// The moment of an elapse by the calendar, with its delay. What has elapsed already comes after its delay when the
/// timer is started, and at once when the clock has passed it.
fn with_delay(now: Moment, run: &TimerRun, base_us: u64, delay_us: u64, anew: Anew) -> u64 {
    let now_us = now.realtime_us;
    let at = base_us.saturating_add(delay_us);
    if at >= now_us {
        return at;
    }
    if anew == Anew::Everything {
        return now_us.saturating_add(delay_us);
    }
    let is_near = |at: &u64| (now_us..=now_us.saturating_add(delay_us)).contains(at);
    run.next_realtime_us.filter(is_near).unwrap_or(now_us)
}

/// Nothing is to come: the timer stays, if it is to, or if its unit, the clock or the zone may bring something.
fn nothing_comes(core: &mut Core, unit: UnitId, config: &TimerConfig) {
    let of_unit = |base| matches!(base, TimerBase::UnitActive | TimerBase::UnitInactive);
    let may_come = config.spans().any(|(base, span)| of_unit(base) && span != Duration::MAX)
        || config.on_clock_change
        || config.on_timezone_change;
    let is_unusable = !may_come && config.spans().next().is_none() && all_unknown(core, config);
    if is_unusable {
        let detail = "none of the time zones of its OnCalendar= settings exists".to_owned();
        return give_up(core, unit, Code::BadSetting, Cause::None, detail);
    }
    core.units.timer_mut(unit).due = None;
    match may_come || config.remain_after_elapse {
        true => set_phase(core, unit, TimerPhase::Elapsed),
        false => {
            core.units.history_mut(unit).reason = nothing_left();
            enter_dead(core, unit, Outcome::Success);
        }
    }
}

fn all_unknown(core: &Core, config: &TimerConfig) -> bool {
    let now_us = core.times.now.realtime_us;
    config.calendars().all(|calendar| calendar.next_after(now_us, &core.times.zones).is_err())
}

/// The next elapse by the calendar after `from_us`, without the delay.
fn next_by_calendar(core: &Core, unit: UnitId, config: &TimerConfig, from_us: u64) -> Option<u64> {
    let offset_us = offset(core, unit, config.randomized_offset);
    let from_us = from_us.saturating_sub(offset_us);
    let next = |calendar: &Calendar| calendar.next_after(from_us, &core.times.zones).ok().flatten();
    config.calendars().filter_map(next).min().map(|at| at.saturating_add(offset_us))
}

/// Elapses by the calendar since the last one that started something, but for the one that is due now.
pub(crate) fn count_missed(core: &mut Core, unit: UnitId) -> u32 {
    let settings = unit_settings::compiled(core, unit);
    let Some(run) = core.units.timer(unit) else { return 0 };
    let (mut at, until) = (run.calendar_from_us, core.times.now.realtime_us);
    let mut elapses = 0;
    while elapses <= MISSED_MAX
        && let Some(next) = next_by_calendar(core, unit, settings.timer(), at)
        && next <= until
    {
        (at, elapses) = (next, elapses + 1);
    }
    elapses.saturating_sub(1)
}

/// The next elapse by a span, without the delay.
fn next_by_span(
    core: &Core,
    unit: UnitId,
    config: &TimerConfig,
    spans_from: Monotonic,
) -> Option<Monotonic> {
    let counted = config.spans().filter(|(_, span)| *span != Duration::MAX);
    let next = counted.filter_map(|(base, span)| {
        let at = base_moment(core, unit, base)?.after(span);
        let is_of_unit = matches!(base, TimerBase::UnitActive | TimerBase::UnitInactive);
        (is_of_unit || at > spans_from).then_some(at)
    });
    next.min()
}

/// What a span is counted from; none if that has not happened yet.
fn base_moment(core: &Core, unit: UnitId, base: TimerBase) -> Option<Monotonic> {
    let moment = |of: UnitId, which: fn(&crate::model::state::History) -> Moment| {
        let history = core.units.run(of).history.as_ref()?;
        Some(which(history)).filter(|at| !at.is_never()).map(|at| at.monotonic)
    };
    let of_unit = |which| {
        let behind = triggers::behind(&core.graph, unit).and_then(|behind| moment(behind, which));
        let own = core.units.run(unit).history.as_ref().and_then(|history| history.timer);
        let own = own.map(|memory| memory.last_trigger).filter(|at| !at.is_never());
        behind.into_iter().chain(own.map(|at| at.monotonic)).max()
    };
    match base {
        TimerBase::Active => moment(unit, |history| history.inactive_exit),
        TimerBase::Boot => Some(core.times.machine_begin),
        TimerBase::Startup => Some(core.times.boot.userspace.monotonic),
        TimerBase::UnitActive => of_unit(|history| history.inactive_exit),
        TimerBase::UnitInactive => of_unit(|history| history.inactive_enter),
    }
}

/// `RandomizedDelaySec=` for one elapse, in µs.
fn draw_delay(core: &mut Core, unit: UnitId, config: &TimerConfig) -> u64 {
    let most = config.randomized_delay;
    match most.is_zero() || config.fixed_random_delay {
        true => offset(core, unit, most),
        false => share_of(most, core.ids.new_invocation()),
    }
}

/// A part of `most` that is always the same for this timer of this manager on this machine, in µs.
fn offset(core: &Core, unit: UnitId, most: Duration) -> u64 {
    if most.is_zero() {
        return 0;
    }
    let context = &core.settings.common.context;
    let name = core.graph.name(unit).as_str();
    share_of(most, hash(&[&context.machine_id, &context.uid.to_string(), name]))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A part of `most` by dice, in µs.
fn share_of(most: Duration, dice: u128) -> u64 {
    let most_us = micros(most);
    u64::try_from(dice % (u128::from(most_us) + 1)).expect("less than 64 bits of µs")
}

/// FNV-1a over the words, and a last stir.
fn hash(words: &[&str]) -> u128 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    let sum = bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |sum, byte| {
        (sum ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    (sum ^ (sum >> 64)).wrapping_mul(0x2545_f491_4f6c_dd1d_da3e_39cb_94b9_5bdb) >> 32
}

/// Writes down when the timer is looked at: as soon as something has elapsed, or up to `AccuracySec=` later, together
/// with other timers.
pub(crate) fn move_due(core: &mut Core, unit: UnitId) {
    let Some(run) = core.units.timer(unit) else { return };
    if run.phase != TimerPhase::Waiting {
        return;
    }
    let now = core.times.now;
    let by_calendar = run.next_realtime_us.map(|at_us| {
        now.monotonic.after(Duration::from_micros(at_us.saturating_sub(now.realtime_us)))
    });
    let soonest = by_calendar.into_iter().chain(run.next_monotonic).min();
    let place = hash(&[&core.settings.common.context.machine_id, "timers"]);
    let due = soonest
        .map(|at| moved(at.max(now.monotonic), Duration::from_micros(run.accuracy_us), place));
    if core.units.timer(unit).and_then(|run| run.due) != due {
        core.units.timer_mut(unit).due = due;
    }
}

/// The last moment from `at` to `accuracy` later that is at the common place of a step; `at` if there is none.
fn moved(at: Monotonic, accuracy: Duration, place: u128) -> Monotonic {
    let last = at.after(accuracy);
    let candidates = STEPS.iter().filter_map(|step| {
        let step = u64::try_from(step.as_micros()).expect("a minute at most");
        let place = u64::try_from(place % u128::from(step)).expect("less than a minute");
        let steps = last.0.checked_sub(place)? / step;
        Some(Monotonic(steps * step + place)).filter(|moved| *moved >= at)
    });
    candidates.into_iter().next().unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_meet_at_the_place_of_the_longest_step_that_fits() {
        let second = 1_000_000;
        let due =
            |at, accuracy_ms| moved(Monotonic(at), Duration::from_millis(accuracy_ms), 7_123_456).0;
        // Within a minute each minute has one place.
        assert_eq!(due(100 * second, 60_000), 127_123_456);
        assert_eq!(due(127_123_456, 60_000), 187_123_456);
        assert_eq!(due(68 * second, 60_000), due(120 * second, 60_000));
        // Within less a shorter step does.
        assert_eq!(due(100 * second, 10_000), 107_123_456);
        assert_eq!(due(100 * second, 1_000), 100_123_456);
        assert_eq!(due(100 * second, 0), 100 * second);
        for accuracy_ms in [0, 1, 250, 999, 5_000, 59_999, 3_600_000] {
            for at in (0..400).map(|n| 90 * second + n * 777_777) {
                let moved = due(at, accuracy_ms);
                assert!((at..=at + accuracy_ms * 1000).contains(&moved), "{at} {accuracy_ms}");
            }
        }
    }

    #[test]
    fn shares_are_spread_and_no_larger_than_the_whole() {
        let most = Duration::from_secs(3600);
        let share = |n: u32| share_of(most, hash(&["machine", &n.to_string()]));
        let all: Vec<u64> = (0..1000).map(share).collect();
        assert!(all.iter().all(|&us| us <= 3_600_000_000));
        let low = all.iter().filter(|&&us| us < 1_800_000_000).count();
        assert!((400..600).contains(&low), "{low}");
        assert_eq!(share_of(Duration::ZERO, u128::MAX), 0);
    }
}
