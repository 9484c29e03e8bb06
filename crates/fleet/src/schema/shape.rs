//! What dictionaries and arrays of attributes have inside, where the type says.

use super::check::{AttributeFault, Subject, closes_macros};
use super::expectation::Shape;
use crate::value::Value;

use Shape::{Either, Entries, Function, Items, Keys, Macros, Number, Text};

/// `env` of commands.
pub(super) static ENVIRONMENT: Shape = Entries(&Either(&[Macros, Function]));

/// `arguments` of commands.
pub(super) static ARGUMENTS: Shape = Entries(&Either(&[
    Macros,
    Function,
    Keys(&[
        ("description", Text, false),
        ("key", Text, false),
        ("order", Number, false),
        ("repeat_key", Number, false),
        ("required", Number, false),
        ("separator", Text, false),
        ("set_if", Either(&[Macros, Function]), false),
        ("skip_key", Number, false),
        ("value", Either(&[Macros, Function, Items(&Macros)]), false),
    ]),
]));

/// `command` of commands.
pub(super) static COMMAND: Shape = Either(&[Text, Function, Items(&Either(&[Text, Function]))]);

/// `times` of notifications.
pub(super) static TIMES: Shape = Keys(&[("begin", Number, false), ("end", Number, false)]);

/// `permissions` of API users.
pub(super) static PERMISSIONS: Shape =
    Items(&Either(&[Text, Keys(&[("filter", Function, false), ("permission", Text, true)])]));

/// `basic_auth` of writers for InfluxDB.
pub(super) static BASIC_AUTH: Shape = Keys(&[("password", Text, true), ("username", Text, true)]);

/// Templates of writers for InfluxDB.
pub(super) static POINTS: Shape =
    Keys(&[("measurement", Macros, true), ("tags", Entries(&Macros), false)]);

/// Templates of writers for OpenTSDB.
pub(super) static METRICS: Shape =
    Keys(&[("metric", Macros, false), ("tags", Entries(&Macros), false)]);

impl Shape {
    /// Whether the outside of a value fits.
    fn takes(&self, subject: &Subject<'_, '_>, value: Value) -> bool {
        match self {
            Text | Macros => {
                matches!(value, Value::String(_) | Value::Number(_) | Value::Boolean(_))
            }
            Number => match value {
                Value::Number(_) | Value::Boolean(_) => true,
                Value::String(_) => subject.number(value).is_some(),
                _ => false,
            },
            Function => matches!(value, Value::Function(_) | Value::Builtin(_)),
            Either(all) => all.iter().any(|shape| shape.takes(subject, value)),
            Items(_) => matches!(value, Value::Array(_)),
            Entries(_) | Keys(_) => matches!(value, Value::Dictionary(_)),
        }
    }

    /// Checks a value and what is in it.
    pub(super) fn check(
        &self,
        subject: &Subject<'_, '_>,
        value: Value,
    ) -> Result<(), AttributeFault> {
        if matches!(value, Value::Empty) {
            return Ok(());
        }
        if !self.takes(subject, value) {
            return Err(AttributeFault::new("Invalid type."));
        }
        match (self, value) {
            (Macros, value) => closes_macros(&subject.text(value)),
            (Either(all), value) => {
                let fitting = all.iter().find(|shape| shape.takes(subject, value));
                fitting.map_or(Ok(()), |shape| shape.check(subject, value))
            }
            (Items(shape), Value::Array(id)) => {
                let items = subject.run.heap.array(id).items.iter().enumerate();
                let mut checked = items.map(|(at, item)| {
                    shape.check(subject, *item).map_err(|w| w.below(&at.to_string()))
                });
                checked.find(Result::is_err).unwrap_or(Ok(()))
            }
            (Entries(shape), Value::Dictionary(id)) => {
                let entries = subject.run.heap.sorted(id);
                let mut checked = entries.into_iter().map(|(key, item)| {
                    shape.check(subject, item).map_err(|w| w.below(&subject.run.heap.text(key)))
                });
                checked.find(Result::is_err).unwrap_or(Ok(()))
            }
            (Keys(known), Value::Dictionary(id)) => keys(subject, id, known),
            _ => Ok(()),
        }
    }
}

/// A dictionary whose keys are known.
fn keys(
    subject: &Subject<'_, '_>,
    id: crate::value::DictionaryId,
    known: &[(&str, Shape, bool)],
) -> Result<(), AttributeFault> {
    let entries = subject.run.heap.sorted(id);
    let entries: Vec<(String, Value)> =
        entries.into_iter().map(|(key, value)| (subject.run.heap.text(key), value)).collect();
    for (name, _, required) in known {
        let is_there =
            || entries.iter().any(|(key, value)| key == name && !matches!(value, Value::Empty));
        if *required && !is_there() {
            return Err(AttributeFault::new(format!(
                "Required dictionary item '{name}' is not set."
            )));
        }
    }
    for (key, value) in &entries {
        let Some((_, shape, _)) = known.iter().find(|(name, ..)| name == key) else {
            return Err(AttributeFault::new(format!("Invalid attribute: {key}")).below(key));
        };
        shape.check(subject, *value).map_err(|wrong| wrong.below(key))?;
    }
    Ok(())
}
