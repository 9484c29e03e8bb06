//! Texts evaluated one after another, by themselves or over a loaded configuration.

use std::borrow::Cow;

use crate::diagnostic::Diagnostic;
use crate::eval::{Fault, Interpreter};
use crate::heap::Heap;
use crate::library;
use crate::modules::Modules;
use crate::outside::{Facts, Outside};
use crate::session::{Message, Session};
use crate::source::{Place, Source};
use crate::text;
use crate::types::Types;
use crate::value::{Dictionary, DictionaryId, Table, Value};

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
    run.bounds.steps = steps_max;
    let value = run.run_source(source);
    let value = value.map(|value| shown(&mut run, value));
    Answer { value, warnings: run.warnings }
}

/// JSON of a value; of an object what was set of it, and its type.
fn shown(run: &mut Interpreter<'_>, value: Value) -> String {
    let value = match value {
        Value::Object(id) => {
            let object = run.heap.object(id);
            let (of_type, mut all) = (object.of_type, object.attributes.clone());
            all.set(run.roots.kind, run.roots.type_names[of_type.0 as usize]);
            run.heap.dictionary_of(all, Place::default())
        }
        value => value,
    };
    String::from_utf8_lossy(&text::json(&run.heap, run.types, value)).into_owned()
}

/// Evaluates one text after another over a configuration, which stays as it is. Variables that a
/// text sets are there for the next.
pub struct Console<'s> {
    run: Interpreter<'s>,
    modules: &'s Modules,
    this: Value,
    locals: DictionaryId,
    texts: usize,
}

impl<'s> Console<'s> {
    /// Over a session. `steps_max` bounds each text.
    pub fn over(
        session: &'s Session,
        outside: Box<dyn Outside + 's>,
        facts: &'s dyn Facts,
        steps_max: u64,
    ) -> Self {
        let mut run = session.interpreter(outside);
        (run.facts, run.bounds.steps) = (facts, steps_max);
        let this = run.heap.dictionary_of(Table::default(), Place::default());
        let locals = run.heap.make_dictionary(Dictionary::default());
        Console { run, modules: &session.modules, this, locals, texts: 0 }
    }

    /// JSON of the last statement's value.
    ///
    /// # Errors
    /// The fault that ended the evaluation.
    pub fn evaluate(&mut self, text: &str) -> Result<String, Box<Message>> {
        self.texts += 1;
        self.run.count_anew();
        let source = Source::new(&format!("<{}>", self.texts), text.as_bytes());
        match self.run.run_text(source, self.this, self.locals) {
            Ok(value) => Ok(shown(&mut self.run, value)),
            Err(fault) => Err(Box::new(Message::of(&fault.diagnostic(), self.modules))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Options;
    use crate::outside::{NoFacts, Nothing};

    #[test]
    fn texts_see_the_configuration_and_those_before() {
        let text = "const Limit = 3\nobject Container \"shop\" { vars.tier = \"gold\" }";
        let root = Source::new("f.conf", text.as_bytes());
        let nothing = || Box::new(Nothing::default());
        let loaded = Session::load(root, nothing(), &Options::default(), "/f");
        let session = loaded.session.expect("no faults");
        let mut console = Console::over(&session, nothing(), &NoFacts, 10_000);
        let mut check = |text: &str, expected: Result<&str, &str>| {
            let found = console.evaluate(text);
            let found = found.as_deref().map_err(|message| message.message.as_str());
            assert_eq!(found, expected, "{text}");
        };
        check("Limit + 1", Ok("4"));
        check("var a = 2; b = 5", Ok("null"));
        check("a * b", Ok("10"));
        check("get_object(Container, \"shop\").vars.tier", Ok("\"gold\""));
        let shop = "{\"name\":\"shop\",\"type\":\"Container\",\"vars\":{\"tier\":\"gold\"}}";
        check("get_object(Container, \"shop\")", Ok(shop));
        let time = "{\"counter\":false,\"crit\":null,\"label\":\"time\",\"max\":null,\"min\":null,\
                    \"type\":\"PerfdataValue\",\"unit\":\"seconds\",\"value\":0.5,\"warn\":null}";
        check("parse_performance_data(\"'time'=500ms;;;\")", Ok(time));
        check("1 +", Err("expected an expression, found the end of the file"));
        check("Limit = 4", Err("this namespace is frozen and cannot be changed"));
        check("function f(x) { return x + 1 }; f(1)", Ok("2"));
        for _ in 0..2 {
            check(
                "while (true) { }",
                Err("evaluation stopped after 10000 steps, the most that are allowed"),
            );
            let copies = "var all = range(1000); while (true) { all.shallow_clone() }";
            check(copies, Err("evaluation stopped after 10000 steps, the most that are allowed"));
            check("Limit + 1", Ok("4"));
        }
    }
}
