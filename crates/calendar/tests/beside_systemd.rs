//! Expressions beside systemd-analyze(1): what is one, its normal form, and when it elapses next.
//!
//! `WARREN_CALENDAR_CASES` says how many expressions (4,000), `WARREN_SEED` with which dice.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;
use warren_calendar::{Calendar, Zone, Zones};
use warren_testkit::{Dice, not_run, seed, variable};

/// Expressions for one run of the program.
const BATCH: u64 = 250;

/// Elapses that are compared.
const ELAPSES: usize = 4;

/// Moments to begin at: leap days, ends of years and months, and far away ones.
const BASES: [&str; 6] = [
    "2026-03-27 12:00:00",
    "2024-02-28 23:59:59",
    "1999-12-31 23:59:30",
    "2100-02-28 03:04:05",
    "2198-06-15 00:00:00",
    "2026-01-31 00:00:01",
];

/// What systemd-analyze said of an expression.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    normal: String,
    elapses: Vec<String>,
}

fn asked(expressions: &[String], base: &str) -> (Vec<Answer>, BTreeSet<String>) {
    let mut command = Command::new("systemd-analyze");
    let iterations = format!("--iterations={ELAPSES}");
    command.args(["calendar", &iterations, "--base-time", base, "--"]).args(expressions);
    let output = command.env("TZ", "UTC").env("LC_ALL", "C.UTF-8").output();
    let output = output.expect("systemd-analyze was there a moment ago");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused = complaints.lines().filter_map(|line| {
        let rest = line.split_once("calendar specification '")?.1;
        Some(rest.rsplit_once("': ")?.0.to_owned())
    });
    (answers(&said), refused.collect())
}

fn answers(said: &str) -> Vec<Answer> {
    let mut all: Vec<Answer> = Vec::new();
    for line in said.lines() {
        let Some((key, value)) = line.trim_start().split_once(": ") else { continue };
        match (key, all.last_mut()) {
            ("Normalized form", _) => {
                all.push(Answer { normal: value.to_owned(), elapses: Vec::new() });
            }
            ("Next elapse", Some(last)) if value == "never" => last.elapses.clear(),
            (key, Some(last)) if key == "Next elapse" || key.starts_with("Iter. #") => {
                last.elapses.push(value.to_owned());
            }
            _ => {}
        }
    }
    all
}

/// Reads the zone that an expression names.
fn learn_zone(zones: &mut Zones, name: &str) {
    if !zones.named.contains_key(name) {
        let bytes = std::fs::read(format!("/usr/share/zoneinfo/{name}")).unwrap_or_default();
        zones.named.insert(name.into(), Zone::from_tzfile(name, &bytes));
    }
}

/// How systemd writes a moment in UTC.
fn shown(us: u64) -> String {
    let seconds = i64::try_from(us / 1_000_000).expect("a moment before the year 2200");
    let at = jiff::Timestamp::from_second(seconds).expect("a moment before the year 2200");
    at.strftime("%a %Y-%m-%d %H:%M:%S UTC").to_string()
}

fn ours(text: &str, base: u64, zones: &mut Zones) -> Option<Answer> {
    let calendar = Calendar::parse(text).ok()?;
    if let Some(name) = calendar.needs_zone() {
        learn_zone(zones, name);
        zones.named[name].as_ref()?;
    }
    let (mut at, mut elapses) = (base, Vec::new());
    while elapses.len() < ELAPSES
        && let Ok(Some(next)) = calendar.next_after(at, zones)
    {
        elapses.push(shown(next));
        at = next;
    }
    Some(Answer { normal: calendar.to_string(), elapses })
}

/// What systemd 252 does otherwise than its manual says.
fn is_known(text: &str, ours: Option<&Answer>, theirs: Option<&Answer>, zones: &Zones) -> bool {
    match (ours, theirs) {
        // It refuses some lists of days from the end of a month, like `*-*~27,4`.
        (Some(_), None) => text.split_once('~').is_some_and(|(_, days)| days.contains(',')),
        // After the last value of a step it leaves out the first: `*:02/16` is 00:18 after 23:59, because 2 and
        // four times 16 is taken for a minute. What it does not leave out is the same.
        (Some(ours), Some(theirs)) => {
            let elapses_then = |shown: &String| elapses_at(text, shown, zones);
            text.contains('/')
                && ours.normal == theirs.normal
                && theirs.elapses.iter().all(elapses_then)
        }
        // It takes a zone for seconds since 1970, and has them in UTC all the same.
        (None, Some(_)) => text.contains('@'),
        _ => false,
    }
}

