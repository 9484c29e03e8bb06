//! From text to an expression.

use crate::expression::{Calendar, EVERY_DAY, YEARS, ZoneWord};
use crate::field::{EVERY_SECOND, Field, Row};
use std::fmt;

/// Rows that one part of an expression may have.
const ROWS_MAX: usize = 240;

/// µs of a second.
const SECOND_US: u32 = 1_000_000;

/// The last µs of a minute.
const MINUTE_US_MAX: u32 = 60 * SECOND_US - 1;

/// Bytes that the name of a zone may have.
const ZONE_NAME_BYTES_MAX: usize = 255;

const SHORTHANDS: [(&[&str], &str); 8] = [
    (&["minutely"], "*-*-* *:*:00"),
    (&["hourly"], "*-*-* *:00:00"),
    (&["daily"], "*-*-* 00:00:00"),
    (&["weekly"], "Mon *-*-* 00:00:00"),
    (&["monthly"], "*-*-01 00:00:00"),
    (&["quarterly"], "*-01,04,07,10-01 00:00:00"),
    (&["semiannually", "semi-annually", "biannually", "bi-annually"], "*-01,07-01 00:00:00"),
    (&["annually", "yearly", "anually"], "*-01-01 00:00:00"),
];

const DAY_NAMES: [(&str, &str); 7] = [
    ("monday", "mon"),
    ("tuesday", "tue"),
    ("wednesday", "wed"),
    ("thursday", "thu"),
    ("friday", "fri"),
    ("saturday", "sat"),
    ("sunday", "sun"),
];

/// What is wrong with an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The part that is wrong.
    pub part: Box<str>,
    /// What it was to be.
    pub expected: &'static str,
}

impl Fault {
    fn new(part: &str, expected: &'static str) -> Fault {
        Fault { part: part.into(), expected }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a {}", self.part, self.expected)
    }
}

impl Calendar {
    /// Reads an expression. Whether there is a zone of the name that it states is seen when it is used.
    pub fn parse(text: &str) -> Result<Calendar, Fault> {
        let (rest, zone) = split_zone(text);
        let rest = SHORTHANDS
            .iter()
            .find(|(names, _)| names.iter().any(|name| name.eq_ignore_ascii_case(rest)))
            .map_or(rest, |(_, meaning)| meaning);
        let (weekdays, rest) = take_weekdays(rest)?;
        let has_days = weekdays.is_some();
        if let Some(seconds) = rest.strip_prefix('@') {
            if let ZoneWord::Named(_) = zone {
                return Err(Fault::new(text, "moment: seconds since 1970 are in no zone"));
            }
            return from_epoch(seconds, weekdays.unwrap_or(EVERY_DAY));
        }
        let (date, time) = split_date(rest)?;
        if !has_days && date.is_empty() && time.is_empty() {
            return Err(Fault::new(text, "calendar expression"));
        }
        let mut all = Calendar {
            weekdays: weekdays.unwrap_or(EVERY_DAY),
            years: Field::default(),
            months: Field::default(),
            days: Field::default(),
            from_end: false,
            hours: Field::new(vec![Row::single(0)]),
            minutes: Field::new(vec![Row::single(0)]),
            seconds: Field::new(vec![Row::single(0)]),
            zone,
        };
        if !date.is_empty() {
            all.read_date(date)?;
        }
        if !time.is_empty() {
            all.read_time(time)?;
        }
        Ok(all)
    }

    fn read_date(&mut self, text: &str) -> Result<(), Fault> {
        let bad = || Fault::new(text, "date");
        let parts: Vec<&str> = text.split(['-', '~']).collect();
        let separators: Vec<char> = text.chars().filter(|c| matches!(c, '-' | '~')).collect();
        let (years, months, days) = match parts[..] {
            [months, days] => ("*", months, days),
            [years, months, days] if separators.first() == Some(&'-') => (years, months, days),
            _ => return Err(bad()),
        };
        let from_end = separators.last() == Some(&'~');
        self.years = whole_numbers(years, Whole { meaning: full_year, ..Whole::new(YEARS) })?;
        self.months = whole_numbers(months, Whole::new((1, 12)))?;
        self.days = match from_end {
            // Every month has so many days.
            true => whole_numbers(days, Whole::new((1, 28)).downwards())?,
            false => whole_numbers(days, Whole::new((1, 31)))?,
        };
        self.from_end = from_end && !self.days.is_any();
        Ok(())
    }

