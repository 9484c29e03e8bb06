//! What a reading command says on stderr of files: what could not be read, and what `--verify` found.
//! What must not be here: a failure of the command, which is [`crate::Failure`].
//! Runs on the caller's thread.

use std::path::Path;

use warren_log_store::error::Error;

/// Says on stderr what could not be read.
pub fn report<'a>(damage: impl IntoIterator<Item = &'a Error>) {
    damage.into_iter().map(Error::to_string).for_each(say);
}

/// Says a fault on stderr, a line of its own.
pub fn say(fault: String) {
    warren_sys::tell!("{fault}");
}

/// Says on stderr what is wrong with a file.
pub fn put_verdict(path: &Path, faults: &[Error], quiet: bool) {
    faults.iter().for_each(|fault| warren_sys::tell!("{fault}"));
    let why = match faults {
        faults if faults.iter().any(Error::is_of_access) => "Permission denied",
        faults if faults.iter().any(Error::is_of_device) => "Input/output error",
        _ => "Bad message",
    };
    match faults.is_empty() {
        true if quiet => {}
        true => warren_sys::tell!("PASS: {}", path.display()),
        false => warren_sys::tell!("FAIL: {} ({why})", path.display()),
    }
}
