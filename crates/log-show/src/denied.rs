//! Files of the log that the caller may not read: which, and what would help.
//! What must not be here: a look at rights; what could not be opened says enough.
//! Runs on the caller's thread.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Files, by directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Denied {
    paths: Vec<PathBuf>,
}

impl Denied {
    /// Adds a file or a directory.
    pub fn add(&mut self, path: PathBuf) {
        self.paths.push(path);
    }

    /// Whether there is one.
    pub fn is_any(&self) -> bool {
        !self.paths.is_empty()
    }

    /// What is said: a line for each directory, and who may read.
    fn text(&self) -> Option<String> {
        let mut lines = Vec::new();
        let mut directories: Vec<&Path> =
            self.paths.iter().filter_map(|path| path.parent()).collect();
        directories.sort_unstable();
        directories.dedup();
        for directory in directories {
            let here: Vec<&PathBuf> =
                self.paths.iter().filter(|path| path.parent() == Some(directory)).collect();
            lines.extend(here.first().map(|first| match here.len() {
                1 => format!("{}: Permission denied.", first.display()),
                count => {
                    format!("{} and {} more there: Permission denied.", first.display(), count - 1)
                }
            }));
        }
        let hint = "Hint: Messages of other users and of the system are for root and for users in the groups \
                    'systemd-journal' and 'adm'.";
        (!lines.is_empty()).then(|| format!("{}\n{hint}", lines.join("\n")))
    }

    /// Says on stderr what is left out; where nothing else can be read, that is a failure.
    ///
    /// # Errors
    /// When there is no file that the caller may read.
    pub fn check(&self, has_others: bool, quiet: bool) -> Result<(), Failure> {
        match self.text() {
            Some(text) if !has_others => Err(Failure(format!("No log file can be read.\n{text}"))),
            Some(text) if !quiet => {
                warren_sys::tell!("{text}");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_is_named_once() {
        let mut denied = Denied::default();
        assert_eq!(denied.text(), None);
        let paths = ["/a/x.seg", "/a/y.seg", "/b/z.log", "/a/w.log"];
        paths.into_iter().for_each(|path| denied.add(path.into()));
        let text = denied.text().expect("there are some");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "/a/x.seg and 2 more there: Permission denied.");
        assert_eq!(lines[1], "/b/z.log: Permission denied.");
        assert!(lines.len() == 3 && lines[2].starts_with("Hint: "), "{lines:?}");
        assert!(denied.check(false, true).is_err() && denied.check(true, true).is_ok());
    }
}
