//! The files that take the output of units while there is no log daemon.
//! What must not be here: streams, which `log_link` has. A thread of its own looks at files that processes write to
//! themselves: from the first of them on, or if the last manager left some.

use std::cell::OnceCell;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Largest log file of a unit, in bytes. Of a larger one so many of the last are kept beside it, once.
pub(crate) const LOG_BYTES_MAX: u64 = 4 << 20;

/// Between two looks at the files, and so much more for a thousand of them.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// Nobody but the manager's own user and its group reads what services say.
const DIRECTORY_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// Makes the directory, or closes it to others.
pub(crate) fn make_directory(directory: &Path) -> std::io::Result<()> {
    if let Some(parent) = directory.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            std::fs::set_permissions(directory, Permissions::from_mode(DIRECTORY_MODE))
        }
        made => made,
    }
}

/// The file in `directory` to which a unit's output is appended.
pub(crate) fn log_file(directory: &Path, unit: &str) -> PathBuf {
    let path = directory.join(format!("{unit}.log"));
    if std::fs::metadata(&path).is_ok_and(|m| m.len() > LOG_BYTES_MAX) {
        let _ = std::fs::rename(&path, path.with_extension("log.1"));
    }
    path
}

/// A log file, to be appended to.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

/// The files that processes write to themselves.
pub(crate) struct UnitLogFiles {
    directory: PathBuf,
    /// The thread ends with it.
    thread: OnceCell<Option<Sender<()>>>,
}

impl UnitLogFiles {
    /// In this directory, in which the last manager may have left some that are written to.
    pub(crate) fn new(directory: PathBuf) -> UnitLogFiles {
        let has_some = std::fs::read_dir(&directory).is_ok_and(|mut all| all.next().is_some());
        let files = UnitLogFiles { directory, thread: OnceCell::new() };
        if has_some {
            files.start();
        }
        files
    }

    /// The file of a unit, which a process is going to write to.
    pub(crate) fn file(&self, unit: &str) -> String {
        self.start();
        log_file(&self.directory, unit).to_string_lossy().into_owned()
    }

    /// Without a thread the files have no bound until a run begins.
    fn start(&self) {
        self.thread.get_or_init(|| {
            let (sender, end) = channel();
            let directory = self.directory.clone();
            let thread = std::thread::Builder::new().name("log-files".into());
            thread.spawn(move || watch(&directory, &end)).ok().map(|_| sender)
        });
    }
}

fn watch(directory: &Path, end: &Receiver<()>) {
    let mut apart = LOOKS_APART;
    while end.recv_timeout(apart) == Err(RecvTimeoutError::Timeout) {
        apart = LOOKS_APART + LOOKS_APART / 1000 * look(directory);
    }
}

/// Cuts files that are too large; how many files there are.
fn look(directory: &Path) -> u32 {
    let mut count = 0;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        count += 1;
        let path = entry.path();
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        if is_log && entry.metadata().is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
            // It is tried again with the next look.
            let _ = cut(&path);
        }
    }
    count
}

/// Keeps the end of a file beside it and makes it empty: who writes to it appends, and goes on at its beginning. What
/// is written between the two is lost.
fn cut(path: &Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX)))?;
    let mut end = Vec::new();
    Read::by_ref(&mut file).take(LOG_BYTES_MAX).read_to_end(&mut end)?;
    let kept = path.with_extension("log.1");
    match std::fs::remove_file(&kept) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Room for it comes first, where there is none.
    file.set_len(0)?;
    let mut kept = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(kept)?;
    kept.write_all(&end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_testkit::{Scratch, wait_until};

    #[test]
    fn a_file_that_is_written_to_has_a_bound_and_keeps_its_end() {
        let scratch = Scratch::new("unit-log-files");
        let directory = scratch.path("units");
        make_directory(&directory).expect("a directory");
        let files = UnitLogFiles::new(directory.clone());
        let path = PathBuf::from(files.file("a.service"));
        let mut file = open(&path).expect("it can be made");
        file.write_all(&vec![b'x'; 3 * LOG_BYTES_MAX as usize]).expect("there is room");
        file.write_all(b"the end\n").expect("there is room");
        let length = || std::fs::metadata(&path).expect("it is there").len();
        wait_until("it is cut", || length() == 0);
        let kept = directory.join("a.service.log.1");
        wait_until("its end is kept", || {
            std::fs::read(&kept).is_ok_and(|kept| kept.ends_with(b"xthe end\n"))
        });
        assert_eq!(std::fs::metadata(&kept).expect("it is there").len(), LOG_BYTES_MAX);
        file.write_all(b"more\n").expect("there is room");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"more\n");
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!([&path, &kept].map(|path| mode(path) & 0o777), [FILE_MODE; 2]);
        assert_eq!(mode(&directory) & 0o777, DIRECTORY_MODE);
    }
}
