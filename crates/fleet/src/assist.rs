//! Questions that an editor asks about a file: what is at a place, what it belongs to, where it is
//! defined. Answers are found in tokens and tree, without evaluation, so that they are there while
//! a file is being written.

use crate::ast::{Kind, Module, NodeId};
use crate::source::Span;
use crate::token::{Keyword, Token, TokenKind};

/// An `object`, `template` or `apply` with a written name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDefinition {
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
pub fn named(module: &Module) -> Vec<NamedDefinition> {
    let tokens: Vec<&Token> = solid(module).collect();
    let one = |three: &[&Token]| {
        let [head, of_type, name] = three else { return None };
        let TokenKind::Keyword(keyword) = head.kind else { return None };
        let is_definition = is_definition(keyword)
            && of_type.kind == TokenKind::Name
            && name.kind == TokenKind::String;
        is_definition.then(|| NamedDefinition {
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

/// What belongs to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The name of a template.
    Template,
    /// A type: of the definition that this word begins.
    Type(Keyword),
    /// A type that rules can be applied to.
    Target,
    /// A member of what these names lead to: `container`, `vars`.
    Member(Vec<String>),
    /// The value of this attribute.
    Value(String),
    /// A variable, a constant, a function.
    Expression,
    /// A statement.
    Statement,
}

/// What belongs to a place: told by the words before it in its statement.
pub fn wanted(module: &Module, at: u32) -> Completion {
    if is_after_import(module, at) {
        return Completion::Template;
    }
    let is_word =
        |kind| matches!(kind, TokenKind::Name | TokenKind::String | TokenKind::Keyword(_));
    let before = module.tokens.iter().take_while(|token| token.span.start < at);
    let mut before: Vec<&Token> = before.filter(|t| t.kind != TokenKind::Comment).collect();
    // The word that is being written is what is looked for.
    if before.last().is_some_and(|token| is_word(token.kind) && token.span.end >= at) {
        before.pop();
    }
    match before.last().map(|token| token.kind) {
        Some(TokenKind::Dot) => Completion::Member(path_before(module, &before)),
        Some(TokenKind::Keyword(keyword)) if is_definition(keyword) => Completion::Type(keyword),
        Some(TokenKind::Keyword(Keyword::To)) => Completion::Target,
        Some(TokenKind::Newline | TokenKind::Semicolon | TokenKind::OpenBrace) | None => {
            Completion::Statement
        }
        _ => in_statement(module, &before),
    }
}

/// The names before a dot: `container.vars.`.
fn path_before(module: &Module, before: &[&Token]) -> Vec<String> {
    let mut names = Vec::new();
    for pair in before.rchunks(2) {
        let [name, dot] = pair else { break };
        if dot.kind != TokenKind::Dot || name.kind != TokenKind::Name {
            break;
        }
        names.insert(0, text(module, name));
    }
    names
}

/// A value behind `NAME =`, else an expression.
fn in_statement(module: &Module, before: &[&Token]) -> Completion {
    let ends = |token: &&Token| {
        matches!(token.kind, TokenKind::Newline | TokenKind::Semicolon | TokenKind::OpenBrace)
    };
    let from = before.iter().rposition(ends).map_or(0, |at| at + 1);
    match before.get(from..) {
        Some([name, sign, ..])
            if name.kind == TokenKind::Name
                && matches!(text(module, sign).as_str(), "=" | "+=") =>
        {
            Completion::Value(text(module, name))
        }
        _ => Completion::Expression,
    }
}

/// The constants, and the keys that `vars` of objects of a type are given, in order.
pub fn keys_of_vars(module: &Module, of_type: &str) -> Vec<String> {
    let one = |index: usize| {
        let Kind::Assign(_, target, _) = &module.nodes.get(index)?.kind else { return None };
        let Kind::Index(base, key) = module.node(*target).kind else { return None };
        let is_vars = last_name(module, base) == Some(b"vars");
        let is_of_type =
            type_around(module, module.node(*target).span.start).as_deref() == Some(of_type);
        (is_vars && is_of_type).then(|| last_name(module, key))?
    };
    let found = (0..module.nodes.len()).filter_map(one);
    let mut keys: Vec<String> =
        found.map(|key| String::from_utf8_lossy(key).into_owned()).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// The names of constants and global variables.
pub fn constants(module: &Module) -> Vec<String> {
    let one = |node: &crate::ast::Node| match &node.kind {
        Kind::Const(atom, _) => Some(String::from_utf8_lossy(module.atom(*atom)).into_owned()),
        _ => None,
    };
    module.nodes.iter().filter_map(one).collect()
}

/// What a word at a place stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A member, behind a dot or set in a dictionary.
    Member,
    /// A variable or constant.
    Variable,
    /// A text.
    Text,
}

/// The role of the word at a place.
pub fn role_at(module: &Module, at: u32) -> Option<Role> {
    let index = module.tokens.iter().position(|t| {
        t.span.start <= at
            && at <= t.span.end
            && matches!(t.kind, TokenKind::Name | TokenKind::String)
    })?;
    Some(role(module, index))
}

fn role(module: &Module, index: usize) -> Role {
    let is_behind_dot =
        index.checked_sub(1).is_some_and(|before| module.tokens[before].kind == TokenKind::Dot);
    match module.tokens[index].kind {
        TokenKind::String => Role::Text,
        _ if is_behind_dot => Role::Member,
        _ => Role::Variable,
    }
}

/// Every place of a word in the same role. Of a text the span is without its quotes.
pub fn uses(module: &Module, word: &str, wanted: Role) -> Vec<Span> {
    let one = |(index, token): (usize, &Token)| {
        let is_word = matches!(token.kind, TokenKind::Name | TokenKind::String);
        let found = text(module, token);
        let is_same = found.trim_matches('"').trim_start_matches('@') == word;
        if !is_word || !is_same || role(module, index) != wanted {
            return None;
        }
        let quotes = u32::from(token.kind == TokenKind::String);
        Some(Span { start: token.span.start + quotes, end: token.span.end - quotes })
    };
    module.tokens.iter().enumerate().filter_map(one).collect()
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
    fn what_belongs_to_a_place_is_known() {
        let check = |text: &str, expected: Completion| {
            let at = text.find('|').expect("a place") as u32;
            let source = Source::new("t", text.replace('|', "").as_bytes());
            let module = crate::parse(FileId(0), source).0;
            assert_eq!(wanted(&module, at), expected, "{text}");
        };
        let value = |name: &str| Completion::Value(name.to_owned());
        let member = |names: &[&str]| {
            Completion::Member(names.iter().map(|name| (*name).to_owned()).collect())
        };
        check("|", Completion::Statement);
        check("obj|", Completion::Statement);
        check("object |", Completion::Type(Keyword::Object));
        check("apply Ser|", Completion::Type(Keyword::Apply));
        check("apply Service \"x\" to |", Completion::Target);
        check("object Service \"x\" {\n  Res|", Completion::Statement);
        check("object Service \"x\" {\n  Restart = |", value("Restart"));
        check("object Service \"x\" {\n  Restart = \"al|\"\n}", value("Restart"));
        check("object Service \"x\" {\n  After += [ \"a\", |", value("After"));
        check("object Service \"x\" {\n  import \"|\"\n}", Completion::Template);
        check(
            "apply Service \"x\" to Container {\n  assign where container.|\n}",
            member(&["container"]),
        );
        check("x = container.vars.ti|", member(&["container", "vars"]));
        check("apply Service \"x\" to Container {\n  assign where |\n}", Completion::Expression);
    }

    #[test]
    fn words_are_found_in_their_roles() {
        let text = "const Tier = 1\nobject Container \"Tier\" {\n  vars.Tier = Tier\n}\nx = globals.Tier\n";
        let module = crate::parse(FileId(0), Source::new("t", text.as_bytes())).0;
        let starts = |role| uses(&module, "Tier", role).iter().map(|s| s.start).collect::<Vec<_>>();
        let at = |part: &str| text.find(part).expect("it is there") as u32;
        assert_eq!(starts(Role::Variable), [6, at("Tier\n}")]);
        assert_eq!(starts(Role::Text), [at("Tier\" {")]);
        assert_eq!(
            starts(Role::Member),
            [at("Tier = Tier"), at("Tier\n",).max(text.len() as u32 - 5)]
        );
        assert_eq!(role_at(&module, 7), Some(Role::Variable));
        assert_eq!(keys_of_vars(&module, "Container"), ["Tier"]);
        assert_eq!(constants(&module), ["Tier"]);
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
