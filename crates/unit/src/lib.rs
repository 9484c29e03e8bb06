//! Text to units: names, syntax, the one settings table, drop-ins, specifiers, diagnostics.
//!
//! Everything here is pure: no file is opened, no clock is read, nothing is locked, and no input
//! makes it panic. Parsing never fails; it returns a value and a list of [`Diagnostic`]s.
//!
//! Where to start: [`name`] (what a unit is called), [`relation`] (how units are tied together),
//! [`config`] (what the settings mean once typed), [`diagnostic`] (how faults are reported).

pub mod compile;
pub mod config;
pub mod context;
pub mod device_name;
pub mod diagnostic;
pub mod doc;
pub mod escape;
pub mod fuzz;
pub mod glob;
pub mod install;
pub mod load;
pub mod loaded;
mod merged;
pub mod name;
pub mod parse;
pub mod relation;
pub mod search;
pub mod settings;
pub mod signal;
pub mod specifier;
pub mod value;

pub use compile::Compiler;
pub use context::{Bounds, Context, Defaults, Inherited, Scope};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use load::{Sources, load};
pub use loaded::{LoadState, Loaded, UnitFlags};
pub use name::{NameError, UnitName, UnitType};
pub use parse::UnitFile;
pub use relation::Relation;
pub use signal::Signal;
