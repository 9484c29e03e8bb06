//! Waits between two tries, each about twice as long as the one before.
//!
//! Must not: try for ever: the unit of the program starts it again, where people see it.

use std::time::{Duration, Instant};

/// The first wait, and the longest one, seconds; also of what a receiver asks for.
const FIRST_SECONDS: u64 = 1;
const LONGEST_SECONDS: u64 = 60;

/// Tries of one request.
#[derive(Debug)]
pub struct Retries {
    most: u32,
    done: u32,
}

impl Retries {
    /// At most so many behind the first try.
    pub fn new(most: u32) -> Retries {
        Retries { most, done: 0 }
    }

    /// Another request.
    pub fn begin(&mut self) {
        self.done = 0;
    }

    /// Whether there is none left.
    pub fn are_over(&self) -> bool {
        self.done >= self.most
    }

    /// Waits before the next try; says why, once for a request.
    pub fn wait(&mut self, why: &str, wanted: Option<u64>) {
        let seconds = seconds(self.done, wanted);
        if self.done == 0 {
            warren_sys::tell!("{why}; trying again in {seconds} s, {} times at most", self.most);
        }
        self.done += 1;
        let until = Instant::now() + Duration::from_secs(seconds);
        // Nobody wakes this thread; it may wake up all the same.
        while let Some(left) =
            until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            std::thread::park_timeout(left);
        }
    }
}

/// How long to wait after so many tries, or for what the receiver wants.
fn seconds(done: u32, wanted: Option<u64>) -> u64 {
    let own = FIRST_SECONDS.checked_shl(done).unwrap_or(LONGEST_SECONDS);
    wanted.unwrap_or(own).clamp(FIRST_SECONDS, LONGEST_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_longer_each_time_and_bounded() {
        let waits: Vec<u64> = (0..9).map(|done| seconds(done, None)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(seconds(200, None), LONGEST_SECONDS);
        let wanted = [0, 7, 86_400].map(|wanted| seconds(3, Some(wanted)));
        assert_eq!(wanted, [1, 7, 60]);
    }

    #[test]
    fn tries_are_counted_for_each_request() {
        let mut retries = Retries { most: 2, done: 2 };
        assert!(retries.are_over());
        retries.begin();
        assert!(!retries.are_over() && Retries::new(0).are_over());
    }
}
