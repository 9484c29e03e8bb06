//! Programs of others that run when all is done but the end itself: a UPS is told to cut the power, an array
//! that it is clean (systemd-halt.service(8)).
//!
//! They run side by side, each with a bound, as steps do ([`crate::last_steps::storage`]). How they end changes nothing,
//! it is said.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use warren_sys::process;

use crate::base::programs::find;

/// Where they are on a host and in a container.
pub const DIRECTORIES: [&str; 2] =
    ["/usr/lib/systemd/system-shutdown", "/lib/systemd/system-shutdown"];

/// Which are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// What each is told: `poweroff`, `reboot`, `halt`, `kexec` or `exit`.
    pub word: String,
    /// Of one name that of the first directory.
    pub directories: Vec<PathBuf>,
}

impl Programs {
    /// `WORD:DIRECTORY[:DIRECTORY...]`
    pub fn to_argument(&self) -> String {
        let directories = self.directories.iter().map(|path| path.to_string_lossy());
        std::iter::once(self.word.as_str().into()).chain(directories).collect::<Vec<_>>().join(":")
    }

    /// Reads that.
    pub fn parse(text: &str) -> Programs {
        let mut words = text.split(':');
        let word = words.next().unwrap_or_default().to_owned();
        Programs { word, directories: words.map(PathBuf::from).collect() }
    }

    /// Their paths, in the order of their names.
    pub fn paths(&self) -> Vec<PathBuf> {
        find(&self.directories).into_values().flatten().collect()
    }
}

/// Starts one in a process group of its own, with the environment of this process. What it says goes where
/// this process says what it does.
pub(super) fn start(path: &Path, word: &str) -> std::io::Result<Child> {
    use std::os::fd::AsFd;
    let said = std::io::stderr().as_fd().try_clone_to_owned();
    let mut command = Command::new(path);
    command.arg(word).stdin(Stdio::null()).process_group(0).current_dir("/");
    command.stdout(said.map_or_else(|_| Stdio::null(), Stdio::from)).spawn()
}

/// Kills one with all of its group.
pub(super) fn kill(child: &Child) {
    use warren_sys::signal::SIGKILL;
    let _ = process::kill(-(child.id() as i32), SIGKILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_run_comes_back() {
        let directories = vec!["/a b".into(), "/c".into()];
        let programs = Programs { word: "kexec".to_owned(), directories };
        assert_eq!(programs.to_argument(), "kexec:/a b:/c");
        assert_eq!(Programs::parse("kexec:/a b:/c"), programs);
    }
}
