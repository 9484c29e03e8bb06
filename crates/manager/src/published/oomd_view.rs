//! What systemd-oomd is to look after, as threads see it that tell it.

use crate::base::answers::Bell;
use crate::cgroup::oomd::OomdTable;
use crate::published::watchers::{Watch, Watchers};
use std::sync::{Arc, Mutex, PoisonError};

/// The newest table of groups, and who is woken by the next.
#[derive(Debug, Default)]
pub(crate) struct OomdView {
    table: Mutex<OomdTable>,
    watchers: Watchers,
}

impl OomdView {
    /// Puts up a new table, and wakes who waits for one.
    pub(crate) fn publish(&self, table: OomdTable) {
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = table;
        self.watchers.wake();
    }

    /// The newest table.
    pub(crate) fn table(&self) -> OomdTable {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has a bell ring with each new table, for as long as the value is kept.
    pub(crate) fn watch(&self, bell: &Arc<Bell>) -> Watch<'_> {
        self.watchers.watch(bell)
    }
}
