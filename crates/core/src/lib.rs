//! The machine: units, jobs, transactions and unit types, as one pure state machine.
//!
//! Nothing here does I/O, reads a clock, holds a lock or spawns a thread. Events go in, effects
//! come out; see [`machine`] for the one function that does it, [`transaction`] for how a request
//! becomes jobs, [`graph`] for what units are to each other, [`view`] for what readers see.

pub mod cgroup;
pub mod chunked;
pub mod clearing;
pub mod command_lines;
pub mod device;
pub mod device_table;
pub mod event;
mod freezer;
mod going_down;
pub mod graph;
mod groups;
pub mod happening;
pub mod ids;
pub mod job;
pub mod machine;
pub mod notes;
pub mod part;
pub mod reason;
pub mod record;
pub mod request;
pub mod settings;
pub mod state;
pub mod time;
pub mod transaction;
pub mod view;
pub mod written;

mod automount;
mod check;
mod edited_times;
mod forgetting;
mod jobs;
mod limits;
mod mount;
mod resume;
mod ripple;
mod runtime_limit;
mod service;
mod service_events;
mod service_stop;
mod simple;
mod socket;
mod start_limit;
