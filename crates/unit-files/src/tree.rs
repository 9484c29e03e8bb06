//! The listing that the planner of enabling works on, read from a root's disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use warren_unit::install::{Node, Tree};
use warren_unit::parse::{FILE_BYTES_MAX, parse};
use warren_unit::search::directory_kind;
use warren_unit::{Context, UnitName, UnitType};

use crate::change::absolute_target;
use crate::root::{Kind, Root, entries, link_target};
use crate::search::{Places, config_directories};

/// Reads the unit directories of a root. What cannot be read is not there.
pub fn tree(root: &Root, search_path: Vec<String>, context: Arc<Context>) -> Tree {
    let (persistent, runtime) = config_directories(&search_path, context.scope);
    let mut tree = Tree { search_path, persistent, runtime, context, nodes: BTreeMap::new() };
    for directory in tree.search_path.clone() {
        list(root, &directory, &mut tree);
    }
    let mut places = Places::new(root, &tree.search_path);
    for node in tree.nodes.values_mut() {
        if let Node::Link(target) = node {
            *target = places.as_searched(std::mem::take(target));
        }
    }
    let links = tree.nodes.iter().filter_map(|(path, node)| match node {
        Node::Link(target) if is_outside(&tree, target) => Some((path.clone(), target.clone())),
        _ => None,
    });
    for (link, target) in links.collect::<Vec<_>>() {
        if let Some(node) = type_of(&link).and_then(|unit_type| read(root, &target, unit_type)) {
            tree.nodes.insert(target, node);
        }
    }
    tree
}

/// The type of the unit that a file or drop-in at this path is of.
fn type_of(path: &str) -> Option<UnitType> {
    let suffix = |path: &str| UnitType::from_suffix(path.rsplit('.').next()?);
    let directory = path.rsplit_once('/').and_then(|(directory, _)| directory.strip_suffix(".d"));
    suffix(path).or_else(|| suffix(directory?.rsplit('/').next()?))
}

fn is_outside(tree: &Tree, target: &str) -> bool {
    let directory = target.rsplit_once('/').map_or("", |(directory, _)| directory);
    target != "/dev/null" && !tree.search_path.iter().any(|path| path == directory)
}

fn list(root: &Root, path: &str, tree: &mut Tree) {
    let Ok(directory) = root.directory(path) else { return };
    for (name, kind) in entries(&directory).unwrap_or_default() {
        let full = format!("{path}/{name}");
        match kind {
            Kind::Directory => list_units_directory(root, &full, &name, tree),
            Kind::Link => {
                let Ok(target) = link_target(&directory, &name) else { continue };
                if directory_kind(&name).is_some() {
                    list_units_directory(root, &full, &name, tree);
                } else if UnitName::parse(&name).is_ok() {
                    let target = absolute_target(&full, &target);
                    tree.nodes.insert(full, Node::Link(target));
                }
            }
            Kind::File => {
                let Ok(unit) = UnitName::parse(&name) else { continue };
                if let Some(node) = read(root, &full, unit.unit_type()) {
                    tree.nodes.insert(full, node);
                }
            }
            Kind::Other => {}
        }
    }
}

/// A directory of links or of drop-ins of a unit.
fn list_units_directory(root: &Root, path: &str, name: &str, tree: &mut Tree) {
    let Some((_, owner)) = directory_kind(name) else { return };
    let Ok(directory) = root.directory(path) else { return };
    for (name, kind) in entries(&directory).unwrap_or_default() {
        let full = format!("{path}/{name}");
        let node = match kind {
            Kind::Link => link_target(&directory, &name)
                .ok()
                .map(|target| Node::Link(absolute_target(&full, &target))),
            Kind::File => read(root, &full, owner),
            Kind::Directory | Kind::Other => None,
        };
        if let Some(node) = node {
            tree.nodes.insert(full, node);
        }
    }
}

fn read(root: &Root, path: &str, unit_type: UnitType) -> Option<Node> {
    // One byte more than the parser takes, so that it says that there is more.
    let bytes = root.read(path, FILE_BYTES_MAX as u64 + 1).ok()?;
    let (file, _) = parse(path.into(), &bytes, unit_type);
    Some(Node::File(Arc::new(file)))
}

/// Reads files that are named by path and are not in the listing.
pub fn add_named_files(root: &Root, tree: &mut Tree, names: &[&str]) {
    for path in names.iter().filter(|name| name.starts_with('/')) {
        let Some(suffix) = path.rsplit('.').next().and_then(UnitType::from_suffix) else {
            continue;
        };
        if let Some(node) = read(root, path, suffix) {
            tree.nodes.insert((*path).to_owned(), node);
        }
    }
}
