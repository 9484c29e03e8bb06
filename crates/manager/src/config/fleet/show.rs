//! Unit files that rules made, for clients that read them as files.
//!
//! `systemctl cat` opens the path that it is told. A file of the layer is therefore written when
//! somebody asks for its path, and not before: never are there as many files as units.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use warren_fleet::made::Product;

use super::applied::Applied;
use crate::base::open_files::is_open_to_all;
use crate::config::snapshot::open_to_read;

/// Files that are kept written; of more, the oldest goes.
const SHOWN_MAX: usize = 1024;

/// The path below the layer's directory, if it is there.
pub fn relative<'p>(directory: &Path, path: &'p str) -> Option<&'p str> {
    path.strip_prefix(directory.to_str()?)?.strip_prefix('/')
}

/// The files of the layer that were written.
#[derive(Debug)]
pub struct Shown {
    directory: PathBuf,
    /// Oldest first.
    written: VecDeque<Box<str>>,
}

impl Shown {
    /// None yet: what an earlier manager wrote is removed.
    pub fn new(directory: PathBuf) -> Shown {
        let _ = fs::remove_dir_all(&directory);
        Shown { directory, written: VecDeque::new() }
    }

    /// The layer's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What a file of the layer says, with comments that say why; nothing if it is none.
    pub fn text(directory: &Path, applied: &Applied, path: &str) -> Option<String> {
        let relative = relative(directory, path)?;
        let product = applied.get(relative)?;
        Some(product.text(Product::unit_type(relative)?))
    }

    /// Whether every user may read the files that a file of the layer was made from: it says what they say.
    pub fn is_open(directory: &Path, applied: &Applied, path: &str) -> bool {
        let product = relative(directory, path).and_then(|relative| applied.get(relative));
        let is_open =
            |source: &str| open_to_read(Path::new(source)).is_ok_and(|file| is_open_to_all(&file));
        product.is_some_and(|product| product.sources().into_iter().all(is_open))
    }

    /// Has a file of the layer on the disk as it is now. What cannot be written cannot be read
    /// there; `warren cat` shows it all the same.
    pub fn show(&mut self, applied: &Applied, path: &str) {
        let Some(relative) = relative(&self.directory, path).map(Box::<str>::from) else { return };
        let Some(text) = Shown::text(&self.directory, applied, path) else { return };
        let mode = if Shown::is_open(&self.directory, applied, path) { 0o644 } else { 0o600 };
        let has_mode = |found: fs::Metadata| found.mode() & 0o777 == mode;
        if fs::read(path).is_ok_and(|old| old == text.as_bytes())
            && fs::metadata(path).is_ok_and(has_mode)
        {
            return;
        }
        let fresh = format!("{path}.new");
        let made = Path::new(path).parent().map_or(Ok(()), fs::create_dir_all);
        let put =
            made.and_then(|()| write(&fresh, &text, mode)).and_then(|()| fs::rename(&fresh, path));
        if put.is_ok() && !self.written.contains(&relative) {
            self.written.push_back(relative);
        }
        if self.written.len() > SHOWN_MAX
            && let Some(oldest) = self.written.pop_front()
        {
            let _ = fs::remove_file(self.directory.join(&*oldest));
        }
    }
}

/// Writes a file that nobody may read before it has its mode.
fn write(path: &str, text: &str, mode: u32) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))
}
