//! What operators do with values, and which values they refuse.
//!
//! The rules are those of the installed program, found by experiment; its messages are kept so
//! that users find them. Start at [`binary`].

use crate::ast::Binary;
use crate::heap::Heap;
use crate::source::Place;
use crate::text;
use crate::types::Types;
use crate::value::{StringId, Table, Value};

/// What a failing operation says.
pub type Refused = String;

/// What operators need besides their operands.
pub struct Ops<'o, 'b> {
    /// Where results are made.
    pub heap: &'o mut Heap<'b>,
    /// The types, for messages.
    pub types: &'o Types,
    /// Where the operator is written: the origin of new arrays and dictionaries.
    pub place: Place,
}

/// Whether a value counts as true.
pub fn is_true(heap: &Heap<'_>, value: Value) -> bool {
    match value {
        Value::Empty => false,
        Value::Boolean(value) => value,
        Value::Number(value) => value != 0.0,
        Value::String(id) => !heap.bytes(id).is_empty(),
        Value::Array(id) => !heap.array(id).items.is_empty(),
        Value::Dictionary(id) => !heap.dictionary(id).items.is_empty(),
        _ => true,
    }
}

/// How many items one comparison may look at: arrays can contain themselves.
const COMPARED_ITEMS_MAX: usize = 1 << 20;

/// How deep arrays are compared.
const COMPARED_DEPTH_MAX: usize = 200;

/// `a == b`. Numbers and booleans are one kind, null is the empty string, arrays are compared
/// item by item, everything else is itself only. Arrays too large or too deeply nested to be compared are
/// not equal.
pub fn equal(heap: &Heap<'_>, a: Value, b: Value) -> bool {
    let mut budget = COMPARED_ITEMS_MAX;
    equal_within(heap, a, b, &mut budget, 0)
}

fn equal_within(heap: &Heap<'_>, a: Value, b: Value, budget: &mut usize, depth: usize) -> bool {
    use Value::{
        Array, Boolean, Builtin, DateTime, Dictionary, Empty, Function, Namespace, Number,
    };
    match (a, b) {
        (Empty, Empty) => true,
        (Empty, Value::String(text)) | (Value::String(text), Empty) => heap.bytes(text).is_empty(),
        (Value::String(a), Value::String(b)) => a == b,
        (Number(_) | Boolean(_), Number(_) | Boolean(_)) => as_number(a) == as_number(b),
        (Array(a), Array(b)) if a == b && !holds_no_number(heap, a) => true,
        (Array(a), Array(b)) => {
            let (a, b) = (&heap.array(a).items, &heap.array(b).items);
            *budget = budget.saturating_sub(a.len());
            let fits = *budget > 0 && depth < COMPARED_DEPTH_MAX;
            let mut same = |(a, b): (&Value, &Value)| equal_within(heap, *a, *b, budget, depth + 1);
            fits && a.len() == b.len() && a.iter().zip(b).all(&mut same)
        }
        (Dictionary(a), Dictionary(b)) | (Namespace(a), Namespace(b)) => a == b,
        (Function(a), Function(b)) => a == b,
        (Builtin(a), Builtin(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Object(a), Value::Object(b)) => a == b,
        (Value::Reference(a), Value::Reference(b)) => a == b,
        (DateTime(a), DateTime(b)) => a == b,
        _ => false,
    }
}

/// Whether an array has an item that is not equal to itself, or an array that might.
fn holds_no_number(heap: &Heap<'_>, id: crate::value::ArrayId) -> bool {
    let odd = |item: &Value| match item {
        Value::Number(value) => value.is_nan(),
        Value::Array(_) => true,
        _ => false,
    };
    heap.array(id).items.iter().any(odd)
}

fn as_number(value: Value) -> Option<f64> {
    match value {
        Value::Empty => Some(0.0),
        Value::Number(value) => Some(value),
        Value::Boolean(value) => Some(f64::from(u8::from(value))),
        _ => None,
    }
}

/// Whether a value counts as nothing: null and the empty text.
pub fn is_empty(heap: &Heap<'_>, value: Value) -> bool {
    match value {
        Value::Empty => true,
        Value::String(id) => heap.bytes(id).is_empty(),
        _ => false,
    }
}

/// Numbers where at most one of two is null or the empty text, which count as 0; `+` and `-` do
/// not take the empty text for a number.
fn numbers_of(heap: &Heap<'_>, a: Value, b: Value) -> Option<(f64, f64)> {
    match (a, b) {
        (Value::Number(a), b) if is_empty(heap, b) => Some((a, 0.0)),
        (a, Value::Number(b)) if is_empty(heap, a) => Some((0.0, b)),
        (a, b) => numbers(a, b),
    }
}

/// Numbers where at most one of two is null, which counts as 0.
fn numbers(a: Value, b: Value) -> Option<(f64, f64)> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Some((a, b)),
        (Value::Number(a), Value::Empty) => Some((a, 0.0)),
        (Value::Empty, Value::Number(b)) => Some((0.0, b)),
        _ => None,
    }
}

