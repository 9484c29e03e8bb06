//! What our servers of HTTP share: connections that are taken and counted, heads of requests, answers.
//!
//! `serve` takes connections, with a thread for each; `listen` has the sockets; `request` reads a head; `reply` writes
//! an answer. All that a client can do is bounded. Must not: know what is asked for, or TLS (that is `log-net`'s).

// They panic when nothing can be written, which ends a daemon: `warren_sys::tell!` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod listen;
pub mod reply;
pub mod request;
pub mod serve;
