//! `parse_performance_data()`: what a plugin measured ("Service Monitoring", "Performance Data
//! Metrics"): `label=value[unit];warn;crit;min;max`.
//!
//! Units become one unit of their kind: 5 milliseconds are 0.005 seconds. What a threshold says
//! beyond a number (`10:20`) is left out, as in the installed program.

use super::call::{Call, bytes};
use crate::eval::{Interpreter, Outcome};
use crate::ops;
use crate::source::Place;
use crate::types::Types;
use crate::value::{Object, Table, Value};

const KIBI: f64 = 1024.0;

/// What each step of a prefix is: k, M, G and so on.
const STEPS: &[u8] = b"KMGTPEZY";

/// Units that are written in one way only, in small letters, with what they are and how many.
const SINGLE: &[(&str, &str, f64)] = &[
    ("packets", "packets", 1.0),
    ("ns", "seconds", 1.0 / 1000.0 / 1000.0 / 1000.0),
    ("us", "seconds", 1e-6),
    ("ms", "seconds", 1e-3),
    ("s", "seconds", 1.0),
    ("m", "seconds", 60.0),
    ("h", "seconds", 3600.0),
    ("d", "seconds", 86_400.0),
    ("%", "percent", 1.0),
    ("lm", "lumens", 1.0),
    ("dbm", "decibel-milliwatts", 1.0),
    ("ng", "grams", 1.0 / 1000.0 / 1000.0 / 1000.0),
    ("ug", "grams", 1e-6),
    ("mg", "grams", 1e-3),
    ("g", "grams", 1.0),
    ("kg", "grams", 1e3),
    ("t", "grams", 1e6),
    ("c", "degrees-celsius", 1.0),
    ("f", "degrees-fahrenheit", 1.0),
    ("k", "degrees-kelvin", 1.0),
    ("ml", "liters", 1e-3),
    ("l", "liters", 1.0),
    ("hl", "liters", 100.0),
];

/// Units that take prefixes, from nano to yotta.
const PREFIXED: &[(&str, &str, f64)] = &[
    ("a", "amperes", 1.0),
    ("o", "ohms", 1.0),
    ("v", "volts", 1.0),
    ("w", "watts", 1.0),
    ("as", "ampere-seconds", 1.0),
    ("am", "ampere-seconds", 60.0),
    ("ah", "ampere-seconds", 3600.0),
    ("ws", "watt-hours", 1.0 / 3600.0),
    ("wm", "watt-hours", 1.0 / 60.0),
    ("wh", "watt-hours", 1.0),
];

/// What a unit is and how many of it: nothing of none for one that nobody knows.
fn unit(text: &str) -> (&'static str, f64) {
    let small = text.to_ascii_lowercase();
    let single = SINGLE.iter().find(|row| row.0 == small).map(|row| (row.1, row.2));
    // `c` alone is a counter, which has no unit; `C` is a temperature.
    let single = single.filter(|_| text != "c");
    single.or_else(|| bytes_or_bits(text)).or_else(|| prefixed(text, &small)).unwrap_or(("", 1.0))
}

/// The power of 1000 of a prefix.
fn step(prefix: u8) -> Option<i32> {
    let at = STEPS.iter().position(|step| *step == prefix.to_ascii_uppercase())?;
    Some(at as i32 + 1)
}

/// `B` are bytes and `b` bits; `k` and `Ki` in whatever letters.
fn bytes_or_bits(text: &str) -> Option<(&'static str, f64)> {
    let (prefix, name) = match text.as_bytes() {
        [prefix @ .., b'B'] => (prefix, "bytes"),
        [prefix @ .., b'b'] => (prefix, "bits"),
        _ => return None,
    };
    let factor = match prefix {
        [] => 1.0,
        [prefix] => thousands(step(*prefix)?),
        [prefix, b'i' | b'I'] => KIBI.powi(step(*prefix)?),
        _ => return None,
    };
    Some((name, factor))
}

