//! Methods of strings. Positions and lengths are bytes.

use super::call::{Call, bytes, number};
use crate::eval::{Flow, Interpreter, Outcome};
use crate::ops;
use crate::value::Value;

fn this(run: &Interpreter<'_>, call: &Call<'_>) -> Vec<u8> {
    bytes(run, call.this)
}

/// Where `what` begins in `text`, from a position on.
fn position(text: &[u8], what: &[u8], from: usize) -> Option<usize> {
    if what.is_empty() {
        return (from <= text.len()).then_some(from);
    }
    let found = text.get(from..)?.windows(what.len()).position(|window| window == what);
    found.map(|at| from + at)
}

pub fn contains(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let what = bytes(run, call.argument(0));
    Ok(Value::Boolean(position(&this(run, call), &what, 0).is_some()))
}

/// A position that must be within a text; its fraction is dropped.
fn index(run: &Interpreter<'_>, call: &Call<'_>, value: Value) -> Result<usize, Flow> {
    let number = number(run, call, value)?;
    match number < 0.0 {
        true => Err(call.fail("String index is out of range")),
        false => Ok(number as usize),
    }
}

pub fn find(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    if call.arguments.is_empty() {
        return Err(call.fail("Too few arguments"));
    }
    let what = bytes(run, call.argument(0));
    let from = call.given(1).map_or(Ok(0), |value| index(run, call, value))?;
    let found = position(&this(run, call), &what, from);
    Ok(Value::Number(found.map_or(-1.0, |at| at as f64)))
}

pub fn len(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    Ok(Value::Number(this(run, call).len() as f64))
}

fn mapped(run: &mut Interpreter<'_>, call: &Call<'_>, map: fn(Vec<u8>) -> Vec<u8>) -> Outcome {
    let out = map(this(run, call));
    Ok(run.heap.string(&out))
}

pub fn lower(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    mapped(run, call, |text| text.to_ascii_lowercase())
}

pub fn upper(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    mapped(run, call, |text| text.to_ascii_uppercase())
}

pub fn reverse(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    mapped(run, call, |text| text.into_iter().rev().collect())
}

/// Without white space on both sides.
pub fn trim(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let is_space = |byte: &u8| b" \t\n\r\x0b\x0c".contains(byte);
    let text = this(run, call);
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |at| at + 1);
    Ok(run.heap.string(&text[start..end]))
}

/// Replaces from left to right; an empty text is found nowhere.
pub fn replace(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let (text, what) = (this(run, call), bytes(run, call.argument(0)));
    let with = bytes(run, call.argument(1));
    let (mut out, mut from) = (Vec::new(), 0);
    while let Some(at) = position(&text, &what, from).filter(|_| !what.is_empty()) {
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(&with);
        from = at + what.len();
        if out.len() > ops::TEXT_BYTES_MAX {
            return Err(call.fail(ops::TOO_LONG));
        }
    }
    out.extend_from_slice(&text[from..]);
    Ok(run.heap.string(&out))
}

/// Each byte of the argument separates parts.
pub fn split(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let (text, separators) = (this(run, call), bytes(run, call.argument(0)));
    let parts = text.split(|byte| separators.contains(byte));
    let parts = parts.map(|part| run.heap.string(part)).collect();
    Ok(run.heap.array_of(parts, call.place))
}

pub fn substr(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    if call.arguments.is_empty() {
        return Err(call.fail("Too few arguments"));
    }
    let text = this(run, call);
    let start = index(run, call, call.argument(0))?;
    if start >= text.len() {
        return Err(call.fail("String index is out of range"));
    }
    let length = match call.given(1) {
        Some(value) => number(run, call, value)?,
        None => f64::INFINITY,
    };
    // A negative length is a huge one, as in the installed program.
    let length = if length < 0.0 { usize::MAX } else { length as usize };
    let end = start.saturating_add(length).min(text.len());
    Ok(run.heap.string(&text[start..end]))
}
