//! A release: which revision hosts are to have, signed by somebody whom they trust.
//!
//! Releases are numbered, and a host never goes to one of a lower number: what a store says that was restored from a
//! backup is refused until somebody makes a release with a higher number. Going back to an older revision is a release
//! of its own, or the way back that a release names (`previous`). Whoever can write to the store but has no key can
//! therefore assign hosts to either of these two and to nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::policy::Policy;

/// Bytes of a release as it is stored.
pub const RELEASE_BYTES_MAX: usize = 16 << 10;

/// Keys that a host trusts.
pub const KEYS_MAX: usize = 64;

/// What this writes.
const FORMAT: u32 = 1;

/// What is signed before a release, so that a signature of something else is none of a release.
const CONTEXT: &[u8] = b"warrener release 1\n";

/// What hosts are to have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The version of this format.
    pub format: u32,
    /// Its number, higher than that of all before.
    pub number: u64,
    /// The revision.
    pub revision: Digest,
    /// The revision that a host goes back to if the release does not do.
    pub previous: Option<Digest>,
    /// Who made it.
    pub author: String,
    /// What for.
    pub message: String,
    /// When, seconds since 1970.
    pub at: u64,
    /// How it is to reach the hosts.
    pub policy: Policy,
}

/// A release with its signature, as the store has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    /// The release as JSON, byte by byte what was signed.
    pub release: String,
    /// Which key.
    pub key: Digest,
    /// The ed25519 signature, hexadecimal.
    pub signature: String,
}

/// Public keys by their digest.
pub type Keyring = BTreeMap<Digest, Vec<u8>>;

/// How a signature is looked at: public key, message, signature.
pub type Verify = fn(&[u8], &[u8], &[u8]) -> bool;

/// What is wrong with a release.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is of another format, or none.
    Unreadable(String),
    /// No key of this name is trusted here: it was revoked, or never was.
    UnknownKey(Digest),
    /// The signature is not that of the key.
    BadSignature(Digest),
    /// It is stored under another number.
    OtherNumber(u64),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Unreadable(why) => write!(f, "the release is unreadable: {why}"),
            Fault::UnknownKey(key) => {
                write!(
                    f,
                    "the release is signed with key {}, which this host does not trust",
                    key.short()
                )
            }
            Fault::BadSignature(key) => {
                write!(f, "the signature of the release is not that of key {}", key.short())
            }
            Fault::OtherNumber(number) => write!(f, "the release says that it is number {number}"),
        }
    }
}

impl std::error::Error for Fault {}

/// The revision to go back to from what all hosts have: the one before it that nobody has gone back from. None if that
/// is not known.
pub fn way_back(current: &Release, releases: &BTreeMap<u64, Release>) -> Option<Digest> {
    let mut newest_first = vec![current.revision];
    let mut at = current;
    while let Some(previous) = at.previous {
        newest_first.push(previous);
        let mut older = releases.range(..at.number).rev().map(|(_, release)| release);
        match older.find(|release| release.revision == previous) {
            Some(release) => at = release,
            None => break,
        }
    }
    let mut kept: Vec<Digest> = Vec::new();
    for revision in newest_first.into_iter().rev() {
        match kept.iter().position(|known| *known == revision) {
            // Somebody went back to it: what came after it was bad.
            Some(known) => kept.truncate(known + 1),
            None => kept.push(revision),
        }
    }
    kept.iter().rev().nth(1).copied()
}

impl Release {
    /// A release of this version's format.
    pub fn new(
        number: u64,
        (revision, previous): (Digest, Option<Digest>),
        (author, message): (&str, &str),
        at: u64,
        policy: Policy,
    ) -> Release {
        let (author, message) = (author.to_owned(), message.to_owned());
        Release { format: FORMAT, number, revision, previous, author, message, at, policy }
    }

    /// The text that is stored and what is signed of it.
    pub fn to_be_signed(&self) -> (String, Vec<u8>) {
        let text = serde_json::to_string(self).unwrap_or_default();
        let message = [CONTEXT, text.as_bytes()].concat();
        (text, message)
    }

    /// The revision that a host is to have: the release's own, or that of the way back.
    pub fn meant(&self, back: bool) -> Option<Digest> {
        if back { self.previous } else { Some(self.revision) }
    }
}

impl Signed {
    /// The release, if a trusted key signed it and it is the one of this number.
    ///
    /// # Errors
    /// It is not.
    pub fn open(
        bytes: &[u8],
        number: u64,
        trusted: &Keyring,
        verify: Verify,
    ) -> Result<Release, Fault> {
        let unreadable = |why: &dyn std::fmt::Display| Fault::Unreadable(why.to_string());
        if bytes.len() > RELEASE_BYTES_MAX {
            return Err(unreadable(&"it is too large"));
        }
        let signed: Signed = serde_json::from_slice(bytes).map_err(|e| unreadable(&e))?;
        let key = trusted.get(&signed.key).ok_or(Fault::UnknownKey(signed.key))?;
        let signature = from_hex(&signed.signature).ok_or(Fault::BadSignature(signed.key))?;
        let message = [CONTEXT, signed.release.as_bytes()].concat();
        if !verify(key, &message, &signature) {
            return Err(Fault::BadSignature(signed.key));
        }
        let release: Release = serde_json::from_str(&signed.release).map_err(|e| unreadable(&e))?;
        if release.format != FORMAT {
            return Err(unreadable(&format!(
                "format {}; this version reads {FORMAT}",
                release.format
            )));
        }
        match release.number == number {
            true => Ok(release),
            false => Err(Fault::OtherNumber(release.number)),
        }
    }
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of hexadecimal digits.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks_exact(2);
    let is_even = pairs.remainder().is_empty();
    pairs
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect::<Option<_>>()
        .filter(|_| is_even)
}

