//! Pings to init: that the manager is alive, and questions whether init has done what was asked of it.
//!
//! Init tells the next manager again of a signal by which the machine is to end, unless this one has pinged twice since
//! it was told. So one ping is on its way at a time, and the next is sent when what init said before its answer has
//! been taken in and written down.

use std::time::Duration;
use warren_core::model::time::Monotonic;

/// Pings are no further apart than this while there is nothing to do.
pub const HEARTBEAT: Duration = Duration::from_secs(10);

/// What was sent and answered.
pub struct Pings {
    /// The number of the last ping that was sent or is to be.
    number: u64,
    sent: Monotonic,
    is_asked: bool,
    is_on_its_way: bool,
}

impl Pings {
    /// One is due at once.
    pub fn new(now: Monotonic) -> Pings {
        Pings { number: 0, sent: now, is_asked: true, is_on_its_way: false }
    }

    /// Has one sent as soon as may be; its number.
    pub(crate) fn ask(&mut self, now: Monotonic) -> u64 {
        self.number = now.0.max(self.number + 1);
        self.is_asked = true;
        self.number
    }

    /// The number of the one that is to be sent now: all that init has said is written down.
    pub(crate) fn take_due(&mut self, now: Monotonic) -> Option<u64> {
        let is_due = self.is_asked || now.since(self.sent) >= HEARTBEAT / 2;
        if !is_due || self.is_on_its_way {
            return None;
        }
        if !self.is_asked {
            self.ask(now);
        }
        (self.sent, self.is_asked, self.is_on_its_way) = (now, false, true);
        Some(self.number)
    }

    /// The one that was on its way is answered.
    pub fn answered(&mut self) {
        self.is_on_its_way = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    /// What follows from each step at so many seconds, `.` for nothing: `a` asks, `d` is what is due, `p` an answer.
    #[track_caller]
    fn check(steps: &str, expected: &str) {
        let mut pings = Pings::new(Monotonic(0));
        let numbers = steps.split(' ').map(|step| {
            let (second, kind) = step.split_at(step.len() - 1);
            let now = Monotonic(second.parse::<u64>().expect("a number") * SECOND_US);
            let number = match kind {
                "a" => Some(pings.ask(now)),
                "d" => pings.take_due(now),
                _ => {
                    pings.answered();
                    None
                }
            };
            number.map_or(".".to_owned(), |number| number.to_string())
        });
        assert_eq!(numbers.collect::<Vec<_>>().join(" "), expected, "{steps}");
    }

    #[test]
    fn a_ping_is_sent_only_when_the_last_is_answered() {
        check("0d 1d 0p 1d 6d 6d 12d", "0 . . . 6000000 . .");
        check("0d 0p 6d 6a 6d 6d 6p 6d 6d", "0 . 6000000 6000001 . . . 6000001 .");
        check("0d 0p 1a 1a 1d 1p 2d", "0 . 1000000 1000001 1000001 . .");
    }
}
