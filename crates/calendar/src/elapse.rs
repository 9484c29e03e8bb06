//! When an expression elapses next.
//!
//! Within a stretch of time without a change of the zone's clocks, local time is a sum; so the search is one
//! for local times, stretch by stretch. At a change, an expression that says how often elapses as often as its
//! local time is shown: clocks that go back show an hour twice. One that names times of the day
//! elapses once a day: not again in the repeated hour, and for a time that clocks leave out as much later as it
//! would have been without the change.

use crate::expression::{Calendar, YEARS, ZoneWord};
use crate::zone::{Stretch, Zone, Zones};
use jiff::civil::Date;
use std::borrow::Cow;
use std::fmt;

const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;
const MINUTE_US: i64 = 60_000_000;

/// Changes of a zone that one search looks at: more than zones have in the years that expressions count.
const STRETCHES_MAX: usize = 1024;

/// The expression names a zone that there is none of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownZone(
    /// Its name.
    pub Box<str>,
);

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no time zone {}", self.0)
    }
}

/// The zone of an expression, and the only kind of time in it that counts: that with or without daylight saving.
struct Place<'z> {
    zone: Cow<'z, Zone>,
    only_dst: Option<bool>,
}

impl Calendar {
    /// The first moment after `after_us` at which it elapses, in µs since 1970; none if there is none before the
    /// year 2200.
    pub fn next_after(&self, after_us: u64, zones: &Zones) -> Result<Option<u64>, UnknownZone> {
        let after = i64::try_from(after_us).unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
        let place = self.place(after, zones)?;
        let (mut at, mut next) = (after + 1, None);
        for _ in 0..STRETCHES_MAX {
            let stretch = place.zone.stretch_at(at);
            let counts = place.only_dst.is_none_or(|dst| dst == stretch.is_dst);
            // Nothing is left in local time, however clocks are changed.
            if self.next_local(at + stretch.ahead_us - DAY_US).is_none() {
                break;
            }
            next = if counts { self.next_in(&stretch, at) } else { None };
            let Some(end) = stretch.end.filter(|_| next.is_none()) else { break };
            at = end;
        }
        Ok(next.and_then(|us| u64::try_from(us).ok()))
    }

    /// The name of the zone that has to be known to find the next moment.
    pub fn needs_zone(&self) -> Option<&str> {
        match &self.zone {
            ZoneWord::Named(name) => Some(name),
            _ => None,
        }
    }