/// Whether an expression elapses in that second by ours, too.
fn elapses_at(text: &str, second: &str, zones: &Zones) -> bool {
    let calendar = Calendar::parse(text).expect("it was read before");
    let before = us_of(second.split_once(' ').expect("a weekday").1.trim_end_matches(" UTC")) - 1;
    let next = calendar.next_after(before, zones).expect("its zone is known");
    next.is_some_and(|next| shown(next) == second)
}

fn us_of(text: &str) -> u64 {
    let at: jiff::civil::DateTime = text.parse().expect("a date and a time");
    let at = jiff::tz::TimeZone::UTC.to_timestamp(at).expect("a moment that can be counted");
    u64::try_from(at.as_microsecond()).expect("after 1970")
}

/// Zones with summer time; in the months below it neither begins nor ends. At a change the two are not the same,
/// as the room `elapse` says.
const SUMMER_ZONES: [&str; 5] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "America/St_Johns",
];

/// Zones in which clocks are not changed.
const ZONES: [&str; 8] = [
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Etc/GMT+5",
    "America/Phoenix",
    "Pacific/Kiritimati",
    "Etc/UTC",
    "Asia/Kathmandu",
    "Africa/Lagos",
];

struct Maker {
    dice: Dice,
}

impl Maker {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.dice.roll(all.len() as u64)).expect("a small number")]
    }

    fn chance(&mut self, of: u64) -> bool {
        self.dice.roll(of) == 0
    }

    fn value(&mut self, (least, most): (u64, u64)) -> String {
        // Now and then one that is none.
        let value = match self.dice.roll(60) {
            0 => most + 1,
            1 => least.saturating_sub(1),
            _ => least + self.dice.roll(most - least + 1),
        };
        if self.chance(2) { format!("{value:02}") } else { value.to_string() }
    }

    fn row(&mut self, range: (u64, u64), part: &impl Fn(&mut Maker) -> String) -> String {
        let mut out = self.value(range) + &part(self);
        if self.chance(3) {
            let _ = write!(out, "..{}{}", self.value(range), part(self));
        }
        if self.chance(3) {
            let step = 1 + self.dice.roll(range.1 / 2 + 2);
            let _ = write!(out, "/{}{}", step, part(self));
        }
        out
    }

    fn field(&mut self, range: (u64, u64), part: impl Fn(&mut Maker) -> String) -> String {
        if self.chance(3) {
            return if self.chance(40) { "*/2".to_owned() } else { "*".to_owned() };
        }
        let rows = if self.chance(3) { 1 + self.dice.roll(4) } else { 1 };
        (0..rows).map(|_| self.row(range, &part)).collect::<Vec<_>>().join(",")
    }

    fn weekdays(&mut self) -> String {
        const NAMES: [&str; 9] =
            ["Mon", "tue", "WED", "Thursday", "fri", "sat", "Sun", "saturday", "Wednesday"];
        let mut words = Vec::new();
        for _ in 0..1 + self.dice.roll(3) {
            let mut word = self.one_of(&NAMES).to_owned();
            if self.chance(3) {
                let between = self.one_of(&["..", "..", "-"]);
                word = format!("{word}{between}{}", self.one_of(&NAMES));
            }
            words.push(word);
        }
        words.join(",") + if self.chance(8) { "," } else { "" }
    }

    fn years(&mut self) -> String {
        let range = self.one_of(&[(1970, 2199), (2020, 2040), (0, 99), (2020, 2030)]);
        self.field(range, |_| String::new())
    }

    fn date(&mut self) -> String {
        let none = |_: &mut Maker| String::new();
        let year = if self.chance(2) { self.years() + "-" } else { String::new() };
        let month = self.field((1, 12), none);
        let separator = self.one_of(&["-", "-", "-", "~"]);
        year + &month + separator + &self.field((1, 31), none)
    }

    fn time(&mut self) -> String {
        let none = |_: &mut Maker| String::new();
        let mut out = self.field((0, 23), none) + ":" + &self.field((0, 59), none);
        if self.chance(2) {
            let fraction = |maker: &mut Maker| match maker.dice.roll(6) {
                0 => format!(".{}", maker.dice.roll(1000)),
                1 => format!(".{:07}", maker.dice.roll(10_000_000)),
                _ => String::new(),
            };
            out += ":";
            out += &self.field((0, 59), fraction);
        }
        out
    }

    fn expression(&mut self) -> String {
        const SHORT: [&str; 12] = [
            "minutely",
            "hourly",
            "daily",
            "monthly",
            "weekly",
            "yearly",
            "quarterly",
            "semiannually",
            "annually",
            "Biannually",
            "nonsense",
            "@86400",
        ];
        let mut out = match self.dice.roll(20) {
            0 => self.one_of(&SHORT).to_owned(),
            1 => format!("@{}", self.dice.roll(8_000_000_000)),
            2..8 => self.date(),
            8..13 => self.time(),
            _ => self.date() + self.one_of(&[" ", " ", " ", "  ", "T"]) + &self.time(),
        };
        if self.chance(10) {
            let zone = self.one_of(&SUMMER_ZONES);
            return format!("*-01,06,07,12-{:02} {} {zone}", 2 + self.dice.roll(26), self.time());
        }
        if self.chance(4) {
            out = self.weekdays() + " " + &out;
        }
        if self.chance(6) {
            out = out
                + " "
                + if self.chance(3) {
                    self.one_of(&["UTC", "utc", "Nowhere/At"])
                } else {
                    self.one_of(&ZONES)
                };
        }
        if self.chance(12) { self.damaged(&out) } else { out }
    }

    /// The same with a character taken out, put in or doubled.
    fn damaged(&mut self, text: &str) -> String {
        let mut all: Vec<char> = text.chars().collect();
        let at = usize::try_from(self.dice.roll(all.len() as u64)).expect("a small number");
        match self.dice.roll(3) {
            0 => drop(all.remove(at)),
            1 => all
                .insert(at, self.one_of(&['*', '-', ':', ',', '.', '/', '~', ' ', '0', 'a', 'µ'])),
            _ => all.insert(at, all[at]),
        }
        all.into_iter().collect()
    }
}

