//! Expressions, by precedence: the table of the language reference, "Operators", with `&&` above
//! `||` as the installed program has it.

use super::Parser;
use super::statement::Last;
use crate::ast::{Binary, Form, Function, Kind, NodeId, Unary};
use crate::lexer;
use crate::source::Span;
use crate::token::{Keyword, TokenKind};

/// How tightly `&&` and `||` bind; all of [`operator`] bind tighter.
const OR_LEVEL: u8 = 1;
const AND_LEVEL: u8 = 2;

/// How many parentheses may be opened one right after another: they cost no depth.
const PARENTHESES_MAX: usize = 3000;

/// A binary operator and how tightly it binds.
fn operator(kind: TokenKind) -> Option<(Binary, u8)> {
    Some(match kind {
        TokenKind::Pipe => (Binary::BitOr, 3),
        TokenKind::Caret => (Binary::BitXor, 4),
        TokenKind::Ampersand => (Binary::BitAnd, 5),
        TokenKind::Equal => (Binary::Equal, 6),
        TokenKind::NotEqual => (Binary::NotEqual, 6),
        TokenKind::Keyword(Keyword::In) => (Binary::In, 7),
        TokenKind::NotIn => (Binary::NotIn, 7),
        TokenKind::Less => (Binary::Less, 8),
        TokenKind::Greater => (Binary::Greater, 8),
        TokenKind::LessEqual => (Binary::LessEqual, 8),
        TokenKind::GreaterEqual => (Binary::GreaterEqual, 8),
        TokenKind::ShiftLeft => (Binary::ShiftLeft, 9),
        TokenKind::ShiftRight => (Binary::ShiftRight, 9),
        TokenKind::Plus => (Binary::Add, 10),
        TokenKind::Minus => (Binary::Subtract, 10),
        TokenKind::Star => (Binary::Multiply, 11),
        TokenKind::Slash => (Binary::Divide, 11),
        TokenKind::Percent => (Binary::Modulo, 11),
        _ => return None,
    })
}

/// `1 < 2 < 3` and `1 == 2 == 3` mean nothing.
fn takes_no_second(operator: Binary) -> bool {
    use Binary::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    matches!(operator, Equal | NotEqual | Less | Greater | LessEqual | GreaterEqual)
}

