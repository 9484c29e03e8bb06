//! What a stop would take with it: the plan that [`transaction::build`] makes, of a picture of everything, so that
//! nobody asks the machine and nothing is installed.

use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode, JobType};
use crate::protocol::request::Refusal;
use crate::transaction::{self, Anchor, Planned, World};
use crate::view::View;

impl View {
    /// The stops that a stop of `unit` with the mode `replace` would lead to: its own first, then the others by name.
    /// Only `unit` is in it where nothing else is up.
    ///
    /// # Errors
    /// Why such a stop would be refused.
    pub fn stop_plan(&self, unit: UnitId) -> Result<Vec<Planned>, Refusal> {
        let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Replace };
        let plan = transaction::build(&self.graph, &Stops(self), anchor)?;
        Ok(plan.jobs.into_iter().filter(|job| job.kind == JobKind::Stop).collect())
    }
}

/// A picture, as far as a stop looks at it.
struct Stops<'a>(&'a View);

impl World for Stops<'_> {
    fn active_state(&self, unit: UnitId) -> ActiveState {
        self.0.active_state(unit)
    }

    fn installed(&self, unit: UnitId) -> Option<(JobKind, bool)> {
        self.0.job(unit).map(|job| (job.kind, job.irreversible))
    }

    fn has_begun(&self, unit: UnitId) -> bool {
        self.0.job(unit).is_some_and(|job| job.running)
    }

    /// Of `isolate` and `flush`, which are no plain stops.
    fn busy_units(&self) -> Vec<UnitId> {
        Vec::new()
    }

    fn can_reload(&self, unit: UnitId) -> bool {
        self.0.graph.can_reload(unit)
    }

    // The rest is asked about units that are to come up, and by `isolate`.

    fn is_unseen(&self, _: UnitId) -> bool {
        false
    }

    fn is_put_aside(&self, _: UnitId) -> bool {
        false
    }

    fn does_without(&self, _: UnitId, _: UnitId) -> bool {
        false
    }

    fn accepted_by(&self, _: UnitId) -> Option<UnitId> {
        None
    }
}
