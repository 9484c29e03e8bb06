//! What `warren top` shows, as counters: the reader makes rates of them.
//!
//! Answered from the published view and from cgroup files by a thread of the control socket. It
//! looks at every unit, once for each question.

use std::sync::Arc;

use warren_bus::backend::Backend;
use warren_core::graph::Definition;
use warren_core::model::ids::UnitId;
use warren_core::model::job::Job;
use warren_core::model::time::Monotonic;
use warren_core::view::View;
use warren_unit::{LoadState, UnitType};
use warren_wire::control::{TopAnswer, TopFailed, TopJob, TopRestarting, TopSlice};

use crate::control::answer::name;
use crate::published::shared::Shared;
use crate::shutdown::waits;

/// Rows of each list at most.
const ROWS_MAX: usize = 64;

/// Slices whose cgroups are read; those nearest to the root count.
const SLICES_MAX: usize = 64;

/// The answer.
pub fn top(shared: &Shared) -> TopAnswer {
    let view = shared.view();
    let now_us = warren_sys::time::monotonic_ns() / 1000;
    let loaded: Vec<&Arc<Definition>> =
        view.graph.definitions().filter(|d| d.load_state == LoadState::Loaded).collect();
    let active = loaded.iter().filter(|d| view.active_state(d.id).is_up()).count();
    let restarts = |d: &&Arc<Definition>| view.run(d.id).history.as_ref().map_or(0, |h| h.restarts);
    let mut jobs = view.jobs();
    jobs.sort_by_key(|job| (job.since, job.id));
    let (failed, failed_total) = failed(&view);
    let waits = match view.is_going_down() {
        true => waits::answers(shared, &view, Monotonic(now_us)),
        false => Vec::new(),
    };
    TopAnswer {
        now_us,
        cpu_us: warren_sys::time::process_cpu_ns() / 1000,
        resident_bytes: crate::control::answer::resident_bytes(),
        generation: view.graph.generation(),
        stopping: view.is_going_down(),
        reloading_us: shared.reloads_since().map(|since| now_us.saturating_sub(since.0)),
        jobs_ever: Some(view.totals.jobs_ever.into()),
        loaded: loaded.len() as u64,
        active: active as u64,
        restarts: loaded.iter().map(restarts).map(u64::from).sum(),
        jobs: jobs.len() as u64,
        jobs_running: jobs.iter().filter(|job| job.running).count() as u64,
        job_rows: jobs.iter().take(ROWS_MAX).map(|j| job(&view, j, now_us)).collect(),
        waits_total: waits.len() as u64,
        waits: waits.into_iter().take(ROWS_MAX).collect(),
        unwritten_bytes: waits::unwritten_bytes(&view),
        failed_total: failed_total as u64,
        failed,
        restarting: restarting(&view, &loaded, Monotonic(now_us)),
        slices: slices(shared, &view, &loaded),
    }
}

fn job(view: &View, job: &Job, now_us: u64) -> TopJob {
    // What is no job may stand against it, too.
    let waits_on = view.waited_for(job.unit).map(|unit| name(view, unit));
    let others = job.blockers.max(waits_on.is_some().into());
    TopJob {
        unit: name(view, job.unit),
        kind: job.kind.as_str().into(),
        age_us: now_us.saturating_sub(job.since.0),
        waits_for: if job.running { 0 } else { others },
        waits_on,
    }
}

/// The units that failed last, be their files gone or not, and how many there are.
fn failed(view: &View) -> (Vec<TopFailed>, usize) {
    let mut failed: Vec<(u64, UnitId)> = view
        .graph
        .definitions()
        .filter(|d| view.active_state(d.id).as_str() == "failed")
        .map(|d| (view.run(d.id).history.as_ref().map_or(0, |h| h.state_change.monotonic.0), d.id))
        .collect();
    failed.sort_unstable_by(|a, b| b.cmp(a));
    let row = |(_, unit): &(u64, UnitId)| {
        let code = view.run(*unit).history.as_ref().map(|h| h.reason.code).unwrap_or_default();
        TopFailed { unit: name(view, *unit), code: code.id().into(), text: code.text().to_owned() }
    };
    (failed.iter().take(ROWS_MAX).map(row).collect(), failed.len())
}

/// Services that fail and are started again, those that did so most often first.
fn restarting(view: &View, loaded: &[&Arc<Definition>], now: Monotonic) -> Vec<TopRestarting> {
    let mut rows: Vec<(u32, UnitId)> = loaded
        .iter()
        .filter(|d| crate::control::restarts::is_unsteady(view, d.id, now))
        .map(|d| (view.run(d.id).history.as_ref().map_or(0, |h| h.restarts), d.id))
        .collect();
    rows.sort_unstable_by_key(|&(restarts, unit)| (std::cmp::Reverse(restarts), unit));
    rows.truncate(ROWS_MAX);
    let row = |(restarts, unit): (u32, UnitId)| {
        let code = crate::control::restarts::failure(view, unit);
        TopRestarting {
            unit: name(view, unit),
            code: code.id().into(),
            text: code.text().to_owned(),
            restarts,
        }
    };
    rows.into_iter().map(row).collect()
}

/// Counters of active slices.
fn slices(shared: &Shared, view: &View, loaded: &[&Arc<Definition>]) -> Vec<TopSlice> {
    let is_active_slice = |d: &&&Arc<Definition>| {
        d.unit_type() == UnitType::Slice && d.slice.is_some() && view.active_state(d.id).is_up()
    };
    let mut found: Vec<(usize, &str, UnitId)> = loaded
        .iter()
        .filter(is_active_slice)
        .map(|d| (d.name.as_str().matches('-').count(), d.name.as_str(), d.id))
        .collect();
    found.sort_unstable();
    found.truncate(SLICES_MAX);
    let row = |(_, name, unit): (usize, &str, UnitId)| {
        let usage = shared.usage(&view.group_path(unit));
        TopSlice {
            name: name.to_owned(),
            cpu_us: usage.cpu_us,
            memory_bytes: usage.memory_bytes,
            read_bytes: usage.io_bytes.map(|(read, _)| read),
            written_bytes: usage.io_bytes.map(|(_, written)| written),
            tasks: usage.tasks,
        }
    };
    found.into_iter().map(row).collect()
}
