//! What differs on disk and is not in force yet, and which units that concerns.
//!
//! The second is found out once for each look that found something, at a cost that may be that of all
//! units, and not for each unit that is loaded meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use warren_core::graph::Graph;
use warren_unit::{LoadState, UnitName};

use super::work::known_unit;
use super::{Loader, Loading};
use crate::config::changed_on_disk::OnDisk;

/// What waits for a reload.
pub(super) struct Pending {
    /// Names of files, links and directories.
    names: BTreeSet<Box<str>>,
    /// Those of them that were found since it was last asked whom they concern.
    news: BTreeSet<Box<str>>,
    /// Units that were loaded of what is on disk now: no name concerns them.
    current: BTreeSet<UnitName>,
    /// Whom the names concern.
    units: Arc<BTreeSet<UnitName>>,
    /// See [`OnDisk::behind_links`].
    behind_links: Arc<BTreeSet<Arc<str>>>,
    /// See [`OnDisk::with_links_out`].
    with_links_out: Arc<BTreeSet<Box<str>>>,
    /// The last three are as they were before.
    is_stale: bool,
}

impl Default for Pending {
    fn default() -> Pending {
        Pending {
            names: BTreeSet::new(),
            news: BTreeSet::new(),
            current: BTreeSet::new(),
            units: Arc::default(),
            behind_links: Arc::default(),
            with_links_out: Arc::default(),
            is_stale: true,
        }
    }
}

impl Pending {
    /// These differ from what was last seen.
    pub(super) fn extend(&mut self, names: BTreeSet<Box<str>>) {
        self.news.extend(names.iter().cloned());
        self.names.extend(names);
    }

    /// All names.
    pub(super) fn names(&self) -> &BTreeSet<Box<str>> {
        &self.names
    }

    /// All names, of which none waits any more.
    pub(super) fn take(&mut self) -> BTreeSet<Box<str>> {
        std::mem::take(self).names
    }

    /// These names wait no more, and whom they concern is loaded of what is on disk.
    pub(super) fn settle(&mut self, names: &BTreeSet<Box<str>>, units: BTreeSet<UnitName>) {
        self.names.retain(|name| !names.contains(name));
        self.current.extend(units);
        self.is_stale = true;
    }

    /// This unit was loaded of what is on disk.
    fn set_current(&mut self, unit: &UnitName) {
        if self.units.contains(unit) {
            Arc::make_mut(&mut self.units).remove(unit);
        }
        self.current.insert(unit.clone());
    }

    /// These units are no more, and have no files.
    pub(super) fn forget(&mut self, units: &[UnitName]) {
        for unit in units {
            self.current.remove(unit);
            self.is_stale |= self.names.remove(unit.as_str());
        }
    }
}

impl Loader {
    /// What others may know of the disk.
    pub fn on_disk(&mut self, graph: &Graph, generated_at_ns: u64) -> OnDisk {
        self.take_news(graph);
        let is_stale = std::mem::take(&mut self.pending.is_stale);
        if is_stale {
            let mut units = self.affected(graph, &self.pending.names);
            units.retain(|unit| !self.pending.current.contains(unit));
            self.pending.units = Arc::new(units);
        }
        if self.snapshot.take_outside_changed() || is_stale {
            self.pending.behind_links = Arc::new(self.snapshot.files_behind_links());
            self.pending.with_links_out = Arc::new(self.snapshot.names_with_links_out());
        }
        let (watch, looked_at_ns) = self.snapshot.watched();
        let (behind_links, pending) =
            (self.pending.behind_links.clone(), self.pending.units.clone());
        OnDisk {
            watch,
            looked_at_ns,
            looked_behind_at_ns: self.snapshot.looked_behind_at_ns(),
            generated_at_ns,
            behind_links,
            with_links_out: self.pending.with_links_out.clone(),
            linked: self.snapshot.linked_directories().clone(),
            has_states: !self.is_unstated,
            pending,
        }
    }

    /// Whoever is concerned by what was found now is not current any more.
    pub(super) fn take_news(&mut self, graph: &Graph) {
        let news = std::mem::take(&mut self.pending.news);
        if news.is_empty() {
            return;
        }
        self.pending.is_stale = true;
        if !self.pending.current.is_empty() {
            let concerned = self.affected(graph, &news);
            self.pending.current.retain(|unit| !concerned.contains(unit));
        }
    }

    /// Units that this load was the first to find are made of what is on disk now; others are as they
    /// were in force, even if they differ.
    pub(super) fn note_found(&mut self, before: &Graph, loading: &Loading) {
        if self.pending.names.is_empty() {
            return;
        }
        for &unit in loading.delta.added.iter().chain(&loading.delta.changed) {
            let definition = loading.graph.definition(unit);
            let is_found = definition.load_state != LoadState::NotFound;
            if is_found && known_unit(before, &definition.name).is_none() {
                self.pending.set_current(&definition.name);
            }
        }
    }
}
