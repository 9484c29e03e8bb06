//! What starts units from outside: connections, accesses, mounts, paths, times.

use crate::mount::automounts::Traps;
use crate::mount::table::MountTable;
use crate::path::watcher::PathWatcher;
use crate::socket::accept::Accepting;
use crate::socket::sockets::Sockets;
use crate::timer::clock::WallClock;

/// One part for each room that watches something.
pub(crate) struct Triggers {
    pub(crate) sockets: Sockets,
    pub(crate) accepting: Accepting,
    /// Automount points.
    pub(crate) traps: Traps,
    pub(crate) mounts: MountTable,
    pub(crate) paths: PathWatcher,
    pub(crate) wall_clock: WallClock,
}
