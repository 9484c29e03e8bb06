//! Times as people write and read them: systemd.time(7).

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

/// µs of the units of a time span, longest names first where one begins another.
const UNITS: [(&str, u64); 30] = [
    ("microseconds", 1),
    ("milliseconds", 1_000),
    ("seconds", 1_000_000),
    ("minutes", 60_000_000),
    ("months", 2_629_800_000_000),
    ("second", 1_000_000),
    ("minute", 60_000_000),
    ("month", 2_629_800_000_000),
    ("hours", 3_600_000_000),
    ("weeks", 604_800_000_000),
    ("years", 31_557_600_000_000),
    ("hour", 3_600_000_000),
    ("days", 86_400_000_000),
    ("week", 604_800_000_000),
    ("year", 31_557_600_000_000),
    ("usec", 1),
    ("msec", 1_000),
    ("day", 86_400_000_000),
    ("sec", 1_000_000),
    ("min", 60_000_000),
    ("hr", 3_600_000_000),
    ("us", 1),
    ("ms", 1_000),
    ("M", 2_629_800_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
    ("w", 604_800_000_000),
    ("y", 31_557_600_000_000),
];

/// Reads a time span: numbers with units, seconds without; µs.
pub fn parse_span(text: &str) -> Option<u64> {
    let (mut rest, mut total, mut any) = (text.trim(), 0u64, false);
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.len() - rest.trim_start_matches(is_number).len());
        rest = after.trim_start();
        let unit = UNITS.iter().find(|(name, _)| rest.starts_with(name));
        let (length, unit_us) = unit.map_or((0, 1_000_000), |(name, us)| (name.len(), *us));
        rest = rest[length..].trim_start();
        total = total.checked_add(parse_decimal(number, unit_us)?)?;
        any = true;
    }
    any.then_some(total)
}

/// Reads seconds, with a fraction or without; µs.
pub fn parse_seconds(text: &str) -> Option<u64> {
    parse_decimal(text, 1_000_000)
}

/// So many of a unit; what is less than a µs counts nothing.
fn parse_decimal(text: &str, unit_us: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let whole: u64 = whole.parse().ok()?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (mut part_us, mut total) = (unit_us, whole.checked_mul(unit_us)?);
    for digit in fraction.bytes() {
        part_us /= 10;
        total = total.checked_add(u64::from(digit - b'0') * part_us)?;
    }
    Some(total)
}

/// The time zone of this system, or the one that `TZ` names, as the C library reads it: a zone of POSIX that has a summer
/// and does not say when has that of the United States.
pub fn local_zone() -> TimeZone {
    let text = std::env::var("TZ").unwrap_or_default();
    posix_zone(&text).unwrap_or_else(TimeZone::system)
}

fn posix_zone(text: &str) -> Option<TimeZone> {
    const RULE: &str = ",M3.2.0,M11.1.0";
    let has_digits = text.contains(|c: char| c.is_ascii_digit());
    let is_posix = has_digits && !text.starts_with(':') && !text.contains(['/', ',']);
    is_posix.then(|| TimeZone::posix(&format!("{text}{RULE}")).ok())?
}

/// The wall clock, µs since 1970.
pub fn now_us() -> u64 {
    warren_sys::time::realtime_ns() / 1000
}

/// Reads a point in time, µs since 1970. `now_us` is the wall clock.
pub fn parse(text: &str, now_us: u64, zone: &TimeZone) -> Option<u64> {
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix('@') {
        return parse_seconds(seconds);
    }
    if let Some(ago) = text.strip_suffix("ago") {
        return now_us.checked_sub(parse_span(ago)?);
    }
    if let Some(left) = text.strip_suffix("left") {
        return now_us.checked_add(parse_span(left)?);
    }
    if let Some(span) = text.strip_prefix('-') {
        return now_us.checked_sub(parse_span(span)?);
    }
    if let Some(span) = text.strip_prefix('+') {
        return now_us.checked_add(parse_span(span)?);
    }
    let (text, zone) = split_zone(text, now_us, zone);
    parse_named(text, now_us, &zone)
}

