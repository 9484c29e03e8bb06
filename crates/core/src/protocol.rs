//! What goes into the machine and what comes out of it.
//!
//! Owns: events, effects, requests and their replies, and the events of charts.
//! Must not: decide anything; these types are what the manager and the simulator share with the machine.

pub mod event;
pub mod request;
pub mod trace_event;
