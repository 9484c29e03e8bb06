//! Tokens to a tree. Parsing never fails: it returns a tree and what was wrong.
//!
//! The grammar is the language reference's, read by recursive descent (statements here and in
//! `definition`) and by precedence (`expression`). After a fault the parser goes on at the next
//! statement, so that one run reports several, and leaves the statement out of the tree: what is in
//! the tree was understood, and editors have it checked. Start at [`parse`].

mod definition;
mod expression;
mod many;
mod statement;

pub use many::{Parsed, many};

use std::collections::BTreeMap;

use crate::ast::{AtomId, Kind, Module, Node, NodeId};
use crate::diagnostic::{Diagnostic, Sink};
use crate::lexer;
use crate::source::{FileId, Place, Source, Span};
use crate::token::{Keyword, Token, TokenKind};

/// How deep constructs may be nested: an operand in parentheses is two levels, and one for
/// evaluation, which may go 300 deep.
pub const NESTING_MAX: usize = 620;

/// Parses a file.
pub fn parse(file: FileId, source: Source) -> (Module, Vec<Diagnostic>) {
    let mut sink = Sink::default();
    let text = source.text.clone();
    let tokens = lexer::tokens(file, &text, &mut sink);
    let mut parser = Parser::new(file, &text, &tokens, &mut sink);
    let root = parser.file();
    let Parser { nodes, atoms, usings, .. } = parser;
    let is_include = |id: &NodeId| matches!(nodes[id.0 as usize].kind, Kind::Include(..));
    let includes = (0..nodes.len() as u32).map(NodeId).filter(is_include).collect();
    let module = Module { file, source, tokens, nodes, atoms, root, usings, includes };
    (module, sink.finish())
}

/// The `assign where` and `ignore where` expressions of the definition that is being read.
#[derive(Default)]
struct Rules {
    assign: Vec<NodeId>,
    ignore: Vec<NodeId>,
    /// Another one was not understood, so nobody knows what the rule is for.
    is_broken: bool,
}

struct Parser<'t> {
    file: FileId,
    text: &'t [u8],
    tokens: &'t [Token],
    /// The next token that is not looked at yet.
    at: usize,
    /// The last token that was taken.
    last: Span,
    nodes: Vec<Node>,
    atoms: Vec<Box<[u8]>>,
    known_atoms: BTreeMap<Box<[u8]>, AtomId>,
    usings: Vec<(Span, NodeId)>,
    /// Whether line ends mean nothing: inside of parentheses and brackets.
    joined: bool,
    /// Whether a fault was reported since the last statement began.
    recovering: bool,
    /// Whether the statement that is being read has a fault that is not one of a statement in it.
    is_broken: bool,
    depth: usize,
    /// What `assign where` belongs to, if it is allowed.
    rules: Option<Rules>,
    sink: &'t mut Sink,
}

impl<'t> Parser<'t> {
    fn new(file: FileId, text: &'t [u8], tokens: &'t [Token], sink: &'t mut Sink) -> Parser<'t> {
        Parser {
            file,
            text,
            tokens,
            at: 0,
            last: Span::default(),
            nodes: Vec::new(),
            atoms: Vec::new(),
            known_atoms: BTreeMap::new(),
            usings: Vec::new(),
            joined: false,
            recovering: false,
            is_broken: false,
            depth: 0,
            rules: None,
            sink,
        }
    }

    fn file(&mut self) -> Vec<NodeId> {
        let mut root = Vec::new();
        loop {
            root.extend(self.statements(statement::Last::MayBeValue));
            if self.next() == TokenKind::End {
                return root;
            }
            self.report("this `}` closes nothing");
            self.take();
            self.recovering = false;
        }
    }

    // Tokens.

    /// The position of the next token that means something.
    fn position(&self) -> usize {
        let skipped = self.tokens[self.at..].iter().take_while(|token| self.is_trivia(token.kind));
        self.at + skipped.count()
    }

    fn is_trivia(&self, kind: TokenKind) -> bool {
        match kind {
            TokenKind::Comment => true,
            TokenKind::Newline => self.joined,
            _ => false,
        }
    }

    fn token(&self) -> Token {
        self.tokens[self.position().min(self.tokens.len() - 1)]
    }

    fn next(&self) -> TokenKind {
        self.token().kind
    }

    fn is_keyword(&self, keyword: Keyword) -> bool {
        self.next() == TokenKind::Keyword(keyword)
    }

    /// Takes the next token; the end of the file is never passed.
    fn take(&mut self) -> Token {
        let position = self.position().min(self.tokens.len() - 1);
        let token = self.tokens[position];
        if token.kind != TokenKind::End {
            self.at = position + 1;
            self.last = token.span;
        }
        token
    }

    fn take_if(&mut self, kind: TokenKind) -> bool {
        let found = self.next() == kind;
        if found {
            self.take();
        }
        found
    }

    fn take_keyword(&mut self, keyword: Keyword) -> bool {
        self.take_if(TokenKind::Keyword(keyword))
    }

    /// Takes what must be here, or reports what is here instead.
    fn expect(&mut self, kind: TokenKind, what: &str) -> bool {
        let found = self.take_if(kind);
        if !found {
            self.report(&format!("expected {what}, found {}", self.found()));
        }
        found
    }

    /// Reads something inside of which line ends count (`false`) or not.
    fn with_joined<T>(&mut self, joined: bool, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.joined, joined);
        let out = read(self);
        self.joined = before;
        out
    }

