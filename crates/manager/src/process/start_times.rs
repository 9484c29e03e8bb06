//! Start times of processes: an exit record of an earlier process with the same PID is not this one's.

use std::time::Duration;

/// A process is known to the machine so soon after it was made. Nobody else has its number within that
/// time: the kernel hands out all others before.
const KNOWN_WITHIN: Duration = Duration::from_millis(100);

/// Moments of CLOCK_MONOTONIC, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StartTime {
    /// It was made then, or was there.
    Seen(u64),
    /// One with its number was there at `at`. It is the one that is meant if it was made before the
    /// machine knew that one, at `known`.
    Found {
        /// When it was looked for.
        at: u64,
        /// As the last incarnation wrote down.
        known: u64,
    },
}

impl StartTime {
    /// Whether what was recorded then is about another process. `is_younger` says whether the one that is
    /// there was made after a moment.
    pub(crate) fn excludes(self, recorded: u64, is_younger: impl FnOnce(u64) -> bool) -> bool {
        match self {
            StartTime::Seen(at) => recorded < at,
            StartTime::Found { at, known } => {
                recorded < at && !is_younger(known.saturating_add(KNOWN_WITHIN.as_nanos() as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_before_the_beginning_is_that_of_another_process() {
        let unasked = |_| panic!("that is known");
        assert!(StartTime::Seen(10).excludes(9, unasked));
        assert!(!StartTime::Seen(10).excludes(10, unasked));
    }

    /// Its number may be that of another process by now.
    #[test]
    fn what_ended_while_there_was_no_manager_may_be_the_one_that_it_knew() {
        let found = StartTime::Found { at: 500_000_000, known: 100_000_000 };
        let made = |moment| move |than| moment > than;
        assert!(found.excludes(90_000_000, made(99_000_000)), "it is older, and is there still");
        assert!(!found.excludes(300_000_000, made(400_000_000)));
        assert!(!found.excludes(500_000_000, made(99_000_000)), "it has ended since");
    }
}
