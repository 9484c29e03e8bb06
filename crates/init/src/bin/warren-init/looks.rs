//! When all children are looked at for those that have ended.
//!
//! SIGCHLD names a child, and asking for that one costs the same however many there are. But a
//! signal that is pending already is not queued again (signal(7)), so behind each others may hide
//! whom only waitid(2) for any child finds, and that walks over all of them. Such looks are spread
//! so that they take a small share of the time, and become rare while they find nobody; who hid
//! waits for the next one.

/// A look that found somebody is followed by so many times its own length without one.
const PAUSE_FACTOR: u64 = 19;

/// No pause is longer, ns: who hid waits no longer, and a look may have been slow because we did
/// not run.
const PAUSE_NS_MAX: u64 = 10_000_000;

/// What a look came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Somebody had hidden.
    pub somebody: bool,
    /// Nobody who has ended is left.
    pub to_the_end: bool,
}

/// The next look.
#[derive(Debug)]
pub struct Looks {
    asked: bool,
    not_before_ns: u64,
    /// How long the last pause was, in lengths of the look before it.
    factor: u64,
}

impl Looks {
    /// One is due at once: nobody knows what ended before.
    pub fn due() -> Looks {
        Looks { asked: true, not_before_ns: 0, factor: PAUSE_FACTOR }
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

    /// A look took so long. Where children end one by one none hides, so each look in vain makes
    /// the pause twice as long. Unless it came to its end, another is due.
    pub fn looked(&mut self, began_ns: u64, ended_ns: u64, found: Found) {
        self.factor = if found.somebody { PAUSE_FACTOR } else { self.factor.saturating_mul(2) };
        let pause_ns = ended_ns.saturating_sub(began_ns).saturating_mul(self.factor);
        self.not_before_ns = ended_ns + pause_ns.min(PAUSE_NS_MAX);
        self.asked = !found.to_the_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOMEBODY: Found = Found { somebody: true, to_the_end: true };
    const NOBODY: Found = Found { somebody: false, to_the_end: true };

    #[test]
    fn looks_that_find_somebody_take_a_twentieth_of_the_time() {
        let mut looks = Looks::due();
        assert!(looks.is_due(0));
        looks.looked(100, 200, SOMEBODY);
        assert_eq!(looks.due_ns(), None);
        looks.ask();
        assert_eq!(looks.due_ns(), Some(200 + 1900));
        assert!(!looks.is_due(2099) && looks.is_due(2100));
    }

    #[test]
    fn looks_in_vain_become_rare_until_one_finds_somebody() {
        let mut looks = Looks::due();
        for (began, found, pause) in
            [(0, NOBODY, 3800), (10_000, NOBODY, 7600), (20_000, SOMEBODY, 1900)]
        {
            looks.looked(began, began + 100, found);
            looks.ask();
            assert_eq!(looks.due_ns(), Some(began + 100 + pause));
        }
    }

    #[test]
    fn who_hides_waits_for_a_bounded_time() {
        let mut looks = Looks::due();
        for _ in 0..200 {
            looks.looked(0, 1_000_000_000, NOBODY);
        }
        looks.ask();
        assert_eq!(looks.due_ns(), Some(1_000_000_000 + PAUSE_NS_MAX));
    }

    #[test]
    fn a_look_that_found_no_room_is_due_again() {
        let mut looks = Looks::due();
        looks.looked(0, 10, Found { somebody: true, to_the_end: false });
        assert!(looks.is_due(10 + 190));
    }
}
