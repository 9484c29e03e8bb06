//! Enabling and disabling: the planner's changes carried out, on the directories of this host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_unit::install::{Change, Node, Plan, Tree, UnitFileState};
use warren_unit::{Context, Scope, UnitName, UnitType};

use crate::shared::FileStates;
use crate::snapshot::{Directory, Entry, Snapshot, directory_kind};

/// The planner's listing, from the ground state.
pub fn tree(snapshot: &Snapshot, context: &Arc<Context>) -> Tree {
    let search_path: Vec<String> =
        snapshot.paths().map(|path| path.to_string_lossy().into_owned()).collect();
    let (persistent, runtime) = config_directories(&search_path, context.scope);
    let mut nodes = BTreeMap::new();
    for directory in &snapshot.directories {
        let base = directory.path.to_string_lossy();
        for (name, entry) in &directory.entries {
            add_node(&mut nodes, format!("{base}/{name}"), entry);
        }
    }
    Tree { search_path, persistent, runtime, context: context.clone(), nodes }
}

fn add_node(nodes: &mut BTreeMap<String, Node>, path: String, entry: &Entry) {
    match entry {
        Entry::File(file) => {
            nodes.insert(path, Node::File(file.parsed.clone()));
        }
        Entry::Link(link) => {
            if let Some(file) = &link.outside {
                nodes.insert(file.parsed.path().to_string(), Node::File(file.parsed.clone()));
            }
            let absolute = absolute_target(&path, &link.target);
            nodes.insert(path, Node::Link(absolute));
        }
        Entry::Directory(entries) => {
            for (name, entry) in entries.iter() {
                add_node(nodes, format!("{path}/{name}"), entry);
            }
        }
        Entry::Wrong(_) => {}
    }
}

/// A link's target as an absolute path without `..`.
fn absolute_target(path: &str, target: &str) -> String {
    let base = Path::new(path).parent().unwrap_or(Path::new("/"));
    let mut out = PathBuf::new();
    for part in base.join(target).components() {
        match part {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out.to_string_lossy().into_owned()
}

/// Where `enable` and `enable --runtime` write: the usual directories if they are searched, else
/// the first one.
pub(crate) fn config_directories(search_path: &[String], scope: Scope) -> (String, String) {
    let usual = match scope {
        Scope::System => ("/etc/systemd/system".to_owned(), "/run/systemd/system".to_owned()),
        Scope::User => {
            let ends = |suffix: &str| search_path.iter().find(|p| p.ends_with(suffix)).cloned();
            let runtime = std::env::var("XDG_RUNTIME_DIR").unwrap_or_default();
            (ends("/.config/systemd/user").unwrap_or_default(), format!("{runtime}/systemd/user"))
        }
    };
    let first = search_path.first().cloned().unwrap_or_default();
    let pick = |wanted: String| match search_path.contains(&wanted) {
        true => wanted,
        false => first.clone(),
    };
    (pick(usual.0), pick(usual.1))
}

/// `UnitFileState` of every unit file.
pub fn states(snapshot: &Snapshot, context: &Arc<Context>) -> FileStates {
    let mut states = tree(snapshot, context).states();
    for name in made(snapshot) {
        states.insert(name, UnitFileState::Generated);
    }
    let is_file = |entry: &Entry| !matches!(entry, Entry::Directory(_));
    let place = |name: &UnitName| {
        let has = |d: &Directory| d.entries.get(name.as_str()).is_some_and(is_file);
        snapshot.directories.iter().position(has).and_then(|index| u16::try_from(index).ok())
    };
    let directories = snapshot.paths().map(|path| path.to_string_lossy().into_owned()).collect();
    let placed = states.into_iter().filter_map(|(name, state)| {
        let directory = place(&name)?;
        Some((name, state, directory))
    });
    FileStates::new(directories, placed)
}

/// The units that rules make and no file hides.
fn made(snapshot: &Snapshot) -> Vec<UnitName> {
    let Some(own) = snapshot.directories.iter().position(|d| d.is_made) else { return Vec::new() };
    let (stronger, own) = (&snapshot.directories[..own], &snapshot.directories[own]);
    let files = own.entries.iter().filter(|(_, entry)| matches!(entry, Entry::File(_)));
    let shown = files.filter(|(name, _)| !stronger.iter().any(|d| d.entries.contains_key(*name)));
    shown.filter_map(|(name, _)| UnitName::parse(name).ok()).collect()
}

/// Reads files that are named by path and are not in the listing.
pub fn add_named_files(tree: &mut Tree, names: &[&str]) {
    for path in names.iter().filter(|name| name.starts_with('/')) {
        let Some(suffix) = path.rsplit('.').next().and_then(UnitType::from_suffix) else {
            continue;
        };
        if let Ok(bytes) = std::fs::read(path) {
            let (file, _) = warren_unit::parse::parse((*path).into(), &bytes, suffix);
            tree.nodes.insert((*path).to_string(), Node::File(Arc::new(file)));
        }
    }
}

fn says(path: &str) -> impl Fn(std::io::Error) -> String + '_ {
    move |e| format!("{path}: {e}")
}

/// Carries out a plan. Stops at the first failure; returns the changes that were made.
pub fn carry_out(plan: &Plan) -> Result<Vec<Change>, String> {
    let mut made = Vec::new();
    for change in &plan.changes {
        make(change)?;
        made.push(change.clone());
    }
    Ok(made)
}

fn make(change: &Change) -> Result<(), String> {
    match change {
        Change::Symlink { path, target } => {
            if let Some(directory) = Path::new(path).parent() {
                std::fs::create_dir_all(directory).map_err(says(path))?;
            }
            // Made beside and renamed: there is no moment without the link.
            let fresh = format!("{path}.new-{}", std::process::id());
            let _ = std::fs::remove_file(&fresh);
            std::os::unix::fs::symlink(target, &fresh).map_err(says(path))?;
            std::fs::rename(&fresh, path).map_err(says(path))
        }
        Change::Unlink { path } => {
            std::fs::remove_file(path).map_err(says(path))?;
            let directory = Path::new(path).parent();
            let emptied = directory.filter(|d| {
                d.file_name().and_then(|n| n.to_str()).and_then(directory_kind).is_some()
            });
            if let Some(directory) = emptied {
                // Still in use by other links: it stays.
                let _ = std::fs::remove_dir(directory);
            }
            Ok(())
        }
    }
}
