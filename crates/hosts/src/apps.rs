//! Applications: what units have in common for people, for bounds and for questions.
//!
//! A unit is of the container that rules made it for, and of each group of containers that the container is in. Rules
//! name both, as `Container` and `Group`; there is no other list of applications. Where a container and a group have one
//! name, the name means the units of both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warren_fleet::engine::membership::Membership;

use crate::names::HostId;

/// The applications of a unit: its own first, which is what rules made it for, then groups by name.
pub type Apps = Arc<[Arc<str>]>;

/// Units that are to be restarted, by application, with how many of them may be restarted at once.
pub type Bounds = BTreeMap<String, (u32, BTreeSet<String>)>;

/// The applications of a unit whose own one is this, and is in these groups.
pub fn apps(own: &str, groups: &[Arc<str>]) -> Apps {
    let groups = groups.iter().filter(|group| ***group != *own).cloned();
    [Arc::from(own)].into_iter().chain(groups).collect()
}

/// Units that are restarted next: at most so many, and of each application no more than its bound.
pub fn next_restarts(restart: &BTreeSet<String>, bounds: &Bounds, most: usize) -> Vec<String> {
    let mut left: BTreeMap<&str, u32> = BTreeMap::new();
    let mut apps_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (app, (most, units)) in bounds {
        // With none at once nothing would ever be restarted.
        left.insert(app, (*most).max(1));
        units.iter().for_each(|unit| apps_of.entry(unit).or_default().push(app));
    }
    let mut next = Vec::new();
    for unit in restart {
        let apps = apps_of.get(&**unit).map_or(&[][..], Vec::as_slice);
        if next.len() == most {
            break;
        }
        if apps.iter().all(|app| left[app] > 0) {
            apps.iter().for_each(|app| *left.entry(app).or_default() -= 1);
            next.push(unit.clone());
        }
    }
    next
}

/// Containers and groups that a name means: itself, and what is in a group of this name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meant {
    names: BTreeSet<String>,
}

impl Meant {
    /// The name alone.
    pub fn alone(app: &str) -> Meant {
        Meant { names: BTreeSet::from([app.to_owned()]) }
    }

    /// What it means by the groups of these rules.
    pub fn by(app: &str, membership: &Membership) -> Meant {
        let mut meant = Meant::alone(app);
        let members = membership.iter().filter(|(_, groups)| groups.iter().any(|g| **g == *app));
        meant.names.extend(members.map(|(target, _)| own_app(target).to_owned()));
        meant
    }

    /// Also what another one means.
    pub fn extend(&mut self, other: &Meant) {
        self.names.extend(other.names.iter().cloned());
    }

    /// Whether units of this application of their own are meant.
    pub fn has(&self, own: &str) -> bool {
        self.names.contains(own)
    }
}

/// What an application's name means on each host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeantOn {
    by_host: BTreeMap<HostId, Meant>,
    /// What it means on any host.
    anywhere: Meant,
}

impl MeantOn {
    /// The name alone, on all hosts.
    pub fn alone(app: &str) -> MeantOn {
        MeantOn { by_host: BTreeMap::new(), anywhere: Meant::alone(app) }
    }

    /// On these hosts it means this.
    pub fn set(&mut self, hosts: impl IntoIterator<Item = HostId>, meant: &Meant) {
        self.anywhere.extend(meant);
        self.by_host.extend(hosts.into_iter().map(|id| (id, meant.clone())));
    }

    /// What it means on this host; on one whose rules were not asked, what it means on any.
    pub fn on(&self, id: &HostId) -> &Meant {
        self.by_host.get(id).unwrap_or(&self.anywhere)
    }

    /// What it means on any host.
    pub fn anywhere(&self) -> &Meant {
        &self.anywhere
    }
}

/// The name of what a rule made a unit for: `shop` of `Container 'shop'`.
pub fn own_app(target: &str) -> &str {
    let quoted = target.split_once(" '").and_then(|(_, name)| name.strip_suffix('\''));
    quoted.unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UNIT` of `APP...`, bounds as `APP=N`: in which rounds the units are restarted.
    #[track_caller]
    fn check_rounds(
        units: &[(&str, &[&str])],
        bounds: &[(&str, u32)],
        most: usize,
        rounds: &[&str],
    ) {
        let of = |app: &str| {
            let of = units.iter().filter(|(_, apps)| apps.contains(&app));
            of.map(|(unit, _)| (*unit).to_owned()).collect::<BTreeSet<_>>()
        };
        let bounds: Bounds =
            bounds.iter().map(|(app, most)| ((*app).to_owned(), (*most, of(app)))).collect();
        let mut left: BTreeSet<String> = units.iter().map(|(unit, _)| (*unit).to_owned()).collect();
        let mut found = Vec::new();
        while !left.is_empty() {
            let next = next_restarts(&left, &bounds, most);
            assert!(!next.is_empty(), "nothing would ever be restarted: {left:?}");
            left.retain(|unit| !next.contains(unit));
            found.push(next.join(" "));
        }
        assert_eq!(found, rounds);
    }

    #[test]
    fn a_unit_is_restarted_when_each_application_of_it_has_room() {
        let units: &[(&str, &[&str])] = &[
            ("a1", &["a", "front"]),
            ("a2", &["a", "front"]),
            ("b1", &["b", "front"]),
            ("c1", &["c"]),
        ];
        check_rounds(units, &[], 3, &["a1 a2 b1", "c1"]);
        check_rounds(units, &[("a", 1)], 9, &["a1 b1 c1", "a2"]);
        check_rounds(units, &[("front", 1)], 9, &["a1 c1", "a2", "b1"]);
        // Of two bounds both hold, whichever is the narrower one.
        check_rounds(units, &[("front", 2), ("a", 1)], 9, &["a1 b1 c1", "a2"]);
        check_rounds(units, &[("front", 1), ("a", 2)], 9, &["a1 c1", "a2", "b1"]);
        check_rounds(units, &[("front", 0)], 9, &["a1 c1", "a2", "b1"]);
    }

    #[test]
    fn a_name_means_a_container_and_what_is_in_a_group_of_that_name() {
        let groups = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>();
        let membership = Membership::from([
            ("Container 'cart'".to_owned(), groups(&["all", "shop"])),
            ("Container 'it's'".to_owned(), groups(&["shop"])),
            ("Group 'shop'".to_owned(), groups(&["all"])),
        ]);
        let shop = Meant::by("shop", &membership);
        let is_meant = |name: &str| shop.has(name);
        assert!(["shop", "cart", "it's"].into_iter().all(is_meant) && !is_meant("all"));
        assert!(Meant::by("all", &membership).has("shop"));
        assert_eq!(Meant::by("cart", &membership), Meant::alone("cart"));
        let id = |name: &str| name.parse::<HostId>().expect("a name");
        let mut meant = MeantOn::alone("shop");
        meant.set([id("h1")], &Meant::alone("shop"));
        meant.set([id("h2")], &shop);
        let has_cart = |host: &str| meant.on(&id(host)).has("cart");
        assert_eq!((has_cart("h1"), has_cart("h2"), has_cart("h3")), (false, true, true));
        let of_unit = apps("shop", &groups(&["all", "shop"]));
        assert_eq!(of_unit.iter().map(|app| &**app).collect::<Vec<_>>(), ["shop", "all"]);
    }
}
