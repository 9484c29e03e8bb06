//! Time zones as data: somebody else read their files.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// A time zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone(TimeZone);

/// A stretch of time in which clocks of a zone are ahead of UTC by the same amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    /// µs by which clocks are ahead of UTC.
    pub ahead_us: i64,
    /// Daylight saving time is in force.
    pub is_dst: bool,
    /// Where the stretch began, in µs since 1970, and by how much clocks were ahead before; none for the first.
    pub begin: Option<(i64, i64)>,
    /// Where the next stretch begins, in µs since 1970; none for the last.
    pub end: Option<i64>,
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// The zone that the bytes of a compiled zone file describe (tzfile(5)); none if they are no zone file.
    pub fn from_tzfile(name: &str, bytes: &[u8]) -> Option<Zone> {
        TimeZone::tzif(name, bytes).ok().map(Zone)
    }

    /// The zone of a rule as in the variable TZ (tzset(3)), like `CET-1CEST,M3.5.0,M10.5.0/3`.
    pub fn from_rule(rule: &str) -> Option<Zone> {
        TimeZone::posix(rule).ok().map(Zone)
    }

    /// The stretch that the moment `us` after 1970 lies in.
    pub(crate) fn stretch_at(&self, us: i64) -> Stretch {
        let at = timestamp(us);
        let info = self.0.to_offset_info(at);
        let seconds = |zone_seconds: i32| i64::from(zone_seconds) * 1_000_000;
        let next = self.0.following(at).next().map(|change| change.timestamp().as_microsecond());
        // A moment more, or the change at `at` itself would not be among those that precede.
        let before = self.0.preceding(timestamp(us.saturating_add(1))).next();
        let begin = before.map(|change| {
            let begin_us = change.timestamp().as_microsecond();
            let earlier = self.0.to_offset_info(timestamp(begin_us - 1));
            (begin_us, seconds(earlier.offset().seconds()))
        });
        Stretch {
            ahead_us: seconds(info.offset().seconds()),
            is_dst: info.dst().is_dst(),
            begin,
            end: next,
        }
    }

    /// Whether `word` names local time of this zone near `us`, as `CET` and `CEST` do in Berlin, and which of
    /// both: true for daylight saving time.
    pub(crate) fn abbreviation(&self, word: &str, us: i64) -> Option<bool> {
        let year_us = 366 * 86_400_000_000;
        let is = |at: Timestamp| {
            let info = self.0.to_offset_info(at);
            info.abbreviation().eq_ignore_ascii_case(word).then(|| info.dst().is_dst())
        };
        let changes = self.0.following(timestamp(us)).take(2).map(|change| change.timestamp());
        let near = changes.filter(|at| at.as_microsecond() < us.saturating_add(year_us));
        std::iter::once(timestamp(us)).chain(near).find_map(is)
    }
}

/// A moment that jiff can count; those beyond are the last that it can.
fn timestamp(us: i64) -> Timestamp {
    let fallback = if us < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_microsecond(us).unwrap_or(fallback)
}

/// The zones that are known: that of the host, and others by their names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zones {
    /// The zone of the host.
    pub local: Zone,
    /// Zones by their names in the IANA database; none for a name that there is no zone of.
    pub named: BTreeMap<Box<str>, Option<Zone>>,
}

impl Zones {
    /// Whether a word names local time of the host near `now_us`, µs since 1970, as `CET` does in Berlin: no zone of
    /// that name is needed.
    pub fn is_local_time(&self, word: &str, now_us: u64) -> bool {
        let now = i64::try_from(now_us).unwrap_or(i64::MAX);
        self.local.abbreviation(word, now).is_some()
    }
}

impl Default for Zones {
    fn default() -> Zones {
        Zones { local: Zone::utc(), named: BTreeMap::new() }
    }
}
