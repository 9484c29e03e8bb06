//! Start limits: how often a unit may be started within an interval, and what else goes by the same
//! count. systemd.unit(5), "StartLimitIntervalSec=".

use crate::features::shutdown_state;
use crate::graph::Graph;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::JobKind;
use crate::model::reason::Code;
use crate::model::state::*;
use crate::model::time::{Moment, Monotonic};
use crate::parts::Core;
use crate::parts::unit_settings;
use crate::parts::units::Units;
use std::collections::BTreeSet;
use std::time::Duration;
use warren_unit::{Relation, UnitType};

/// How often a rule, or the end of another unit, starts a unit whose start limit is off.
const RETURN_LIMIT: (Duration, u32) = (Duration::from_secs(10), 5);

/// A unit that more than this many name, over others too, is taken for held in memory.
const HOLDERS_MAX: usize = 256;

/// A start limit, or the usual one where that is off.
fn or_usual((interval, burst): (Duration, u32)) -> (Duration, u32) {
    if interval.is_zero() || burst == 0 { RETURN_LIMIT } else { (interval, burst) }
}

fn start_limit(core: &mut Core, unit: UnitId) -> (Duration, u32) {
    if core.graph.flags(unit).has_job_settings() {
        let section = unit_settings::compiled(core, unit).section.clone();
        return (section.start_limit_interval, section.start_limit_burst);
    }
    let defaults = &core.settings.common.defaults;
    (defaults.start_limit_interval, defaults.start_limit_burst)
}

/// Only units that are started by themselves are limited; targets and slices cost nothing.
pub(crate) fn is_limited(graph: &Graph, unit: UnitId) -> bool {
    matches!(
        graph.definition(unit).unit_type(),
        UnitType::Service
            | UnitType::Socket
            | UnitType::Mount
            | UnitType::Swap
            | UnitType::Automount
            | UnitType::Timer
            | UnitType::Path
    )
}

/// Counts one start; true when it is one too many.
pub(crate) fn count_start(core: &mut Core, unit: UnitId) -> bool {
    let (interval, burst) = start_limit(core, unit);
    if interval.is_zero() || burst == 0 || !is_limited(&core.graph, unit) {
        return false;
    }
    let now = core.times.now.monotonic;
    core.units.history_mut(unit).starts.count_one(now, interval, burst)
}

/// Whether the next start of the unit counts by itself: its type has a start limit, and the last
/// start came so far as to begin, as the next one will.
fn is_counted(graph: &Graph, units: &Units, unit: UnitId) -> bool {
    let lost = units.run(unit).history.as_ref().and_then(|history| history.lost_job);
    is_limited(graph, unit) && lost.is_none_or(|lost| lost.kind != JobKind::Start)
}

/// Types without a start limit go by it all the same when they are upheld: files may let such a
/// unit come up and go down for ever, in no time. So does what was not begun last time.
pub(crate) fn count_upheld(core: &mut Core, unit: UnitId) {
    let (interval, burst) = start_limit(core, unit);
    let now = core.times.now.monotonic;
    if !is_counted(&core.graph, &core.units, unit) && !interval.is_zero() {
        core.units.history_mut(unit).starts.count_one(now, interval, burst);
    }
}

/// If one more start now would be one too many for its type, or for a unit that is upheld: when it would not be any more.
pub(crate) fn start_limit_ends(core: &mut Core, unit: UnitId) -> Option<Monotonic> {
    let (interval, burst) = start_limit(core, unit);
    let now = core.times.now.monotonic;
    let limited = !interval.is_zero() && burst > 0;
    let starts = core.units.run(unit).history.as_ref().map(|h| h.starts).unwrap_or_default();
    (limited && starts.is_full(now, interval, burst)).then(|| starts.begin.after(interval))
}

// ---- what is not held in memory ----

/// A unit is down and has no job: its starts, and those of units that it names, may be forgotten.
pub(crate) fn look_whom_it_held(core: &mut Core, unit: UnitId) {
    // At shutdown the counts no longer matter, and every unit is visited at once.
    if shutdown_state::is_going_down(core) {
        return;
    }
    let named = core.graph.definition(unit).edges.iter().map(|edge| edge.other).chain([unit]);
    let unheld: Vec<UnitId> =
        named.filter(|&u| has_forgettable_starts(&core.graph, &core.units, u)).collect();
    core.queues.unheld.extend(unheld);
}

/// systemd unloads a unit that is inactive and that no loaded unit names, and the count of its
/// starts with it: a service may be started by hand as often as one likes. Here nothing is
/// unloaded, but the count is kept by the same rule (compared with systemd 252).
pub(crate) fn forget_starts_if_unheld(graph: &Graph, units: &mut Units, unit: UnitId) {
    if has_forgettable_starts(graph, units, unit) && !is_held(graph, units, unit) {
        units.history_mut(unit).starts = RateWindow::default();
    }
}

