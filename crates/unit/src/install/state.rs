//! The state of a unit file: `is-enabled` (systemctl(1)).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::plan::{is_dependency_link, last_part};
use super::{DropinOwners, Installable, NameTarget, Node, Tree, values};
use crate::context::Scope;
use crate::name::UnitName;
use crate::parse::UnitFile;
use crate::search::{LinkKind, link_kind};
use crate::settings::{Group, id};

macro_rules! states {
    ($( $(#[$doc:meta])* $name:ident = $text:literal; )*) => {
        /// What `is-enabled` prints.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum UnitFileState { $( $(#[$doc])* $name, )* }

        impl UnitFileState {
            /// The word on the wire and on the screen.
            pub const fn as_str(self) -> &'static str {
                match self { $( UnitFileState::$name => $text, )* }
            }
        }
    };
}

states! {
    /// Hooked in below /etc.
    Enabled = "enabled";
    /// Hooked in below /run.
    EnabledRuntime = "enabled-runtime";
    /// Made known by a link below /etc.
    Linked = "linked";
    /// Made known by a link below /run.
    LinkedRuntime = "linked-runtime";
    /// Another unit's second name.
    Alias = "alias";
    /// Masked below /etc, or by an empty file.
    Masked = "masked";
    /// Masked below /run.
    MaskedRuntime = "masked-runtime";
    /// Nothing to hook in.
    Static = "static";
    /// Not hooked in, with something to hook in.
    Disabled = "disabled";
    /// Not hooked in itself; units of its Also= or other instances may be.
    Indirect = "indirect";
    /// Made by a generator.
    Generated = "generated";
    /// Made over the bus.
    Transient = "transient";
    /// The file cannot be used.
    Bad = "bad";
}

/// What links below one directory hook in, looked up by name: made once for all units.
#[derive(Default)]
struct Hooks<'t> {
    /// Names of the links in `.wants` and its like.
    wanted: BTreeSet<&'t str>,
    /// Templates of those that are instances.
    templates: BTreeSet<UnitName>,
    /// Names of other links, by the file name that they lead to.
    aliases: BTreeMap<&'t str, Vec<&'t str>>,
}

impl<'t> Hooks<'t> {
    fn below(tree: &'t Tree, directories: impl Fn(&str) -> bool) -> Hooks<'t> {
        let mut hooks = Hooks::default();
        for directory in tree.search_path.iter().filter(|d| directories(d)) {
            hooks.add(tree, directory);
        }
        hooks
    }

    fn add(&mut self, tree: &'t Tree, directory: &str) {
        let prefix = format!("{directory}/");
        let below = tree.nodes.range(prefix.clone()..).take_while(|(p, _)| p.starts_with(&prefix));
        for (path, node) in below {
            let Node::Link(target) = node else { continue };
            let (link, target) = (last_part(path), last_part(target));
            if is_dependency_link(path) {
                self.wanted.insert(link);
                self.templates.extend(UnitName::parse(link).ok().and_then(|n| n.template()));
            } else {
                self.aliases.entry(target).or_default().push(link);
            }
        }
    }

    /// Whether this unit is hooked in, and whether another instance of it or an alias that
    /// Alias= does not name is.
    fn of(&self, unit: &Installable) -> (bool, bool) {
        let named = unit.words(id!(Install "Alias"));
        // Other names of a template hook in none of its instances.
        let file = Some(last_part(&unit.path));
        let file = file.filter(|file| !unit.name.is_instance() || *file == unit.name.as_str());
        let aliases = file.and_then(|file| self.aliases.get(file)).into_iter().flatten();
        let (ours, others): (Vec<&str>, Vec<&str>) = aliases
            .copied()
            .filter(|link| *link != unit.name.as_str())
            .partition(|link| named.iter().any(|alias| alias == link));
        let own = self.wanted.contains(unit.name.as_str())
            || self.wanted.contains(unit.instance_name().as_str())
            || !ours.is_empty();
        let other = self.templates.contains(&unit.name) || !others.is_empty();
        (own, other && !own)
    }
}

impl Tree {
    /// The state of a unit file; `None` if there is no such unit.
    pub fn state(&self, name: &UnitName) -> Option<UnitFileState> {
        self.state_with(name, &self.all_hooks(), &self.dropin_owners())
    }

    /// The states of all unit files in the search path, and of these instances; linear in their
    /// number.
    pub fn states(
        &self,
        instances: impl Iterator<Item = UnitName>,
    ) -> BTreeMap<UnitName, UnitFileState> {
        let (hooks, owners) = (self.all_hooks(), self.dropin_owners());
        let names = self.nodes.keys().filter(|path| !is_dependency_link(path));
        let names = names.filter_map(|path| UnitName::parse(last_part(path)).ok());
        let all = names.chain(instances);
        all.filter_map(|name| Some((name.clone(), self.state_with(&name, &hooks, &owners)?)))
            .collect()
    }

    /// The state of an instance of this template that no link is for; `None` if there is no such
    /// template.
    pub fn state_of_any_instance(&self, template: &UnitName) -> Option<UnitFileState> {
        let (path, node) = self.find_node(template)?;
        Some(match (self.find(template), made(&path, node)) {
            (NameTarget::Nothing, _) => UnitFileState::Bad,
            (NameTarget::Masked(_), _) => self.masked(&path),
            (NameTarget::Unit(_), Some(state)) => state,
            (NameTarget::Unit(unit), None) => state_of_files(&unit.files),
        })
    }

