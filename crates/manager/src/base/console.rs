//! A key on the console during a shutdown: stop waiting for what the last line named first. It is to be
//! typed twice, after a moment of silence and with nothing else: who still types into the shell that has just
//! ended skips nothing.
//!
//! The console is a terminal or anything else that gives bytes. It is read without waiting; what
//! cannot be read any more is let go.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use warren_sys::terminal::{self, KeyByKey};

/// The key.
pub const SKIP: u8 = b's';

/// Nothing else was typed for so long before it.
const SILENCE: Duration = Duration::from_secs(1);

/// Both come within this time.
const TWICE_WITHIN: Duration = Duration::from_secs(3);

/// Bytes that are read at a time; who types more has to wait.
const READ_BYTES_MAX: usize = 64;

/// The open console.
#[derive(Debug)]
pub struct Console {
    file: File,
    /// Keys come one by one while this is there; none for what is no terminal.
    _mode: Option<KeyByKey<OwnedFd>>,
    presses: Presses,
}

/// What was typed last.
#[derive(Debug, Default)]
struct Presses {
    /// The key, once.
    first: Option<Instant>,
    /// Anything else.
    other: Option<Instant>,
}

impl Presses {
    /// These came at once; whether the key has been typed twice.
    fn are_skip(&mut self, keys: &[u8], now: Instant) -> bool {
        let is_second = self.first.take().is_some_and(|first| now - first <= TWICE_WITHIN);
        let is_quiet = self.other.is_none_or(|other| now - other >= SILENCE);
        match (keys, is_second) {
            ([SKIP], true) => return true,
            ([SKIP, SKIP], false) if is_quiet => return true,
            ([SKIP], false) if is_quiet => self.first = Some(now),
            _ => self.other = Some(now),
        }
        false
    }
}

impl Console {
    /// Opens it; none where there is none.
    pub fn open(path: &Path) -> Option<Console> {
        let fd = terminal::open_for_keys(path).ok()?;
        let mode = fd.try_clone().ok().and_then(|fd| KeyByKey::new(fd).ok());
        Some(Console { file: File::from(fd), _mode: mode, presses: Presses::default() })
    }

    /// For the loop to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether the key was typed twice; none when nothing will come any more.
    pub fn is_skip_typed(&mut self) -> Option<bool> {
        let mut keys = [0; READ_BYTES_MAX];
        match self.file.read(&mut keys) {
            Ok(0) => None,
            Ok(count) => Some(self.presses.are_skip(&keys[..count], Instant::now())),
            Err(error) => {
                let later = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                later.then_some(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_alone_and_twice_counts() {
        let began = Instant::now();
        let typed = |presses: &[(u64, &str)]| {
            let mut all = Presses::default();
            let mut one = |&(ms, keys): &(u64, &str)| {
                all.are_skip(keys.as_bytes(), began + Duration::from_millis(ms))
            };
            presses.iter().map(&mut one).collect::<Vec<_>>()
        };
        assert_eq!(typed(&[(0, "s"), (900, "s")]), [false, true]);
        assert_eq!(typed(&[(0, "ss")]), [true]);
        assert_eq!(typed(&[(0, "s"), (4000, "s"), (4500, "s")]), [false, false, true]);
        // Who types a command, key by key or line by line.
        assert_eq!(typed(&[(0, "p"), (100, "s"), (200, "s")]), [false; 3]);
        assert_eq!(typed(&[(0, "ps aux\n"), (100, "ss")]), [false; 2]);
        assert_eq!(typed(&[(0, "s"), (100, "y"), (200, "s"), (300, "s")]), [false; 4]);
        assert_eq!(typed(&[(0, "sss")]), [false]);
        assert_eq!(typed(&[(0, "x"), (1500, "s"), (1600, "s")]), [false, false, true]);
    }
}
