//! What the end waits for: units that are being stopped, for how long, and how long yet.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warren_core::ids::UnitId;
use warren_core::job::JobKind;
use warren_core::state::{Mount, Service, Socket, TypeState};
use warren_core::time::Monotonic;
use warren_core::view::View;

use crate::traps::{GOES_WITHIN, GoingTrap};

/// Units that are named in one line.
const NAMED_MAX: usize = 3;

/// One unit that is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Which.
    pub unit: UnitId,
    /// What it is at: the SUB column.
    pub phase: &'static str,
    /// The process that is waited for, if it is one that the manager knows.
    pub pid: Option<u32>,
    /// Since its job began.
    pub so_far: Duration,
    /// Until the manager loses patience; none if it has none to lose.
    pub left: Option<Duration>,
}

/// The units that are being stopped, those that took longest first. Looks at every unit.
pub fn waits(view: &View, now: Monotonic) -> Vec<Wait> {
    let stopping = |job: &&warren_core::job::Job| {
        job.running && matches!(job.kind, JobKind::Stop | JobKind::Restart)
    };
    let mut all: Vec<Wait> = view
        .jobs()
        .into_iter()
        .filter(stopping)
        .map(|job| {
            let run = view.run(job.unit);
            let main = run.main_process().map(|process| process.pid);
            Wait {
                unit: job.unit,
                phase: run.sub_state(),
                pid: run.control_pid().or(main),
                so_far: now.since(since(view, job.unit).unwrap_or(job.since)),
                left: deadline(&run.state).map(|at| at.since(now)),
            }
        })
        .collect();
    all.sort_by_key(|wait| (std::cmp::Reverse(wait.so_far), wait.unit));
    all
}

/// The automount point of a unit, which is down, that is still to go.
pub(crate) fn of_trap(trap: &GoingTrap, now: Instant) -> Wait {
    let so_far = now.saturating_duration_since(trap.since);
    let left = Some(GOES_WITHIN.saturating_sub(so_far));
    Wait { unit: trap.unit, phase: "unmounting", pid: None, so_far, left }
}

/// When the unit began to go down.
fn since(view: &View, unit: UnitId) -> Option<Monotonic> {
    let history = view.run(unit).history.as_ref()?;
    (!history.active_exit.is_never()).then_some(history.active_exit.monotonic)
}

/// When the manager loses patience with what the unit is at.
pub(crate) fn deadline(state: &TypeState) -> Option<Monotonic> {
    match state {
        TypeState::Service(Service::Up(run)) => run.stop_by.max(run.deadline),
        TypeState::Socket(Socket::Up(run)) => run.deadline,
        TypeState::Mount(Mount::Up(run)) | TypeState::Swap(Mount::Up(run)) => run.deadline,
        _ => None,
    }
}

/// One line for the console: who is waited for, for how long, and how long yet.
pub fn line(view: &View, waits: &[Wait]) -> String {
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let one = |wait: &Wait| {
        let name = view.graph.name(wait.unit);
        let pid = wait.pid.map_or(String::new(), |pid| format!(", {}", process(pid)));
        let left =
            wait.left.map_or("no limit".to_owned(), |left| format!("{} left", seconds(left)));
        format!("{name} ({}{pid}, {}, {left})", wait.phase, seconds(wait.so_far))
    };
    let named: Vec<String> = waits.iter().take(NAMED_MAX).map(one).collect();
    let more = match waits.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

/// Bytes that wait to be written to devices; none while no end is under way.
pub fn unwritten_bytes(view: &View) -> Option<u64> {
    view.totals.stopping.then(warren_sys::storage::dirty_bytes)
}

/// A process by number and name.
pub(crate) fn process(pid: u32) -> String {
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("pid {pid} {}", command.trim()).trim_end().to_owned()
}

/// The same for programs.
pub fn value(view: &View, waits: &[Wait]) -> Value {
    let one = |wait: &Wait| {
        json!({
            "unit": view.graph.name(wait.unit).as_str(),
            "phase": wait.phase,
            "pid": wait.pid,
            "process": wait.pid.map(process),
            "so_far_us": wait.so_far.as_micros() as u64,
            "left_us": wait.left.map(|left| left.as_micros() as u64),
        })
    };
    waits.iter().map(one).collect()
}
