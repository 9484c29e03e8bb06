//! Values of D-Bus properties as JSON, as they come: what a field of varlink makes of one is said in [`super::shape`].
//!
//! So what is told over varlink and over D-Bus of a unit comes from one table.

use serde_json::Value;
use warren_bus::properties::{Interface, Property, Subject};
use warren_bus::wire::{Reader, WireError, Writer, first_type};

/// The value of a property that one of these interfaces has.
pub(crate) fn value(interfaces: &[&Interface], name: &str, subject: &Subject<'_>) -> Option<Value> {
    let property = interfaces.iter().find_map(|interface| interface.find(name))?;
    Some(read(property, subject))
}

/// The value of a property.
pub(crate) fn read(property: &Property, subject: &Subject<'_>) -> Value {
    let mut out = Writer::new();
    property.write(subject, &mut out);
    let bytes = out.finish();
    let mut reader = Reader::new(&bytes, false);
    decode("v", &mut reader).expect("properties are written by their types")
}

/// Reads one value of the first type of `signature`. A variant is what is in it; a structure and a dictionary's entry
/// are lists.
///
/// # Errors
/// The bytes are no such value.
fn decode(signature: &str, reader: &mut Reader<'_>) -> Result<Value, WireError> {
    let (one, _) = first_type(signature)?;
    Ok(match one.as_bytes()[0] {
        b'y' => reader.byte()?.into(),
        b'b' => reader.bool()?.into(),
        b'n' => reader.u16()?.cast_signed().into(),
        b'q' => reader.u16()?.into(),
        b'i' => reader.i32()?.into(),
        b'u' | b'h' => reader.u32()?.into(),
        b'x' => reader.u64()?.cast_signed().into(),
        b't' => reader.u64()?.into(),
        b'd' => f64::from_bits(reader.u64()?).into(),
        b's' | b'o' => reader.str()?.into(),
        b'g' => reader.signature()?.into(),
        b'v' => {
            let inner = reader.signature()?;
            decode(inner, reader)?
        }
        b'a' => {
            let element = &one[1..];
            let code = element.as_bytes()[0];
            Value::Array(reader.array(code, |r| decode(element, r))?)
        }
        // In brackets.
        _ => {
            reader.align(8)?;
            let mut fields = Vec::new();
            let mut rest = &one[1..one.len() - 1];
            while !rest.is_empty() {
                fields.push(decode(rest, reader)?);
                rest = first_type(rest)?.1;
            }
            Value::Array(fields)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_type_comes_as_what_it_is() {
        let mut w = Writer::new();
        w.byte(7).bool(true).u16(9).i32(-3).u64(u64::MAX).str("x").strs(["a", "b"]);
        w.array(b'(', |w| {
            w.structure().str("k").variant("u").u32(5);
        });
        w.array(b'{', |_| {});
        let bytes = w.finish();
        let mut reader = Reader::new(&bytes, false);
        let mut rest = "ybqitsasa(sv)a{sv}";
        let mut found = Vec::new();
        while !rest.is_empty() {
            found.push(decode(rest, &mut reader).expect("it was written"));
            rest = first_type(rest).expect("a type").1;
        }
        let expected = json!([7, true, 9, -3, u64::MAX, "x", ["a", "b"], [["k", 5]], []]);
        assert_eq!(Value::Array(found), expected);
        assert!(reader.is_at_end());
    }
}
