//! The planner's changes carried out in a root.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::AtFlags;
use warren_unit::install::{Change, Plan};
use warren_unit::search::directory_kind;

use crate::root::Root;

/// A link's target as an absolute path without `..`.
pub fn absolute_target(path: &str, target: &str) -> String {
    let base = Path::new(path).parent().unwrap_or(Path::new("/"));
    let mut out = PathBuf::new();
    for part in base.join(target).components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out.to_string_lossy().into_owned()
}

/// Carries out a plan up to the first failure; returns the changes that were made, and in words what
/// could not be changed.
pub fn carry_out(root: &Root, plan: &Plan) -> (Vec<Change>, Option<String>) {
    let mut changes = Vec::new();
    for change in &plan.changes {
        if let Err(error) = make(root, change) {
            return (changes, Some(error));
        }
        changes.push(change.clone());
    }
    (changes, None)
}

fn make(root: &Root, change: &Change) -> Result<(), String> {
    let (path, result) = match change {
        Change::Symlink { path, target } => (path, link(root, path, target)),
        Change::Unlink { path } => (path, unlink(root, path)),
    };
    result.map_err(|e| format!("{path}: {e}"))
}

/// The directory of a path and the name in it.
fn parts(path: &str) -> io::Result<(&str, &str)> {
    path.rsplit_once('/').ok_or_else(|| io::Error::other("not an absolute path"))
}

/// Made beside and renamed: there is no moment without the link.
fn link(root: &Root, path: &str, target: &str) -> io::Result<()> {
    let (directory, name) = parts(path)?;
    let directory: OwnedFd = root.directory_made(directory)?;
    let fresh = format!("{name}.new-{}", std::process::id());
    let _ = rustix::fs::unlinkat(&directory, &fresh, AtFlags::empty());
    rustix::fs::symlinkat(target, &directory, &fresh)?;
    Ok(rustix::fs::renameat(&directory, &fresh, &directory, name)?)
}

fn unlink(root: &Root, path: &str) -> io::Result<()> {
    let (directory, name) = parts(path)?;
    rustix::fs::unlinkat(root.directory(directory)?, name, AtFlags::empty())?;
    let (above, own) = parts(directory)?;
    if directory_kind(own).is_some() {
        // Still in use by others: it stays.
        let _ = rustix::fs::unlinkat(root.directory(above)?, own, AtFlags::REMOVEDIR);
    }
    Ok(())
}
