//! Messages that are to be kept for a time only: files are closed and removed in time, however little
//! comes.

use crate::daemon::bounds::PARTS_OF_RETENTION;
use crate::daemon::clock::now_us;
use crate::daemon::core::Core;

/// It is looked at so many times as often as that.
const LOOKS: u64 = 4;

/// At least and at most so much time between two looks, µs.
const LOOK_MIN_US: u64 = 1_000_000;
const LOOK_MAX_US: u64 = 3_600_000_000;

impl Core {
    /// When files are to be looked at, monotonic µs; never where all may stay.
    pub(super) fn look_due_us(&self) -> Option<u64> {
        let shortest = self.config.retentions().min()?;
        let between = (shortest / PARTS_OF_RETENTION / LOOKS).clamp(LOOK_MIN_US, LOOK_MAX_US);
        Some(self.looked_us.saturating_add(between))
    }

    /// Closes logs that are old enough, and has files removed that are too old, when it is time.
    pub fn look_at_ages(&mut self) {
        let now = now_us();
        if self.look_due_us().is_none_or(|due| now < due) {
            return;
        }
        self.looked_us = now;
        // It has messages of all classes: none is there for longer than its own may be.
        if let (Some(mirror), Some(shortest)) = (&mut self.mirror, self.config.retentions().min()) {
            mirror.forget(shortest, now);
        }
        let (config, Some(keep)) = (&self.config, &mut self.keep) else { return };
        let is_old = |class: &str, begun_us: u64| {
            let retention = config.retention_of(class);
            retention.is_some_and(|us| now.saturating_sub(begun_us) >= us / PARTS_OF_RETENTION)
        };
        let ended = keep.store.end_those(is_old);
        keep.upkeep.make_room();
        if let Err(e) = ended {
            self.trouble(&e);
        }
        self.flush_or_say();
    }
}