/// A number as a 32-bit one: what does not fit becomes the least.
fn integer(value: f64) -> i32 {
    let whole = value.trunc();
    match whole >= f64::from(i32::MIN) && whole <= f64::from(i32::MAX) {
        true => whole as i32,
        false => i32::MIN,
    }
}

/// Both operands' value.
pub fn binary(
    ops: &mut Ops<'_, '_>,
    operator: Binary,
    a: Value,
    b: Value,
) -> Result<Value, Refused> {
    match operator {
        Binary::Add => add(ops, a, b),
        Binary::Subtract => subtract(ops, a, b),
        Binary::Multiply => {
            let (x, y) = numbers_of(ops.heap, a, b).ok_or_else(|| refuse(ops, operator, a, b))?;
            Ok(Value::Number(x * y))
        }
        Binary::Divide | Binary::Modulo => divide(ops, operator, a, b),
        Binary::ShiftLeft
        | Binary::ShiftRight
        | Binary::BitAnd
        | Binary::BitXor
        | Binary::BitOr => bits(ops, operator, a, b),
        Binary::Equal => Ok(Value::Boolean(equal(ops.heap, a, b))),
        Binary::NotEqual => Ok(Value::Boolean(!equal(ops.heap, a, b))),
        Binary::In => contains(ops.heap, ops.types, a, b).map(Value::Boolean),
        Binary::NotIn => contains(ops.heap, ops.types, a, b).map(|found| Value::Boolean(!found)),
        Binary::Less | Binary::Greater | Binary::LessEqual | Binary::GreaterEqual => {
            compare(ops.heap, ops.types, operator, a, b).map(Value::Boolean)
        }
    }
}

fn refuse(ops: &Ops<'_, '_>, operator: Binary, a: Value, b: Value) -> Refused {
    refused(ops.heap, ops.types, operator, a, b)
}

fn refused(heap: &Heap<'_>, types: &Types, operator: Binary, a: Value, b: Value) -> Refused {
    let (a, b) = (types.name_of(heap, a), types.name_of(heap, b));
    format!("Operator {} cannot be applied to values of type '{a}' and '{b}'", operator.text())
}

/// The longest text that is made, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// What is said of a longer one.
pub const TOO_LONG: &str = "the string gets too long";

/// The longest array that `+` makes.
const ARRAY_ITEMS_MAX: usize = 1 << 22;

fn add(ops: &mut Ops<'_, '_>, a: Value, b: Value) -> Result<Value, Refused> {
    use Value::{Array, DateTime, Dictionary, Empty, Number};
    if let Some((a, b)) = numbers(a, b) {
        return Ok(Number(a + b));
    }
    let (a, b) = beside_container(ops.heap, a, b);
    match (a, b) {
        (Value::String(_), Value::String(_) | Number(_) | Empty)
        | (Number(_) | Empty, Value::String(_)) => {
            let mut bytes = text::string(ops.heap, ops.types, a);
            bytes.extend(text::string(ops.heap, ops.types, b));
            match bytes.len() <= TEXT_BYTES_MAX {
                true => Ok(ops.heap.string(&bytes)),
                false => Err(TOO_LONG.to_owned()),
            }
        }
        (DateTime(at), Number(seconds)) => Ok(DateTime(at + seconds)),
        (Array(_), Array(_) | Empty) | (Empty, Array(_)) => {
            let items = [items(ops.heap, a), items(ops.heap, b)].concat();
            if items.len() > ARRAY_ITEMS_MAX {
                return Err("the array gets too long".to_owned());
            }
            Ok(ops.heap.array_of(items, ops.place))
        }
        (Dictionary(_), Dictionary(_) | Empty) | (Empty, Dictionary(_)) => {
            let mut merged = entries(ops.heap, a);
            entries(ops.heap, b).iter().for_each(|(key, value)| merged.set(key, value));
            Ok(ops.heap.dictionary_of(merged, ops.place))
        }
        _ => Err(refuse(ops, Binary::Add, a, b)),
    }
}

