//! Timers elapse in time, and what they wait for is changed by nothing but what they wait for.

use std::collections::BTreeMap;

use warren_core::machine::Core;
use warren_core::model::ids::UnitId;
use warren_core::model::job::JobKind;
use warren_core::model::state::{Path, PathPhase, Timer, TimerPhase, TimerRun, TypeState};
use warren_core::settings::TypeSettings;

use crate::kernel::Kernel;

fn timers(core: &Core) -> impl Iterator<Item = (UnitId, &TimerRun)> {
    core.graph().definitions().filter_map(|definition| match &core.unit_run(definition.id).state {
        TypeState::Timer(Timer::Up(run)) => Some((definition.id, &**run)),
        _ => None,
    })
}

/// What every timer that is active waits for.
pub fn plans(core: &Core) -> BTreeMap<UnitId, TimerRun> {
    timers(core).map(|(unit, run)| (unit, *run)).collect()
}

/// `timer-reload`: a reload without an edit changes nothing of a timer.
pub fn reload_changes_nothing(core: &Core, before: &BTreeMap<UnitId, TimerRun>) -> Vec<String> {
    let is = plans(core);
    let changed = before.iter().filter(|(unit, run)| is.get(unit) != Some(run));
    changed.map(|(unit, _)| format!("timer-reload: {}", core.graph().name(*unit))).collect()
}

/// `timer-late`: at rest no timer waits for what has come, longer than its `AccuracySec=` lets it.
pub fn in_time(core: &Core, kernel: &Kernel) -> Vec<String> {
    let is_late = |&(unit, run): &(UnitId, &TimerRun)| {
        let config = core.settings().compile(core.graph().definition(unit));
        let TypeSettings::Timer(config) = config.own else { return false };
        let late_us = u64::try_from(config.accuracy.as_micros()).unwrap_or(u64::MAX);
        let job = core.unit_run(unit).job.as_ref().map(|job| job.kind);
        let passed =
            |at: Option<u64>, now: u64| at.is_some_and(|at| at.saturating_add(late_us) < now);
        let waits = run.phase == TimerPhase::Waiting && job != Some(JobKind::Stop);
        waits
            && !core.totals().stopping
            && (passed(run.next_realtime_us, kernel.realtime())
                || passed(run.next_monotonic.map(|at| at.0), kernel.now))
    };
    timers(core)
        .filter(is_late)
        .map(|(unit, _)| format!("timer-late: {}", core.graph().name(unit)))
        .collect()
}

/// `timer-stamp`: at rest the stamp of a timer with `Persistent=` is of its last run, or of its start after that.
pub fn stamps_are_true(core: &Core, kernel: &Kernel) -> Vec<String> {
    let memories = timers(core).filter_map(|(unit, _)| {
        let memory = core.unit_run(unit).history.as_ref()?.timer?;
        let config = core.settings().compile(core.graph().definition(unit));
        let is_stamped = matches!(&config.own, TypeSettings::Timer(config) if config.persistent);
        (is_stamped && !memory.last_trigger.is_never()).then_some((unit, memory))
    });
    let wrong = memories.filter(|(unit, memory)| {
        let stamp = kernel.wall.stamps.get(unit);
        stamp.is_none_or(|&stamp| stamp < memory.last_trigger.realtime_us)
    });
    wrong.map(|(unit, _)| format!("timer-stamp: {}", core.graph().name(unit))).collect()
}

/// `path-lost`: at rest no change is left at what a path unit watches that nothing was started for.
pub fn no_change_is_lost(core: &Core, kernel: &Kernel) -> Vec<String> {
    let lost = core.graph().definitions().filter(|definition| {
        let TypeState::Path(Path::Up(run)) = &core.unit_run(definition.id).state else {
            return false;
        };
        let paths = kernel.paths.get(&definition.id).copied().unwrap_or_default();
        let waits = run.phase == PathPhase::Waiting && core.unit_run(definition.id).job.is_none();
        waits && !core.totals().stopping && (paths.is_met || run.print != paths.changes + 1)
    });
    lost.map(|definition| format!("path-lost: {}", definition.name)).collect()
}
