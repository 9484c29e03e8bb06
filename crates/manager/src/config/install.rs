//! Enabling and disabling: the ground state as the planner wants it, and what it says of each file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warren_unit::install::{Node, PresetRules, Tree, UnitFileState};
use warren_unit::{Context, UnitName};
use warren_unit_files::{Places, Root, absolute_target, config_directories};

use crate::config::file_states::{FileState, FileStates};
use crate::config::snapshot::{Directory, Entry, Leads, Snapshot, strongest};

/// The planner's listing, from the ground state.
fn tree(snapshot: &Snapshot, context: &Arc<Context>) -> Tree {
    tree_of(snapshot.directories.iter(), context, None)
}

/// The same, of what lies on a disk and can be linked to.
pub fn tree_on_disk(snapshot: &Snapshot, context: &Arc<Context>) -> Tree {
    tree_of(snapshot.directories.iter().filter(|directory| !directory.is_made), context, None)
}

/// Names of which a listing is to know all.
struct Around(BTreeSet<String>);

impl Around {
    /// Those of a unit and its template, and of what they are aliases of.
    fn unit(snapshot: &Snapshot, unit: &UnitName) -> Around {
        let (mut all, mut names) = (BTreeSet::new(), vec![unit.clone()]);
        while let Some(name) = names.pop() {
            names.extend(name.template());
            if !all.insert(name.to_string()) {
                continue;
            }
            let found = snapshot.directories.iter().filter_map(|d| d.entries.get(name.as_str()));
            names.extend(found.filter_map(|entry| match entry {
                Entry::Link(link) => UnitName::parse(last_part(&link.target)).ok(),
                _ => None,
            }));
        }
        Around(all)
    }

    fn has(&self, name: &str) -> bool {
        let of_template = || {
            let template = UnitName::parse(name).ok()?.template()?;
            Some(self.0.contains(template.as_str()))
        };
        self.0.contains(name) || name.contains('@') && of_template() == Some(true)
    }

