//! What the end of a run starts: `OnFailure=`, `OnSuccess=` and the actions of the same kind (systemd.unit(5)).

use crate::features::start_limit;
use crate::jobs::install;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{JobMode, JobType};
use crate::model::process::*;
use crate::model::reason::{Cause, Code};
use crate::parts::queues::Transition;
use crate::parts::units::Units;
use crate::parts::{Core, unit_settings};
use crate::state_change;
use warren_unit::Relation;

/// `OnFailure=`, `OnSuccess=` and the actions of the same kind (systemd.unit(5)).
pub(crate) fn fire_outcome(core: &mut Core, transition: Transition) {
    let Transition { unit, old, new, will_restart, .. } = transition;
    let has_failed = match new {
        ActiveState::Failed => true,
        // Put aside by hand is no failure.
        ActiveState::Maintenance => core.units.outcome(unit) != Outcome::Success,
        _ => false,
    };
    if will_restart || old.is_down() && !(has_failed && old == ActiveState::Inactive) {
        return;
    }
    let (relation, failed) = match new {
        _ if has_failed => (Relation::OnFailure, true),
        ActiveState::Inactive if !old.is_down() => (Relation::OnSuccess, false),
        _ => return,
    };
    let counted = start_limit::is_limited(&core.graph, unit);
    start_by_outcome(core, unit, relation, counted);
    if core.graph.flags(unit).has_job_settings() {
        let section = unit_settings::compiled(core, unit).section.clone();
        let (action, status) = match failed {
            true => (section.failure_action, section.failure_action_exit_status),
            false => (section.success_action, section.success_action_exit_status),
        };
        let status = status.or_else(|| main_exit(&core.units, unit));
        core.outbox.emergency(action, unit, status, &section.reboot_argument);
    }
}

/// What the main process of the last run exited with, if it did.
fn main_exit(units: &Units, unit: UnitId) -> Option<u8> {
    match units.run(unit).history.as_ref()?.last_main?.status {
        ExitStatus::Exited(status) => Some(status),
        _ => None,
    }
}

/// Starts what `OnFailure=` or `OnSuccess=` names. `counted`: what ended counted as a start.
pub(crate) fn start_by_outcome(core: &mut Core, unit: UnitId, relation: Relation, counted: bool) {
    if !core.graph.flags(unit).has_on_result() {
        return;
    }
    if !counted && start_limit::answers_too_often(core, unit) {
        return leave_outcome_alone(core, unit, relation);
    }
    let section = unit_settings::compiled(core, unit).section.clone();
    let others = core.graph.related_by_any(unit, &[relation]);
    let mode = match relation {
        Relation::OnFailure => section.on_failure_job_mode,
        _ => section.on_success_job_mode,
    };
    // Of several each would stop the one before it: systemd.unit(5) allows only one with it.
    let mode = match mode {
        JobMode::Isolate if others.len() > 1 => JobMode::Replace,
        mode => mode,
    };
    let cause = Cause::Outcome(unit);
    for other in others {
        match start_limit::is_asked_too_often(core, other) {
            true => state_change::note(core, other, Code::OutcomeLimit, cause, String::new()),
            false => _ = install::enqueue_quietly(core, other, JobType::Start, mode, cause),
        }
    }
}

/// Does not start what `OnFailure=` or `OnSuccess=` names, because it would be too often.
fn leave_outcome_alone(core: &mut Core, unit: UnitId, relation: Relation) {
    let cause = Cause::Outcome(unit);
    for other in core.graph.related_by_any(unit, &[relation]) {
        if core.units.active_state(other).is_down() {
            state_change::note(core, other, Code::OutcomeLimit, cause, String::new());
        }
    }
}
