//! Keeping up: what the kernel tells of the directories.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use warren_sys::inotify::{Change, WatchFor};
use warren_unit::UnitName;

use super::{Entry, Leads, Links, Place, Snapshot};
use crate::say;

const ENOTDIR: i32 = 20;

/// Whether a path lies where configuration does. One elsewhere may be on a server that does not
/// answer.
pub(crate) fn is_configuration(path: &Path) -> bool {
    ["/etc", "/run", "/usr", "/opt"].iter().any(|top| path.starts_with(top))
}

/// The same of what a link in this directory leads to.
fn is_configuration_behind(directory: &Path, target: &str) -> bool {
    is_configuration(&without_parents(&directory.join(target)))
}

/// Whether an entry of this directory is a link to where configuration lies.
pub(super) fn is_link_nearby(directory: &Path, entry: &Entry) -> bool {
    match entry {
        Entry::Link(link) => is_configuration_behind(directory, &link.target),
        _ => false,
    }
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

    /// Looks at what the watches reported and behind links out of the search directories, where
    /// nobody watches; returns the names that differ. Falls back to a sweep when reports were lost.
    pub fn update(&mut self) -> BTreeSet<Box<str>> {
        self.update_behind(Links::All)
    }

    /// The same, but behind links only where configuration lies: whoever starts or enables a unit does
    /// not wait for a server that some other unit's file is on. Of these units it is all.
    pub fn update_nearby(&mut self, units: &[UnitName]) -> BTreeSet<Box<str>> {
        let asked = self.entries_of(units);
        self.update_behind(Links::Nearby(&asked))
    }

    /// Names of the entries that these units are made of, but for drop-ins that are for many.
    fn entries_of(&self, units: &[UnitName]) -> BTreeSet<Box<str>> {
        let mut entries = BTreeSet::new();
        let mut names = units.to_vec();
        while let Some(name) = names.pop() {
            names.extend(name.template());
            if !entries.insert(name.as_str().into()) {
                continue;
            }
            entries.insert(format!("{name}.d").into());
            let links =
                self.directories.iter().filter_map(|d| match d.entries.get(name.as_str()) {
                    Some(Entry::Link(link)) => link.target.rsplit('/').next(),
                    _ => None,
                });
            names.extend(links.filter_map(|target| UnitName::parse(target).ok()));
        }
        entries
    }

    /// The same for who asks what is told of this unit's file, at a cost that does not depend on how many
    /// others there are: behind links of this unit only and, where not all can be watched, nothing but what its
    /// installation state is made of.
    pub fn update_of(&mut self, unit: &UnitName) -> BTreeSet<Box<str>> {
        let asked = self.entries_of(std::slice::from_ref(unit));
        match self.watched().0 {
            Some(_) => self.update_behind(Links::Of(&asked)),
            None => self.look_at_parts(&asked),
        }
    }

    /// Looks at these entries, at those that are gone, and at directories of links that have changed.
    fn look_at_parts(&mut self, names: &BTreeSet<Box<str>>) -> BTreeSet<Box<str>> {
        self.begin_part();
        let mut changed = BTreeSet::new();
        for index in 0..self.directories.len() {
            if self.directories[index].is_made {
                continue;
            }
            let others = self.directories[index].gone_and_changed_links().into_iter();
            let all = names.iter().cloned().chain(others.map(String::into_boxed_str));
            for name in all.collect::<BTreeSet<_>>() {
                if self.refresh(index, &name) {
                    changed.insert(name);
                }
            }
        }
        changed
    }

    fn update_behind(&mut self, links: Links<'_>) -> BTreeSet<Box<str>> {
        let Some(watch) = self.watch.clone().filter(|_| !self.is_partly_watched) else {
            return self.sweep_all(false, links);
        };
        self.begin_look(links);
        let mut events = Vec::new();
        match watch.drain(&mut events) {
            Ok(false) => {}
            Ok(true) | Err(_) => return self.sweep_all(false, links),
        }
        let mut touched = std::mem::take(&mut self.again);
        for event in events {
            self.take_event(&event, &mut touched);
        }
        let (due, held) = self.behind_links(links);
        touched.extend(due);
        let mut changed = BTreeSet::new();
        for index in 0..self.directories.len() {
            let is_another = self.directories[index].is_another();
            if is_another {
                self.unwatch(index);
            }
            let is_back = self.missing.contains(&index) && self.directories[index].path.is_dir();
            if is_another || is_back {
                changed.extend(self.watch_and_sweep(index, false, links));
            }
        }
        for (index, name) in touched {
            if self.refresh(index, &name) {
                changed.insert(name);
            }
        }
        for (index, name) in held {
            if self.refresh_nearby(index, &name) {
                changed.insert(name);
            }
        }
        changed
    }

    /// The entries behind all of whose links a look goes, and those behind some of whose it does.
    fn behind_links(&self, links: Links<'_>) -> (Vec<Place>, Vec<Place>) {
        let (mut due, mut held) = (Vec::new(), Vec::new());
        if let Links::Of(asked) = links {
            let indices = 0..self.directories.len();
            let places = indices.flat_map(|index| asked.iter().map(move |n| (index, n.clone())));
            due.extend(places.filter(|place| self.outside.contains(place)));
            return (due, held);
        }
        for place in &self.outside {
            if self.is_due(place, links) {
                due.push(place.clone());
            } else if self.is_held(place, links) {
                held.push(place.clone());
            }
        }
        (due, held)
    }

    /// Whether a look at this entry goes behind all of its links.
    pub(super) fn is_due(&self, place: &Place, links: Links<'_>) -> bool {
        match links {
            Links::All => true,
            Links::Nearby(asked) => asked.contains(&place.1) || self.is_nearby(place),
            Links::Of(asked) => asked.contains(&place.1) || !self.outside.contains(place),
        }
    }

    /// Whether a look at this entry, which does not go behind all of its links, goes behind some.
    pub(super) fn is_held(&self, (index, name): &Place, links: Links<'_>) -> bool {
        let entry = || self.directories[*index].entries.get(&**name);
        matches!(links, Links::Nearby(_)) && matches!(entry(), Some(Entry::Directory(_)))
    }

    /// Watches a search directory, and those in it, no more.
    fn unwatch(&mut self, index: usize) {
        let Some(watch) = &self.watch else { return };
        self.watched.retain(|&id, places| {
            places.retain(|(place, _)| *place != index);
            if places.is_empty() {
                watch.remove(id);
            }
            !places.is_empty()
        });
    }

    fn take_event(&mut self, event: &Change, touched: &mut BTreeSet<Place>) {
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

    /// Whether all links out of the search directories that this entry is or has in it lead to where
    /// configuration lies.
    pub(super) fn is_nearby(&self, (index, name): &Place) -> bool {
        let directory = &self.directories[*index];
        let Some(entry) = directory.entries.get(&**name) else { return true };
        let base = match entry {
            Entry::Directory(_) => directory.path.join(&**name),
            _ => directory.path.clone(),
        };
        entry.links_out().all(|link| is_configuration_behind(&base, &link.target))
    }

    /// Entries that are links out of the search directories or have such.
    pub fn names_with_links_out(&self) -> BTreeSet<Box<str>> {
        self.outside.iter().map(|(_, name)| name.clone()).collect()
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
            is_configuration_behind(directory, target)
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
