//! What functions of the library are given, and what they read from it.

use crate::eval::{Fault, Flow, Interpreter, Outcome};
use crate::ops;
use crate::source::Place;
use crate::text;
use crate::value::Value;

/// A call of a function of the library.
pub struct Call<'c> {
    /// What the method is called on.
    pub this: Value,
    /// The arguments.
    pub arguments: &'c [Value],
    /// The call.
    pub place: Place,
}

impl Call<'_> {
    /// An argument; null if it was not given.
    pub(super) fn argument(&self, index: usize) -> Value {
        self.arguments.get(index).copied().unwrap_or(Value::Empty)
    }

    /// An argument, if it was given.
    pub(super) fn given(&self, index: usize) -> Option<Value> {
        self.arguments.get(index).copied()
    }

    pub(super) fn fail(&self, message: impl Into<String>) -> Flow {
        Fault::at(self.place, message).into()
    }
}

/// A function of the library.
pub struct Builtin {
    /// `System#len`: the namespace or type, and the name.
    pub name: &'static str,
    /// The least number of arguments.
    pub least: usize,
    /// The greatest number of arguments.
    pub most: usize,
    /// Whether equal arguments have equal results and nothing else happens.
    pub pure: bool,
    /// What it does.
    pub run: for<'p> fn(&mut Interpreter<'p>, &Call<'_>) -> Outcome,
}

impl Builtin {
    pub(super) fn scope_and_name(&self) -> (&'static str, &'static str) {
        self.name.split_once('#').unwrap_or(("System", self.name))
    }
}

pub(super) fn bytes(run: &Interpreter<'_>, value: Value) -> Vec<u8> {
    text::string(&run.heap, run.types, value)
}

pub(super) fn words(run: &Interpreter<'_>, value: Value) -> String {
    String::from_utf8_lossy(&bytes(run, value)).into_owned()
}

pub(super) fn number(run: &Interpreter<'_>, call: &Call<'_>, value: Value) -> Result<f64, Flow> {
    ops::to_number(&run.heap, run.types, value).map_err(|message| call.fail(message))
}

/// The array that an argument must be.
pub(super) fn array_of(
    run: &Interpreter<'_>,
    call: &Call<'_>,
    value: Value,
) -> Result<Option<crate::value::ArrayId>, Flow> {
    match value {
        Value::Array(id) => Ok(Some(id)),
        Value::Empty => Ok(None),
        other => Err(no_object(run, call, other)),
    }
}

pub(super) fn no_object(run: &Interpreter<'_>, call: &Call<'_>, value: Value) -> Flow {
    let of_type = run.type_of(value);
    call.fail(format!("Cannot convert value of type '{of_type}' to an object."))
}
