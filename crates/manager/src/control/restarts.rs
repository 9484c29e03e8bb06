//! What `warren why` says of a service that `Restart=` starts again: how often it did, when it will, what it
//! answers, and how much of the start limit is left.

use std::time::Duration;

use warren_core::graph::Definition;
use warren_core::model::ids::UnitId;
use warren_core::model::process::{Ended, ExitStatus};
use warren_core::model::reason::Code;
use warren_core::model::state::{
    History, RateWindow, Relapse, Service, ServicePhase, ServiceRun, TypeState, UnitRun,
};
use warren_core::model::time::{Moment, Monotonic};
use warren_core::view::View;
use warren_unit::Signal;
use warren_unit::compile::Compiler;
use warren_wire::control::{RestartAnswer, RestartBefore, StartLimit};

use crate::control::answer::{micros, moment, reason};
use crate::published::shared::Shared;

/// What came up again after a failure is in trouble until it has held for so long.
const UNSTEADY: Duration = Duration::from_secs(60);

/// The run of a service that only waits for `RestartSec=` to pass, or for the job that follows.
fn waiting(view: &View, unit: UnitId) -> Option<&ServiceRun> {
    match &view.run(unit).state {
        TypeState::Service(Service::Up(run)) if run.phase == ServicePhase::AutoRestart => Some(run),
        _ => None,
    }
}

/// Whether the run is one that only waits to be started again.
pub(crate) fn waits(run: &UnitRun) -> bool {
    matches!(&run.state, TypeState::Service(Service::Up(run)) if run.phase == ServicePhase::AutoRestart)
}

/// Whether it fails and is started again: it waits for the next try, or this one is young.
pub(crate) fn is_unsteady(view: &View, unit: UnitId, now: Monotonic) -> bool {
    let Some(history) = view.run(unit).history.as_deref() else { return false };
    if waiting(view, unit).is_some() {
        return history.reason.code.is_trouble();
    }
    let failed = history.relapse.as_ref().is_some_and(|relapse| relapse.reason.code.is_trouble());
    failed
        && history.reason.code == Code::Restarted
        && now.since(history.inactive_exit.monotonic) < UNSTEADY
}

/// What an unsteady unit fails by.
pub(crate) fn failure(view: &View, unit: UnitId) -> Code {
    let history = view.run(unit).history.as_deref();
    let relapse =
        history.and_then(|h| h.relapse.as_deref()).filter(|_| waiting(view, unit).is_none());
    let reason = relapse.map(|relapse| relapse.reason).or(history.map(|h| h.reason));
    reason.map(|reason| reason.code).unwrap_or_default()
}

/// The restarts of a unit; nothing if there were none and none is to come.
pub(crate) fn answer(
    view: &View,
    shared: &Shared,
    unit: UnitId,
    now: Moment,
) -> Option<RestartAnswer> {
    let empty = History::default();
    let history = view.run(unit).history.as_deref().unwrap_or(&empty);
    let waiting = waiting(view, unit);
    if waiting.is_none() && history.restarts == 0 {
        return None;
    }
    let left = waiting.and_then(|run| run.deadline).map(|at| at.since(now.monotonic));
    let left_us = left.map(micros);
    Some(RestartAnswer {
        count: history.restarts,
        waits: waiting.is_some(),
        next_in_us: left_us,
        next_at: left_us.map(|left| now.realtime_us + left),
        limit: limit(shared, view.definition(unit), history.starts, now.monotonic),
        before: history.relapse.as_deref().map(|relapse| before(view, relapse)),
    })
}

fn before(view: &View, relapse: &Relapse) -> RestartBefore {
    RestartBefore {
        reason: reason(view, relapse.reason),
        ended: relapse.ended.map(ended),
        at: moment(relapse.at),
    }
}

/// `StartLimitBurst=` and how much of it is used; nothing if there is none.
fn limit(
    shared: &Shared,
    definition: &Definition,
    starts: RateWindow,
    now: Monotonic,
) -> Option<StartLimit> {
    let settings = shared.settings();
    let (section, _) = Compiler {
        name: &definition.name,
        sources: &definition.files.sources(),
        context: &settings.context,
        defaults: &settings.defaults,
    }
    .unit();
    let (interval, burst) = (section.start_limit_interval, section.start_limit_burst);
    if interval.is_zero() || burst == 0 {
        return None;
    }
    let is_over = now.since(starts.begin) >= interval;
    Some(StartLimit {
        starts: if is_over { 0 } else { starts.count.min(burst) },
        burst,
        interval_us: micros(interval),
    })
}

/// How a main process ended. Without a number there was none: its helper refused to make it.
pub(crate) fn ended(main: Ended) -> String {
    ended_as("main process", main)
}

/// The same of another process of the unit.
pub(crate) fn ended_as(what: &str, process: Ended) -> String {
    let how = match process.status {
        ExitStatus::Exited(code) if process.pid == 0 => {
            return format!("{what} could not be started, exit code {code}");
        }
        ExitStatus::Exited(code) => format!("exited with code {code}"),
        ExitStatus::Killed(number) => format!("was killed by {}", signal(number)),
        ExitStatus::Dumped(number) => format!("was killed by {} and dumped core", signal(number)),
        ExitStatus::Unknown => "ended; its exit status is unknown".to_owned(),
    };
    format!("{what} {} {how}", process.pid)
}

fn signal(number: u8) -> String {
    Signal::new(number.into()).map_or_else(|| format!("signal {number}"), |s| s.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_process_that_there_never_was_has_no_number() {
        let at = Moment::default();
        let status = ExitStatus::Exited;
        let told = |pid, code| ended(Ended { pid, started: at, ended: at, status: status(code) });
        assert_eq!(told(44, 3), "main process 44 exited with code 3");
        assert_eq!(told(0, 203), "main process could not be started, exit code 203");
        let killed = Ended { pid: 7, started: at, ended: at, status: ExitStatus::Killed(15) };
        assert_eq!(ended(killed), "main process 7 was killed by SIGTERM");
    }
}
