//! A key on the console, while everything ends: wait no longer for whom the last line named first.
//!
//! The console is a terminal or anything else that gives bytes. It is read without waiting; what
//! cannot be read any more is let go.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use warren_sys::terminal::{self, KeyByKey};

/// The key.
pub const SKIP: u8 = b's';

/// Bytes that are read at a time; who types more has to wait.
const READ_BYTES_MAX: usize = 64;

/// The open console.
#[derive(Debug)]
pub struct Console {
    file: File,
    /// Keys come one by one while this is there; none for what is no terminal.
    _mode: Option<KeyByKey<OwnedFd>>,
}

impl Console {
    /// Opens it; none where there is none.
    pub fn open(path: &Path) -> Option<Console> {
        let fd = terminal::open_for_keys(path).ok()?;
        let mode = fd.try_clone().ok().and_then(|fd| KeyByKey::new(fd).ok());
        Some(Console { file: File::from(fd), _mode: mode })
    }

    /// For the loop to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether the key was typed; none when nothing will come any more.
    pub fn is_skip_typed(&mut self) -> Option<bool> {
        let mut keys = [0; READ_BYTES_MAX];
        match self.file.read(&mut keys) {
            Ok(0) => None,
            Ok(count) => Some(keys[..count].contains(&SKIP)),
            Err(error) => {
                let later = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                later.then_some(false)
            }
        }
    }
}
