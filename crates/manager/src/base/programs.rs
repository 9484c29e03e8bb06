//! The programs of a list of directories, as systemd.generator(7) and systemd-shutdown(8) have them run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Ends of names of files that package managers and editors put beside those in use: systemd 252 runs none of
/// them.
pub(crate) const BESIDE: [&str; 18] = [
    "~",
    ".bak",
    ".dpkg-backup",
    ".dpkg-bak",
    ".dpkg-dist",
    ".dpkg-new",
    ".dpkg-old",
    ".dpkg-remove",
    ".dpkg-tmp",
    ".new",
    ".old",
    ".rpmnew",
    ".rpmorig",
    ".rpmsave",
    ".swp",
    ".ucf-dist",
    ".ucf-new",
    ".ucf-old",
];

/// The programs in the order of their names: of one name that in the first directory; an empty file, or a link to
/// /dev/null, takes the name away.
pub(crate) fn find(search: &[PathBuf]) -> BTreeMap<OsString, Option<PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in search.iter().filter_map(|d| fs::read_dir(d).ok()).flatten().flatten() {
        if is_beside(&entry.file_name()) {
            continue;
        }
        let path = entry.path();
        let runs = fs::metadata(&path)
            .is_ok_and(|m| m.is_file() && m.len() > 0 && m.permissions().mode() & 0o111 != 0);
        found.entry(entry.file_name()).or_insert(runs.then_some(path));
    }
    found
}

pub(crate) fn is_beside(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".") || BESIDE.iter().any(|end| name.ends_with(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_a_program_is_none() {
        for name in [".hidden", "a~", "a.dpkg-old", "a.ucf-dist", "a.swp"] {
            assert!(is_beside(OsStr::new(name)), "{name}");
        }
        for name in ["a", "a.sh", "#a#", "a.orig", "a.dpkg-divert"] {
            assert!(!is_beside(OsStr::new(name)), "{name}");
        }
    }
}
