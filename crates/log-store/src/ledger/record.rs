//! Lines of the ledger: `KIND EPOCH TIME [NAME [BYTES SHA256]] SIGNATURE`. Pure.

use std::fmt;

use crate::ledger::keys::{Bytes32, Key};
use crate::store::names::FileName;
use crate::store::names::SegmentName;

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// An epoch begins: `mark`.
    Mark,
    /// A segment is there: `have`.
    Have {
        /// Which.
        name: SegmentName,
        /// Its size.
        bytes: u64,
        /// SHA-256 of all of it.
        sum: Bytes32,
    },
    /// A segment was removed: `gone`.
    Gone {
        /// Which.
        name: SegmentName,
    },
}

/// A line without its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// In which epoch it was written.
    pub epoch: u64,
    /// When, µs since 1970.
    pub time_us: u64,
    /// What it says.
    pub what: What,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { epoch, time_us, what } = self;
        match what {
            What::Mark => write!(f, "mark {epoch} {time_us}"),
            What::Have { name, bytes, sum } => {
                write!(f, "have {epoch} {time_us} {name} {bytes} {sum}")
            }
            What::Gone { name } => write!(f, "gone {epoch} {time_us} {name}"),
        }
    }
}

impl Record {
    /// The whole line, and its signature.
    pub fn signed(&self, key: &Key, before: &Bytes32) -> (String, Bytes32) {
        let text = self.to_string();
        let signature = key.sign(before, text.as_bytes());
        (format!("{text} {signature}\n"), signature)
    }

    /// Reads a line without its end: what it says, what of it was signed, and the signature.
    pub fn parse(line: &str) -> Option<(Record, &str, Bytes32)> {
        let (text, signature) = line.rsplit_once(' ')?;
        let signature = Bytes32::parse(signature)?;
        let parts: Vec<&str> = text.split(' ').collect();
        let segment = |name: &str| match FileName::parse(name)? {
            FileName::Segment(segment) => Some(segment),
            FileName::Log { .. } => None,
        };
        let (kind, epoch, time_us, rest) = match parts[..] {
            [kind, epoch, time_us, ref rest @ ..] => (kind, epoch, time_us, rest),
            _ => return None,
        };
        let what = match (kind, rest) {
            ("mark", []) => What::Mark,
            ("gone", [name]) => What::Gone { name: segment(name)? },
            ("have", [name, bytes, sum]) => What::Have {
                name: segment(name)?,
                bytes: bytes.parse().ok()?,
                sum: Bytes32::parse(sum)?,
            },
            _ => return None,
        };
        let record = Record { epoch: epoch.parse().ok()?, time_us: time_us.parse().ok()?, what };
        Some((record, text, signature))
    }
}
