//! The unit types: what a start, a stop and an event mean for a service, a socket, a mount, ...
//!
//! Owns: one file or folder a type, with the type's state machine.
//! Must not: install jobs of other units or follow relations; that is in [`crate::jobs`] and
//! [`crate::machine`].

pub(crate) mod automount;
pub(crate) mod device;
pub(crate) mod mount;
pub(crate) mod orders;
pub(crate) mod service;
pub(crate) mod simple;
pub(crate) mod socket;
