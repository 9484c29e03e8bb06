//! The state of a unit file: `is-enabled` (systemctl(1)).

use super::plan::{is_dependency_link, last_part};
use super::{Found, Installable, Node, Tree};
use crate::name::UnitName;
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

impl Tree {
    /// The state of a unit file; `None` if there is no such unit.
    pub fn state(&self, name: &UnitName) -> Option<UnitFileState> {
        let (path, node) = self.find_node(name)?;
        let in_runtime = path.starts_with(&format!("{}/", self.runtime));
        if let Node::Link(target) = node
            && last_part(&path) == name.as_str()
        {
            match link_kind(name, target, &self.search_path) {
                LinkKind::Alias(_) => return Some(UnitFileState::Alias),
                LinkKind::Bad(_) => return Some(UnitFileState::Bad),
                _ => {}
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
        Some(self.state_of(&unit, matches!(node, Node::Link(_)), in_runtime))
    }

    fn state_of(&self, unit: &Installable, is_linked: bool, in_runtime: bool) -> UnitFileState {
        let hooks = [
            (&self.persistent, UnitFileState::Enabled),
            (&self.runtime, UnitFileState::EnabledRuntime),
        ];
        let mut indirect = false;
        for (directory, state) in hooks {
            let (own, other) = self.hooks(unit, directory);
            if own {
                return state;
            }
            indirect |= other;
        }
        if is_linked {
            return if in_runtime { UnitFileState::LinkedRuntime } else { UnitFileState::Linked };
        }
        let words = |id| !unit.words(id).is_empty();
        let installs = words(id!(Install "Alias"))
            || words(id!(Install "WantedBy"))
            || words(id!(Install "RequiredBy"))
            || words(id!(Install "UpheldBy"));
        match (indirect, installs, words(id!(Install "Also"))) {
            (true, ..) => UnitFileState::Indirect,
            (false, true, _) => UnitFileState::Disabled,
            (false, false, true) => UnitFileState::Indirect,
            (false, false, false) => UnitFileState::Static,
        }
    }

    /// Whether links below a directory hook in this unit, and whether they hook in another
    /// instance or an alias that Alias= does not name.
    fn hooks(&self, unit: &Installable, directory: &str) -> (bool, bool) {
        let prefix = format!("{directory}/");
        let (mut own, mut other) = (false, false);
        let aliases = unit.words(id!(Install "Alias"));
        let below = self.nodes.range(prefix.clone()..).take_while(|(p, _)| p.starts_with(&prefix));
        for (path, node) in below {
            let Node::Link(target) = node else { continue };
            let (link, target) = (last_part(path), last_part(target));
            if is_dependency_link(path) {
                own |= link == unit.name.as_str() || link == unit.instance_name().as_str();
                let same_template = |text: &str| {
                    UnitName::parse(text).is_ok_and(|n| n.template().as_ref() == Some(&unit.name))
                };
                other |= same_template(link);
            } else if target == last_part(&unit.path) && link != unit.name.as_str() {
                let named = aliases.iter().any(|a| a == link);
                own |= named;
                other |= !named;
            }
        }
        (own, other && !own)
    }
}
