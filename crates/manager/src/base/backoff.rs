//! A thread that follows something for ever tries again where it cannot.

use std::fmt::Display;
use std::time::Duration;

use warren_sys::epoll::{Epoll, Events};

use crate::base::say::say;

/// The second try comes after so long; each time the wait is twice as long ...
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// ... but never longer.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The tries of one thread.
pub struct Retries {
    /// Nothing is in this set: a wait for it is one for the time alone.
    idle: Epoll,
    /// How long it waited last, if the last try failed.
    waited: Option<Duration>,
}

impl Retries {
    /// None failed.
    ///
    /// # Errors
    /// No file descriptor is to be had.
    pub fn new() -> warren_sys::Result<Retries> {
        Ok(Retries { idle: Epoll::new()?, waited: None })
    }

    /// A try did not fail.
    pub fn succeeded(&mut self) {
        self.waited = None;
    }

    /// Whether the last try failed: what was to be heard of may have been lost.
    pub fn are_going_on(&self) -> bool {
        self.waited.is_some()
    }

    /// A try failed: says so, if the one before did not, and waits until it is time for the next.
    pub fn failed(&mut self, what: &str, error: &dyn Display) {
        if self.waited.is_none() {
            say!("{what} until reading works again: {error}");
        }
        let wait = next_wait(self.waited);
        self.waited = Some(wait);
        self.rest(wait);
    }

    /// Waits for so long.
    pub fn rest(&self, time: Duration) {
        let _ = self.idle.wait(&mut Events::with_capacity(1), Some(time));
    }
}

fn next_wait(waited: Option<Duration>) -> Duration {
    waited.map_or(FIRST_WAIT, |waited| (waited * 2).min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_come_less_and_less_often_up_to_a_bound() {
        let mut waited = None;
        let waits: Vec<u128> = std::iter::repeat_with(|| {
            waited = Some(next_wait(waited));
            waited.expect("just set").as_millis()
        })
        .take(8)
        .collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }
}
