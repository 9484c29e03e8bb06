//! What timers wait for: calendar expressions and time spans.

use std::time::Duration;

use super::fault::{Fault, Parsed};
use super::span;
use crate::config::{TimerBase, TimerEvent};
use warren_calendar::Calendar;

/// A calendar expression (systemd.time(7), "CALENDAR EVENTS").
pub fn calendar(text: &str) -> Parsed<Calendar> {
    Calendar::parse(text).map_err(|fault| {
        let message = format!("'{text}' is not a calendar expression: {fault}");
        Fault::new(0, message)
    })
}

/// The value of an On*= setting of a timer.
pub fn timer_event(setting: &str, text: &str) -> Parsed<TimerEvent> {
    match TimerBase::from_word(setting) {
        Some(base) => Ok(TimerEvent::After(base, span(text)?.unwrap_or(Duration::MAX))),
        None => Ok(TimerEvent::Calendar(Box::new(calendar(text)?))),
    }
}
