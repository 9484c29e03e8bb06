//! One text evaluated by itself: what a console and tests need.

use std::borrow::Cow;

use crate::diagnostic::Diagnostic;
use crate::eval::{Fault, Interpreter};
use crate::heap::Heap;
use crate::library;
use crate::modules::Modules;
use crate::outside::Outside;
use crate::source::Source;
use crate::text;
use crate::types::Types;

/// What a text came to.
#[derive(Clone, Debug)]
pub struct Answer {
    /// JSON of the last statement's value, or the fault that ended the evaluation.
    pub value: Result<String, Box<Fault>>,
    /// What was worth a warning.
    pub warnings: Vec<Diagnostic>,
}

/// Evaluates a text's statements; `steps_max` bounds how long that takes.
pub fn evaluate(
    source: Source,
    types: &Types,
    modules: &Modules,
    outside: Box<dyn Outside + '_>,
    steps_max: u64,
) -> Answer {
    let mut heap = Heap::default();
    let roots = library::install(&mut heap, types, &[]);
    let mut run = Interpreter::new(heap, types, modules, Cow::Owned(roots), outside);
    run.steps_max = steps_max;
    let value = run.run_file(source, None);
    let value = value.map(|value| {
        String::from_utf8_lossy(&text::json(&run.heap, run.types, value)).into_owned()
    });
    Answer { value, warnings: run.warnings }
}
