//! How old a segment is, whatever the wall clock did: it may have been wrong when an entry came, and it may be wrong now.
//!
//! Of entries of the boot that runs the monotonic clock knows their age. Of an earlier boot its last wall clock counts,
//! which somebody had time to set right; and how long ago that was is believed to a clock that has not jumped for a while.
//! Pure but for the segments that are read.

use crate::entry::{Id128, Stamp};
use crate::error::Result;
use crate::segment::read::Segment;

/// The wall clock has jumped when it goes by so much more or less than the machine runs, µs: more than programs that keep
/// it right put in at a time without a step.
const JUMP_US: u64 = 5_000_000;

/// What the clocks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The wall clock, µs since 1970.
    pub realtime_us: u64,
    /// It has been there for some time.
    pub is_trusted: bool,
    /// The boot that runs, if entries of it may be there.
    pub uptime: Option<Uptime>,
}

/// How long a machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uptime {
    /// The boot.
    pub boot: Id128,
    /// The monotonic clock, µs.
    pub monotonic_us: u64,
    /// What it slept, which the monotonic clock does not count, µs.
    pub asleep_us: u64,
}

impl Clock {
    /// A wall clock that somebody stands for.
    pub fn of_wall(realtime_us: u64) -> Clock {
        Clock { realtime_us, is_trusted: true, uptime: None }
    }

    /// The wall clock at which an entry came, as it would have been right; `None` while that cannot be told. `last` is
    /// the last one of its boot.
    pub fn reckon(&self, entry: &Stamp, last: &Stamp) -> Option<u64> {
        match self.uptime.filter(|uptime| uptime.boot == entry.boot) {
            Some(Uptime { monotonic_us, asleep_us, .. }) => {
                let awake = monotonic_us.saturating_sub(entry.monotonic_us);
                let latest = self.realtime_us.saturating_sub(awake);
                Some(entry.realtime_us.clamp(latest.saturating_sub(asleep_us), latest))
            }
            None if self.is_trusted => {
                let before = last.monotonic_us.saturating_sub(entry.monotonic_us);
                Some(last.realtime_us.saturating_sub(before))
            }
            None => None,
        }
    }
}

/// Whether the wall clock is to be believed: when it has gone as the machine does for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    wanted_us: u64,
    /// What the clocks said at the last look, wall clock and time since the boot, µs.
    last_us: Option<(u64, u64)>,
    /// Since when it has not jumped, time since the boot, µs.
    since_us: u64,
}

impl Trust {
    /// Of a clock that was never looked at. It is trusted after so long, µs.
    pub fn after(wanted_us: u64) -> Trust {
        Trust { wanted_us, last_us: None, since_us: 0 }
    }

    /// Looks at the wall clock and the time since the boot, with sleep, µs.
    pub fn look(&mut self, realtime_us: u64, boottime_us: u64) -> bool {
        let has_jumped = self.last_us.is_none_or(|(realtime, boottime)| {
            let expected = realtime.saturating_add(boottime_us.saturating_sub(boottime));
            expected.abs_diff(realtime_us) > JUMP_US
        });
        if has_jumped {
            self.since_us = boottime_us;
        }
        self.last_us = Some((realtime_us, boottime_us));
        boottime_us.saturating_sub(self.since_us) >= self.wanted_us
    }
}

/// When the last entry of a segment came.
pub fn last_entry(segment: &Segment) -> Result<Option<Stamp>> {
    let count = segment.directory().blocks.len();
    last_in(segment, count, |_| true)
}

/// When the last entry of a boot came, of all in these segments.
pub fn last_of_boot<'s>(
    segments: impl Iterator<Item = &'s Segment>,
    boot: Id128,
) -> Result<Option<Stamp>> {
    let first_of = |segment: &Segment| {
        let mut spans = segment.directory().boots.iter();
        spans.find(|span| span.boot == boot).map(|span| span.first_seqnum)
    };
    let has_it = segments.filter_map(|segment| Some((first_of(segment)?, segment)));
    let Some((first, segment)) = has_it.max_by_key(|(first, _)| *first) else { return Ok(None) };
    let later = segment.directory().boots.iter().map(|span| span.first_seqnum);
    let next = later.filter(|seqnum| *seqnum > first).min().unwrap_or(u64::MAX);
    let blocks = &segment.directory().blocks;
    let end = blocks.iter().take_while(|block| block.first_seqnum <= next).count();
    last_in(segment, end, |stamp| stamp.boot == boot)
}

