//! Global functions, and methods that all values have.

use super::call::{Call, array_of, bytes, no_object, number as to_number, words};
use super::{array, cidr, glob as pattern, regex};
use crate::ast::{self, NodeId};
use crate::eval::{Flow, Interpreter, Outcome};
use crate::ops;
use crate::source::{FileId, Place};
use crate::text;
use crate::value::{TypeId, Value};

pub fn assert(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    match ops::is_true(&run.heap, call.argument(0)) {
        true => Ok(Value::Empty),
        false => Err(call.fail("Assertion failed")),
    }
}

pub fn basename(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let path = bytes(run, call.argument(0));
    let all_slashes = !path.is_empty() && path.iter().all(|byte| *byte == b'/');
    let name = match path.rsplit(|byte| *byte == b'/').next() {
        _ if all_slashes => b"/",
        Some(b"") if !path.is_empty() => b".".as_slice(),
        name => name.unwrap_or_default(),
    };
    let name = name.to_vec();
    Ok(run.heap.string(&name))
}

pub fn dirname(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let path = bytes(run, call.argument(0));
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let directory = match &path[..end] {
        [] if path.len() > 1 && path.first() == Some(&b'/') => b"/".to_vec(),
        directory => directory.to_vec(),
    };
    Ok(run.heap.string(&directory))
}

pub fn bool(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    Ok(Value::Boolean(ops::is_true(&run.heap, call.argument(0))))
}

pub fn number(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    to_number(run, call, call.argument(0)).map(Value::Number)
}

pub fn string(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let text = bytes(run, call.argument(0));
    Ok(run.heap.string(&text))
}

pub fn to_string(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let text = bytes(run, call.this);
    Ok(run.heap.string(&text))
}

pub fn type_of(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    Ok(Value::Type(run.types.of(&run.heap, call.argument(0))))
}

pub fn len(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let length = match call.argument(0) {
        Value::String(id) => run.heap.bytes(id).len(),
        Value::Array(id) => run.heap.array(id).items.len(),
        Value::Dictionary(id) => run.heap.dictionary(id).items.len(),
        _ => 0,
    };
    Ok(Value::Number(length as f64))
}

/// Keys of a dictionary; null, arrays and other values with members have none.
pub fn keys(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let sorted = match call.argument(0) {
        Value::Dictionary(id) | Value::Namespace(id) => run.heap.sorted(id),
        other @ (Value::Number(_) | Value::Boolean(_) | Value::String(_)) => {
            return Err(no_object(run, call, other));
        }
        _ => Vec::new(),
    };
    let keys = sorted.into_iter().map(|(key, _)| Value::String(key)).collect();
    Ok(run.heap.array_of(keys, call.place))
}

pub fn escape_shell_arg(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let mut out = vec![b'\''];
    for byte in bytes(run, call.argument(0)) {
        match byte {
            b'\'' => out.extend_from_slice(b"'\\''"),
            byte => out.push(byte),
        }
    }
    out.push(b'\'');
    Ok(run.heap.string(&out))
}

/// What a shell gives a meaning gets a backslash; quotes only where they have no partner.
pub fn escape_shell_cmd(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    const META: &[u8] = b"#&;`|*?~<>^()[]{}$\\\n\xff";
    let text = bytes(run, call.argument(0));
    let (mut out, mut quote) = (Vec::new(), None);
    for (at, byte) in text.iter().enumerate() {
        let is_quote = matches!(byte, b'"' | b'\'');
        let closes = quote == Some(*byte);
        let opens = is_quote && quote.is_none() && text[at + 1..].contains(byte);
        match byte {
            _ if closes => quote = None,
            _ if opens => quote = Some(*byte),
            _ if is_quote || META.contains(byte) => out.push(b'\\'),
            _ => {}
        }
        out.push(*byte);
    }
    Ok(run.heap.string(&out))
}

// Matching.

/// How many texts of an array must match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    All,
    Any,
}

/// How `match`, `regex` and `cidr_match` treat arrays. A number that is no mode is one by which
/// nothing matches.
struct Subject {
    texts: Vec<Vec<u8>>,
    mode: Option<Mode>,
}

/// The texts to look at: one, or those of an array with a mode.
fn subject(
    run: &Interpreter<'_>,
    call: &Call<'_>,
    name: &str,
    what: &str,
) -> Result<Subject, Flow> {
    if call.arguments.len() < 2 {
        return Err(call.fail(format!("Pattern and {what} must be specified for {name}().")));
    }
    let mode = call.given(2).map_or(Ok(0.0), |mode| to_number(run, call, mode))?;
    let texts = match call.argument(1) {
        Value::Array(id) => run.heap.array(id).items.iter().map(|item| bytes(run, *item)).collect(),
        one @ (Value::Empty | Value::Boolean(_) | Value::Number(_) | Value::String(_)) => {
            // One text has no mode.
            return Ok(Subject { texts: vec![bytes(run, one)], mode: Some(Mode::All) });
        }
        _ => return Err(call.fail(format!("Dictionaries are not supported by {name}()."))),
    };
    let mode = match mode {
        0.0 => Some(Mode::All),
        1.0 => Some(Mode::Any),
        _ => None,
    };
    Ok(Subject { texts, mode })
}

