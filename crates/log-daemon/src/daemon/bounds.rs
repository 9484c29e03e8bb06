//! The bounds that several parts of the daemon keep.
//! What must not be here: a bound that one file keeps, which stands in that file.
//! Pure: read on any thread.

/// Between two writes is at least so much time, µs: what comes after a pause is written at once, and everything so long
/// after it came at the latest.
pub const FLUSH_US: u64 = 250_000;

/// The same while something waits that is urgent, µs.
pub const FLUSH_URGENT_US: u64 = 10_000;

/// Priorities up to this one are urgent: `err`.
pub const URGENT_PRIORITY_MAX: u8 = b'3';

/// Most messages that one source may have in a turn.
pub const TURN_MESSAGES_MAX: usize = 256;

/// After so many bytes of a source, or of the streams of a kind, its others wait for the next turn.
pub const TURN_BYTES_MAX: usize = 2 << 20;

/// Priorities up to this one are synced at once: `crit`.
pub const SYNC_PRIORITY_MAX: u8 = b'2';

/// A file holds messages of so much of the retention of their class, since it is removed as a whole.
pub const PARTS_OF_RETENTION: u64 = 4;
