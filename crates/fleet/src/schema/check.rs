//! What attributes of Icinga's objects must be, beyond their kind. Messages are those of the
//! installed program, so that both say the same of one configuration.

use std::borrow::Cow;

use super::expectation::Check;
use super::ranges;
use super::shape;
use crate::eval::Interpreter;
use crate::ops;
use crate::text;
use crate::value::{Object, Value};

/// An attribute that is looked at.
pub struct Subject<'s, 'p> {
    pub(super) run: &'s Interpreter<'p>,
    pub(super) object: &'s Object,
}

/// What is wrong, and where below the attribute.
#[derive(Debug)]
pub struct AttributeFault {
    path: Vec<String>,
    message: String,
}

impl AttributeFault {
    pub(super) fn new(message: impl Into<String>) -> AttributeFault {
        AttributeFault { path: Vec::new(), message: message.into() }
    }

    /// The same, seen from one level above.
    pub(super) fn below(mut self, key: &str) -> AttributeFault {
        self.path.insert(0, key.to_owned());
        self
    }

    /// `Attribute 'vars' -> 'a': ...`
    pub(super) fn of(self, attribute: &str) -> String {
        let below: String = self.path.iter().map(|key| format!(" -> '{key}'")).collect();
        format!("Attribute '{attribute}'{below}: {}", self.message)
    }
}

/// Arguments are added to an array.
pub(super) fn no_array() -> AttributeFault {
    AttributeFault::new("Attribute 'command' must be an array if the 'arguments' attribute is set.")
}

/// Whether every `$` has its other one.
pub(super) fn closes_macros(text: &str) -> Result<(), AttributeFault> {
    match text.matches('$').count() % 2 {
        0 => Ok(()),
        _ => Err(AttributeFault::new(format!(
            "Closing $ not found in macro format string '{text}'."
        ))),
    }
}

/// The states of hosts and services, by their bits.
const STATES: [(&str, u32); 6] =
    [("OK", 1), ("Warning", 2), ("Critical", 4), ("Unknown", 8), ("Up", 16), ("Down", 32)];

const SERVICE_STATES: u32 = 15;
const HOST_STATES: u32 = 48;

/// Kinds of notifications, by their bits.
const KINDS: [(&str, u32); 9] = [
    ("DowntimeStart", 1),
    ("DowntimeEnd", 2),
    ("DowntimeRemoved", 4),
    ("Custom", 8),
    ("Acknowledgement", 16),
    ("Problem", 32),
    ("Recovery", 64),
    ("FlappingStart", 128),
    ("FlappingEnd", 256),
];

const ALL_KINDS: u32 = 511;