impl Subject {
    /// An empty array matches nothing; neither does any, where the mode is none.
    fn matches(&self, mut test: impl FnMut(&[u8]) -> Result<bool, Flow>) -> Outcome {
        for text in &self.texts {
            match (test(text)?, self.mode) {
                (true, Some(Mode::Any)) => return Ok(Value::Boolean(true)),
                (false, Some(Mode::All)) => return Ok(Value::Boolean(false)),
                _ => {}
            }
        }
        Ok(Value::Boolean(self.mode == Some(Mode::All) && !self.texts.is_empty()))
    }
}

pub fn glob_match(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let subject = subject(run, call, "match", "text")?;
    let pattern = bytes(run, call.argument(0));
    subject.matches(|text| Ok(pattern::matches(&pattern, text)))
}

pub fn regex_match(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let subject = subject(run, call, "regex", "text")?;
    let regex = regex::Regex::new(&bytes(run, call.argument(0)));
    let regex = regex.map_err(|error| call.fail(error.to_string()))?;
    subject.matches(|text| regex.find(text).map_err(|error| call.fail(error.to_string())))
}

pub fn cidr_match(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let subject = subject(run, call, "cidr_match", "IP address")?;
    if subject.texts.is_empty() {
        return Ok(Value::Boolean(false));
    }
    let network = cidr::Network::parse(&bytes(run, call.argument(0)));
    let network = network.map_err(|message| call.fail(message))?;
    subject.matches(|text| Ok(network.contains(text)))
}

// Arrays.

/// The most numbers that `range` makes.
const RANGE_ITEMS_MAX: usize = 1 << 20;

pub fn range(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let mut numbers = Vec::new();
    for value in call.arguments {
        numbers.push(to_number(run, call, *value)?);
    }
    let (start, end, step) = match numbers[..] {
        [end] => (0.0, end, 1.0),
        [start, end] => (start, end, 1.0),
        [start, end, step] => (start, end, step),
        _ => return Err(call.fail("Invalid number of arguments for range()")),
    };
    let runs_out = |at: f64| if step < 0.0 { at <= end } else { at >= end };
    let (mut out, mut at) = (Vec::new(), start);
    while step != 0.0 && !runs_out(at) && !at.is_nan() {
        if out.len() >= RANGE_ITEMS_MAX || at + step == at {
            return Err(call.fail("the range has too many numbers"));
        }
        out.push(Value::Number(at));
        at += step;
    }
    Ok(run.heap.array_of(out, call.place))
}

pub fn union(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let mut all = Vec::new();
    for value in call.arguments {
        if let Some(id) = array_of(run, call, *value)? {
            all.extend_from_slice(&run.heap.array(id).items);
        }
    }
    let out = array::distinct(run, call, all)?;
    Ok(run.heap.array_of(out, call.place))
}

/// What all arrays have, as often as the one that has it least often.
pub fn intersection(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let mut common: Option<Vec<Value>> = None;
    for value in call.arguments {
        let Some(id) = array_of(run, call, *value)? else {
            common = Some(Vec::new());
            break;
        };
        let items = run.heap.array(id).items.clone();
        let items = array::sorted(run, call, items)?;
        common = Some(match common {
            None => items,
            Some(before) => shared(run, call, &before, &items)?,
        });
    }
    let common = common.filter(|_| call.arguments.len() > 1).unwrap_or_default();
    Ok(run.heap.array_of(common, call.place))
}

/// What is in both of two sorted arrays, as often as in the one that has it less often.
fn shared(
    run: &mut Interpreter<'_>,
    call: &Call<'_>,
    mut a: &[Value],
    mut b: &[Value],
) -> Result<Vec<Value>, Flow> {
    let mut out = Vec::new();
    while let ([first, rest_a @ ..], [other, rest_b @ ..]) = (a, b) {
        if array::is_less(run, call, *first, *other)? {
            a = rest_a;
        } else if array::is_less(run, call, *other, *first)? {
            b = rest_b;
        } else {
            out.push(*first);
            (a, b) = (rest_a, rest_b);
        }
    }
    Ok(out)
}

/// How deep a value may be nested to be copied.
const CLONE_DEPTH_MAX: usize = 200;

/// How many items one copy may have.
const CLONE_ITEMS_MAX: usize = 1 << 20;

