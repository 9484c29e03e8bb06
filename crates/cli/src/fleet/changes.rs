//! `plan`, `apply` and `diff` as text, from the manager's answer.

use std::collections::BTreeMap;

use serde_json::Value;
use warren_unit::UnitType;

use super::lines;
use crate::output::{Style, Tone, span_us};
use crate::render;

/// Units of one rule that are listed one by one.
const LISTED_MAX: usize = 5;

/// Names that stand for those that are not.
const NAMED_MAX: usize = 3;

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// `apply Service "web" (/etc/warren/fleet.d/rules.conf:3)`; before it the setting of another unit
/// that the rule made, where that is what changes this one: `WantedBy= of shop-web.service, made by `.
fn rule(origin: &Value) -> String {
    let through = &origin["through"];
    let setting = match through["setting"].as_str() {
        Some(setting) => format!("{setting}= of {}, made by ", text(through, "unit")),
        None => String::new(),
    };
    format!("{setting}{} ({}:{})", text(origin, "rule"), text(origin, "path"), origin["line"])
}

/// ` for Container 'shop' (/etc/...:7)`
pub fn target(origin: &Value) -> String {
    let target = &origin["target"];
    match target["name"].as_str() {
        Some(name) => format!(" for {name} ({}:{})", text(target, "path"), target["line"]),
        None => String::new(),
    }
}

/// The rule and what it made something for.
pub fn origin(origin: &Value) -> String {
    format!("{}{}", rule(origin), target(origin))
}

/// What a plan says, or what was applied. With `all`, units of a rule are not summed up.
pub fn plan(answer: &Value, dry_run: bool, all: bool, style: Style) -> String {
    let origins = origins(answer);
    let mut out = String::new();
    for (key, sign, tone) in
        [("added", "+", Tone::Good), ("changed", "~", Tone::Warn), ("removed", "-", Tone::Bad)]
    {
        for (rule, units) in by_rule(answer, key, &origins) {
            out.push_str(&group(sign, tone, rule.as_deref(), &units, all, style));
        }
    }
    let restart = names(answer, "needs_restart");
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
    for fault in answer["diagnostics"].as_array().into_iter().flatten() {
        out.push_str(&format!("{}\n", render::diagnostic(fault)));
    }
    let new = names(answer, "added").into_iter().chain(names(answer, "changed"));
    out.push_str(&not_run(new.filter_map(|name| name.rsplit('.').next())));
    out.push_str(&last_line(answer, dry_run));
    out
}

/// One line for the types among these that are not run; none if all are.
pub(super) fn not_run<'t>(types: impl Iterator<Item = &'t str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    types
        .filter(|name| UnitType::from_suffix(name).is_some_and(|of_type| !of_type.is_run()))
        .for_each(|name| *counts.entry(name).or_default() += 1);
    let each: Vec<String> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
    match each.is_empty() {
        true => String::new(),
        false => format!(
            "! {}: units of this type are not run by this version, so nothing starts what they are for\n",
            each.join(", ")
        ),
    }
}

fn last_line(answer: &Value, dry_run: bool) -> String {
    let count = |key: &str| answer[key].as_array().map_or(0, Vec::len);
    let counts = format!(
        "{} added, {} changed, {} removed",
        count("added"),
        count("changed"),
        count("removed")
    );
    let number = |key: &str| answer[key].as_u64().unwrap_or(0);
    match (dry_run, count("added") + count("changed") + count("removed")) {
        (_, 0) => format!("Nothing differs; generation {} is in force.\n", number("generation")),
        (true, _) => format!("Plan: {counts}. To put it into force: warren fleet apply\n"),
        (false, _) => format!(
            "Generation {} is in force: {counts}; {} in all, {} of the loop.\n",
            number("generation"),
            span_us(number("took_us")),
            span_us(number("loop_us"))
        ),
    }
}

/// The first rule behind each unit.
fn origins(answer: &Value) -> BTreeMap<&str, &Value> {
    let mut out = BTreeMap::new();
    for origin in answer["made_by"].as_array().into_iter().flatten() {
        out.entry(text(origin, "unit")).or_insert(origin);
    }
    out
}

fn names<'v>(answer: &'v Value, key: &str) -> Vec<&'v str> {
    let list = answer[key].as_array().into_iter().flatten();
    let mut names: Vec<&str> = list.filter_map(Value::as_str).collect();
    names.sort_unstable();
    names
}

type Named<'v> = (&'v str, Option<&'v Value>);

/// The units of a list by the rule behind them; those without one come last.
fn by_rule<'v>(
    answer: &'v Value,
    key: &str,
    origins: &BTreeMap<&str, &'v Value>,
) -> Vec<(Option<String>, Vec<Named<'v>>)> {
    let mut rules: BTreeMap<Option<String>, Vec<Named<'v>>> = BTreeMap::new();
    for name in names(answer, key) {
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
    units: &[Named<'_>],
    all: bool,
    style: Style,
) -> String {
    if all || units.len() <= LISTED_MAX {
        let line = |(name, origin): &Named<'_>| {
            let why = origin.map(|o| format!("  {}", self::origin(o))).unwrap_or_default();
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
pub fn diff(answer: &Value, units: &[String], style: Style) -> String {
    let mut out = String::new();
    for file in answer["texts"].as_array().into_iter().flatten() {
        let path = text(file, "path");
        let owner = path.split('/').next().unwrap_or_default().trim_end_matches(".d");
        if !units.is_empty() && !units.iter().any(|unit| unit == owner) {
            continue;
        }
        let name = |key: &str| match file[key].is_null() {
            true => "/dev/null".to_owned(),
            false => format!("/run/warren/fleet/{path}"),
        };
        let head = format!("--- {}\n+++ {}\n", name("before"), name("after"));
        out.push_str(&style.paint(Tone::Strong, head.trim_end()));
        out.push('\n');
        out.push_str(&lines::diff(text(file, "before"), text(file, "after"), style));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
             Plan: 7 added, 1 changed, 1 removed. To put it into force: warren fleet apply\n"
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
    fn what_is_made_and_not_run_is_said() {
        let answer = json!({"added": ["a.timer", "b.timer", "a.service"], "changed": ["c.path"]});
        let shown = plan(&answer, true, true, Style::default());
        let line = "! 1 path, 2 timer: units of this type are not run by this version";
        assert!(shown.contains(line), "{shown}");
        let shown = plan(&json!({"added": ["a.service"]}), true, true, Style::default());
        assert!(!shown.contains("not run"), "{shown}");
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let shown = plan(&json!({"generation": 7}), true, false, Style::default());
        assert_eq!(shown, "Nothing differs; generation 7 is in force.\n");
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
