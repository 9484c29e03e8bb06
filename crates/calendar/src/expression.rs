//! What an expression is made of, and its normal form.

use crate::field::Field;
use std::fmt;

/// The first year that expressions count, and the last.
pub(crate) const YEARS: (u32, u32) = (1970, 2199);

/// All days of the week, Monday in the lowest bit.
pub(crate) const EVERY_DAY: u8 = 0x7f;

/// Names of the days of the week, as the normal form has them.
pub(crate) const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The zone that an expression is in.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum ZoneWord {
    /// None is stated: that of the host.
    #[default]
    Local,
    /// `UTC`.
    Utc,
    /// A name of the IANA database, or one of the words for local time, like `CET`.
    Named(Box<str>),
}

/// A calendar expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Calendar {
    /// Days of the week, Monday in the lowest bit.
    pub(crate) weekdays: u8,
    pub(crate) years: Field,
    pub(crate) months: Field,
    pub(crate) days: Field,
    /// The days are counted from the end of the month: `~`.
    pub(crate) from_end: bool,
    pub(crate) hours: Field,
    pub(crate) minutes: Field,
    /// µs of the minute.
    pub(crate) seconds: Field,
    pub(crate) zone: ZoneWord,
}

impl Calendar {
    /// The zone that it is in.
    pub fn zone(&self) -> &ZoneWord {
        &self.zone
    }

    /// It names times of the day and not how often in a day: of what a change from summer time shows twice, only
    /// the first counts, and what a change to it leaves out is made up for.
    ///
    /// `*` for the hour, or `*`, a range or a step for the minute, says how often.
    pub(crate) fn is_time_of_day(&self) -> bool {
        !self.hours.is_any()
            && (0..24).any(|hour| !self.hours.matches(hour))
            && !self.minutes.is_row()
    }

    fn write_weekdays(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_in = |day: usize| day < 7 && self.weekdays & (1 << day) != 0;
        let (mut day, mut comma) = (0, "");
        while day < 7 {
            if !is_in(day) {
                day += 1;
                continue;
            }
            let end = (day..).find(|&next| !is_in(next + 1)).unwrap_or(day);
            // Two days are written as two.
            let last = if end - day >= 2 { end } else { day };
            write!(f, "{comma}{}", WEEKDAYS[day])?;
            if last > day {
                write!(f, "..{}", WEEKDAYS[last])?;
            }
            (comma, day) = (",", last + 1);
        }
        f.write_str(" ")
    }
}

/// The normal form, as systemd-analyze(1) shows it.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.weekdays != EVERY_DAY {
            self.write_weekdays(f)?;
        }
        self.years.write(f)?;
        f.write_str("-")?;
        self.months.write(f)?;
        f.write_str(if self.from_end { "~" } else { "-" })?;
        self.days.write(f)?;
        f.write_str(" ")?;
        self.hours.write(f)?;
        f.write_str(":")?;
        self.minutes.write(f)?;
        f.write_str(":")?;
        self.seconds.write_seconds(f)?;
        match &self.zone {
            ZoneWord::Local => Ok(()),
            ZoneWord::Utc => f.write_str(" UTC"),
            ZoneWord::Named(name) => write!(f, " {name}"),
        }
    }
}
