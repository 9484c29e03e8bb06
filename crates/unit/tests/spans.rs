//! Time spans beside systemd-analyze(1): what is one, and how long it is.
//!
//! `WARREN_SPAN_CASES` says how many (1,000), `WARREN_SEED` with which dice.

use std::process::Command;

use warren_testkit::{Dice, not_run, seed, variable};
use warren_unit::value;

/// Spans for one run of the program.
const BATCH: u64 = 250;

const UNITS: [&str; 34] = [
    "",
    "s",
    "sec",
    "second",
    "seconds",
    "m",
    "min",
    "minute",
    "minutes",
    "h",
    "hr",
    "hour",
    "hours",
    "d",
    "day",
    "days",
    "w",
    "week",
    "weeks",
    "M",
    "month",
    "months",
    "y",
    "year",
    "years",
    "ms",
    "msec",
    "us",
    "usec",
    "µs",
    "μs",
    "Min",
    "sek",
    "fortnight",
];

/// What systemd-analyze says of each, in µs; none is what is no span. It ends with the first that is none.
fn asked(spans: &[String]) -> Vec<Option<u64>> {
    let mut all = Vec::new();
    while let Some(rest @ [_, ..]) = spans.get(all.len()..) {
        let output = Command::new("systemd-analyze")
            .args(["timespan", "--"])
            .args(rest)
            .env("LC_ALL", "C.UTF-8")
            .output();
        let output = output.expect("systemd-analyze was there a moment ago");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = said.lines().filter_map(|line| line.trim_start().strip_prefix("μs: "));
        all.extend(lines.map(|number| Some(number.parse().expect("a number"))));
        if all.len() < spans.len() {
            all.push(None);
        }
    }
    all
}

fn ours(text: &str) -> Option<u64> {
    let span = value::span(text).ok()?;
    Some(span.map_or(u64::MAX, |span| u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
}

/// Spans are counted in ns here, so those of more than 584 years are as good as 584 years.
fn bounded(us: u64) -> u64 {
    us.min(u64::MAX / 1000)
}

fn one_of(dice: &mut Dice, all: &[&'static str]) -> &'static str {
    all[usize::try_from(dice.roll(all.len() as u64)).expect("a small number")]
}

fn drawn(dice: &mut Dice) -> String {
    let mut out = String::new();
    for _ in 0..1 + dice.roll(3) {
        let below = [10, 100, 100_000][usize::try_from(dice.roll(3)).expect("small")];
        out += &dice.roll(below).to_string();
        if dice.roll(4) == 0 {
            out += &format!(".{}", dice.roll(1000));
        }
        out += one_of(dice, &["", "", " "]);
        out += one_of(dice, &UNITS);
        out += one_of(dice, &["", " ", " "]);
    }
    out.trim().to_owned()
}

#[test]
fn spans_are_as_long_as_to_systemd() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return not_run("no systemd-analyze is installed");
    }
    let mut dice = Dice(seed());
    let cases = variable("WARREN_SPAN_CASES", 1_000);
    let (mut valid, mut faults) = (0, Vec::new());
    for _ in 0..cases.div_ceil(BATCH) {
        let texts: Vec<String> = (0..BATCH).map(|_| drawn(&mut dice)).collect();
        let theirs = asked(&texts);
        for (text, theirs) in texts.iter().zip(theirs) {
            let (ours, theirs) = (ours(text), theirs.map(bounded));
            valid += u64::from(ours.is_some());
            if ours != theirs {
                faults.push(format!("'{text}': ours {ours:?}, theirs {theirs:?}"));
            }
        }
    }
    // Dice that only made rubbish would compare nothing.
    assert!(valid > cases / 3, "{valid} of {cases}");
    let count = faults.len();
    faults.truncate(12);
    assert!(faults.is_empty(), "{count} of {cases} differ:\n{}", faults.join("\n"));
}