    /// Whether an entry of a search directory has a part in the states of these.
    fn needs(&self, name: &str, entry: &Entry) -> bool {
        match entry {
            Entry::Directory(_) => name.strip_suffix(".d").is_none_or(|owner| self.has(owner)),
            Entry::Link(link) => self.has(name) || self.has(last_part(&link.target)),
            _ => self.has(name),
        }
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn tree_of<'a>(
    directories: impl Iterator<Item = &'a Directory> + Clone,
    context: &Arc<Context>,
    around: Option<&Around>,
) -> Tree {
    let path = |directory: &Directory| directory.path.to_string_lossy().into_owned();
    let search_path: Vec<String> = directories.clone().map(path).collect();
    let (persistent, runtime) = config_directories(&search_path, context.scope);
    let mut nodes = BTreeMap::new();
    let mut places = Places::new(&Root::OWN, &search_path);
    for directory in directories {
        let base = directory.path.to_string_lossy();
        let needed = |(name, entry): &(&Arc<str>, &Entry)| {
            around.is_none_or(|around| around.needs(name, entry))
        };
        for (name, entry) in directory.entries.iter().filter(needed) {
            // Of a directory of links those that are for others say nothing.
            let around = around.filter(|_| !name.ends_with(".d"));
            add_node(&mut nodes, &mut places, format!("{base}/{name}"), entry, around);
        }
    }
    Tree { search_path, persistent, runtime, context: context.clone(), nodes }
}

fn add_node(
    nodes: &mut BTreeMap<String, Node>,
    places: &mut Places<'_>,
    path: String,
    entry: &Entry,
    around: Option<&Around>,
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
            let has = |name: &str| around.is_none_or(|around| around.has(name));
            for (name, entry) in entries.iter().filter(|(name, _)| has(name)) {
                add_node(nodes, places, format!("{path}/{name}"), entry, None);
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
    let directories = snapshot.paths().map(|path| path.to_string_lossy().into_owned()).collect();
    let known = states.into_iter().map(|(name, state)| {
        let known = file_state(snapshot, &tree, &name, state);
        (name, known)
    });
    let mut states = FileStates::new(directories, known, presets);
    states.default_target = tree.default_target();
    states
}

/// `default.target`
pub fn default_name() -> UnitName {
    UnitName::parse("default.target").expect("a valid name")
}

/// The unit that this is, if it has a file.
pub fn default_target(snapshot: &Snapshot, context: &Arc<Context>) -> Option<UnitName> {
    let name = default_name();
    let around = Around::unit(snapshot, &name);
    tree_of(snapshot.directories.iter(), context, Some(&around)).default_target()
}

fn file_state(
    snapshot: &Snapshot,
    tree: &Tree,
    name: &UnitName,
    state: UnitFileState,
) -> FileState {
    let any = name.is_template().then(|| tree.state_of_any_instance(name)).flatten();
    let place = strongest(&snapshot.directories, name.as_str());
    FileState {
        state,
        of_instances: any.unwrap_or(state),
        directory: place.and_then(|(index, _)| u16::try_from(index).ok()),
    }
}

/// What is known of one unit's file, as [`states`] has it; nothing if there is none.
pub fn state_of(snapshot: &Snapshot, context: &Arc<Context>, name: &UnitName) -> Option<FileState> {
    let around = Around::unit(snapshot, name);
    let tree = tree_of(snapshot.directories.iter(), context, Some(&around));
    let state = match is_made(snapshot, name) {
        true => UnitFileState::Generated,
        false => tree.state(name)?,
    };
    Some(file_state(snapshot, &tree, name, state))
}

/// Whether rules make the unit and no file hides it.
fn is_made(snapshot: &Snapshot, name: &UnitName) -> bool {
    let first = strongest(&snapshot.directories, name.as_str());
    first.is_some_and(|(index, entry)| {
        snapshot.directories[index].is_made && matches!(entry, Entry::File(_))
    })
}

/// The units that rules make and no file hides.
fn made(snapshot: &Snapshot) -> Vec<UnitName> {
    let own = snapshot.directories.iter().find(|d| d.is_made);
    let files = own.iter().flat_map(|own| &own.entries);
    let names = files.filter(|(_, entry)| matches!(entry, Entry::File(_)));
    let names = names.filter_map(|(name, _)| UnitName::parse(name).ok());
    names.filter(|name| is_made(snapshot, name)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::base::scratch::Scratch;
    use warren_unit::install::Options;

    #[test]
    fn the_state_of_one_unit_is_that_which_it_has_among_all() {
        let scratch = Scratch::new("one-of-all");
        let install = "[Install]\nWantedBy=x.target\nAlias=al.service\n";
        for (path, text) in [
            ("usr/a.service", install),
            ("usr/b.service", "[Install]\nAlso=a.service\n"),
            ("usr/c.service", ""),
            ("usr/d.service", "[Service]\n"),
            ("usr/t@.service", "[Install]\nWantedBy=x.target\nDefaultInstance=def\n"),
            ("usr/u@.service", "[Install]\nWantedBy=x.target\n"),
            ("far/l.service", "[Install]\nWantedBy=x.target\n"),
            ("etc/d.service.d/1.conf", "[Install]\nWantedBy=x.target\n"),
            ("etc/u@.service.d/1.conf", "[Install]\nWantedBy=\n"),
            ("etc/x.target.wants/README", ""),
        ] {
            let path = scratch.0.join(path);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        let path = |path: &str| scratch.0.join(path);
        for (target, link) in [
            (path("usr/a.service"), "al.service"),
            (path("usr/b.service"), "other.service"),
            (path("usr/t@.service"), "x.target.wants/t@one.service"),
            (path("usr/t@.service"), "t@alias.service"),
            (path("far/l.service"), "l.service"),
            (path("far/none.service"), "none.service"),
            ("/dev/null".into(), "m.service"),
            (path("usr/c.service"), "x.target.wants/c.service"),
        ] {
            symlink(target, path("etc").join(link)).expect("a link");
        }
        let snapshot = Snapshot::read_unwatched(vec![path("etc"), path("usr")]);
        let name = |text: &str| UnitName::parse(text).expect("a name");
        let instances = ["t@one.service", "t@two.service", "t@alias.service", "u@x.service"];
        let context = Arc::new(Context::system());
        let all = states(&snapshot, &context, instances.map(name).into_iter(), Default::default());
        let names = ["a", "b", "c", "d", "l", "m", "t@", "u@", "al", "other", "none", "nowhere"];
        let names = names.map(|stem| format!("{stem}.service"));
        for text in names.iter().map(String::as_str).chain(instances) {
            let (one, among) = (state_of(&snapshot, &context, &name(text)), all.get(&name(text)));
            assert_eq!(one.map(|known| known.state), among, "{text}");
        }
        assert_eq!(all.get(&name("l.service")), Some(UnitFileState::Linked));
    }

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
