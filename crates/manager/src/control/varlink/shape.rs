//! What a field of varlink makes of a value of D-Bus, by the field's type. Pure.

use serde_json::{Map, Value};
use warren_sandbox::seccomp::settings::NAMESPACES;
use warren_unit::signal::Signal;
use warren_unit::value::{boolean, capability_name};

use super::idl::{Interface, Type};

/// The value as the field has it; none where it says that nothing is set, or cannot be said.
pub(crate) fn shaped(interface: &Interface, of: &Type, raw: &Value) -> Option<Value> {
    match (interface.resolved(of), raw) {
        (Type::Maybe(inner), raw) => shaped(interface, inner, raw).filter(|v| !says_nothing(v)),
        (Type::Bool, Value::Bool(_))
        | (Type::Int | Type::Float, Value::Number(_))
        | (Type::Text, Value::String(_))
        | (Type::Any, _)
        | (Type::Object, Value::Object(_)) => Some(raw.clone()),
        (Type::Text, Value::Bool(on)) => Some(yes_or_no(*on).into()),
        (Type::Text, Value::Number(number)) => Some(number.to_string().into()),
        (Type::Enum(words), Value::String(text)) => word(words, text),
        (Type::Enum(words), Value::Bool(on)) => word(words, yes_or_no(*on)),
        (Type::List(inner), Value::Array(items)) => {
            let items = items.iter().map(|item| shaped(interface, inner, item));
            items.collect::<Option<Vec<_>>>().map(Value::Array)
        }
        (Type::Struct(fields), Value::Array(values)) => {
            let mut object = Map::new();
            for ((name, field), value) in fields.iter().zip(values) {
                match (shaped(interface, field, value), field) {
                    (Some(value), _) => drop(object.insert(name.clone(), value)),
                    (None, Type::Maybe(_)) => {}
                    (None, _) => return None,
                }
            }
            Some(object.into())
        }
        _ => None,
    }
}

/// What the text of a setting means for a field that D-Bus of systemd 252 does not have.
pub(crate) fn of_text(interface: &Interface, of: &Type, text: &str) -> Option<Value> {
    match interface.resolved(of) {
        Type::Maybe(inner) => of_text(interface, inner, text).filter(|v| !says_nothing(v)),
        Type::Bool => boolean(text).ok().map(Value::Bool),
        Type::Int => text.parse::<i64>().ok().map(Value::from),
        Type::Text => Some(text.into()),
        Type::Enum(words) => word(words, text)
            .or_else(|| boolean(text).ok().and_then(|on| word(words, yes_or_no(on)))),
        Type::List(inner) if matches!(**inner, Type::Text) => {
            Some(text.split_whitespace().collect::<Vec<_>>().into())
        }
        _ => None,
    }
}

/// Whether it is what stands for nothing: an empty text or list, the number that is no limit, or parts of which none
/// says anything.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => number.as_u64() == Some(u64::MAX),
        // As a list that forbids nothing.
        Value::Object(fields) => fields.values().all(|v| *v == false || says_nothing(v)),
        Value::Bool(_) => false,
    }
}

fn yes_or_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

/// Words of varlink have `_` where those of files have `-`. What a later version has more words for, the plain `yes`
/// of an earlier one means the first of them.
fn word(words: &[String], text: &str) -> Option<Value> {
    let text = text.replace('-', "_");
    let known = |word: &str| words.iter().any(|known| known == word);
    match &*text {
        "yes" if !known("yes") => {
            ["connected", "self"].into_iter().find(|word| known(word)).map(Value::from)
        }
        text => known(text).then(|| text.into()),
    }
}

/// A signal without `SIG`.
pub(crate) fn signal(number: &Value) -> Option<Value> {
    let signal = Signal::new(i32::try_from(number.as_i64()?).ok()?)?;
    Some(signal.to_string().trim_start_matches("SIG").into())
}

/// The names of a set of capabilities.
pub(crate) fn capabilities(set: &Value) -> Option<Value> {
    let set = set.as_u64()?;
    let named = (0..64).filter(|bit| set & (1 << bit) != 0).filter_map(capability_name);
    let names: Vec<String> = named.map(|name| format!("cap_{}", name.to_lowercase())).collect();
    Some(names.into())
}

/// The names of a set of namespaces.
pub(crate) fn namespaces(set: &Value) -> Option<Value> {
    let set = set.as_u64()?;
    let named =
        NAMESPACES.iter().filter(|(_, flag)| set & u64::from(*flag) != 0).map(|(name, _)| *name);
    Some(named.collect::<Vec<_>>().into())
}

/// The numbers of bits of a set that comes as bytes.
pub(crate) fn bits(bytes: &Value) -> Option<Value> {
    let bytes = bytes.as_array()?;
    let is_set =
        |bit: &usize| bytes[bit / 8].as_u64().is_some_and(|byte| byte & (1 << (bit % 8)) != 0);
    let set: Vec<usize> = (0..bytes.len() * 8).filter(is_set).collect();
    (!set.is_empty()).then(|| set.into())
}

/// The word at this place; none below the first and behind the last.
pub(crate) fn word_at(words: &[&str], index: &Value) -> Option<Value> {
    let index = usize::try_from(index.as_i64()?).ok()?;
    words.get(index).filter(|word| !word.is_empty()).map(|word| (*word).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(field: &str, raw: Value, expected: Option<Value>) {
        let text = format!(
            "interface a.b\ntype Kind (no, read_only, connected)\n\
             type Part (path: string, limit: ?int)\ntype Pair (allow: bool, items: []string)\ntype All (field: {field})\n"
        );
        let interface = Interface::parse(&text).expect("a description");
        let (_, of) = &interface.fields("All")[0];
        assert_eq!(shaped(&interface, of, &raw), expected, "{field} {raw}");
    }

    #[test]
    fn values_of_d_bus_become_those_of_the_fields_type() {
        check("?int", json!(u64::MAX), None);
        check("int", json!(3), Some(json!(3)));
        check("?string", json!(""), None);
        check("?string", json!(true), Some(json!("yes")));
        check("?Kind", json!("read-only"), Some(json!("read_only")));
        check("?Kind", json!(true), Some(json!("connected")));
        check("?Kind", json!(false), Some(json!("no")));
        check("?Kind", json!("other"), None);
        check("?[]string", json!([]), None);
        let parts = json!([["/a", 7], ["/b", u64::MAX]]);
        check("?[]Part", parts, Some(json!([{"path": "/a", "limit": 7}, {"path": "/b"}])));
        check("?[]Part", json!([[["x"], 7]]), None);
        check("?Pair", json!([false, []]), None);
        let pair = json!({"allow": true, "items": []});
        check("?Pair", json!([true, []]), Some(pair));
    }

    #[test]
    fn sets_and_numbers_have_names() {
        assert_eq!(signal(&json!(15)), Some(json!("TERM")));
        assert_eq!(signal(&json!(0)), None);
        assert_eq!(capabilities(&json!(0b11)), Some(json!(["cap_chown", "cap_dac_override"])));
        assert_eq!(namespaces(&json!(0x4000_0080_u64)), Some(json!(["net", "time"])));
        assert_eq!(bits(&json!([5, 1])), Some(json!([0, 2, 8])));
        assert_eq!(word_at(&["other", "", "rr"], &json!(2)), Some(json!("rr")));
        assert_eq!(word_at(&["other", "", "rr"], &json!(1)), None);
        assert_eq!(word_at(&["other"], &json!(-1)), None);
    }
}