/// A day by its name, or a date and a time of a zone.
fn parse_named(text: &str, now_us: u64, zone: &TimeZone) -> Option<u64> {
    let now = zoned(now_us, zone)?;
    match text {
        "now" => Some(now_us),
        "today" => micros(&now.start_of_day().ok()?),
        "yesterday" => micros(&now.yesterday().ok()?.start_of_day().ok()?),
        "tomorrow" => micros(&now.tomorrow().ok()?.start_of_day().ok()?),
        _ => parse_civil(text, &now),
    }
}

/// Takes what says the time zone off the end; without it is the given one: `Z`, a distance from UTC, `UTC`, what the given
/// zone calls itself in summer and in winter, or the name of a zone.
fn split_zone<'t>(text: &'t str, now_us: u64, zone: &TimeZone) -> (&'t str, TimeZone) {
    let as_it_is = || (text, zone.clone());
    let ends_in_digit = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
    if let Some(rest) = text.strip_suffix('Z').filter(|rest| ends_in_digit(rest)) {
        return (rest, TimeZone::UTC);
    }
    // A date has no `+`, and no `-` behind a time or a blank.
    let sign = text.rfind(['+', '-']).filter(|at| {
        let before = text.get(..*at).unwrap_or_default();
        before.contains(':') || before.ends_with(' ')
    });
    if let Some(at) = sign {
        let (rest, distance) = text.split_at(at);
        return match parse_distance(distance) {
            Some(offset) => (rest.trim_end(), TimeZone::fixed(offset)),
            None => as_it_is(),
        };
    }
    let Some((rest, name)) = text.rsplit_once(' ') else { return as_it_is() };
    let rest = rest.trim_end();
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let found = match name {
        name if name.eq_ignore_ascii_case("UTC") => Some(TimeZone::UTC),
        _ if begins => {
            let around_us = parse_named(rest, now_us, zone).unwrap_or(now_us);
            let own = offset_called(name, around_us, zone).map(TimeZone::fixed);
            own.or_else(|| TimeZone::get(name).ok())
        }
        _ => None,
    };
    found.map_or_else(as_it_is, |zone| (rest, zone))
}

/// `+HH`, `+HHMM` or `+HH:MM`, or the same with `-`.
fn parse_distance(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.len() {
        2 => (digits, "0"),
        4 => digits.split_at_checked(2)?,
        5 => digits.split_once(':').filter(|(hours, _)| hours.len() == 2)?,
        _ => return None,
    };
    let number =
        |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?;
    let (hours, minutes): (i32, i32) = (number(hours)?, number(minutes)?);
    (minutes < 60).then(|| Offset::from_seconds(sign * (3600 * hours + 60 * minutes)).ok())?
}

/// How far from UTC a zone is when it has that abbreviation, within a year of a time: `CET` and `CEST` of Berlin.
fn offset_called(name: &str, around_us: u64, zone: &TimeZone) -> Option<Offset> {
    /// It is looked at so often, µs, and so many times before and after.
    const STEP_US: i64 = 30 * 86_400_000_000;
    const STEPS: i64 = 13;
    let around_us = i64::try_from(around_us).ok()?;
    let nearest_first = (0..=STEPS).flat_map(|step| [step, -step]);
    let times = nearest_first.filter_map(|step| {
        Timestamp::from_microsecond(around_us.checked_add(step * STEP_US)?).ok()
    });
    times
        .map(|time| zone.to_offset_info(time))
        .find(|info| info.abbreviation() == name)
        .map(|info| info.offset())
}

/// `[WEEKDAY] [DATE] [TIME]`; a date alone is its midnight, a time alone is today's.
fn parse_civil(text: &str, now: &Zoned) -> Option<u64> {
    // A `T` between date and time; those of weekdays do not follow a digit.
    let digit_before = |at: usize| text[..at].ends_with(|c: char| c.is_ascii_digit());
    let text: String = text
        .char_indices()
        .map(|(at, c)| if c == 'T' && digit_before(at) { ' ' } else { c })
        .collect();
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let weekday = words.first().and_then(|word| parse_weekday(word));
    if weekday.is_some() {
        words.remove(0);
    }
    let (date, time) = match words[..] {
        [date, time] => (Some(date), Some(time)),
        [one] if one.contains('-') => (Some(one), None),
        [one] => (None, Some(one)),
        _ => return None,
    };
    let date = date.map_or(Some(now.date()), parse_date)?;
    if weekday.is_some_and(|weekday| weekday != date.weekday()) {
        return None;
    }
    let time = time.map_or(Some(Time::midnight()), parse_time)?;
    // Of a time that there are two of systemd takes the later one.
    micros(&now.time_zone().to_ambiguous_zoned(date.to_datetime(time)).later().ok()?)
}

