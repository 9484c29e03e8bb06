//! Keeping up: what the kernel tells of the directories.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use warren_sys::inotify::{Change, WatchFor};

use super::{Entry, Leads, Snapshot, Work};
use crate::say;

const ENOTDIR: i32 = 20;

/// Whether a path lies where configuration does. One elsewhere may be on a server that does not
/// answer.
pub(crate) fn is_configuration(path: &Path) -> bool {
    ["/etc", "/run", "/usr", "/opt"].iter().any(|top| path.starts_with(top))
}

/// The path that `..` in it lead to if no part of it is a link.
fn without_parents(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            part => out.push(part),
        }
    }
    out
}

impl Snapshot {
    pub(super) fn watch_directory(&mut self, index: usize, below: Option<&str>) {
        let Some(watch) = &self.watch else { return };
        let path = match below {
            Some(name) => self.directories[index].path.join(name),
            None => self.directories[index].path.clone(),
        };
        match watch.add(&path, WatchFor::Entries) {
            Ok(id) => {
                self.watched.entry(id).or_default().insert((index, below.map(Box::from)));
            }
            Err(error) if error.is_gone() || error.errno == ENOTDIR => {}
            Err(error) if self.is_partly_watched => drop(error),
            Err(error) => {
                say!("each reload looks at all unit files, since not all can be watched: {error}");
                self.is_partly_watched = true;
            }
        }
    }

    /// Looks at what the watches reported; returns the names that differ. Falls back to a sweep
    /// when reports were lost.
    pub fn update(&mut self) -> BTreeSet<Box<str>> {
        let Some(watch) = self.watch.as_ref().filter(|_| !self.is_partly_watched) else {
            return self.sweep_all(false);
        };
        self.work = Work::default();
        self.short = None;
        self.looked_at_ns = warren_sys::time::coarse_ns();
        let mut events = Vec::new();
        match watch.drain(&mut events) {
            Ok(false) => {}
            Ok(true) | Err(_) => return self.sweep_all(false),
        }
        let mut touched = std::mem::take(&mut self.again);
        for event in events {
            self.take_event(&event, &mut touched);
        }
        self.outside_links(&mut touched);
        let mut changed = BTreeSet::new();
        for index in self.missing.clone() {
            if self.directories[index].path.is_dir() {
                self.watch_directory(index, None);
                changed.extend(self.sweep_directory(index, false));
            }
        }
        for (index, name) in touched {
            if self.refresh(index, &name) {
                changed.insert(name);
            }
        }
        changed
    }

    fn take_event(&mut self, event: &Change, touched: &mut BTreeSet<(usize, Box<str>)>) {
        for (index, below) in self.watched.get(&event.watch).into_iter().flatten() {
            let index = *index;
            match (below, event.name.to_str()) {
                (Some(name), _) => {
                    touched.insert((index, name.clone()));
                }
                // The search directory itself went away or was replaced.
                (None, Some("")) => {
                    let names = self.directories[index].entries.keys();
                    touched.extend(names.map(|name| (index, Box::from(&**name))));
                    self.missing.insert(index);
                }
                (None, Some(name)) => {
                    touched.insert((index, name.into()));
                }
                (None, None) => {}
            }
        }
        if event.ended {
            self.watched.remove(&event.watch);
        }
    }

    /// Files behind links out of the search directories are not watched: looked at each time.
    fn outside_links(&self, touched: &mut BTreeSet<(usize, Box<str>)>) {
        touched.extend(self.outside.iter().cloned());
    }

    /// The files of units that links lead to, by the paths of those, whose content lies where
    /// configuration does.
    pub fn files_behind_links(&self) -> BTreeSet<Arc<str>> {
        let entries = self
            .outside
            .iter()
            .filter_map(|(index, name)| self.directories[*index].entries.get(&**name));
        let links = entries.flat_map(Entry::links_out).filter_map(|link| match &link.leads {
            Leads::Outside(file) => Some((&*link.target, file.parsed.path())),
            Leads::Inside | Leads::Nowhere => None,
        });
        let configured = links.filter(|(target, path)| {
            let directory = Path::new(&***path).parent().unwrap_or(Path::new("/"));
            is_configuration(&without_parents(&directory.join(target)))
        });
        configured.map(|(_, path)| path.clone()).collect()
    }

    pub(super) fn note_outside(&mut self, index: usize, name: &str, now: Option<&Entry>) {
        if now.is_some_and(|now| now.links_out().next().is_some()) {
            self.outside.insert((index, name.into()));
        } else if !self.outside.is_empty() {
            self.outside.remove(&(index, Box::from(name)));
        }
    }
}
