//! Certificates that are renewed while the program runs: their files are looked at before each new
//! connection, and read again when they are others. Connections that are there go on as they began.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use warren_log_show::Failure;

/// A configuration made of files.
pub struct Renewed<C> {
    files: Vec<PathBuf>,
    make: Box<dyn Fn() -> Result<Arc<C>, Failure> + Send + Sync>,
    /// Nothing is read while it is held.
    known: Mutex<Loaded<C>>,
}

struct Loaded<C> {
    /// The files that were read last, whether or not they were of use.
    read: Vec<Option<Identity>>,
    config: Arc<C>,
}

/// Another one when a file was written or replaced: device, inode, size, and when it was changed.
type Identity = [i64; 7];

impl<C> fmt::Debug for Renewed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").field("files", &self.files).finish_non_exhaustive()
    }
}

impl<C> Renewed<C> {
    /// What `make` makes of these files.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn new(
        files: Vec<PathBuf>,
        make: impl Fn() -> Result<Arc<C>, Failure> + Send + Sync + 'static,
    ) -> Result<Renewed<C>, Failure> {
        // Before they are read: should they change meanwhile, they are read once too often.
        let read = identities(&files);
        let known = Mutex::new(Loaded { read, config: make()? });
        Ok(Renewed { files, make: Box::new(make), known })
    }

    /// As the files say now; as they said before while they are of no use, which is said once.
    pub fn current(&self) -> Arc<C> {
        let read = identities(&self.files);
        if let Some(config) = self.known_of(&read) {
            return config;
        }
        let made = (self.make)();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.read = read;
        match made {
            Ok(config) => known.config = config,
            Err(Failure(why)) => warren_sys::tell!("{why}; the certificates of before stay in use"),
        }
        known.config.clone()
    }

    fn known_of(&self, read: &[Option<Identity>]) -> Option<Arc<C>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        (known.read == read).then(|| known.config.clone())
    }
}

fn identities(files: &[PathBuf]) -> Vec<Option<Identity>> {
    let identity = |path: &Path| {
        let stat = std::fs::metadata(path).ok()?;
        let [device, inode, size] = [stat.dev(), stat.ino(), stat.size()].map(|it| it as i64);
        let (written, changed) = (stat.mtime(), stat.ctime());
        Some([device, inode, size, written, stat.mtime_nsec(), changed, stat.ctime_nsec()])
    };
    files.iter().map(|path| identity(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_taken_and_a_bad_one_is_not() {
        let path = std::env::temp_dir().join(format!("warren-renewed-{}", std::process::id()));
        let write = |text: &str| {
            let new = path.with_extension("new");
            std::fs::write(&new, text)
                .and_then(|()| std::fs::rename(&new, &path))
                .expect("written");
        };
        write("1");
        let file = path.clone();
        let make = move || {
            let text = std::fs::read_to_string(&file).map_err(|e| Failure(e.to_string()))?;
            text.parse::<u32>().map(Arc::new).map_err(|e| Failure(e.to_string()))
        };
        let renewed = Renewed::new(vec![path.clone()], make).expect("a number");
        let first = renewed.current();
        assert!(Arc::ptr_eq(&first, &renewed.current()), "not read again");
        write("2");
        assert_eq!((*first, *renewed.current()), (1, 2));
        write("rubbish");
        assert_eq!([*renewed.current(), *renewed.current()], [2, 2]);
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(*renewed.current(), 2);
        write("3");
        assert_eq!(*renewed.current(), 3);
        let _ = std::fs::remove_file(&path);
    }
}
