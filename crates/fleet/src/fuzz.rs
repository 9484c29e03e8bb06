//! What a fuzzer calls: everything that reads text, with the properties that must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_fleet::fuzz::file(data));` is a whole target.

use crate::ast::{Definition, Kind, Module};
use crate::source::{FileId, Source, Span};
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

/// The nodes without their places.
fn kinds(module: &Module) -> impl Iterator<Item = Kind> {
    module.nodes.iter().map(|node| match node.kind.clone() {
        Kind::Definition(definition) => {
            Kind::Definition(Box::new(Definition { head: Span::default(), ..*definition }))
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
