//! What administrators say of units: maintenance and degraded (smf(5)), and comments.
//!
//! A unit in maintenance is down and stays so until it is cleared; to clients of systemd it has
//! failed. A degraded unit is up, and whoever needs it goes by that.

use crate::machine::Core;
use crate::model::active_state::ActiveState;
use crate::model::admin_marks::{Marked, Remark, remark_text};
use crate::model::ids::UnitId;
use crate::model::job::{JobMode, JobType};
use crate::model::reason::Cause;
use crate::protocol::request::{Refusal, Reply};
use crate::transaction::Anchor;
use warren_unit::config::GivenUp;
use warren_unit::settings::{Group, Id};

const MAINTENANCE: Id = Id::of(Group::Warren, "Maintenance");

impl Core {
    pub(crate) fn remark(&self, by: Cause, text: &str) -> Remark {
        Remark { by, at: self.times.now, text: remark_text(text) }
    }

    /// Whether it is in maintenance, or will be as soon as it is down.
    pub(crate) fn is_put_aside(&self, unit: UnitId) -> bool {
        self.units.run(unit).marked() == Some(Marked::Maintenance)
    }

    /// Marks a unit; one that is put aside is stopped first.
    pub(crate) fn mark(
        &mut self,
        unit: UnitId,
        marked: Marked,
        text: &str,
        by: Cause,
    ) -> Result<Reply, Refusal> {
        let remark = self.remark(by, text);
        if marked == Marked::Degraded {
            if !self.units.active_state(unit).is_up() || self.is_put_aside(unit) {
                return Err(Refusal::NotActive(self.graph.name(unit).clone()));
            }
            self.units.history_mut(unit).notes_mut().mark = Some((marked, remark));
            return Ok(Reply::Done);
        }
        let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Replace };
        self.enqueue(anchor, by)?;
        self.transit(unit, false, |run| {
            run.history.get_or_insert_default().notes_mut().mark = Some((marked, remark));
        });
        Ok(Reply::Done)
    }

    /// Takes a mark away; what was in maintenance is as if it had not failed.
    pub(crate) fn clear(&mut self, unit: UnitId) -> Result<Reply, Refusal> {
        if self.units.run(unit).marked().is_none()
            && self.units.active_state(unit) != ActiveState::Failed
        {
            return Err(Refusal::NothingToClear(self.graph.name(unit).clone()));
        }
        // First, as a failure that a mark has covered would be one that has just come, for which
        // `Maintenance=` marks it again.
        self.reset_failed(unit);
        if self.units.run(unit).marked().is_some() {
            self.transit(unit, false, |run| {
                run.history.get_or_insert_default().notes_mut().mark = None;
            });
        }
        self.units.history_mut(unit).drop_empty_notes();
        Ok(Reply::Done)
    }

    /// Keeps what was said with a stop, until the unit comes up again.
    pub(crate) fn comment(
        &mut self,
        unit: UnitId,
        text: &str,
        by: Cause,
    ) -> Result<Reply, Refusal> {
        let stops = self.units.run(unit).job.as_ref().is_some_and(|job| job.kind.is_stopping());
        if !stops && !self.units.active_state(unit).is_down_or_going() {
            return Err(Refusal::NotStopping(self.graph.name(unit).clone()));
        }
        let remark = self.remark(by, text);
        self.units.history_mut(unit).notes_mut().comment = Some(remark);
        Ok(Reply::Done)
    }

    /// Whether a unit that fails now, and that nothing starts again, is put aside by what its file
    /// says.
    pub(crate) fn gives_up(&mut self, unit: UnitId) -> bool {
        if self.totals.stopping || !self.graph.definition(unit).mentions(MAINTENANCE) {
            return false;
        }
        match self.compiled(unit).section.maintenance {
            GivenUp::Never => false,
            GivenUp::StartLimit => self.hit_start_limit(unit),
            GivenUp::Failure => true,
        }
    }

    /// Puts a unit aside that failed for good; its reason says why.
    pub(crate) fn give_it_up(&mut self, unit: UnitId) {
        let remark = self.remark(Cause::Manager, "");
        self.units.history_mut(unit).notes_mut().mark = Some((Marked::Maintenance, remark));
    }

    /// A unit changes its state: remarks that were about the one before are over.
    pub(crate) fn forget_remarks(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        let Some(notes) = self.units.run(unit).notes() else { return };
        let degraded = notes.mark.as_ref().is_some_and(|(marked, _)| *marked == Marked::Degraded);
        let (comes_up, goes_down) = (old.is_down() && !new.is_down(), new.is_down());
        if comes_up && notes.comment.is_some() || goes_down && degraded {
            let history = self.units.history_mut(unit);
            if comes_up {
                history.notes_mut().comment = None;
            }
            if goes_down && degraded {
                history.notes_mut().mark = None;
            }
            history.drop_empty_notes();
        }
    }
}
