//! The part of the manager's state that is about what is written down.

use crate::recording::recorder::Recorder;
use crate::recording::state_file::StateFile;

/// Run state for the next manager, and recordings for people.
pub(crate) struct Recording {
    pub(crate) state: StateFile,
    pub(crate) recorder: Recorder,
}
