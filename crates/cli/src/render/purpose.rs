//! What a unit is for, in words: what starts it and what it starts, what it mounts where, where it is documented and
//! where it listens.

use std::fmt::Write as _;

use warren_wire::control::{RelatedUnit, SocketConnections, StatusAnswer, TimerRow};

use super::date;
use crate::output::{Style, mark, span_us, tone_of_state};

/// As many of a list as a reader looks at; the rest is counted.
const SHOWN: usize = 16;

/// In the order of `systemctl status`; nothing for what the unit does not have.
pub(super) fn lines(out: &mut String, unit: &StatusAnswer, style: Style) {
    list(out, "TriggeredBy", &others(&unit.triggered_by, style));
    list(out, "   Triggers", &others(&unit.triggers, style));
    list(out, "    Elapses", unit.timer.as_ref().map(elapses).as_slice());
    for (heading, text) in [("      Where", &unit.where_), ("       What", &unit.what)] {
        list(out, heading, text.as_slice());
    }
    list(out, "       Docs", &unit.documentation);
    let listens = unit.listen.iter().map(|one| format!("{} ({})", one.address, one.kind));
    list(out, "     Listen", &listens.collect::<Vec<_>>());
    list(out, "   Accepted", unit.connections.as_ref().map(connections).as_slice());
}

/// When a timer elapses and elapsed, as a line.
pub(super) fn elapses(row: &TimerRow) -> String {
    let next = match row.next_us {
        Some(at) => format!("next at {}", date(at)),
        None => "no further run is due".to_owned(),
    };
    let last = row.last_us.map_or_else(String::new, |at| format!(", last at {}", date(at)));
    let took =
        row.took_us.map_or_else(String::new, |us| format!(", {} took {}", row.unit, span_us(us)));
    let missed = match row.missed {
        0 => String::new(),
        count => format!(", {count} missed"),
    };
    next + &last + &took + &missed
}

fn others(others: &[RelatedUnit], style: Style) -> Vec<String> {
    let row = |other: &RelatedUnit| {
        let active = other.active.as_str();
        format!("{} {}", style.paint(tone_of_state(active), mark(active)), other.name)
    };
    others.iter().map(row).collect()
}

fn connections(of: &SocketConnections) -> String {
    let mut said = format!("{}; Connected: {}", of.accepted, of.now);
    if of.refused > 0 {
        said += &format!("; Refused: {}", of.refused);
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
