//! The D-Bus wire format, as much of it as a server of one interface family needs
//! (D-Bus Specification 0.41, "Message Format" and "Type System").
//!
//! No input or output here: bytes in, values out, and the other way round. What is written is
//! little endian; what is read may be either. Nothing in a message is trusted: every length is
//! checked against the bytes that are there, every text against UTF-8, every nesting against
//! [`MAX_DEPTH`].

mod message;
mod read;
mod signature;
mod text;
mod write;

pub use message::{Header, Kind, MAX_MESSAGE_BYTES, Message, To, frame_bytes, parse, signal};
pub use message::{error_reply, method_call, method_return, parse_header};
pub use read::Reader;
pub use signature::{alignment, first_type, is_valid};
pub use text::encode_text;
pub use write::{Room, Writer};

/// Containers in containers that a value may have (the specification allows 64).
pub const MAX_DEPTH: u32 = 64;

/// What is wrong with bytes that a client sent. A connection of its own is dropped for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// It ends before its value does.
    Truncated,
    /// A length, a byte order mark, a boolean or a padding that the format does not allow.
    Malformed,
    /// Text that is not UTF-8, or that holds a NUL.
    Text,
    /// Longer than this server takes.
    TooLong,
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// A type code that does not exist, or a signature that is not one.
    Signature,
}
