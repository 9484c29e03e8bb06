//! The answer of `Metrics`: what a monitoring program is told, bounded however many units there are.
//!
//! Read from the published view and the loop's counters by a thread of the control socket, which looks at every unit
//! once for each question. Waits for the log daemon, a second
//! at most. Must not: give the loop an order, or read a cgroup: the exporter reads those itself.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use warren_bus::backend::Backend;
use warren_bus::glob::Patterns;
use warren_bus::properties::manager::system_state;
use warren_core::graph::Definition;
use warren_core::model::device_news::Sight;
use warren_core::model::job::Job;
use warren_core::view::{CodeCounts, View};
use warren_trace::words::Subject;
use warren_unit::{LoadState, UnitType};
use warren_wire::control::{
    ActiveState, BootMetrics, ErrorName, JobMetrics, ManagerMetrics, Metrics, MetricsAnswer,
    ReloadMetrics, TimerRow, UnitCount, UnitMetrics,
};

use crate::base::clock::now;
use crate::control::answer::{Answered, is_inactive, micros_between, resident_bytes};
use crate::control::caller::{Caller, is_privileged};
use crate::control::device_report::waiting;
use crate::control::timers;
use crate::peer::log_tail;
use crate::published::shared::Shared;

/// Rows of units at most, whatever is asked for.
const UNITS_MAX: usize = 4096;

/// Rows of timers at most, whatever is asked for.
const TIMERS_MAX: usize = 1024;

