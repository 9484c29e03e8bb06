//! A service that `Restart=` starts again, in words.

use serde_json::Value;

use super::{date, number, text};
use crate::output::span_us;

/// How often it was started again and when it is tried next; what the last time answered. Nothing
/// if it never was.
pub(super) fn lines(unit: &Value) -> Vec<String> {
    let restart = &unit["restart"];
    if !restart.is_object() {
        return Vec::new();
    }
    let mut lines = vec![counted(restart)];
    // While it waits for the next try, what ended it is the reason of its state.
    let before = &restart["before"];
    if before.is_object() && restart["waits"] != true {
        lines.push(ended_before(before));
    }
    lines
}

fn counted(restart: &Value) -> String {
    let mut line = match number(restart, "count") {
        0 => "none so far".to_owned(),
        n => format!("{n} since the last manual start"),
    };
    match restart["next_in_us"].as_u64() {
        Some(left) => line += &format!(", next in {}", span_us(left)),
        None if restart["waits"] == true => line += ", next when its job runs",
        None => {}
    }
    let limit = &restart["limit"];
    if limit.is_object() {
        let (starts, burst) = (number(limit, "starts"), number(limit, "burst"));
        let interval = span_us(number(limit, "interval_us"));
        line += &format!("; {starts} of {burst} starts in {interval} used");
    }
    line
}

fn ended_before(before: &Value) -> String {
    let reason = &before["reason"];
    let at = before["at"].as_u64().map(date).unwrap_or_default();
    let ended = before["ended"].as_str().map(|ended| format!("; {ended}")).unwrap_or_default();
    format!("previous failure at {at}: {} {}{ended}", text(reason, "code"), text(reason, "text"))
}
