//! The console of `warren top`: what fails and why, what waits for what, who uses how much, and a page for each unit.
//!
//! Three parts. What is pure: [`model`] holds what is known, [`table`] makes rows of it, [`state`] takes an [`Event`]
//! and returns [`Order`]s, [`draw`] fills a buffer. What is thin: [`usage`] reads cgroup files, `threads` asks the
//! manager, and [`run`] owns the terminal. [`lines`] is the same news as plain lines.
//!
//! Nothing here waits where a person waits: each thing that may be slow (the manager, the log, cgroups, the terminal)
//! has a thread of its own and one thing to do at a time. Must not be here: sockets ([`Manager`] is the seam), a
//! decision about a unit, a text of a stranger on the screen that [`text`] has not cleaned.
//!
//! [`Event`]: state::Event
//! [`Order`]: state::Order
//! [`Manager`]: manager::Manager

// They panic when nothing can be written, and break the picture when it can.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod asking;
pub mod draw;
pub mod fuzz;
pub mod keys;
pub mod lines;
pub mod manager;
pub mod model;
pub mod numbers;
mod page;
pub mod poller;
pub mod questions;
pub mod run;
pub mod state;
pub mod table;
mod terminal;
pub mod text;
mod threads;
pub mod usage;
