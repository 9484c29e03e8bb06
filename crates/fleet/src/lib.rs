//! The fleet language: objects, templates and rules that make units of them.
//!
//! It is the configuration language that Icinga 2's users know (its documentation, "Language
//! Reference" and "Library Reference", and the behaviour of the installed program), evaluated in
//! stages: parse, evaluate the top level, freeze, match rules as a join over columns, expand.
//!
//! Everything here is pure: no file is opened (who calls passes in what `include` finds), no clock
//! is read, and no input makes it panic. Parsing never fails; it returns a tree and diagnostics.
//!
//! Where to start: `parse` (text to tree), [`engine::load`] (a configuration to objects),
//! [`units::Units`] (objects to units), [`session::Session`] (all of it, kept), `format` (the formatter), `console` (one expression).
//!
//! `tests/data` and `tests/objects.rs` list where the language and the schema differ from the
//! installed program on purpose, with the reasons.

pub mod assist;
pub mod ast;
pub mod console;
pub mod diagnostic;
pub mod dump;
pub mod dump_icinga;
pub mod engine;
pub mod eval;
pub mod format;
pub mod fuzz;
pub mod heap;
pub mod lexer;
pub mod library;
pub mod made;
pub mod modules;
pub mod ops;
pub mod outside;
pub mod parse;
pub mod schema;
pub mod session;
mod share;
pub mod source;
pub mod text;
pub mod time;
pub mod token;
pub mod types;
pub mod units;
pub mod value;

pub use diagnostic::{Diagnostic, Severity};
pub use parse::parse;
pub use source::{FileId, Place, Source, Span};