/// `Mon` or `Monday`, in either case.
fn parse_weekday(text: &str) -> Option<Weekday> {
    const LETTERS: usize = 3;
    const NAMES: [&str; 7] =
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let is_named =
        |name: &&str| name.eq_ignore_ascii_case(text) || name[..LETTERS].eq_ignore_ascii_case(text);
    let at = NAMES.iter().position(is_named)?;
    Weekday::from_monday_zero_offset(at as i8).ok()
}

/// `YEAR-MONTH-DAY`; a year of two digits is one of 1969 to 2068, as for strptime(3).
fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let mut next = || parts.next().filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let (year, month, day) = (next()?, next()?, next()?);
    let number: i16 = year.parse().ok()?;
    let year = match (year.len(), number) {
        (1 | 2, 69..) => 1900 + number,
        (1 | 2, _) => 2000 + number,
        _ => number,
    };
    let date = Date::new(year, month.parse().ok()?, day.parse().ok()?).ok();
    date.filter(|_| parts.next().is_none())
}

/// `HOUR:MINUTE[:SECOND[.FRACTION]]`.
fn parse_time(text: &str) -> Option<Time> {
    let mut parts = text.split(':');
    let mut number = || {
        let digits = parts.next().filter(|part| part.bytes().all(|b| b.is_ascii_digit()))?;
        digits.parse::<i8>().ok()
    };
    let (hour, minute) = (number()?, number()?);
    let second_us = parts.next().map_or(Some(0), |text| parse_decimal(text, 1_000_000))?;
    let second = i8::try_from(second_us / 1_000_000).ok()?;
    let time = Time::new(hour, minute, second, (second_us % 1_000_000) as i32 * 1000).ok();
    time.filter(|_| parts.next().is_none())
}

fn micros(time: &Zoned) -> Option<u64> {
    u64::try_from(time.timestamp().as_microsecond()).ok()
}

fn zoned(us: u64, zone: &TimeZone) -> Option<Zoned> {
    let timestamp = Timestamp::from_microsecond(i64::try_from(us).ok()?).ok()?;
    Some(timestamp.to_zoned(zone.clone()))
}

