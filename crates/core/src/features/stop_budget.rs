//! How the time for a stop is divided among its phases, and the least that each is given.

use std::time::Duration;

/// A later phase of a stop is left this part of the whole time: one in so many.
const SHARES: u32 = 10;

/// But not more than this.
pub(crate) const SHARE_MAX: Duration = Duration::from_secs(5);

/// The least time that processes have to end after a signal.
pub(crate) const SIGNAL_WAIT_MIN: Duration = Duration::from_secs(1);

pub(crate) fn share_of(budget: Duration) -> Duration {
    (budget / SHARES).min(SHARE_MAX)
}

/// A command of a stop waits so long at least for its process, however little time the stop has left.
pub(crate) const SPAWN_WAIT_MIN: Duration = Duration::from_secs(5);
