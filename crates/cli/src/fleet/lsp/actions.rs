//! What can be done about a fault: the name that was meant.

use serde_json::{Value, json};

use super::documents::Documents;
use crate::lsp::text::{offset, range};

/// What a message says between these, if it does.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

/// For each fault that says what may have been meant: to write that.
pub(super) fn actions(documents: &Documents, parameters: &Value) -> Value {
    let uri = parameters["textDocument"]["uri"].as_str().unwrap_or_default();
    let Some(text) = documents.text(uri) else { return Value::Null };
    let faults = parameters["context"]["diagnostics"].as_array().into_iter().flatten();
    faults.filter_map(|fault| action(uri, text, fault)).collect()
}

fn action(uri: &str, text: &str, fault: &Value) -> Option<Value> {
    let message = fault["message"].as_str()?;
    let meant = between(message, "did you mean `", "`?")?;
    let marked = &fault["range"];
    let [start, end] = ["start", "end"].map(|end| offset(text, &marked[end]) as usize);
    let inside = text.get(start..end)?;
    // The misspelt name is what the message quotes and the text has.
    let mut quoted = message.split('\'').skip(1).step_by(2);
    let wrong = quoted.find(|word| !word.is_empty() && inside.contains(word))?;
    let from = start + inside.rfind(wrong)?;
    let edit = json!({
        "range": range(text, &(from..from + wrong.len())), "newText": meant,
    });
    Some(json!({
        "title": format!("Write `{meant}`"), "kind": "quickfix", "isPreferred": true,
        "diagnostics": [fault], "edit": {"changes": {uri: [edit]}},
    }))
}
