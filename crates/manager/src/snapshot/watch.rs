//! Keeping up: what the kernel tells of the directories.

use std::collections::BTreeSet;

use warren_sys::inotify::{Change, WatchFor};

use super::{Entry, Leads, Snapshot, Work};
use crate::say;

const ENOTDIR: i32 = 20;

impl Snapshot {
    pub(super) fn watch_directory(&mut self, index: usize, below: Option<&str>) {
        let Some(watch) = &self.watch else { return };
        let path = match below {
            Some(name) => self.directories[index].path.join(name),
            None => self.directories[index].path.clone(),
        };
        match watch.add(&path, WatchFor::Entries) {
            Ok(id) => drop(self.watched.insert(id, (index, below.map(Box::from)))),
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
        let Some((index, below)) = self.watched.get(&event.watch) else { return };
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
        if event.ended {
            self.watched.remove(&event.watch);
        }
    }

    /// Files behind links out of the search directories are not watched: looked at each time.
    fn outside_links(&self, touched: &mut BTreeSet<(usize, Box<str>)>) {
        touched.extend(self.outside.iter().cloned());
    }

    pub(super) fn note_outside(&mut self, index: usize, name: &str, now: Option<&Entry>) {
        // A mask leads nowhere and always will.
        let leads_out = matches!(now, Some(Entry::Link(link))
            if !matches!(link.leads, Leads::Inside) && &*link.target != "/dev/null");
        if leads_out {
            self.outside.insert((index, name.into()));
        } else if !self.outside.is_empty() {
            self.outside.remove(&(index, Box::from(name)));
        }
    }
}
