//! Wire types of the three channels between warrend, warren-init and warren-exec.
//!
//! 1. [`exec`]: warrend <-> a helper, over a `SOCK_SEQPACKET` pair. One message, one packet.
//! 2. [`control`]: warrend <-> warren-init, over a `SOCK_SEQPACKET` pair.
//! 3. [`ring`]: the exit ring, shared memory written by init and read by warrend.
//!
//! Beside them, [`session`] is what programs of one spawn tell each other where it opens a session of PAM, and
//! [`mount_into`] what a program is started with that mounts something for a process.
//!
//! Every packet is one version byte and the postcard encoding of one value. A packet of another
//! version, or one that does not decode to its last byte, is refused as a whole. Fds travel with
//! the packet that names them, in the order in which it does.
//!
//! An upgrade replaces the programs on the disk while the old ones run, so each direction of a
//! channel has a version of its own ([`Packet`]). Helpers are replaced when they turn out to be of
//! another program, which [`exec::Sync`] finds out in a form that never changes. Init is not
//! replaced: the language of [`control`], the ring, and what programs are started with (arguments,
//! fds, environment) only ever get new messages, which an older init refuses by name.
//!
//! Architecture invariant: whatever was sent before its sender died is still delivered. Init
//! reads what a dead warrend left in the control socket before it starts the next one, and the
//! replies of helpers wait in their sockets for the next warrend. So nothing is acknowledged
//! but what can be refused.

pub mod birth;
pub mod control;
pub mod exec;
pub mod mount_into;
pub mod ring;
pub mod session;
mod step;

pub use step::ExecStep;

use serde::{Deserialize, Serialize};

/// What one side of a channel may send.
pub trait Packet {
    /// First byte of its packets, below [`exec::SYNC`]. Raised with every change of the type or of
    /// one inside it; a test holds the bytes.
    const VERSION: u8;
}

/// Largest packet. A larger [`exec::SpawnRequest`] travels in a memfd: see [`exec::LARGE`].
pub const PACKET_BYTES_MAX: usize = 64 << 10;

/// Why a packet could not be made or understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// The packet is empty.
    Empty,
    /// It speaks another version of the protocol.
    Version(u8),
    /// It is cut short, has bytes left over, or holds an impossible value.
    Malformed,
    /// The value does not fit the buffer or [`PACKET_BYTES_MAX`].
    TooLarge,
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WireError::Empty => write!(f, "empty packet"),
            WireError::Version(v) => {
                write!(f, "packet of protocol version {v}, which this program does not speak")
            }
            WireError::Malformed => write!(f, "malformed packet"),
            WireError::TooLarge => write!(f, "packet too large"),
        }
    }
}

impl std::error::Error for WireError {}

/// Encodes a value as one packet.
pub fn encode<T: Serialize + Packet>(value: &T) -> Result<Vec<u8>, WireError> {
    postcard::to_extend(value, vec![T::VERSION]).map_err(|_| WireError::TooLarge)
}

/// Encodes a value into `buffer` and returns the packet. Allocates nothing.
pub fn encode_into<'b, T: Serialize + Packet>(
    value: &T,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], WireError> {
    let (version, body) = buffer.split_first_mut().ok_or(WireError::TooLarge)?;
    *version = T::VERSION;
    let used = postcard::to_slice(value, body).map_err(|_| WireError::TooLarge)?.len();
    Ok(&buffer[..used + 1])
}

/// Decodes one whole packet. Borrows strings from it; allocates only what `T` owns.
pub fn decode<'p, T: Deserialize<'p> + Packet>(packet: &'p [u8]) -> Result<T, WireError> {
    let (value, rest) =
        postcard::take_from_bytes(body::<T>(packet)?).map_err(|_| WireError::Malformed)?;
    if rest.is_empty() { Ok(value) } else { Err(WireError::Malformed) }
}

/// What follows the version byte, if it is that of `T`.
fn body<T: Packet>(packet: &[u8]) -> Result<&[u8], WireError> {
    match packet.split_first() {
        None => Err(WireError::Empty),
        Some((&version, body)) if version == T::VERSION => Ok(body),
        Some((&version, _)) => Err(WireError::Version(version)),
    }
}

#[cfg(test)]
mod tests;
