//! The unit types: what a start, a stop and an event mean for a service, a socket, a mount, ...
//!
//! Owns: one file or folder a type, with the type's state machine; `orders` finds the type of a unit that is to start
//! or stop.
//! Must not: decide what follows for other units; `machine::propagate` does that when the change of state is told.

pub(crate) mod automount;
pub(crate) mod device;
pub(crate) mod mount;
pub(crate) mod orders;
pub(crate) mod path;
pub(crate) mod scope;
pub(crate) mod service;
pub(crate) mod simple;
pub(crate) mod socket;
pub(crate) mod timer;
