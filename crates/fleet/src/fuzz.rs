//! What a fuzzer calls: everything that reads text, with the properties that must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_fleet::fuzz::file(data));` is a whole target.

use crate::ast::{Definition, Kind, Module};
use crate::diagnostic;
use crate::dump;
use crate::engine::{Matching, Options, load};
use crate::eval::Bounds;
use crate::heap::UNREACHED_BYTES;
use crate::modules::Modules;
use crate::outside::Nothing;
use crate::schema::warrener;
use crate::source::{FileId, Source, Span};
use crate::types::Types;
use crate::{format, parse};

/// Parses bytes as a file and formats it.
///
/// # Panics
/// If a token covers what another one does, or formatting changes the tree or is not stable.
pub fn file(data: &[u8]) {
    let (module, faults) = parse(FileId(0), Source::new("fuzz", data));
    tokens_are_lossless(&module);
    if !faults.is_empty() {
        return;
    }
    let laid_out = format::format(&module);
    let (again, faults) = parse(FileId(0), Source::new("again", &laid_out));
    let shown = String::from_utf8_lossy(&laid_out);
    assert!(faults.is_empty(), "what we print has no faults: {faults:?} in {shown:?}");
    assert!(kinds(&module).eq(kinds(&again)), "formatting keeps the tree: {shown:?}");
    assert_eq!(module.atoms, again.atoms, "formatting keeps names and strings");
    let twice = format::format(&again);
    assert_eq!(shown, String::from_utf8_lossy(&twice), "formatting is stable");
}

/// Loads bytes as a configuration, in every way of matching and with several threads.
///
/// # Panics
/// If the ways differ in what they make or in what they say is wrong.
pub fn configuration(data: &[u8]) {
    let loaded = |matching, threads, goes_on, unreached_bytes| {
        let (types, modules) = (Types::new(warrener::types()), Modules::default());
        let bounds = Bounds { steps: STEPS_MAX, unreached_bytes, ..Bounds::default() };
        let options = Options { matching, threads, bounds, goes_on, ..Options::default() };
        let outside = Box::new(Nothing::default());
        let fleet = load(Source::new("fuzz", data), &types, &modules, outside, &options);
        let sources = |file| modules.source(file);
        let faults = fleet.faults.iter().map(|fault| diagnostic::render(fault, &sources));
        let faults: String = faults.collect();
        match faults.is_empty() {
            true => dump::objects(&fleet.world, &types, Default::default(), &|place| {
                format!("{place:?}")
            }),
            false => faults,
        }
    };
    let shown = |matching, threads| loaded(matching, threads, false, UNREACHED_BYTES);
    let naive = shown(Matching::Naive, 1);
    // What stands beside a fault may be half of something.
    loaded(Matching::Indexed, 1, true, UNREACHED_BYTES);
    let collected = loaded(Matching::Indexed, 1, false, 0);
    assert_eq!(naive, collected, "what is given back was reached by nobody");
    assert_eq!(naive, shown(Matching::Indexed, 2), "indexes change nothing");
    assert_eq!(naive, shown(Matching::Scan, 1), "compiled filters change nothing");
}

/// How many steps a made-up configuration may take; so few that no bound of time is needed.
const STEPS_MAX: u64 = 20_000;

/// The nodes without their places.
fn kinds(module: &Module) -> impl Iterator<Item = Kind> {
    module.nodes.iter().map(|node| match node.kind.clone() {
        Kind::Definition(definition) => {
            let (head, extent) = (Span::default(), Span::default());
            Kind::Definition(Box::new(Definition { head, extent, ..*definition }))
        }
        kind => kind,
    })
}

/// Between tokens there are spaces only, and no token overlaps another.
fn tokens_are_lossless(module: &Module) {
    let mut at = 0;
    for token in &module.tokens {
        let gap = &module.source.text[at..token.span.start as usize];
        assert!(gap.iter().all(|byte| b" \t\r".contains(byte)), "lost: {gap:?}");
        at = token.span.end as usize;
    }
    assert_eq!(at, module.source.text.len(), "the last token ends the file");
}

/// A fixed sequence of numbers that looks random.
#[cfg(test)]
pub(crate) struct Numbers(pub u64);

