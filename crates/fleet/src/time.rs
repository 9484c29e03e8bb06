//! Points in time as text. There is no clock and no time zone here: times are UTC.

const DAY_SECONDS: i64 = 86_400;

/// A time taken apart.
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    seconds: i64,
    days: i64,
}

/// Days since 1970-01-01 of a date of the Gregorian calendar.
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March put the leap day at the end.
    let shifted = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    let year = if month <= 2 { shifted - 1 } else { shifted };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil(at: f64) -> Civil {
    // Parts of a second are cut off, before 1970 as well.
    let whole = at as i64;
    let (days, seconds) = (whole.div_euclid(DAY_SECONDS), whole.rem_euclid(DAY_SECONDS));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Civil { year, month, day, seconds, days }
}

/// `2016-04-21 00:00:00 +0000`.
pub fn default_format(at: f64) -> String {
    format(at, "%Y-%m-%d %H:%M:%S %z")
}

/// The days of a week.
pub(crate) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The months of a year.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The most bytes of a time by a pattern; the installed program has room for as many.
const FORMAT_BYTES_MAX: usize = 127;

/// A time by the placeholders of strftime(3) in the C locale, with glibc's flags and widths; those
/// that are not known stay as they are, and what is longer than 127 bytes is cut off.
pub fn format(at: f64, pattern: &str) -> String {
    let mut out = formatted(&civil(at), pattern);
    while out.len() > FORMAT_BYTES_MAX {
        out.pop();
    }
    out
}

fn formatted(time: &Civil, pattern: &str) -> String {
    let (mut out, mut rest) = (String::new(), pattern);
    while let Some(at) = rest.find('%').filter(|_| out.len() <= FORMAT_BYTES_MAX) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (placeholder, length) = Placeholder::read(rest);
        let value = placeholder.value(time).unwrap_or_else(|| {
            let start = rest[..length].rfind('%').unwrap_or(0);
            PlaceholderValue::Text(rest[start..length].to_owned())
        });
        out.push_str(&placeholder.written(value));
        rest = &rest[length..];
    }
    out + rest
}

/// `%^10a`, `%-d`, `%Ey`: a letter, and how its value is written.
struct Placeholder {
    /// `_`, `-` or `0`: what numbers are padded with.
    pad: Option<char>,
    /// `^`
    upper: bool,
    /// `#`
    swapped: bool,
    width: usize,
    /// `E` or `O`, of which the C locale makes nothing.
    variant: Option<char>,
    letter: Option<char>,
}

/// What a placeholder stands for.
enum PlaceholderValue {
    /// A number with so many digits, and what it is padded with unless it is said.
    Number(i64, usize, char),
    Text(String),
}

impl Placeholder {
    /// The placeholder at the start of a text, and its length in bytes.
    fn read(text: &str) -> (Placeholder, usize) {
        let (mut pad, mut upper, mut swapped) = (None, false, false);
        let mut rest = text[1..].chars();
        let mut next = rest.next();
        while let Some(flag) = next.filter(|c| "_-0^#".contains(*c)) {
            match flag {
                '^' => upper = true,
                '#' => swapped = true,
                other => pad = Some(other),
            }
            next = rest.next();
        }
        let mut width = 0_usize;
        while let Some(digit) = next.and_then(|c| c.to_digit(10)) {
            width = width.saturating_mul(10).saturating_add(digit as usize);
            next = rest.next();
        }
        // Longer than that is cut off in any case.
        let width = width.min(FORMAT_BYTES_MAX + 1);
        let variant = next.filter(|c| matches!(c, 'E' | 'O'));
        let letter = if variant.is_some() { rest.next() } else { next };
        (
            Placeholder { pad, upper, swapped, width, variant, letter },
            text.len() - rest.as_str().len(),
        )
    }

    /// Its value; none of what is not known.
    fn value(&self, time: &Civil) -> Option<PlaceholderValue> {
        let letter = self.letter?;
        let is_known = match self.variant {
            Some('E') => !"%ABDFGHIMSUVWabdeghjklmw".contains(letter),
            Some(_) => !"%ADFXYacx".contains(letter),
            None => true,
        };
        is_known.then(|| value(time, letter)).flatten()
    }

    fn written(&self, value: PlaceholderValue) -> String {
        match value {
            PlaceholderValue::Number(number, digits, usual) => {
                let width = self.width;
                match self.pad.unwrap_or(usual) {
                    '-' => format!("{number:width$}"),
                    '_' => format!("{number:0$}", digits.max(width)),
                    _ => format!("{number:00$}", digits.max(width)),
                }
            }
            PlaceholderValue::Text(text) => {
                let text = match (self.swapped, self.letter) {
                    (true, Some('p' | 'Z')) => text.to_lowercase(),
                    (true, Some('a' | 'A' | 'b' | 'B' | 'h')) => text.to_uppercase(),
                    (_, letter) if self.upper && letter != Some('P') => text.to_uppercase(),
                    _ => text,
                };
                let missing = self.width.saturating_sub(text.len());
                let pad = if self.pad == Some('0') { "0" } else { " " };
                pad.repeat(missing) + &text
            }
        }
    }
}

