//! Options to a query.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use crate::args::{Args, ID_DIGITS};
use crate::failure::Failure;
use crate::glob::fits;
use crate::paths;
use crate::report::report;
use warren_log_store::entry::Id128;
use warren_log_store::query::{Case, Expr, Grep, Query, Union, matches};
use warren_log_store::time;

/// Endings of unit names; a name without one is a service.
const UNIT_TYPES: [&str; 11] = [
    ".service",
    ".socket",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".path",
    ".timer",
    ".slice",
    ".scope",
];

const PRIORITIES: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Names of facilities, by number; syslog(3). Those without a name have none.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "", "", "", "", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

/// Facilities have numbers below this, which syslog(3) has no names for.
const FACILITY_END: u16 = 128;

/// Lists the facilities, those that have no names by number.
pub fn list_facilities(out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "Available facilities:")?;
    for (number, name) in FACILITIES.iter().enumerate() {
        match name.is_empty() {
            true => writeln!(out, "{number}")?,
            false => writeln!(out, "{name}")?,
        }
    }
    Ok(())
}

fn facility(text: &String) -> Result<Expr, Failure> {
    let named = || FACILITIES.iter().position(|name| name == text && !name.is_empty());
    let number = text.parse().ok().filter(|number: &u16| *number < FACILITY_END);
    let number = number.map(usize::from).or_else(named);
    let number = number.ok_or_else(|| Failure(format!("Bad --facility= argument \"{text}\".")))?;
    Ok(Expr::field("SYSLOG_FACILITY", number.to_string()))
}

/// The query that the options ask for.
pub fn query(args: &Args, journal: &Union, now_us: u64) -> Result<Query, Failure> {
    let zone = args.zone();
    let meant = paths::replace(&args.matches)?;
    let words: Vec<&str> = meant.matches.iter().map(String::as_str).collect();
    let bad_match = |word| Failure(format!("Failed to add match '{word}': Invalid argument"));
    let mut expr = Expr::default().and(matches::parse(&words).map_err(bad_match)?);
    let mut of_units = units(&args.unit, journal, &UNIT_FIELDS, &matches::unit)?;
    if !args.user_unit.is_empty() {
        let uid = args.user.map_or_else(own_uid, |uid| Ok(uid.to_string()))?;
        let of_user = |name: &str| matches::user_unit(name, &uid);
        of_units.extend(units(&args.user_unit, journal, &USER_UNIT_FIELDS, &of_user)?);
    }
    if !of_units.is_empty() {
        expr = expr.and(Expr::Any(of_units));
    } else if let Some(name) = args.unit.iter().chain(&args.user_unit).next() {
        return Err(Failure(format!("No unit in the log fits {name}")));
    }
    let facilities = args.facility.iter().filter(|name| !name.is_empty());
    let facilities = facilities.map(facility).collect::<Result<Vec<Expr>, Failure>>()?;
    if !facilities.is_empty() {
        expr = expr.and(Expr::Any(facilities));
    }
    if !args.identifier.is_empty() {
        let one = |name: &String| Expr::field("SYSLOG_IDENTIFIER", name.as_str());
        expr = expr.and(Expr::Any(args.identifier.iter().map(one).collect()));
    }
    if args.own {
        expr = expr.and(Expr::field("_UID", own_uid()?));
    }
    if let Some(range) = &args.priority {
        expr = expr.and(matches::priorities(priorities(range)?));
    }
    if args.dmesg {
        expr = expr.and(Expr::field("_TRANSPORT", "kernel"));
    }
    let boot =
        args.boot.clone().or_else(|| (args.dmesg || meant.of_device).then(|| "0".to_owned()));
    if let Some(boot) = boot.filter(|boot| boot != "all") {
        expr = expr.and(Expr::field("_BOOT_ID", find_boot(&boot, journal)?.to_string()));
    }
    let time = |text: &Option<String>| -> Result<Option<u64>, Failure> {
        let Some(text) = text else { return Ok(None) };
        let time = time::parse(text, now_us, &zone);
        time.map(Some).ok_or_else(|| Failure(format!("Failed to parse timestamp: {text}")))
    };
    let (since_us, until_us) = (time(&args.since)?, time(&args.until)?);
    if since_us.zip(until_us).is_some_and(|(since, until)| since > until) {
        return Err(Failure("--since= must be before --until=.".to_owned()));
    }
    Ok(Query {
        expr,
        since_us,
        until_us,
        grep: args.grep.as_ref().map(|pattern| grep(pattern, args)).transpose()?,
        pulse: None,
    })
}