/// The only prefix whose letter must be as it is written is `m`: milli or `M`, mega.
fn prefixed(text: &str, small: &str) -> Option<(&'static str, f64)> {
    let of = |small: &str| PREFIXED.iter().find(|row| row.0 == small);
    if let Some((_, name, factor)) = of(small) {
        return Some((name, *factor));
    }
    let first = *text.as_bytes().first()?;
    let (_, name, factor) = of(small.get(1..)?)?;
    let prefix = match first {
        b'n' | b'N' => 1e-9,
        b'u' | b'U' => 1e-6,
        b'm' => 1e-3,
        other => thousands(step(other)?),
    };
    Some((name, prefix * factor))
}

/// A power of 1000, as exact as a literal: of repeated products it is not.
fn thousands(power: i32) -> f64 {
    format!("1e{}", power * 3).parse().expect("digits are a number")
}

/// What was read of one value; what is none is null.
#[derive(Debug, PartialEq)]
struct Parsed<'t> {
    label: &'t [u8],
    value: f64,
    unit: &'static str,
    /// warn, crit, min and max.
    bounds: [Option<f64>; 4],
}

/// Reads `label=value[unit];warn;crit;min;max`.
fn read(text: &[u8]) -> Result<Parsed<'_>, String> {
    let invalid = || format!("Invalid performance data value: {}", String::from_utf8_lossy(text));
    let at = text.iter().rposition(|byte| *byte == b'=').ok_or_else(invalid)?;
    let (label, rest) = (&text[..at], &text[at + 1..]);
    let rest = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
    if rest.contains(&b',') {
        return Err(invalid());
    }
    let mut parts = rest.split(|byte| *byte == b';');
    let measured = parts.next().unwrap_or_default();
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let digits = measured.iter().rposition(is_digit).map_or(measured.len(), |last| last + 1);
    let (number, unit_text) = measured.split_at(digits);
    let (unit, factor) = unit(&String::from_utf8_lossy(unit_text));
    let none = || {
        let number = String::from_utf8_lossy(number);
        format!("Can't convert '{number}' to a floating point number.")
    };
    let value = parsed(number).ok_or_else(none)?;
    let bounds = std::array::from_fn(|_| Some(parsed(parts.next()?)? * factor));
    Ok(Parsed { label: unquoted(label), value: value * factor, unit, bounds })
}

fn parsed(text: &[u8]) -> Option<f64> {
    (!text.is_empty()).then(|| ops::parse_number(text)).flatten()
}

/// A label without the quotes around it.
fn unquoted(label: &[u8]) -> &[u8] {
    match label {
        [b'\'', inner @ .., b'\''] if !inner.is_empty() => inner,
        label => label,
    }
}

/// A value of which nothing is known.
pub(super) fn value(run: &mut Interpreter<'_>, place: Place) -> Value {
    let name = run.heap.intern(b"");
    Value::Object(run.heap.make_object(Object {
        of_type: Types::PERFDATA_VALUE,
        name,
        attributes: Table::default(),
        trail: Default::default(),
        origin: place,
        target: None,
    }))
}

/// What a plugin says of one value.
pub fn parse(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let text = bytes(run, call.argument(0));
    let Parsed { label, value, unit, bounds } = read(&text).map_err(|error| call.fail(error))?;
    let [warn, crit, min, max] =
        bounds.map(|bound| bound.filter(|b| !b.is_nan()).map_or(Value::Empty, Value::Number));
    let (label, unit) = (run.heap.string(label), run.heap.string(unit.as_bytes()));
    let members = [
        ("counter", Value::Boolean(false)),
        ("crit", crit),
        ("label", label),
        ("max", max),
        ("min", min),
        ("unit", unit),
        ("value", Value::Number(value)),
        ("warn", warn),
    ];
    let made = self::value(run, call.place);
    for (name, member) in members {
        let name = run.heap.string(name.as_bytes());
        run.set_field(made, name, member, call.place)?;
    }
    Ok(made)
}
