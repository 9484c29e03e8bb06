//! Which rules are behind the units that a change of rules adds, changes or removes.
//!
//! A unit differs because a file of its own does, or because another unit's `[Install]` section
//! ties it to that one: `hosting.target` wants one more unit when a rule makes one that is wanted
//! by it. Start at [`causes`].

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use warren_fleet::made::{Origin, Product};
use warren_unit::UnitName;
use warren_unit::parse::UnitFile;
use warren_unit::search::dropin_directories;
use warren_unit::settings::{Group, Id};

use super::applied::{Applied, RulesChange};

/// Why one unit differs.
#[derive(Debug)]
pub struct RuleCause {
    /// The unit.
    pub unit: UnitName,
    /// What made the difference.
    pub origin: Arc<Origin>,
    /// The setting of another unit that makes it one of this unit.
    pub through: Option<Through>,
}

/// A setting of another unit that changes this one.
#[derive(Debug)]
pub struct Through {
    /// `WantedBy`.
    pub setting: &'static str,
    /// The other unit.
    pub unit: Box<str>,
}

/// The settings by which a unit becomes a part of another one.
const TIES: [(Id, &str); 3] = [
    (Id::of(Group::Install, "WantedBy"), "WantedBy"),
    (Id::of(Group::Install, "RequiredBy"), "RequiredBy"),
    (Id::of(Group::Install, "UpheldBy"), "UpheldBy"),
];

/// The rules behind units that differ, in the order of the units: all that have a part in a unit's
/// own files; else the first that ties another unit to it, or does so no longer. A unit that differs
/// because of a file that no rule made has none.
pub fn causes<'u>(
    change: &RulesChange,
    units: impl Iterator<Item = &'u UnitName>,
) -> Vec<RuleCause> {
    let (mut out, mut others) = (Vec::new(), BTreeSet::new());
    for unit in units {
        let own = own(change, unit);
        if own.is_empty() {
            others.insert(unit.as_str());
        }
        let cause = |origin| RuleCause { unit: unit.clone(), origin, through: None };
        out.extend(own.into_iter().map(cause));
    }
    out.extend(ties(change, others));
    out
}

/// The rules behind the files of a unit that differ.
fn own(change: &RulesChange, unit: &UnitName) -> Vec<Arc<Origin>> {
    let [before, after] = [&change.before, &change.after].map(|applied| files(applied, unit));
    let of = |all: &Files<'_>, path: &str| {
        all.iter().find(|(at, _)| *at == path).map(|(_, p)| p.file.clone())
    };
    let came = after.iter().filter(|(path, new)| of(&before, path) != Some(new.file.clone()));
    let went = before.iter().filter(|(path, _)| of(&after, path).is_none());
    came.chain(went).map(|(_, product)| product.origin.clone()).collect()
}

/// Products with their paths below the layer's directory.
type Files<'a> = Vec<(&'a str, &'a Product)>;

/// What rules made for a unit: its file or that of its template, then drop-ins.
pub(super) fn files<'a>(applied: &'a Applied, unit: &UnitName) -> Files<'a> {
    let mut out = Files::new();
    let names = [Some(unit.clone()), unit.template()];
    let file = |name: UnitName| applied.get_key_value(name.as_str());
    out.extend(names.into_iter().flatten().filter_map(file).map(|(path, p)| (&**path, p)));
    for owner in dropin_directories(unit) {
        let (first, end) = (format!("{owner}/"), format!("{owner}0"));
        let of_owner = applied.range::<_, str>((Included(&*first), Excluded(&*end)));
        out.extend(of_owner.map(|(path, product)| (&**path, product)));
    }
    out
}

/// The first tie to each of these units that came or went.
fn ties<'a>(change: &'a RulesChange, mut units: BTreeSet<&'a str>) -> Vec<RuleCause> {
    let mut out = Vec::new();
    for difference in change.before.diff(&change.after) {
        if units.is_empty() {
            break;
        }
        let (path, old, new) = match difference {
            DiffItem::Add(path, new) => (path, None, Some(new)),
            DiffItem::Remove(path, old) => (path, Some(old), None),
            DiffItem::Update { old, new } if Arc::ptr_eq(&old.1.file, &new.1.file) => continue,
            DiffItem::Update { old, new } => (new.0, Some(old.1), Some(new.1)),
        };
        let [was, is] = [old, new].map(|p| p.map(|p| tied(&p.file)).unwrap_or_default());
        for (setting, to) in was.symmetric_difference(&is) {
            let product = if is.contains(&(*setting, *to)) { new } else { old };
            let (Some(product), true) = (product, units.remove(to)) else { continue };
            let Ok(unit) = UnitName::parse(to) else { continue };
            let through = Some(Through { setting, unit: path.clone() });
            out.push(RuleCause { unit, origin: product.origin.clone(), through });
        }
    }
    out
}

/// The units that a unit file ties itself to, with the settings that do.
fn tied(file: &UnitFile) -> BTreeSet<(&'static str, &str)> {
    let name = |id: Id| TIES.iter().find(|(tie, _)| *tie == id).map(|(_, name)| *name);
    let ties = file.entries().filter_map(|entry| Some((name(entry.setting)?, entry.value)));
    ties.flat_map(|(name, value)| value.split_whitespace().map(move |to| (name, to))).collect()
}
