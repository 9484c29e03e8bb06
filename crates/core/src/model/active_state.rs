//! The state of any unit in one word, as clients see it.

use serde::{Deserialize, Serialize};

/// The state of any unit, as `systemctl` shows it in the ACTIVE column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum ActiveState {
    /// Doing what it is for.
    Active,
    /// Active, and re-reading its configuration.
    Reloading,
    /// Not started.
    Inactive,
    /// Not running because something went wrong.
    Failed,
    /// Being started.
    Activating,
    /// Being stopped.
    Deactivating,
    /// Failed in a way that only an administrator clears; `failed` on the wire.
    Maintenance,
}

impl ActiveState {
    /// The word that clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            ActiveState::Active => "active",
            ActiveState::Reloading => "reloading",
            ActiveState::Inactive => "inactive",
            ActiveState::Failed | ActiveState::Maintenance => "failed",
            ActiveState::Activating => "activating",
            ActiveState::Deactivating => "deactivating",
        }
    }

    /// Active or reloading.
    pub fn is_up(self) -> bool {
        matches!(self, ActiveState::Active | ActiveState::Reloading)
    }

    /// Inactive or failed: nothing of the unit runs.
    pub fn is_down(self) -> bool {
        matches!(self, ActiveState::Inactive | ActiveState::Failed | ActiveState::Maintenance)
    }

    /// Up or on its way up.
    pub fn is_up_or_coming(self) -> bool {
        self.is_up() || self == ActiveState::Activating
    }

    /// Down or on its way down.
    pub fn is_down_or_going(self) -> bool {
        self.is_down() || self == ActiveState::Deactivating
    }
}
