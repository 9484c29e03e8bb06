//! The state of a unit file: `is-enabled` (systemctl(1)).

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{is_dependency_link, last_part};
use super::{Found, Installable, Node, Tree};
use crate::name::UnitName;
use crate::parse::UnitFile;
use crate::search::{LinkKind, link_kind};
use crate::settings::id;

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
    fn below(tree: &'t Tree, directory: &str) -> Hooks<'t> {
        let prefix = format!("{directory}/");
        let mut hooks = Hooks::default();
        let below = tree.nodes.range(prefix.clone()..).take_while(|(p, _)| p.starts_with(&prefix));
        for (path, node) in below {
            let Node::Link(target) = node else { continue };
            let (link, target) = (last_part(path), last_part(target));
            if is_dependency_link(path) {
                hooks.wanted.insert(link);
                hooks.templates.extend(UnitName::parse(link).ok().and_then(|n| n.template()));
            } else {
                hooks.aliases.entry(target).or_default().push(link);
            }
        }
        hooks
    }

    /// Whether this unit is hooked in, and whether another instance of it or an alias that
    /// Alias= does not name is.
    fn of(&self, unit: &Installable) -> (bool, bool) {
        let named = unit.words(id!(Install "Alias"));
        let aliases = self.aliases.get(last_part(&unit.path)).into_iter().flatten();
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
        self.state_with(name, &self.all_hooks())
    }

    /// The states of all unit files in the search path, and of these instances; linear in their
    /// number.
    pub fn states(
        &self,
        instances: impl Iterator<Item = UnitName>,
    ) -> BTreeMap<UnitName, UnitFileState> {
        let hooks = self.all_hooks();
        let names = self.nodes.keys().filter(|path| !is_dependency_link(path));
        let names = names.filter_map(|path| UnitName::parse(last_part(path)).ok());
        let all = names.chain(instances);
        all.filter_map(|name| Some((name.clone(), self.state_with(&name, &hooks)?))).collect()
    }

    fn all_hooks(&self) -> [(Hooks<'_>, UnitFileState); 2] {
        [
            (Hooks::below(self, &self.persistent), UnitFileState::Enabled),
            (Hooks::below(self, &self.runtime), UnitFileState::EnabledRuntime),
        ]
    }

    fn state_with(
        &self,
        name: &UnitName,
        hooks: &[(Hooks<'_>, UnitFileState)],
    ) -> Option<UnitFileState> {
        let (path, node) = self.find_node(name)?;
        let in_runtime = path.starts_with(&format!("{}/", self.runtime));
        if let Node::Link(target) = node
            && last_part(&path) == name.as_str()
        {
            match link_kind(name, target, &self.search_path) {
                LinkKind::Alias(_) => return Some(UnitFileState::Alias),
                LinkKind::Bad(_) => return Some(UnitFileState::Bad),
                // A unit of its own, but systemctl says so of every link with another name.
                LinkKind::Linked if is_other_name(name, target) => {
                    let is_there = self.nodes.contains_key(target);
                    return Some(if is_there { UnitFileState::Alias } else { UnitFileState::Bad });
                }
                LinkKind::Linked | LinkKind::Mask => {}
            }
        }
        let unit = match self.find(name) {
            Found::Nothing => return Some(UnitFileState::Bad),
            Found::Masked(_) if in_runtime => return Some(UnitFileState::MaskedRuntime),
            Found::Masked(_) => return Some(UnitFileState::Masked),
            Found::Unit(unit) => unit,
        };
        if path.contains("/generator") {
            return Some(UnitFileState::Generated);
        }
        if path.contains("/transient/") {
            return Some(UnitFileState::Transient);
        }
        Some(state_of(&unit, hooks, matches!(node, Node::Link(_)), in_runtime))
    }
}

fn is_other_name(name: &UnitName, target: &str) -> bool {
    let file = last_part(target);
    file != name.as_str() && name.template().is_none_or(|template| template.as_str() != file)
}

fn state_of(
    unit: &Installable,
    hooks: &[(Hooks<'_>, UnitFileState)],
    is_linked: bool,
    in_runtime: bool,
) -> UnitFileState {
    let mut indirect = false;
    for (hooks, state) in hooks {
        let (own, other) = hooks.of(unit);
        if own {
            return *state;
        }
        indirect |= other;
    }
    if is_linked {
        return if in_runtime { UnitFileState::LinkedRuntime } else { UnitFileState::Linked };
    }
    if indirect { UnitFileState::Indirect } else { state_without_links(&unit.file) }
}

/// The state of a unit that no link hooks in: what its \[Install\] section comes to.
pub fn state_without_links(file: &UnitFile) -> UnitFileState {
    let has = |id| file.entries().any(|e| e.setting == id && !e.value.is_empty());
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
