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

/// A time by the placeholders of strftime(3); those that are not known stay as they are.
pub fn format(at: f64, pattern: &str) -> String {
    let time = civil(at);
    let (mut out, mut characters) = (String::new(), pattern.chars());
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some(letter) => out.push_str(&placeholder(&time, at, letter)),
            None => out.push('%'),
        }
    }
    out
}

fn placeholder(time: &Civil, at: f64, letter: char) -> String {
    let (hour, minute, second) = (time.seconds / 3600, time.seconds / 60 % 60, time.seconds % 60);
    let weekday = DAYS[(time.days + 4).rem_euclid(7) as usize];
    let month = MONTHS[(time.month - 1) as usize];
    match letter {
        'Y' => time.year.to_string(),
        'm' => format!("{:02}", time.month),
        'd' => format!("{:02}", time.day),
        'e' => format!("{:2}", time.day),
        'H' => format!("{hour:02}"),
        'M' => format!("{minute:02}"),
        'S' => format!("{second:02}"),
        'y' => format!("{:02}", time.year.rem_euclid(100)),
        'j' => format!("{:03}", time.days - days_of(time.year, 1, 1) + 1),
        'A' => weekday.to_owned(),
        'a' => weekday[..3].to_owned(),
        'B' => month.to_owned(),
        'b' => month[..3].to_owned(),
        'F' => format!("{}-{:02}-{:02}", time.year, time.month, time.day),
        'T' => format!("{hour:02}:{minute:02}:{second:02}"),
        's' => format!("{}", at.floor() as i64),
        'z' => "+0000".to_owned(),
        'Z' => "UTC".to_owned(),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        '%' => "%".to_owned(),
        other => format!("%{other}"),
    }
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
        assert_eq!(format(1_461_196_800.0, "%A %j %y%%%q%"), "Thursday 112 16%%q%");
        for day in (-200_000..200_000).step_by(97) {
            let time = civil((day * DAY_SECONDS) as f64);
            assert_eq!(days_of(time.year, time.month, time.day), day);
        }
    }
}