/// The last of the first `end` blocks in which an entry is meant, but of no more than two blocks.
fn last_in(
    segment: &Segment,
    end: usize,
    is_meant: impl Fn(&Stamp) -> bool,
) -> Result<Option<Stamp>> {
    for number in (0..end).rev().take(2) {
        let block = segment.block(number)?;
        let mut stamps = block.rows().iter().rev().map(|row| block.stamp(row));
        if let Some(stamp) = stamps.find(&is_meant) {
            return Ok(Some(stamp));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000;
    /// 2024-01-05.
    const NOW: u64 = 1_704_447_000_000_000;

    fn stamp(realtime_us: u64, monotonic_us: u64, boot: u8) -> Stamp {
        Stamp { realtime_us, monotonic_us, boot: Id128([boot; 16]) }
    }

    #[test]
    fn the_age_of_what_came_in_this_boot_is_that_of_the_monotonic_clock() {
        let uptime = Uptime { boot: Id128([1; 16]), monotonic_us: 10 * HOUR, asleep_us: 0 };
        let clock = Clock { realtime_us: NOW, is_trusted: false, uptime: Some(uptime) };
        let check = |clock: &Clock, entry: Stamp, expected| {
            assert_eq!(clock.reckon(&entry, &entry), expected, "{entry:?}");
        };
        let nine_ago = Some(NOW - 9 * HOUR);
        check(&clock, stamp(NOW - 9 * HOUR, HOUR, 1), nine_ago);
        check(&clock, stamp(0, HOUR, 1), nine_ago);
        check(&clock, stamp(NOW + 8766 * HOUR, HOUR, 1), nine_ago);
        let ahead = Clock { realtime_us: NOW + 8766 * HOUR, ..clock };
        check(&ahead, stamp(NOW, 10 * HOUR - 1, 1), Some(NOW + 8766 * HOUR - 1));
        let slept = Clock { uptime: Some(Uptime { asleep_us: 5 * HOUR, ..uptime }), ..clock };
        check(&slept, stamp(NOW - 12 * HOUR, HOUR, 1), Some(NOW - 12 * HOUR));
        check(&slept, stamp(0, HOUR, 1), Some(NOW - 14 * HOUR));
        check(&clock, stamp(NOW, HOUR, 2), None);
    }

    #[test]
    fn of_an_earlier_boot_the_last_clock_counts() {
        let clock = Clock::of_wall(NOW);
        let last = stamp(NOW - 24 * HOUR, 3 * HOUR, 2);
        let early = stamp(1_000_000, HOUR, 2);
        assert_eq!(clock.reckon(&early, &last), Some(NOW - 26 * HOUR));
        assert_eq!(clock.reckon(&last, &last), Some(NOW - 24 * HOUR));
        assert_eq!(Clock { is_trusted: false, ..clock }.reckon(&early, &last), None);
    }

    #[test]
    fn a_clock_is_trusted_when_it_has_not_jumped_for_long_enough() {
        let mut trust = Trust::after(HOUR);
        // Hours since the boot, the wall clock's distance from what is right, µs, and whether it is trusted.
        let looks: [(u64, i64, bool); 10] = [
            (0, -1_700_000_000_000_000, false),
            (1, -1_700_000_000_000_000, true),
            (2, 0, false),
            (3, 0, true),
            (4, 4_000_000, true),
            (5, 31_557_600_000_000, false),
            (6, 31_557_600_000_000, true),
            (7, 0, false),
            (7, 0, false),
            (8, -3_000_000, true),
        ];
        for (hour, off_us, expected) in looks {
            let realtime_us = NOW.saturating_add(hour * HOUR).saturating_add_signed(off_us);
            assert_eq!(trust.look(realtime_us, hour * HOUR), expected, "{hour} {off_us}");
        }
    }
}
