//! Type signatures: where a single complete type ends, and how its values are aligned.

use super::{MAX_DEPTH, WireError};

/// Alignment in bytes of values whose type begins with `code`.
pub fn alignment(code: u8) -> usize {
    match code {
        b'y' | b'g' | b'v' => 1,
        b'n' | b'q' => 2,
        b'x' | b't' | b'd' | b'(' | b'{' => 8,
        _ => 4,
    }
}

/// Splits the first single complete type off `signature`.
///
/// Errors: [`WireError::Signature`] where there is none, [`WireError::TooDeep`].
pub fn first_type(signature: &str) -> Result<(&str, &str), WireError> {
    let end = type_end(signature.as_bytes(), 0, 0)?;
    Ok(signature.split_at(end))
}

/// Whether `signature` is a sequence of complete types, at most 255 bytes long.
pub fn is_valid(signature: &str) -> bool {
    let mut rest = signature;
    while !rest.is_empty() {
        match first_type(rest) {
            Ok((_, after)) => rest = after,
            Err(_) => return false,
        }
    }
    signature.len() <= 255
}

/// Where the type ends that begins at `at`.
pub(super) fn type_end(codes: &[u8], at: usize, depth: u32) -> Result<usize, WireError> {
    if depth > MAX_DEPTH {
        return Err(WireError::TooDeep);
    }
    match codes.get(at).ok_or(WireError::Signature)? {
        b'y' | b'b' | b'n' | b'q' | b'i' | b'u' | b'x' | b't' | b'd' | b's' | b'o' | b'g'
        | b'v' | b'h' => Ok(at + 1),
        b'a' if codes.get(at + 1) == Some(&b'{') => fields_end(codes, at + 2, b'}', depth + 1),
        b'a' => type_end(codes, at + 1, depth + 1),
        b'(' => fields_end(codes, at + 1, b')', depth + 1),
        _ => Err(WireError::Signature),
    }
}

fn fields_end(codes: &[u8], first: usize, close: u8, depth: u32) -> Result<usize, WireError> {
    let mut at = type_end(codes, first, depth)?;
    while *codes.get(at).ok_or(WireError::Signature)? != close {
        at = type_end(codes, at, depth)?;
    }
    Ok(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_end_where_they_should() {
        for (signature, first) in [
            ("s", "s"),
            ("su", "s"),
            ("a(sa(sv))o", "a(sa(sv))"),
            ("a{sv}as", "a{sv}"),
            ("(uosos)u", "(uosos)"),
            ("aay", "aay"),
        ] {
            assert_eq!(first_type(signature).map(|(head, _)| head), Ok(first), "{signature}");
        }
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        for bad in ["a", "(", "()", "(s", "a{", "z", "a{s", "s)"] {
            assert!(!is_valid(bad), "{bad}");
        }
        assert!(!is_valid(&"a".repeat(200)));
        assert!(is_valid("") && is_valid("sba(sv)") && is_valid("a(bas)"));
    }
}
