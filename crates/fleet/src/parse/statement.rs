//! Statements and blocks.

use super::{Parser, Rules};
use crate::ast::{Binary, IncludeKind, Kind, Loop, Node, NodeId};
use crate::source::Span;
use crate::token::{Keyword, Token, TokenKind};

/// Whether the last statement of a block may be a value that nobody uses: in functions it is
/// what they return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    MayBeValue,
    IsStatement,
}

impl Parser<'_> {
    /// Statements up to a closing brace or the end of the file.
    pub(super) fn statements(&mut self, last: Last) -> Vec<NodeId> {
        self.block_statements(last, false)
    }

    /// The items of a dictionary, whose keys may be strings.
    pub(super) fn items(&mut self) -> Vec<NodeId> {
        self.block_statements(Last::IsStatement, true)
    }

    fn block_statements(&mut self, last: Last, keys: bool) -> Vec<NodeId> {
        let (mut out, mut after_statement) = (Vec::new(), false);
        loop {
            self.separators(after_statement);
            after_statement = true;
            let is_over = matches!(self.next(), TokenKind::CloseBrace | TokenKind::End);
            // No object, template or rule belongs into the body of another one or into a dictionary.
            let belongs_here = self.rules.is_none() && !keys;
            if is_over || (!belongs_here && self.begins_definition(self.token())) {
                // Nobody begins one at the start of a line in there: a brace is missing.
                break;
            }
            let before = self.at;
            let outer = std::mem::replace(&mut self.is_broken, false);
            let statement = self.nested(|parser| parser.statement(keys));
            self.end_statement();
            let is_broken = std::mem::replace(&mut self.is_broken, outer);
            out.extend(if is_broken { self.rest_of(statement) } else { Some(statement) });
            if self.at == before {
                self.take();
            }
        }
        self.check_unused(&out, last);
        out
    }

    /// Whether a token is the first of a line and begins an object, template or rule.
    pub(super) fn begins_definition(&self, token: Token) -> bool {
        use Keyword::{Apply, Object, Template};
        let before = token.span.start.checked_sub(1).map(|at| self.text[at as usize]);
        matches!(token.kind, TokenKind::Keyword(Object | Template | Apply)) && before == Some(b'\n')
    }

    /// What can be said of a statement that was not understood: the name of a variable, so that
    /// nobody misses it.
    fn rest_of(&mut self, statement: NodeId) -> Option<NodeId> {
        match self.nodes[statement.0 as usize].kind {
            Kind::Var(name, _) => Some(self.add(Kind::Var(name, None), self.span(statement))),
            _ => None,
        }
    }

    /// What stands between statements: a line end, or one `,` or `;` right after a statement, and
    /// empty lines.
    fn separators(&mut self, mut after_statement: bool) {
        while self.is_separator() {
            let is_line_end = self.next() == TokenKind::Newline;
            if !is_line_end && !after_statement {
                let message = format!("unexpected {}: no statement stands before it", self.found());
                self.complain(self.token().span, &message);
            }
            after_statement = false;
            self.take();
        }
    }

    fn is_separator(&self) -> bool {
        matches!(self.next(), TokenKind::Newline | TokenKind::Semicolon | TokenKind::Comma)
    }

    fn end_statement(&mut self) {
        let ended = matches!(self.next(), TokenKind::CloseBrace | TokenKind::End);
        if !self.recovering && !ended && !self.is_separator() {
            let message = format!("expected the end of the statement, found {}", self.found());
            self.report(&message);
        }
        if std::mem::take(&mut self.recovering) && !self.begins_definition(self.token()) {
            self.skip_statement();
        }
    }

    /// Values that nobody uses are faults: most are a `==` that was meant to be a `=`.
    fn check_unused(&mut self, statements: &[NodeId], last: Last) {
        let count =
            statements.len() - usize::from(last == Last::MayBeValue && !statements.is_empty());
        for id in &statements[..count] {
            if self.is_plain_value(*id) {
                self.complain(self.span(*id), "the result of this expression is not used");
            }
        }
    }

    fn is_plain_value(&self, id: NodeId) -> bool {
        match &self.nodes[id.0 as usize].kind {
            Kind::Parenthesis(inner) => self.is_plain_value(*inner),
            Kind::Function(function) => function.name.is_none(),
            kind => matches!(
                kind,
                Kind::Null
                    | Kind::Bool(_)
                    | Kind::Number(_)
                    | Kind::String(_)
                    | Kind::Name(_)
                    | Kind::This
                    | Kind::Globals
                    | Kind::Locals
                    | Kind::CurrentFilename
                    | Kind::CurrentLine
                    | Kind::Array(_)
                    | Kind::Dictionary(_)
                    | Kind::Unary(..)
                    | Kind::Binary(..)
                    | Kind::And(_)
                    | Kind::Or(_)
                    | Kind::Index(..)
            ),
        }
    }

    /// `{ statements }`.
    pub(super) fn block(&mut self, last: Last) -> Vec<NodeId> {
        if !self.expect(TokenKind::OpenBrace, "`{` on this line") {
            return Vec::new();
        }
        self.with_joined(false, |parser| {
            let body = parser.statements(last);
            parser.expect(TokenKind::CloseBrace, "`}`");
            body
        })
    }

    /// A block of a function: `assign where` does not belong there.
    pub(super) fn function_block(&mut self) -> Vec<NodeId> {
        let rules = self.rules.take();
        let body = self.block(Last::MayBeValue);
        self.rules = rules;
        body
    }

    fn statement(&mut self, keys: bool) -> NodeId {
        let start = self.token().span;
        let TokenKind::Keyword(keyword) = self.next() else { return self.assignment(keys) };
        match keyword {
            Keyword::Object | Keyword::Template | Keyword::Apply => self.definition(keyword),
            Keyword::Function if self.names_function() => self.named_function(),
            Keyword::Var | Keyword::Const => self.declaration(keyword),
            Keyword::While => self.while_loop(),
            Keyword::For => self.for_loop(),
            Keyword::Try => self.try_block(),
            Keyword::Assign | Keyword::Ignore => self.rule(keyword),
            Keyword::Include | Keyword::IncludeRecursive | Keyword::IncludeZones => self.include(),
            Keyword::Namespace => self.namespace(),
            Keyword::Using => self.using(),
            Keyword::Return => self.return_value(),
            Keyword::Throw => self.prefixed(Kind::Throw),
            Keyword::Import => self.prefixed(Kind::Import),
            Keyword::Library => self.prefixed(Kind::Library),
            Keyword::Break => self.lone(Kind::Break, start),
            Keyword::Continue => self.lone(Kind::Continue, start),
            Keyword::Debugger => self.lone(Kind::Debugger, start),
            _ => self.assignment(keys),
        }
    }

    fn lone(&mut self, kind: Kind, start: Span) -> NodeId {
        self.take();
        self.add_from(kind, start)
    }

    /// A keyword and an expression.
    fn prefixed(&mut self, kind: impl FnOnce(NodeId) -> Kind) -> NodeId {
        let start = self.take().span;
        let value = self.expression();
        self.add_from(kind(value), start)
    }

    fn return_value(&mut self) -> NodeId {
        let start = self.take().span;
        let ends =
            self.is_separator() || matches!(self.next(), TokenKind::CloseBrace | TokenKind::End);
        let value = (!ends).then(|| self.expression());
        self.add_from(Kind::Return(value), start)
    }

    /// An expression, perhaps with a value assigned to it.
    fn assignment(&mut self, keys: bool) -> NodeId {
        let start = self.token().span;
        let target = self.expression();
        let Some(operator) = set_operator(self.next()) else { return target };
        self.take();
        if keys {
            self.root_in(target, &Kind::This);
        }
        if !self.recovering && !self.is_assignable(target) {
            self.complain(self.span(target), "this expression cannot be assigned to");
        }
        let value = self.expression();
        self.add_from(Kind::Assign(operator, target, value), start)
    }

    /// The name or string that a target begins with is a member of `root`, whatever else has that
    /// name: in a dictionary of the dictionary, in the head of a namespace of the globals.
    fn root_in(&mut self, target: NodeId, root: &Kind) {
        let Node { kind, span } = self.nodes[target.0 as usize].clone();
        match kind {
            Kind::Index(base, _) | Kind::Parenthesis(base) => self.root_in(base, root),
            Kind::Name(name) | Kind::String(name) => {
                let root = self.add(root.clone(), Span { start: span.start, end: span.start });
                let key = self.add(Kind::String(name), span);
                self.nodes[target.0 as usize].kind = Kind::Index(root, key);
            }
            _ => {}
        }
    }

    pub(super) fn is_assignable(&self, id: NodeId) -> bool {
        match self.nodes[id.0 as usize].kind {
            Kind::Parenthesis(inner) => self.is_assignable(inner),
            Kind::Name(_) | Kind::Index(..) => true,
            Kind::Unary(crate::ast::Unary::Dereference, _) | Kind::Error => true,
            _ => false,
        }
    }

    fn declaration(&mut self, keyword: Keyword) -> NodeId {
        let start = self.take().span;
        let name = match self.next() {
            TokenKind::String if keyword == Keyword::Var => {
                let value = self.unescape(self.token().span);
                self.take();
                self.atom(&value)
            }
            _ => self.name("the name of a variable"),
        };
        if keyword == Keyword::Const {
            self.expect(TokenKind::Set, "`=`");
            let value = self.expression();
            return self.add_from(Kind::Const(name, value), start);
        }
        let value = self.take_if(TokenKind::Set).then(|| self.expression());
        self.add_from(Kind::Var(name, value), start)
    }

    fn while_loop(&mut self) -> NodeId {
        let start = self.take().span;
        let condition = self.condition();
        let body = self.block(Last::MayBeValue);
        self.add_from(Kind::While(condition, body), start)
    }

    /// `(expression)`.
    pub(super) fn condition(&mut self) -> NodeId {
        self.with_joined(true, |parser| {
            parser.expect(TokenKind::Open, "`(`");
            let condition = parser.expression();
            parser.expect(TokenKind::Close, "`)`");
            condition
        })
    }

    fn for_loop(&mut self) -> NodeId {
        let start = self.take().span;
        let mut each = self.loop_head();
        each.body = self.block(Last::IsStatement);
        self.add_from(Kind::For(Box::new(each)), start)
    }

    /// `(key => value in collection)`.
    pub(super) fn loop_head(&mut self) -> Loop {
        self.with_joined(true, |parser| {
            parser.expect(TokenKind::Open, "`(`");
            let first = parser.loop_variable();
            let second = parser.take_if(TokenKind::Arrow).then(|| parser.loop_variable());
            parser.expect(TokenKind::Keyword(Keyword::In), "`in`");
            let collection = parser.expression();
            parser.expect(TokenKind::Close, "`)`");
            let key = second.is_some().then_some(first);
            Loop { key, value: second.unwrap_or(first), collection, body: Vec::new() }
        })
    }

    fn loop_variable(&mut self) -> crate::ast::AtomId {
        self.take_keyword(Keyword::Var);
        self.name("the name of a variable")
    }

    fn try_block(&mut self) -> NodeId {
        let start = self.take().span;
        let body = self.block(Last::MayBeValue);
        self.expect(TokenKind::Keyword(Keyword::Except), "`except` on the line of the `}`");
        let except = self.block(Last::MayBeValue);
        self.add_from(Kind::Try(body, except), start)
    }

    /// `assign where` and `ignore where`: kept with the definition they are in.
    fn rule(&mut self, keyword: Keyword) -> NodeId {
        let start = self.take().span;
        self.expect(TokenKind::Keyword(Keyword::Where), "`where`");
        let filter = self.filter();
        let kind = match keyword {
            Keyword::Assign => Kind::AssignWhere(filter),
            _ => Kind::IgnoreWhere(filter),
        };
        let is_broken = self.is_broken;
        match &mut self.rules {
            Some(rules) if is_broken => rules.is_broken = true,
            Some(Rules { assign, .. }) if keyword == Keyword::Assign => assign.push(filter),
            Some(Rules { ignore, .. }) => ignore.push(filter),
            None => {
                let message = format!("`{} where` can only stand in a rule", keyword.text());
                self.complain(start, &message);
            }
        }
        self.add_from(kind, start)
    }

    /// What follows `where`: a brace begins statements there, not a dictionary.
    fn filter(&mut self) -> NodeId {
        if self.next() != TokenKind::OpenBrace {
            return self.expression();
        }
        let start = self.token().span;
        let body = self.function_block();
        self.add_from(Kind::Block(body), start)
    }

    fn include(&mut self) -> NodeId {
        let token = self.take();
        let (kind, arguments_max) = match token.kind {
            TokenKind::Keyword(Keyword::IncludeZones) => (IncludeKind::Zones, 3),
            TokenKind::Keyword(Keyword::IncludeRecursive) => (IncludeKind::Recursive, 2),
            _ if self.next() == TokenKind::AngleString => (IncludeKind::Search, 1),
            _ => (IncludeKind::Relative, 1),
        };
        let first = if kind == IncludeKind::Search { self.string() } else { self.expression() };
        let mut arguments = vec![first];
        while arguments.len() < arguments_max && self.take_if(TokenKind::Comma) {
            arguments.push(self.expression());
        }
        if kind == IncludeKind::Zones && arguments.len() < 2 {
            self.complain(token.span, "include_zones needs a tag and a directory");
        }
        self.add_from(Kind::Include(kind, arguments), token.span)
    }

    fn namespace(&mut self) -> NodeId {
        let start = self.take().span;
        let target = self.expression();
        self.root_in(target, &Kind::Globals);
        if !self.recovering && !self.is_assignable(target) {
            self.complain(self.span(target), "this is not a valid namespace name");
        }
        let body = self.block(Last::IsStatement);
        self.add_from(Kind::Namespace(target, body), start)
    }

    fn using(&mut self) -> NodeId {
        let start = self.take().span;
        let value = self.expression();
        let node = self.add_from(Kind::Using(value), start);
        self.usings.push((self.span(node), value));
        node
    }
}

/// The operator of an assignment; `Some(None)` for `=`.
fn set_operator(kind: TokenKind) -> Option<Option<Binary>> {
    Some(match kind {
        TokenKind::Set => None,
        TokenKind::SetAdd => Some(Binary::Add),
        TokenKind::SetSubtract => Some(Binary::Subtract),
        TokenKind::SetMultiply => Some(Binary::Multiply),
        TokenKind::SetDivide => Some(Binary::Divide),
        TokenKind::SetModulo => Some(Binary::Modulo),
        TokenKind::SetXor => Some(Binary::BitXor),
        TokenKind::SetAnd => Some(Binary::BitAnd),
        TokenKind::SetOr => Some(Binary::BitOr),
        _ => return None,
    })
}
