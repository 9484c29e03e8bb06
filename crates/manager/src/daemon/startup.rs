//! How far the manager is on its way to readiness.

use warren_core::model::time::Moment;

/// What readiness waits for.
pub(crate) struct Startup {
    /// When this process began.
    pub(crate) began: Moment,
    /// Clients can connect: only then is readiness announced.
    pub(crate) is_serving: bool,
    /// The first transaction was requested.
    pub(crate) is_first_unit_requested: bool,
    /// Readiness was announced to whoever started this manager.
    pub(crate) is_ready_announced: bool,
}

impl Startup {
    /// It has just begun.
    pub(crate) fn new(began: Moment) -> Startup {
        Startup {
            began,
            is_serving: false,
            is_first_unit_requested: false,
            is_ready_announced: false,
        }
    }

    /// Readiness waits only for the jobs of the first transaction.
    pub(crate) fn may_be_ready(&self) -> bool {
        self.is_serving && self.is_first_unit_requested && !self.is_ready_announced
    }
}
