//! The D-Bus wire format, as much of it as a server of one interface family needs
//! (D-Bus Specification 0.41, "Message Format" and "Type System").
//!
//! No input or output here: bytes in, values out, and the other way round. What is written is
//! little endian; what is read may be either. Nothing in a message is trusted: every length is
//! checked against the bytes that are there, every text against UTF-8, every nesting against
//! [`MAX_DEPTH`].

mod error;
mod message;
mod read;
mod signature;
mod text;
mod write;

pub use error::{MAX_DEPTH, WireError};
pub use message::{Header, Kind, MAX_MESSAGE_BYTES, Message, To, frame_bytes, parse, signal};
pub use message::{error_reply, method_call, method_return, method_return_with_fd, parse_header};
pub use read::Reader;
pub use signature::{alignment, first_type, is_valid};
pub use text::encode_text;
pub use write::{Room, Writer};
