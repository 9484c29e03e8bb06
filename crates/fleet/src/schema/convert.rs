//! What becomes of a value that is assigned to an attribute, where a type converts.

use crate::eval::Interpreter;
use crate::ops;
use crate::text;
use crate::types::{Field, Kind, Unset};
use crate::value::{ObjectId, Value};

/// The value that an attribute has after an assignment of another.
///
/// # Errors
/// In words: the attribute cannot take it.
pub(crate) fn convert(
    run: &mut Interpreter<'_>,
    object: ObjectId,
    field: &Field,
    value: Value,
) -> Result<Value, String> {
    use Value::{Array, Boolean, Builtin, Dictionary, Empty, Function, Number};
    match (field.kind, value) {
        (Kind::Text | Kind::Name(_), value) => Ok(as_text(run, object, field, value)),
        (Kind::Number | Kind::Integer, Empty) => Ok(Number(0.0)),
        (Kind::Integer, value) => {
            ops::to_number(&run.heap, run.types, value).map(|number| Number(whole(number)))
        }
        (Kind::Number, value) => ops::to_number(&run.heap, run.types, value).map(Number),
        (Kind::Boolean, Empty) => Ok(Boolean(false)),
        (Kind::Boolean, value) => {
            ops::to_number(&run.heap, run.types, value).map(|number| Boolean(number != 0.0))
        }
        (Kind::Array | Kind::Names(_), Empty | Array(_))
        | (Kind::Dictionary, Empty | Dictionary(_))
        | (Kind::Function, Empty | Function(_) | Builtin(_))
        | (Kind::Any | Kind::ReadOnly | Kind::Setting(_), _) => Ok(value),
        (kind, value) => Err(refused(run, kind, value, &field.name)),
    }
}

/// A number as the installed program keeps whole ones, in 32 bits; those beyond are the least of them.
fn whole(number: f64) -> f64 {
    match number.trunc() {
        fits if (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&fits) => fits,
        _ => f64::from(i32::MIN),
    }
}

/// Everything is a text; none where the object's name is meant is that name.
fn as_text(run: &mut Interpreter<'_>, object: ObjectId, field: &Field, value: Value) -> Value {
    let text = match value {
        Value::String(text) => text,
        value => {
            let bytes = text::string(&run.heap, run.types, value);
            run.heap.intern(&bytes)
        }
    };
    match field.unset {
        Unset::ItsName if run.heap.bytes(text).is_empty() => {
            Value::String(run.heap.object(object).name)
        }
        _ => Value::String(text),
    }
}

fn refused(run: &Interpreter<'_>, kind: Kind, value: Value, name: &str) -> String {
    let found = run.type_of(value);
    let is_plain = matches!(value, Value::String(_) | Value::Number(_) | Value::Boolean(_));
    match kind {
        _ if is_plain => format!("Cannot convert value of type '{found}' to an object."),
        kind => {
            let expected = match kind {
                Kind::Dictionary => "Dictionary",
                Kind::Function => "Function",
                _ => "Array",
            };
            format!(
                "Attribute '{name}' cannot be set to value of type '{found}', expected '{expected}'"
            )
        }
    }
}
