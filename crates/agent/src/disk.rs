//! What a host keeps over restarts, below the state directory:
//!
//! - `memory`: which release it follows ([`Memory`]), its lease, who it is;
//! - `revisions/NAME/`: rules of the revision in force and of the one before;
//! - `current`: a link to the rules in force, which the manager reads;
//! - `machine.conf`: what the rules know of this host.
//!
//! Each is replaced by a rename, so that an agent that is killed leaves either the old one or the new one.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warren_hosts::digest::Digest;
use warren_hosts::follower::Memory;
use warren_hosts::names::HostId;
use warren_hosts::placement::Copies;
use warren_hosts::revision::{CHUNK_BYTES_MAX, Files};

use crate::manager::Todo;
use crate::restarts::Before;
use crate::rules;

/// The directory of rules before the first release: it is empty.
const NONE: &str = "none";

/// What is written to `memory`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// Which release the host follows.
    pub memory: Memory,
    /// Its lease in the store.
    pub lease: i64,
    /// The name that it had then.
    pub name: Option<HostId>,
    /// What its registration said last: which machine of this name wrote it.
    pub instance: Option<Digest>,
    /// What it said before that: which of both is in the store one that was killed does not know.
    pub instance_before: Option<Digest>,
    /// Copies that the rules in force make units of.
    pub copies: Copies,
    /// What the rules in force still ask for.
    pub todo: Option<Todo>,
    /// The drain command was run with `drain`, and not yet with `undrain`.
    pub is_drained: bool,
    /// An operator has taken the host out of service.
    pub is_out_of_service: bool,
    /// The drain command has relieved the host of its work for that.
    pub is_relieved: bool,
    /// The host had labels when an agent of it started last.
    pub has_labels: bool,
    /// Restarts that the manager had counted when the rules in force were applied.
    pub restarts_before: Before,
}

