//! Times that were edited while they run (systemd.service(5)): the new time counts from where the old one
//! began, as with systemd 252.

use crate::graph::Graph;
use crate::model::ids::UnitId;
use crate::model::state::{ServicePhase, ServiceRun};
use crate::model::time::Monotonic;
use crate::parts::Core;
use crate::settings::Settings;
use crate::types::service;
use crate::types::service::stop;
use std::time::Duration;
use warren_unit::LoadState;
use warren_unit::config::{ServiceConfig, StopBudget};

/// A time before and after the edit; `None` is for ever.
#[derive(Clone, Copy)]
struct Edit {
    was: Option<Duration>,
    is: Option<Duration>,
    /// When it began, where that does not follow from when it ends.
    since: Monotonic,
}

impl Edit {
    fn is_none(&self) -> bool {
        self.was == self.is
    }

    /// What ends by it. Where nothing was to end though there was a time, it is over already.
    fn of(&self, end: Option<Monotonic>) -> Option<Monotonic> {
        let begin = match self.was {
            Some(was) => end?.before(was),
            None => self.since,
        };
        self.is.map(|time| begin.after(time))
    }
}

/// The service was edited, and `before` is the generation before that: how long it may take from now on to
/// start, to stop or to be restarted is what the files say now. `by` is what the generation before was compiled
/// with.
pub(crate) fn renew_times(core: &mut Core, unit: UnitId, before: &Graph, by: &Settings) {
    let Some(run) = core.units.service(unit).filter(|run| has_time(run)) else { return };
    let phase = run.phase;
    let Some(was) = before.get(unit).filter(|was| was.load_state == LoadState::Loaded) else {
        return;
    };
    if core.graph.definition(unit).load_state != LoadState::Loaded
        || phase == ServicePhase::Start && service::waits_idly(core, unit)
    {
        return;
    }
    let is = core.graph.definition(unit);
    let (was, is) = (by.compile_running(was), core.settings.common.compile_running(is));
    let (was, is) = (was.service(), is.service());
    let (restarts, since) = match core.units.run(unit).history.as_ref() {
        Some(history) => (history.restarts, history.state_change.monotonic),
        None => (0, core.times.now.monotonic),
    };
    let time = |config: &ServiceConfig| time_of(config, phase, restarts);
    let (Some(was), Some(new)) = (time(was), time(is)) else { return };
    let edit = Edit { was, is: new, since };
    if edit.is_none() {
        return;
    }
    let run = core.units.service_mut(unit);
    run.deadline = edit.of(run.deadline);
    let in_all = is_of_stop(phase) && is.stop_budget == StopBudget::Total;
    if in_all {
        run.stop_by = edit.of(run.stop_by);
        // What is still to come has a share of it.
        core.units.service_mut(unit).deadline =
            stop::stop_deadline(&mut core.units, core.times.now, unit, is, phase);
    }
}

fn has_time(run: &ServiceRun) -> bool {
    !matches!(run.phase, ServicePhase::Running | ServicePhase::Exited)
}

fn is_of_stop(phase: ServicePhase) -> bool {
    use ServicePhase::*;
    matches!(phase, Stop | StopSigterm | StopPost | FinalSigterm)
}

/// What a phase may take, by the settings; nothing for one that has a time of our own.
fn time_of(config: &ServiceConfig, phase: ServicePhase, restarts: u32) -> Option<Option<Duration>> {
    use ServicePhase::*;
    match phase {
        Condition | StartPre | Start | StartPost | Reload | ReloadSignal | ReloadNotify => {
            Some(config.timeout_start)
        }
        StopWatchdog | FinalWatchdog => Some(config.timeout_abort),
        AutoRestart => Some(Some(config.restart_delay_after(restarts))),
        phase if is_of_stop(phase) => Some(config.timeout_stop),
        _ => None,
    }
}
