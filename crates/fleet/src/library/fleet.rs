//! Functions that only rules for units have: inventories, and texts for unit files.

use super::call::{Call, bytes};
use crate::ast::IncludeKind;
use crate::eval::{Expectation, Interpreter, Outcome};
use crate::outside::{Data, Include};
use crate::source::Place;
use crate::value::Value;

/// How deep the values of an inventory may be nested.
const DEPTH_MAX: usize = 100;

/// `inventory("shops.yaml")`: what a file says, from beside the file with the call.
pub fn inventory(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    if !run.defines {
        return Err(
            call.fail("an inventory can only be read at the top level: keep it in a constant")
        );
    }
    let path = super::words(run, call.argument(0));
    let from = run.modules.get(call.place.file).map(|module| module.source.path.to_string());
    let (kind, from) = (IncludeKind::Relative, from.unwrap_or_default());
    let include = Include { kind, from, path, pattern: None };
    let data = run.outside.data(&include).map_err(|message| call.fail(message))?;
    value(run, data, call.place, DEPTH_MAX).map_err(|message| call.fail(message))
}

fn value(
    run: &mut Interpreter<'_>,
    data: Data,
    place: Place,
    depth: usize,
) -> Result<Value, &'static str> {
    let Some(depth) = depth.checked_sub(1) else { return Err("values are nested too deeply") };
    Ok(match data {
        Data::Null => Value::Empty,
        Data::Boolean(value) => Value::Boolean(value),
        Data::Number(value) => Value::Number(value),
        Data::Text(text) => run.heap.string(text.as_bytes()),
        Data::List(items) => {
            let items: Result<Vec<Value>, _> =
                items.into_iter().map(|item| value(run, item, place, depth)).collect();
            run.heap.array_of(items?, place)
        }
        Data::Table(items) => {
            let entry = |(key, item): (String, Data)| {
                let item = value(run, item, place, depth)?;
                Ok((run.heap.intern(key.as_bytes()), item))
            };
            let items: Result<_, &'static str> = items.into_iter().map(entry).collect();
            run.heap.dictionary_of(items?, place)
        }
    })
}

/// `expect("what it is about", () => ...)`: a test that is run once all is made.
pub fn expect(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    match call.argument(1) {
        check @ Value::Function(_) => note(run, call, Some(check)),
        _ => Err(call.fail("an expectation takes a function: () => ...")),
    }
}

/// `expect_fault("part of the message")`: the rules must have this fault.
pub fn expect_fault(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    note(run, call, None)
}

fn note(run: &mut Interpreter<'_>, call: &Call<'_>, check: Option<Value>) -> Outcome {
    let name = super::words(run, call.argument(0));
    let expectation = Expectation { name, check, place: call.place };
    match &mut run.expected {
        Some(expected) => {
            expected.push(expectation);
            Ok(Value::Empty)
        }
        None => {
            Err(call.fail("expectations can only stand in a *.test file, for `warren fleet test`"))
        }
    }
}

/// `unit_text(x)`: a text that stands for itself where specifiers are replaced
/// (systemd.unit(5), "Specifiers").
pub fn unit_text(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let text = plain(run, call)?;
    Ok(run.heap.string(text.replace('%', "%%").as_bytes()))
}

/// `unit_word(x)`: one word of a setting that takes several, as `Environment=`
/// (systemd.syntax(7), "Quoting").
pub fn unit_word(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let word = warren_unit::value::quoted(&plain(run, call)?);
    Ok(run.heap.string(word.as_bytes()))
}

/// `unit_argument(x)`: one argument of a command line (systemd.service(5), "Command lines"): a word
/// in which `$` names no variable.
pub fn unit_argument(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let word = warren_unit::value::quoted(&plain(run, call)?.replace('$', "$$"));
    Ok(run.heap.string(word.as_bytes()))
}

/// The argument as a text that a unit file can have.
fn plain(run: &Interpreter<'_>, call: &Call<'_>) -> Result<String, crate::eval::Flow> {
    if matches!(call.argument(0), Value::Array(_) | Value::Dictionary(_) | Value::Empty) {
        let of_type = run.type_of(call.argument(0));
        return Err(
            call.fail(format!("only a string can be quoted, not a value of type '{of_type}'"))
        );
    }
    let text = String::from_utf8(bytes(run, call.argument(0)));
    let text = text.map_err(|_| call.fail("the string is not UTF-8"))?;
    match text.contains('\0') {
        true => Err(call.fail("a unit file cannot contain a NUL byte")),
        false => Ok(text),
    }
}
