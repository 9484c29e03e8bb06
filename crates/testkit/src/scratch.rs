//! Directories of one test.
//! Must not: be shared by two tests.
//! Runs on the thread of the test.

use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A directory that is removed with this value.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// An empty directory; the name is one that no other test of the crate uses. It is in `TMPDIR`.
    ///
    /// # Panics
    /// When it cannot be made.
    #[track_caller]
    pub fn new(name: &str) -> Scratch {
        let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "warren".to_owned());
        let path = std::env::temp_dir().join(format!("{package}-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a scratch directory can be made");
        Scratch(path)
    }

    /// The path of a name in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The same as text.
    ///
    /// # Panics
    /// When `TMPDIR` is not text.
    pub fn text_path(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().expect("the path is text")
    }

    /// Writes a file, and the directories that it is in; its path as text.
    ///
    /// # Panics
    /// When it cannot be written.
    #[track_caller]
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("it can be made");
        fs::write(&path, text).expect("it can be written");
        self.text_path(name)
    }

    /// `PATH TEXT` writes a file, `PATH -> TARGET` makes a link, `- PATH` takes either away.
    ///
    /// # Panics
    /// When it cannot be done.
    #[track_caller]
    pub fn edit(&self, edit: &str) {
        let place = |name: &str| {
            let path = self.path(name);
            fs::create_dir_all(path.parent().expect("it is in a directory")).expect("mkdir");
            let _ = fs::remove_file(&path);
            path
        };
        match edit.split_once(' ') {
            Some(("-", name)) => _ = place(name),
            Some((name, target)) if target.starts_with("-> ") => {
                std::os::unix::fs::symlink(&target[3..], place(name)).expect("a link");
            }
            Some((name, text)) => fs::write(place(name), text).expect("a file"),
            None => panic!("no edit: {edit}"),
        }
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<OsStr> for Scratch {
    fn as_ref(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_begins_empty_and_goes_with_its_value() {
        let scratch = Scratch::new("twice");
        let file = scratch.write("a/b", "text");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "text");
        scratch.edit("a/b other");
        scratch.edit("c -> a/b");
        assert_eq!(fs::read_to_string(scratch.path("c")).expect("a link"), "other");
        scratch.edit("- c");
        assert!(fs::symlink_metadata(scratch.path("c")).is_err());
        let again = Scratch::new("twice");
        assert!(!again.path("a").exists() && again.0 == scratch.0);
        drop(again);
        assert!(!scratch.0.exists());
    }
}
