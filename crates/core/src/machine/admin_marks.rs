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
use crate::model::reason::Cause;
use crate::parts::Core;
use crate::protocol::request::{Refusal, Reply};
use crate::state_change;
use crate::transaction::Anchor;

impl Core {
    /// Marks a unit; one that is put aside is stopped first.
    pub(crate) fn mark(
        &mut self,
        unit: UnitId,
        marked: Marked,
        text: &str,
        by: Cause,
    ) -> Result<Reply, Refusal> {
        let remark = remarks::remark(self, by, text);
        if marked == Marked::Degraded {
            if !self.units.active_state(unit).is_up() || remarks::is_put_aside(self, unit) {
                return Err(Refusal::NotActive(self.graph.name(unit).clone()));
            }
            self.units.history_mut(unit).notes_mut().mark = Some((marked, remark));
            return Ok(Reply::Done);
        }
        let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Replace };
        install::enqueue(self, anchor, by)?;
        state_change::transit(self, unit, false, |run| {
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
            state_change::transit(self, unit, false, |run| {
                run.history.get_or_insert_default().notes_mut().mark = None;
            });
        }
        self.units.history_mut(unit).drop_empty_notes();
        Ok(Reply::Done)
    }
}
