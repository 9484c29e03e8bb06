//! What an editor asks about a place.

use serde_json::{Value, json};
use warren_fleet::ast::Module;
use warren_fleet::types::{Kind, Type};
use warren_fleet::{FileId, Severity, Source, assist, format, parse, schema};
use warren_unit::settings::Id;

use super::documents::{Documents, position};
use crate::lsp::text::{offset, uri_of};

/// A document and the byte that a question is about.
pub(super) fn place(documents: &Documents, parameters: &Value) -> Option<(String, Module, u32)> {
    let uri = parameters["textDocument"]["uri"].as_str()?.to_owned();
    let at = offset(documents.text(&uri)?, &parameters["position"]);
    let module = documents.module(&uri)?;
    Some((uri, module, at))
}

pub(super) fn type_called(name: &str) -> Option<Type> {
    schema::warrener::types().into_iter().find(|of_type| of_type.name == name)
}

/// A setting in a few lines: what it takes, what more than one means, what is done with it.
fn setting_text(id: Id) -> Option<String> {
    let setting = id.setting();
    let value = warren_unit::doc::kind(setting.kind);
    let meaning = setting.meaning().unwrap_or_default();
    Some(format!(
        "`{}=` {value}\n\n{meaning}\n\n{}; {}",
        setting.name,
        setting.group.manual(),
        setting.status.as_str()
    ))
}

/// What is known of the word at a place.
pub(super) fn hover(documents: &Documents, parameters: &Value) -> Value {
    let found = || {
        let (uri, module, at) = place(documents, parameters)?;
        let word = assist::word_at(&module, at)?;
        attribute(&module, at, &word).or_else(|| definitions_text(documents, &uri, &word))
    };
    match found() {
        Some(text) => json!({"contents": {"kind": "markdown", "value": text}}),
        None => Value::Null,
    }
}

/// An attribute of the type around a place.
fn attribute(module: &Module, at: u32, word: &str) -> Option<String> {
    let of_type = type_called(&assist::type_around(module, at)?)?;
    let field = of_type.fields.into_iter().find(|field| field.name == word)?;
    match field.kind {
        Kind::Setting(id) => setting_text(id),
        kind => Some(format!("`{word}` of {}: {}", of_type.name, takes(kind))),
    }
}

/// What an attribute that is no setting takes.
fn takes(kind: Kind) -> String {
    match kind {
        Kind::Any => "any value".to_owned(),
        Kind::Text => "a text".to_owned(),
        Kind::Number | Kind::Integer => "a number".to_owned(),
        Kind::Count => "a number from 0 to 10,000".to_owned(),
        Kind::Boolean => "true or false".to_owned(),
        Kind::Array => "an array".to_owned(),
        Kind::Dictionary => "a dictionary".to_owned(),
        Kind::Function => "a function".to_owned(),
        Kind::Name(of_type) => format!("the name of a {of_type}"),
        Kind::Names(of_type) => format!("names of objects of type {of_type}"),
        Kind::Setting(id) => warren_unit::doc::kind(id.setting().kind),
        Kind::ReadOnly => "set by Warrener alone".to_owned(),
    }
}

/// The definitions of a name.
fn definitions_text(documents: &Documents, uri: &str, word: &str) -> Option<String> {
    let mut lines = Vec::new();
    for module in documents.modules(uri) {
        for named in assist::named(&module).into_iter().filter(|named| named.name == word) {
            let source = &module.source;
            let (keyword, at) = (named.keyword.text(), source.describe(named.span.start));
            lines.push(format!("`{keyword} {} \"{word}\"` {at}", named.of_type));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n\n"))
}

/// Where the template, object, constant or attribute at a place is set.
pub(super) fn definition(documents: &Documents, parameters: &Value) -> Value {
    let Some((uri, module, at)) = place(documents, parameters) else { return Value::Null };
    let Some(word) = assist::word_at(&module, at) else { return Value::Null };
    let mut found = Vec::new();
    let modules = documents.modules(&uri);
    for module in &modules {
        let named = assist::named(module).into_iter().filter(|named| named.name == word);
        found.extend(named.map(|named| location(module, named.span)));
    }
    if found.is_empty() {
        for module in &modules {
            let set = assist::set(module, &word);
            found.extend(set.into_iter().map(|span| location(module, span)));
        }
    }
    json!(found)
}

pub(super) fn location(module: &Module, span: warren_fleet::Span) -> Value {
    let source = &module.source;
    json!({
        "uri": uri_of(&source.path),
        "range": {"start": position(source, span.start), "end": position(source, span.end)},
    })
}

/// The whole text laid out; nothing to do for one with faults.
pub(super) fn formatting(documents: &Documents, parameters: &Value) -> Value {
    let uri = parameters["textDocument"]["uri"].as_str().unwrap_or_default();
    let Some(text) = documents.text(uri) else { return Value::Null };
    let source = Source::new(uri, text.as_bytes());
    let (module, faults) = parse(FileId(0), source.clone());
    if faults.iter().any(|fault| fault.severity == Severity::Error) {
        return Value::Null;
    }
    let new = String::from_utf8_lossy(&format::format(&module)).into_owned();
    if new == *text {
        return json!([]);
    }
    let end = position(&source, text.len() as u32);
    json!([{"range": {"start": {"line": 0, "character": 0}, "end": end}, "newText": new}])
}