/// The state directory.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// Opens the directory, which is made if it is not there.
    ///
    /// # Errors
    /// As the file system says, with the path.
    pub fn open(directory: &Path) -> Result<Disk, String> {
        let disk = Disk { directory: directory.to_owned() };
        let none = format!("revisions/{NONE}");
        fs::create_dir_all(disk.path(&none)).map_err(|e| disk.wrong(&none, &e))?;
        // What the manager's rules include is there before the first release.
        if fs::symlink_metadata(disk.path("current")).is_err() {
            disk.switch(None)?;
        }
        if fs::symlink_metadata(disk.path("machine.conf")).is_err() {
            disk.write_prelude("")?;
        }
        Ok(disk)
    }

    /// The rules that have the manager read those of this directory.
    pub fn include(&self) -> String {
        let path =
            |name| self.path(name).display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
        format!(
            "// Rules of many hosts: warren-agent(8) keeps them.\ninclude \"{}\"\ninclude_recursive \"{}\"\n",
            path("machine.conf"),
            path("current")
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn wrong(&self, name: &str, e: &std::io::Error) -> String {
        format!("{}: {e}", self.path(name).display())
    }

    /// What the host remembers. A file that is no memory is an error: to forget would be to go back.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn kept(&self) -> Result<Kept, String> {
        match fs::read(self.path("memory")) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|e| self.wrong("memory", &std::io::Error::other(e))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Kept::default()),
            Err(e) => Err(self.wrong("memory", &e)),
        }
    }

    /// Writes down what the host remembers.
    ///
    /// # Errors
    /// The disk does not keep it.
    pub fn keep(&self, kept: &Kept) -> Result<(), String> {
        let bytes = serde_json::to_vec(kept).unwrap_or_default();
        self.replace("memory", &bytes)
    }

    /// What rules know of this host.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn prelude(&self) -> Result<String, String> {
        fs::read_to_string(self.path("machine.conf")).map_err(|e| self.wrong("machine.conf", &e))
    }

    /// Writes what rules know of this host.
    ///
    /// # Errors
    /// The disk does not keep it.
    pub fn write_prelude(&self, text: &str) -> Result<(), String> {
        match fs::read(self.path("machine.conf")) {
            Ok(old) if old == text.as_bytes() => Ok(()),
            _ => self.replace("machine.conf", text.as_bytes()),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let new = self.path(&format!(".{name}.new"));
        let write = || {
            let mut file = fs::File::create(&new)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            fs::rename(&new, self.path(name))?;
            fs::File::open(&self.directory)?.sync_all()
        };
        write().map_err(|e| self.wrong(name, &e))
    }

    fn rules(&self, revision: Digest) -> PathBuf {
        self.path("revisions").join(revision.to_string())
    }

    /// Whether the rules of a revision are all there.
    pub fn has(&self, revision: Digest) -> bool {
        self.rules(revision).is_dir()
    }

    /// The files of a revision.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn files(&self, revision: Digest) -> Result<Files, String> {
        rules::read_directory(&self.rules(revision))
    }

    /// Where the rules of a revision lie.
    pub fn directory_of(&self, revision: Digest) -> PathBuf {
        self.rules(revision)
    }

    /// Keeps the rules of a revision; half of them is never taken for all.
    ///
    /// # Errors
    /// The disk does not keep them.
    pub fn store(&self, revision: Digest, files: &Files) -> Result<(), String> {
        let new = self.path("revisions").join(".new");
        let write = || {
            if new.exists() {
                fs::remove_dir_all(&new)?;
            }
            rules::write_directory(&new, files)?;
            if !self.has(revision) {
                fs::rename(&new, self.rules(revision))?;
            }
            fs::File::open(self.path("revisions"))?.sync_all()
        };
        write().map_err(|e| self.wrong("revisions", &e))
    }

    /// The revision that `current` leads to.
    pub fn current(&self) -> Option<Digest> {
        let target = fs::read_link(self.path("current")).ok()?;
        target.file_name()?.to_str()?.parse().ok()
    }

    /// Has `current` lead to the rules of a revision, or to none.
    ///
    /// # Errors
    /// As the file system says.
    pub fn switch(&self, revision: Option<Digest>) -> Result<(), String> {
        let (new, current) = (self.path(".current.new"), self.path("current"));
        let switch = || {
            let _ = fs::remove_file(&new);
            let name = revision.map_or_else(|| NONE.to_owned(), |revision| revision.to_string());
            std::os::unix::fs::symlink(format!("revisions/{name}"), &new)?;
            fs::rename(&new, &current)?;
            fs::File::open(&self.directory)?.sync_all()
        };
        switch().map_err(|e| self.wrong("current", &e))
    }

    /// Chunks of the revisions that are here, so that only what is new is fetched.
    pub fn chunks(&self) -> BTreeMap<Digest, Vec<u8>> {
        let revisions =
            self.revisions().into_iter().filter_map(|revision| self.files(revision).ok());
        let files = revisions.flat_map(|files| files.into_values());
        let mut chunks = BTreeMap::new();
        for bytes in files {
            chunks.extend(bytes.chunks(CHUNK_BYTES_MAX).map(|c| (Digest::of(c), c.to_vec())));
        }
        chunks
    }

    fn revisions(&self) -> Vec<Digest> {
        let entries = fs::read_dir(self.path("revisions")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Removes revisions but these.
    pub fn forget_but(&self, kept: &[Digest]) {
        for revision in self.revisions().into_iter().filter(|revision| !kept.contains(revision)) {
            let _ = fs::remove_dir_all(self.rules(revision));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_testkit::Scratch;

    fn files(text: &str) -> Files {
        Files::from([("a.conf".to_owned(), text.as_bytes().to_vec())])
    }

    #[test]
    fn what_is_kept_is_read_by_the_next_one() {
        let scratch = Scratch::new("agent-disk");
        let disk = Disk::open(&scratch.path("state")).expect("a directory");
        assert_eq!(disk.kept(), Ok(Kept::default()));
        let kept = Kept { lease: 7, instance: Some(Digest::of(b"i")), ..Kept::default() };
        disk.keep(&kept).expect("kept");
        assert_eq!(Disk::open(&scratch.path("state")).expect("it").kept(), Ok(kept));
        std::fs::write(scratch.path("state").join("memory"), "{").expect("written");
        assert!(disk.kept().is_err());
    }

    #[test]
    fn rules_are_switched_as_a_whole() {
        let scratch = Scratch::new("agent-switch");
        let disk = Disk::open(&scratch.path("state")).expect("a directory");
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        assert_eq!(disk.current(), None);
        disk.store(one, &files("# one\n")).expect("kept");
        disk.store(two, &files("# two\n")).expect("kept");
        disk.store(two, &files("# two\n")).expect("kept already");
        disk.switch(Some(one)).expect("switched");
        disk.switch(Some(two)).expect("switched");
        assert_eq!(disk.current(), Some(two));
        let text = std::fs::read(scratch.path("state").join("current/a.conf")).expect("rules");
        assert_eq!(text, b"# two\n");
        assert!(disk.chunks().contains_key(&Digest::of(b"# one\n")));
        disk.forget_but(&[two]);
        assert_eq!((disk.has(one), disk.has(two)), (false, true));
        disk.switch(None).expect("switched");
        assert_eq!(disk.current(), None);
    }
}
