//! The formatter: the same tokens and comments, laid out one way.
//!
//! Line breaks stay where they were (at most one empty line in a row), indentation and spaces are
//! made anew. It works on tokens, so no comment can be lost; formatting twice changes nothing.

use crate::ast::Module;
use crate::token::{Keyword, Token, TokenKind};

/// How many spaces an open bracket indents the lines in it.
const INDENT_SPACES: usize = 2;

/// The text of a file laid out. The file must have parsed without faults: a text that is not
/// understood is better left alone.
pub fn format(module: &Module) -> Vec<u8> {
    let mut layout =
        Layout { module, out: Vec::new(), open: Vec::new(), last: None, lines: 0, indent: 0 };
    for token in &module.tokens {
        match token.kind {
            TokenKind::Newline => layout.lines += 1,
            TokenKind::End => layout.end(),
            _ => layout.token(token),
        }
    }
    layout.out
}

/// An open bracket.
#[derive(Clone, Copy)]
struct Bracket {
    kind: TokenKind,
    /// An array or a dictionary has spaces inside of its brackets, an index has none.
    spaced: bool,
    /// How far the line it is in is indented; brackets of one line indent once.
    indent: usize,
}

struct Layout<'m> {
    module: &'m Module,
    out: Vec<u8>,
    open: Vec<Bracket>,
    last: Option<Last>,
    /// Line ends since the last token.
    lines: usize,
    /// How far the current line is indented, in levels.
    indent: usize,
}

/// What must be known of the token before.
#[derive(Clone, Copy)]
struct Last {
    kind: TokenKind,
    /// Whether an operand ends with it, so that a sign after it takes two operands.
    ends_operand: bool,
    /// Whether nothing is to be between it and its operand.
    tight: bool,
}

impl Layout<'_> {
    fn text(&self, token: &Token) -> &[u8] {
        let text = &self.module.source.text[token.span.start as usize..token.span.end as usize];
        match token.kind {
            // A line comment keeps no spaces at its end.
            TokenKind::Comment if !text.starts_with(b"/*") => text.trim_ascii_end(),
            _ => text,
        }
    }

    fn token(&mut self, token: &Token) {
        let closing = self.closes(token.kind);
        let operand_before = self.last.is_some_and(|last| last.ends_operand);
        self.space_before(token.kind, closing);
        let text = self.text(token).to_vec();
        self.out.extend_from_slice(&text);
        self.opens(token.kind, operand_before);
        if token.kind == TokenKind::Comment {
            // What an operator meant does not depend on comments.
            let last = self.last.map(|last| Last { tight: false, ..last });
            let none = Last { kind: token.kind, ends_operand: false, tight: false };
            self.last = Some(Last { kind: token.kind, ..last.unwrap_or(none) });
            return;
        }
        let tight = is_sign_of_one(token.kind) && !operand_before
            || matches!(token.kind, TokenKind::Dot | TokenKind::Not | TokenKind::Tilde);
        self.last = Some(Last { kind: token.kind, ends_operand: ends_operand(token.kind), tight });
    }

    /// The bracket that a token closes. The two braces of `}}` close one each.
    fn closes(&mut self, kind: TokenKind) -> Option<Bracket> {
        match kind {
            TokenKind::Close | TokenKind::CloseBracket | TokenKind::CloseBrace => self.open.pop(),
            _ => None,
        }
    }

    fn opens(&mut self, kind: TokenKind, operand_before: bool) {
        let spaced = match kind {
            TokenKind::OpenBracket => !operand_before,
            TokenKind::Open => false,
            TokenKind::OpenBrace => true,
            TokenKind::OpenLambda => {
                let outer = Bracket { kind, spaced: false, indent: self.indent };
                self.open.push(outer);
                true
            }
            _ => return,
        };
        self.open.push(Bracket { kind, spaced, indent: self.indent });
    }

    fn space_before(&mut self, kind: TokenKind, closing: Option<Bracket>) {
        let Some(last) = self.last else { return self.lines = 0 };
        let lines = std::mem::take(&mut self.lines);
        if lines > 0 && !self.is_second_of_lambda(closing) {
            let tight = is_opening(last.kind) || closing.is_some();
            self.out.extend(std::iter::repeat_n(b'\n', if tight { 1 } else { lines.min(2) }));
            self.indent = match (closing, self.open.last()) {
                (Some(closed), _) => closed.indent,
                (None, Some(open)) => open.indent + 1,
                (None, None) => 0,
            };
            self.out.extend(std::iter::repeat_n(b' ', self.indent * INDENT_SPACES));
        } else if self.is_spaced(last, kind, closing) {
            self.out.push(b' ');
        }
    }

    fn is_second_of_lambda(&self, closing: Option<Bracket>) -> bool {
        closing.is_some_and(|open| open.kind == TokenKind::OpenLambda && !open.spaced)
    }

    fn is_spaced(&self, last: Last, kind: TokenKind, closing: Option<Bracket>) -> bool {
        if let Some(open) = closing {
            let empty = is_opening(last.kind);
            return open.spaced && !(empty && open.kind == TokenKind::OpenBracket);
        }
        if is_opening(last.kind) {
            let inner = self.open.last().is_some_and(|open| open.spaced);
            return inner || kind == TokenKind::Comment;
        }
        match kind {
            TokenKind::Comma | TokenKind::Semicolon | TokenKind::Dot => false,
            TokenKind::OpenBracket if last.ends_operand => false,
            TokenKind::Open if last.ends_operand && !is_string(last.kind) => false,
            TokenKind::Open => last.kind != TokenKind::Keyword(Keyword::Function) && !last.tight,
            _ => !last.tight,
        }
    }

    fn end(&mut self) {
        if self.last.is_some() {
            self.out.push(b'\n');
        }
    }
}

