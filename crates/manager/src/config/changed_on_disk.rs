//! Whether the files of a unit are other than what is in force (`NeedDaemonReload`).
//!
//! Asked by each `systemctl start`, so that it must cost next to nothing while nobody edits: as long
//! as the loader's watch has no news, nothing has changed since it looked.

use crate::base::file_identity::changed_at;
use crate::config::snapshot::LinkedDirectory;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use warren_core::graph::Definition;
use warren_sys::inotify::Inotify;
use warren_unit::UnitName;
use warren_unit::search;
use warren_unit_files::is_configuration;

/// What the loader's thread knows of the disk, for others to read.
#[derive(Clone, Debug)]
pub struct OnDisk {
    /// Its watch of the unit directories.
    pub watch: Option<Arc<Inotify>>,
    /// When it last looked, ns since 1970 by the clock of file systems.
    pub looked_at_ns: u64,
    /// The same of what lies behind links to where nobody watches.
    pub looked_behind_at_ns: u64,
    /// When generators last began to read what they make units of, by the same clock.
    pub generated_at_ns: u64,
    /// Files of units that are links out of the unit directories to where configuration lies, or have other names.
    pub behind_links: Arc<BTreeSet<Arc<str>>>,
    /// Entries of the unit directories of which no watch tells all.
    pub with_links_out: Arc<BTreeSet<Box<str>>>,
    /// Directories of drop-ins and of links that are links themselves, by their paths.
    pub linked: Arc<BTreeMap<PathBuf, LinkedDirectory>>,
    /// Whether the installation states that are published are of what it saw.
    pub has_states: bool,
    /// Units that it saw to differ from what is in force. One that was loaded since of what it saw is
    /// none of them, whatever waits for a reload.
    pub pending: Arc<BTreeSet<UnitName>>,
}

impl OnDisk {
    /// Whether a reload would look at this unit's files again. `directories` are the search
    /// directories that lie on a disk.
    pub fn differs(&self, definition: &Definition, directories: &[PathBuf]) -> bool {
        if self.pending.contains(&definition.name) {
            return true;
        }
        let has_news = self.watch.as_ref().is_none_or(|watch| watch.has_news());
        has_news && self.is_newer(definition, directories)
            || !self.behind_links.is_empty() && self.is_newer_behind_links(definition)
            || !self.linked.is_empty() && self.has_linked_anew(definition, directories)
    }

    /// Whether one of its directories is a link that leads elsewhere by now.
    fn has_linked_anew(&self, definition: &Definition, directories: &[PathBuf]) -> bool {
        let names = || std::iter::once(&definition.name).chain(&definition.aliases);
        let of_links =
            |name: &UnitName| ["wants", "requires", "upholds"].map(|k| format!("{name}.{k}"));
        let with_templates =
            names().flat_map(|name| [Some(name.clone()), name.template()]).flatten();
        let of_links = with_templates.flat_map(|name| of_links(&name));
        let places = names().flat_map(search::dropin_directories).chain(of_links);
        let mut paths = places.flat_map(|place| directories.iter().map(move |d| d.join(&place)));
        paths.any(|path| self.linked.get(&path).is_some_and(|linked| linked.is_another(&path)))
    }

    /// Whether the installation state of this unit's file, or of all, is what was published, for all that
    /// is known without looking.
    pub fn knows_state(&self, unit: Option<&UnitName>) -> bool {
        let has_links_out = match unit {
            None => !self.with_links_out.is_empty(),
            Some(unit) => {
                let mut names = [Some(unit.clone()), unit.template()].into_iter().flatten();
                let is_listed = |name: &str| self.with_links_out.contains(name);
                names.any(|name| is_listed(name.as_str()) || is_listed(&format!("{name}.d")))
            }
        };
        let has_news = self.watch.as_ref().is_none_or(|watch| watch.has_news());
        self.has_states && !has_news && !has_links_out
    }

    /// Whether what a link leads to has changed, or is gone.
    fn is_newer_behind_links(&self, definition: &Definition) -> bool {
        let mut own = definition.file_paths().into_iter();
        let is_newer = |path: &str| {
            std::fs::metadata(path)
                .map_or(true, |file| changed_at(&file) >= self.looked_behind_at_ns)
        };
        own.any(|path| self.behind_links.contains(&path) && is_newer(&path))
    }

    /// Whether what a unit was made of (`SourcePath=`) changed since generators read it, or is not
    /// there. Only looked at where configuration lies: a path elsewhere may be on a server that does
    /// not answer, and who asks is somebody who reads.
    pub fn source_differs(&self, path: &str) -> bool {
        if !is_configuration(Path::new(path)) {
            return false;
        }
        std::fs::metadata(path).map_or(true, |source| changed_at(&source) >= self.generated_at_ns)
    }

    /// Looks at its files, and at those places where a stronger one or a drop-in may be new.
    fn is_newer(&self, definition: &Definition, directories: &[PathBuf]) -> bool {
        let on_disk = |path: &Path| directories.iter().any(|d| path.starts_with(d));
        let own = definition.file_paths();
        // What a link leads to may be on a server that does not answer.
        let gone =
            |path: &str| on_disk(Path::new(path)) && std::fs::symlink_metadata(path).is_err();
        if own.iter().any(|path| gone(path) || self.changed(Path::new(&**path))) {
            return true;
        }
        let names = std::iter::once(&definition.name).chain(&definition.aliases);
        let files = names.clone().flat_map(|name| [Some(name.clone()), name.template()]);
        let files = files.flatten().map(|name| name.to_string());
        let mut places = files.chain(names.flat_map(search::dropin_directories));
        places.any(|place| directories.iter().any(|d| self.changed(&d.join(&place))))
    }

    fn changed(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path)
            .is_ok_and(|metadata| changed_at(&metadata) >= self.looked_at_ns)
    }
}
