//! Whose run counts: a manager that was killed leaves its run of the generators behind, and the next
//! one's may begin before that ends. None waits for another; the one that began last puts in place
//! what it made.
//!
//! `generator.turn` has the name of that one's directory, and has changed when that one began. Whoever reads or writes it has locked it
//! (flock(2)), as each run has its own directory, so that one that nobody has locked was left behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::base::file_identity::changed_at;

/// Says whose turn it is, in the run-time directory.
const TURN: &str = "generator.turn";

/// What names of directories of runs begin with.
const FRESH: &str = "generator.new.";

/// Directories of one process id that are in use, or cannot be removed.
const NAMES_MAX: u32 = 64;

/// A run of the generators.
pub(super) struct Turn {
    runtime: PathBuf,
    name: String,
    /// Has the lock.
    _directory: File,
}

impl Turn {
    /// Makes an empty directory and takes the turn. What killed runs left behind is removed.
    pub(super) fn take(runtime: &Path) -> io::Result<Turn> {
        fs::create_dir_all(runtime)?;
        let mut turn = lock(runtime)?;
        remove_abandoned(runtime)?;
        let (name, directory) = make(runtime)?;
        directory.lock()?;
        turn.set_len(0)?;
        turn.write_all(name.as_bytes())?;
        Ok(Turn { runtime: runtime.to_owned(), name, _directory: directory })
    }

    /// Where this run's generators write.
    pub(super) fn directory(&self) -> PathBuf {
        self.runtime.join(&self.name)
    }

    /// Does this if no run has begun meanwhile, and keeps others from beginning until it is done.
    pub(super) fn if_last(&self, put: impl FnOnce()) -> io::Result<()> {
        let mut turn = lock(&self.runtime)?;
        let mut last = String::new();
        turn.read_to_string(&mut last)?;
        if last == self.name {
            put();
        }
        Ok(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // If it cannot be, the next run does.
        let _ = fs::remove_dir_all(self.directory());
    }
}

/// Others have it for a moment only.
fn lock(runtime: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false);
    let file = file.open(runtime.join(TURN))?;
    file.lock()?;
    Ok(file)
}

/// When the last turn was taken, ns since 1970 by the clock of file systems.
pub(super) fn last_taken_ns(runtime: &Path) -> Option<u64> {
    fs::metadata(runtime.join(TURN)).ok().map(|turn| changed_at(&turn))
}

fn make(runtime: &Path) -> io::Result<(String, File)> {
    let names = (0..NAMES_MAX).map(|n| format!("{FRESH}{}.{n}", std::process::id()));
    for name in names {
        let path = runtime.join(&name);
        match fs::create_dir(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.and_then(|()| Ok((name, File::open(path)?))),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn remove_abandoned(runtime: &Path) -> io::Result<()> {
    for entry in fs::read_dir(runtime)?.flatten() {
        let is_of_run = entry.file_name().to_str().is_some_and(|name| name.starts_with(FRESH));
        if is_of_run && File::open(entry.path()).is_ok_and(|directory| directory.try_lock().is_ok())
        {
            // A generator that outlived its run may still write there: the next run finds it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