    fn read_time(&mut self, text: &str) -> Result<(), Fault> {
        let parts: Vec<&str> = text.split(':').collect();
        let (hours, minutes, seconds) = match parts[..] {
            [hours, minutes] => (hours, minutes, "0"),
            [hours, minutes, seconds] => (hours, minutes, seconds),
            _ => return Err(Fault::new(text, "time of the day")),
        };
        self.hours = whole_numbers(hours, Whole::new((0, 23)))?;
        self.minutes = whole_numbers(minutes, Whole::new((0, 59)))?;
        self.seconds = match seconds {
            "*" => Field::new(vec![EVERY_SECOND]),
            _ => rows(seconds, &Seconds)?,
        };
        Ok(())
    }
}

/// The text before the zone, and the zone.
fn split_zone(text: &str) -> (&str, ZoneWord) {
    match text.rsplit_once(' ') {
        Some((rest, word)) if word.eq_ignore_ascii_case("UTC") => (rest, ZoneWord::Utc),
        Some((rest, word)) if is_zone_name(word) && !is_weekdays(word) => {
            (rest, ZoneWord::Named(word.into()))
        }
        _ => (text, ZoneWord::Local),
    }
}

/// Whether a word may be the name of a zone, which is also the path of its file below the directory of zones.
pub fn is_zone_name(word: &str) -> bool {
    let is_part = |part: &str| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+');
        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.chars().all(is_name)
    };
    word.len() <= ZONE_NAME_BYTES_MAX && word.split('/').all(is_part)
}

fn is_weekdays(word: &str) -> bool {
    take_weekdays(word).is_ok_and(|(days, rest)| days.is_some() && rest.is_empty())
}

/// The full form of a year that may lack its century.
fn full_year(year: u32) -> u32 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        _ => year,
    }
}

/// `@` and seconds since 1970 are that one moment.
fn from_epoch(text: &str, weekdays: u8) -> Result<Calendar, Fault> {
    let bad = || Fault::new(text, "number of seconds since 1970");
    let seconds: i64 = text.trim_start().parse().map_err(|_| bad())?;
    let moment =
        jiff::Timestamp::from_second(seconds).ok().filter(|_| seconds >= 0).ok_or_else(bad)?;
    let at = jiff::tz::TimeZone::UTC.to_datetime(moment);
    let year = u32::try_from(at.year()).ok().filter(|year| (YEARS.0..=YEARS.1).contains(year));
    let single = |value: i8| Field::new(vec![Row::single(u32::from(value.unsigned_abs()))]);
    Ok(Calendar {
        weekdays,
        years: Field::new(vec![Row::single(year.ok_or_else(bad)?)]),
        months: single(at.month()),
        days: single(at.day()),
        from_end: false,
        hours: single(at.hour()),
        minutes: single(at.minute()),
        seconds: Field::new(vec![Row::single(u32::from(at.second().unsigned_abs()) * SECOND_US)]),
        zone: ZoneWord::Utc,
    })
}

/// Days of the week at the start, and what follows them.
fn take_weekdays(text: &str) -> Result<(Option<u8>, &str), Fault> {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Ok((None, text));
    }
    let (words, rest) = text.split_once(' ').unwrap_or((text, ""));
    // A comma may end the list.
    let words = words.strip_suffix(',').unwrap_or(words);
    let mut days = 0;
    for word in words.split(',') {
        days |= weekday_range(word)
            .ok_or_else(|| Fault::new(word, "day of the week or a word like daily"))?;
    }
    Ok((Some(days), rest.trim_start_matches(' ')))
}

fn weekday_range(word: &str) -> Option<u8> {
    let day = |name: &str| {
        let is = |&(long, short): &(&str, &str)| {
            name.eq_ignore_ascii_case(long) || name.eq_ignore_ascii_case(short)
        };
        DAY_NAMES.iter().position(is)
    };
    let range = word.split_once("..").or_else(|| word.split_once('-'));
    let (first, last) = match range {
        Some((first, last)) => (day(first)?, day(last)?),
        None => (day(word)?, day(word)?),
    };
    (first <= last).then(|| (first..=last).fold(0, |days, day| days | 1 << day))
}

/// The date and the time of the day, each empty if it is not stated.
fn split_date(text: &str) -> Result<(&str, &str), Fault> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim_start_matches(' ');
    if !first.contains(['-', '~']) {
        return match rest.is_empty() && first.len() == text.len() {
            true => Ok(("", first)),
            false => Err(Fault::new(text, "calendar expression")),
        };
    }
    Ok((first, rest))
}

