//! Tests of rules: what a file expects of what the rules make.
//!
//! A test is a file of rules that is evaluated after all others, so that it can have containers of its
//! own. Once all is made its expectations are asked: functions that see the unit files as `units`,
//! by path, and all objects. Start at [`run`].

use super::{BOUNDS, Loaded, Message, Session};
use crate::engine::Options;
use crate::eval::Interpreter;
use crate::eval::{Expectation, Scope};
use crate::made::Product;
use crate::ops;
use crate::outside::Outside;
use crate::source::{Place, Source};
use crate::value::{Table, Value};

/// What became of an expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it is called.
    pub name: String,
    /// What is wrong; nothing if it holds.
    pub wrong: Option<Message>,
}

/// What came of a test.
#[derive(Debug)]
pub struct Tested {
    /// The expectations, in their order.
    pub verdicts: Vec<Verdict>,
    /// Faults that nobody expected, and warnings.
    pub messages: Vec<Message>,
}

/// Loads rules with a test among them and asks what it expects.
pub fn run(
    root: Source,
    outside: Box<dyn Outside + '_>,
    options: &Options<'_>,
    directory: &str,
) -> Tested {
    let options = Options { tests: true, ..*options };
    let (session, Loaded { messages, .. }) =
        Session::load_whole(root, outside, &options, directory);
    let is_error = |message: &&Message| message.severity == crate::Severity::Error;
    let faults: Vec<&Message> = messages.iter().filter(is_error).collect();
    let expected = &session.world.expected;
    let verdicts: Vec<Verdict> = match faults.is_empty() {
        true => session.ask(options, expected),
        false => expected.iter().map(|one| session.of_fault(one, &faults)).collect(),
    };
    let is_expected = |message: &Message| {
        let mut names = expected.iter().filter(|one| one.check.is_none()).map(|one| &one.name);
        names.any(|name| message.message.contains(name.as_str()))
    };
    let messages = messages.iter().filter(|message| !is_expected(message)).cloned().collect();
    Tested { verdicts, messages }
}

impl Session {
    /// What is expected of rules that have faults: these.
    fn of_fault(&self, expected: &Expectation, faults: &[&Message]) -> Verdict {
        let name = expected.name.clone();
        let is_there = || faults.iter().any(|fault| fault.message.contains(&name));
        let wrong = match expected.check {
            None if is_there() => None,
            None => Some("the rules have faults, but none with this message"),
            Some(_) => Some("the rules have faults, so they make no units"),
        };
        let wrong = wrong.map(|what| self.wrong(expected, what));
        Verdict { name, wrong }
    }

    fn wrong(&self, expected: &Expectation, what: &str) -> Message {
        let message = format!("{}: {what}", expected.name);
        Message::of(&crate::Diagnostic::error(expected.place, message), &self.modules)
    }

    /// What is expected of rules without faults.
    fn ask(&self, options: Options<'_>, expected: &[Expectation]) -> Vec<Verdict> {
        let scope =
            Scope { types: &self.types, modules: &self.modules, bounds: BOUNDS, stage: None };
        let outside = Box::new(crate::outside::Nothing { now: options.now });
        let mut run = Interpreter::over(&self.world, &scope, outside);
        let this = self.units_of(&mut run);
        run.hold(this);
        let one = |expected: &Expectation| {
            let name = expected.name.clone();
            let Some(check) = expected.check else {
                let wrong = Some(self.wrong(expected, "the rules have no fault with this message"));
                return Verdict { name, wrong };
            };
            run.count_anew();
            let wrong = match run.call(check, this, &[], expected.place) {
                Ok(value) if ops::is_true(&run.heap, value) => None,
                Ok(value) => {
                    let shown = crate::text::json(&run.heap, &self.types, value);
                    let shown = String::from_utf8_lossy(&shown).into_owned();
                    Some(self.wrong(expected, &format!("this is {shown}, not true")))
                }
                Err(crate::eval::Flow::Fail(fault)) => {
                    Some(Message::of(&fault.diagnostic(), &self.modules))
                }
                Err(_) => Some(self.wrong(expected, "it has no value")),
            };
            Verdict { name, wrong }
        };
        expected.iter().map(one).collect()
    }

