//! `RestartMode=` (systemd.service(5)): what others see of a restart by `Restart=`.
//!
//! With `direct` a service that is to come again is never down between two runs, so that no unit that depends on it ends
//! with it and nothing of `OnFailure=` is started. How it ends is known only when nothing of it runs any more, so
//! until then others hear of nothing.

use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{Job, JobKind};
use crate::model::reason::Cause;
use crate::model::state::{TypeState, UnitRun};
use crate::parts::units::Units;
use crate::parts::{Core, unit_settings};
use crate::settings::{Compiled, TypeSettings};
use warren_unit::config::RestartMode;
use warren_unit::settings::{Group, Id};

const RESTART_MODE: Id = Id::of(Group::Service, "RestartMode");

/// Whether it is a service with `RestartMode=direct`.
pub(crate) fn is_direct(core: &mut Core, unit: UnitId) -> bool {
    let is_service = matches!(core.units.run(unit).state, TypeState::Service(_));
    is_service
        && core.graph.definition(unit).mentions(RESTART_MODE)
        && unit_settings::compiled(core, unit).service().restart_mode == RestartMode::Direct
}

/// Whether a service is stopping without a job and may still be restarted. With `RestartMode=direct` it either restarts
/// without having been inactive, or its end is reported when it is inactive.
pub(crate) fn may_restart_unseen(core: &mut Core, unit: UnitId) -> bool {
    let is_going = core.units.active_state(unit) == ActiveState::Deactivating;
    is_going && is_direct(core, unit)
}

/// Whether this change of state is the end of a run that other units are to hear of, which no job brought about.
pub(crate) fn has_ended_by_itself(
    core: &mut Core,
    unit: UnitId,
    old: ActiveState,
    new: ActiveState,
) -> bool {
    match is_direct(core, unit) {
        true => !old.is_down() && new.is_down(),
        false => !old.is_down_or_going() && new.is_down_or_going(),
    }
}

/// Whether the restart for which the service waits is due, and starts it as it is: with `RestartMode=direct`.
pub(crate) fn is_started_again(units: &Units, unit: UnitId) -> bool {
    let is_due = units.service(unit).is_some_and(|run| run.deadline.is_none());
    let starts = |job: &Job| {
        job.reason.cause == Cause::Restart && matches!(job.kind, JobKind::Start | JobKind::Reload)
    };
    units.waits_to_restart(unit) && is_due && units.run(unit).job.as_deref().is_some_and(starts)
}

/// Whether this run of a service is one that `RestartMode=debug` began after another had ended. All its
/// messages are logged, and its processes have `$DEBUG_INVOCATION` set.
pub fn is_for_debugging(run: &UnitRun, settings: &Compiled) -> bool {
    let is_restarted = run.history.as_ref().is_some_and(|history| history.restarts > 0);
    match &settings.own {
        TypeSettings::Service(config) => config.restart_mode == RestartMode::Debug && is_restarted,
        _ => false,
    }
}
