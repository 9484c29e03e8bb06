//! What reloads changed, and what a stop would take with it.

use std::fmt::Write;

use warren_wire::control::{ChangedUnits, PastReload, ReloadsAnswer, StopPlanAnswer};

use super::{date, width_of};
use crate::output::{Style, Tone, cleaned, tone_of_state};

/// Names of one reload that are shown of each kind.
const NAMES_SHOWN: usize = 20;

/// The answer of `Reloads`: the newest so many.
pub fn reloads(answer: &ReloadsAnswer, most: usize, style: Style) -> String {
    let answer = &*cleaned(answer);
    if answer.reloads.is_empty() {
        let since = date(answer.since_us);
        return format!(
            "No reload has changed a unit since {since}, when the manager's process began.\n"
        );
    }
    let shown = answer.reloads.iter().take(most);
    shown.map(|reload| one_reload(reload, style)).collect::<Vec<_>>().join("\n")
}

fn one_reload(reload: &PastReload, style: Style) -> String {
    let PastReload { at_us, generation, added, changed, removed } = reload;
    let counts =
        format!("{} added, {} changed, {} removed", added.total, changed.total, removed.total);
    let heading = format!("{}  generation {generation}: {counts}", date(*at_us));
    let mut out = style.paint(Tone::Strong, &heading) + "\n";
    out += &names(added, "+", Tone::Good, style);
    out += &names(changed, "~", Tone::Warn, style);
    out + &names(removed, "-", Tone::Bad, style)
}

fn names(units: &ChangedUnits, sign: &str, tone: Tone, style: Style) -> String {
    let shown = units.names.iter().take(NAMES_SHOWN);
    let mut out: String =
        shown.map(|name| style.paint(tone, &format!("  {sign} {name}")) + "\n").collect();
    let more = units.total.saturating_sub(units.names.len().min(NAMES_SHOWN) as u64);
    if more > 0 {
        let _ = writeln!(out, "  {sign} {more} more");
    }
    out
}

/// The answer of `StopPlan` about a unit.
pub fn stop_plan(unit: &str, answer: &StopPlanAnswer, style: Style) -> String {
    let answer = &*cleaned(answer);
    let mut out = match answer.stops.len() {
        0 => format!("{unit} is not up: a stop would stop nothing.\n"),
        1 => format!("A stop of {unit} would stop nothing else.\n"),
        count => format!("A stop of {unit} would stop {count} units:\n"),
    };
    let width = width_of(answer.stops.iter().map(|stop| stop.name.as_str()), "");
    for stop in answer.stops.iter().filter(|_| answer.stops.len() > 1) {
        let state = stop.active.as_str();
        let because = stop.because_of.as_ref();
        let because = because.map(|by| format!(" because of {by}")).unwrap_or_default();
        let state = style.paint(tone_of_state(state), &format!("{state:<12}"));
        let line = format!("  {:width$}  {state}{because}", stop.name);
        out += line.trim_end();
        out.push('\n');
    }
    let by: Vec<&str> = answer.started_by.iter().map(|unit| unit.name.as_str()).collect();
    if !by.is_empty() {
        let said = format!("It may be started again by: {}", by.join(", "));
        out += &(style.paint(Tone::Warn, &said) + "\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use warren_wire::control::{ActiveState, PlannedStop, RelatedUnit};

    use super::*;

    #[test]
    fn a_stop_says_what_goes_with_it_and_why() {
        let stop = |name: &str, because: Option<&str>| PlannedStop {
            name: name.to_owned(),
            active: ActiveState::Active,
            because_of: because.map(str::to_owned),
        };
        let socket = RelatedUnit { name: "db.socket".to_owned(), active: ActiveState::Active };
        let answer = StopPlanAnswer {
            stops: vec![stop("db.service", None), stop("web.service", Some("db.service"))],
            started_by: vec![socket],
        };
        let expected = "\
A stop of db.service would stop 2 units:
  db.service   active
  web.service  active       because of db.service
It may be started again by: db.socket
";
        assert_eq!(stop_plan("db.service", &answer, Style::default()), expected);
        let alone = StopPlanAnswer { stops: vec![stop("a.service", None)], ..Default::default() };
        let text = stop_plan("a.service", &alone, Style::default());
        assert_eq!(text, "A stop of a.service would stop nothing else.\n");
        let down = stop_plan("a.service", &StopPlanAnswer::default(), Style::default());
        assert_eq!(down, "a.service is not up: a stop would stop nothing.\n");
    }

    #[test]
    fn a_reload_says_what_it_changed() {
        let units = |total, names: &[&str]| ChangedUnits {
            total,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let reload = PastReload {
            at_us: 0,
            generation: 3,
            added: units(1, &["a.service"]),
            changed: units(500, &["b.service"]),
            removed: units(0, &[]),
        };
        let answer = ReloadsAnswer { since_us: 0, reloads: vec![reload.clone(), reload] };
        let expected = "\
1970-01-01 00:00:00 UTC  generation 3: 1 added, 500 changed, 0 removed
  + a.service
  ~ b.service
  ~ 499 more
";
        assert_eq!(reloads(&answer, 1, Style::default()), expected);
        assert_eq!(reloads(&answer, 9, Style::default()), format!("{expected}\n{expected}"));
        let none = reloads(&ReloadsAnswer::default(), 9, Style::default());
        assert!(none.starts_with("No reload has changed a unit since 1970-01-01"), "{none}");
    }
}
