//! What the last manager began and this one finishes.

use crate::spawn::helpers::Answered;
use std::collections::BTreeSet;
use warren_core::model::ids::EffectId;
use warren_core::protocol::event::Effect;

/// Effects of the last manager that may have been carried out, in part or not at all.
#[derive(Default)]
pub(crate) struct Recovery {
    /// Counts the managers of this init.
    pub(crate) incarnation: u64,
    /// The effects that are carried out now were requested by the last manager already.
    pub(crate) is_resuming: bool,
    /// What helpers answered to the last manager.
    pub(crate) answered: Answered,
    /// Effects that it may have begun, until all helpers have answered.
    pub(crate) unsettled: Vec<Effect>,
    /// Spawns that it may have requested, and that were given up before this manager requested them: they are
    /// answered when all helpers have said what they did then.
    pub(crate) given_up: BTreeSet<EffectId>,
}

impl Recovery {
    /// Nothing is taken up yet.
    pub(crate) fn new(incarnation: u64) -> Recovery {
        Recovery { incarnation, ..Recovery::default() }
    }
}
