//! Enabling and disabling units: which links to make and to remove (systemctl(1), "Unit File
//! Commands"; systemd.unit(5), "\[INSTALL\] SECTION OPTIONS"; systemd.preset(5)).
//!
//! Pure: a listing of the unit directories goes in, a list of changes and remarks comes out.
//! Someone else makes them. Compared with `systemctl --root=` of systemd 252.

mod plan;
mod preset;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

pub use plan::PresetMode;
use plan::has_instances;
pub use preset::{PresetAction, PresetRules};
pub use state::{UnitFileState, says_how_to_install, state_without_links};

use crate::context::Context;
use crate::name::UnitName;
use crate::parse::UnitFile;
use crate::search::{Dropin, LinkKind, link_kind, select_dropins};
use crate::settings::{Id, id};
use crate::specifier::Specifiers;

/// Something in a unit directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A regular file, parsed. Drop-ins may hold a file that is not looked at.
    File(Arc<UnitFile>),
    /// A symbolic link and what it says; absolute, seen from inside the root.
    Link(String),
}

/// The unit directories of a root, as paths inside it.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The search path, the strongest first.
    pub search_path: Vec<String>,
    /// Where `enable` writes: `/etc/systemd/system`.
    pub persistent: String,
    /// Where `enable --runtime` writes: `/run/systemd/system`.
    pub runtime: String,
    /// What specifiers refer to.
    pub context: Arc<Context>,
    /// Everything in these directories and in their `.wants`, `.requires`, `.upholds` and `.d`
    /// directories, and files elsewhere that links lead to or that are named by path.
    pub nodes: BTreeMap<String, Node>,
}

/// One change to the file system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Make a symbolic link (and the directory it is in), replacing what is there.
    Symlink {
        /// Where.
        path: String,
        /// To what.
        target: String,
    },
    /// Remove a file or link (and its directory, if that is empty then).
    Unlink {
        /// What.
        path: String,
    },
}

/// What a plan passes over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remark {
    /// A link hooks the unit into one that has no file.
    DestinationNotPresent {
        /// The unit's file.
        path: String,
        /// Into what.
        target: UnitName,
    },
    /// Also= names a unit that has no file.
    AuxiliaryFailed {
        /// Which.
        name: UnitName,
    },
    /// Also= names a unit that is masked.
    Masked {
        /// The mask.
        path: String,
    },
}

/// In the words of systemctl 252.
impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::DestinationNotPresent { path, target } => {
                write!(f, "Unit {path} is added as a dependency to a non-existent unit {target}.")
            }
            Remark::AuxiliaryFailed { name } => {
                write!(f, "Failed to enable auxiliary unit {name}, ignoring.")
            }
            Remark::Masked { path } => write!(f, "Unit {path} is masked, ignoring."),
        }
    }
}

/// Why something cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// There is no such file.
    Missing {
        /// Its name, or its path.
        file: String,
    },
    /// A unit is masked.
    Masked {
        /// The mask.
        path: String,
    },
    /// A name leads to its unit by a link below /etc or /run, as Alias= makes them.
    Linked {
        /// That name.
        name: UnitName,
    },
    /// Something is where a link is to be made.
    InTheWay {
        /// Where.
        path: String,
        /// Where that leads, if it is a link.
        target: Option<String>,
    },
    /// Something else, in words.
    Other(String),
}

/// In the words of systemd's manager, where it has some.
impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Missing { file } => write!(f, "Unit file {file} does not exist."),
            PlanError::Masked { path } => write!(f, "Unit file {path} is masked."),
            PlanError::Linked { name } => {
                write!(f, "Refusing to operate on alias name or linked unit file: {name}")
            }
            PlanError::InTheWay { path, target: None } => write!(f, "File {path} already exists."),
            PlanError::InTheWay { path, target: Some(target) } => {
                write!(f, "File {path} already exists and is a symlink to {target}.")
            }
            PlanError::Other(text) => f.write_str(text),
        }
    }
}

impl From<String> for PlanError {
    fn from(text: String) -> PlanError {
        PlanError::Other(text)
    }
}

/// What a request comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Changes in the order in which to make them.
    pub changes: Vec<Change>,
    /// Of these the links that are to be made, with where they lead.
    pub links: BTreeMap<String, String>,
    /// What the user should know, though it went well.
    pub remarks: BTreeSet<Remark>,
    /// Why it cannot be done: nothing is to be changed.
    pub errors: Vec<PlanError>,
    /// What of it cannot be done, which keeps nothing else from being done.
    pub left_out: Vec<PlanError>,
    /// Whether any of the units has something to install.
    pub carries_install_info: bool,
}

/// Where changes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Below /run rather than /etc.
    pub runtime: bool,
    /// Replace links that lead elsewhere.
    pub force: bool,
}

/// Most units that Also= drags along besides those asked for; more are an error.
pub const ALSO_MAX: usize = 1024;

