//! What udev says: the header of its messages, a filter for them, and its database of devices.
//!
//! The header has 40 bytes, in the host's order but where said: `libudev` and a NUL, 0xfeedcafe
//! (big-endian), size of the header, offset and length of the properties, then big-endian hashes
//! of subsystem and device type and a Bloom filter of tags. Observed on udev 252; a daemon that
//! does not run leaves neither messages nor a database, and nothing here needs them.

use warren_sys::netlink::Instruction;

use crate::bytes::{array, has, printable};
use crate::uevent::native32;

/// What a message of udev begins with.
pub const PREFIX: &[u8; 8] = b"libudev\0";

/// Second field, big-endian.
const MAGIC: u32 = 0xfeed_cafe;

/// Size of the header in bytes.
const HEADER_BYTES: usize = 40;

/// Offsets in the header: magic, hash of the subsystem, Bloom filter of the tags.
const MAGIC_AT: usize = 8;
const SUBSYSTEM_AT: usize = 24;
const TAGS_AT: usize = 32;

/// The properties of a message; `None` when it is no message of udev.
pub fn properties(message: &[u8]) -> Option<&[u8]> {
    if !has(message, 0, PREFIX) || array(message, MAGIC_AT) != Some(MAGIC.to_be_bytes()) {
        return None;
    }
    let field = |at| native32(message, at).and_then(|n| usize::try_from(n).ok());
    let (offset, length) = (field(16)?, field(20)?);
    // The properties lie behind the header and end where the message does.
    if offset < HEADER_BYTES {
        return None;
    }
    message.get(offset..offset.checked_add(length)?)
}

/// A message of udev with these properties: for tests that play udev.
pub fn message(subsystem: &str, tag: &str, properties: &[u8]) -> Vec<u8> {
    let mut out = PREFIX.to_vec();
    out.extend(MAGIC.to_be_bytes());
    for number in [HEADER_BYTES as u32, HEADER_BYTES as u32, properties.len() as u32] {
        out.extend(number.to_ne_bytes());
    }
    out.extend(murmur2(subsystem.as_bytes()).to_be_bytes());
    out.resize(TAGS_AT, 0);
    let bits = if tag.is_empty() { 0 } else { tag_bits(tag) };
    out.extend(bits.to_be_bytes());
    out.extend(properties);
    out
}

/// A program that lets only messages of udev through that are about one subsystem or about what
/// has, or had, a tag: the rest never wakes this process.
pub fn filter(subsystem: &str, tag: &str) -> Vec<Instruction> {
    // Load the word at an offset; keep these bits; compare; return.
    const LOAD: u16 = 0x20;
    const AND: u16 = 0x54;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step =
        |code, jump_true, jump_false, value| Instruction { code, jump_true, jump_false, value };
    let bits = tag_bits(tag);
    let (high, low) = ((bits >> 32) as u32, bits as u32);
    vec![
        step(LOAD, 0, 0, MAGIC_AT as u32),
        step(EQUAL, 0, 9, MAGIC),
        step(LOAD, 0, 0, SUBSYSTEM_AT as u32),
        step(EQUAL, 6, 0, murmur2(subsystem.as_bytes())),
        step(LOAD, 0, 0, TAGS_AT as u32),
        step(AND, 0, 0, high),
        step(EQUAL, 0, 4, high),
        step(LOAD, 0, 0, TAGS_AT as u32 + 4),
        step(AND, 0, 0, low),
        step(EQUAL, 0, 1, low),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}

/// The bits of the header's Bloom filter that a tag sets.
fn tag_bits(tag: &str) -> u64 {
    let hash = murmur2(tag.as_bytes());
    [0, 6, 12, 18].iter().fold(0, |bits, shift| bits | 1 << (hash >> shift & 63))
}

/// MurmurHash2 (Austin Appleby, public domain) with seed 0, as libudev's header carries it.
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = native32(word, 0).expect("chunks of four").wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (i, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * i);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// What udev's database has of a device: a file of `/run/udev/data`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// udev has applied its rules to the device: before that nothing it says can be relied on.
    pub is_initialized: bool,
    /// Links below `/dev`, without `/dev/`.
    pub links: Vec<String>,
    /// Priority of its links.
    pub link_priority: i32,
    /// Properties.
    pub properties: Vec<(String, String)>,
    /// Tags that are current.
    pub tags: Vec<String>,
}

/// Links, properties and tags of one device that are kept, at most, each.
const ENTRIES_MAX: usize = 4096;

impl Record {
    /// Reads the text of a database file: lines `S:` link, `L:` priority, `I:` time of the first
    /// rules, `E:KEY=VALUE`, `Q:` current tag; what else there is has no use here.
    pub fn parse(text: &str) -> Record {
        let mut record = Record::default();
        for line in text.lines().take(ENTRIES_MAX) {
            match line.split_once(':') {
                Some(("S", link)) if is_link(link) => record.links.push(link.to_owned()),
                Some(("L", priority)) => record.link_priority = priority.parse().unwrap_or(0),
                Some(("I", _)) => record.is_initialized = true,
                Some(("Q", tag)) => record.tags.push(printable(tag)),
                Some(("E", property)) => {
                    let pair = property.split_once('=');
                    record.properties.extend(pair.map(|(k, v)| (k.to_owned(), printable(v))));
                }
                _ => {}
            }
        }
        record
    }

    /// The value of a property.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.properties.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// A link stays below `/dev`.
fn is_link(link: &str) -> bool {
    link.split('/').all(|part| !matches!(part, "" | "." | "..")) && printable(link) == link
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uevent::{Action, Uevent};

    #[test]
    fn a_message_comes_back() {
        let properties =
            b"ACTION=change\0DEVPATH=/devices/x/block/sda\0SUBSYSTEM=block\0MAJOR=8\0MINOR=0\0";
        let whole = message("block", "", properties);
        let event = Uevent::parse(&whole).expect("a good message");
        assert_eq!((event.action, event.name()), (Action::Change, "sda"));
        for end in 0..whole.len() {
            assert!(Uevent::parse(&whole[..end]).is_err(), "cut at {end}");
        }
        for (at, byte) in [(8, 0), (16, 0), (16, 255), (23, 255)] {
            let mut wrong = whole.clone();
            wrong[at] = byte;
            assert!(Uevent::parse(&wrong).is_err(), "byte {at}");
        }
    }

    /// Values computed by an independent implementation of MurmurHash2 (seed 0).
    #[test]
    fn the_hash_is_murmur2() {
        for (text, expected) in [("", 0x0), ("a", 0x9268_5f5e), ("block", 0xf003_1db7)] {
            assert_eq!(
                murmur2(text.as_bytes()),
                expected,
                "{text} {:08x}",
                murmur2(text.as_bytes())
            );
        }
    }

    #[test]
    fn a_record_of_the_database() {
        let text = "S:disk/by-id/x\nS:../escape\nS:a//b\nL:-5\nI:123\nE:ID_FS_TYPE=ext4\nE:A=b=c\n\
            E:novalue\nG:systemd\nQ:systemd\nV:1\nrubbish\n";
        let record = Record::parse(text);
        assert_eq!(record.links, ["disk/by-id/x"]);
        assert_eq!((record.link_priority, record.tags.len()), (-5, 1));
        assert_eq!((record.get("ID_FS_TYPE"), record.get("A")), (Some("ext4"), Some("b=c")));
        assert_eq!(record.get("novalue"), None);
        assert!(record.is_initialized && !Record::parse("E:A=b").is_initialized);
    }
}
