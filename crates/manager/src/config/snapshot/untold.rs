//! What no watch tells of: what is mounted below a search directory, where a directory that is a link leads,
//! and edits of a file by another of its names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_sys::inotify::WatchId;
use warren_sys::mount::MountNews;

use super::watch::is_configuration_behind;
use super::{Entry, Links, Place, Snapshot, Watched};

/// A directory of drop-ins or of links that is itself a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkedDirectory {
    /// As readlink(2) gives it.
    pub(super) target: Box<str>,
    /// Device and inode of the directory that it led to when it was last looked at, if to one.
    inode: Option<(u64, u64)>,
    /// That of this directory.
    watch: Option<WatchId>,
}

impl LinkedDirectory {
    /// Whether the link at this path leads to where configuration lies.
    pub(super) fn is_nearby(&self, path: &Path) -> bool {
        path.parent().is_some_and(|directory| is_configuration_behind(directory, &self.target))
    }

    /// Whether it leads there, and to another directory than before.
    pub(crate) fn is_another(&self, path: &Path) -> bool {
        self.is_nearby(path) && inode_of(path) != self.inode
    }
}

/// Device and inode of the directory at a path.
fn inode_of(path: &Path) -> Option<(u64, u64)> {
    let directory = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
    Some((directory.dev(), directory.ino()))
}

impl Entry {
    /// Whether it is a file that has other names, or has such in it.
    pub(super) fn has_other_names(&self) -> bool {
        match self {
            Entry::File(file) => file.identity.has_other_names(),
            Entry::Directory(entries) => entries.values().any(Entry::has_other_names),
            Entry::Link(_) | Entry::Wrong(_) => false,
        }
    }

    /// Whether it is a file that has other names and was not the same before, or has such in it.
    pub(super) fn has_new_names(&self, before: Option<&Entry>) -> bool {
        match (self, before) {
            (Entry::File(now), Some(Entry::File(before))) if now.identity == before.identity => {
                false
            }
            (Entry::File(now), _) => now.identity.has_other_names(),
            (Entry::Directory(now), Some(Entry::Directory(before))) => {
                now.iter().any(|(name, now)| now.has_new_names(before.get(name)))
            }
            (Entry::Directory(_), _) => self.has_other_names(),
            (Entry::Link(_) | Entry::Wrong(_), _) => false,
        }
    }

    /// The paths of such files.
    pub(super) fn files_with_other_names(&self) -> Vec<Arc<str>> {
        match self {
            Entry::File(file) if file.identity.has_other_names() => {
                vec![file.parsed.path().clone()]
            }
            Entry::Directory(entries) => {
                entries.values().flat_map(Entry::files_with_other_names).collect()
            }
            Entry::File(_) | Entry::Link(_) | Entry::Wrong(_) => Vec::new(),
        }
    }
}

impl Snapshot {
    /// Takes note of whether the directory at this path, where `found` is and is watched, is a link. The watch of
    /// the directory that it led to before, if it led to another.
    pub(super) fn note_linked(
        &mut self,
        path: &Path,
        is_link: bool,
        found: Option<&fs::Metadata>,
        watch: Option<WatchId>,
    ) -> Option<WatchId> {
        if !is_link && self.linked.is_empty() {
            return None;
        }
        let inode = found.map(|directory| (directory.dev(), directory.ino()));
        let target = is_link.then(|| fs::read_link(path).ok()).flatten();
        let target = target.map(|target| target.to_string_lossy().into());
        let now = target.map(|target| LinkedDirectory { target, inode, watch });
        let before = self.linked.get(path);
        if before == now.as_ref() {
            return None;
        }
        let former = before.and_then(|before| before.watch);
        let linked = Arc::make_mut(&mut self.linked);
        match now {
            Some(now) => drop(linked.insert(path.to_owned(), now)),
            None => drop(linked.remove(path)),
        }
        former.filter(|former| Some(*former) != watch)
    }