/// Files that were edited may be mended: what was counted of the unit, and of what starts it for traffic, was
/// of the old ones. (systemd 252 forgets all counts at each reload.)
pub(crate) fn forget_starts_of_edited(graph: &Graph, units: &mut Units, unit: UnitId) {
    let triggers: Vec<UnitId> = graph.related(unit, Relation::TriggeredBy).collect();
    for unit in triggers.into_iter().chain([unit]) {
        if units.run(unit).history.as_ref().is_some_and(|h| h.starts.count > 0) {
            units.history_mut(unit).starts = RateWindow::default();
        }
    }
}

fn has_forgettable_starts(graph: &Graph, units: &Units, unit: UnitId) -> bool {
    let run = units.run(unit);
    run.history.as_ref().is_some_and(|h| h.starts.count > 0) && is_limited(graph, unit)
}

/// Whether a unit that is not at rest names this one, over others too.
fn is_held(graph: &Graph, units: &Units, unit: UnitId) -> bool {
    let mut seen = BTreeSet::from([unit]);
    let mut left = vec![unit];
    while let Some(unit) = left.pop() {
        let is_at_rest =
            units.run(unit).job.is_none() && units.active_state(unit) == ActiveState::Inactive;
        if !is_at_rest {
            return true;
        }
        for holder in graph.holders(unit) {
            // Thousands may name one target.
            if seen.len() > HOLDERS_MAX {
                return true;
            }
            if seen.insert(holder) {
                left.push(holder);
            }
        }
    }
    false
}

/// Counts a start that a rule of `[X-Warren]` asks for. If it is one too many, when it would not
/// be any more: files may let two units stop and start each other for ever, in no time. Where the
/// start limit is off, the usual one counts.
pub(crate) fn count_return(core: &mut Core, unit: UnitId) -> Option<Monotonic> {
    let limit = start_limit(core, unit);
    let (interval, burst) = or_usual(limit);
    let now = core.times.now.monotonic;
    let starts = core.units.run(unit).history.as_ref().map(|h| h.starts).unwrap_or_default();
    if starts.is_full(now, interval, burst) {
        return Some(starts.begin.after(interval));
    }
    // Others are counted when they start.
    if limit != (interval, burst) || !is_counted(&core.graph, &core.units, unit) {
        core.units.history_mut(unit).starts.count_one(now, interval, burst);
    }
    None
}

/// Counts that `OnFailure=` or `OnSuccess=` of another unit asks for this one; whether it is once
/// too often. Files may let two units ask for each other for ever, in no time: types without a
/// start limit, and units that a condition skips, which counts as no start. Other starts are the
/// start limit's: what that has refused is not asked for again to be refused again.
pub(crate) fn is_asked_too_often(core: &mut Core, unit: UnitId) -> bool {
    let history = core.units.run(unit).history.as_deref();
    let failed = |check: Option<(Moment, bool)>| check.is_some_and(|(_, held)| !held);
    let was_skipped = history.is_some_and(|h| failed(h.conditions) || failed(h.asserts));
    let code = history.map(|h| h.reason.code);
    let was_refused = matches!(code, Some(Code::StartLimit | Code::OutcomeLimit));
    let counts_itself = is_limited(&core.graph, unit) && !was_skipped;
    if !core.units.active_state(unit).is_down() || counts_itself && !was_refused {
        return false;
    }
    let ((interval, burst), now) = (or_usual(start_limit(core, unit)), core.times.now.monotonic);
    let starts = core.units.run(unit).history.as_ref().map(|h| h.starts).unwrap_or_default();
    let too_often = starts.is_full(now, interval, burst);
    if !too_often && !counts_itself {
        core.units.history_mut(unit).starts.count_one(now, interval, burst);
    }
    too_often
}

/// Counts that `OnFailure=` or `OnSuccess=` of this unit is answered for something that counts as no
/// start, because it never began or the type has no limit; whether it is once too often. What is
/// started may ask for this unit again, also when it is up or on its way, and so on for ever, in
/// no time.
pub(crate) fn answers_too_often(core: &mut Core, unit: UnitId) -> bool {
    let ((interval, burst), now) = (or_usual(start_limit(core, unit)), core.times.now.monotonic);
    core.units.history_mut(unit).account_mut().answers.count_one(now, interval, burst)
}

/// Whether it is down because one more start was one too many.
pub(crate) fn hit_start_limit(units: &Units, unit: UnitId) -> bool {
    let reason = units.run(unit).history.as_ref().map(|h| h.reason.code);
    reason == Some(Code::StartLimit) && units.active_state(unit).is_down()
}

impl RateWindow {
    /// Counts one event; true when the interval has had more than `burst`.
    pub(crate) fn count_one(&mut self, now: Monotonic, interval: Duration, burst: u32) -> bool {
        if self.begin.0 == 0 || now.since(self.begin) >= interval {
            *self = RateWindow { begin: now, count: 0 };
        }
        if self.count >= burst {
            return true;
        }
        self.count += 1;
        false
    }

    fn is_full(self, now: Monotonic, interval: Duration, burst: u32) -> bool {
        self.begin.0 != 0 && now.since(self.begin) < interval && self.count >= burst
    }
}
