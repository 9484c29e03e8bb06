//! A directory of rules at one time: files cut into chunks, each named by its digest, and a manifest that names them.
//!
//! The manifest's digest is the revision's name, so a revision cannot change, half of one is seen, and two that have
//! files in common share them in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Bytes of a chunk: a request to etcd has at most 1.5 MiB, and JSON makes a third more of it.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Files of a revision.
pub const FILES_MAX: usize = 10_000;

/// Bytes of all files of a revision.
pub const ALL_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a manifest.
pub const MANIFEST_BYTES_MAX: usize = 1 << 20;

/// Bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// Bytes of a path in a revision.
const PATH_BYTES_MAX: usize = 512;

/// What this writes.
const FORMAT: u32 = 1;

/// Files by path below the directory.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A file of a revision.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Below the directory, `/` between its parts.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// What it is made of, in order.
    pub chunks: Vec<Digest>,
}

/// What a revision is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of this format.
    pub format: u32,
    /// The revision that this one was made from.
    pub parent: Option<Digest>,
    /// Who pushed it.
    pub author: String,
    /// What for.
    pub message: String,
    /// When, seconds since 1970.
    pub at: u64,
    /// Its files, by path.
    pub files: Vec<Entry>,
}

/// What is wrong with a revision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// More than a revision may have.
    TooLarge(String),
    /// A path that could lead elsewhere, or cannot be a file beside the others.
    BadPath(String),
    /// The bytes are not what their name says.
    Damaged(Digest),
    /// A chunk is not there: the revision is half written.
    Missing(Digest),
    /// The manifest cannot be read.
    Unreadable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::TooLarge(what) => write!(f, "the revision is too large: {what}"),
            Fault::BadPath(path) => write!(f, "the revision has a file at {path:?}"),
            Fault::Damaged(digest) => {
                write!(f, "what the store has as {} is damaged", digest.short())
            }
            Fault::Missing(digest) => {
                write!(f, "the revision is incomplete: the store lacks {}", digest.short())
            }
            Fault::Unreadable(why) => {
                write!(f, "the manifest of the revision is unreadable: {why}")
            }
        }
    }
}

impl std::error::Error for Fault {}

/// A revision to be written: its manifest and what goes with it.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The manifest.
    pub manifest: Manifest,
    /// Chunks by digest.
    pub chunks: BTreeMap<Digest, Vec<u8>>,
}

/// Cuts files into a revision.
///
/// # Errors
/// Too many or too large, or a path that a revision cannot have.
pub fn cut(
    files: &Files,
    parent: Option<Digest>,
    author: &str,
    message: &str,
    at: u64,
) -> Result<Cut, Fault> {
    let mut chunks = BTreeMap::new();
    let mut entries = Vec::new();
    for (path, bytes) in files {
        let pieces = bytes.chunks(CHUNK_BYTES_MAX).map(|piece| {
            let digest = Digest::of(piece);
            chunks.entry(digest).or_insert_with(|| piece.to_vec());
            digest
        });
        let chunks = pieces.collect();
        entries.push(Entry { path: path.clone(), size: bytes.len() as u64, chunks });
    }
    let (author, message) = (author.to_owned(), message.to_owned());
    let manifest = Manifest { format: FORMAT, parent, author, message, at, files: entries };
    manifest.check()?;
    let bytes = manifest.encode().len();
    if bytes > MANIFEST_BYTES_MAX {
        let count = manifest.files.len();
        return Err(Fault::TooLarge(format!(
            "the names of its {count} files take {bytes} bytes, at most {MANIFEST_BYTES_MAX}"
        )));
    }
    Ok(Cut { manifest, chunks })
}

impl Manifest {
    /// Reads a manifest that is named by its digest.
    ///
    /// # Errors
    /// It is damaged, of another format, or says what no revision may be.
    pub fn decode(name: Digest, bytes: &[u8]) -> Result<Manifest, Fault> {
        if Digest::of(bytes) != name {
            return Err(Fault::Damaged(name));
        }
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(Fault::TooLarge(format!("a manifest of {} bytes", bytes.len())));
        }
        let manifest: Manifest =
            serde_json::from_slice(bytes).map_err(|e| Fault::Unreadable(e.to_string()))?;
        if manifest.format != FORMAT {
            let text = format!("it is of format {}; this version reads {FORMAT}", manifest.format);
            return Err(Fault::Unreadable(text));
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// The bytes that are stored, and whose digest is the revision's name.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The revision's name.
    pub fn name(&self) -> Digest {
        Digest::of(&self.encode())
    }

    /// All chunks, each once.
    pub fn chunks(&self) -> BTreeSet<Digest> {
        self.files.iter().flat_map(|file| file.chunks.iter().copied()).collect()
    }

    fn check(&self) -> Result<(), Fault> {
        let too_large = |what: String| Err(Fault::TooLarge(what));
        if self.files.len() > FILES_MAX {
            return too_large(format!("{} files, at most {FILES_MAX}", self.files.len()));
        }
        let all: u64 = self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size));
        if all > ALL_BYTES_MAX {
            return too_large(format!("{all} bytes, at most {ALL_BYTES_MAX}"));
        }
        if self.message.len() > MESSAGE_BYTES_MAX || self.author.len() > MESSAGE_BYTES_MAX {
            return too_large(format!(
                "a message or author of more than {MESSAGE_BYTES_MAX} bytes"
            ));
        }
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for file in &self.files {
            let path = &*file.path;
            if !is_path(path) || !seen.insert(path) {
                return Err(Fault::BadPath(path.to_owned()));
            }
            let chunks = file.size.div_ceil(CHUNK_BYTES_MAX as u64);
            if chunks != file.chunks.len() as u64 {
                return Err(Fault::Unreadable(format!("{path} has another number of chunks")));
            }
        }
        let parents = |path: &str| -> Vec<String> {
            path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect()
        };
        let below_a_file =
            self.files.iter().find(|f| parents(&f.path).iter().any(|p| seen.contains(&**p)));
        match below_a_file {
            Some(file) => Err(Fault::BadPath(file.path.clone())),
            None => Ok(()),
        }
    }

    /// Puts the files together again; each chunk is looked at.
    ///
    /// # Errors
    /// A chunk is missing or damaged.
    pub fn assemble(&self, chunks: &BTreeMap<Digest, Vec<u8>>) -> Result<Files, Fault> {
        let mut files = Files::new();
        for file in &self.files {
            let mut bytes = Vec::new();
            for name in &file.chunks {
                let chunk = chunks.get(name).ok_or(Fault::Missing(*name))?;
                if Digest::of(chunk) != *name || chunk.len() > CHUNK_BYTES_MAX {
                    return Err(Fault::Damaged(*name));
                }
                bytes.extend_from_slice(chunk);
            }
            if bytes.len() as u64 != file.size {
                return Err(Fault::Unreadable(format!("{} has another size", file.path)));
            }
            files.insert(file.path.clone(), bytes);
        }
        Ok(files)
    }
}