fn grep(pattern: &str, args: &Args) -> Result<Grep, Failure> {
    let case = match args.case_sensitive.as_deref() {
        None => None,
        Some("1" | "yes" | "true" | "on") => Some(Case::Sensitive),
        Some("0" | "no" | "false" | "off") => Some(Case::Insensitive),
        Some(other) => return Err(Failure(format!("Bad --case-sensitive= argument '{other}'"))),
    };
    Grep::new(pattern, case).map_err(|e| Failure(format!("Bad pattern '{pattern}': {e}")))
}

/// Where names of units are that a pattern may fit: also of those that said nothing themselves.
const UNIT_FIELDS: [&str; 5] =
    ["_SYSTEMD_UNIT", "_SYSTEMD_SLICE", "UNIT", "OBJECT_SYSTEMD_UNIT", "COREDUMP_UNIT"];
const USER_UNIT_FIELDS: [&str; 5] = [
    "_SYSTEMD_USER_UNIT",
    "_SYSTEMD_USER_SLICE",
    "USER_UNIT",
    "OBJECT_SYSTEMD_USER_UNIT",
    "COREDUMP_USER_UNIT",
];

/// The user whose units `--user-unit` means.
fn own_uid() -> Result<String, Failure> {
    Ok(std::fs::metadata("/proc/self")?.uid().to_string())
}

/// What is of units, any of them; patterns may fit none.
fn units(
    names: &[String],
    journal: &Union,
    fields: &[&str],
    of_unit: &dyn Fn(&str) -> Expr,
) -> Result<Vec<Expr>, Failure> {
    let mut all = Vec::new();
    for name in names {
        if name.is_empty() {
            return Err(Failure("A unit has no empty name".to_owned()));
        }
        if name.contains('[') {
            return Err(Failure(format!("{name}: sets of characters are not supported")));
        }
        if !name.contains(['*', '?']) {
            let typed = UNIT_TYPES.iter().any(|ending| name.ends_with(ending));
            all.push(of_unit(&if typed { name.clone() } else { format!("{name}.service") }));
            continue;
        }
        let mut known = BTreeSet::new();
        for field in fields {
            known.extend(journal.values(field.as_bytes())?.0);
        }
        let fits = known.iter().filter(|unit| fits(name.as_bytes(), unit));
        all.extend(fits.map(|unit| of_unit(&String::from_utf8_lossy(unit))));
    }
    Ok(all)
}

fn priorities(range: &str) -> Result<std::ops::RangeInclusive<u8>, Failure> {
    let one = |text: &str| {
        let number = text.parse().ok().filter(|&number: &u8| number < 8);
        let named = || PRIORITIES.iter().position(|name| *name == text).map(|at| at as u8);
        number.or_else(named).ok_or_else(|| Failure(format!("Unknown log level {text}")))
    };
    match range.split_once("..") {
        None => Ok(0..=one(range)?),
        Some((from, to)) => {
            let (from, to) = (one(from)?, one(to)?);
            Ok(from.min(to)..=from.max(to))
        }
    }
}

/// A boot by id, by its place (0 and less from the last one, 1 and more from the first), or so many
/// after or before the one of an id.
fn find_boot(text: &str, journal: &Union) -> Result<Id128, Failure> {
    let bad = || Failure(format!("Failed to parse boot descriptor '{text}'"));
    let (boots, damage) = journal.boots()?;
    let begun = || Some((Id128::parse(text.get(..ID_DIGITS)?)?, &text[ID_DIGITS..]));
    let (id, number) = match Id128::parse(text).map(|id| (id, "")).or_else(begun) {
        Some((id, offset)) => (Some(id), offset),
        None => (None, text),
    };
    let offset: i64 = match number {
        "" if id.is_some() => 0,
        number => number.parse().map_err(|_| bad())?,
    };
    let count = boots.len() as i64;
    let at = match id {
        Some(id) => {
            let known = boots.iter().position(|span| span.boot == id);
            known.map(|at| (at as i64).saturating_add(offset))
        }
        None if offset > 0 => Some(offset - 1),
        None => Some(count.saturating_add(offset) - 1),
    };
    let found = at.and_then(|at| boots.get(usize::try_from(at).ok()?));
    found.map(|span| span.boot).ok_or_else(|| {
        // It may be in what cannot be read.
        report(&damage);
        let what = "Data from the specified boot";
        let named = if id.is_some() { text.to_owned() } else { format!("{offset:+}") };
        Failure(format!("{what} ({named}) is not available: No such boot ID in journal"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_unit_names() {
        let cases = [
            ("*", "a", true),
            ("a*", "abc", true),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("?b", "ab", true),
            ("?", "", false),
            ("**", "", true),
            ("web-*.service", "web-1.service", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn ranges_of_priorities() {
        assert_eq!(priorities("err"), Ok(0..=3));
        assert_eq!(priorities("4"), Ok(0..=4));
        assert_eq!(priorities("warning..crit"), Ok(2..=4));
        assert!(priorities("8").is_err() && priorities("bogus").is_err());
    }
}
