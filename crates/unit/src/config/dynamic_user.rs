//! Names of users that are made for a run (systemd.exec(5), "DynamicUser=").

/// Longest name (systemd.io/USER_NAMES): utmp has no room for more.
const NAME_BYTES_MAX: usize = 31;

/// The user's name of a unit that states none: the part of its name before `@` or the type, or else a name with the
/// hash of it.
pub fn name_of_unit(prefix: &str) -> Box<str> {
    match is_name(prefix) {
        true => prefix.into(),
        false => format!("_du{:016x}", name_hash(prefix)).into(),
    }
}

/// Whether it is one of systemd.io/USER_NAMES, by the strict rule there.
fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let begins = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    begins && text.len() <= NAME_BYTES_MAX && bytes.all(is_part)
}

/// FNV-1a, and a last stir. Files on the disk belong to the numbers that come of it: it stays as it is.
pub fn name_hash(text: &str) -> u64 {
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (sum ^ (sum >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_named_after_itself_if_that_is_a_name() {
        for (prefix, expected) in [
            ("web", "web"),
            ("A_b", "A_b"),
            ("_x", "_x"),
            ("a-", "a-"),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ] {
            assert_eq!(&*name_of_unit(prefix), expected);
        }
        for prefix in ["9abc", "a.b", "a\\x2db", "123", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
            let name = name_of_unit(prefix);
            assert!(name.starts_with("_du") && is_name(&name), "{prefix}: {name}");
        }
    }
}
