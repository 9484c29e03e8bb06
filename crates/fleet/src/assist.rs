//! Questions that an editor asks about a file: what is at a place, what it belongs to, where it is
//! defined. Answers are found in tokens and tree, without evaluation, so that they are there while
//! a file is being written.

use crate::ast::{Kind, Module, NodeId};
use crate::source::Span;
use crate::token::{Keyword, Token, TokenKind};

/// An `object`, `template` or `apply` with a written name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Which of the three.
    pub keyword: Keyword,
    /// The type.
    pub of_type: String,
    /// The name.
    pub name: String,
    /// From the keyword to the name.
    pub span: Span,
}

/// The word at a place: a name, a keyword or a string without its quotes.
pub fn word_at(module: &Module, at: u32) -> Option<String> {
    let token = module.tokens.iter().find(|t| {
        let is_word = matches!(t.kind, TokenKind::Name | TokenKind::Keyword(_) | TokenKind::String);
        is_word && t.span.start <= at && at <= t.span.end
    })?;
    Some(text(module, token).trim_matches('"').trim_start_matches('@').to_owned())
}

fn text(module: &Module, token: &Token) -> String {
    let bytes = module.source.text.get(token.span.start as usize..token.span.end as usize);
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

/// Tokens that mean something.
fn solid(module: &Module) -> impl Iterator<Item = &Token> {
    let is_solid = |t: &&Token| !matches!(t.kind, TokenKind::Newline | TokenKind::Comment);
    module.tokens.iter().filter(is_solid)
}

/// Every definition with a written name.
pub fn named(module: &Module) -> Vec<Named> {
    let tokens: Vec<&Token> = solid(module).collect();
    let one = |three: &[&Token]| {
        let [head, of_type, name] = three else { return None };
        let TokenKind::Keyword(keyword) = head.kind else { return None };
        let is_definition = is_definition(keyword)
            && of_type.kind == TokenKind::Name
            && name.kind == TokenKind::String;
        is_definition.then(|| Named {
            keyword,
            of_type: text(module, of_type),
            name: text(module, name).trim_matches('"').to_owned(),
            span: head.span.to(name.span),
        })
    };
    tokens.windows(3).filter_map(one).collect()
}

fn is_definition(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::Object | Keyword::Template | Keyword::Apply)
}

/// The type of the definition that a place is in the body of.
pub fn type_around(module: &Module, at: u32) -> Option<String> {
    let (mut open, mut next): (Vec<Option<String>>, Option<String>) = (Vec::new(), None);
    let mut is_head = false;
    for token in solid(module).take_while(|token| token.span.end <= at) {
        match token.kind {
            TokenKind::Keyword(keyword) if is_definition(keyword) => is_head = true,
            TokenKind::Name if std::mem::take(&mut is_head) => next = Some(text(module, token)),
            TokenKind::OpenBrace => open.push(next.take()),
            kind if kind.nesting() > 0 => (0..kind.nesting()).for_each(|_| open.push(None)),
            kind if kind.nesting() < 0 => drop(open.pop()),
            _ => {}
        }
    }
    open.into_iter().rev().flatten().next()
}

/// Whether a place is behind `import`, where the name of a template belongs.
pub fn is_after_import(module: &Module, at: u32) -> bool {
    let before = solid(module).take_while(|token| token.span.start < at);
    let last: Vec<&Token> = before.collect();
    last.iter().rev().take(2).any(|token| token.kind == TokenKind::Keyword(Keyword::Import))
}

/// Where a name is set: constants, variables, and attributes as `vars.NAME` or `NAME`.
pub fn set(module: &Module, name: &str) -> Vec<Span> {
    let is_name = |bytes: &[u8]| bytes == name.as_bytes();
    let one = |index: usize| {
        let node = module.nodes.get(index)?;
        let found = match &node.kind {
            Kind::Const(atom, _) | Kind::Var(atom, _) => is_name(module.atom(*atom)),
            Kind::Assign(_, target, _) => last_name(module, *target).is_some_and(is_name),
            _ => false,
        };
        found.then_some(node.span)
    };
    (0..module.nodes.len()).filter_map(one).collect()
}

/// `role` of `vars.role`.
fn last_name(module: &Module, target: NodeId) -> Option<&[u8]> {
    match &module.node(target).kind {
        Kind::Name(atom) | Kind::String(atom) => Some(module.atom(*atom)),
        Kind::Index(_, key) => last_name(module, *key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{FileId, Source};

    const TEXT: &str = "\
const Limit = 3
template Service \"base\" {
  Restart = \"always\"
  vars.role = { a = 1
  }
}
apply Service \"web\" to Container {
  import \"base\"
  if (container.vars.role) {
    Restart = \"no\"
  }

";

    fn module() -> Module {
        crate::parse(FileId(0), Source::new("t", TEXT.as_bytes())).0
    }

    fn at(part: &str) -> u32 {
        TEXT.find(part).expect("it is there") as u32
    }

    #[test]
    fn places_are_known_while_a_file_is_written() {
        let module = module();
        assert_eq!(word_at(&module, at("tart = \"no")).as_deref(), Some("Restart"));
        assert_eq!(word_at(&module, at("base\"\n  if")).as_deref(), Some("base"));
        assert_eq!(word_at(&module, at("= 3")), None);
        assert_eq!(type_around(&module, at("Limit")), None);
        assert_eq!(type_around(&module, at("always")).as_deref(), Some("Service"));
        assert_eq!(type_around(&module, at("\"no\"")).as_deref(), Some("Service"));
        assert_eq!(type_around(&module, TEXT.len() as u32).as_deref(), Some("Service"));
        assert_eq!(type_around(&module, at("apply")), None);
        assert!(is_after_import(&module, at("base\"\n  if")));
        assert!(!is_after_import(&module, at("if (") + 1));
    }

    #[test]
    fn definitions_and_assignments_are_found() {
        let module = module();
        let names: Vec<String> =
            named(&module).iter().map(|n| format!("{} {}", n.of_type, n.name)).collect();
        assert_eq!(names, ["Service base", "Service web"]);
        let starts = |name: &str| set(&module, name).iter().map(|s| s.start).collect::<Vec<_>>();
        assert_eq!(starts("Limit"), [0]);
        assert_eq!(starts("role"), [at("vars.role =")]);
        assert_eq!(starts("Restart"), [at("Restart = \"always"), at("Restart = \"no")]);
        assert_eq!(starts("nothing"), [0u32; 0]);
    }
}