/// What numbers of a field are.
trait Numbers {
    /// A number at the start of the text, in the field's unit, and what follows.
    fn take<'t>(&self, text: &'t str) -> Option<(u32, &'t str)>;
    /// The step from the start of the text, in the field's unit.
    fn take_step<'t>(&self, text: &'t str) -> Option<(u32, &'t str)>;
    /// The smallest and the largest.
    fn range(&self) -> (u32, u32);
    /// The row from `first` to `last` that states no step.
    fn closed(&self, first: u32, last: u32) -> Option<Row>;
    /// Whether a row without an end has a second value.
    fn has_second(&self, first: u32, step: u32) -> bool {
        first.checked_add(step).is_some_and(|second| second <= self.range().1)
    }
}

/// Whole numbers of a field.
#[derive(Clone, Copy)]
struct Whole {
    range: (u32, u32),
    /// What a number as it is written means.
    meaning: fn(u32) -> u32,
    /// Rows without an end go down.
    goes_down: bool,
}

impl Whole {
    fn new(range: (u32, u32)) -> Whole {
        Whole { range, meaning: |number| number, goes_down: false }
    }

    fn downwards(self) -> Whole {
        Whole { goes_down: true, ..self }
    }
}

impl Numbers for Whole {
    fn take<'t>(&self, text: &'t str) -> Option<(u32, &'t str)> {
        let (number, rest) = digits(text)?;
        Some(((self.meaning)(number.parse().ok()?), rest))
    }

    fn take_step<'t>(&self, text: &'t str) -> Option<(u32, &'t str)> {
        let (number, rest) = digits(text)?;
        Some((number.parse().ok()?, rest))
    }

    fn range(&self) -> (u32, u32) {
        self.range
    }

    fn closed(&self, first: u32, last: u32) -> Option<Row> {
        range(first, last, 1)
    }

    fn has_second(&self, first: u32, step: u32) -> bool {
        let (least, most) = self.range;
        match self.goes_down {
            true => first.checked_sub(step).is_some_and(|second| second >= least),
            false => first.checked_add(step).is_some_and(|second| second <= most),
        }
    }
}

struct Seconds;

impl Numbers for Seconds {
    fn take<'t>(&self, text: &'t str) -> Option<(u32, &'t str)> {
        let (number, rest) = digits(text)?;
        let whole = number.parse::<u32>().ok()?.checked_mul(SECOND_US)?;
        let Some(after) = rest.strip_prefix('.').filter(|after| !after.starts_with('.')) else {
            return Some((whole, rest));
        };
        let (fraction, rest) = digits(after)?;
        Some((whole.checked_add(millionths(fraction))?, rest))
    }

    fn take_step<'t>(&self, text: &'t str) -> Option<(u32, &'t str)> {
        self.take(text)
    }

    fn range(&self) -> (u32, u32) {
        (0, MINUTE_US_MAX)
    }

    fn closed(&self, first: u32, last: u32) -> Option<Row> {
        // Less than a second is no range of seconds.
        range(first, last, SECOND_US).filter(|row| row.last.is_some())
    }
}

/// Digits after a point, rounded to millionths.
fn millionths(fraction: &str) -> u32 {
    let digit = |at: usize| u32::from(fraction.as_bytes().get(at).map_or(0, |byte| byte - b'0'));
    let whole = (0..6).fold(0, |sum, at| sum * 10 + digit(at));
    whole + u32::from(digit(6) >= 5)
}

/// Digits at the start of the text, at least one.
fn digits(text: &str) -> Option<(&str, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    (length > 0).then(|| text.split_at(length))
}

fn whole_numbers(text: &str, numbers: Whole) -> Result<Field, Fault> {
    if text == "*" {
        return Ok(Field::default());
    }
    rows(text, &numbers)
}

fn rows(text: &str, numbers: &impl Numbers) -> Result<Field, Fault> {
    let words: Vec<&str> = text.split(',').collect();
    if words.len() > ROWS_MAX {
        return Err(Fault::new(text, "list of at most 240 values"));
    }
    let read =
        |word: &&str| row(word, numbers).ok_or_else(|| Fault::new(word, "value or range here"));
    Ok(Field::new(words.iter().map(read).collect::<Result<_, _>>()?))
}

