//! The log for other machines and programs: answers over HTTP and varlink, and what is sent to receivers.
//!
//! `warren_http::serve` takes connections, with a thread for each. From the ground up: [`tls`] is rustls and
//! certificates; above them stand [`access`] (varlink), [`gateway`] (HTTP) and [`upload`], which do not know
//! each other. What must not be here: a write to the log, and any reading of entries but through
//! `warren_log_show`. No other crate knows TLS.

// They panic when nothing can be written, which ends a daemon: `warren_sys::tell!` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod access;
pub mod fuzz;
pub mod gateway;
pub mod programs;
pub mod tls;
pub mod upload;