#[test]
fn expressions_mean_what_they_mean_to_systemd() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return not_run("no systemd-analyze is installed");
    }
    let mut zones = Zones::default();
    let mut maker = Maker { dice: Dice(seed()) };
    let cases = variable("WARREN_CALENDAR_CASES", 4_000);
    let mut faults = Vec::new();
    let (mut valid, mut never) = (0, 0);
    for batch in 0..cases.div_ceil(BATCH) {
        let base = BASES[usize::try_from(batch).expect("small") % BASES.len()];
        let texts: Vec<String> = (0..BATCH).map(|_| maker.expression()).collect();
        let (theirs, refused) = asked(&texts, base);
        let mut theirs = theirs.into_iter();
        for text in &texts {
            let theirs = if refused.contains(text) { None } else { theirs.next() };
            let ours = ours(text, us_of(base), &mut zones);
            valid += u64::from(ours.is_some());
            never += u64::from(ours.as_ref().is_some_and(|answer| answer.elapses.is_empty()));
            if ours != theirs && !is_known(text, ours.as_ref(), theirs.as_ref(), &zones) {
                faults
                    .push(format!("'{text}' from {base}:\n  ours   {ours:?}\n  theirs {theirs:?}"));
            }
        }
        assert!(theirs.next().is_none(), "as many answers as expressions that are none refused");
    }
    println!("{cases} expressions, {valid} valid, {never} of them past");
    // Dice that only made rubbish would compare nothing.
    assert!(valid > cases / 3, "{valid} of {cases}");
    let count = faults.len();
    faults.truncate(12);
    assert!(faults.is_empty(), "{count} of {cases} differ:\n{}", faults.join("\n"));
}
