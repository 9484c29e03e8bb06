//! Times as people write and read them: systemd.time(7).

use jiff::civil::Time;
use jiff::tz::TimeZone;
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
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let unit = UNITS.iter().find(|(name, _)| rest.starts_with(name));
        let (length, unit_us) = unit.map_or((0, 1_000_000), |(name, us)| (name.len(), *us));
        rest = rest[length..].trim_start();
        total = total.checked_add(number.checked_mul(unit_us)?)?;
        any = true;
    }
    any.then_some(total)
}

/// Reads a point in time, µs since 1970. `now_us` is the wall clock.
pub fn parse(text: &str, now_us: u64, zone: &TimeZone) -> Option<u64> {
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix('@') {
        return parse_unix(seconds);
    }
    if let Some(ago) = text.strip_suffix("ago") {
        return now_us.checked_sub(parse_span(ago)?);
    }
    if let Some(span) = text.strip_prefix('-') {
        return now_us.checked_sub(parse_span(span)?);
    }
    if let Some(span) = text.strip_prefix('+') {
        return now_us.checked_add(parse_span(span)?);
    }
    let now = zoned(now_us, zone)?;
    match text {
        "now" => return Some(now_us),
        "today" => return micros(&now.start_of_day().ok()?),
        "yesterday" => return micros(&now.yesterday().ok()?.start_of_day().ok()?),
        "tomorrow" => return micros(&now.tomorrow().ok()?.start_of_day().ok()?),
        _ => {}
    }
    parse_civil(text, &now)
}

/// `[WEEKDAY] [DATE] [TIME] [UTC]`; a date alone is its midnight, a time alone is today's.
fn parse_civil(text: &str, now: &Zoned) -> Option<u64> {
    const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    // A `T` between date and time; those of weekdays and zones do not follow a digit.
    let digit_before = |at: usize| text[..at].ends_with(|c: char| c.is_ascii_digit());
    let text: String = text
        .char_indices()
        .map(|(at, c)| if c == 'T' && digit_before(at) { ' ' } else { c })
        .collect();
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let mut zone = now.time_zone().clone();
    if words.last() == Some(&"UTC") {
        words.pop();
        zone = TimeZone::UTC;
    }
    if words.first().is_some_and(|word| WEEKDAYS.contains(word)) {
        words.remove(0);
    }
    let (date, time) = match words[..] {
        [date, time] => (Some(date), Some(time)),
        [one] if one.contains('-') => (Some(one), None),
        [one] => (None, Some(one)),
        _ => return None,
    };
    let date = date.map_or(Some(now.date()), |date| date.parse().ok())?;
    let time = time.map_or(Some(Time::midnight()), parse_time)?;
    micros(&date.to_datetime(time).to_zoned(zone).ok()?)
}

fn parse_time(text: &str) -> Option<Time> {
    let full = if text.matches(':').count() == 1 { format!("{text}:00") } else { text.to_owned() };
    full.contains(':').then(|| full.parse().ok()).flatten()
}

/// Seconds with up to six digits of fraction.
fn parse_unix(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 6 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let micros: u64 = format!("{fraction:0<6}").parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
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
        for bad in ["", "bogus", "2024-13-01", "25:00", "@x", "-", "1 2 3", "@1.0000000", "7"] {
            check(bad, None);
        }
    }

    #[test]
    fn spans() {
        let cases =
            [("5", 5_000_000), ("1min 30s", 90_000_000), ("2d", 172_800_000_000), ("7us", 7)];
        for (text, expected) in cases {
            assert_eq!(parse_span(text), Some(expected), "{text}");
        }
        for bad in ["", "x", "1x", "99999999999999999999"] {
            assert_eq!(parse_span(bad), None, "{bad}");
        }
    }
}
