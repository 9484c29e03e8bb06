//! The files of a fleet configuration: read, found by patterns, watched.
//!
//! `warren-fleet` is pure; this is what it asks. Both the manager and `warren fleet` use it. It
//! must not know what the files mean. Start at [`Files`].

mod data;
mod find;
mod identity;
mod reading;
mod watched;

pub use data::parse as parse_data;
pub use reading::{Host, IncludeRequest, Log, Reading};
pub use watched::{Changes, Files};

use std::path::{Path, PathBuf};

/// Where the system's rules are.
pub const SYSTEM_DIRECTORY: &str = "/etc/warren/fleet.d";

/// Where a user's rules are, below the directory of the user's configuration.
pub const USER_DIRECTORY: &str = "warren/fleet.d";

/// Largest file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// Most bytes of all files of one configuration.
pub const ALL_BYTES_MAX: u64 = 1 << 30;

/// Where the user's configuration is: `$XDG_CONFIG_HOME`, else `~/.config`.
pub fn user_directory() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || variable("HOME").map(|home| Path::new(&home).join(".config"));
    variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home).map(|d| d.join(USER_DIRECTORY))
}

/// Every `*.conf` below a directory, sorted.
pub fn rules_below(directory: &Path) -> Vec<PathBuf> {
    find::below(directory, "*.conf", find::Selection::FILES, &mut Vec::new())
}

/// Every `*.test` below a directory, in the order in which rules would be read.
pub fn tests_below(directory: &Path) -> Vec<PathBuf> {
    find::below(directory, "*.test", find::Selection::FILES, &mut Vec::new())
}

/// The bytes of a file, no more than [`FILE_BYTES_MAX`].
///
/// # Errors
/// In words: it is not there, no file, too large, or not readable.
pub fn read_text(path: &Path) -> Result<Vec<u8>, String> {
    reading::read(path, None, (&reading::Reach::Everything, reading::Word::Nobody))
        .map(|known| known.source.text.to_vec())
}