impl Subject<'_, '_> {
    pub(super) fn text(&self, value: Value) -> Cow<'_, str> {
        if let Value::String(id) = value {
            return String::from_utf8_lossy(self.run.heap.bytes(id));
        }
        let text = text::string(&self.run.heap, self.run.types, value);
        String::from_utf8_lossy(&text).into_owned().into()
    }

    pub(super) fn number(&self, value: Value) -> Option<f64> {
        ops::to_number(&self.run.heap, self.run.types, value).ok()
    }

    /// Another attribute of the object; null if nobody set it.
    fn attribute(&self, name: &str) -> Value {
        let name = self.run.heap.find(name.as_bytes());
        name.and_then(|name| self.object.attributes.get(name)).unwrap_or(Value::Empty)
    }

    fn of_type(&self) -> &str {
        &self.run.types.get(self.object.of_type).name
    }

    /// Checks a value of an attribute.
    pub(super) fn check(&self, check: Check, value: Value) -> Result<(), AttributeFault> {
        match check {
            Check::Nothing => Ok(()),
            Check::AboveZero => match self.number(value) {
                Some(number) if number > 0.0 => Ok(()),
                _ => Err(AttributeFault::new("Value must be greater than 0.")),
            },
            Check::OneOrNumber(_) if self.text(value).parse::<i64>().is_ok() => Ok(()),
            Check::OneOf((message, known)) | Check::OneOrNumber((message, known)) => {
                let text = self.text(value);
                match known.contains(&&*text) {
                    true => Ok(()),
                    false => Err(AttributeFault::new(message.replace('$', &text))),
                }
            }
            Check::Macros => closes_macros(&self.text(value)),
            Check::Vars => self.vars(value, VARS_DEPTH_MAX),
            Check::Shape(shape) => shape.check(self, value),
            Check::Command => self.command(value),
            Check::Arguments => self.arguments(value),
            Check::Times => self.times(value),
            Check::Ranges => self.ranges(value),
            Check::States => self.states(value),
            Check::Kinds => self
                .bits(value, &KINDS, ALL_KINDS)
                .ok_or_else(|| AttributeFault::new("Type filter is invalid.")),
            Check::ChildOptions => self.child_options(value),
            Check::Service | Check::Endpoint => Ok(()),
        }
    }

    /// Macros of custom variables; an array's items are said to be the array.
    fn vars(&self, value: Value, depth: usize) -> Result<(), AttributeFault> {
        match value {
            _ if depth == 0 => Ok(()),
            Value::String(_) => closes_macros(&self.text(value)),
            Value::Array(id) => {
                let items = &self.run.heap.array(id).items;
                items.iter().try_for_each(|item| self.vars(*item, depth - 1))
            }
            Value::Dictionary(id) => {
                let has_text = |value: Value| {
                    matches!(value, Value::String(_) | Value::Array(_) | Value::Dictionary(_))
                };
                let entries = self.run.heap.dictionary(id).items.iter();
                let mut wrong: Vec<(String, AttributeFault)> = entries
                    .filter(|(_, value)| has_text(*value))
                    .filter_map(|(key, value)| {
                        let wrong = self.vars(value, depth - 1).err()?;
                        Some((self.run.heap.text(key), wrong))
                    })
                    .collect();
                wrong.sort_by(|a, b| a.0.cmp(&b.0));
                match wrong.into_iter().next() {
                    Some((key, wrong)) => Err(wrong.below(&key)),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn command(&self, value: Value) -> Result<(), AttributeFault> {
        let has_arguments = !matches!(self.attribute("arguments"), Value::Empty);
        let is_function = matches!(value, Value::Function(_) | Value::Builtin(_));
        if has_arguments && !is_function && !matches!(value, Value::Array(_)) {
            return Err(no_array());
        }
        shape::COMMAND.check(self, value)
    }

    fn arguments(&self, value: Value) -> Result<(), AttributeFault> {
        shape::ARGUMENTS.check(self, value)
    }

    fn times(&self, value: Value) -> Result<(), AttributeFault> {
        shape::TIMES.check(self, value)?;
        let Value::Dictionary(id) = value else { return Ok(()) };
        let items = &self.run.heap.dictionary(id).items;
        let of = |name: &str| {
            let value = items.get(self.run.heap.find(name.as_bytes())?)?;
            self.number(value).filter(|_| !matches!(value, Value::Empty))
        };
        match (of("begin"), of("end")) {
            (Some(begin), Some(end)) if begin > end => {
                Err(AttributeFault::new("'begin' must be smaller than 'end'."))
            }
            _ => Ok(()),
        }
    }

    fn ranges(&self, value: Value) -> Result<(), AttributeFault> {
        let Value::Dictionary(id) = value else { return Ok(()) };
        for (key, value) in self.run.heap.sorted(id) {
            let (key, value) = (self.run.heap.text(key), self.text(value));
            ranges::days(&key).map_err(|message| {
                AttributeFault::new(format!("Invalid time specification '{key}': {message}"))
            })?;
            ranges::hours(&value).map_err(|message| {
                AttributeFault::new(format!("Invalid time range definition '{value}': {message}"))
            })?;
        }
        Ok(())
    }

    /// Names and sums of bits; nothing if one is neither, or a bit is none of these.
    fn bits(&self, value: Value, names: &[(&str, u32)], allowed: u32) -> Option<()> {
        let Value::Array(id) = value else { return Some(()) };
        let one = |item: &Value| match *item {
            Value::Number(sum) if sum.fract() == 0.0 && (0.0..65536.0).contains(&sum) => {
                Some(sum as u32)
            }
            Value::String(_) => {
                let text = self.text(*item);
                names.iter().find(|(name, _)| *name == text).map(|(_, bit)| *bit)
            }
            _ => None,
        };
        let fits = |item: &Value| one(item).is_some_and(|bits| bits & !allowed == 0);
        self.run.heap.array(id).items.iter().all(fits).then_some(())
    }

    /// The states that a filter can ask for depend on what the object is about.
    fn states(&self, value: Value) -> Result<(), AttributeFault> {
        let is_set = |name: &str| ops::is_true(&self.run.heap, self.attribute(name));
        let (is_service, what) = match self.of_type() {
            "Notification" => (Some(is_set("service_name")), ""),
            "Dependency" if is_set("parent_service_name") => {
                (Some(true), " for service dependency")
            }
            "Dependency" => (Some(false), " for host dependency"),
            _ => (None, ""),
        };
        let allowed = match is_service {
            Some(true) => SERVICE_STATES,
            Some(false) => HOST_STATES,
            None => SERVICE_STATES | HOST_STATES,
        };
        let invalid = || AttributeFault::new(format!("State filter is invalid{what}."));
        self.bits(value, &STATES, allowed).ok_or_else(invalid)
    }

    fn child_options(&self, value: Value) -> Result<(), AttributeFault> {
        let known =
            ["DowntimeNoChildren", "DowntimeTriggeredChildren", "DowntimeNonTriggeredChildren"];
        match &*self.text(value) {
            "0" | "1" | "2" => Ok(()),
            text if known.contains(&text) => Ok(()),
            _ => Err(AttributeFault::new("Invalid child_options specified")),
        }
    }
}

/// How deep custom variables are looked into; deeper ones are refused elsewhere.
const VARS_DEPTH_MAX: usize = 100;
