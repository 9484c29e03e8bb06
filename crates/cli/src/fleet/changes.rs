//! `plan`, `apply` and `diff` as text, from the manager's answer.

use std::collections::BTreeMap;

use warren_wire::control::{ReloadAnswer, RuleOrigin};

use super::lines;
use crate::output::{Style, Tone, span_us};
use crate::render;
use crate::render::origin::{self, rule};

/// Units of one rule that are listed one by one.
const LISTED_MAX: usize = 5;

/// Names that stand for those that are not.
const NAMED_MAX: usize = 3;

/// What a plan says, or what was applied. With `all`, units of a rule are not summed up.
pub fn plan(answer: &ReloadAnswer, dry_run: bool, all: bool, style: Style) -> String {
    let mut out = lists(answer, all, style);
    let restart = names(&answer.needs_restart);
    let word = if dry_run { "would run" } else { "runs" };
    let shown = if all { restart.len() } else { restart.len().min(LISTED_MAX) };
    for unit in &restart[..shown] {
        out.push_str(&format!(
            "! {unit} {word} with its old configuration: warren restart {unit}\n"
        ));
    }
    if restart.len() > shown {
        out.push_str(&format!("! and {} more {word} with theirs\n", restart.len() - shown));
    }
    out.push_str(&left_alone(answer, dry_run));
    for fault in &answer.diagnostics {
        out.push_str(&format!("{}\n", render::diagnostic(fault)));
    }
    out.push_str(&last_line(answer, dry_run));
    out
}

/// What rules do not do by themselves: units that they make no more go on, and new ones are not started.
fn left_alone(answer: &ReloadAnswer, dry_run: bool) -> String {
    let is_unit = |name: &&String| !name.contains('/');
    let line = |units: &[String], what: &str, verb: &str| match units.iter().find(is_unit) {
        Some(first) => format!("! {what}: warren {verb} {first}\n"),
        None => String::new(),
    };
    let (gone, new) = match dry_run {
        true => {
            ("removed units that are running would keep running", "new units would not be started")
        }
        false => ("removed units that are running keep running", "new units are not started"),
    };
    line(&answer.removed, gone, "stop") + &line(&answer.added, new, "start")
}

/// The units that differ, by what becomes of them and by rule.
fn lists(answer: &ReloadAnswer, all: bool, style: Style) -> String {
    let origins = origins(answer);
    let mut out = String::new();
    for (units, sign, tone) in [
        (&answer.added, "+", Tone::Good),
        (&answer.changed, "~", Tone::Warn),
        (&answer.removed, "-", Tone::Bad),
    ] {
        for (rule, units) in by_rule(units, &origins) {
            out.push_str(&group(sign, tone, rule.as_deref(), &units, all, style));
        }
    }
    out
}

/// What a candidate's rules would change.
pub(super) fn candidate(answer: &ReloadAnswer, all: bool, style: Style) -> String {
    let mut out = lists(answer, all, style);
    let [added, changed, removed] = [&answer.added, &answer.changed, &answer.removed].map(Vec::len);
    out.push_str(&match added + changed + removed {
        0 => "No differences.\n".to_owned(),
        _ => format!("Plan: {added} added, {changed} changed, {removed} removed.\n"),
    });
    out
}

fn last_line(answer: &ReloadAnswer, dry_run: bool) -> String {
    let [added, changed, removed] = [&answer.added, &answer.changed, &answer.removed].map(Vec::len);
    let counts = format!("{added} added, {changed} changed, {removed} removed");
    match (dry_run, added + changed + removed) {
        (_, 0) => format!("No differences; generation {} is in force.\n", answer.generation),
        (true, _) => format!("Plan: {counts}. To apply it: warren fleet apply\n"),
        (false, _) => format!(
            "Generation {} is in force: {counts}; {} in all, {} of the loop.\n",
            answer.generation,
            span_us(answer.took_us),
            span_us(answer.loop_us)
        ),
    }
}

/// The first rule behind each unit.
fn origins(answer: &ReloadAnswer) -> BTreeMap<&str, &RuleOrigin> {
    let mut out = BTreeMap::new();
    for origin in &answer.made_by {
        out.entry(origin.unit.as_deref().unwrap_or_default()).or_insert(origin);
    }
    out
}

fn names(units: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = units.iter().map(String::as_str).collect();
    names.sort_unstable();
    names
}

type RuleName<'v> = (&'v str, Option<&'v RuleOrigin>);

/// The units of a list by the rule behind them; those without one come last.
fn by_rule<'v>(
    units: &'v [String],
    origins: &BTreeMap<&str, &'v RuleOrigin>,
) -> Vec<(Option<String>, Vec<RuleName<'v>>)> {
    let mut rules: BTreeMap<Option<String>, Vec<RuleName<'v>>> = BTreeMap::new();
    for name in names(units) {
        let origin = origins.get(name).copied();
        rules.entry(origin.map(rule)).or_default().push((name, origin));
    }
    let without = rules.remove(&None);
    rules.into_iter().chain(without.map(|units| (None, units))).collect()
}

