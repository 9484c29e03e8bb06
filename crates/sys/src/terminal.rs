//! Terminals: keys as they are typed, termios(3).

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};

use crate::error::{Context, Result};

/// Columns and rows of a terminal; none of what is no terminal, or does not know.
pub fn size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Writes a line to standard error. A terminal that takes nothing, because somebody has typed Ctrl-S or
/// reads it too slowly, does not hold up who writes: it misses the line.
pub fn say(line: &[u8]) {
    let stderr = std::io::stderr();
    // Opened anew: the mode of the one that others share is theirs.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let own =
        || rustix::fs::open(crate::file::descriptor_path(stderr.as_fd()), flags, Mode::empty());
    let _ = match isatty(&stderr).then(own) {
        Some(Ok(terminal)) => rustix::io::write(terminal, line).map(|_| ()).map_err(Into::into),
        _ => stderr.lock().write_all(line),
    };
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
        // Nor does Ctrl-S hold up what is written there.
        mode.input_modes.remove(InputModes::IXON);
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
