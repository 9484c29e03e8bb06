//! Fuzz targets: one for each parser that reads what strangers send or leave behind.
//!
//! [`TARGETS`] is the one table. `cargo xtask fuzz --coverage SECONDS` runs each under libFuzzer, and
//! `tests/corpus.rs` runs each over the inputs in `corpus/TARGET` on every run of the tests.
//!
//! What must not be here: a property of a format. That stands beside the parser, in the `fuzz` module of its crate,
//! unless all that it needs is public.

pub mod memory;
pub mod targets;

pub use targets::{TARGETS, Target};
