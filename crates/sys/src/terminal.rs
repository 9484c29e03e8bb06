//! Terminals: keys as they are typed, termios(3).

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::error::{Context, Result};

/// Columns and rows of a terminal; none of what is no terminal, or does not know.
pub fn size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Opens a terminal, or what stands in for one, to read keys without waiting. It does not become the
/// controlling terminal of the process.
pub fn open_for_keys(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)
}

/// While this lives, the terminal hands out each key at once and shows none. Signals by key
/// still work.
#[derive(Debug)]
pub struct KeyByKey<T: AsFd> {
    terminal: T,
    before: Termios,
}

impl<T: AsFd> KeyByKey<T> {
    /// Changes the terminal's mode. `ENOTTY` when it is none.
    pub fn new(terminal: T) -> Result<KeyByKey<T>> {
        let before = tcgetattr(&terminal).call("tcgetattr")?;
        let mut mode = before.clone();
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Now, &mode).call("tcsetattr")?;
        Ok(KeyByKey { terminal, before })
    }
}

impl<T: AsFd> Drop for KeyByKey<T> {
    fn drop(&mut self) {
        // The terminal may be gone, which is fine.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