    /// Looks at the files with other names to which this look goes; the names that differ.
    pub(super) fn refresh_named(&mut self, links: Links<'_>) -> BTreeSet<Box<str>> {
        let is_asked = |name: &str| match links {
            Links::All | Links::Nearby(_) => true,
            Links::Of { asked, .. } => asked.contains(name),
        };
        let mut names: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (index, name) in self.named.iter().filter(|(_, name)| is_asked(name)) {
            names.entry(*index).or_default().push(name.to_string());
        }
        let mut changed = BTreeSet::new();
        for (index, names) in names {
            changed.extend(self.refresh_files(index, names));
        }
        changed
    }

    /// Looks at all files to which no look goes otherwise, as one may have got a name of which no watch tells by
    /// its own; the names that differ.
    pub(super) fn look_for_names(&mut self) -> BTreeSet<Box<str>> {
        let none = BTreeSet::new();
        let rest = Links::Of { asked: &none, goes_far: false };
        let mut changed = BTreeSet::new();
        for index in 0..self.directories.len() {
            if !self.directories[index].is_made {
                changed.extend(self.sweep_directory(index, true, rest));
            }
        }
        changed
    }

    /// The directory of this name, if it is a link.
    pub(super) fn linked(&self, (index, name): &Place) -> Option<(PathBuf, &LinkedDirectory)> {
        if self.linked.is_empty() {
            return None;
        }
        let path = self.directories[*index].path.join(&**name);
        self.linked.get(&path).map(|linked| (path, linked))
    }

    /// Whether it is one that leads to where no configuration lies.
    pub(super) fn is_linked_far(&self, place: &Place) -> bool {
        self.linked(place).is_some_and(|(path, linked)| !linked.is_nearby(&path))
    }

    /// Whether watches tell of all that is done to the directory at this path, on this device.
    pub(super) fn tells_all(&mut self, path: &Path, device: u64) -> bool {
        let tells = || warren_sys::inotify::tells_all(path);
        *self.devices.entry(device).or_insert_with(tells)
    }

    /// Watches no more what this led to before, unless others lead there.
    pub(super) fn unwatch_former(&mut self, former: WatchId, watched: Watched) {
        let Some(places) = self.watched.get_mut(&former) else { return };
        places.remove(&watched);
        if places.is_empty() {
            self.watched.remove(&former);
            self.watch.iter().for_each(|watch| watch.remove(former));
        }
    }

    /// Entries at or below which something is mounted, or was when this was last asked.
    pub(super) fn mounted_at(&mut self) -> BTreeSet<Place> {
        let mut places = self.mounted.clone();
        if self.look_at_mounts() {
            places.extend(self.mounted.iter().cloned());
        }
        places
    }

    /// Reads the mount table if it has changed; whether it did. One that cannot be read now is read by the next look.
    pub(super) fn look_at_mounts(&mut self) -> bool {
        if self.mounts.is_none() {
            self.mounts = MountNews::new().ok();
        }
        let Some(mounts) = &mut self.mounts else { return false };
        if !mounts.are_there() {
            return false;
        }
        let on_disk = self.directories.iter().enumerate().filter(|(_, d)| !d.is_made);
        let real = on_disk.filter_map(|(index, d)| Some((index, fs::canonicalize(&d.path).ok()?)));
        let real: Vec<(usize, PathBuf)> = real.collect();
        let paths: Vec<&Path> = real.iter().map(|(_, path)| path.as_path()).collect();
        let Ok(points) = mounts.points_below(&paths) else { return false };
        let place = |point: &str| {
            real.iter().find_map(|(index, directory)| {
                let below = Path::new(point).strip_prefix(directory).ok()?;
                Some((*index, below.iter().next()?.to_str()?.into()))
            })
        };
        self.mounted = points.iter().filter_map(|point| place(point)).collect();
        true
    }
}