    fn place<'z>(&self, at_us: i64, zones: &'z Zones) -> Result<Place<'z>, UnknownZone> {
        let place = |zone| Place { zone, only_dst: None };
        let name = match &self.zone {
            ZoneWord::Local => return Ok(place(Cow::Borrowed(&zones.local))),
            ZoneWord::Utc => return Ok(place(Cow::Owned(Zone::utc()))),
            ZoneWord::Named(name) => name,
        };
        if let Some(dst) = zones.local.abbreviation(name, at_us) {
            return Ok(Place { zone: Cow::Borrowed(&zones.local), only_dst: Some(dst) });
        }
        let zone = zones.named.get(name).and_then(Option::as_ref);
        Ok(place(Cow::Borrowed(zone.ok_or_else(|| UnknownZone(name.clone()))?)))
    }

    /// The first moment from `from` to the end of the stretch.
    fn next_in(&self, stretch: &Stretch, from: i64) -> Option<i64> {
        let (begin, before) = stretch.begin.unwrap_or((i64::MIN / 2, stretch.ahead_us));
        let shift = stretch.ahead_us - before;
        let is_time_of_day = self.is_time_of_day();
        // What clocks showed before the change is not shown again.
        let shown = begin.saturating_sub(shift.min(0));
        let first = if is_time_of_day { from.max(shown) } else { from };
        let regular =
            self.next_local(first + stretch.ahead_us).map(|local| local - stretch.ahead_us);
        let skipped = (is_time_of_day && shift > 0 && from < begin + shift)
            .then(|| self.next_local(from + before))
            .flatten()
            .filter(|local| local - before < begin + shift)
            .map(|local| local - before);
        let next = regular.into_iter().chain(skipped).min()?;
        stretch.end.is_none_or(|end| next < end).then_some(next)
    }

    /// The first local time from `from` on that matches, in µs as if local time were UTC.
    fn next_local(&self, from: i64) -> Option<i64> {
        let from = from.max(0);
        let (day, time) = (from.div_euclid(DAY_US), from.rem_euclid(DAY_US));
        let epoch = Date::constant(1970, 1, 1);
        let date = epoch.checked_add(jiff::Span::new().try_days(day).ok()?).ok()?;
        let at = |date: Date, time: i64| {
            let days = date.since(epoch).expect("days between two dates").get_days();
            i64::from(days) * DAY_US + time
        };
        if self.matches_date(date)
            && let Some(time) = self.next_time(time)
        {
            return Some(at(date, time));
        }
        let date = self.next_date(date.tomorrow().ok()?)?;
        self.next_time(0).map(|time| at(date, time))
    }

    fn matches_date(&self, date: Date) -> bool {
        self.next_date(date) == Some(date)
    }

    /// The first date from `from` on that matches.
    fn next_date(&self, from: Date) -> Option<Date> {
        let mut year = u32::try_from(from.year()).ok()?;
        let mut first = (u32::from(from.month().unsigned_abs()), from.day());
        while let Some(next) = self.years.at_or_after(year, YEARS.1) {
            if next > year {
                (year, first) = (next, (1, 1));
            }
            if let Some(date) = self.next_in_year(i16::try_from(year).ok()?, first) {
                return Some(date);
            }
            (year, first) = (year + 1, (1, 1));
        }
        None
    }

    /// The first date of the year from month and day `first` on that matches.
    fn next_in_year(&self, year: i16, first: (u32, i8)) -> Option<Date> {
        let (mut month, mut day) = first;
        while let Some(next) = self.months.at_or_after(month, 12) {
            if next > month {
                (month, day) = (next, 1);
            }
            let begin = Date::new(year, i8::try_from(month).ok()?, 1).ok()?;
            let weekday = begin.weekday().to_monday_zero_offset();
            let matches = |&day: &i8| self.matches_day(day, begin.days_in_month(), weekday);
            if let Some(day) = (day..=begin.days_in_month()).find(matches) {
                return Date::new(year, begin.month(), day).ok();
            }
            (month, day) = (month + 1, 1);
        }
        None
    }

    /// Whether a day of a month matches whose first day is `first_weekday`, and which has so many days.
    fn matches_day(&self, day: i8, days: i8, first_weekday: i8) -> bool {
        let weekday = (first_weekday + day - 1) % 7;
        let matches = match self.from_end {
            true => self.days.matches_downwards(u32::from((days - day + 1).unsigned_abs())),
            false => self.days.matches(u32::from(day.unsigned_abs())),
        };
        matches && self.weekdays & (1 << weekday) != 0
    }

    /// The first time of the day from `from` on that matches, both in µs.
    fn next_time(&self, from: i64) -> Option<i64> {
        let part = |value: i64| u32::try_from(value).expect("a part of a day is small");
        let mut hour = part(from / HOUR_US);
        let mut rest = from % HOUR_US;
        while let Some(next) = self.hours.at_or_after(hour, 23) {
            if next > hour {
                (hour, rest) = (next, 0);
            }
            if let Some(in_hour) = self.next_in_hour(rest) {
                return Some(i64::from(hour) * HOUR_US + in_hour);
            }
            (hour, rest) = (hour + 1, 0);
        }
        None
    }

    fn next_in_hour(&self, from: i64) -> Option<i64> {
        let part = |value: i64| u32::try_from(value).expect("a part of an hour is small");
        let (mut minute, mut rest) = (part(from / MINUTE_US), part(from % MINUTE_US));
        while let Some(next) = self.minutes.at_or_after(minute, 59) {
            if next > minute {
                (minute, rest) = (next, 0);
            }
            if let Some(us) = self.seconds.at_or_after(rest, 59_999_999) {
                return Some(i64::from(minute) * MINUTE_US + i64::from(us));
            }
            (minute, rest) = (minute + 1, 0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    /// Berlin: clocks go forward on 2026-03-29 at 02:00 and back on 2026-10-25 at 03:00.
    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    fn us(text: &str) -> u64 {
        let at: Timestamp = text.parse().expect("a moment");
        u64::try_from(at.as_microsecond()).expect("after 1970")
    }

    fn shown(us: u64) -> String {
        let at = Timestamp::from_microsecond(i64::try_from(us).expect("a moment of today"));
        at.expect("a moment of today").strftime("%m-%d %H:%M:%S").to_string()
    }

    /// The elapses from a moment on until another one, in UTC.
    fn elapses(rule: &str, text: &str, from: &str, until: &str) -> Vec<u64> {
        let zones = Zones { local: Zone::from_rule(rule).expect("a rule"), ..Zones::default() };
        let calendar = Calendar::parse(text).expect("an expression");
        let mut at = us(from) - 1;
        let next = || {
            at = calendar.next_after(at, &zones).expect("a known zone")?;
            (at < us(until)).then_some(at)
        };
        std::iter::from_fn(next).collect()
    }

    #[track_caller]
    fn check(text: &str, from: &str, until: &str, expected: &[&str]) {
        let shown: Vec<String> =
            elapses(BERLIN, text, from, until).into_iter().map(shown).collect();
        assert_eq!(shown, expected, "{text}");
    }

    const SPRING: (&str, &str) = ("2026-03-28T22:00:00Z", "2026-03-29T03:00:00Z");
    const AUTUMN: (&str, &str) = ("2026-10-24T22:30:00Z", "2026-10-25T03:00:00Z");

    #[test]
    fn every_minute_of_the_repeated_hour_counts() {
        let (from, until) = ("2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z");
        assert_eq!(elapses(BERLIN, "*:*:00", from, until).len(), 120);
        assert_eq!(elapses(BERLIN, "2..5:*", from, until).len(), 120);
        assert_eq!(elapses(BERLIN, "*:0/15", from, until).len(), 8);
        assert_eq!(elapses(BERLIN, "*:15,45", from, until).len(), 4);
    }

    #[test]
    fn a_time_of_the_day_comes_once_when_clocks_go_back() {
        let (from, until) = AUTUMN;
        check("02:30", from, until, &["10-25 00:30:00"]);
        check("02:00,30", from, until, &["10-25 00:00:00", "10-25 00:30:00"]);
        check("03:00", from, until, &["10-25 02:00:00"]);
        check("2..4:00", from, until, &["10-25 00:00:00", "10-25 02:00:00"]);
    }

    #[test]
    fn a_time_that_clocks_leave_out_is_made_up_for_once() {
        let (from, until) = SPRING;
        check("02:30", from, until, &["03-29 01:30:00"]);
        check("02:00", from, until, &["03-29 01:00:00"]);
        check("02,03:30", from, until, &["03-29 01:30:00"]);
        check("02:59:59.5", from, until, &["03-29 01:59:59"]);
        check("01,03:00", from, until, &["03-29 00:00:00", "03-29 01:00:00"]);
        check("2026-03-29 02:30", from, until, &["03-29 01:30:00"]);
        assert_eq!(
            elapses(BERLIN, "*:*", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z").len(),
            120
        );
    }

    /// Midnight that does not exist, as in Santiago and Beirut.
    #[test]
    fn a_day_without_its_midnight_has_its_daily_run() {
        let rule = "EET-2EEST,M3.5.0/0,M10.5.0/0";
        let runs = elapses(rule, "daily", "2026-03-28T00:00:00Z", "2026-03-30T12:00:00Z");
        let shown: Vec<String> = runs.into_iter().map(shown).collect();
        assert_eq!(shown, ["03-28 22:00:00", "03-29 21:00:00"]);
        let runs = elapses(rule, "daily", "2026-10-23T12:00:00Z", "2026-10-26T12:00:00Z");
        assert_eq!(runs.len(), 3);
    }

    #[test]
    fn a_half_hour_change_is_one() {
        let rule = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0";
        let shown = |text, from, until| -> Vec<String> {
            elapses(rule, text, from, until).into_iter().map(shown).collect()
        };
        let spring = shown("02:15", "2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z");
        assert_eq!(spring, ["10-03 15:45:00"]);
        let autumn = shown("01:45", "2026-04-04T12:00:00Z", "2026-04-05T12:00:00Z");
        assert_eq!(autumn, ["04-04 14:45:00"]);
        assert_eq!(shown("*:00/30", "2026-04-04T14:00:00Z", "2026-04-04T16:00:00Z").len(), 4);
    }

    #[test]
    fn a_word_for_local_time_counts_only_while_it_is_in_force() {
        let (from, until) = ("2026-03-27T12:00:00Z", "2026-03-31T12:00:00Z");
        check("12:00 CET", from, until, &["03-28 11:00:00"]);
        let zones = Zones { local: Zone::from_rule(BERLIN).expect("a rule"), ..Zones::default() };
        let now = us(from);
        assert!(zones.is_local_time("cest", now) && !zones.is_local_time("EST", now));
        check("12:00 cest", from, until, &["03-29 10:00:00", "03-30 10:00:00", "03-31 10:00:00"]);
    }

    #[test]
    fn over_the_years_a_daily_run_comes_once_a_day() {
        for rule in
            [BERLIN, "EST5EDT,M3.2.0,M11.1.0", "UTC0", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"]
        {
            for time in ["00:00", "01:30", "02:00", "02:30", "03:00", "23:59:59"] {
                let runs = elapses(rule, time, "2026-01-02T00:00:00Z", "2036-01-02T00:00:00Z");
                assert_eq!(runs.len(), 3652, "{time} {rule}");
                assert!(runs.is_sorted(), "{time} {rule}");
            }
        }
    }

    #[test]
    fn what_never_comes_is_found_out_soon() {
        let zones = Zones { local: Zone::from_rule(BERLIN).expect("a rule"), ..Zones::default() };
        for text in ["*-02-30", "2020-01-01", "Mon 2026-09-15", "Tue 2026-09-14"] {
            let calendar = Calendar::parse(text).expect("an expression");
            assert_eq!(calendar.next_after(us("2026-09-01T00:00:00Z"), &zones), Ok(None), "{text}");
        }
        let far = Calendar::parse("2199-12-31 12:00").expect("an expression");
        assert!(far.next_after(0, &zones).expect("a known zone").is_some());
        assert_eq!(far.next_after(u64::MAX, &zones), Ok(None));
    }

    #[test]
    fn an_unknown_zone_is_said() {
        let calendar = Calendar::parse("daily Europe/Nowhere").expect("the form of one");
        let unknown = calendar.next_after(0, &Zones::default()).expect_err("there is none");
        assert_eq!(unknown.to_string(), "there is no time zone Europe/Nowhere");
    }
}