fn is_string(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::String | TokenKind::Heredoc)
}

fn is_opening(kind: TokenKind) -> bool {
    use TokenKind::{Open, OpenBrace, OpenBracket, OpenLambda};
    matches!(kind, Open | OpenBrace | OpenBracket | OpenLambda)
}

/// Signs that mean another thing when no operand is before them.
fn is_sign_of_one(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Plus | TokenKind::Minus | TokenKind::Star | TokenKind::Ampersand)
}

fn ends_operand(kind: TokenKind) -> bool {
    use Keyword::{CurrentFilename, CurrentLine, False, Globals, Locals, Null, This, True};
    match kind {
        TokenKind::Name | TokenKind::Number | TokenKind::String | TokenKind::Heredoc => true,
        TokenKind::Close | TokenKind::CloseBracket | TokenKind::CloseBrace => true,
        TokenKind::Keyword(keyword) => matches!(
            keyword,
            CurrentFilename | CurrentLine | False | Globals | Locals | Null | This | True
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::source::{FileId, Source};

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let (module, faults) = crate::parse(FileId(0), Source::new("t", text.as_bytes()));
        assert!(faults.is_empty(), "{faults:?}");
        assert_eq!(String::from_utf8_lossy(&super::format(&module)), expected);
        crate::fuzz::file(text.as_bytes());
    }

    #[test]
    fn layouts() {
        check("a=1+ -2*len( x )", "a = 1 + -2 * len(x)\n");
        check("a=[1,2,]", "a = [ 1, 2, ]\n");
        check("a=[]\nb={}\nc=d[ 1 ].e", "a = []\nb = { }\nc = d[1].e\n");
        check("\n\n\na = 1\n\n\n\nb = 2\n\n", "a = 1\n\nb = 2\n");
        check("f={{1}}", "f = {{ 1 }}\n");
        check("f = {{\n{ a=1 }}}", "f = {{\n  { a = 1 } }}\n");
        check("if(a){\n\nb=1 // c  \n# d\n\n}", "if (a) {\n  b = 1 // c\n  # d\n}\n");
        check("f({\na=1\n},[\n2\n])", "f({\n  a = 1\n}, [\n  2\n])\n");
        check("a={b=1}//x", "a = { b = 1 } //x\n");
        check("x=>x!in[1]", "x => x !in [ 1 ]\n");
        check("a=function(b)use(c){*d=!e}", "a = function(b) use (c) { *d = !e }\n");
        check("a = {{{ x\n  y }}}", "a = {{{ x\n  y }}}\n");
        check("a = {b={c=1}}", "a = { b = { c = 1 } }\n");
        check("f = {{ 1\n}}", "f = {{ 1\n}}\n");
    }
}
