//! Run state and generations as bytes, and back.
//!
//! Owns: the formats of the state file and of the generation file, of this version and of all before.
//! Must not: read or write a file, or change a unit; `machine::recover` goes on from what was read.

pub mod generation;
pub mod run_state;
mod service;
