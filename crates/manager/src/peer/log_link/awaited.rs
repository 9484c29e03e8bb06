//! Streams for a log daemon that has not said anything yet: while its unit is on its way up, init keeps what services
//! write, and the daemon gets it when it begins. One that does not come, or not in time, holds nobody up: what waits
//! goes to the files of the units (`spill`), for as long as a service goes on to write or until a daemon says `HELLO`.

use crate::base::patience::Patient;
use crate::peer::log_link::LogLink;
use crate::peer::log_link::spill::{Copied, Spill};
use crate::peer::log_link::words::StreamName;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// So long a daemon that is on its way is waited for by who writes more than a stream has room for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What waits for the first word of a daemon.
#[derive(Default)]
pub(crate) struct Awaited {
    /// Streams wait that nobody reads, the first one since then.
    pub(crate) since: Option<Instant>,
    /// The daemon that is on its way is too late: output goes to files until it says something.
    pub(crate) is_late: bool,
    /// Copies to files what does not wait any more.
    pub(crate) spill: Option<Spill>,
}

impl Awaited {
    /// A stream waits.
    pub fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// A daemon is there. What is copied is let go for it.
    pub fn end(&mut self) {
        (self.since, self.is_late) = (None, false);
        self.spill.iter().for_each(Spill::let_go);
    }

    /// Whether a stream is copied to a file.
    pub fn copies(&self, key: u64) -> bool {
        self.spill.as_ref().is_some_and(|spill| spill.has(key))
    }

    /// Whether no more streams can be copied now.
    pub fn is_full(&self) -> bool {
        self.spill.as_ref().is_some_and(|spill| !spill.has_room())
    }

    pub(crate) fn left(&self, now: Instant) -> Option<Duration> {
        self.since.map(|since| (since + PATIENCE).saturating_duration_since(now))
    }
}

impl LogLink {
    /// All streams are to be asked for but those that are copied, which come when they are let go.
    pub(crate) fn leave_out_all(&mut self) {
        let own = self.streams.keys().filter(|&&key| !self.awaited.copies(key));
        self.left_out = own.copied().collect();
        self.ask_again = self.asked;
    }

    /// Has a stream copied that is not to wait; one too many stays left out.
    pub(crate) fn copy(&mut self, name: StreamName, reader: OwnedFd) {
        let Some(spill) = self.awaited.spill.as_mut().filter(|spill| spill.has_room()) else {
            return;
        };
        if self.left_out.remove(&name.key) {
            spill.copy(Copied { key: name.key, unit: name.unit, reader });
        }
    }
}

impl Patient for LogLink {
    // How long a daemon is waited for yet, if something waits for it.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        self.awaited.left(now)
    }
}