impl Parser<'_> {
    /// A whole expression.
    pub(super) fn expression(&mut self) -> NodeId {
        self.nested(|parser| {
            let first = parser.unary();
            parser.expression_from(first)
        })
    }

    /// The whole of an expression that begins with an operand.
    fn expression_from(&mut self, first: NodeId) -> NodeId {
        let condition = self.binary_from(first, OR_LEVEL);
        if !self.take_if(TokenKind::Question) {
            return condition;
        }
        let then = self.expression();
        self.expect(TokenKind::Colon, "`:`");
        let other = self.expression();
        let start = self.span(condition);
        self.add_from(Kind::Conditional(condition, then, other), start)
    }

    /// Operators that bind at least so tightly, and their operands.
    fn binary(&mut self, level: u8) -> NodeId {
        let first = self.unary();
        self.binary_from(first, level)
    }

    /// The same, after the first operand.
    fn binary_from(&mut self, first: NodeId, level: u8) -> NodeId {
        if level <= AND_LEVEL {
            return self.chain(first, level);
        }
        let mut left = first;
        let mut taken = None;
        while let Some((operator, strength)) = operator(self.next()) {
            if strength < level || self.recovering {
                break;
            }
            if taken == Some(strength) && takes_no_second(operator) {
                self.report("comparisons cannot be chained; use && or parentheses");
            }
            self.take();
            let right = self.operand(strength);
            let span = self.span(left).to(self.span(right));
            left = self.add(Kind::Binary(operator, left, right), span);
            taken = Some(strength);
        }
        left
    }

    /// The right side of an operator: whatever binds tighter.
    fn operand(&mut self, strength: u8) -> NodeId {
        self.nested(|parser| parser.binary(strength + 1))
    }

    /// `a || b || c` or `a && b && c`, as one node.
    fn chain(&mut self, first: NodeId, level: u8) -> NodeId {
        let sign = if level == OR_LEVEL { TokenKind::OrOr } else { TokenKind::AndAnd };
        let first = self.binary_from(first, level + 1);
        if self.next() != sign {
            return first;
        }
        let mut parts = vec![first];
        while !self.recovering && self.take_if(sign) {
            parts.push(self.binary(level + 1));
        }
        let kind = if level == OR_LEVEL { Kind::Or(parts) } else { Kind::And(parts) };
        let start = self.span(first);
        self.add_from(kind, start)
    }

    fn unary(&mut self) -> NodeId {
        let operator = match self.next() {
            TokenKind::Not => Unary::Not,
            TokenKind::Tilde => Unary::Complement,
            TokenKind::Plus => Unary::Plus,
            TokenKind::Minus => Unary::Minus,
            TokenKind::Ampersand => Unary::Reference,
            TokenKind::Star => Unary::Dereference,
            _ => {
                let base = self.primary();
                return self.postfix(base);
            }
        };
        let start = self.take().span;
        let operand = self.nested(Parser::unary);
        if operator == Unary::Reference && !self.recovering && !self.is_assignable(operand) {
            self.complain(self.span(operand), "`&` cannot refer to this expression");
        }
        self.add_from(Kind::Unary(operator, operand), start)
    }

    /// Calls, indexes and members after an expression.
    pub(super) fn postfix(&mut self, mut base: NodeId) -> NodeId {
        loop {
            let start = self.span(base);
            base = match self.next() {
                TokenKind::Dot => {
                    self.take();
                    let span = self.token().span;
                    let name = self.name("the name of a member");
                    let key = self.add(Kind::String(name), span);
                    self.add_from(Kind::Index(base, key), start)
                }
                TokenKind::OpenBracket => {
                    let key = self.index_key();
                    self.add_from(Kind::Index(base, key), start)
                }
                TokenKind::Open => {
                    let arguments = self.arguments();
                    self.add_from(Kind::Call(base, arguments), start)
                }
                _ => return base,
            };
            if self.recovering {
                return base;
            }
        }
    }

    fn index_key(&mut self) -> NodeId {
        self.take();
        self.with_joined(true, |parser| {
            let key = parser.expression();
            parser.expect(TokenKind::CloseBracket, "`]`");
            key
        })
    }

    fn arguments(&mut self) -> Vec<NodeId> {
        self.take();
        self.with_joined(true, |parser| parser.list(TokenKind::Close, "`)`"))
    }

    /// Expressions with commas between them, up to a closing sign.
    fn list(&mut self, close: TokenKind, what: &str) -> Vec<NodeId> {
        let mut out = Vec::new();
        while self.next() != close && !self.recovering {
            out.push(self.expression());
            if self.next() != close && !self.take_if(TokenKind::Comma) {
                break;
            }
        }
        self.expect(close, &format!("`,` or {what}"));
        out
    }

    fn primary(&mut self) -> NodeId {
        let token = self.token();
        match token.kind {
            TokenKind::Number => {
                self.take();
                let value = lexer::number(self.bytes(token.span));
                self.add(Kind::Number(value), token.span)
            }
            TokenKind::String | TokenKind::Heredoc => self.string(),
            TokenKind::Name => self.variable_or_lambda(),
            TokenKind::Keyword(keyword) => self.keyword(keyword),
            TokenKind::Open => self.parenthesis_or_lambda(),
            TokenKind::OpenBracket => self.array(),
            TokenKind::OpenBrace => self.dictionary(),
            TokenKind::OpenLambda => self.nullary(),
            _ => {
                let message = format!("expected an expression, found {}", self.found());
                self.report(&message);
                self.error_node()
            }
        }
    }

    fn keyword(&mut self, keyword: Keyword) -> NodeId {
        let span = self.token().span;
        let kind = match keyword {
            Keyword::Null => Kind::Null,
            Keyword::True => Kind::Bool(true),
            Keyword::False => Kind::Bool(false),
            Keyword::This => Kind::This,
            Keyword::Globals => Kind::Globals,
            Keyword::Locals => Kind::Locals,
            Keyword::CurrentFilename => Kind::CurrentFilename,
            Keyword::CurrentLine => Kind::CurrentLine,
            Keyword::Function => return self.anonymous_function(),
            Keyword::If => return self.conditional(),
            _ => {
                let message = format!(
                    "expected an expression, found the keyword `{0}`; as a name it is `@{0}`",
                    keyword.text()
                );
                self.report(&message);
                return self.error_node();
            }
        };
        self.take();
        self.add(kind, span)
    }

    fn variable_or_lambda(&mut self) -> NodeId {
        let span = self.token().span;
        let name = self.name("a variable");
        if self.take_if(TokenKind::Arrow) {
            return self.lambda(span, vec![name], Vec::new());
        }
        self.add(Kind::Name(name), span)
    }

    fn array(&mut self) -> NodeId {
        let start = self.take().span;
        let items = self.with_joined(true, |parser| parser.list(TokenKind::CloseBracket, "`]`"));
        self.add_from(Kind::Array(items), start)
    }

    fn dictionary(&mut self) -> NodeId {
        let start = self.take().span;
        let items = self.with_joined(false, |parser| {
            let items = parser.items();
            parser.expect(TokenKind::CloseBrace, "`}`");
            items
        });
        self.add_from(Kind::Dictionary(items), start)
    }

    fn conditional(&mut self) -> NodeId {
        let (mut branches, mut other) = (Vec::new(), None);
        loop {
            let start = self.take().span;
            let condition = self.condition();
            branches.push((start, condition, self.block(Last::MayBeValue)));
            if self.recovering || !self.take_keyword(Keyword::Else) {
                break;
            }
            if !self.is_keyword(Keyword::If) {
                other = Some(self.block(Last::MayBeValue));
                break;
            }
        }
        // The last branch is what is left for those before it.
        while let Some((start, condition, then)) = branches.pop() {
            let node = self.add_from(Kind::If(condition, then, other), start);
            if branches.is_empty() {
                return node;
            }
            other = Some(vec![node]);
        }
        self.error_node()
    }

    // Functions.

    /// Whether `(` begins the arguments of a lambda: names and commas, then `)` and `=>` or `use`.
    fn is_lambda(&self) -> bool {
        let significant = |token: &&crate::token::Token| {
            !matches!(token.kind, TokenKind::Newline | TokenKind::Comment)
        };
        let mut tokens = self.tokens[self.position() + 1..].iter().filter(significant);
        let inner = |kind| matches!(kind, TokenKind::Name | TokenKind::Comma);
        let close = tokens.find(|token| !inner(token.kind));
        let follows = tokens.next().map(|token| token.kind);
        let arrow = matches!(follows, Some(TokenKind::Arrow | TokenKind::Keyword(Keyword::Use)));
        close.is_some_and(|token| token.kind == TokenKind::Close) && arrow
    }

    fn parenthesis_or_lambda(&mut self) -> NodeId {
        let start = self.token().span;
        if self.is_lambda() {
            let parameters = self.parameters();
            let captured = self.captured();
            self.expect(TokenKind::Arrow, "`=>`");
            return self.lambda(start, parameters, captured);
        }
        let mut opened = Vec::new();
        while self.next() == TokenKind::Open && !self.is_lambda() {
            if opened.len() == PARENTHESES_MAX {
                return self.too_deep(PARENTHESES_MAX);
            }
            opened.push(self.take().span);
        }
        self.with_joined(true, |parser| {
            let mut inner = parser.expression();
            while let Some(start) = opened.pop() {
                parser.expect(TokenKind::Close, "`)`");
                inner = parser.add_from(Kind::Parenthesis(inner), start);
                if !opened.is_empty() {
                    // What follows belongs into the parentheses around these.
                    let first = parser.postfix(inner);
                    inner = parser.expression_from(first);
                }
            }
            inner
        })
    }

    /// `(a, b)`.
    fn parameters(&mut self) -> Vec<crate::ast::AtomId> {
        self.with_joined(true, |parser| {
            parser.expect(TokenKind::Open, "`(`");
            let mut out = Vec::new();
            while parser.next() != TokenKind::Close && !parser.recovering {
                out.push(parser.name("the name of an argument"));
                if !parser.take_if(TokenKind::Comma) {
                    break;
                }
            }
            parser.expect(TokenKind::Close, "`,` or `)`");
            out
        })
    }

    /// `use (a, b = value)`, if it is there.
    pub(super) fn captured(&mut self) -> Vec<crate::ast::Captured> {
        if !self.take_keyword(Keyword::Use) {
            return Vec::new();
        }
        self.with_joined(true, |parser| {
            parser.expect(TokenKind::Open, "`(`");
            let mut out = Vec::new();
            loop {
                let name = parser.name("the name of a variable");
                let value = parser.take_if(TokenKind::Set).then(|| parser.expression());
                out.push((name, value));
                if parser.recovering || !parser.take_if(TokenKind::Comma) {
                    break;
                }
            }
            parser.expect(TokenKind::Close, "`,` or `)`");
            out
        })
    }

    fn lambda(
        &mut self,
        start: Span,
        parameters: Vec<crate::ast::AtomId>,
        captured: Vec<crate::ast::Captured>,
    ) -> NodeId {
        let (form, body) = match self.next() {
            TokenKind::OpenBrace => (Form::LambdaBlock, self.function_block()),
            _ => (Form::Lambda, vec![self.expression()]),
        };
        let function = Function { name: None, form, parameters, captured, body };
        self.add_from(Kind::Function(Box::new(function)), start)
    }

    /// `{{ statements }}`: its end are two closing braces without a space between them.
    fn nullary(&mut self) -> NodeId {
        let start = self.take().span;
        let rules = self.rules.take();
        let body = self.with_joined(false, |parser| {
            let body = parser.statements(Last::MayBeValue);
            parser.expect(TokenKind::CloseBrace, "`}}`");
            if parser.token().span.start != parser.last.end {
                parser.complain(parser.last, "expected `}}`");
            }
            parser.expect(TokenKind::CloseBrace, "`}}`");
            body
        });
        self.rules = rules;
        let (parameters, captured) = (Vec::new(), Vec::new());
        let function = Function { name: None, form: Form::Nullary, parameters, captured, body };
        self.add_from(Kind::Function(Box::new(function)), start)
    }

    /// Whether a name follows `function`.
    pub(super) fn names_function(&self) -> bool {
        let next = self.tokens.get(self.position() + 1).map(|token| token.kind);
        matches!(next, Some(TokenKind::Name | TokenKind::String))
    }

    pub(super) fn named_function(&mut self) -> NodeId {
        let start = self.take().span;
        let name = match self.next() {
            TokenKind::String => {
                let value = self.unescape(self.token().span);
                self.take();
                self.atom(&value)
            }
            _ => self.name("the name of a function"),
        };
        self.function_rest(start, Some(name))
    }

    fn anonymous_function(&mut self) -> NodeId {
        let start = self.take().span;
        self.function_rest(start, None)
    }

    fn function_rest(&mut self, start: Span, name: Option<crate::ast::AtomId>) -> NodeId {
        let parameters = self.parameters();
        let captured = self.captured();
        let body = self.function_block();
        let function = Function { name, form: Form::Function, parameters, captured, body };
        self.add_from(Kind::Function(Box::new(function)), start)
    }
}
