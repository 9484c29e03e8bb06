//! warren-web: a page of a manager's units for browsers, over HTTP or HTTPS.
//!
//! [`query`] says what a request asks for, [`guard`] who may have it, `view` makes pictures of the units and what differs
//! between two of them: these are pure. `hub` has the one thread that asks the manager, and asks nothing while nobody
//! looks; `ask` has what is asked when a person opens it, `log` follows a unit's log, [`assets`] is the page. [`server`]
//! answers clients.
//!
//! Filters, pages and differences are made here, so that a browser holds one page of a table whatever there is. Must not be
//! here: TLS (that is `log-net`'s), the meaning of filters and groups (that is `console`'s), and a sentence about a unit
//! (those are `cli`'s).

// They panic when nothing can be written, which ends a daemon: `warren_sys::tell!` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod ask;
pub mod assets;
pub mod fuzz;
pub mod guard;
mod hub;
mod log;
pub mod options;
pub mod query;
pub mod server;
mod view;