/// Prints a time by a pattern of strftime(3); what no calendar has is printed as a number.
pub fn print(us: u64, zone: &TimeZone, pattern: &str) -> String {
    match zoned(us, zone) {
        Some(time) => time.strftime(pattern).to_string(),
        None => format!("@{us}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-01-05 09:30:00 UTC.
    const NOW: u64 = 1_704_447_000_000_000;

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(parse(text, NOW, &TimeZone::UTC), expected, "{text}");
    }

    #[test]
    fn points_in_time() {
        const HOUR: u64 = 3_600_000_000;
        let midnight = NOW - 9 * HOUR - HOUR / 2;
        check("now", Some(NOW));
        check("today", Some(midnight));
        check("yesterday", Some(midnight - 24 * HOUR));
        check("tomorrow", Some(midnight + 24 * HOUR));
        check("-1h", Some(NOW - HOUR));
        check("+90min", Some(NOW + HOUR * 3 / 2));
        check("2 hours ago", Some(NOW - 2 * HOUR));
        check("2024-01-05", Some(midnight));
        check("2024-01-05 09:30", Some(NOW));
        check("2024-01-05 09:30:00", Some(NOW));
        check("2024-01-05T09:30:00", Some(NOW));
        check("Fri 2024-01-05 09:30:00.000007 UTC", Some(NOW + 7));
        check("09:30", Some(NOW));
        check("@1704447000", Some(NOW));
        check("@1704447000.5", Some(NOW + 500_000));
        check("@1704447000.0000019", Some(NOW + 1));
        check("1.5h ago", Some(NOW - HOUR * 3 / 2));
        check("2h left", Some(NOW + 2 * HOUR));
        check("24-1-5 9:30", Some(NOW));
        check("friday 2024-01-05", Some(midnight));
        check("70-1-1 0:00:01", Some(1_000_000));
        for bad in ["", "bogus", "2024-13-01", "25:00", "@x", "-", "1 2 3", "@1.", "7", "9:30:60"] {
            check(bad, None);
        }
        // Another day of the week, one that the month does not have, a zone that nobody knows.
        for bad in ["Sat 2024-01-05", "2024-02-30", "09:30 Nowhere/Else", "2024-01-05-1", "1:2:3:4"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn zones() {
        if TimeZone::get("America/New_York").is_err() {
            warren_testkit::not_run("there are no zones in /usr/share/zoneinfo");
            return;
        }
        check("2024-01-05 04:30 America/New_York", Some(NOW));
        check("2024-01-05 10:30:00 CET", Some(NOW));
        check("today Europe/Berlin", Some(NOW - 9 * 3_600_000_000 - 1_800_000_000 - 3_600_000_000));
    }

    /// What the reader prints of a zone with a summer.
    #[test]
    fn summer_and_winter() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a rule");
        let check = |text: &str, expected: Option<&str>| {
            let found = parse(text, NOW, &berlin).map(|us| print(us, &TimeZone::UTC, "%F %T"));
            assert_eq!(found.as_deref(), expected, "{text}");
        };
        check("Sun 2023-07-02 10:00:00 CEST", Some("2023-07-02 08:00:00"));
        check("2023-07-02 10:00:00 CET", Some("2023-07-02 09:00:00"));
        check("2023-01-02 10:00:00 CEST", Some("2023-01-02 08:00:00"));
        check("2023-10-29 02:30 CEST", Some("2023-10-29 00:30:00"));
        check("2023-10-29 02:30 CET", Some("2023-10-29 01:30:00"));
        check("2023-10-29 02:30", Some("2023-10-29 01:30:00"));
        check("2023-03-26 02:30", Some("2023-03-26 01:30:00"));
        check("2023-03-26 02:30 CEST", Some("2023-03-26 00:30:00"));
        check("2023-10-29T02:30:00+0200", Some("2023-10-29 00:30:00"));
        check("2023-10-29T02:30:00.250000+02:00", Some("2023-10-29 00:30:00"));
        check("2023-10-29T02:30:00Z", Some("2023-10-29 02:30:00"));
        check("2023-10-29 02:30 utc", Some("2023-10-29 02:30:00"));
        check("Sun 2023-10-29 02:30:00 -03", Some("2023-10-29 05:30:00"));
        check("2023-10-29 02:30-0330", Some("2023-10-29 06:00:00"));
        check("2023-07-02 CEST", Some("2023-07-01 22:00:00"));
        check("today CEST", Some("2024-01-04 22:00:00"));
        for bad in
            ["2023-10-29 02:30 CES", "2023-10-29 02:30 +2", "2023-10-29 02:30+02:60", "Z", "2023Z"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn zones_of_posix_have_a_summer() {
        let shown = |zone: &str, us| print(us, &posix_zone(zone).expect("a zone"), "%F %T %Z");
        assert_eq!(shown("CET-1CEST", 1_688_284_800_000_000), "2023-07-02 10:00:00 CEST");
        assert_eq!(shown("CET-1CEST", 1_698_984_800_000_000), "2023-11-03 06:13:20 CEST");
        assert_eq!(shown("CET-1CEST", 1_704_447_000_000_000), "2024-01-05 10:30:00 CET");
        for other in ["Europe/Berlin", "", ":/etc/localtime", "UTC", "EST5EDT,M3.2.0,M11.1.0"] {
            assert!(posix_zone(other).is_none(), "{other}");
        }
    }

    #[test]
    fn spans() {
        let cases = [
            ("5", 5_000_000),
            ("1min 30s", 90_000_000),
            ("2d", 172_800_000_000),
            ("7us", 7),
            ("0.5s 1.5us", 500_001),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_span(text), Some(expected), "{text}");
        }
        for bad in ["", "x", "1x", "1.", ".5h", "1.2.3s", "99999999999999999999"] {
            assert_eq!(parse_span(bad), None, "{bad}");
        }
    }
}
