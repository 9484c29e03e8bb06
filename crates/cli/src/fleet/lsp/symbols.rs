//! Definitions by name, where words are used, and another name for all of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use warren_fleet::assist::{self, NamedDefinition, Role};
use warren_fleet::ast::Module;
use warren_fleet::token::Keyword;
use warren_fleet::{Span, schema};

use super::answers::{location, place};
use super::documents::{Documents, position};

/// LSP's kinds of symbols: a class, a function, a constant, an object.
const CLASS: u8 = 5;
const FUNCTION: u8 = 12;
const CONSTANT: u8 = 14;
const OBJECT: u8 = 19;

fn symbol(named: &NamedDefinition) -> (String, u8, Span) {
    let kind = match named.keyword {
        Keyword::Template => CLASS,
        Keyword::Apply => FUNCTION,
        _ => OBJECT,
    };
    let name = format!("{} {} \"{}\"", named.keyword.text(), named.of_type, named.name);
    (name, kind, named.span)
}

/// Definitions and constants of a file.
fn symbols(module: &Module) -> Vec<(String, u8, Span)> {
    let named = assist::named(module);
    let constants = assist::constants(module).into_iter().filter_map(|name| {
        let span = assist::set(module, &name).into_iter().next()?;
        Some((format!("const {name}"), CONSTANT, span))
    });
    let mut all: Vec<_> = named.iter().map(symbol).chain(constants).collect();
    all.sort_by_key(|(.., span)| span.start);
    all
}

/// The symbols of a document.
pub(super) fn of_document(documents: &Documents, parameters: &Value) -> Value {
    let uri = parameters["textDocument"]["uri"].as_str().unwrap_or_default();
    let Some(module) = documents.module(uri) else { return Value::Null };
    let one = |(name, kind, span): (String, u8, Span)| {
        let range = location(&module, span)["range"].clone();
        json!({"name": name, "kind": kind, "range": range, "selectionRange": range})
    };
    symbols(&module).into_iter().map(one).collect()
}

/// The symbols of all rules whose names have a text in them.
pub(super) fn of_all(documents: &Documents, parameters: &Value) -> Value {
    let wanted = parameters["query"].as_str().unwrap_or_default().to_lowercase();
    let mut out = Vec::new();
    for module in documents.all_modules() {
        for (name, kind, span) in symbols(&module) {
            if name.to_lowercase().contains(&wanted) {
                out.push(json!({"name": name, "kind": kind, "location": location(&module, span)}));
            }
        }
    }
    json!(out)
}

/// Where a word is used, by file.
type Uses = Vec<(Module, Vec<Span>)>;

/// A word, its role, and where it is used in all rules.
fn uses(documents: &Documents, parameters: &Value) -> Option<(String, Role, Uses)> {
    let (uri, module, at) = place(documents, parameters)?;
    let (word, role) = (assist::word_at(&module, at)?, assist::role_at(&module, at)?);
    let of = |module: Module| {
        let spans = assist::uses(&module, &word, role);
        (!spans.is_empty()).then_some((module, spans))
    };
    let all = documents.modules(&uri).into_iter().filter_map(of).collect();
    Some((word, role, all))
}

/// Where the word at a place is used in the same role.
pub(super) fn references(documents: &Documents, parameters: &Value) -> Value {
    let Some((.., all)) = uses(documents, parameters) else { return Value::Null };
    let locations = all
        .iter()
        .flat_map(|(module, spans)| spans.iter().map(move |span| location(module, *span)));
    locations.collect()
}

/// Another name for the word at a place, in all rules.
///
/// # Errors
/// In words: it is the name of a setting or of a function, or the new one is no name.
pub(super) fn rename(documents: &Documents, parameters: &Value) -> Result<Value, String> {
    let new = parameters["newName"].as_str().unwrap_or_default();
    let Some((word, role, all)) = uses(documents, parameters) else {
        return Err("there is no name at this position".to_owned());
    };
    check(&word, role, new, &all)?;
    let mut changes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (module, spans) in &all {
        let edits = spans.iter().map(|span| {
            let source = &module.source;
            let range =
                json!({"start": position(source, span.start), "end": position(source, span.end)});
            json!({"range": range, "newText": new})
        });
        changes.entry(documents.uri(&module.source.path)).or_default().extend(edits);
    }
    Ok(json!({"changes": changes}))
}

fn check(word: &str, role: Role, new: &str, all: &[(Module, Vec<Span>)]) -> Result<(), String> {
    let is_field = || {
        let types = schema::warrener::types();
        types.iter().any(|t| t.name == word || t.fields.iter().any(|field| field.name == word))
    };
    let is_name = |text: &str| {
        let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        starts && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match role {
        Role::Text if new.is_empty() || new.contains(['"', '\\', '\n']) => {
            Err(format!("'{new}' cannot stand between quotes"))
        }
        // Other texts may mean anything.
        Role::Text => {
            let mut named = all.iter().flat_map(|(module, _)| assist::named(module));
            match named.any(|named| named.name == word) {
                true => Ok(()),
                false => Err(format!("\"{word}\" is not the name of an object, template or rule")),
            }
        }
        _ if !is_name(new) => Err(format!("'{new}' is not a valid name")),
        _ if is_field() => Err(format!("'{word}' is a name of Warrener")),
        Role::Variable => {
            let is_set = all.iter().any(|(module, _)| !assist::set(module, word).is_empty());
            if is_set { Ok(()) } else { Err(format!("'{word}' is not set in these rules")) }
        }
        Role::Member => Ok(()),
    }
}
