//! The layer as a directory of the ground state: files, drop-ins, and the links that `[Install]`
//! asks for.
//!
//! A rule is the administrator's word for all that it makes, so its `WantedBy=` and the like count
//! as they stand: no administrator has to enable 5,000 units one by one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use warren_fleet::made::Product;
use warren_unit::Context;
use warren_unit::install::{Change, Node, Options, Tree, UnitFileState, state_without_links};
use warren_unit::parse::UnitFile;

use super::applied::{Applied, Paths};
use crate::config::snapshot::{Directory, Entry, File, Leads, Snapshot};

/// Carries the difference between two states into the ground state; returns the names that differ,
/// and whether any of them is more than a file's content.
pub(super) fn update(
    snapshot: &mut Snapshot,
    before: &Applied,
    after: &Applied,
    context: &Arc<Context>,
) -> (Paths, bool) {
    let mut work = Work { context, names: Paths::new(), structure: false };
    let Some(directory) = snapshot.made_mut() else { return (work.names, false) };
    for difference in before.diff(after) {
        match difference {
            DiffItem::Add(path, new) => work.change(directory, path, None, Some(new)),
            DiffItem::Remove(path, old) => work.change(directory, path, Some(old), None),
            DiffItem::Update { old, new } => {
                work.change(directory, new.0, Some(old.1), Some(new.1));
            }
        }
    }
    (work.names, work.structure)
}

struct Work<'a> {
    context: &'a Arc<Context>,
    names: Paths,
    structure: bool,
}

impl Work<'_> {
    fn change(
        &mut self,
        directory: &mut Directory,
        path: &str,
        old: Option<&Product>,
        new: Option<&Product>,
    ) {
        let (old, new) = (old.map(|p| &p.file), new.map(|p| &p.file));
        if let (Some(old), Some(new)) = (old, new)
            && Arc::ptr_eq(old, new)
        {
            return;
        }
        self.structure |= old.is_none() || new.is_none();
        self.set(directory, path, new.map(|file| Entry::File(File::made(file.clone()))));
        let links = |file: Option<&Arc<UnitFile>>| {
            file.map(|file| links(&directory.path, path, file, self.context)).unwrap_or_default()
        };
        let (before, after) = (links(old), links(new));
        for link in before.keys().filter(|link| !after.contains_key(*link)) {
            self.structure = true;
            self.set(directory, link, None);
        }
        for (link, target) in after.iter().filter(|(link, _)| !before.contains_key(*link)) {
            self.structure = true;
            self.set(directory, link, Some(Entry::link(Path::new(target), Leads::Inside)));
        }
    }

    /// Sets what is at a path of one or two parts.
    fn set(&mut self, directory: &mut Directory, path: &str, entry: Option<Entry>) {
        let (name, below) = match path.split_once('/') {
            Some((name, below)) => (name, Some(below)),
            None => (path, None),
        };
        self.names.insert(name.into());
        let Some(below) = below else {
            match entry {
                Some(entry) => directory.entries.insert(name.into(), entry),
                None => directory.entries.remove(name),
            };
            return;
        };
        let empty = || Entry::Directory(Box::default());
        let owner = directory.entries.entry(name.into()).or_insert_with(empty);
        let Entry::Directory(entries) = owner else { return };
        match entry {
            Some(entry) => entries.insert(below.into(), entry),
            None => entries.remove(below),
        };
        if entries.is_empty() {
            directory.entries.remove(name);
        }
    }
}

/// The links that enabling a unit would make: path in the layer, and where it leads.
fn links(
    directory: &Path,
    path: &str,
    file: &Arc<UnitFile>,
    context: &Arc<Context>,
) -> BTreeMap<Box<str>, String> {
    if path.contains('/') || state_without_links(file) != UnitFileState::Disabled {
        return BTreeMap::new();
    }
    let directory = directory.to_string_lossy().into_owned();
    let nodes = BTreeMap::from([(format!("{directory}/{path}"), Node::File(file.clone()))]);
    let search_path = vec![directory.clone()];
    let (persistent, runtime) = (directory.clone(), directory.clone());
    let tree = Tree { search_path, persistent, runtime, context: context.clone(), nodes };
    let plan = tree.enable(&[path], Options { runtime: false, force: true });
    let below = |change: Change| match change {
        Change::Symlink { path, target } => {
            let path = path.strip_prefix(&directory)?.strip_prefix('/')?;
            Some((Box::from(path), target))
        }
        Change::Unlink { .. } => None,
    };
    plan.changes.into_iter().filter_map(below).collect()
}
