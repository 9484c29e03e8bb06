//! `Json`: encoding is in [`crate::text`]; decoding is here.

use super::call::{Call, bytes};
use crate::eval::{Interpreter, Outcome};
use crate::heap::Heap;
use crate::source::Place;
use crate::text;
use crate::value::{Table, Value};

/// How deep a JSON text may be nested.
const DEPTH_MAX: usize = 200;

pub fn encode(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let out = text::json(&run.heap, run.types, call.argument(0));
    Ok(run.heap.string(&out))
}

pub fn decode(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let text = bytes(run, call.argument(0));
    let mut parser = Parser { text: &text, at: 0, heap: &mut run.heap, place: call.place };
    let value = parser.document();
    value.map_err(|what| {
        let at = parser.at + 1;
        call.fail(format!("JSON parse error at column {at}: {what}"))
    })
}

struct Parser<'j, 'b> {
    text: &'j [u8],
    at: usize,
    heap: &'j mut Heap<'b>,
    place: Place,
}

type Parsed<T> = Result<T, &'static str>;

impl Parser<'_, '_> {
    fn document(&mut self) -> Parsed<Value> {
        let value = self.value(0)?;
        self.space();
        if self.at < self.text.len() { Err("expected the end of input") } else { Ok(value) }
    }

    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.next(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.next() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Parsed<Value> {
        if depth > DEPTH_MAX {
            return Err("nested too deep");
        }
        self.space();
        match self.next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => {
                let string = self.string()?;
                Ok(self.heap.string(&string))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
            None => Err("unexpected end of input"),
        }
    }

    fn word(&mut self) -> Parsed<Value> {
        let words = [
            ("null", Value::Empty),
            ("true", Value::Boolean(true)),
            ("false", Value::Boolean(false)),
        ];
        let rest = &self.text[self.at..];
        let found = words.into_iter().find(|(word, _)| rest.starts_with(word.as_bytes()));
        let (word, value) = found.ok_or("invalid literal")?;
        self.at += word.len();
        Ok(value)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.next(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Parsed<Value> {
        let start = self.at;
        self.at += usize::from(self.next() == Some(b'-'));
        let leading_zero = self.next() == Some(b'0');
        let digits = self.digits();
        if digits == 0 || (leading_zero && digits > 1) {
            return Err("invalid number");
        }
        if self.next() == Some(b'.') {
            self.at += 1;
            (self.digits() > 0).then_some(()).ok_or("invalid number; expected digit after '.'")?;
        }
        if matches!(self.next(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.next(), Some(b'+' | b'-')));
            (self.digits() > 0)
                .then_some(())
                .ok_or("invalid number; expected digit after exponent")?;
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).map_err(|_| "invalid number")?;
        let value: f64 = text.parse().map_err(|_| "invalid number")?;
        if value.is_finite() { Ok(Value::Number(value)) } else { Err("number out of range") }
    }

    fn string(&mut self) -> Parsed<Vec<u8>> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let byte = self.next().ok_or("missing closing quote")?;
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => self.escape(&mut out)?,
                0..32 => return Err("control character must be escaped"),
                byte => out.push(byte),
            }
        }
        std::str::from_utf8(&out).map_err(|_| "ill-formed UTF-8 byte")?;
        Ok(out)
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Parsed<()> {
        let byte = self.next().ok_or("missing closing quote")?;
        self.at += 1;
        out.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = self.character()?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err("forbidden character after backslash"),
        });
        Ok(())
    }

    fn unit(&mut self) -> Parsed<u16> {
        let digits = self.text.get(self.at..self.at + 4).ok_or("'\\u' needs 4 hex digits")?;
        let text = std::str::from_utf8(digits).map_err(|_| "'\\u' needs 4 hex digits")?;
        let valid = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let unit = u16::from_str_radix(text, 16).ok().filter(|_| valid);
        self.at += 4;
        unit.ok_or("'\\u' needs 4 hex digits")
    }

    fn character(&mut self) -> Parsed<char> {
        const LONE: &str = "surrogate without its partner";
        let first = self.unit()?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) {
            let follows = self.text[self.at..].starts_with(b"\\u");
            follows.then_some(()).ok_or(LONE)?;
            self.at += 2;
            units.push(self.unit()?);
        }
        let mut decoded = char::decode_utf16(units);
        decoded.next().and_then(Result::ok).ok_or(LONE)
    }

    fn array(&mut self, depth: usize) -> Parsed<Value> {
        self.at += 1;
        let mut items = Vec::new();
        if !self.take(b']') {
            loop {
                items.push(self.value(depth + 1)?);
                if self.take(b']') {
                    break;
                }
                self.take(b',').then_some(()).ok_or("expected ',' or ']'")?;
            }
        }
        Ok(self.heap.array_of(items, self.place))
    }

    fn object(&mut self, depth: usize) -> Parsed<Value> {
        self.at += 1;
        let mut items = Table::default();
        if !self.take(b'}') {
            loop {
                self.space();
                (self.next() == Some(b'"')).then_some(()).ok_or("expected string literal")?;
                let key = self.string()?;
                self.take(b':').then_some(()).ok_or("expected ':'")?;
                let value = self.value(depth + 1)?;
                items.set(self.heap.intern(&key), value);
                if self.take(b'}') {
                    break;
                }
                self.take(b',').then_some(()).ok_or("expected ',' or '}'")?;
            }
        }
        Ok(self.heap.dictionary_of(items, self.place))
    }
}