/// Reads public keys: a line of 64 hexadecimal digits each, and what follows is a comment; empty lines and such with
/// `#` first say nothing.
///
/// # Errors
/// The line that is no key, in words.
pub fn read_keys(text: &str) -> Result<Keyring, String> {
    let mut keys = Keyring::new();
    for (at, line) in text.lines().enumerate() {
        let Some(word) = line.split_ascii_whitespace().next().filter(|w| !w.starts_with('#'))
        else {
            continue;
        };
        let key = from_hex(word).filter(|key| key.len() == 32);
        let Some(key) = key else {
            return Err(format!("line {}: a key has 64 hexadecimal digits", at + 1));
        };
        keys.insert(Digest::of(&key), key);
        if keys.len() > KEYS_MAX {
            return Err(format!("line {}: a host trusts at most {KEYS_MAX} keys", at + 1));
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each release as the name of its revision and of the one before it; what is gone back to from the last one.
    #[track_caller]
    fn check_way_back(releases: &[(&str, &str)], expected: &str) {
        let digest = |name: &str| (!name.is_empty()).then(|| Digest::of(name.as_bytes()));
        let release = |(number, (revision, previous)): (usize, &(&str, &str))| {
            let revisions = (digest(revision).expect("a name"), digest(previous));
            let number = number as u64 + 1;
            (number, Release::new(number, revisions, ("a", "m"), 0, Policy::default()))
        };
        let all: BTreeMap<u64, Release> = releases.iter().enumerate().map(release).collect();
        let current = all.values().next_back().expect("there is one");
        assert_eq!(way_back(current, &all), digest(expected), "{releases:?}");
    }

    #[test]
    fn nobody_goes_back_to_what_was_gone_back_from() {
        check_way_back(&[("a", "")], "");
        check_way_back(&[("a", ""), ("b", "a")], "a");
        check_way_back(&[("a", ""), ("bad", "a"), ("a", "bad")], "");
        check_way_back(&[("a", ""), ("b", "a"), ("bad", "b"), ("b", "bad")], "a");
        check_way_back(&[("a", ""), ("bad", "a"), ("a", "bad"), ("c", "a")], "a");
        // One that went back by itself is before nothing.
        check_way_back(&[("a", ""), ("bad", "a"), ("c", "a")], "a");
        // What was before is not in the store any more.
        check_way_back(&[("b", "a")], "a");
        check_way_back(&[("b", "bad"), ("c", "b")], "b");
    }

    /// A signature that everybody can make: the digest of key and message.
    fn verify(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
        to_hex(signature) == Digest::of_parts([key, message]).to_string()
    }

    fn signed(release: &Release, key: &[u8]) -> Vec<u8> {
        let (text, message) = release.to_be_signed();
        let signature = Digest::of_parts([key, &message]).to_string();
        serde_json::to_vec(&Signed { release: text, key: Digest::of(key), signature })
            .expect("JSON")
    }

    #[test]
    fn only_what_a_trusted_key_signed_is_a_release() {
        let revision = (Digest::of(b"new"), Some(Digest::of(b"old")));
        let release = Release::new(7, revision, ("me", "why"), 1, Policy::default());
        let trusted = Keyring::from([(Digest::of(b"k1"), b"k1".to_vec())]);
        let open = |bytes: &[u8], number| Signed::open(bytes, number, &trusted, verify);
        let bytes = signed(&release, b"k1");
        assert_eq!(open(&bytes, 7), Ok(release.clone()));
        assert_eq!(open(&bytes, 8), Err(Fault::OtherNumber(7)));
        let unknown = Digest::of(b"k2");
        assert_eq!(open(&signed(&release, b"k2"), 7), Err(Fault::UnknownKey(unknown)));
        let other = Release { revision: Digest::of(b"evil"), ..release.clone() };
        let mut forged: Signed = serde_json::from_slice(&bytes).expect("JSON");
        forged.release = other.to_be_signed().0;
        let forged = serde_json::to_vec(&forged).expect("JSON");
        assert_eq!(open(&forged, 7), Err(Fault::BadSignature(Digest::of(b"k1"))));
        assert!(matches!(open(b"{}", 7), Err(Fault::Unreadable(_))));
        assert!(matches!(open(&[b' '; 20_000], 7), Err(Fault::Unreadable(_))));
        let newer = Release { format: 2, ..release };
        assert!(matches!(open(&signed(&newer, b"k1"), 7), Err(Fault::Unreadable(_))));
    }

    #[test]
    fn keys_are_read_line_by_line() {
        let key = "00".repeat(31) + "ff";
        let keys = read_keys(&format!("# ours\n\n{key} ops@example.org\n")).expect("keys");
        assert_eq!(keys.values().next().map(|key| key[31]), Some(255));
        for wrong in ["abc", "zz", &key[2..]] {
            assert_eq!(read_keys(wrong), Err("line 1: a key has 64 hexadecimal digits".into()));
        }
        assert_eq!(from_hex("abc"), None);
    }
}
