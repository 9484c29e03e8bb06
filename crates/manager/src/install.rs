//! Enabling and disabling: the ground state as the planner wants it, and what it says of each file.

use std::collections::BTreeMap;
use std::sync::Arc;

use warren_unit::install::{Node, PresetRules, Tree, UnitFileState};
use warren_unit::{Context, UnitName};
use warren_unit_files::{Places, Root, absolute_target, config_directories};

use crate::shared::{FileState, FileStates};
use crate::snapshot::{Directory, Entry, Leads, Snapshot};

/// The planner's listing, from the ground state.
fn tree(snapshot: &Snapshot, context: &Arc<Context>) -> Tree {
    tree_of(snapshot.directories.iter(), context)
}

/// The same, of what lies on a disk and can be linked to.
pub fn tree_on_disk(snapshot: &Snapshot, context: &Arc<Context>) -> Tree {
    tree_of(snapshot.directories.iter().filter(|directory| !directory.is_made), context)
}

fn tree_of<'a>(
    directories: impl Iterator<Item = &'a Directory> + Clone,
    context: &Arc<Context>,
) -> Tree {
    let path = |directory: &Directory| directory.path.to_string_lossy().into_owned();
    let search_path: Vec<String> = directories.clone().map(path).collect();
    let (persistent, runtime) = config_directories(&search_path, context.scope);
    let mut nodes = BTreeMap::new();
    let mut places = Places::new(&Root::OWN, &search_path);
    for directory in directories {
        let base = directory.path.to_string_lossy();
        for (name, entry) in &directory.entries {
            add_node(&mut nodes, &mut places, format!("{base}/{name}"), entry);
        }
    }
    Tree { search_path, persistent, runtime, context: context.clone(), nodes }
}

fn add_node(
    nodes: &mut BTreeMap<String, Node>,
    places: &mut Places<'_>,
    path: String,
    entry: &Entry,
) {
    match entry {
        Entry::File(file) => {
            nodes.insert(path, Node::File(file.parsed.clone()));
        }
        Entry::Link(link) => {
            let mut target = absolute_target(&path, &link.target);
            match &link.leads {
                Leads::Inside => target = places.as_searched(target),
                Leads::Outside(file) => {
                    nodes.insert(target.clone(), Node::File(file.parsed.clone()));
                }
                Leads::Nowhere => {}
            }
            nodes.insert(path, Node::Link(target));
        }
        Entry::Directory(entries) => {
            for (name, entry) in entries.iter() {
                add_node(nodes, places, format!("{path}/{name}"), entry);
            }
        }
        Entry::Wrong(_) => {}
    }
}

/// `UnitFileState` of every unit file and of these instances, and the policy for them.
pub fn states(
    snapshot: &Snapshot,
    context: &Arc<Context>,
    instances: impl Iterator<Item = UnitName>,
    presets: PresetRules,
) -> FileStates {
    let tree = tree(snapshot, context);
    let mut states = tree.states(instances);
    for name in made(snapshot) {
        states.insert(name, UnitFileState::Generated);
    }
    let is_file = |entry: &Entry| !matches!(entry, Entry::Directory(_));
    let place = |name: &UnitName| {
        let has = |d: &Directory| d.entries.get(name.as_str()).is_some_and(is_file);
        snapshot.directories.iter().position(has).and_then(|index| u16::try_from(index).ok())
    };
    let directories = snapshot.paths().map(|path| path.to_string_lossy().into_owned()).collect();
    let known = states.into_iter().map(|(name, state)| {
        let any = name.is_template().then(|| tree.state_of_any_instance(&name)).flatten();
        let of_instances = any.unwrap_or(state);
        let directory = place(&name);
        (name, FileState { state, of_instances, directory })
    });
    FileStates::new(directories, known, presets)
}

/// The units that rules make and no file hides.
fn made(snapshot: &Snapshot) -> Vec<UnitName> {
    let Some(own) = snapshot.directories.iter().position(|d| d.is_made) else { return Vec::new() };
    let (stronger, own) = (&snapshot.directories[..own], &snapshot.directories[own]);
    let files = own.entries.iter().filter(|(_, entry)| matches!(entry, Entry::File(_)));
    let shown = files.filter(|(name, _)| !stronger.iter().any(|d| d.entries.contains_key(*name)));
    shown.filter_map(|(name, _)| UnitName::parse(name).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::scratch::Scratch;
    use warren_unit::install::Options;

    /// As `/usr/lib` on hosts where `/lib`, which is searched first, is a link to it.
    #[test]
    fn a_link_by_another_path_of_a_directory_is_a_link_to_its_unit() {
        let scratch = Scratch::new("another-path");
        let [etc, lib, usr] = ["etc", "lib", "usr"].map(|name| scratch.0.join(name));
        let unit = usr.join("a.service");
        for directory in [&etc.join("x.target.wants"), &usr] {
            std::fs::create_dir_all(directory).expect("a directory");
        }
        symlink(&usr, &lib).expect("a link");
        std::fs::write(&unit, "[Install]\nWantedBy=x.target\n").expect("a file");
        symlink(&unit, etc.join("x.target.wants/a.service")).expect("a link");
        symlink(&unit, etc.join("b.service")).expect("a link");
        let snapshot = Snapshot::read_unwatched(vec![etc, lib]);
        let tree = tree(&snapshot, &Arc::new(Context::system()));
        let state = |name| tree.state(&UnitName::parse(name).expect("a name"));
        assert_eq!(state("b.service"), Some(UnitFileState::Alias));
        assert_eq!(state("a.service"), Some(UnitFileState::Enabled));
        let again = tree.enable(&["a.service"], Options::default());
        assert_eq!((again.errors, again.changes), (vec![], vec![]));
    }
}