    /// `{ units = { path = { Setting = text or texts } } }`.
    fn units_of(&self, run: &mut Interpreter<'_>) -> Value {
        let mut units = Table::default();
        for (path, product) in &self.products {
            let mut settings = Table::default();
            for (name, value) in lines(path, product) {
                let key = run.heap.intern(name.as_bytes());
                let value = run.heap.string(value.as_bytes());
                let value = match settings.get(key) {
                    None => value,
                    Some(Value::Array(id)) => {
                        let mut items = run.heap.array(id).items.clone();
                        items.push(value);
                        run.heap.array_of(items, Place::NOWHERE)
                    }
                    Some(first) => run.heap.array_of(vec![first, value], Place::NOWHERE),
                };
                settings.set(key, value);
            }
            let settings = run.heap.dictionary_of(settings, Place::NOWHERE);
            units.set(run.heap.intern(path.as_bytes()), settings);
        }
        let units = run.heap.dictionary_of(units, Place::NOWHERE);
        let name = run.heap.intern(b"units");
        run.heap.dictionary_of(Table::from_iter([(name, units)]), Place::NOWHERE)
    }
}

/// The settings of a unit file, in their order.
fn lines(path: &str, product: &Product) -> Vec<(String, String)> {
    let Some(unit_type) = Product::unit_type(path) else { return Vec::new() };
    let text = product.file.print(unit_type);
    let setting = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    text.lines().filter_map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::Nothing;

    const RULES: &str = "const Tiers = { gold = \"4G\" }\n\
        apply Slice \"slice\" to Container {\n  var memory = Tiers[container.vars.tier]\n  \
        if (!memory) { throw \"there is no tier \" + container.vars.tier }\n  \
        MemoryMax = memory\n  Before = [ \"a.service\", \"b.service\" ]\n  \
        assign where container.vars.tier\n}\n";

    /// `name`, or `name: what is wrong`, then unexpected faults.
    #[track_caller]
    fn check(test: &str, expected: &[&str]) {
        let root = Source::new("t.test", format!("{RULES}{test}").as_bytes());
        let tested = run(root, Box::new(Nothing::default()), &Options::default(), "/f");
        let verdict = |verdict: &Verdict| match &verdict.wrong {
            None => verdict.name.clone(),
            Some(wrong) => format!("! {}", wrong.message),
        };
        let errors = tested.messages.iter().filter(|m| m.severity == crate::Severity::Error);
        let errors = errors.map(|message| format!("error: {}", message.message));
        let found: Vec<String> = tested.verdicts.iter().map(verdict).chain(errors).collect();
        assert_eq!(found, expected, "{test}");
    }

    #[test]
    fn expectations_hold_or_say_what_is_there() {
        check(
            "object Container \"shop\" { vars.tier = \"gold\" }\n\
             expect(\"gold gets 4G\", () => units[\"shop-slice.slice\"].MemoryMax == \"4G\")\n\
             expect(\"two are after it\", () => len(units[\"shop-slice.slice\"].Before) == 2)\n\
             expect(\"objects are seen\", () => get_object(Container, \"shop\").vars.tier == \"gold\")\n\
             expect(\"no other\", () => !units[\"x.slice\"])\n\
             expect(\"wrong\", () => units[\"shop-slice.slice\"].MemoryMax)\n\
             expect(\"false\", () => units[\"nope.slice\"].MemoryMax)\n\
             expect(\"fault\", () => nope)",
            &[
                "gold gets 4G",
                "two are after it",
                "objects are seen",
                "no other",
                "wrong",
                "! false: this is null, not true",
                "! Tried to access undefined script variable 'nope'",
            ],
        );
    }

    #[test]
    fn faults_can_be_expected() {
        let bad = "object Container \"shop\" { vars.tier = \"golden\" }\n";
        let fault = "expect_fault(\"there is no tier golden\")\n";
        check(&format!("{bad}{fault}"), &["there is no tier golden"]);
        check(fault, &["! there is no tier golden: the rules have no fault with this message"]);
        check(
            &format!("{bad}expect_fault(\"no tier silver\")\nexpect(\"x\", () => true)"),
            &[
                "! no tier silver: the rules have faults, but none with this message",
                "! x: the rules have faults, so they make no units",
                "error: there is no tier golden",
            ],
        );
    }

    #[test]
    fn rules_in_force_expect_nothing() {
        let root = Source::new("a.conf", b"expect(\"x\", () => true)");
        let loaded = Session::load(root, Box::new(Nothing::default()), &Options::default(), "/f");
        assert!(loaded.messages[0].message.contains("*.test"), "{:?}", loaded.messages);
    }
}
