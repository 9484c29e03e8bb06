//! The pings to init.

use crate::daemon::Daemon;

impl Daemon {
    /// Sends a ping if one is due. What was taken in must be written down.
    pub(crate) fn heartbeat(&mut self) {
        if let Some(number) = self.event_loop.pings.take_due(crate::base::clock::now().monotonic) {
            // If there is no room for it, what fills it is being taken.
            let _ = self.process.init.ping(number);
        }
    }

    /// Has init say when it has done what was asked for; the number that it will say.
    pub(crate) fn ask_init(&mut self) -> u64 {
        self.event_loop.pings.ask(crate::base::clock::now().monotonic)
    }
}
