//! An end that is to come: when, what follows it, and what is said before.
//!
//! [`Scheduled::step`] decides, [`crate::daemon::Daemon`] does. It is written below the directory of
//! run-time files, so that the next manager knows of it too.

use std::time::Duration;

use jiff::Zoned;
use jiff::civil::{DateTime, Time};
use warren_core::model::time::{Moment, Monotonic};
use warren_init::protocol::control::PowerAction;

use crate::base::power_action;

/// Everybody is told when so many minutes are left.
const WARNED_AT_MIN: [u64; 7] = [180, 60, 30, 10, 5, 2, 1];

/// No end is planned further ahead.
const AHEAD_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Bytes of a message that are kept.
const MESSAGE_BYTES_MAX: usize = 1024;

/// When.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// After a time, whatever somebody does to the clock.
    After(Monotonic),
    /// At a time of day, in µs since 1970, by the clock as it is then.
    At(u64),
}

/// Where systemd-logind writes what shutdown(8) has it plan.
pub const OF_LOGIND: &str = "/run/systemd/shutdown/scheduled";

/// What systemd-logind is to do, in its words, and in how many µs.
pub fn of_logind(text: &str, realtime_us: u64) -> Option<(&str, u64)> {
    let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let at_us: u64 = field("USEC")?.parse().ok()?;
    Some((field("MODE")?, at_us.saturating_sub(realtime_us)))
}

/// An end that is to come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheduled {
    /// What follows it.
    pub action: PowerAction,
    /// When it begins.
    pub when: When,
    /// What those are told who are logged in.
    pub message: String,
    /// How many minutes were left when they were told last.
    told_min: Option<u64>,
}

/// What is to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Look again after this time.
    Wait(Duration),
    /// Tell that so many minutes are left.
    Warn(u64),
    /// Begin.
    Begin,
}

impl Scheduled {
    /// An end after a time span or at a time of day, in words.
    ///
    /// # Errors
    /// Text that is neither, or too far ahead.
    pub fn new(
        action: PowerAction,
        after: Option<&str>,
        at: Option<&str>,
        message: &str,
    ) -> Result<Scheduled, String> {
        let now = crate::base::clock::now();
        let when = match (after, at) {
            (Some(span), None) => When::After(now.monotonic.after(parse_span(span)?)),
            (None, Some(time)) => When::At(time_of_day(time, &Zoned::now())?),
            _ => return Err("either a time span or a time".to_owned()),
        };
        // One line of the file.
        let plain = message.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut message: String = plain.collect();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        let scheduled = Scheduled { action, when, message, told_min: None };
        match scheduled.left(now) > AHEAD_MAX {
            true => Err("that is more than a year from now".to_owned()),
            false => Ok(scheduled),
        }
    }

    /// How long yet.
    pub fn left(&self, now: Moment) -> Duration {
        match self.when {
            When::After(at) => at.since(now.monotonic),
            When::At(at_us) => Duration::from_micros(at_us.saturating_sub(now.realtime_us)),
        }
    }

    /// What is to be done; remembers what was told.
    pub fn step(&mut self, now: Moment) -> Step {
        let left = self.left(now);
        if left.is_zero() {
            return Step::Begin;
        }
        let minutes = left.as_secs().div_ceil(60);
        let due = WARNED_AT_MIN.into_iter().filter(|&at| minutes <= at).min();
        if due.is_some_and(|due| self.told_min.is_none_or(|told| due < told)) {
            self.told_min = due;
            return Step::Warn(minutes);
        }
        let next = WARNED_AT_MIN.into_iter().find(|&at| self.told_min.is_none_or(|told| at < told));
        let next = next.map_or(Duration::ZERO, |at| Duration::from_secs(at * 60));
        Step::Wait(left.saturating_sub(next).max(Duration::from_millis(1)))
    }

    /// What those who are logged in are told.
    pub fn warning(&self, minutes: u64) -> String {
        let what = power_action::text(self.action);
        let when = match minutes {
            0 => "now".to_owned(),
            1 => "in 1 minute".to_owned(),
            minutes => format!("in {minutes} minutes"),
        };
        let colon = if self.message.is_empty() { "." } else { ": " };
        format!("System shutdown {when} ({what}){colon}{}", self.message)
    }

    /// One line for the file.
    pub fn to_line(&self) -> String {
        let (kind, us) = match self.when {
            When::After(at) => ("after", at.0),
            When::At(us) => ("at", us),
        };
        let told = self.told_min.map_or("-".to_owned(), |minutes| minutes.to_string());
        format!("{} {kind} {us} {told} {}\n", power_action::code(self.action), self.message)
    }

    /// Reads [`Scheduled::to_line`].
    pub fn parse(line: &str) -> Option<Scheduled> {
        let mut words = line.trim_end_matches('\n').splitn(5, ' ');
        let action = power_action::from_code(words.next()?.parse().ok()?)?;
        let when = match (words.next()?, words.next()?.parse().ok()?) {
            ("after", us) => When::After(Monotonic(us)),
            ("at", us) => When::At(us),
            _ => return None,
        };
        let told_min = words.next()?.parse().ok();
        Some(Scheduled { action, when, message: words.next()?.to_owned(), told_min })
    }
}