/// Beside an array or a dictionary, the empty text is null.
fn beside_container(heap: &Heap<'_>, a: Value, b: Value) -> (Value, Value) {
    let is_container = |value| matches!(value, Value::Array(_) | Value::Dictionary(_));
    match (a, b) {
        (a, b) if is_container(a) && is_empty(heap, b) => (a, Value::Empty),
        (a, b) if is_container(b) && is_empty(heap, a) => (Value::Empty, b),
        pair => pair,
    }
}

/// An array's items; none of null.
fn items(heap: &Heap<'_>, value: Value) -> Vec<Value> {
    match value {
        Value::Array(id) => heap.array(id).items.clone(),
        _ => Vec::new(),
    }
}

fn entries(heap: &Heap<'_>, value: Value) -> Table {
    match value {
        Value::Dictionary(id) => heap.dictionary(id).items.clone(),
        _ => Table::default(),
    }
}

fn subtract(ops: &mut Ops<'_, '_>, a: Value, b: Value) -> Result<Value, Refused> {
    use Value::{Array, DateTime, Empty, Number};
    if let Some((a, b)) = numbers(a, b) {
        return Ok(Number(a - b));
    }
    // The installed program crashes of an array less null; the empty text before one is null.
    let a = if is_empty(ops.heap, a) { Empty } else { a };
    match (a, b) {
        (DateTime(a), DateTime(b)) => Ok(Number(a - b)),
        (DateTime(at), Number(seconds)) => Ok(DateTime(at - seconds)),
        (Array(_) | Empty, Array(_)) | (Array(_), Empty) => {
            let without = items(ops.heap, b);
            let keep = |item: &Value| !without.iter().any(|other| equal(ops.heap, *item, *other));
            let rest: Vec<Value> = items(ops.heap, a).into_iter().filter(keep).collect();
            Ok(ops.heap.array_of(rest, ops.place))
        }
        _ => Err(refuse(ops, Binary::Subtract, a, b)),
    }
}

fn divide(ops: &Ops<'_, '_>, operator: Binary, a: Value, b: Value) -> Result<Value, Refused> {
    let sign = operator.text();
    match b {
        b if is_empty(ops.heap, b) => {
            Err(format!("Right-hand side argument for operator {sign} is Empty."))
        }
        Value::Number(0.0) if operator == Binary::Modulo => {
            Err(format!("Right-hand side argument for operator {sign} is 0."))
        }
        _ => {
            let (x, y) = numbers_of(ops.heap, a, b).ok_or_else(|| refuse(ops, operator, a, b))?;
            let zero = || format!("Right-hand side argument for operator {sign} is 0.");
            match operator {
                Binary::Modulo => modulo(x, y).ok_or_else(zero),
                _ if y == 0.0 => Err(zero()),
                _ => Ok(Value::Number(x / y)),
            }
        }
    }
}

/// The rest of a division of whole numbers; none by what is 0 without its fraction.
fn modulo(a: f64, b: f64) -> Option<Value> {
    let (a, b) = (integer(a), integer(b));
    (b != 0).then(|| Value::Number(f64::from(a.wrapping_rem(b))))
}

fn bits(ops: &Ops<'_, '_>, operator: Binary, a: Value, b: Value) -> Result<Value, Refused> {
    let (x, y) = numbers_of(ops.heap, a, b).ok_or_else(|| refuse(ops, operator, a, b))?;
    let (x, y) = (integer(x), integer(y));
    let value = match operator {
        Binary::ShiftLeft => x.wrapping_shl(y as u32),
        Binary::ShiftRight => x.wrapping_shr(y as u32),
        Binary::BitAnd => x & y,
        Binary::BitXor => x ^ y,
        _ => x | y,
    };
    Ok(Value::Number(f64::from(value)))
}

/// `a in b`.
pub fn contains(heap: &Heap<'_>, types: &Types, a: Value, b: Value) -> Result<bool, Refused> {
    match b {
        Value::Empty => Ok(false),
        Value::String(id) if heap.bytes(id).is_empty() => Ok(false),
        Value::Array(id) => Ok(heap.array(id).items.iter().any(|item| equal(heap, a, *item))),
        other => {
            let shown = text::json(heap, types, other);
            Err(format!(
                "Invalid right side argument for 'in' operator: {}",
                String::from_utf8_lossy(&shown)
            ))
        }
    }
}

