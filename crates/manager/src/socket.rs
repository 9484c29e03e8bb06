//! Listening sockets.
//!
//! Owns: the sockets that units listen at, and the connections taken from them.
//! Must not: keep a connection that init does not have.
//! Thread: the loop; `deferred` opens on worker threads what may block.

pub(crate) mod accept;
pub(crate) mod deferred;
pub(crate) mod flush;
pub(crate) mod opening;
pub(crate) mod poll_limits;
pub(crate) mod shortage;
pub(crate) mod sockets;
