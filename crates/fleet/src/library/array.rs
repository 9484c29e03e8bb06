//! Methods of arrays.

use super::call::{Call, no_object, number};
use crate::ast::Binary;
use crate::eval::{Flow, Interpreter, Outcome};
use crate::ops;
use crate::value::{ArrayId, Value};

fn this(run: &Interpreter<'_>, call: &Call<'_>) -> Result<ArrayId, Flow> {
    match call.this {
        Value::Array(id) => Ok(id),
        other => Err(no_object(run, call, other)),
    }
}

/// A copy of all items, which costs steps as they are many.
fn items(run: &mut Interpreter<'_>, call: &Call<'_>) -> Result<Vec<Value>, Flow> {
    let items = run.heap.array(this(run, call)?).items.clone();
    run.charge(items.len());
    Ok(items)
}

/// How many items there are.
fn count(run: &Interpreter<'_>, call: &Call<'_>) -> Result<usize, Flow> {
    Ok(run.heap.array(this(run, call)?).items.len())
}

fn made(run: &mut Interpreter<'_>, call: &Call<'_>, items: Vec<Value>) -> Outcome {
    Ok(run.heap.array_of(items, call.place))
}

pub fn add(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    run.writable_array(id, call.place)?.items.push(call.argument(0));
    Ok(Value::Empty)
}

pub fn clear(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    run.writable_array(id, call.place)?.items.clear();
    Ok(Value::Empty)
}

pub fn freeze(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    if run.heap.array(id).frozen.is_none() {
        run.writable_array(id, call.place)?.frozen = Some(call.place);
    }
    Ok(Value::Empty)
}

pub fn contains(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let wanted = call.argument(0);
    run.charge(count(run, call)?);
    let items = &run.heap.array(this(run, call)?).items;
    let found = items.iter().any(|item| ops::equal(&run.heap, *item, wanted));
    Ok(Value::Boolean(found))
}

fn position(run: &Interpreter<'_>, call: &Call<'_>, length: usize) -> Result<usize, Flow> {
    let index = number(run, call, call.argument(0))?;
    match index >= 0.0 && (index as usize) < length {
        true => Ok(index as usize),
        false => Err(call.fail(format!("Array index '{index}' is out of bounds."))),
    }
}

pub fn get(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    let items = &run.heap.array(id).items;
    position(run, call, items.len()).map(|at| items[at])
}

pub fn set(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    let at = position(run, call, run.heap.array(id).items.len())?;
    run.writable_array(id, call.place)?.items[at] = call.argument(1);
    Ok(Value::Empty)
}

pub fn remove(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let id = this(run, call)?;
    let index = number(run, call, call.argument(0))?;
    if !(index >= 0.0 && (index as usize) < run.heap.array(id).items.len()) {
        return Err(call.fail("Index to remove must be within bounds."));
    }
    run.charge(count(run, call)?);
    run.writable_array(id, call.place)?.items.remove(index as usize);
    Ok(Value::Empty)
}

pub fn len(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    Ok(Value::Number(count(run, call)? as f64))
}

pub fn reverse(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let mut items = items(run, call)?;
    items.reverse();
    made(run, call, items)
}

pub fn shallow_clone(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let items = items(run, call)?;
    made(run, call, items)
}

/// Items with a separator between them, put together by `+`.
pub fn join(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let mut sum = Value::Empty;
    for (at, item) in items(run, call)?.into_iter().enumerate() {
        if at > 0 {
            sum = run.binary(call.place, Binary::Add, sum, call.argument(0))?;
        }
        // The first item is taken as it is, so that one array stays an array.
        sum = run.binary(call.place, Binary::Add, sum, item)?;
    }
    Ok(sum)
}

/// A function argument; anything else cannot be called.
fn function(run: &Interpreter<'_>, call: &Call<'_>) -> Result<Value, Flow> {
    match call.argument(0) {
        function @ (Value::Function(_) | Value::Builtin(_)) => Ok(function),
        other => Err(no_object(run, call, other)),
    }
}