/// `FIRST`, `FIRST/STEP`, `FIRST..LAST` or `FIRST..LAST/STEP`.
fn row(word: &str, numbers: &impl Numbers) -> Option<Row> {
    let (least, most) = numbers.range();
    let (first, rest) = numbers.take(word)?;
    let (last, rest) = match rest.strip_prefix("..") {
        Some(after) => numbers.take(after).map(|(last, rest)| (Some(last), rest))?,
        None => (None, rest),
    };
    let (step, rest) = match rest.strip_prefix('/') {
        Some(after) => numbers.take_step(after).map(|(step, rest)| (Some(step), rest))?,
        None => (None, rest),
    };
    if !rest.is_empty() || step == Some(0) {
        return None;
    }
    let row = match (last, step) {
        (None, None) => Row::single(first),
        (None, Some(step)) => {
            numbers.has_second(first, step).then_some(Row { first, last: None, step })?
        }
        (Some(last), None) => numbers.closed(first, last)?,
        (Some(last), Some(step)) => range(first, last, step)?,
    };
    let is_in_range = first >= least && row.last.unwrap_or(first) <= most;
    is_in_range.then_some(row)
}

/// The row from `first` to `last`, which ends with the last value that is in it.
fn range(first: u32, last: u32, step: u32) -> Option<Row> {
    let length = last.checked_sub(first)?;
    match length - length % step {
        0 => Some(Row::single(first)),
        length => Some(Row { first, last: Some(first + length), step }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, normal: &str) {
        let shown = Calendar::parse(text).map(|calendar| calendar.to_string());
        assert_eq!(shown.as_deref(), Ok(normal), "{text}");
    }

    /// The examples of systemd.time(7).
    #[test]
    fn examples_of_the_manual() {
        check("Sat,Thu,Mon..Wed,Sat..Sun", "Mon..Thu,Sat,Sun *-*-* 00:00:00");
        check("Mon,Sun 12-*-* 2,1:23", "Mon,Sun 2012-*-* 01,02:23:00");
        check("Wed *-1", "Wed *-*-01 00:00:00");
        check("Wed..Wed,Wed *-1", "Wed *-*-01 00:00:00");
        check("Wed, 17:48", "Wed *-*-* 17:48:00");
        check("Wed..Sat,Tue 12-10-15 1:2:3", "Tue..Sat 2012-10-15 01:02:03");
        check("*-*-7 0:0:0", "*-*-07 00:00:00");
        check("10-15", "*-10-15 00:00:00");
        check("monday *-12-* 17:00", "Mon *-12-* 17:00:00");
        check("Mon,Fri *-*-3,1,2 *:30:45", "Mon,Fri *-*-01,02,03 *:30:45");
        check("12,14,13,12:20,10,30", "*-*-* 12,13,14:10,20,30:00");
        check("12..14:10,20,30", "*-*-* 12..14:10,20,30:00");
        check("mon,fri *-1/2-1,3 *:30:45", "Mon,Fri *-01/2-01,03 *:30:45");
        check("05:40:23.4200004/3.1700005", "*-*-* 05:40:23.420000/3.170001");
        check("2003-02..04-05", "2003-02..04-05 00:00:00");
        check("2003-03-05 05:40 UTC", "2003-03-05 05:40:00 UTC");
        check("weekly Pacific/Auckland", "Mon *-*-* 00:00:00 Pacific/Auckland");
        check("Mon *-05~07/1", "Mon *-05~07/1 00:00:00");
        check("annually", "*-01-01 00:00:00");
        check("*:2/3", "*-*-* *:02/3:00");
        check("@1395716396", "2014-03-25 02:59:56 UTC");
    }

    #[test]
    fn what_is_none_is_said_with_the_part_that_is_wrong() {
        let said = |text: &str| Calendar::parse(text).expect_err(text).to_string();
        assert_eq!(said("nonsense"), "'nonsense' is not a day of the week or a word like daily");
        assert_eq!(said("25:00"), "'25' is not a value or range here");
        for text in [
            "", " ", "*", "1", "24:00", "*/2:00", "0/0:00", "5..1:0", "2200-1-1", "Sun..Mon",
            "1:0 ../x",
        ] {
            assert!(Calendar::parse(text).is_err(), "{text}");
        }
        let long = format!("{}0:00", "0,".repeat(ROWS_MAX));
        assert!(Calendar::parse(&long).is_err());
    }
}
