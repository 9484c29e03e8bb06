//! The reference page of the control socket's messages, from their types.
//!
//! - Owns: how a JSON Schema becomes tables.
//! - Must not: say of a field what its type does not.
//! - Runs on the main thread of xtask.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value};
use warren_wire::control::{MethodSchema, VERSION, schemas};

/// A line of text; writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => { writeln!($out, $($arg)*).expect("a string grows") };
}

/// The page.
pub fn page() -> String {
    let mut out = format!(
        "# Messages of the control socket\n\n\
         Generated from the types that the manager and `warren` share (`crates/wire`). \
         [The control socket](protocol.md) says how a message is sent. This is version {VERSION} of the language, which \
         is also the `format` in what `warren --json` prints. Within a version an answer only gains fields, and a word \
         may be new: pass over what you do not know.\n\n\
         A parameter that is null counts as left out. A field of an answer is null where there is nothing to say, or \
         left out if its type says so.\n\n"
    );
    let schemas = schemas();
    for schema in &schemas {
        method(&mut out, schema);
    }
    put!(out, "## Parts of answers\n");
    let mut parts = BTreeMap::new();
    for schema in &schemas {
        let defined = schema.answer["$defs"].as_object().into_iter().flatten();
        parts.extend(defined);
    }
    for (name, part) in parts {
        put!(out, "### {name}\n\n{}\n", text(part, "description"));
        fields(&mut out, part, Side::Answer);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Whose fields are shown.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Request,
    Answer,
}

fn method(out: &mut String, schema: &MethodSchema) {
    let (name, about) = (schema.method.name(), text(&schema.parameters, "description"));
    put!(out, "## {name}\n\n{about}\n");
    if schema.method.changes() {
        put!(
            out,
            "For root and the manager's own user. A parameter that is not here is refused.\n"
        );
    }
    if has_fields(&schema.parameters) {
        put!(out, "Parameters:\n");
        fields(out, &schema.parameters, Side::Request);
    }
    match has_fields(&schema.answer) {
        true => {
            put!(out, "Answer:\n");
            fields(out, &schema.answer, Side::Answer);
        }
        false => put!(out, "The answer has no fields.\n"),
    }
}

fn has_fields(schema: &Value) -> bool {
    schema["properties"].as_object().is_some_and(|fields| !fields.is_empty())
}

fn fields(out: &mut String, schema: &Value, side: Side) {
    put!(out, "| field | type | what |\n|--|--|--|");
    let none = Map::new();
    for (name, field) in schema["properties"].as_object().unwrap_or(&none) {
        let about = text(field, "description").replace('\n', " ");
        // The schema has a default for what is always written. What may be left out is null where its words say so.
        let may_lack = side == Side::Answer && field.get("default").is_none();
        let null = match side {
            Side::Request => Null::GoesWithoutSaying,
            Side::Answer if may_lack && !about.contains("null") => Null::GoesWithoutSaying,
            Side::Answer => Null::IsSaid,
        };
        let left_out = if may_lack { ", or left out" } else { "" };
        put!(out, "| `{name}` | {}{left_out} | {about} |", kind(field, null));
    }
    put!(out, "");
}

/// Whether it is said that a field may be null.
#[derive(Clone, Copy, PartialEq)]
enum Null {
    IsSaid,
    GoesWithoutSaying,
}

/// What a field may be, in words.
fn kind(field: &Value, null: Null) -> String {
    if let Some(name) = field["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return match name {
            "ReasonCode" => "code".to_owned(),
            _ => format!("[{name}](#{})", name.to_lowercase()),
        };
    }
    let of_one = |one: &str| match one {
        "string" if field["examples"].is_array() => words(field),
        "string" => "text".to_owned(),
        "integer" => "number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => format!("list of {}", kind(&field["items"], null)),
        "object" => format!("{} by name", kind(&field["additionalProperties"], null)),
        other => other.to_owned(),
    };
    let choices: Vec<String> = match (&field["type"], field["anyOf"].as_array()) {
        (Value::String(one), _) => vec![of_one(one)],
        (Value::Array(all), _) => all.iter().filter_map(Value::as_str).map(of_one).collect(),
        (_, Some(all)) => all.iter().map(|one| kind(one, Null::IsSaid)).collect(),
        _ => vec!["anything".to_owned()],
    };
    let is_said = |choice: &String| null == Null::IsSaid || choice != "null";
    choices.into_iter().filter(is_said).collect::<Vec<_>>().join(", or ")
}

fn words(field: &Value) -> String {
    let words = field["examples"].as_array().into_iter().flatten().filter_map(Value::as_str);
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_of_fields_in_words() {
        let check = |field: Value, said: &str, not_said: &str| {
            let got = [Null::IsSaid, Null::GoesWithoutSaying].map(|null| kind(&field, null));
            assert_eq!(got, [said, not_said], "{field}");
        };
        check(json!({"type": ["string", "null"]}), "text, or null", "text");
        check(json!({"type": "string", "examples": ["a", "b"]}), "`a`, `b`", "`a`, `b`");
        let row = json!({"$ref": "#/$defs/JobRow"});
        check(
            json!({"type": "array", "items": row}),
            "list of [JobRow](#jobrow)",
            "list of [JobRow](#jobrow)",
        );
        check(
            json!({"anyOf": [row, {"type": "null"}]}),
            "[JobRow](#jobrow), or null",
            "[JobRow](#jobrow)",
        );
        let counts = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        check(counts, "number by name", "number by name");
        let texts = json!({"type": ["string", "array"], "items": {"type": "string"}});
        check(texts, "text, or list of text", "text, or list of text");
    }

    #[test]
    fn every_method_is_on_the_page() {
        let page = page();
        for schema in schemas() {
            let heading = format!("\n## {}\n", schema.method.name());
            assert_eq!(page.matches(&heading).count(), 1, "{heading}");
        }
        assert!(!page.contains("anything") && !page.contains("| `` |"), "a type has no words");
    }
}