/// Whether a path stays below its directory, and is a file of rules or what rules read.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.contains(char::is_control)
    };
    path.len() <= PATH_BYTES_MAX && path.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, usize)]) -> Files {
        let bytes = |size: usize| (0..size).map(|n| (n / 7) as u8).collect();
        list.iter().map(|&(path, size)| (path.to_owned(), bytes(size))).collect()
    }

    #[test]
    fn files_are_the_same_after_the_way_through_the_store() {
        let sizes = [0, 1, CHUNK_BYTES_MAX - 1, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + 1, 3 << 18];
        for size in sizes {
            let files = files(&[("a.conf", size), ("d/b.csv", 5)]);
            let Cut { manifest, chunks } = cut(&files, None, "me", "why", 7).expect("a revision");
            let read = Manifest::decode(manifest.name(), &manifest.encode()).expect("a manifest");
            assert_eq!(read, manifest);
            assert_eq!(read.assemble(&chunks), Ok(files), "{size}");
            assert!(chunks.values().all(|chunk| chunk.len() <= CHUNK_BYTES_MAX));
        }
    }

    #[test]
    fn half_of_a_revision_and_a_damaged_one_are_told_apart() {
        let Cut { manifest, mut chunks } =
            cut(&files(&[("a", 600 << 10)]), None, "", "", 0).expect("a revision");
        let first = *chunks.keys().next().expect("a chunk");
        chunks.get_mut(&first).expect("it")[0] ^= 1;
        assert_eq!(manifest.assemble(&chunks), Err(Fault::Damaged(first)));
        chunks.remove(&first);
        assert_eq!(manifest.assemble(&chunks), Err(Fault::Missing(first)));
        let mut bytes = manifest.encode();
        bytes[9] ^= 1;
        assert_eq!(Manifest::decode(manifest.name(), &bytes), Err(Fault::Damaged(manifest.name())));
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Manifest)) {
        let mut manifest =
            cut(&files(&[("a", 5), ("b", 5)]), None, "", "", 0).expect("one").manifest;
        change(&mut manifest);
        let bytes = manifest.encode();
        assert!(Manifest::decode(Digest::of(&bytes), &bytes).is_err(), "{manifest:?}");
    }

    #[test]
    fn a_signed_manifest_of_a_liar_leads_nowhere_else() {
        for path in
            ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a\nb", "b", "b/c"]
        {
            refused(|manifest| manifest.files[0].path = path.to_owned());
        }
        refused(|manifest| manifest.files[0].path = "x".repeat(513));
        refused(|manifest| manifest.format = 2);
        refused(|manifest| manifest.files[0].size = u64::MAX);
        refused(|manifest| manifest.files[0].chunks.clear());
        refused(|manifest| manifest.message = "x".repeat(5000));
        let bytes = br#"{"format":1,"files":[],"more":1}"#;
        assert!(Manifest::decode(Digest::of(bytes), bytes).is_err());
        let many = (0..10_001).map(|n| (format!("f{n}"), Vec::new())).collect();
        assert!(matches!(cut(&many, None, "", "", 0), Err(Fault::TooLarge(_))));
        // What no host would read is not pushed either.
        let long = (0..9_000).map(|n| (format!("{n:0100}"), vec![0])).collect();
        assert!(matches!(cut(&long, None, "", "", 0), Err(Fault::TooLarge(_))));
    }

    #[test]
    fn revisions_share_what_they_have_in_common() {
        let one = cut(&files(&[("a", 9), ("b", 300_000)]), None, "", "", 0).expect("one");
        let two = cut(&files(&[("a", 8), ("b", 300_000)]), Some(one.manifest.name()), "", "", 0)
            .expect("two");
        assert_ne!(one.manifest.name(), two.manifest.name());
        assert_eq!(two.manifest.chunks().difference(&one.manifest.chunks()).count(), 1);
    }
}
