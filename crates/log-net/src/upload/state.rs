//! How far the receiver has got: the cursor of the last entry that it said it has, in a file that is
//! replaced as a whole.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use warren_log_show::Failure;
use warren_log_store::files::read_small;
use warren_log_store::query::Cursor;

/// Begins the line of the cursor.
const KEY: &str = "LAST_CURSOR=";

/// More than a file of ours has, bytes.
const BYTES_MAX: u64 = 4096;

/// The cursor in the file; `None` when there is no file yet, and when there is no cursor in it, as after a crash: what the
/// receiver has twice is better than what it never has. The latter is said.
///
/// # Errors
/// When it cannot be read: to begin anew would send everything again.
pub fn read(path: &Path) -> Result<Option<Cursor>, Failure> {
    let bytes = match read_small(path, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Failure(format!("{}: {e}", path.display()))),
    };
    let text = String::from_utf8_lossy(&bytes);
    let cursor = text.lines().find_map(|line| line.strip_prefix(KEY)).and_then(Cursor::parse);
    if cursor.is_none() {
        warren_sys::tell!(
            "{}: it holds no cursor; sending the log from its beginning",
            path.display()
        );
    }
    Ok(cursor)
}

/// Puts a cursor into the file, on the disk.
pub fn write(path: &Path, cursor: &Cursor) -> Result<(), Failure> {
    let replace = || -> std::io::Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let new = path.with_added_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(format!("# How far the log was uploaded.\n{KEY}{cursor}\n").as_bytes())?;
        file.sync_data()?;
        std::fs::rename(&new, path)
    };
    replace().map_err(|e| Failure(format!("{}: {e}", path.display())))
}
