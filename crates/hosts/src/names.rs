//! Names of hosts, labels and applications: short, and safe in keys, paths and on terminals.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 128;

/// What a host is known by: its machine id, or what its administrator says. Letters, digits, `-`, `_` and `.`, at most
/// 128 bytes, and no `.` first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostId(Box<str>);

impl HostId {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text is no name of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAHost(String);

impl fmt::Display for NotAHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a valid host name: letters, digits, '-', '_' and '.', at most 128",
            self.0
        )
    }
}

impl std::error::Error for NotAHost {}

impl TryFrom<String> for HostId {
    type Error = NotAHost;

    fn try_from(text: String) -> Result<HostId, NotAHost> {
        match is_name(&text) {
            true => Ok(HostId(text.into())),
            false => Err(NotAHost(text.chars().take(NAME_BYTES_MAX).collect())),
        }
    }
}

impl FromStr for HostId {
    type Err = NotAHost;

    fn from_str(text: &str) -> Result<HostId, NotAHost> {
        HostId::try_from(text.to_owned())
    }
}

impl From<HostId> for String {
    fn from(id: HostId) -> String {
        id.0.into()
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text may be a name of a host, a label or an application.
pub fn is_name(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.starts_with('.')
        && (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(is_fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_keys() {
        for name in ["a", "web-1.example.org", "0123456789abcdef0123456789abcdef", "A_b"] {
            assert_eq!(name.parse::<HostId>().expect("a name").as_str(), name);
        }
        for wrong in ["", ".", "..", ".a", "a/b", "a b", "a\n", "ä", &"x".repeat(129)] {
            assert!(wrong.parse::<HostId>().is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<HostId>("\"a/../b\"").is_err());
    }
}
