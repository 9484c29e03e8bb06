//! The log daemon: what clients send, turned into fields, and put into the log store.
//!
//! From the ground up: `input` turns bytes into fields and is pure, [`config`] has the table of
//! settings, [`daemon`] has the sockets and the threads. What must not be here: the format of files,
//! which is the store's, and anything that reads the log for people.
//!
//! Start reading at [`daemon`].

// They panic when nothing can be written, which ends a daemon: `warren_sys::tell!` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod config;
pub mod daemon;
pub mod fuzz;
mod input;
pub mod program;
