//! What warrend, warren-init and warren-exec say to each other.
//!
//! The programs themselves are `src/bin`; this library holds the wire types ([`protocol`]) that
//! the manager shares with them. It must not grow policy: what to start, restart or stop is
//! decided in warrend.

pub mod protocol;
