//! Rate limits: so many entries of a service in an interval, the rest is counted; journald.conf(5),
//! `RateLimitBurst=`.

use std::collections::{BTreeMap, BTreeSet};

/// Most services that are watched at a time.
const KEYS_MAX: usize = 1 << 15;

/// Whether an entry is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Keep,
    /// It is, and so many before it were not.
    KeepAfter(u64),
    /// It is not, as the first one of its interval.
    DropFirst,
    /// It is not, like those before it.
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

impl Rate {
    /// The rate where so many bytes are left for the log: with more room a burst may have more messages; the table in
    /// journald.conf(5), and between its rows by the logarithm that it names.
    pub fn with_room(self, bytes: u64) -> Rate {
        /// Up to 1 MiB a burst is what is set, and once more each time that there is 16 times as much.
        const LOG_MIN: u32 = 20;
        const LOGS_PER_BURST: u64 = 4;
        let steps = u64::from(bytes.max(1).ilog2().saturating_sub(LOG_MIN));
        let burst = u128::from(self.burst) * u128::from(LOGS_PER_BURST + steps);
        Rate {
            burst: u64::try_from(burst / u128::from(LOGS_PER_BURST)).unwrap_or(u64::MAX),
            ..self
        }
    }
}

/// Counts entries of services.
#[derive(Debug, Default)]
pub struct Limiter {
    keys: BTreeMap<Vec<u8>, Window>,
    /// Those that left out something which nobody was told of, by the end of their interval.
    untold: BTreeSet<(u64, Vec<u8>)>,
    /// The same of services that had to be forgotten.
    forgotten: Vec<(Vec<u8>, u64)>,
}

#[derive(Debug)]
struct Window {
    began_us: u64,
    interval_us: u64,
    count: u64,
    dropped: u64,
}

impl Window {
    fn end_us(&self) -> u64 {
        self.began_us.saturating_add(self.interval_us)
    }
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
        if interval_us != window.interval_us {
            if window.dropped > 0 {
                self.untold.remove(&(window.end_us(), key.to_vec()));
                self.untold.insert((window.began_us.saturating_add(interval_us), key.to_vec()));
            }
            window.interval_us = interval_us;
        }
        if now_us.saturating_sub(window.began_us) >= interval_us {
            let dropped = window.dropped;
            if dropped > 0 {
                self.untold.remove(&(window.end_us(), key.to_vec()));
            }
            *window = Window { began_us: now_us, interval_us, count: 1, dropped: 0 };
            return if dropped > 0 { Verdict::KeepAfter(dropped) } else { Verdict::Keep };
        }
        window.count += 1;
        if window.count <= burst {
            return Verdict::Keep;
        }
        let is_first = window.dropped == 0;
        self.leave_out(key, 1);
        if is_first { Verdict::DropFirst } else { Verdict::Drop }
    }

    /// Counts so many entries that are not kept anyway, of a service that was counted before.
    pub fn leave_out(&mut self, key: &[u8], count: u64) {
        let Some(window) = self.keys.get_mut(key).filter(|_| count > 0) else { return };
        if window.dropped == 0 {
            self.untold.insert((window.end_us(), key.to_vec()));
        }
        window.dropped += count;
    }

    /// When an interval ends in which something was left out, on the same clock, µs.
    pub fn due_us(&self) -> Option<u64> {
        match self.forgotten.is_empty() {
            true => self.untold.first().map(|(end_us, _)| *end_us),
            false => Some(0),
        }
    }

    /// What was left out in intervals that are over by `now_us`, of services that sent nothing since:
    /// how many entries of each.
    pub fn take_untold(&mut self, now_us: u64) -> Vec<(Vec<u8>, u64)> {
        let mut told = std::mem::take(&mut self.forgotten);
        while self.untold.first().is_some_and(|(end_us, _)| *end_us <= now_us) {
            let Some((_, key)) = self.untold.pop_first() else { break };
            let window = self.keys.get_mut(&key);
            let dropped = window.map_or(0, |window| std::mem::take(&mut window.dropped));
            told.push((key, dropped));
        }
        told
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
            self.untold.clear();
            let all = std::mem::take(&mut self.keys).into_iter();
            let dropped = all.map(|(key, window)| (key, window.dropped));
            self.forgotten.extend(dropped.filter(|(_, dropped)| *dropped > 0));
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
        use Verdict::{Drop, DropFirst, Keep, KeepAfter};
        assert_eq!(verdicts, [Keep, Keep, DropFirst, Keep, Drop, KeepAfter(2), Keep]);
    }

    #[test]
    fn what_was_left_out_is_told_when_the_interval_is_over() {
        let mut limiter = Limiter::default();
        let told = |limiter: &mut Limiter, now_us| {
            let told = limiter.take_untold(now_us).into_iter();
            let one = |(key, count)| format!("{} {count}", String::from_utf8_lossy(&key as &[u8]));
            told.map(one).collect::<Vec<String>>().join(", ")
        };
        for (key, now_us) in [(b"a", 0), (b"a", 5), (b"b", 7), (b"a", 8), (b"b", 8), (b"c", 9)] {
            limiter.check(key, rate(100, 1), now_us);
        }
        assert_eq!((limiter.due_us(), &*told(&mut limiter, 99)), (Some(100), ""));
        assert_eq!(told(&mut limiter, 100), "a 2");
        assert_eq!(limiter.check(b"a", rate(100, 1), 101), Verdict::Keep, "told already");
        assert_eq!(limiter.due_us(), Some(107));
        assert_eq!(limiter.check(b"b", rate(100, 1), 110), Verdict::KeepAfter(1));
        assert_eq!((limiter.due_us(), &*told(&mut limiter, u64::MAX)), (None, ""));
        limiter.check(b"a", rate(100, 1), 102);
        limiter.leave_out(b"a", 3);
        assert_eq!(limiter.check(b"a", rate(200, 1), 103), Verdict::Drop, "a longer one now");
        assert_eq!((limiter.due_us(), &*told(&mut limiter, 300)), (Some(301), ""));
        assert_eq!(told(&mut limiter, 301), "a 5");
    }

    #[test]
    fn what_was_left_out_of_services_that_are_forgotten_is_told() {
        let mut limiter = Limiter::default();
        let (mut sent, mut kept, mut told) = (0, 0, 0);
        for key in 0..KEYS_MAX as u64 + 9 {
            for _ in 0..3 {
                sent += 1;
                let verdict = limiter.check(&key.to_le_bytes(), rate(1000, 1), 5);
                kept += u64::from(verdict == Verdict::Keep);
            }
        }
        assert!(limiter.due_us() == Some(0) && limiter.keys.len() <= KEYS_MAX);
        told += limiter.take_untold(u64::MAX).iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(kept + told, sent);
    }

    #[test]
    fn with_more_room_a_burst_is_larger() {
        let burst = |bytes| rate(1, 100).with_room(bytes).burst;
        for (factor, shift) in [(1, 20), (2, 24), (3, 28), (4, 32), (5, 36), (6, 40)] {
            assert_eq!(burst(1 << shift), 100 * factor, "{shift}");
        }
        assert_eq!(
            [burst(0), burst(1 << 19), burst(1 << 22), burst(1 << 30)],
            [100, 100, 150, 350]
        );
        assert_eq!(rate(1, 0).with_room(u64::MAX).burst, 0);
        assert_eq!(rate(1, u64::MAX).with_room(u64::MAX).burst, u64::MAX);
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