fn value(time: &Civil, letter: char) -> Option<PlaceholderValue> {
    use PlaceholderValue::Number;
    let (hour, minute, second) = (time.seconds / 3600, time.seconds / 60 % 60, time.seconds % 60);
    let half = (hour + 11) % 12 + 1;
    let weekday = (time.days + 4).rem_euclid(7);
    let day_of_year = time.days - days_of(time.year, 1, 1);
    let text = |text: &str| Some(PlaceholderValue::Text(text.to_owned()));
    let all_of = |pattern: &str| Some(PlaceholderValue::Text(formatted(time, pattern)));
    let number = |number: i64, digits: usize| Some(Number(number, digits, '0'));
    match letter {
        'Y' => number(time.year, 1),
        'C' => number(time.year.div_euclid(100), 1),
        'y' => number(time.year.rem_euclid(100), 2),
        'G' => number(week_of_iso(time).0, 1),
        'g' => number(week_of_iso(time).0.rem_euclid(100), 2),
        'V' => number(week_of_iso(time).1, 2),
        'U' => number((day_of_year + 7 - weekday) / 7, 2),
        'W' => number((day_of_year + 7 - (weekday + 6) % 7) / 7, 2),
        'u' => number((weekday + 6) % 7 + 1, 1),
        'w' => number(weekday, 1),
        'm' => number(time.month, 2),
        'd' => number(time.day, 2),
        'e' => Some(Number(time.day, 2, '_')),
        'j' => number(day_of_year + 1, 3),
        'H' => number(hour, 2),
        'k' => Some(Number(hour, 2, '_')),
        'I' => number(half, 2),
        'l' => Some(Number(half, 2, '_')),
        'M' => number(minute, 2),
        'S' => number(second, 2),
        's' => Some(Number(time.days * DAY_SECONDS + time.seconds, 1, '_')),
        'A' => text(DAYS[weekday as usize]),
        'a' => text(&DAYS[weekday as usize][..3]),
        'B' => text(MONTHS[(time.month - 1) as usize]),
        'b' | 'h' => text(&MONTHS[(time.month - 1) as usize][..3]),
        'p' => text(if hour < 12 { "AM" } else { "PM" }),
        'P' => text(if hour < 12 { "am" } else { "pm" }),
        'F' => all_of("%Y-%m-%d"),
        'D' | 'x' => all_of("%m/%d/%y"),
        'T' | 'X' => all_of("%H:%M:%S"),
        'R' => all_of("%H:%M"),
        'r' => all_of("%I:%M:%S %p"),
        'c' => all_of("%a %b %e %H:%M:%S %Y"),
        'z' => text("+0000"),
        'Z' => text("UTC"),
        'n' => text("\n"),
        't' => text("\t"),
        '%' => text("%"),
        _ => None,
    }
}

/// The year and week of ISO 8601: a week belongs to the year that its Thursday is in.
fn week_of_iso(time: &Civil) -> (i64, i64) {
    let thursday = time.days + 3 - (time.days + 3).rem_euclid(7);
    let year = civil((thursday * DAY_SECONDS) as f64).year;
    (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_dates() {
        assert_eq!(default_format(0.0), "1970-01-01 00:00:00 +0000");
        assert_eq!(default_format(951_782_400.0), "2000-02-29 00:00:00 +0000");
        assert_eq!(default_format(-1.0), "1969-12-31 23:59:59 +0000");
        assert_eq!(days_of(2000, 3, 1), days_of(2000, 2, 29) + 1);
        assert_eq!(days_of(2016, 13, 1), days_of(2017, 1, 1));
        let check = |pattern: &str, expected: &str| {
            assert_eq!(format(1_461_196_800.0, pattern), expected);
        };
        check("%A %j %y%%%q%", "Thursday 112 16%%q%");
        check("%U %V %W %G %g %u %w %C", "16 16 16 2016 16 4 4 20");
        check(
            "%c|%r|%D|%R|%k|%l|%P",
            "Thu Apr 21 00:00:00 2016|12:00:00 AM|04/21/16|00:00| 0|12|am",
        );
        check(
            "%-m|%_m|%5m|%_5m|%-5m|%^a|%#Z|%8a|%08F",
            "4| 4|00004|    4|    4|THU|utc|     Thu|2016-04-21",
        );
        check("%Ey|%Od|%Ea|%O", "16|21|%Ea|%O");
        check("%99999999999999999999n|", &" ".repeat(FORMAT_BYTES_MAX));
        check(&"é".repeat(70), &"é".repeat(63));
        for day in (-200_000..200_000).step_by(97) {
            let time = civil((day * DAY_SECONDS) as f64);
            assert_eq!(days_of(time.year, time.month, time.day), day);
        }
    }
}