/// `<`, `>`, `<=`, `>=`.
pub fn compare(
    heap: &Heap<'_>,
    types: &Types,
    operator: Binary,
    a: Value,
    b: Value,
) -> Result<bool, Refused> {
    compare_within(
        heap,
        types,
        operator,
        (a, b),
        &mut Budget { items: COMPARED_ITEMS_MAX, depth: 0 },
    )
}

/// What a comparison may still do.
struct Budget {
    items: usize,
    depth: usize,
}

fn compare_within(
    heap: &Heap<'_>,
    types: &Types,
    operator: Binary,
    (a, b): (Value, Value),
    budget: &mut Budget,
) -> Result<bool, Refused> {
    use std::cmp::Ordering;
    let order = match (a, b) {
        (Value::String(a), Value::String(b)) => Some(heap.bytes(a).cmp(heap.bytes(b))),
        (Value::DateTime(a), Value::DateTime(b)) => a.partial_cmp(&b),
        (Value::Array(x), Value::Array(y)) => match operator {
            Binary::Less | Binary::Greater => {
                budget.depth += 1;
                let less = arrays(heap, types, operator, (x, y), budget);
                budget.depth -= 1;
                return less;
            }
            _ => return Err(refused(heap, types, operator, a, b)),
        },
        _ => match numbers_of(heap, a, b) {
            Some((a, b)) => a.partial_cmp(&b),
            None => return Err(refused(heap, types, operator, a, b)),
        },
    };
    Ok(match operator {
        Binary::Less => order == Some(Ordering::Less),
        Binary::Greater => order == Some(Ordering::Greater),
        Binary::LessEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

/// The first items that differ decide; an item that is not there counts as null.
fn arrays(
    heap: &Heap<'_>,
    types: &Types,
    operator: Binary,
    (a, b): (crate::value::ArrayId, crate::value::ArrayId),
    budget: &mut Budget,
) -> Result<bool, Refused> {
    let (x, y) = (&heap.array(a).items, &heap.array(b).items);
    let opposite = if operator == Binary::Less { Binary::Greater } else { Binary::Less };
    let item = |items: &[Value], at: usize| items.get(at).copied().unwrap_or(Value::Empty);
    for at in 0..x.len().max(y.len()) {
        let pair = (item(x, at), item(y, at));
        budget.items = budget.items.saturating_sub(1);
        if budget.items == 0 || budget.depth > COMPARED_DEPTH_MAX {
            return Err("the arrays are too large or too deeply nested to be compared".to_owned());
        }
        if compare_within(heap, types, operator, pair, budget)? {
            return Ok(true);
        }
        if compare_within(heap, types, opposite, pair, budget)? {
            return Ok(false);
        }
    }
    Ok(false)
}

/// A value as a number, for functions that want one.
pub fn to_number(heap: &Heap<'_>, types: &Types, value: Value) -> Result<f64, Refused> {
    if let Some(number) = as_number(value) {
        return Ok(number);
    }
    let bytes = text::string(heap, types, value);
    let shown = String::from_utf8_lossy(&bytes);
    parse_number(&bytes)
        .ok_or_else(|| format!("Can't convert '{shown}' to a floating point number."))
}

/// A text that is a number in whole: no space, no hexadecimal digits, none too great to be told
/// from infinity; the empty one is 0.
pub(crate) fn parse_number(bytes: &[u8]) -> Option<f64> {
    let allowed = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    match std::str::from_utf8(bytes).ok()? {
        "" => Some(0.0),
        text if bytes.iter().all(allowed) => text.parse().ok().filter(|n: &f64| n.is_finite()),
        text => {
            let number = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
            // What has no digits is the name of a number that is none, or has no end.
            matches!(number.as_str(), "inf" | "infinity" | "nan").then(|| text.parse().ok())?
        }
    }
}

/// A value as a whole number, for keys of arrays that are written to.
pub fn to_integer(heap: &Heap<'_>, types: &Types, value: Value) -> Result<i64, Refused> {
    let bytes = text::string(heap, types, value);
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        format!("Can't convert '{}' to an integer.", String::from_utf8_lossy(&bytes))
    })
}

/// A value as a key.
pub fn to_key(heap: &mut Heap<'_>, types: &Types, value: Value) -> StringId {
    match value {
        Value::String(id) => id,
        value => {
            let bytes = text::string(heap, types, value);
            heap.intern(&bytes)
        }
    }
}
