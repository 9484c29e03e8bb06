//! Messages between Warrener's programs: one type for each, its version, and its bytes.
//!
//! - Owns: [`frame`], which cuts streams into messages, and [`call`], the objects around parameters; [`control`], what
//!   `warren` and the manager say; [`log`], what the log daemon is asked;
//!   [`device_link`], what warren-deviced tells of devices; [`log_link`], what the manager tells the log daemon.
//! - Must not: open a socket or a file, read a clock, or know what a message is answered with.
//! - Runs on the thread of its caller.
//!
//! # Programs of several versions
//!
//! A host runs programs of two versions while it is upgraded, and nested managers may be of any.
//! Each language has a `VERSION`, and a golden file for each message (`tests/golden/LANGUAGE-VERSION/`).
//! Within a version a language only grows:
//!
//! - An answer may gain fields. A reader passes over a field that it does not know, and takes one
//!   that is missing for its default (`#[serde(default)]` on each answer).
//! - A word may be new. Enums of words are open: a reader keeps a word that it does not know as
//!   `Other`, shows it and writes it back. Codes of reasons are texts ([`control::ReasonCode`]).
//! - A request may gain parameters. A method that only reads passes over one that it does not know.
//!   A method that changes something refuses it, since it would do something other than was asked.
//! - Whatever else changes, such as a field that goes or gets another type, is a new version.
//!
//! What init, the exec helpers and the manager say to one another is typed and held by golden bytes
//! in `warren_init::protocol`.

#[macro_use]
mod answer;
#[macro_use]
mod word;

pub mod call;
pub mod control;
pub mod device_link;
pub mod frame;
pub mod log;
pub mod log_link;
