//! What wants the loop to look at it again although nothing happens.
//!
//! Every part of the loop that has a deadline, or a bound on how long others may keep it waiting,
//! implements [`Patient`]; `Daemon::patients` is the one list of them.

use std::time::{Duration, Instant};

use warren_bus::Bus;
use warren_core::machine::Core;
use warren_core::model::time::Monotonic;

/// A part of the loop that is due at some time.
pub(crate) trait Patient {
    /// When it is due, on the clock of the core.
    fn deadline(&self) -> Option<Monotonic> {
        None
    }

    /// How long it can go on waiting for others, if it waits for any.
    fn patience_left(&self, _now: Instant) -> Option<Duration> {
        None
    }

    /// Starts more threads for what waits behind threads that do not come back.
    fn relieve(&self, _now: Instant) {}
}

impl<T: Patient> Patient for Option<T> {
    fn deadline(&self) -> Option<Monotonic> {
        self.as_ref()?.deadline()
    }

    fn patience_left(&self, now: Instant) -> Option<Duration> {
        self.as_ref()?.patience_left(now)
    }

    fn relieve(&self, now: Instant) {
        self.iter().for_each(|patient| patient.relieve(now));
    }
}

impl Patient for Core {
    fn deadline(&self) -> Option<Monotonic> {
        self.next_deadline()
    }
}

impl Patient for Bus {
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        Bus::patience_left(self, now)
    }

    fn relieve(&self, now: Instant) {
        Bus::relieve(self, now);
    }
}
