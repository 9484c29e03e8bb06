//! A recording: a stretch of events with the names that they use, and its form in a file.
//!
//! [`write()`] makes the bytes, [`read()`] takes what is whole out of bytes that may be cut or damaged;
//! this module is what both agree on. The format is written down in
//! `docs/src/design/trace-format.md`. Neither opens a file.

mod read;
#[cfg(test)]
mod tests;
mod write;

use crate::event::Event;
use crate::words::Subject;

pub use read::{Damage, ReadError, read};
pub use write::{Writer, write};

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"WARRENT1";

/// The first bytes of a block.
pub const BLOCK_MAGIC: [u8; 4] = *b"WTB1";

/// Bytes of a block's header: magic, kind, count, length of the payload, checksum of the payload,
/// checksum of the 20 bytes before it.
const BLOCK_HEADER_BYTES: usize = 24;

/// Events of one block at most: what a flipped bit costs.
const BLOCK_EVENTS_MAX: usize = 1024;

/// Largest payload of a block that is believed, in bytes.
const BLOCK_BYTES_MAX: usize = 4 << 20;

/// Units of one recording at most.
const UNITS_MAX: usize = 1 << 20;

/// Events of one recording at most.
const EVENTS_MAX: usize = 1 << 23;

/// Edges of one recording at most.
const EDGES_MAX: usize = 1 << 22;

/// Longest text, in bytes; longer ones are cut when written. Unit names have at most 255 bytes.
const TEXT_BYTES_MAX: usize = 255;

/// Kinds of blocks. A reader skips those that it does not know.
mod kind {
    pub const HEAD: u32 = 1;
    pub const UNITS: u32 = 2;
    pub const REASONS: u32 = 3;
    pub const EDGES: u32 = 4;
    pub const EVENTS: u32 = 5;
    pub const END: u32 = 6;
}

/// The same moment on three clocks, in µs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Anchor {
    /// `CLOCK_MONOTONIC`
    pub monotonic_us: u64,
    /// `CLOCK_REALTIME`
    pub realtime_us: u64,
    /// `CLOCK_BOOTTIME`
    pub boottime_us: u64,
}

/// What a recording is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// What it is of.
    pub subject: Subject,
    /// One moment on all clocks.
    pub anchor: Anchor,
    /// The host's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The manager's version.
    pub version: String,
}

/// A unit that occurs in the events.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Unit {
    /// The number that events use.
    pub id: u32,
    /// Its slice, or [`crate::event::NO_UNIT`].
    pub slice: u32,
    /// Its name.
    pub name: String,
}

/// A stretch of events with everything needed to read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// What it is of.
    pub head: Head,
    /// The units that occur, by id.
    pub units: Vec<Unit>,
    /// The texts of the reason codes that occur, by code.
    pub reasons: Vec<(u16, String)>,
    /// Order between units that occur: the first starts after the second and stops before it.
    /// Empty when it was not recorded; then what-if knows only the recorded releases.
    pub edges: Vec<(u32, u32)>,
    /// What happened, in the order in which it did.
    pub events: Vec<Event>,
}

impl Recording {
    /// The wall clock of a moment of the recording, in µs since 1970.
    pub fn realtime_us(&self, time_us: u64) -> u64 {
        let anchor = &self.head.anchor;
        if time_us >= anchor.monotonic_us {
            anchor.realtime_us.saturating_add(time_us - anchor.monotonic_us)
        } else {
            anchor.realtime_us.saturating_sub(anchor.monotonic_us - time_us)
        }
    }

    /// The text of a reason code; empty when it was not recorded.
    pub fn reason(&self, code: u16) -> &str {
        let found = self.reasons.binary_search_by_key(&code, |(code, _)| *code);
        found.map_or("", |at| self.reasons[at].1.as_str())
    }
}
