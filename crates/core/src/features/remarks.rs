//! What administrators say of a unit, and what the manager remarks of it: comments, maintenance, giving up.
//!
//! Must not: start or stop a unit; the orders of administrators are in `machine::admin_marks`.

use crate::features::start_limit;
use crate::graph::Graph;
use crate::model::active_state::ActiveState;
use crate::model::admin_marks::{Marked, Remark, remark_text};
use crate::model::ids::UnitId;
use crate::model::reason::Cause;
use crate::model::time::Moment;
use crate::parts::units::Units;
use crate::parts::{Core, unit_settings};
use crate::protocol::request::{Refusal, Reply};
use warren_unit::config::GivenUp;
use warren_unit::settings::{Group, Id};

const MAINTENANCE: Id = Id::of(Group::Warren, "Maintenance");

pub(crate) fn remark(now: Moment, by: Cause, text: &str) -> Remark {
    Remark { by, at: now, text: remark_text(text) }
}

/// Whether it is in maintenance, or will be as soon as it is down.
pub(crate) fn is_put_aside(units: &Units, unit: UnitId) -> bool {
    units.run(unit).marked() == Some(Marked::Maintenance)
}

/// Keeps what was said with a stop, until the unit comes up again.
pub(crate) fn comment(
    graph: &Graph,
    units: &mut Units,
    now: Moment,
    unit: UnitId,
    text: &str,
    by: Cause,
) -> Result<Reply, Refusal> {
    let stops = units.run(unit).job.as_ref().is_some_and(|job| job.kind.is_stopping());
    if !stops && !units.active_state(unit).is_down_or_going() {
        return Err(Refusal::NotStopping(graph.name(unit).clone()));
    }
    let remark = remark(now, by, text);
    units.history_mut(unit).notes_mut().comment = Some(remark);
    Ok(Reply::Done)
}

/// Whether a unit that fails now, and that nothing starts again, is put aside by what its file
/// says.
pub(crate) fn gives_up(core: &mut Core, unit: UnitId) -> bool {
    if core.totals.stopping || !core.graph.definition(unit).mentions(MAINTENANCE) {
        return false;
    }
    match unit_settings::compiled(core, unit).section.maintenance {
        GivenUp::Never => false,
        GivenUp::StartLimit => start_limit::hit_start_limit(&core.units, unit),
        GivenUp::Failure => true,
    }
}

/// Puts a unit aside that failed for good; its reason says why.
pub(crate) fn give_it_up(units: &mut Units, now: Moment, unit: UnitId) {
    let remark = remark(now, Cause::Manager, "");
    units.history_mut(unit).notes_mut().mark = Some((Marked::Maintenance, remark));
}

/// A unit changes its state: remarks that were about the one before are over.
pub(crate) fn forget_remarks(units: &mut Units, unit: UnitId, old: ActiveState, new: ActiveState) {
    let Some(notes) = units.run(unit).notes() else { return };
    let degraded = notes.mark.as_ref().is_some_and(|(marked, _)| *marked == Marked::Degraded);
    let (comes_up, goes_down) = (old.is_down() && !new.is_down(), new.is_down());
    if comes_up && notes.comment.is_some() || goes_down && degraded {
        let history = units.history_mut(unit);
        if comes_up {
            history.notes_mut().comment = None;
        }
        if goes_down && degraded {
            history.notes_mut().mark = None;
        }
        history.drop_empty_notes();
    }
}