fn group(
    sign: &str,
    tone: Tone,
    rule: Option<&str>,
    units: &[RuleName<'_>],
    all: bool,
    style: Style,
) -> String {
    if all || units.len() <= LISTED_MAX {
        let line = |(name, origin): &RuleName<'_>| {
            let why = origin.map(|o| format!("  {}", origin::origin(o))).unwrap_or_default();
            let why = style.paint(Tone::Dim, &why);
            format!("{}{why}\n", style.paint(tone, &format!("{sign} {name}")))
        };
        return units.iter().map(line).collect();
    }
    let few: Vec<&str> = units.iter().take(NAMED_MAX).map(|(name, _)| *name).collect();
    let what = style.paint(tone, &format!("{sign} {} units: {}, ...", units.len(), few.join(", ")));
    let why = style.paint(Tone::Dim, &rule.map(|rule| format!("  {rule}")).unwrap_or_default());
    format!("{what}{why}\n")
}

/// The unit files that differ, line by line.
pub fn diff(answer: &ReloadAnswer, units: &[String], style: Style) -> String {
    let mut out = String::new();
    for file in &answer.texts {
        let path = file.path.as_str();
        let owner = path.split('/').next().unwrap_or_default().trim_end_matches(".d");
        if !units.is_empty() && !units.iter().any(|unit| unit == owner) {
            continue;
        }
        let name = |text: &Option<String>| match text {
            None => "/dev/null".to_owned(),
            Some(_) => format!("/run/warren/fleet/{path}"),
        };
        let head = format!("--- {}\n+++ {}\n", name(&file.before), name(&file.after));
        out.push_str(&style.paint(Tone::Strong, head.trim_end()));
        out.push('\n');
        let [before, after] =
            [&file.before, &file.after].map(|text| text.as_deref().unwrap_or_default());
        out.push_str(&lines::diff(before, after, style));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn answer_of(answer: &Value) -> ReloadAnswer {
        serde_json::from_value(answer.clone()).expect("an answer")
    }

    fn plan(answer: &Value, dry_run: bool, all: bool, style: Style) -> String {
        super::plan(&answer_of(answer), dry_run, all, style)
    }

    fn diff(answer: &Value, units: &[String], style: Style) -> String {
        super::diff(&answer_of(answer), units, style)
    }

    fn origin_of(unit: &str) -> Value {
        json!({"unit": unit, "rule": "apply Slice \"s\"", "path": "r.conf", "line": 3,
            "target": {"name": "Container 'a'", "path": "c.conf", "line": 1}})
    }

    #[test]
    fn many_units_of_a_rule_are_one_line() {
        let added: Vec<String> = (1..8).map(|n| format!("{n}.slice")).collect();
        let made_by: Vec<Value> = added.iter().map(|unit| origin_of(unit)).collect();
        let answer = json!({"added": added, "changed": ["x.target"], "removed": ["y.slice"],
            "needs_restart": ["x.target"], "made_by": made_by, "generation": 4});
        let shown = plan(&answer, true, false, Style::default());
        assert_eq!(
            shown,
            "+ 7 units: 1.slice, 2.slice, 3.slice, ...  apply Slice \"s\" (r.conf:3)\n~ x.target\n\
             - y.slice\n! x.target would run with its old configuration: warren restart x.target\n\
             ! removed units that are running would keep running: warren stop y.slice\n\
             ! new units would not be started: warren start 1.slice\n\
             Plan: 7 added, 1 changed, 1 removed. To apply it: warren fleet apply\n"
        );
        let shown = plan(&answer, false, true, Style::default());
        let line = "+ 1.slice  apply Slice \"s\" (r.conf:3) for Container 'a' (c.conf:1)\n";
        assert!(shown.starts_with(line), "{shown}");
    }

    #[test]
    fn a_unit_that_another_ones_setting_changes_says_so() {
        let mut cause = origin_of("all.target");
        cause["through"] = json!({"setting": "WantedBy", "unit": "s-a.slice"});
        let answer = json!({"changed": ["all.target"], "made_by": [cause]});
        let shown = plan(&answer, true, false, Style::default());
        let line = "~ all.target  WantedBy= of s-a.slice, made by apply Slice \"s\" (r.conf:3) \
                    for Container 'a' (c.conf:1)\n";
        assert!(shown.starts_with(line), "{shown}");
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let shown = plan(&json!({"generation": 7}), true, false, Style::default());
        assert_eq!(shown, "No differences; generation 7 is in force.\n");
    }

    #[test]
    fn a_difference_has_the_lines_around_it() {
        let answer = json!({"texts": [
            {"path": "a.service", "before": "[Service]\nA=1\nB=2\n", "after": "[Service]\nA=1\nB=3\nC=4\n"},
            {"path": "b.service.d/x.conf", "before": null, "after": "[Service]\n"},
        ]});
        assert_eq!(
            diff(&answer, &[], Style::default()),
            "--- /run/warren/fleet/a.service\n+++ /run/warren/fleet/a.service\n [Service]\n A=1\n\
             -B=2\n+B=3\n+C=4\n--- /dev/null\n+++ /run/warren/fleet/b.service.d/x.conf\n+[Service]\n"
        );
        let one = diff(&answer, &["b.service".to_owned()], Style::default());
        assert!(!one.contains("a.service"), "{one}");
    }
}