/// The answer.
pub(crate) fn metrics(
    request: &Metrics,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Answered<MetricsAnswer> {
    let (view, now) = (shared.view(), now());
    let patterns: Vec<&str> = request.units.0.iter().map(String::as_str).collect();
    let wanted = Patterns::new(&patterns, !is_privileged(caller.asker))
        .map_err(|why| (ErrorName::LimitsExceeded, why))?;
    let counts =
        |d: &&Arc<Definition>| d.load_state == LoadState::Loaded || !is_inactive(&view, d.id);
    let mut units = BTreeMap::<(&str, &str), u64>::new();
    let (mut loaded, mut rows, mut timer_rows) = (0, Vec::new(), Vec::new());
    for definition in view.graph.definitions().filter(counts) {
        loaded += u64::from(definition.load_state == LoadState::Loaded);
        let state = view.active_state(definition.id).as_str();
        *units.entry((definition.unit_type().suffix(), state)).or_default() += 1;
        if definition.unit_type() == UnitType::Timer {
            timer_rows.push(timers::row(&view, now, definition));
        }
        if !patterns.is_empty() && wanted.has(definition.name.as_str()) {
            rows.push(definition);
        }
    }
    let (rows_total, timers_total) = (rows.len() as u64, timer_rows.len() as u64);
    rows.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    rows.truncate((request.units_max as usize).min(UNITS_MAX));
    let devices = waiting(&view);
    let age = |job: &Job| now.monotonic.0.saturating_sub(job.since.0);
    let facts = shared.facts();
    let count = |((kind, state), count): ((&str, &str), u64)| UnitCount {
        kind: kind.to_owned(),
        state: state.into(),
        count,
    };
    Ok(MetricsAnswer {
        version: facts.version.clone(),
        now_us: now.realtime_us,
        state: system_state(&view).to_owned(),
        manager: manager(shared, &view, loaded),
        turns: shared.counters.turns(),
        reloads: ReloadMetrics {
            under_way_us: shared.reloads_since().map(|at| now.monotonic.0.saturating_sub(at.0)),
            ..shared.counters.reloads()
        },
        jobs: jobs(&view, age),
        units: units.into_iter().map(count).collect(),
        failures: by_code(&view.totals.failures),
        restarts: by_code(&view.totals.restarts),
        devices_waiting: devices.len() as u64,
        device_wait_us: devices.iter().filter_map(|&d| view.job(d)).map(age).max().unwrap_or(0),
        devices_seen: view.totals.sight == Sight::Seeing,
        boot: BootMetrics {
            load_us: micros_between(facts.boot.load.0, facts.boot.load.1),
            startup_us: micros_between(facts.boot.userspace, facts.boot.finish),
            finished_us: facts.boot.finish.realtime_us,
        },
        shutdown_record: shutdown_record(shared),
        timers_total,
        timers: worst_first(timer_rows, request.timers_max as usize),
        log: log_tail::counts(&shared.journal_socket),
        cgroup_root: shared.tree_path().map(|path| path.display().to_string()),
        rows_total,
        rows: rows.into_iter().map(|definition| unit(&view, definition)).collect(),
    })
}

fn manager(shared: &Shared, view: &View, loaded: u64) -> ManagerMetrics {
    ManagerMetrics {
        pid: std::process::id(),
        restarts: shared.counters.manager_restarts,
        cpu_us: warren_sys::time::process_cpu_ns() / 1000,
        resident_bytes: resident_bytes(),
        descriptors: open_descriptors(),
        descriptors_max: warren_sys::process::open_files_max(),
        loaded,
        generation: view.graph.generation(),
        stopping: view.is_going_down(),
    }
}

/// proc(5), `/proc/pid/fd`: its size is how many there are, from Linux 6.2 on. Older kernels say 0, and those of a
/// manager of 40,000 units are too many to be counted one by one.
fn open_descriptors() -> Option<u64> {
    std::fs::metadata("/proc/self/fd").ok().map(|found| found.len()).filter(|count| *count > 0)
}

fn jobs(view: &View, age: impl Fn(&Job) -> u64) -> JobMetrics {
    let mut out = JobMetrics {
        ever: view.totals.jobs_ever.into(),
        failed_ever: view.totals.failed_jobs_ever.into(),
        ..JobMetrics::default()
    };
    for job in view.jobs() {
        let (count, oldest) = match job.running {
            true => (&mut out.running, &mut out.running_us),
            false => (&mut out.waiting, &mut out.waiting_us),
        };
        *count += 1;
        *oldest = (*oldest).max(age(job));
    }
    out
}

fn by_code(counts: &CodeCounts) -> BTreeMap<String, u64> {
    counts.iter().map(|(code, count)| (code.id(), count)).collect()
}

fn shutdown_record(shared: &Shared) -> Option<String> {
    let kept = shared.records.list();
    kept.into_iter().rfind(|kept| kept.subject == Subject::Shutdown).map(|kept| kept.name)
}

/// Those that missed most first, then by their next run; those without one last.
fn worst_first(mut timers: Vec<TimerRow>, most: usize) -> Vec<TimerRow> {
    timers.sort_by(|a, b| {
        let key = |timer: &TimerRow| (Reverse(timer.missed), timer.next_us.unwrap_or(u64::MAX));
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    timers.truncate(most.min(TIMERS_MAX));
    timers
}

fn unit(view: &View, definition: &Definition) -> UnitMetrics {
    let history = view.run(definition.id).history.as_deref();
    let since_us = history.map(|history| history.state_change.realtime_us);
    UnitMetrics {
        name: definition.name.to_string(),
        active: ActiveState::from(view.active_state(definition.id).as_str()),
        code: view.reason(definition.id).code.id().into(),
        since_us: since_us.filter(|at| *at > 0),
        restarts: history.map_or(0, |history| history.restarts.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_that_missed_come_first_and_those_that_rest_last() {
        let row = |name: &str, missed, next_us| TimerRow {
            name: name.to_owned(),
            missed,
            next_us,
            ..TimerRow::default()
        };
        let timers = vec![
            row("rests", 0, None),
            row("late", 0, Some(9)),
            row("b", 2, None),
            row("a", 2, None),
        ];
        let names = |most| -> Vec<String> {
            worst_first(timers.clone(), most).into_iter().map(|timer| timer.name).collect()
        };
        assert_eq!(names(9), ["a", "b", "late", "rests"]);
        assert_eq!(names(1), ["a"]);
    }
}