/// A unit's file and what its \[Install\] says.
#[derive(Clone, Debug)]
struct Installable {
    /// The name asked for; an alias is replaced by its target's name.
    name: UnitName,
    /// Path of the file inside the root.
    path: String,
    /// The file, then its drop-ins in the order in which they apply.
    files: Vec<Arc<UnitFile>>,
    context: Arc<Context>,
}

/// Names with a directory of drop-ins.
type DropinOwners<'t> = BTreeSet<&'t str>;

/// Where a name leads.
enum NameTarget {
    Unit(Installable),
    Masked(String),
    Nothing,
}

impl Tree {
    fn config_directory(&self, options: Options) -> &str {
        if options.runtime { &self.runtime } else { &self.persistent }
    }

    /// Whether a name leads to a unit of the search path by a link that `enable` or an administrator made.
    fn is_alias_by_hand(&self, name: &UnitName) -> bool {
        let mut name = name.clone();
        for _ in 0..16 {
            let Some((path, Node::Link(target))) = self.find_node(&name) else { return false };
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            let is_by_hand = directory == self.persistent || directory == self.runtime;
            match link_kind(&name, target, &self.search_path) {
                LinkKind::Alias(_) if is_by_hand => return true,
                LinkKind::Alias(other) => name = with_instance_of(other, &name),
                // To a file of its own name, which it hides.
                LinkKind::Linked => {
                    return is_by_hand
                        && self.search_path.iter().any(|d| *target == format!("{d}/{name}"));
                }
                LinkKind::Mask | LinkKind::Bad(_) => return false,
            }
        }
        false
    }

    /// Finds a unit's file: by its name, else by its template's; aliases are followed.
    fn find(&self, name: &UnitName) -> NameTarget {
        self.find_with(name, None)
    }

    /// The same for one of many units, where it is known who has drop-ins.
    fn find_with(&self, name: &UnitName, owners: Option<&DropinOwners<'_>>) -> NameTarget {
        let mut name = name.clone();
        // Each step follows one alias; a chain longer than this is a circle.
        for _ in 0..16 {
            match self.find_node(&name) {
                None => return NameTarget::Nothing,
                Some((path, Node::File(file))) if file.is_empty() => {
                    return NameTarget::Masked(path);
                }
                Some((path, Node::File(file))) => {
                    return NameTarget::Unit(self.installable_at(name, path, file, owners));
                }
                Some((path, Node::Link(target))) => {
                    match link_kind(&name, target, &self.search_path) {
                        LinkKind::Mask => return NameTarget::Masked(path),
                        LinkKind::Bad(_) => return NameTarget::Nothing,
                        LinkKind::Alias(other) => name = with_instance_of(other, &name),
                        LinkKind::Linked => return self.find_linked(name, target, owners),
                    }
                }
            }
        }
        NameTarget::Nothing
    }

    fn installable_at(
        &self,
        name: UnitName,
        path: String,
        file: &Arc<UnitFile>,
        owners: Option<&DropinOwners<'_>>,
    ) -> Installable {
        let whole = Some(file).filter(|file| !file.is_broken());
        let files = whole.into_iter().chain(self.dropins(&name, owners)).cloned().collect();
        Installable { name, path, files, context: self.context.clone() }
    }

    /// Drop-ins of the unit's name and of its template's. Those for a prefix or a type do not count
    /// here, as with systemctl 252.
    fn dropins(&self, name: &UnitName, owners: Option<&DropinOwners<'_>>) -> Vec<&Arc<UnitFile>> {
        let template = name.template();
        let names = [Some(name), template.as_ref()].into_iter().flatten();
        let may_have = |name: &&UnitName| owners.is_none_or(|all| all.contains(name.as_str()));
        let mut found = Vec::new();
        for (name_rank, name) in names.filter(may_have).enumerate() {
            for (path_rank, directory) in self.search_path.iter().enumerate() {
                let prefix = format!("{directory}/{name}.d/");
                let below = self.nodes.range(prefix.clone()..);
                for (path, node) in below.take_while(|(path, _)| path.starts_with(&prefix)) {
                    let item = self.dropin_file(node);
                    let (alias_rank, of_type, masks) = (0, false, item.is_none());
                    let file_name = path[prefix.len()..].to_owned();
                    let dropin = Dropin {
                        alias_rank,
                        name_rank,
                        of_type,
                        path_rank,
                        file_name,
                        masks,
                        item,
                    };
                    found.push(dropin);
                }
            }
        }
        select_dropins(found).into_iter().flatten().collect()
    }

