//! Rate limits: so many entries of a service in an interval, the rest is counted; journald.conf(5),
//! `RateLimitBurst=`.

use std::collections::BTreeMap;

/// Most services that are watched at a time.
const KEYS_MAX: usize = 1 << 15;

/// Whether an entry is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Keep,
    /// It is, and so many before it were not.
    KeepAfter(u64),
    /// It is not.
    Drop,
}

/// So many entries in such a time; 0 of either: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// `RateLimitIntervalSec=`, µs.
    pub interval_us: u64,
    /// `RateLimitBurst=`.
    pub burst: u64,
}

/// Counts entries of services.
#[derive(Debug, Default)]
pub struct Limiter {
    keys: BTreeMap<Vec<u8>, Window>,
}

#[derive(Debug)]
struct Window {
    began_us: u64,
    interval_us: u64,
    count: u64,
    dropped: u64,
}

impl Limiter {
    /// Counts an entry of a service that may have `rate`. `now_us` is a monotonic clock.
    pub fn check(&mut self, key: &[u8], rate: Rate, now_us: u64) -> Verdict {
        let Rate { interval_us, burst } = rate;
        if interval_us == 0 || burst == 0 {
            return Verdict::Keep;
        }
        let fresh = Window { began_us: now_us, interval_us, count: 0, dropped: 0 };
        if !self.keys.contains_key(key) {
            self.make_room(now_us);
            self.keys.insert(key.to_vec(), fresh);
        }
        let window = self.keys.get_mut(key).expect("it was put there if it was missing");
        window.interval_us = interval_us;
        if now_us.saturating_sub(window.began_us) >= interval_us {
            let dropped = window.dropped;
            *window = Window { began_us: now_us, interval_us, count: 1, dropped: 0 };
            return if dropped > 0 { Verdict::KeepAfter(dropped) } else { Verdict::Keep };
        }
        window.count += 1;
        if window.count <= burst {
            return Verdict::Keep;
        }
        window.dropped += 1;
        Verdict::Drop
    }

    /// Forgets services whose interval is over and that lost nothing; all, if that is not enough.
    fn make_room(&mut self, now_us: u64) {
        if self.keys.len() < KEYS_MAX {
            return;
        }
        self.keys.retain(|_, window| {
            window.dropped > 0 || now_us.saturating_sub(window.began_us) < window.interval_us
        });
        if self.keys.len() >= KEYS_MAX {
            self.keys.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(interval_us: u64, burst: u64) -> Rate {
        Rate { interval_us, burst }
    }

    #[test]
    fn a_burst_passes_and_the_rest_is_counted() {
        let mut limiter = Limiter::default();
        let times =
            [(b"a", 0), (b"a", 1), (b"a", 2), (b"b", 3), (b"a", 99), (b"a", 100), (b"a", 101)];
        let verdicts = times.map(|(key, now)| limiter.check(key, rate(100, 2), now));
        use Verdict::{Drop, Keep, KeepAfter};
        assert_eq!(verdicts, [Keep, Keep, Drop, Keep, Drop, KeepAfter(2), Keep]);
    }

    #[test]
    fn no_limit() {
        let mut limiter = Limiter::default();
        let mut check = |rate, now| limiter.check(b"a", rate, now);
        assert!((0..9).all(|now| check(rate(0, 1), now) == Verdict::Keep));
        assert!((0..9).all(|now| check(rate(1, 0), now) == Verdict::Keep));
    }

    #[test]
    fn the_number_of_services_is_bounded() {
        let mut limiter = Limiter::default();
        for key in 0..KEYS_MAX as u64 * 3 {
            limiter.check(&key.to_le_bytes(), rate(10, 1), key / 1000);
            assert!(limiter.keys.len() <= KEYS_MAX);
        }
    }
}
