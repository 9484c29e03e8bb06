//! What the methods of the control socket take, as one table.
//!
//! A value of another type is never taken for one that was left out: an order would be carried out that nobody gave.

use serde_json::Value;

use crate::control::answer::invalid;

/// What a parameter may be, if it is not null.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    /// A whole number.
    Number,
    /// One that is not negative.
    Count,
    Texts,
    /// A text, or a list of them.
    TextOrTexts,
}

use Kind::{Count, Flag, Number, Text, TextOrTexts, Texts};

type Taken = &'static [(&'static str, Kind)];

const UNIT: Taken = &[("unit", Text)];

/// Methods that are not here take nothing.
const TAKEN: &[(&str, Taken)] = &[
    ("List", &[("patterns", TextOrTexts), ("state", TextOrTexts), ("type", TextOrTexts)]),
    ("Status", &[("unit", Text), ("pid", Count)]),
    ("FileState", UNIT),
    ("Why", UNIT),
    ("Cat", &[("unit", Text), ("pid", Count)]),
    ("Record", &[("name", Text), ("since_us", Count), ("until_us", Count), ("subject", Text)]),
    ("Verify", UNIT),
    (
        "Job",
        &[
            ("unit", Text),
            ("type", Text),
            ("mode", Text),
            ("reload_if_possible", Flag),
            ("wait", Flag),
            ("comment", Text),
        ],
    ),
    (
        "Jobs",
        &[
            ("units", Texts),
            ("type", Text),
            ("mode", Text),
            ("reload_if_possible", Flag),
            ("wait", Flag),
            ("comment", Text),
        ],
    ),
    (
        "ReloadConfiguration",
        &[
            ("full", Flag),
            ("dry_run", Flag),
            ("rules_only", Flag),
            ("texts", Flag),
            ("unit", Text),
            ("rollback", Count),
        ],
    ),
    (
        "UnitFiles",
        &[
            ("verb", Text),
            ("files", Texts),
            ("mode", Text),
            ("runtime", Flag),
            ("force", Flag),
            ("comment", Text),
        ],
    ),
    ("Kill", &[("unit", Text), ("whom", Text), ("signal", Number)]),
    ("ResetFailed", UNIT),
    (
        "Leave",
        &[
            ("how", Text),
            ("after", Text),
            ("at", Text),
            ("message", Text),
            ("ignore_inhibitors", Flag),
        ],
    ),
    ("Hurry", UNIT),
    ("Mark", &[("unit", Text), ("as", Text), ("comment", Text)]),
    ("Clear", UNIT),
    ("Inhibit", &[("what", Text), ("who", Text), ("why", Text)]),
];

impl Kind {
    fn takes(self, value: &Value) -> bool {
        let are_texts = || value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
        match self {
            Text => value.is_string(),
            Flag => value.is_boolean(),
            Number => value.is_i64(),
            Count => value.is_u64(),
            Texts => are_texts(),
            TextOrTexts => value.is_string() || are_texts(),
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Text => "a text",
            Flag => "true or false",
            Number => "a whole number",
            Count => "a whole number that is not negative",
            Texts => "a list of texts",
            TextOrTexts => "a text, or a list of them",
        }
    }
}

/// Refuses what a method cannot take. One that changes something must know all that it is told: others pass over it.
pub(crate) fn check(
    method: &str,
    changes: bool,
    parameters: &Value,
) -> Result<(), (&'static str, String)> {
    let given = match parameters {
        Value::Null => return Ok(()),
        Value::Object(given) => given,
        _ => return Err(invalid("the parameters are not an object")),
    };
    let taken = TAKEN.iter().find(|(name, _)| *name == method).map_or(&[][..], |(_, taken)| taken);
    for (key, value) in given {
        match taken.iter().find(|(name, _)| name == key) {
            Some((_, kind)) if !value.is_null() && !kind.takes(value) => {
                return Err(invalid(format!("{key}: not {}", kind.in_words())));
            }
            None if changes => {
                return Err(invalid(format!("{key}: {method} has no such parameter")));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::control::methods::CALLS;

    #[test]
    fn what_is_of_another_type_is_refused_and_not_taken_for_left_out() {
        let answer = |method: &str, parameters: Value| {
            let call = CALLS.iter().find(|call| call.name == method);
            let changes = call.is_none_or(|call| call.changes);
            check(method, changes, &parameters).map_err(|(_, text)| text).err().unwrap_or_default()
        };
        for (method, parameters, refusal) in [
            ("Leave", json!({"how": "poweroff", "after": 300}), "after: not a text"),
            ("Leave", json!({"how": 1}), "how: not a text"),
            (
                "Leave",
                json!({"how": "reboot", "aftr": "5min"}),
                "aftr: Leave has no such parameter",
            ),
            ("Leave", json!({"how": "reboot", "after": null, "at": "12:00"}), ""),
            ("ResetFailed", json!({"unit": ["x.service"]}), "unit: not a text"),
            ("ReloadConfiguration", json!({"unit": 5}), "unit: not a text"),
            (
                "ReloadConfiguration",
                json!({"rollback": -1}),
                "rollback: not a whole number that is not negative",
            ),
            ("ReloadConfiguration", json!({"dry_run": "yes"}), "dry_run: not true or false"),
            ("List", json!({"patterns": 5}), "patterns: not a text, or a list of them"),
            ("List", json!({"patterns": ["a", 5]}), "patterns: not a text, or a list of them"),
            ("List", json!({"patterns": "a", "state": ["active"], "later": 1}), ""),
            ("Jobs", json!({"units": "a.service"}), "units: not a list of texts"),
            ("Job", json!({"unit": "a.service", "wait": 0}), "wait: not true or false"),
            ("Kill", json!({"unit": "a.service", "signal": -1}), ""),
            ("Kill", json!({"unit": "a.service", "signal": 9.5}), "signal: not a whole number"),
            ("Reexecute", json!({"unit": "a.service"}), "unit: Reexecute has no such parameter"),
            ("Clear", json!([]), "the parameters are not an object"),
            ("Totals", Value::Null, ""),
        ] {
            assert_eq!(answer(method, parameters.clone()), refusal, "{method} {parameters}");
        }
    }

    #[test]
    fn every_entry_is_of_a_method() {
        let has = |name: &str| CALLS.iter().any(|call| call.name == name);
        let unknown: Vec<&str> =
            TAKEN.iter().map(|(name, _)| *name).filter(|name| !has(name)).collect();
        assert_eq!(unknown, ["Jobs", "Inhibit"], "which the connection serves itself");
    }
}
