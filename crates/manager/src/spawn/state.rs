//! The part of the manager's state that is about commands being started.

use crate::base::environment::Environment;
use crate::spawn::environment_files::Reads;
use crate::spawn::filters::Filters;
use crate::spawn::helpers::Helpers;
use crate::spawn::mounts_into::MountsInto;
use crate::spawn::namespaces::Stores;
use crate::spawn::queue::SpawnQueue;
use crate::spawn::tools::Tools;
use crate::spawn::users::Names;
use crate::spawn::views::Views;

/// The helpers, and what commands wait for before a helper gets them.
pub(crate) struct Spawning {
    pub(crate) helpers: Helpers,
    /// Commands for which they have no room.
    pub(crate) queue: SpawnQueue,
    /// Tools that run for units, as mount(8).
    pub(crate) tools: Tools,
    /// The environment that every command begins with.
    pub(crate) environment: Environment,
    /// Commands that wait for their environment files.
    pub(crate) environment_files: Reads,
    /// Users that are being looked up.
    pub(crate) users: Names,
    /// What units forbid their processes to call.
    pub(crate) filters: Filters,
    /// Namespaces that the processes of a run share.
    pub(crate) namespaces: Stores,
    /// What units see of the file system.
    pub(crate) views: Views,
    /// Mounts that are being made for processes that run.
    pub(crate) mounts_into: MountsInto,
    /// It was logged that stalled helpers are no longer replaced.
    pub(crate) is_limit_reported: bool,
}

impl Spawning {
    /// No command is under way.
    pub(crate) fn new(helpers: Helpers, environment: Environment, users: Names) -> Spawning {
        Spawning {
            helpers,
            queue: SpawnQueue::default(),
            tools: Tools::default(),
            environment,
            environment_files: Reads::default(),
            users,
            filters: Filters::default(),
            namespaces: Stores::default(),
            views: Views::default(),
            mounts_into: MountsInto::default(),
            is_limit_reported: false,
        }
    }
}
