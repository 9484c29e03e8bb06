//! Links in `.wants` directories and their like that lead to masks: as one to /dev/null itself, such a link
//! says nothing and hides those of its name in weaker directories (as systemd 252 has it).
//!
//! Only what the links say counts, not which file a unit is made of: one to a unit's file in /usr is a link to
//! that unit, though it may be masked in /etc.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Directory, Entry, Leads, Link, Snapshot};

/// Links that are followed from one entry to the next.
const STEPS_MAX: usize = 16;

impl Snapshot {
    /// Whether this link, in the directory of links `name` of that search directory, leads to a mask that lies
    /// in a search directory.
    pub(crate) fn leads_to_mask(&self, search: &Path, name: &str, link: &Link) -> bool {
        let search = search.to_string_lossy();
        let mut path = followed(&format!("{search}/{name}"), &link.target);
        for _ in 0..STEPS_MAX {
            if path == "/dev/null" {
                return true;
            }
            let Some((directory, name)) = path.rsplit_once('/') else { return false };
            let entries = self.directories.iter().find(|d| d.is_at(directory)).map(|d| &d.entries);
            match entries.and_then(|entries| entries.get(name)) {
                Some(Entry::File(file)) => return file.parsed.is_empty(),
                Some(Entry::Link(next)) => match &next.leads {
                    Leads::Outside(file) => return file.parsed.is_empty(),
                    Leads::Inside | Leads::Nowhere => path = followed(directory, &next.target),
                },
                Some(Entry::Directory(_) | Entry::Wrong(_)) | None => return false,
            }
        }
        false
    }

    /// Notes an entry that is another than before.
    pub(super) fn note_masks(&mut self, name: &str, before: Option<&Entry>, now: Option<&Entry>) {
        let may_mask = |entry: &Entry| match entry {
            Entry::File(file) => file.parsed.is_empty(),
            Entry::Link(_) => true,
            Entry::Directory(_) | Entry::Wrong(_) => false,
        };
        if before.is_some_and(may_mask) || now.is_some_and(may_mask) {
            self.remasked.insert(name.into());
        }
    }

    /// Names of the directories of links of which one may lead to a mask, or no longer, since this was last
    /// asked. Takes a walk over all entries if there were such changes.
    pub(crate) fn take_remasked(&mut self) -> BTreeSet<Box<str>> {
        let mut names = std::mem::take(&mut self.remasked);
        if names.is_empty() {
            return names;
        }
        let entries = || self.directories.iter().flat_map(|d| &d.entries);
        let leads_there = |names: &BTreeSet<Box<str>>, entry: &Entry| matches!(entry, Entry::Link(link) if names.contains(last_part(&link.target)));
        for _ in 0..STEPS_MAX {
            let more = entries().filter(|(_, entry)| leads_there(&names, entry));
            let more = more.filter(|(name, _)| !names.contains(&***name));
            let more: Vec<Box<str>> = more.map(|(name, _)| Box::from(&**name)).collect();
            if more.is_empty() {
                break;
            }
            names.extend(more);
        }
        let has_link_there = |entry: &Entry| match entry {
            Entry::Directory(links) => links.values().any(|link| leads_there(&names, link)),
            _ => false,
        };
        let directories = entries().filter(|(name, _)| !name.ends_with(".d"));
        let directories = directories.filter(|(_, entry)| has_link_there(entry));
        directories.map(|(name, _)| Box::from(&**name)).collect()
    }
}

impl Directory {
    /// Whether this is the directory of that path, be it by the one that it really has.
    fn is_at(&self, path: &str) -> bool {
        let is = |own: &Path| own.as_os_str() == path;
        is(&self.path) || self.real.as_deref().is_some_and(is)
    }
}

/// Where a link in this directory leads, by its text.
fn followed(directory: &str, target: &str) -> String {
    let from = if target.starts_with('/') { "" } else { directory };
    let mut parts: Vec<&str> = Vec::new();
    for part in from.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn last_part(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}
