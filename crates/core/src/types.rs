//! The unit types: what a start, a stop and an event mean for a service, a socket, a mount, ...
//!
//! Owns: one file or folder a type, with the type's state machine.
//! Must not: install jobs of other units or follow relations; that is in [`crate::jobs`] and
//! [`crate::machine`].

mod automount;
mod device;
mod mount;
mod service;
mod simple;
mod socket;
