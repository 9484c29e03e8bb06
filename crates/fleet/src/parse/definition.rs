//! `object`, `template` and `apply`.

use super::statement::Last;
use super::{Parser, Rules};
use crate::ast::{Definition, DefinitionKind, Kind, NodeId};
use crate::source::Span;
use crate::token::{Keyword, TokenKind};

impl Parser<'_> {
    pub(super) fn definition(&mut self, keyword: Keyword) -> NodeId {
        let start = self.take().span;
        let of_type = self.type_name();
        self.refuse_ambiguous_name(keyword);
        let name = self.definition_name();
        let head = start.to(self.last);
        let each = match keyword == Keyword::Apply && self.take_keyword(Keyword::For) {
            true => Some(self.loop_head()),
            false => None,
        };
        let target = match keyword == Keyword::Apply && self.take_keyword(Keyword::To) {
            true => Some(self.name("a type")),
            false => None,
        };
        let captured = self.captured();
        let default = self.default_word(keyword);
        let ignore_on_error = self.take_keyword(Keyword::IgnoreOnError);
        let extent = start.to(self.last);
        let is_broken = self.is_broken || self.next() != TokenKind::OpenBrace;
        let (body, rules) = self.definition_body();
        // A body that has no end is still one.
        self.is_broken = is_broken || rules.is_broken;
        let kind = match keyword {
            Keyword::Apply => DefinitionKind::Apply { target, each },
            Keyword::Template => DefinitionKind::Template { default },
            _ => DefinitionKind::Object,
        };
        let Rules { assign, ignore, .. } = rules;
        let definition = Definition {
            kind,
            of_type,
            name,
            captured,
            ignore_on_error,
            assign,
            ignore,
            body,
            head,
            extent,
        };
        self.check_rules(&definition);
        self.add_from(Kind::Definition(Box::new(definition)), start)
    }

    /// A name or a string; anything else is no type.
    fn type_name(&mut self) -> NodeId {
        match self.next() {
            TokenKind::String => self.string(),
            _ => {
                let span = self.token().span;
                let name = self.name("a type");
                self.add(Kind::Name(name), span)
            }
        }
    }

    /// The type of an object or template is an expression, so what begins like a call or an index
    /// could as well belong to it. The installed program refuses it, too.
    fn refuse_ambiguous_name(&mut self, keyword: Keyword) {
        let is_open = matches!(self.next(), TokenKind::Open | TokenKind::OpenBracket);
        if is_open && keyword != Keyword::Apply {
            let span = self.token().span;
            self.complain_once(
                span,
                "a name cannot begin with `(` or `[`: the syntax is ambiguous",
            );
        }
    }

    fn definition_name(&mut self) -> Option<NodeId> {
        use Keyword::{Default, For, IgnoreOnError, To, Use};
        let none = match self.next() {
            TokenKind::OpenBrace => true,
            TokenKind::Keyword(keyword) => {
                matches!(keyword, Default | For | IgnoreOnError | To | Use)
            }
            _ => self.recovering,
        };
        (!none).then(|| self.expression())
    }

    fn default_word(&mut self, keyword: Keyword) -> bool {
        let span = self.token().span;
        let found = self.take_keyword(Keyword::Default);
        if found && keyword != Keyword::Template {
            self.complain(span, "only templates can be `default`");
        }
        found
    }

    fn definition_body(&mut self) -> (Vec<NodeId>, Rules) {
        let outer = self.rules.replace(Rules::default());
        let body = self.block(Last::IsStatement);
        let rules = std::mem::replace(&mut self.rules, outer);
        (body, rules.unwrap_or_default())
    }

    fn check_rules(&mut self, definition: &Definition) {
        let Definition { kind, assign, ignore, head, .. } = definition;
        match kind {
            DefinitionKind::Apply { each: None, .. } if assign.is_empty() => {
                self.complain_once(*head, "`apply` needs an `assign where` or a `for`");
            }
            DefinitionKind::Object if assign.is_empty() && !ignore.is_empty() => {
                self.complain_once(*head, "`ignore where` needs an `assign where` beside it");
            }
            _ => {}
        }
    }

    /// A fault that may only follow from another one.
    fn complain_once(&mut self, span: Span, message: &str) {
        if !self.recovering {
            self.complain(span, message);
        }
    }
}