    fn all_hooks(&self) -> [(Hooks<'_>, UnitFileState); 2] {
        [
            (Hooks::below(self, |d| self.hooks_for_good(d)), UnitFileState::Enabled),
            (Hooks::below(self, |d| self.is_runtime(d)), UnitFileState::EnabledRuntime),
        ]
    }

    /// Whether what links in this directory hook in is `enabled`: where `enable` writes, and for a
    /// user's manager also where `enable --global` does.
    fn hooks_for_good(&self, directory: &str) -> bool {
        directory == self.persistent
            || self.context.scope == Scope::User && directory.starts_with("/etc/")
    }

    /// Whether a directory of the search path is gone after a boot.
    fn is_runtime(&self, directory: &str) -> bool {
        let own = self.runtime.strip_suffix("/systemd/user").filter(|own| !own.is_empty());
        let below = |base: &str| directory.strip_prefix(base).is_some_and(|d| d.starts_with('/'));
        directory != self.persistent
            && (directory == self.runtime || below("/run") || own.is_some_and(below))
    }

    /// What a link at this path makes of a unit whose file is not in the search path.
    fn linked(&self, path: &str) -> Option<UnitFileState> {
        match directory_of(path) {
            directory if directory == self.persistent => Some(UnitFileState::Linked),
            directory if self.is_runtime(directory) => Some(UnitFileState::LinkedRuntime),
            _ => None,
        }
    }

    fn masked(&self, path: &str) -> UnitFileState {
        match self.is_runtime(directory_of(path)) {
            true => UnitFileState::MaskedRuntime,
            false => UnitFileState::Masked,
        }
    }

    fn state_with(
        &self,
        name: &UnitName,
        hooks: &[(Hooks<'_>, UnitFileState)],
        owners: &DropinOwners<'_>,
    ) -> Option<UnitFileState> {
        let (path, node) = self.find_node(name)?;
        let own_link = match node {
            Node::Link(target) if last_part(&path) == name.as_str() => Some(target),
            _ => None,
        };
        if let Some(state) = own_link.and_then(|target| self.state_of_link(name, &path, target)) {
            return Some(state);
        }
        let unit = match self.find_with(name, Some(owners)) {
            NameTarget::Nothing => return Some(UnitFileState::Bad),
            NameTarget::Masked(_) => return Some(self.masked(&path)),
            NameTarget::Unit(unit) => unit,
        };
        if let Some(state) = made(&path, node) {
            return Some(state);
        }
        let linked = own_link.and_then(|_| self.linked(&path));
        Some(state_of(&unit, hooks, linked))
    }

    /// The state of a name that is a link, where the link alone decides.
    fn state_of_link(&self, name: &UnitName, path: &str, target: &str) -> Option<UnitFileState> {
        let is_instance = name.is_instance()
            && UnitName::parse(last_part(target)).is_ok_and(|target| target.is_template())
            && matches!(self.find(name), NameTarget::Unit(_));
        match link_kind(name, target, &self.search_path) {
            LinkKind::Mask => None,
            LinkKind::Bad(_) => Some(UnitFileState::Bad),
            _ if is_instance => Some(match directory_of(path) {
                directory if self.hooks_for_good(directory) => UnitFileState::Enabled,
                directory if self.is_runtime(directory) => UnitFileState::EnabledRuntime,
                _ => UnitFileState::Static,
            }),
            LinkKind::Alias(other) => Some(match self.find(&other) {
                NameTarget::Masked(path) => self.masked(&path),
                _ => UnitFileState::Alias,
            }),
            // A unit of its own, but systemctl says so of every link with another name.
            LinkKind::Linked if is_other_name(name, target) => {
                let is_there = self.nodes.contains_key(target);
                Some(if is_there { UnitFileState::Alias } else { UnitFileState::Bad })
            }
            LinkKind::Linked => None,
        }
    }
}

/// The state of a file that no administrator wrote: one in a directory of generators
/// (systemd.generator(7)) or of transient units.
fn made(path: &str, node: &Node) -> Option<UnitFileState> {
    match (node, last_part(directory_of(path))) {
        (Node::File(_), "generator" | "generator.early" | "generator.late") => {
            Some(UnitFileState::Generated)
        }
        (Node::File(_), "transient") => Some(UnitFileState::Transient),
        _ => None,
    }
}

fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn is_other_name(name: &UnitName, target: &str) -> bool {
    let file = last_part(target);
    file != name.as_str() && name.template().is_none_or(|template| template.as_str() != file)
}

fn state_of(
    unit: &Installable,
    hooks: &[(Hooks<'_>, UnitFileState)],
    linked: Option<UnitFileState>,
) -> UnitFileState {
    let mut indirect = false;
    for (hooks, state) in hooks {
        let (own, other) = hooks.of(unit);
        if own {
            return *state;
        }
        indirect |= other;
    }
    if let Some(linked) = linked {
        return linked;
    }
    if indirect { UnitFileState::Indirect } else { state_of_files(&unit.files) }
}

/// The state of a unit that no link hooks in and that has no drop-ins: what its \[Install\] section
/// comes to.
pub fn state_without_links(file: &Arc<UnitFile>) -> UnitFileState {
    state_of_files(std::slice::from_ref(file))
}

/// Whether a drop-in has a part in that.
pub fn says_how_to_install(dropin: &UnitFile) -> bool {
    dropin.entries().any(|entry| entry.setting.setting().group == Group::Install)
}

fn state_of_files(files: &[Arc<UnitFile>]) -> UnitFileState {
    let has = |id| !values(files, id).is_empty();
    let installs = has(id!(Install "Alias"))
        || has(id!(Install "WantedBy"))
        || has(id!(Install "RequiredBy"))
        || has(id!(Install "UpheldBy"));
    match (installs, has(id!(Install "Also"))) {
        (true, _) => UnitFileState::Disabled,
        (false, true) => UnitFileState::Indirect,
        (false, false) => UnitFileState::Static,
    }
}
