//! The file that takes the output of a unit while there is no log daemon.

use std::path::{Path, PathBuf};

/// Largest log file of a unit that a new run goes on with, in bytes; a larger one is kept once.
pub(crate) const LOG_BYTES_MAX: u64 = 4 << 20;

/// The file in `directory` to which a unit's output is appended.
pub(crate) fn log_file(directory: &Path, unit: &str) -> PathBuf {
    let path = directory.join(format!("{unit}.log"));
    if std::fs::metadata(&path).is_ok_and(|m| m.len() > LOG_BYTES_MAX) {
        let _ = std::fs::rename(&path, path.with_extension("log.1"));
    }
    path
}
