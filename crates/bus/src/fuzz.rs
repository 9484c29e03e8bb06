//! What a fuzzer calls: what reads messages of strangers, with the properties that must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_bus::fuzz::message(data));` is a whole target.

use warren_unit::UnitType;

use crate::glob::Patterns;
use crate::transient::{self, Properties};
use crate::wire::{Kind, Reader, frame_bytes, parse, parse_header};
use crate::{path, refusals};

/// Reads bytes as a message, its body as arguments, and bytes behind a byte order as properties of a unit.
///
/// # Panics
/// If a message has no serial, a call has no member, or a property would write more than its line of a unit file.
pub fn message(data: &[u8]) {
    let _ = parse_header(data);
    if let Ok(Some(length)) = frame_bytes(data)
        && let Some(frame) = data.get(..length)
        && let Ok(message) = parse(frame)
    {
        let header = message.header;
        assert!(header.serial != 0);
        assert!(header.kind != Kind::MethodCall || !header.member.is_empty());
        let _ = path::parse(header.path);
        if message.is_body_sound() {
            texts(&mut message.body());
        }
    }
    let Some((&order, body)) = data.split_first() else { return };
    let unit_type = UnitType::ALL[usize::from(order >> 1) % UnitType::ALL.len()];
    if let Ok(properties) = transient::read(unit_type, &mut Reader::new(body, order & 1 == 1)) {
        written(&properties);
    }
}

/// Texts at the beginning of a body, as names, patterns and paths.
fn texts(body: &mut Reader<'_>) {
    while let Ok(text) = body.str() {
        let _ = (refusals::unit_name(text).is_ok(), path::parse(text), path::unit(text).len());
        let _ = Patterns::new(&[text], true).map(|patterns| patterns.has("a.service"));
    }
}

/// Each line is one line, of the setting that it says it is of.
fn written(properties: &Properties) {
    for one in &properties.written {
        for line in &one.lines {
            assert!(!line.contains('\n'), "one property, one line: {line:?}");
        }
    }
}
