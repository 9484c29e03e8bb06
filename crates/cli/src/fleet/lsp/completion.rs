//! What can stand at a place.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use warren_fleet::assist::{self, Completion};
use warren_fleet::ast::Module;
use warren_fleet::library::BUILTINS;
use warren_fleet::schema;
use warren_fleet::token::Keyword;
use warren_fleet::types::{Field, Kind, Type};
use warren_unit::settings::Kind as Setting;

use super::answers::{place, type_called};
use super::documents::Documents;

/// LSP's kinds of completions.
const FUNCTION: u8 = 3;
const CLASS: u8 = 7;
const PROPERTY: u8 = 10;
const VALUE: u8 = 12;
const KEYWORD: u8 = 14;
const CONSTANT: u8 = 21;

/// Words that begin a statement at the top level.
const AT_THE_TOP: [&str; 14] = [
    "apply",
    "const",
    "for",
    "function",
    "if",
    "include",
    "include_recursive",
    "namespace",
    "object",
    "template",
    "throw",
    "try",
    "var",
    "while",
];

/// Words that begin a statement in the body of an object or rule, besides its attributes.
const IN_BODIES: [&str; 7] =
    ["assign where", "for", "ignore where", "if", "import", "throw", "var"];

pub(super) fn completion(documents: &Documents, parameters: &Value) -> Value {
    let Some((uri, module, at)) = place(documents, parameters) else { return Value::Null };
    let modules = || documents.modules(&uri);
    let around = assist::type_around(&module, at);
    let of_type = around.as_deref().and_then(type_called);
    match assist::wanted(&module, at) {
        Completion::Template => templates(&modules(), around.as_deref()),
        Completion::Type(keyword) => types(keyword),
        Completion::Target => words(&target_names(), CLASS),
        Completion::Member(path) => members(&path, &modules()),
        Completion::Value(name) => match of_type.and_then(|of_type| field(of_type, &name)) {
            Some(field) => values(&field, &modules()),
            None => expressions(&modules()),
        },
        Completion::Expression => expressions(&modules()),
        Completion::Statement => match of_type {
            Some(of_type) => statements(&of_type),
            None => words(&AT_THE_TOP, KEYWORD),
        },
    }
}

fn words(all: &[impl AsRef<str>], kind: u8) -> Value {
    all.iter().map(|word| json!({"label": word.as_ref(), "kind": kind})).collect()
}

fn field(of_type: Type, name: &str) -> Option<Field> {
    of_type.fields.into_iter().find(|field| field.name == name)
}

fn templates(modules: &[Module], of_type: Option<&str>) -> Value {
    let named = modules.iter().flat_map(assist::named);
    let names: BTreeSet<String> = named
        .filter(|named| named.keyword == Keyword::Template)
        .filter(|named| of_type.is_none_or(|of_type| named.of_type == of_type))
        .map(|named| named.name)
        .collect();
    words(&names.into_iter().collect::<Vec<_>>(), CLASS)
}

/// The types that a definition can be of: rules make units alone.
fn types(keyword: Keyword) -> Value {
    let is_made = |of_type: &Type| {
        let targets = of_type.rules.as_ref().map_or(0, |rules| rules.targets.len());
        keyword != Keyword::Apply || targets > 0
    };
    let all = schema::warrener::types().into_iter().filter(is_made);
    words(&all.map(|of_type| of_type.name).collect::<Vec<_>>(), CLASS)
}

/// The types that rules can be applied to.
fn target_names() -> Vec<String> {
    let all = schema::warrener::types();
    let is_target = |of_type: &&Type| {
        all.iter().any(|other| {
            let targets = other.rules.as_ref().map(|rules| &rules.targets);
            targets.is_some_and(|targets| targets.contains(&of_type.name.as_str()))
        })
    };
    all.iter().filter(is_target).map(|of_type| of_type.name.clone()).collect()
}

/// What `container.` has, and `container.vars.` in any of the rules.
fn members(path: &[String], modules: &[Module]) -> Value {
    let variable = path.first().map(String::as_str).unwrap_or_default();
    let all = schema::warrener::types();
    let of_type = all
        .into_iter()
        .find(|of_type| of_type.rules.as_ref().is_some_and(|rules| rules.variable == variable));
    match (of_type, path.get(1).map(String::as_str), path.len()) {
        (Some(of_type), None, 1) => {
            words(&of_type.fields.iter().map(|field| &field.name).collect::<Vec<_>>(), PROPERTY)
        }
        (Some(of_type), Some("vars"), 2) => {
            let keys = modules.iter().flat_map(|m| assist::keys_of_vars(m, &of_type.name));
            words(&keys.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), PROPERTY)
        }
        _ => json!([]),
    }
}

/// What a setting can be; where that cannot be listed, what an expression can be.
fn values(field: &Field, modules: &[Module]) -> Value {
    let quoted = |all: &[&str]| -> Value {
        let of = |word: &&str| json!({"label": word, "kind": VALUE, "insertText": format!("\"{word}\"")});
        all.iter().map(of).collect()
    };
    let truths = words(&["true", "false"], VALUE);
    let Kind::Setting(id) = field.kind else { return expressions(modules) };
    match id.setting().kind {
        Setting::Word(all) => quoted(all),
        Setting::BoolOr(all) => join(truths, quoted(all)),
        Setting::Bool => truths,
        Setting::Units(_) | Setting::Names => {
            let units = units(modules);
            let units: Vec<&str> = units.iter().map(String::as_str).collect();
            join(quoted(&units), expressions(modules))
        }
        _ => expressions(modules),
    }
}

fn join(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Array(mut first), Value::Array(second)) => {
            first.extend(second);
            Value::Array(first)
        }
        (first, _) => first,
    }
}

/// The units that objects of the rules are: what rules make has no name before they are evaluated.
fn units(modules: &[Module]) -> BTreeSet<String> {
    let objects = modules.iter().flat_map(assist::named);
    let objects = objects.filter(|named| named.keyword == Keyword::Object);
    let is_unit = |of_type: &str| {
        type_called(of_type).and_then(|t| t.rules).is_some_and(|rules| !rules.targets.is_empty())
    };
    objects
        .filter(|named| is_unit(&named.of_type))
        .map(|named| format!("{}.{}", named.name, named.of_type.to_lowercase()))
        .collect()
}

/// Constants, functions and what a rule is about.
fn expressions(modules: &[Module]) -> Value {
    let constants: BTreeSet<String> = modules.iter().flat_map(assist::constants).collect();
    let constants = words(&constants.into_iter().collect::<Vec<_>>(), CONSTANT);
    let variables = words(&["container", "group", "machine"], PROPERTY);
    let names = BUILTINS.iter().filter_map(|builtin| match builtin.name.split_once('#') {
        Some(("System" | "Warrener", name)) => Some(name),
        _ => None,
    });
    let functions =
        words(&names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), FUNCTION);
    join(join(variables, constants), functions)
}

fn statements(of_type: &Type) -> Value {
    // What only the engine sets cannot be written.
    let fields = of_type.fields.iter().filter(|field| field.kind != Kind::ReadOnly);
    let item = |field: &Field| {
        let detail = match field.kind {
            Kind::Setting(id) => Some(warren_unit::doc::kind(id.setting().kind)),
            _ => None,
        };
        json!({
            "label": field.name, "kind": PROPERTY, "detail": detail,
            "insertText": format!("{} = ", field.name),
        })
    };
    join(fields.map(item).collect(), words(&IN_BODIES, KEYWORD))
}
