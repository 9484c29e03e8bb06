//! Console lines about slow steps: which, for how long, how long yet, and what is still to
//! be written.
//!
//! [`Progress`] only says when and what; the caller waits and looks at [`Progress::due`]
//! as one more end of its wait.

use std::time::{Duration, Instant};

use crate::last_steps::steps::Step;

/// Steps are told from this time on.
const QUIET: Duration = Duration::from_secs(2);

/// And again after each of these.
const TOLD_APART: Duration = Duration::from_secs(1);

/// Steps that are named in one line.
const NAMED_MAX: usize = 3;

/// When to tell again, through all the steps of one end.
#[derive(Debug)]
pub struct Progress {
    due: Instant,
}

/// One step that is under way.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay<'a> {
    /// Which.
    pub step: &'a Step,
    /// Since it began.
    pub so_far: Duration,
    /// Until it is left behind.
    pub left: Duration,
}

impl Progress {
    /// Of steps that begin now.
    pub fn new(now: Instant) -> Progress {
        Progress { due: now + QUIET }
    }

    /// When it is to be told again.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether it is time; it is not again until [`TOLD_APART`] later.
    pub fn take_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now + TOLD_APART;
        }
        is_due
    }
}

/// One line for the console, of the steps that took longest so far; none where there are none.
pub fn line(mut steps: Vec<UnderWay<'_>>, dirty_bytes: u64) -> Option<String> {
    steps.sort_by_key(|one| (std::cmp::Reverse(one.so_far), one.step.clone()));
    let one = |one: &UnderWay<'_>| {
        let (so_far, left) = (one.so_far.as_secs_f64(), one.left.as_secs_f64());
        format!("{} ({so_far:.1} s, {left:.1} s left)", one.step.to_argument())
    };
    let named: Vec<String> = steps.iter().take(NAMED_MAX).map(one).collect();
    let more = match steps.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let to_write = to_be_written(dirty_bytes);
    (!named.is_empty()).then(|| format!("waiting for {}{more}; {to_write}", named.join(", ")))
}

/// How much memory holds that devices do not have yet, for people.
pub fn to_be_written(dirty_bytes: u64) -> String {
    format!("{} MiB of unwritten data", dirty_bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `STEP MS-SO-FAR MS-LEFT` a line → what is told, with 5 MiB and a bit to be written.
    fn check(steps: &str, want: Option<&str>) {
        let parse = |line: &str| {
            let mut words = line.split_whitespace();
            let mut next = || words.next().expect("three words");
            let step = Step::parse(next()).expect("a step");
            let mut ms = || Duration::from_millis(next().parse().expect("a number"));
            (step, ms(), ms())
        };
        let steps: Vec<_> = steps.lines().map(parse).collect();
        let under_way = steps.iter().map(|(step, so_far, left)| {
            let (so_far, left) = (*so_far, *left);
            UnderWay { step, so_far, left }
        });
        assert_eq!(line(under_way.collect(), (5 << 20) + 9).as_deref(), want);
    }

    #[test]
    fn steps_are_told_with_what_is_to_be_written() {
        check("", None);
        check(
            "unmount:/var 2040 7960",
            Some("waiting for unmount:/var (2.0 s, 8.0 s left); 5 MiB of unwritten data"),
        );
        check(
            "unmount:/a 10 0\nunmount:/b 30 0\nsync:/ 20 0\nunmount:/c 30 0\nloop:/dev/loop0 1 0",
            Some(
                "waiting for unmount:/b (0.0 s, 0.0 s left), unmount:/c (0.0 s, 0.0 s left), \
                 sync:/ (0.0 s, 0.0 s left) and 2 more; 5 MiB of unwritten data",
            ),
        );
    }

    #[test]
    fn the_first_is_told_after_a_while_and_then_one_each_second() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        let at = |ms: u64| began + Duration::from_millis(ms);
        let told = [0, 1999, 2000, 2001, 2999, 3000, 7500, 8499, 8500].map(|ms| {
            let is_due = progress.take_due(at(ms));
            assert!(progress.due() > at(ms), "the wait has an end to come");
            is_due
        });
        assert_eq!(told, [false, false, true, false, false, true, true, false, true]);
    }
}
