//! When to start a program again that has ended: at once, then later and later, for ever.

const FIRST_NS: u64 = 100_000_000;
const LONGEST_NS: u64 = 5_000_000_000;

/// The history of one program's ends.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    failures: u32,
    healthy_ns: u64,
}

impl Backoff {
    /// A program that ran for `healthy_ns` is taken to work: its next end counts as the first.
    pub fn new(healthy_ns: u64) -> Backoff {
        Backoff { failures: 0, healthy_ns }
    }

    /// Nanoseconds to wait after an end, given how long it ran.
    pub fn delay_ns(&mut self, ran_ns: u64) -> u64 {
        if ran_ns >= self.healthy_ns {
            self.failures = 0;
        }
        let doublings = self.failures.checked_sub(1);
        self.failures = self.failures.saturating_add(1);
        doublings.map_or(0, |n| (FIRST_NS << n.min(16)).min(LONGEST_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_immediate_and_the_wait_is_bounded() {
        let mut b = Backoff::new(10_000);
        let ms: Vec<u64> = (0..9).map(|_| b.delay_ns(1) / 1_000_000).collect();
        assert_eq!(ms, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(b.delay_ns(10_000), 0);
        assert_eq!(b.delay_ns(1), FIRST_NS);
    }
}