pub fn clone(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    match call.this {
        Value::Array(_) | Value::Dictionary(_) | Value::Function(_) | Value::Builtin(_) => {}
        _ => return Err(call.fail("values of this type cannot be cloned")),
    }
    let mut budget = CLONE_ITEMS_MAX;
    copy(run, call, call.this, 0, &mut budget)
}

fn copy(
    run: &mut Interpreter<'_>,
    call: &Call<'_>,
    value: Value,
    depth: usize,
    budget: &mut usize,
) -> Outcome {
    *budget = budget.saturating_sub(1);
    if depth > CLONE_DEPTH_MAX || *budget == 0 {
        return Err(call
            .fail("the value is too large or too deeply nested to be copied, or contains itself"));
    }
    match value {
        Value::Array(id) => {
            let items = run.heap.array(id).items.clone();
            let items: Result<Vec<Value>, Flow> =
                items.into_iter().map(|item| copy(run, call, item, depth + 1, budget)).collect();
            Ok(run.heap.array_of(items?, call.place))
        }
        Value::Dictionary(id) => {
            let mut items = run.heap.dictionary(id).items.clone();
            let before: Vec<_> = items.iter().collect();
            for (key, item) in before {
                items.set(key, copy(run, call, item, depth + 1, budget)?);
            }
            Ok(run.heap.dictionary_of(items, call.place))
        }
        Value::Namespace(_) | Value::DateTime(_) | Value::Type(_) | Value::Reference(_) => {
            Err(call.fail("values of this type cannot be cloned"))
        }
        other => Ok(other),
    }
}

// Functions and references.

pub fn call(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    run.call(call.this, call.argument(0), &call.arguments[1..], call.place)
}

pub fn callv(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let arguments = match array_of(run, call, call.argument(1))? {
        Some(id) => run.heap.array(id).items.clone(),
        None => Vec::new(),
    };
    run.call(call.this, call.argument(0), &arguments, call.place)
}

fn reference(run: &Interpreter<'_>, call: &Call<'_>) -> Result<crate::value::Reference, Flow> {
    match call.this {
        Value::Reference(id) => Ok(*run.heap.reference(id)),
        other => Err(no_object(run, call, other)),
    }
}

pub fn reference_get(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let reference = reference(run, call)?;
    run.field(reference.base, reference.key, call.place)
}

pub fn reference_set(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let reference = reference(run, call)?;
    run.set_field(reference.base, reference.key, call.argument(0), call.place)?;
    Ok(Value::Empty)
}

// The world.

pub fn get_time(run: &mut Interpreter<'_>, _call: &Call<'_>) -> Outcome {
    Ok(Value::Number(run.outside.now()))
}

pub fn getenv(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let value = run.facts.variable(&words(run, call.argument(0)));
    Ok(run.heap.string(value.unwrap_or_default().as_bytes()))
}

pub fn path_exists(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    Ok(Value::Boolean(run.facts.path_exists(&words(run, call.argument(0)))))
}

/// Bits of `GlobFile` and `GlobDirectory`; both if none is given.
fn glob_kinds(run: &Interpreter<'_>, call: &Call<'_>, at: usize) -> Result<(bool, bool), Flow> {
    let bits = call.given(at).map_or(Ok(3.0), |value| to_number(run, call, value))? as i64;
    Ok((bits & 1 != 0, bits & 2 != 0))
}

fn paths(run: &mut Interpreter<'_>, paths: Vec<String>, place: Place) -> Outcome {
    let paths = paths.iter().map(|path| run.heap.string(path.as_bytes())).collect();
    Ok(run.heap.array_of(paths, place))
}

pub fn glob(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let (files, directories) = glob_kinds(run, call, 1)?;
    let pattern = words(run, call.argument(0));
    let found = run.facts.glob(&pattern, None, files, directories);
    paths(run, found, call.place)
}

pub fn glob_recursive(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let (files, directories) = glob_kinds(run, call, 2)?;
    let (below, pattern) = (words(run, call.argument(0)), words(run, call.argument(1)));
    let found = run.facts.glob(&pattern, Some(&below), files, directories);
    paths(run, found, call.place)
}

/// `log(value)` or `log(severity, facility, value)`; arrays and dictionaries are shown as JSON.
pub fn log(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let (severity, facility, value) = match call.arguments {
        [severity, facility, value] => {
            (to_number(run, call, *severity)? as u8, words(run, *facility), *value)
        }
        [value] => (2, "config".to_owned(), *value),
        _ => return Err(call.fail("Invalid number of arguments for log()")),
    };
    let line = match value {
        Value::Array(_) | Value::Dictionary(_) => text::json(&run.heap, run.types, value),
        value => text::string(&run.heap, run.types, value),
    };
    run.outside.log(severity, &facility, &line);
    Ok(Value::Empty)
}

/// The greatest number of `random()`.
pub(super) const RANDOM_MAX: f64 = 2_147_483_647.0;