#[cfg(test)]
impl Numbers {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }

    pub(crate) fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: &[&str] = &[
        "a",
        "b.c",
        "x",
        "1",
        "2.5m",
        "\"s\"",
        "{{{ h }}}",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "{{",
        "}}",
        " = ",
        " += ",
        " => ",
        "+",
        "-",
        "*",
        "&",
        "&&",
        "||",
        "!",
        "~",
        "==",
        "<",
        "<<",
        " in ",
        " !in ",
        "?",
        ":",
        ",",
        ";",
        "\n",
        "\n\n",
        " ",
        "// c\n",
        "/* d */",
        "# e\n",
        "if (a) {",
        "} else {",
        "for (k => v in a) {",
        "while (a) {",
        "function f(a) {",
        "function(a) {",
        "object Host \"h\" {",
        "apply Service \"s\" for (v in a) to Host {",
        "assign where ",
        "template T \"t\" default {",
        "import \"t\"",
        "var q",
        "const C = 1",
        "return",
        "throw a",
        "try {",
        "} except {",
        "use(a)",
        "namespace N {",
        "using N",
        "include \"x\"",
        "include <y>",
        "this",
        "null",
        "globals",
        "@if",
        ".",
        "\u{e9}",
        "\"",
        "\\",
        "\t",
    ];

    #[test]
    fn made_up_texts_do_no_harm() {
        let mut numbers = Numbers(11);
        for _ in 0..4000 {
            let pieces = numbers.below(30);
            let text: String = (0..pieces).map(|_| numbers.pick(PIECES)).collect();
            file(text.as_bytes());
        }
    }

    /// What would run away without a bound.
    const RUNAWAYS: &[&str] = &[
        "var a = [ 1 ]; for (i in range(40)) { a = [ a, a ] }; globals.x = string(a).len()",
        "var a = [ 1 ]; for (i in range(40)) { a = [ a, a ] }; globals.y = a.clone()",
        "globals.s = \"x\"; while (true) { s += s }",
        "globals.s = [ 1 ]; while (true) { s += s }",
        "globals.s = \"xxxx\"; while (true) { s = s.replace(\"x\", s) }",
        "globals.o = range(0, 1, 0.0000000001)",
        "apply Path \"q\" to Container { assign where regex(\"(x+)+y\", \"xxxxxxxxxxxxxxxxxxxxxxxxxxxx\") }",
        "object Container \"c\" { var a = [ 1 ]; for (i in range(40)) { a = [ a, a ] }; vars.a = a }",
    ];

    const STATEMENTS: &[&str] = &[
        "var a = []; a.add(a); var b = a == a",
        "var a = []; for (i in range(2000)) { a = [ a ] }; globals.deep = a",
        "var a = []; a.add(a); globals.z = a < [ a ]",
        "while (true) { }",
        "function f(n) { f(n + 1) }; f(1)",
        "object Container \"c\" { vars.x = 1; vars.y = this }",
        "object Container \"d\" { var a = []; a.add(a); vars.a = a }",
        "object Container \"e\" { var a = []; for (i in range(500)) { a = [ a ] }; vars.a = a }",
        "object Container \"f\" { vars.f = (x => x); vars.r = &vars.f; vars.n = name }",
        "object Container \"g\" { name = \"h\"; vars.l = [ 1, null, \"x\", {} ] }",
        "object Group \"all\" { assign where container.name }",
        "apply Service \"s\" to Container { ExecStart = container.vars.x; assign where true }",
        "apply Service \"t-\" for (v in container.vars.l) to Container { assign where v }",
        "apply Timer \"u-\" for (k => v in container.vars) to Container { vars.v = v }",
        "apply Path \"p\" to Container { assign where container.vars.l[1] || container.vars.q.r.s }",
        "template Container \"base\" default { import \"base\" }",
        "template Service \"loop\" { import \"loop\" }",
        "namespace N { a = 1; function g() { a } }; globals.q = N.g()",
        "const C = { a = 1 }; object Container \"k\" { C.a = 2 }",
        "throw \"x\"",
        "globals.b = DateTime(1e0).format(\"%Y\")",
        "globals.n = 5 / 0",
        "globals.m = DateTime(1000000000000000000000).to_string() + DateTime(2016, 99999, -5).to_string()",
        "globals.p = Json.decode(\"[[[[\" + string(range(99)))",
        "include \"nothing\"",
    ];

    #[test]
    fn made_up_configurations_do_no_harm() {
        for statement in STATEMENTS.iter().chain(RUNAWAYS) {
            configuration(statement.as_bytes());
        }
        let mut numbers = Numbers(2);
        for _ in 0..100 {
            let count = numbers.below(7);
            let lines: Vec<&str> = (0..count).map(|_| numbers.pick(STATEMENTS)).collect();
            configuration(lines.join("\n").as_bytes());
        }
    }

    #[test]
    fn made_up_bytes_do_no_harm() {
        let mut numbers = Numbers(5);
        for length in 0..600 {
            let alphabet = b"a1\"\\{}()[]<>=!&|+-*/#\n ,;.:?~^%@\xc3\xa9\0x";
            let bytes: Vec<u8> =
                (0..length % 60).map(|_| alphabet[numbers.below(alphabet.len())]).collect();
            file(&bytes);
        }
    }

    #[test]
    fn every_prefix_of_a_text_does_no_harm() {
        let text = include_str!("../tests/data/sample.conf");
        (0..=text.len()).for_each(|end| file(&text.as_bytes()[..end]));
    }
}
