//! Revisions as commands take them: by the first digits of their names, as files, as rules in a directory.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use warren_hosts::digest::Digest;
use warren_hosts::revision::Files;
use warren_sys::tell;

use crate::rules::write_directory;
use crate::site::Site;

/// A directory that goes when it is dropped.
pub(super) struct Temporary(pub(super) PathBuf);

impl Temporary {
    pub(super) fn new(name: &str, files: &Files) -> Result<Temporary> {
        let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        let path = std::env::temp_dir().join(format!("warren-{}", random.trim())).join(name);
        write_directory(&path, files).with_context(|| path.display().to_string())?;
        Ok(Temporary(path))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(parent) = self.0.parent() {
            let _ = std::fs::remove_dir_all(parent);
        }
    }
}

/// The revision whose name begins so.
pub(super) fn find_revision(site: &Site, text: &str) -> Result<Digest> {
    if text.is_empty() {
        return Err(anyhow!("the name of a revision is missing; `warren-hosts log` lists them"));
    }
    let revisions = site.revisions()?;
    let found: Vec<Digest> = revisions
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| name.to_string().starts_with(text))
        .collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(anyhow!("there is no revision {text}; `warren-hosts log` lists them")),
        _ => Err(anyhow!("{} revisions begin with {text}", found.len())),
    }
    .context("cannot find the revision")
}

/// The files of a revision that hosts have. A store that was restored may not know it; what comes of that is said.
pub(super) fn known_files(site: &Site, revision: Digest, then: &str) -> Result<Option<Files>> {
    if !site.revisions()?.iter().any(|(name, _)| *name == revision) {
        tell!("hosts have revision {}, which is not in the store: {then}", revision.short());
        return Ok(None);
    }
    site.files(revision).map(Some)
}
