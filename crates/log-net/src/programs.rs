//! The programs of this crate: their command lines.
//! Must not: do what the rooms below do.
//! Start at `main` of each.

pub mod access;
pub mod gatewayd;
pub mod upload;
