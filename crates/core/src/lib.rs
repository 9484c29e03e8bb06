//! The machine: units, jobs, transactions and unit types, as one pure state machine.
//!
//! Nothing here does I/O, reads a clock, holds a lock or spawns a thread. Events go in, effects
//! come out; see [`machine`] for the one function that does it, [`transaction`] for how a request
//! becomes jobs, [`graph`] for what units are to each other, [`view`] for what readers see.
//!
//! The rooms, from the ground up; each uses only those above it in this list.

pub mod model;

pub mod graph;

pub mod settings;

pub mod protocol;

pub mod transaction;

pub mod persist;

pub mod view;

mod parts;

pub mod features;

mod state_change;

mod jobs;

mod relations;

mod types;

pub mod machine;
