//! Values as text: `string()`, `to_string()` and JSON, byte for byte as the installed program
//! writes them.

use std::io::Write;

use crate::heap::Heap;
use crate::token::Keyword;
use crate::types::Types;
use crate::value::{StringId, Value};

/// How deep a value is written; one that contains itself has no end.
const DEPTH_MAX: usize = 100;

/// After so many bytes, what is in arrays and dictionaries is left out.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// Numbers as `string()` writes them: whole ones without a point, others with six digits.
pub fn number(value: f64) -> String {
    match value {
        _ if value.is_nan() => "-nan".to_owned(),
        _ if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.to_owned(),
        _ if value.fract() == 0.0 => format!("{:.0}", if value == 0.0 { 0.0 } else { value }),
        _ => format!("{value:.6}"),
    }
}

/// What `string()` makes of a value.
pub fn string(heap: &Heap<'_>, types: &Types, value: Value) -> Vec<u8> {
    match value {
        Value::Empty => Vec::new(),
        Value::Boolean(value) => value.to_string().into_bytes(),
        Value::Number(value) => number(value).into_bytes(),
        Value::String(id) => heap.bytes(id).to_vec(),
        Value::Array(_) | Value::Dictionary(_) => {
            let mut out = Vec::new();
            literal(heap, value, (0, 0), &mut out);
            out
        }
        Value::Type(id) => format!("type '{}'", types.get(id).name).into_bytes(),
        Value::DateTime(at) => crate::time::default_format(at).into_bytes(),
        value => format!("Object of type '{}'", types.name_of(heap, value)).into_bytes(),
    }
}

/// A value as the language writes it; what has no literal is left out. Lines are indented by the
/// dictionaries around them, not by the arrays.
fn literal(heap: &Heap<'_>, value: Value, (depth, indent): (usize, usize), out: &mut Vec<u8>) {
    match value {
        Value::Empty => out.extend_from_slice(b"null"),
        Value::Boolean(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Number(value) => out.extend_from_slice(format!("{value:.6}").as_bytes()),
        Value::String(id) => quoted(heap.bytes(id), out),
        Value::Array(_) | Value::Dictionary(_)
            if depth > DEPTH_MAX || out.len() > TEXT_BYTES_MAX => {}
        Value::Array(id) => {
            out.extend_from_slice(b"[ ");
            for (at, item) in heap.array(id).items.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b", " } else { b"" });
                literal(heap, *item, (depth + 1, indent), out);
            }
            out.extend_from_slice(if heap.array(id).items.is_empty() { b"]" } else { b" ]" });
        }
        Value::Dictionary(id) => {
            out.extend_from_slice(b"{\n");
            for (key, item) in heap.sorted(id) {
                out.extend(std::iter::repeat_n(b'\t', indent + 1));
                self::key(heap.bytes(key), out);
                out.extend_from_slice(b" = ");
                literal(heap, item, (depth + 1, indent + 1), out);
                out.push(b'\n');
            }
            out.extend(std::iter::repeat_n(b'\t', indent));
            out.push(b'}');
        }
        _ => {}
    }
}

/// A string as the language writes it.
pub fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'"' => out.extend_from_slice(b"\\\""),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
}

fn key(bytes: &[u8], out: &mut Vec<u8>) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_name = bytes.iter().all(is_word) && bytes.first().is_some_and(|b| !b.is_ascii_digit());
    match Keyword::find(bytes) {
        Some(_) => {
            out.push(b'@');
            out.extend_from_slice(bytes);
        }
        None if is_name => out.extend_from_slice(bytes),
        None => quoted(bytes, out),
    }
}

/// JSON of a value.
pub fn json(heap: &Heap<'_>, types: &Types, value: Value) -> Vec<u8> {
    json_with(heap, types, value, &|_| None)
}

/// The same, with the JSON of functions as `function` says it.
pub fn json_with(
    heap: &Heap<'_>,
    types: &Types,
    value: Value,
    function: &dyn Fn(Value) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let mut out = Vec::new();
    Json { heap, types, function, out: &mut out }.value(value, 0);
    out
}

struct Json<'h, 'b> {
    heap: &'h Heap<'b>,
    types: &'h Types,
    function: &'h dyn Fn(Value) -> Option<Vec<u8>>,
    out: &'h mut Vec<u8>,
}

impl Json<'_, '_> {
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, value: Value, depth: usize) {
        match value {
            Value::Empty => self.raw("null"),
            Value::Boolean(value) => self.raw(&value.to_string()),
            Value::Number(value) => self.raw(&json_number(value)),
            Value::String(id) => json_string(self.heap.bytes(id), self.out),
            Value::Array(_) | Value::Dictionary(_) | Value::Namespace(_)
                if depth > DEPTH_MAX || self.out.len() > TEXT_BYTES_MAX =>
            {
                self.raw("null");
            }
            Value::Array(id) => self.array(&self.heap.array(id).items, depth),
            Value::Dictionary(id) | Value::Namespace(id) => {
                self.object(&self.heap.sorted(id), depth)
            }
            other => match (self.function)(other) {
                Some(json) => self.out.extend_from_slice(&json),
                None => json_string(&string(self.heap, self.types, other), self.out),
            },
        }
    }

    fn array(&mut self, items: &[Value], depth: usize) {
        self.raw("[");
        for (at, item) in items.iter().enumerate() {
            self.raw(if at > 0 { "," } else { "" });
            self.value(*item, depth + 1);
        }
        self.raw("]");
    }

    fn object(&mut self, items: &[(StringId, Value)], depth: usize) {
        self.raw("{");
        for (at, (key, item)) in items.iter().enumerate() {
            self.raw(if at > 0 { "," } else { "" });
            json_string(self.heap.bytes(*key), self.out);
            self.raw(":");
            self.value(*item, depth + 1);
        }
        self.raw("}");
    }
}

/// Beyond this, whole numbers are written with an exponent: they fit no 64-bit integer.
const JSON_WHOLE_MAX: f64 = 18_446_744_073_709_551_615.0;

fn json_number(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    if value.fract() == 0.0 && value.abs() < JSON_WHOLE_MAX {
        return format!("{:.0}", if value == 0.0 { 0.0 } else { value });
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match exponent {
        -4..=14 => format!("{value}"),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}

/// A JSON string in ASCII; what is not UTF-8 is replaced.
pub fn json_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            ' '..='~' => out.push(character as u8),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").expect("a vector grows");
                }
            }
        }
    }
    out.push(b'"');
}
