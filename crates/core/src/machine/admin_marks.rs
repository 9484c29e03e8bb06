//! What administrators say of units: maintenance and degraded (smf(5)), and comments.
//!
//! A unit in maintenance is down and stays so until it is cleared; to clients of systemd it has
//! failed. A degraded unit is up, and whoever needs it goes by that.

use crate::features::remarks;
use crate::jobs::install;
use crate::model::active_state::ActiveState;
use crate::model::admin_marks::Marked;
use crate::model::ids::UnitId;
use crate::model::job::{JobMode, JobType};
use crate::model::process::Outcome;
use crate::model::reason::Cause;
use crate::model::state::{
    Automount, History, Mount, Path, RateWindow, Scope, Service, ServicePhase, Socket, Timer,
    TypeState,
};
use crate::parts::Core;
use crate::parts::units::Units;
use crate::protocol::request::{Refusal, Reply};
use crate::state_change;
use crate::transaction::Anchor;

/// Marks a unit; one that is put aside is stopped first.
pub(crate) fn mark(
    core: &mut Core,
    unit: UnitId,
    marked: Marked,
    text: &str,
    by: Cause,
) -> Result<Reply, Refusal> {
    let remark = remarks::remark(core.times.now, by, text);
    if marked == Marked::Degraded {
        if !core.units.active_state(unit).is_up() || remarks::is_put_aside(&core.units, unit) {
            return Err(Refusal::NotActive(core.graph.name(unit).clone()));
        }
        core.units.history_mut(unit).notes_mut().mark = Some((marked, remark));
        return Ok(Reply::Done);
    }
    let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Replace };
    install::enqueue(core, anchor, by)?;
    state_change::transit(core, unit, false, |run| {
        run.history.get_or_insert_default().notes_mut().mark = Some((marked, remark));
    });
    Ok(Reply::Done)
}

/// Takes a mark away; what was in maintenance is as if it had not failed.
pub(crate) fn clear(core: &mut Core, unit: UnitId) -> Result<Reply, Refusal> {
    if core.units.run(unit).marked().is_none()
        && core.units.active_state(unit) != ActiveState::Failed
    {
        return Err(Refusal::NothingToClear(core.graph.name(unit).clone()));
    }
    // First, as a failure that a mark has covered would be one that has just come, for which
    // `Maintenance=` marks it again.
    reset_failed(core, unit);
    if core.units.run(unit).marked().is_some() {
        state_change::transit(core, unit, false, |run| {
            run.history.get_or_insert_default().notes_mut().mark = None;
        });
    }
    core.units.history_mut(unit).drop_empty_notes();
    Ok(Reply::Done)
}

pub(crate) fn reset_failed(core: &mut Core, unit: UnitId) {
    let Some(history) = core.units.run(unit).history.as_ref() else { return };
    let counts = history.starts != RateWindow::default();
    if has_no_failure(&core.units, unit, history) {
        if counts {
            let history = core.units.run_to_rearm(unit).history.as_mut();
            history.expect("looked at above").starts = RateWindow::default();
        }
        return;
    }
    state_change::transit(core, unit, false, |run| match &mut run.state {
        TypeState::Service(s @ Service::Failed(_)) => *s = Service::Dead,
        TypeState::Service(Service::Up(run)) if run.phase == ServicePhase::AutoRestart => {
            run.outcome = Outcome::Success;
        }
        TypeState::Socket(s @ Socket::Failed(_)) => *s = Socket::Dead,
        TypeState::Mount(s @ Mount::Failed(_)) | TypeState::Swap(s @ Mount::Failed(_)) => {
            *s = Mount::Dead;
        }
        TypeState::Automount(s @ Automount::Failed(_)) => *s = Automount::Dead,
        TypeState::Timer(s @ Timer::Failed(_)) => *s = Timer::Dead,
        TypeState::Path(s @ Path::Failed(_)) => *s = Path::Dead,
        TypeState::Scope(s @ Scope::Failed(_)) => *s = Scope::Dead,
        _ => {}
    });
    let history = core.units.history_mut(unit);
    history.starts = RateWindow::default();
    history.restarts = 0;
    history.outcome = Outcome::Success;
}

/// Whether clients see nothing of it that `reset-failed` takes away.
fn has_no_failure(units: &Units, unit: UnitId, history: &History) -> bool {
    let run = units.run(unit);
    let has_outcome = match &run.state {
        TypeState::Service(Service::Up(run)) => run.outcome != Outcome::Success,
        _ => false,
    };
    run.active_state() != ActiveState::Failed
        && !has_outcome
        && history.restarts == 0
        && history.outcome == Outcome::Success
}
