//! A directory for one test, which is gone with its value.

use std::fs;
use std::path::PathBuf;

/// The directory.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// An empty one; no two tests may use one name.
    pub(crate) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("warren-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a scratch directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
