//! `RuntimeMaxSec=`: services that have been up for too long (systemd.service(5)).

use crate::graph::{Definition, Graph};
use crate::model::ids::UnitId;
use crate::model::state::ServicePhase;
use crate::model::time::{Moment, Monotonic};
use crate::parts::Core;
use crate::parts::units::Units;
use std::time::Duration;
use warren_unit::config::{ScopeConfig, ServiceConfig};
use warren_unit::settings::{Group, Id};

const RUNTIME_MAX: Id = Id::of(Group::Service, "RuntimeMaxSec");

/// The service was edited, and `before` is the generation before that: `RuntimeMaxSec=` holds for what
/// runs too, counted from its start, as with systemd 252. More time that it has asked for by
/// `EXTEND_TIMEOUT_USEC=` (sd_notify(3)) stays.
pub(crate) fn renew_runtime_limit(core: &mut Core, unit: UnitId, before: &Graph) {
    let runs = |phase| {
        use ServicePhase::{Reload, ReloadNotify, ReloadSignal, Running};
        matches!(phase, Running | Reload | ReloadSignal | ReloadNotify)
    };
    let Some(run) = core.units.service(unit).filter(|run| runs(run.phase)) else { return };
    let deadline = run.runtime_deadline;
    let invocation = invocation(&core.units, unit);
    let before = before.get(unit);
    let was = before.and_then(|definition| runtime_max_of(core, definition, invocation));
    let max = runtime_max_of(core, core.graph.definition(unit), invocation);
    if was == max {
        return;
    }
    let history = core.units.run(unit).history.as_ref();
    let since = history.map_or(core.times.now.monotonic, |history| history.active_enter.monotonic);
    let [until_now, until] = [was, max].map(|max| max.map(|max| since.after(max)));
    let extended = deadline.filter(|_| deadline > until_now);
    core.units.service_mut(unit).runtime_deadline =
        until.map(|until| extended.map_or(until, |at| at.max(until)));
}

/// What the files say, or those that there were. Most say nothing of it, and are not compiled for it.
fn runtime_max_of(core: &Core, definition: &Definition, invocation: u128) -> Option<Duration> {
    let is_said = definition.files.in_use().mention(RUNTIME_MAX);
    let settings = is_said.then(|| core.settings.common.compile_running(definition))?;
    runtime_max(settings.service(), invocation)
}

/// Of its last run; 0 if it has had none.
pub(crate) fn invocation(units: &Units, unit: UnitId) -> u128 {
    units.run(unit).history.as_ref().map_or(0, |history| history.invocation)
}

/// A service has come up.
pub(crate) fn begin_runtime_limit(
    units: &mut Units,
    now: Moment,
    unit: UnitId,
    config: &ServiceConfig,
) {
    let max = runtime_max(config, invocation(units, unit));
    let now = now.monotonic;
    units.service_mut(unit).runtime_deadline = max.map(|max| now.after(max));
}

/// How long a run may last.
fn runtime_max(config: &ServiceConfig, invocation: u128) -> Option<Duration> {
    Some(with_share(config.runtime_max?, config.runtime_randomized_extra, invocation))
}

/// When a scope that begins now has run for too long.
pub(crate) fn scope_deadline(
    units: &Units,
    now: Moment,
    unit: UnitId,
    config: &ScopeConfig,
) -> Option<Monotonic> {
    let share = |max| with_share(max, config.runtime_randomized_extra, invocation(units, unit));
    config.runtime_max.map(|max| now.monotonic.after(share(max)))
}

/// The share of `RuntimeRandomizedExtraSec=` that each run has of its own comes from its id: so it stays the same for as
/// long as the run lasts.
fn with_share(max: Duration, extra: Duration, invocation: u128) -> Duration {
    let share = (extra.as_micros() * (invocation & u128::from(u32::MAX))) >> 32;
    max.saturating_add(Duration::from_micros(share as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_share_of_the_extra_time() {
        let seconds = Duration::from_secs;
        let minute = |invocation| with_share(seconds(60), seconds(10), invocation);
        assert_eq!(minute(0), seconds(60));
        assert_eq!(minute(1 << 31), seconds(65));
        assert!((seconds(69)..seconds(70)).contains(&minute(u128::MAX)));
        assert_eq!(with_share(Duration::MAX, seconds(10), u128::MAX), Duration::MAX);
    }
}
