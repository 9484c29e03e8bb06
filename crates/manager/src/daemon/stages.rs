//! The stages of a manager's life besides serving: startup, recovery after a crash, shutdown.

use crate::daemon::recovery::Recovery;
use crate::daemon::startup::Startup;
use crate::shutdown::state::Shutdown;

/// How far each stage is.
pub(crate) struct Stages {
    pub(crate) startup: Startup,
    pub(crate) recovery: Recovery,
    pub(crate) shutdown: Shutdown,
}