    fn bytes(&self, span: Span) -> &'t [u8] {
        &self.text[span.start as usize..span.end as usize]
    }

    // Nodes.

    fn add(&mut self, kind: Kind, span: Span) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { kind, span });
        id
    }

    /// A node that goes from a place to the last token taken.
    fn add_from(&mut self, kind: Kind, start: Span) -> NodeId {
        self.add(kind, start.to(self.last))
    }

    fn span(&self, id: NodeId) -> Span {
        self.nodes[id.0 as usize].span
    }

    fn atom(&mut self, bytes: &[u8]) -> AtomId {
        if let Some(known) = self.known_atoms.get(bytes) {
            return *known;
        }
        let id = AtomId(self.atoms.len() as u32);
        self.atoms.push(bytes.into());
        self.known_atoms.insert(bytes.into(), id);
        id
    }

    /// A name, without its `@`.
    fn name(&mut self, what: &str) -> AtomId {
        if self.next() != TokenKind::Name {
            let mut message = format!("expected {what}, found {}", self.found());
            if matches!(self.next(), TokenKind::Keyword(_)) {
                message.push_str("; a reserved word is used as a name by writing @ before it");
            }
            self.report(&message);
            return self.atom(b"");
        }
        let bytes = self.bytes(self.token().span);
        self.take();
        self.atom(bytes.strip_prefix(b"@").unwrap_or(bytes))
    }

    /// A string token's value; its bad escapes are reported.
    fn string(&mut self) -> NodeId {
        let token = self.take();
        let bytes = self.bytes(token.span);
        let value = match token.kind {
            TokenKind::Heredoc => bytes[3..bytes.len() - 3].to_vec(),
            TokenKind::AngleString => bytes[1..bytes.len() - 1].to_vec(),
            _ => self.unescape(token.span),
        };
        let atom = self.atom(&value);
        self.add(Kind::String(atom), token.span)
    }

    fn unescape(&mut self, span: Span) -> Vec<u8> {
        let (value, faults) = lexer::string(self.bytes(span));
        self.is_broken |= !faults.is_empty();
        for (at, length, reason) in faults {
            let start = span.start + at as u32;
            let place = Span { start, end: start + length as u32 };
            self.sink.push(Diagnostic::error(Place { file: self.file, span: place }, reason));
        }
        value
    }

    // Faults.

    /// Reports a fault at the next token, unless one was reported in this statement already.
    fn report(&mut self, message: &str) {
        self.report_at(self.token().span, message);
    }

    fn report_at(&mut self, span: Span, message: &str) {
        let silent = std::mem::replace(&mut self.recovering, true);
        self.is_broken = true;
        // What the lexer could not read was reported by it.
        if !silent && self.next() != TokenKind::Bad {
            self.sink.push(Diagnostic::error(Place { file: self.file, span }, message));
        }
    }

    /// Reports a fault that does not keep the parser from going on.
    fn complain(&mut self, span: Span, message: &str) {
        self.is_broken = true;
        self.sink.push(Diagnostic::error(Place { file: self.file, span }, message));
    }

    fn found(&self) -> String {
        match self.next() {
            TokenKind::End => "the end of the file".to_owned(),
            TokenKind::Newline => "the end of the line".to_owned(),
            TokenKind::Keyword(keyword) => format!("the keyword `{}`", keyword.text()),
            TokenKind::String | TokenKind::Heredoc => "a string".to_owned(),
            _ => format!("`{}`", String::from_utf8_lossy(self.bytes(self.token().span))),
        }
    }

    fn error_node(&mut self) -> NodeId {
        let start = self.token().span.start;
        self.add(Kind::Error, Span { start, end: start })
    }

    /// Gives up a statement that is nested too deep.
    fn too_deep(&mut self, levels: usize) -> NodeId {
        self.report(&format!("nested more than {levels} levels deep"));
        self.skip_statement();
        self.error_node()
    }

    /// Goes one level deeper, unless that is too deep.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> NodeId) -> NodeId {
        if self.depth >= NESTING_MAX {
            return self.too_deep(NESTING_MAX);
        }
        self.depth += 1;
        let node = read(self);
        self.depth -= 1;
        node
    }

    /// Skips to the end of the statement: a line end, `;` or `}` that belongs to no inner brace, or
    /// the next definition at the start of a line, if a brace is missing.
    fn skip_statement(&mut self) {
        let mut open = 0_usize;
        while let Some(token) = self.tokens.get(self.at) {
            match token.kind {
                TokenKind::End => break,
                _ if self.begins_definition(*token) => break,
                TokenKind::Newline | TokenKind::Semicolon | TokenKind::CloseBrace if open == 0 => {
                    break;
                }
                TokenKind::OpenBrace => open += 1,
                TokenKind::OpenLambda => open += 2,
                TokenKind::CloseBrace => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests;
