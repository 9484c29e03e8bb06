//! A service that `Restart=` starts again, in words.

use warren_wire::control::{RestartAnswer, RestartBefore};

use super::date;
use crate::output::span_us;

/// How often it was started again and when it is tried next; what the last time answered. Nothing
/// if it never was.
pub(super) fn lines(restart: &Option<RestartAnswer>) -> Vec<String> {
    let Some(restart) = restart else { return Vec::new() };
    let mut lines = vec![counted(restart)];
    // While it waits for the next try, what ended it is the reason of its state.
    lines.extend(restart.before.iter().filter(|_| !restart.waits).map(ended_before));
    lines
}

fn counted(restart: &RestartAnswer) -> String {
    let mut line = match restart.count {
        0 => "none so far".to_owned(),
        n => format!("{n} since the last manual start"),
    };
    match restart.next_in_us {
        Some(left) => line += &format!(", next in {}", span_us(left)),
        None if restart.waits => line += ", next when its job runs",
        None => {}
    }
    if let Some(limit) = &restart.limit {
        let (starts, burst) = (limit.starts, limit.burst);
        let interval = span_us(limit.interval_us);
        line += &format!("; {starts} of {burst} starts in {interval} used");
    }
    line
}

fn ended_before(before: &RestartBefore) -> String {
    let reason = &before.reason;
    let at = before.at.map(date).unwrap_or_default();
    let ended = before.ended.as_ref().map(|ended| format!("; {ended}")).unwrap_or_default();
    format!("previous failure at {at}: {} {}{ended}", reason.code, reason.text)
}
