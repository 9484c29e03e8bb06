//! What warrend, warren-init and warren-exec say to each other.
//!
//! The programs themselves are in `src/bin`; this library holds the wire types ([`protocol`])
//! that the manager shares with them, and the manager's side of the sockets ([`client`]). It
//! must not grow policy: what to start, restart or stop is decided in warrend.

pub mod client;
pub mod protocol;