    fn dropin_owners(&self) -> DropinOwners<'_> {
        let directories =
            self.nodes.keys().filter_map(|path| path.rsplit_once('/')).map(|(d, _)| d);
        let names = directories.filter_map(|directory| directory.strip_suffix(".d"));
        names.filter_map(|path| path.rsplit_once('/')).map(|(_, name)| name).collect()
    }

    /// What is in a drop-in; nothing in one that only hides others.
    fn dropin_file<'t>(&'t self, node: &'t Node) -> Option<&'t Arc<UnitFile>> {
        let file = match node {
            Node::File(file) => Some(file),
            Node::Link(target) => match self.nodes.get(target) {
                Some(Node::File(file)) => Some(file),
                _ => None,
            },
        };
        file.filter(|file| !file.is_empty())
    }

    fn find_node(&self, name: &UnitName) -> Option<(String, &Node)> {
        let template = name.template();
        [Some(name), template.as_ref()].into_iter().flatten().find_map(|candidate| {
            self.search_path.iter().find_map(|directory| {
                let path = format!("{directory}/{candidate}");
                let node = self.nodes.get(&path)?;
                Some((path, node))
            })
        })
    }

    fn find_linked(
        &self,
        name: UnitName,
        target: &str,
        owners: Option<&DropinOwners<'_>>,
    ) -> NameTarget {
        let is_template = name.template().is_some_and(|t| plan::last_part(target) == t.as_str());
        let target = match self.nodes.get(target) {
            // That of an instance to its template, which is a link itself.
            Some(Node::Link(further)) if is_template => further,
            _ => target,
        };
        match self.nodes.get(target) {
            Some(Node::File(file)) => {
                NameTarget::Unit(self.installable_at(name, target.to_owned(), file, owners))
            }
            _ => NameTarget::Nothing,
        }
    }

    /// The name of the unit that this name leads to, if that has a file and is not masked.
    pub fn main_name(&self, name: &UnitName) -> Option<UnitName> {
        match self.find(name) {
            NameTarget::Unit(unit) => Some(unit.name),
            NameTarget::Masked(_) | NameTarget::Nothing => None,
        }
    }

    /// What default.target leads to, also if that is masked.
    pub fn default_target(&self) -> Option<UnitName> {
        match self.find(&UnitName::parse("default.target").expect("a valid name")) {
            NameTarget::Unit(unit) => Some(unit.name),
            NameTarget::Masked(path) => UnitName::parse(plan::last_part(&path)).ok(),
            NameTarget::Nothing => None,
        }
    }

    /// Whether a unit of this name, or its template, is known.
    fn exists(&self, name: &UnitName) -> bool {
        self.find_node(name).is_some()
    }
}

/// What files assign to a setting of \[Install\]. An empty assignment drops what was before it, but
/// not that of Also=, as with systemctl 252.
fn values<'f>(files: impl IntoIterator<Item = &'f Arc<UnitFile>>, id: Id) -> Vec<&'f str> {
    let mut out = Vec::new();
    let entries = files.into_iter().flat_map(|file| file.entries());
    for entry in entries.filter(|entry| entry.setting == id) {
        match entry.value {
            "" if id == id!(Install "Also") => {}
            "" => out.clear(),
            value => out.push(value),
        }
    }
    out
}

/// A template reached from an instance stands for that instance.
fn with_instance_of(found: UnitName, asked: &UnitName) -> UnitName {
    match asked.instance() {
        Some(instance) if found.is_template() => found.with_instance(instance).unwrap_or(found),
        _ => found,
    }
}

impl Installable {
    /// The words of a setting of \[Install\].
    fn words(&self, id: Id) -> Vec<String> {
        let values = values(&self.files, id);
        let words = values.into_iter().flat_map(str::split_ascii_whitespace);
        words.map(|word| self.expand(word)).collect()
    }

    fn default_instance(&self) -> Option<String> {
        values(&self.files, id!(Install "DefaultInstance")).last().map(|&value| value.to_owned())
    }

    /// The name by which it is hooked in: a template takes its default instance.
    fn instance_name(&self) -> UnitName {
        match self.default_instance() {
            Some(instance) if self.name.is_template() => {
                self.name.with_instance(&instance).unwrap_or_else(|_| self.name.clone())
            }
            _ => self.name.clone(),
        }
    }

    /// Whether it is hooked into a unit without an instance, of which it has none itself.
    fn lacks_instance_for(&self, target: &UnitName) -> bool {
        self.instance_name().is_template() && !has_instances(target)
    }

    /// Replaces specifiers. What cannot be expanded stays, and is no valid name then.
    fn expand(&self, word: &str) -> String {
        let name = self.instance_name();
        let fragment = Some(self.path.as_str());
        let specifiers = Specifiers { name: &name, context: &self.context, fragment };
        specifiers.expand(word).map_or_else(|_| word.to_owned(), |text| text.into_owned())
    }

    fn has_install_info(&self) -> bool {
        [
            id!(Install "Alias"),
            id!(Install "WantedBy"),
            id!(Install "RequiredBy"),
            id!(Install "UpheldBy"),
            id!(Install "Also"),
        ]
        .into_iter()
        .any(|id| !self.words(id).is_empty())
    }
}

#[cfg(test)]
mod tests;
