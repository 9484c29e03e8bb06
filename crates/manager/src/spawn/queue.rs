//! Commands for which no helper has room yet: of them nothing is opened, so that thousands that are started at once take
//! no more descriptors and memory than a few.

use std::collections::VecDeque;

use warren_core::model::ids::EffectId;
use warren_core::protocol::event::Spawn;
use warren_init::protocol::exec::Served;

/// A command that is to be made ready for a helper.
pub(crate) struct Queued {
    pub(crate) id: EffectId,
    pub(crate) spawn: Box<Spawn>,
    /// Of its environment files.
    pub(crate) variables: Vec<(String, String)>,
    /// What services said of names.
    pub(crate) served: Served,
}

/// They are made ready in the order in which they came.
pub(crate) type SpawnQueue = VecDeque<Queued>;