/// Calls a function of a file; its `this` are the globals. Where an answer of yes or no is wanted,
/// it must be a number or a boolean: text that is no number is refused.
fn apply(
    run: &mut Interpreter<'_>,
    call: &Call<'_>,
    function: Value,
    arguments: &[Value],
) -> Outcome {
    let globals = Value::Namespace(run.roots.globals);
    run.call(function, globals, arguments, call.place)
}

pub fn map(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let function = function(run, call)?;
    let mut out = Vec::new();
    for item in items(run, call)? {
        out.push(apply(run, call, function, &[item])?);
    }
    made(run, call, out)
}

pub fn filter(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let function = function(run, call)?;
    let mut out = Vec::new();
    for item in items(run, call)? {
        let keep = apply(run, call, function, &[item])?;
        if number(run, call, keep)? != 0.0 {
            out.push(item);
        }
    }
    made(run, call, out)
}

/// Whether an item is found for which the function's truth is `wanted`.
fn any_is(run: &mut Interpreter<'_>, call: &Call<'_>, wanted: bool) -> Result<bool, Flow> {
    let function = function(run, call)?;
    for item in items(run, call)? {
        let value = apply(run, call, function, &[item])?;
        if (number(run, call, value)? != 0.0) == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

pub fn any(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    any_is(run, call, true).map(Value::Boolean)
}

pub fn all(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    any_is(run, call, false).map(|found| Value::Boolean(!found))
}

pub fn reduce(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let function = function(run, call)?;
    let mut items = items(run, call)?.into_iter();
    let Some(mut sum) = items.next() else { return Ok(Value::Empty) };
    for item in items {
        sum = apply(run, call, function, &[sum, item])?;
    }
    Ok(sum)
}

/// Merges sorted halves: `less` may be any function, even one that contradicts itself or fails.
fn merge_sort(
    run: &mut Interpreter<'_>,
    items: Vec<Value>,
    less: &mut dyn FnMut(&mut Interpreter<'_>, Value, Value) -> Result<bool, Flow>,
) -> Result<Vec<Value>, Flow> {
    if items.len() < 2 {
        return Ok(items);
    }
    let mut left = items;
    let right = left.split_off(left.len() / 2);
    let left = merge_sort(run, left, less)?;
    let right = merge_sort(run, right, less)?;
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek().copied(), right.peek().copied()) {
        let second = less(run, b, a)?;
        out.extend(if second { right.next() } else { left.next() });
    }
    out.extend(left.chain(right));
    Ok(out)
}

/// Sorted by `<`.
pub(super) fn sorted(
    run: &mut Interpreter<'_>,
    call: &Call<'_>,
    items: Vec<Value>,
) -> Result<Vec<Value>, Flow> {
    merge_sort(run, items, &mut |run, a, b| is_less(run, call, a, b))
}

pub(super) fn is_less(
    run: &mut Interpreter<'_>,
    call: &Call<'_>,
    a: Value,
    b: Value,
) -> Result<bool, Flow> {
    let less = ops::compare(&run.heap, run.types, Binary::Less, a, b);
    less.map_err(|message| call.fail(message))
}

pub fn sort(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let items = items(run, call)?;
    let out = match call.arguments.is_empty() {
        true => sorted(run, call, items)?,
        false => {
            let function = function(run, call)?;
            merge_sort(run, items, &mut |run, a, b| {
                let value = apply(run, call, function, &[a, b])?;
                Ok(number(run, call, value)? != 0.0)
            })?
        }
    };
    made(run, call, out)
}

/// Sorted, without those that equal the one before.
pub(super) fn distinct(
    run: &mut Interpreter<'_>,
    call: &Call<'_>,
    items: Vec<Value>,
) -> Result<Vec<Value>, Flow> {
    let mut items = sorted(run, call, items)?;
    items.dedup_by(|a, b| ops::equal(&run.heap, *a, *b));
    Ok(items)
}

pub fn unique(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let items = items(run, call)?;
    let out = distinct(run, call, items)?;
    made(run, call, out)
}
