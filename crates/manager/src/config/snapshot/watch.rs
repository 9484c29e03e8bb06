//! Keeping up: what the kernel tells of the directories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use warren_sys::errno::ENOTDIR;

use warren_sys::inotify::{Change, WatchFor, WatchId};
use warren_sys::mount::MountNews;
use warren_unit::UnitName;
use warren_unit::search::directory_kind;
use warren_unit_files::is_configuration;

use super::look::names_in;
use super::{Entry, Leads, LinkedDirectory, Links, Place, Snapshot};
use crate::base::say::say;

/// Whether configuration lies where a link in this directory leads to.
pub(super) fn is_configuration_behind(directory: &Path, target: &str) -> bool {
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
    /// Watches a search directory or one in it, which may be a link and lies on this device.
    pub(super) fn watch_directory(
        &mut self,
        index: usize,
        below: Option<&str>,
        is_link: bool,
        device: u64,
    ) -> Option<WatchId> {
        let watch = self.watch.clone()?;
        let path = match below {
            Some(name) => self.directories[index].path.join(name),
            None => self.directories[index].path.clone(),
        };
        match watch.add(&path, WatchFor::Edits) {
            Ok(id) => {
                self.watched.entry(id).or_default().insert((index, below.map(Box::from)));
                if !is_link && !self.tells_all(&path, device) {
                    self.note_unwatched(&format!("{} is on a network file system", path.display()));
                }
                Some(id)
            }
            Err(error) => {
                if !error.is_gone() && error.errno != ENOTDIR {
                    self.note_unwatched(&error.to_string());
                }
                None
            }
        }
    }

    fn note_unwatched(&mut self, why: &str) {
        self.is_partly_watched = true;
        if !std::mem::replace(&mut self.is_unwatched_said, true) {
            say!("cannot watch all unit files; every reload checks all of them: {why}");
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
    /// others there are: behind links of this unit only, of which those to where no configuration lies only if it
    /// goes far, and, where not all can be watched, nothing but what its installation state is made of.
    pub fn update_of(&mut self, unit: &UnitName, goes_far: bool) -> BTreeSet<Box<str>> {
        let asked = self.entries_of(std::slice::from_ref(unit));
        match self.watched().0 {
            Some(_) => self.update_behind(Links::Of { asked: &asked, goes_far }),
            None => self.look_at_parts(&asked, goes_far),
        }
    }

    /// Looks at these entries, at those that are gone, and at directories of links that have changed.
    fn look_at_parts(&mut self, names: &BTreeSet<Box<str>>, goes_far: bool) -> BTreeSet<Box<str>> {
        self.begin_part();
        let mut changed = BTreeSet::new();
        for index in 0..self.directories.len() {
            if self.directories[index].is_made {
                continue;
            }
            let others = self.gone_and_changed_links(index).into_iter();
            let all = names.iter().cloned().chain(others.map(String::into_boxed_str));
            for name in all.collect::<BTreeSet<_>>() {
                let place = (index, name);
                let differs = match goes_far || self.is_nearby(&place) {
                    true => self.refresh(index, &place.1),
                    false => !self.is_linked_far(&place) && self.refresh_nearby(index, &place.1),
                };
                if differs {
                    changed.insert(place.1);
                }
            }
        }
        changed
    }

    /// Entries that are gone, and directories of links that are new or have changed since they were listed; none
    /// if it cannot be read.
    fn gone_and_changed_links(&self, index: usize) -> Vec<String> {
        let directory = &self.directories[index];
        let Ok(names) = names_in(&directory.path) else { return Vec::new() };
        let names = names.unwrap_or_default();
        let mut all = directory.gone(&names);
        let is_of_links = |name: &str| {
            directory_kind(name).is_some()
                && !name.ends_with(".d")
                && !self.is_linked_far(&(index, name.into()))
        };
        let names = names.into_iter().filter(|name| is_of_links(name));
        all.extend(names.filter(|name| !directory.is_as_listed(name)));
        all
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
            self.take_event(&event, links, &mut touched);
        }
        if links == Links::All {
            touched.extend(self.mounted_at());
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
                self.mounts.iter_mut().for_each(MountNews::tell_again);
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
        changed.extend(self.refresh_named(links));
        if links == Links::All && std::mem::take(&mut self.has_new_names) {
            changed.extend(self.look_for_names());
        }
        changed
    }

    /// The entries behind all of whose links a look goes, and those behind some of whose it does.
    fn behind_links(&self, links: Links<'_>) -> (Vec<Place>, Vec<Place>) {
        let mut places: Vec<Place> = match links {
            Links::Of { asked, .. } => {
                let indices = 0..self.directories.len();
                let all = indices.flat_map(|index| asked.iter().map(move |n| (index, n.clone())));
                all.filter(|place| self.outside.contains(place)).collect()
            }
            Links::All | Links::Nearby(_) => self.outside.iter().cloned().collect(),
        };
        let due = places.extract_if(.., |place| self.is_due(place, links)).collect();
        places.retain(|place| self.is_held(place, links));
        (due, places)
    }

    /// Whether a look at this entry goes behind all of its links.
    pub(super) fn is_due(&self, place: &Place, links: Links<'_>) -> bool {
        match links {
            Links::All => true,
            Links::Nearby(asked) => asked.contains(&place.1) || self.is_nearby(place),
            Links::Of { asked, goes_far } => {
                !self.outside.contains(place)
                    || asked.contains(&place.1) && (goes_far || self.is_nearby(place))
            }
        }
    }

    /// Whether a look at this entry, which does not go behind all of its links, goes behind some.
    pub(super) fn is_held(&self, place: &Place, links: Links<'_>) -> bool {
        let (index, name) = place;
        let is_asked = match links {
            Links::All => false,
            Links::Nearby(_) => true,
            Links::Of { asked, .. } => asked.contains(name),
        };
        let entry = || self.directories[*index].entries.get(&**name);
        is_asked && matches!(entry(), Some(Entry::Directory(_))) && !self.is_linked_far(place)
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

    fn take_event(&mut self, event: &Change, links: Links<'_>, touched: &mut BTreeSet<Place>) {
        for (index, below) in self.watched.get(&event.watch).into_iter().flatten() {
            let index = *index;
            match (below, event.name.to_str()) {
                (Some(name), _) => {
                    let place = (index, name.clone());
                    // A look at all goes there, whatever is told.
                    if links == Links::All || !self.is_linked_far(&place) {
                        touched.insert(place);
                    }
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
    pub(super) fn is_nearby(&self, place: &Place) -> bool {
        if self.is_linked_far(place) {
            return false;
        }
        let (index, name) = place;
        let directory = &self.directories[*index];
        let Some(entry) = directory.entries.get(&**name) else { return true };
        let base = match (entry, self.linked(place)) {
            (_, Some((_, linked))) => directory.path.join(&*linked.target),
            (Entry::Directory(_), None) => directory.path.join(&**name),
            (_, None) => directory.path.clone(),
        };
        entry.links_out().all(|link| is_configuration_behind(&base, &link.target))
    }

    /// Entries that each look goes to, as no watch tells of all that is done to them.
    pub fn names_with_links_out(&self) -> BTreeSet<Box<str>> {
        self.outside.iter().chain(&self.named).map(|(_, name)| name.clone()).collect()
    }

    /// Whether those are others since this was last asked.
    pub fn take_outside_changed(&mut self) -> bool {
        std::mem::take(&mut self.outside_changed)
    }

    /// Whether an entry of this name is a link out of the search directories.
    pub fn has_link_out(&self, name: &UnitName) -> bool {
        let mut entries = self.directories.iter().filter_map(|d| d.entries.get(name.as_str()));
        entries.any(|entry| entry.links_out().next().is_some())
    }

    /// Directories that are links, by their paths.
    pub(crate) fn linked_directories(&self) -> &Arc<BTreeMap<PathBuf, LinkedDirectory>> {
        &self.linked
    }

    /// The files of units, by their paths, whose content no watch tells of and lies where configuration does:
    /// those that links lead to, and those that have other names.
    pub fn files_behind_links(&self) -> BTreeSet<Arc<str>> {
        let entry = |(index, name): &Place| self.directories[*index].entries.get(&**name);
        let entries: Vec<&Entry> = self.outside.iter().filter_map(entry).collect();
        let links = entries.iter().flat_map(|entry| entry.links_out());
        let links = links.filter_map(|link| match &link.leads {
            Leads::Outside(file) => Some((&*link.target, file.parsed.path())),
            Leads::Inside | Leads::Nowhere => None,
        });
        let configured = links.filter(|(target, path)| {
            let directory = Path::new(&***path).parent().unwrap_or(Path::new("/"));
            is_configuration_behind(directory, target)
        });
        let near = self.outside.iter().filter(|place| !self.is_linked_far(place));
        let named =
            near.chain(&self.named).filter_map(entry).flat_map(Entry::files_with_other_names);
        configured.map(|(_, path)| path.clone()).chain(named).collect()
    }

    pub(super) fn note_outside(&mut self, index: usize, name: &str, now: Option<&Entry>) {
        let (is_file, has_other_names) =
            (matches!(now, Some(Entry::File(_))), now.is_some_and(Entry::has_other_names));
        let has_links = || now.is_some_and(|now| now.links_out().next().is_some());
        let is_linked = || !self.linked.is_empty() && self.linked(&(index, name.into())).is_some();
        let is_outside = has_other_names && !is_file || has_links() || is_linked();
        let note = |places: &mut BTreeSet<Place>, is_in: bool| match is_in {
            true => places.insert((index, name.into())),
            false => !places.is_empty() && places.remove(&(index, Box::from(name))),
        };
        self.outside_changed |= note(&mut self.outside, is_outside);
        self.outside_changed |= note(&mut self.named, has_other_names && is_file);
    }
}