fn parse_span(text: &str) -> Result<Duration, String> {
    match warren_unit::value::span(text) {
        Ok(Some(span)) => Ok(span),
        Ok(None) => Err("a shutdown needs a time; infinity is none".to_owned()),
        Err(_) => Err(format!("{text} is not a time span, such as 90, 5min or 1h 30min")),
    }
}

/// `HH:MM`, today or tomorrow, or `YYYY-MM-DD HH:MM`, in the machine's time zone; in µs since 1970.
fn time_of_day(text: &str, now: &Zoned) -> Result<u64, String> {
    let wrong = || format!("{text} is not a time, such as 23:30 or 2026-12-31 23:30");
    let day_time = |time: Time| {
        let today = now.with().time(time).build().ok()?;
        let tomorrow = || today.tomorrow().ok();
        if today > *now { Some(today) } else { tomorrow() }
    };
    // A time is also read out of a date with one.
    let at = match text.contains('-') {
        false => text.parse::<Time>().ok().and_then(day_time),
        true => {
            text.parse::<DateTime>().ok().and_then(|at| at.to_zoned(now.time_zone().clone()).ok())
        }
    };
    let at = at.ok_or_else(wrong)?;
    match at > *now {
        true => u64::try_from(at.timestamp().as_microsecond()).map_err(|_| wrong()),
        false => Err(format!("{text} is in the past")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Scheduled {
        let when = When::After(Monotonic(seconds * 1_000_000));
        Scheduled { action: PowerAction::Reboot, when, message: String::new(), told_min: None }
    }

    fn at(seconds: u64) -> Moment {
        Moment { monotonic: Monotonic(seconds * 1_000_000), realtime_us: 0 }
    }

    #[test]
    fn what_logind_plans_is_understood() {
        let text = "USEC=5000000\nWARN_WALL=1\nMODE=reboot\n";
        assert_eq!(of_logind(text, 2_000_000), Some(("reboot", 3_000_000)));
        assert_eq!(of_logind(text, 9_000_000), Some(("reboot", 0)));
        for damaged in ["", "USEC=x\nMODE=reboot", "USEC=5", "MODE=reboot"] {
            assert_eq!(of_logind(damaged, 0), None, "{damaged}");
        }
    }

    /// All that is done until the end, with the second it is done at.
    fn check(total: u64, want: &str) {
        let mut scheduled = after(total);
        let (mut now, mut done) = (0, Vec::new());
        loop {
            match scheduled.step(at(now)) {
                Step::Wait(time) => now += time.as_secs().max(1),
                Step::Warn(minutes) => done.push(format!("{now}:{minutes}")),
                Step::Begin => break,
            }
        }
        done.push(format!("{now}"));
        assert_eq!(done.join(" "), want, "{total} s");
    }

    #[test]
    fn warnings_come_closer_together() {
        check(30, "0:1 30");
        check(300, "0:5 180:2 240:1 300");
        check(420, "0:7 120:5 300:2 360:1 420");
        check(0, "0");
        check(4 * 3600, "3600:180 10800:60 12600:30 13800:10 14100:5 14280:2 14340:1 14400");
    }

    #[test]
    fn what_is_left_is_told_in_words() {
        let plan = after(3600);
        assert!(plan.warning(0).starts_with("System shutdown now ("), "{}", plan.warning(0));
        assert!(plan.warning(1).starts_with("System shutdown in 1 minute ("));
        assert!(plan.warning(60).starts_with("System shutdown in 60 minutes ("));
    }

    #[test]
    fn lines_come_back() {
        let mut scheduled = after(90);
        assert_eq!(Scheduled::parse(&scheduled.to_line()), Some(scheduled.clone()));
        scheduled.step(at(10));
        scheduled.message = "new disks, %s".to_owned();
        scheduled.when = When::At(5);
        assert_eq!(Scheduled::parse(&scheduled.to_line()), Some(scheduled));
        for line in ["", "1 after", "1 never 5 - x", "9 at 5 - x"] {
            assert_eq!(Scheduled::parse(line), None, "{line}");
        }
    }

    #[test]
    fn times_of_day_are_ahead() {
        let now: DateTime = "2026-11-22 12:00".parse().expect("a time");
        let now = now.to_zoned(jiff::tz::TimeZone::UTC).expect("it is in range");
        let said = |text: &str| {
            let us = time_of_day(text, &now)?;
            let now_us = now.timestamp().as_microsecond().unsigned_abs();
            Ok::<u64, String>((us - now_us) / 60_000_000)
        };
        assert_eq!(said("12:30"), Ok(30));
        assert_eq!(said("11:00"), Ok(23 * 60));
        assert_eq!(said("2026-11-23 12:00"), Ok(24 * 60));
        assert!(said("2026-11-21 12:00").is_err() && said("soon").is_err());
        assert!(parse_span("5min").is_ok() && parse_span("infinity").is_err());
    }
}
