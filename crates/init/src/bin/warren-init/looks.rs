//! When all children are looked at for those that have ended.
//!
//! SIGCHLD names a child, and asking for that one costs the same however many there are. But a
//! signal that is pending already is not queued again (signal(7)), so behind each others may hide
//! whom only waitid(2) for any child finds, and that walks over all of them. Such looks are spread
//! so that they take a small share of the time; who hid waits for the next one.

/// A look is followed by so many times its own length without one.
const PAUSE_FACTOR: u64 = 19;

/// No pause is longer, ns: a look may have been slow because we did not run.
const PAUSE_NS_MAX: u64 = 10_000_000;

/// The next look.
#[derive(Debug)]
pub struct Looks {
    asked: bool,
    not_before_ns: u64,
}

impl Looks {
    /// One is due at once: nobody knows what ended before.
    pub fn due() -> Looks {
        Looks { asked: true, not_before_ns: 0 }
    }

    /// Somebody has ended, and others may have.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// Whether to look now.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.due_ns().is_some_and(|at| at <= now_ns)
    }

    /// When to look, CLOCK_MONOTONIC; nothing as long as nobody asks.
    pub fn due_ns(&self) -> Option<u64> {
        self.asked.then_some(self.not_before_ns)
    }

    /// A look took so long; unless it came to its end, another is due.
    pub fn looked(&mut self, began_ns: u64, ended_ns: u64, to_the_end: bool) {
        let pause_ns = ended_ns.saturating_sub(began_ns).saturating_mul(PAUSE_FACTOR);
        self.not_before_ns = ended_ns + pause_ns.min(PAUSE_NS_MAX);
        self.asked = !to_the_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_twentieth_of_the_time() {
        let mut looks = Looks::due();
        assert!(looks.is_due(0));
        looks.looked(100, 200, true);
        assert_eq!(looks.due_ns(), None);
        looks.ask();
        assert_eq!(looks.due_ns(), Some(200 + 1900));
        assert!(!looks.is_due(2099) && looks.is_due(2100));
    }

    #[test]
    fn who_hides_waits_for_a_bounded_time() {
        let mut looks = Looks::due();
        looks.looked(0, 1_000_000_000, true);
        looks.ask();
        assert_eq!(looks.due_ns(), Some(1_000_000_000 + PAUSE_NS_MAX));
    }

    #[test]
    fn a_look_that_found_no_room_is_due_again() {
        let mut looks = Looks::due();
        looks.looked(0, 10, false);
        assert!(looks.is_due(10 + 190));
    }
}
