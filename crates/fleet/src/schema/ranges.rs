//! The times of time periods ("Time Periods"): which days, and from when to when.
//!
//! It only checks that they can be read, not when they are.

use crate::time::{DAYS, MONTHS};

/// Whether a word is one of some names, in small letters.
fn is_of(names: &[&str], word: &str) -> bool {
    names.iter().any(|name| name.to_ascii_lowercase() == word)
}

/// Whether days can be read: `monday`, `day 1 - 15`, `2024-01-01 - 2024-02-01 / 3`. Words after a
/// day are ignored, as the installed program does.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn days(text: &str) -> Result<(), String> {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => (range, Some(step.trim())),
        None => (text, None),
    };
    step.map_or(Ok(()), number)?;
    let Some((first, last)) = range.split_once("- ") else { return day(range, text) };
    let (first, last) = (first.trim(), last.trim());
    day(first, text)?;
    // `day 1 - 15`: a number goes on with the word that the first day begins with.
    let is_number = last.split(' ').next().is_some_and(|word| number(word).is_ok());
    match first.split_once(' ') {
        Some((word, _)) if is_number => day(&format!("{word} {last}"), text),
        _ => day(last, text),
    }
}

fn number(text: &str) -> Result<(), String> {
    text.parse::<i64>().map(|_| ()).map_err(|_| format!("Can't convert '{text}' to an integer."))
}

/// One day.
fn day(text: &str, whole: &str) -> Result<(), String> {
    let invalid = || format!("Invalid time specification: {whole}");
    let words: Vec<&str> = text.split(' ').collect();
    let is_weekday = |word: &str| is_of(&DAYS, word);
    let is_month = |word: &str| is_of(&MONTHS, word);
    match words[..] {
        [date] if date.len() == 10 && date.as_bytes()[4] == b'-' && date.as_bytes()[7] == b'-' => {
            self::date(date, whole)
        }
        [word] if is_weekday(word) => Ok(()),
        ["day", n, ..] => number(n),
        [word, n, ref rest @ ..] if is_weekday(word) => {
            number(n)?;
            if rest.first().is_none_or(|month| is_month(month)) { Ok(()) } else { Err(invalid()) }
        }
        [word, n, ..] if is_month(word) => number(n),
        _ => Err(invalid()),
    }
}

fn date(text: &str, whole: &str) -> Result<(), String> {
    let part = |range: std::ops::Range<usize>| {
        let part = text.get(range).unwrap_or_default();
        part.parse::<i64>().map_err(|_| format!("Can't convert '{part}' to an integer."))
    };
    let (_, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
    match (month, day) {
        (..1 | 13.., _) => Err(format!("Invalid month in time specification: {whole}")),
        (_, ..1 | 32..) => Err(format!("Invalid day in time specification: {whole}")),
        _ => Ok(()),
    }
}

/// Whether hours can be read: `09:00-17:00,20:00:00-24:00`.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn hours(text: &str) -> Result<(), String> {
    text.split(',').try_for_each(|range| {
        let parts: Vec<&str> = range.split('-').collect();
        let [first, last] = parts[..] else { return Err(format!("Invalid timerange: {range}")) };
        clock(first)?;
        clock(last)
    })
}

fn clock(text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split(':').collect();
    if !(2..=3).contains(&parts.len()) {
        return Err(format!("Invalid time specification: {text}"));
    }
    parts.iter().try_for_each(|part| number(part))
}