pub(super) fn next_random(run: &mut Interpreter<'_>) -> f64 {
    run.random = run.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (run.random >> 33) as f64
}

/// The same numbers in every run: what is made must not depend on luck.
pub fn random(run: &mut Interpreter<'_>, _call: &Call<'_>) -> Outcome {
    Ok(Value::Number(next_random(run)))
}

pub fn format_time(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let Value::DateTime(at) = call.this else { return Err(no_object(run, call, call.this)) };
    let text = crate::time::format(at, &words(run, call.argument(0)));
    Ok(run.heap.string(text.as_bytes()))
}

/// A type given as itself or by name.
fn type_argument(run: &Interpreter<'_>, value: Value) -> Option<TypeId> {
    match value {
        Value::Type(id) => Some(id),
        Value::String(id) => run.types.find(run.heap.bytes(id)),
        _ => None,
    }
}

/// An object of an earlier stage; null if there is none.
pub fn get_object(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let name = ops::to_key(&mut run.heap, run.types, call.argument(1));
    let found = match type_argument(run, call.argument(0)) {
        Some(of_type) => run.look_up(of_type, name, call.place)?,
        None => None,
    };
    Ok(found.map_or(Value::Empty, Value::Object))
}

/// All objects of a type of an earlier stage, by name.
pub fn get_objects(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let of_type = given_type(run, call)?;
    if run.types.get(of_type).rules.is_none() {
        return Err(call.fail("Invalid type: there are no objects of it"));
    }
    let objects = run.look_up_all(of_type, call.place)?;
    let objects = objects.into_iter().map(Value::Object).collect();
    Ok(run.heap.array_of(objects, call.place))
}

/// A dictionary of a few members.
fn members_of(run: &mut Interpreter<'_>, members: &[(&str, Value)], place: Place) -> Value {
    let members = members.iter().map(|(name, value)| (run.heap.intern(name.as_bytes()), *value));
    let members = members.collect();
    run.heap.dictionary_of(members, place)
}

/// What a template says of itself: its name, its type and where it is.
fn template(run: &mut Interpreter<'_>, at: u32, place: Place) -> Value {
    let definition = run.definitions.template(at);
    let (of_type, name) = (definition.of_type, definition.name);
    let (file, node) = (definition.file, definition.node);
    let location = location(run, (file, node), place);
    let members = [
        ("location", location),
        ("name", Value::String(name)),
        ("type", run.roots.type_names[of_type.0 as usize]),
    ];
    members_of(run, &members, place)
}

/// The first and the last character of a definition, without its body.
fn location(run: &mut Interpreter<'_>, (file, node): (FileId, NodeId), place: Place) -> Value {
    let Some(module) = run.modules.get(file) else { return Value::Empty };
    let ast::Kind::Definition(definition) = &module.node(node).kind else { return Value::Empty };
    let [line, column, last_line, last_column] = module.source.extent(definition.extent);
    let number = |number: u32| Value::Number(f64::from(number));
    let path = run.heap.string(module.source.path.as_bytes());
    let members = [
        ("first_column", number(column)),
        ("first_line", number(line)),
        ("last_column", number(last_column)),
        ("last_line", number(last_line)),
        ("path", path),
    ];
    members_of(run, &members, place)
}

/// The type that an argument must be.
fn given_type(run: &Interpreter<'_>, call: &Call<'_>) -> Result<TypeId, Flow> {
    match call.argument(0) {
        Value::Type(id) => Ok(id),
        Value::Empty => Err(call.fail("Invalid type: Must not be null")),
        other => Err(no_object(run, call, other)),
    }
}

/// A template that was met; null if there is none.
pub fn get_template(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let of_type = type_argument(run, call.argument(0));
    let name = ops::to_key(&mut run.heap, run.types, call.argument(1));
    let found = of_type.and_then(|of_type| run.definitions.find_template(of_type, name));
    Ok(found.map_or(Value::Empty, |at| template(run, at, call.place)))
}

/// All templates of a type that were met, by name.
pub fn get_templates(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let of_type = given_type(run, call)?;
    let mut found = run.definitions.templates_of(of_type);
    let name = |at: &u32| run.heap.bytes(run.definitions.template(*at).name);
    found.sort_by(|a, b| name(a).cmp(name(b)));
    let found = found.into_iter().map(|at| template(run, at, call.place)).collect();
    Ok(run.heap.array_of(found, call.place))
}

/// Nothing waits while rules are evaluated: what they make does not depend on the time it takes.
pub fn sleep(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    to_number(run, call, call.argument(0)).map(|_| Value::Empty)
}

/// What only Windows has is the empty text elsewhere.
pub fn nothing(run: &mut Interpreter<'_>, _call: &Call<'_>) -> Outcome {
    Ok(run.heap.string(b""))
}
