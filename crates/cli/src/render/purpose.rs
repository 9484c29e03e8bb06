//! What a unit is for, in words: what starts it and what it starts, what it mounts where, where it is documented and
//! where it listens.

use std::fmt::Write as _;

use serde_json::Value;

use super::{number, text, texts};
use crate::output::{Style, mark, tone_of_state};

/// As many of a list as a reader looks at; the rest is counted.
const SHOWN: usize = 16;

/// In the order of `systemctl status`; nothing for what the unit does not have.
pub(super) fn lines(out: &mut String, unit: &Value, style: Style) {
    for (heading, key) in [("TriggeredBy", "triggered_by"), ("   Triggers", "triggers")] {
        list(out, heading, &others(unit, key, style));
    }
    for (heading, key) in [("      Where", "where"), ("       What", "what")] {
        list(out, heading, &[text(unit, key).to_owned()]);
    }
    let documents: Vec<String> = texts(unit, "documentation").iter().map(|&d| d.into()).collect();
    list(out, "       Docs", &documents);
    let listens = unit["listen"].as_array().into_iter().flatten();
    let listens = listens.map(|one| format!("{} ({})", text(one, "address"), text(one, "kind")));
    list(out, "     Listen", &listens.collect::<Vec<_>>());
    list(out, "   Accepted", &[connections(&unit["connections"])]);
}

fn others(unit: &Value, key: &str, style: Style) -> Vec<String> {
    let others = unit[key].as_array().into_iter().flatten();
    let row = |other: &Value| {
        let active = text(other, "active");
        format!("{} {}", style.paint(tone_of_state(active), mark(active)), text(other, "name"))
    };
    others.map(row).collect()
}

fn connections(of: &Value) -> String {
    if !of.is_object() {
        return String::new();
    }
    let mut said = format!("{}; Connected: {}", number(of, "accepted"), number(of, "now"));
    if number(of, "refused") > 0 {
        said += &format!("; Refused: {}", number(of, "refused"));
    }
    said
}

/// The heading before the first, the others below it.
fn list(out: &mut String, heading: &str, values: &[String]) {
    let mut values = values.iter().filter(|value| !value.is_empty()).peekable();
    let Some(first) = values.next() else { return };
    put!(out, "{heading}: {first}");
    let rest: Vec<&String> = values.collect();
    for value in rest.iter().take(SHOWN) {
        put!(out, "             {value}");
    }
    if rest.len() > SHOWN {
        put!(out, "             and {} more", rest.len() - SHOWN);
    }
}
