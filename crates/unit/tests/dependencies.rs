//! The dependencies that systemd 252 gives to the units of `tests/dependencies/units`, as
//! `systemctl show` printed them on a booted machine (`systemd-252.txt`), against ours; and the
//! same for a user manager (`user-units`, `systemd-252-user.txt`).
//!
//! systemd shows each edge at both ends; so do we here, among these units.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use warren_unit::{Context, Defaults, Loaded, Relation, Scope, Sources, UnitName, load, parse};

/// Properties that are compared.
const RELATIONS: [Relation; 18] = [
    Relation::Requires,
    Relation::Requisite,
    Relation::Wants,
    Relation::BindsTo,
    Relation::PartOf,
    Relation::Upholds,
    Relation::Conflicts,
    Relation::Before,
    Relation::After,
    Relation::OnSuccess,
    Relation::OnFailure,
    Relation::PropagatesReloadTo,
    Relation::ReloadPropagatedFrom,
    Relation::PropagatesStopTo,
    Relation::StopPropagatedFrom,
    Relation::JoinsNamespaceOf,
    Relation::Triggers,
    Relation::InSlice,
];

type Edges = BTreeMap<(String, Relation), BTreeSet<String>>;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/dependencies")
}

/// The instance of the template that was shown.
fn instance(scope: Scope) -> &'static str {
    if scope == Scope::System { "x-y" } else { "x" }
}

/// The units of the directory, loaded; the template as its instance.
fn ours(units: &str, scope: Scope) -> BTreeMap<UnitName, Loaded> {
    let context = Context { scope, ..Context::system() };
    let defaults = Defaults::default();
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(directory().join(units)).expect("the fixtures are there") {
        let path = entry.expect("an entry can be read").path();
        let file_name = path.file_name().and_then(|n| n.to_str()).expect("names are text");
        let name = UnitName::parse(&file_name.replace("@.", &format!("@{}.", instance(scope))))
            .expect("a valid name");
        let bytes = fs::read(&path).expect("a fixture can be read");
        let file = Arc::new(parse::parse(file_name.into(), &bytes, name.unit_type()).0);
        let sources = Sources { fragment: Some(&file), ..Sources::default() };
        let (loaded, _) = load(&name, &sources, &context, &defaults);
        assert_eq!(loaded.load_state.as_str(), "loaded", "{name}");
        out.insert(name, loaded);
    }
    out
}

/// Our edges: what each unit states, and what the others state about it. Mounts that exist are
/// resolved, and targets are ordered after what they pull in.
fn our_edges(units: &str, scope: Scope) -> (Edges, Edges) {
    let units = ours(units, scope);
    let (mut stated, mut inverse) = (Edges::new(), Edges::new());
    let mut add = |from: &UnitName, relation: Relation, to: &UnitName| {
        stated.entry((from.to_string(), relation)).or_default().insert(to.to_string());
        let key = (to.to_string(), relation.inverse());
        inverse.entry(key).or_default().insert(from.to_string());
    };
    for (name, loaded) in &units {
        for (relation, to) in &loaded.relations {
            match relation {
                Relation::MountsFor if units.contains_key(to) => {
                    add(name, Relation::Requires, to);
                    add(name, Relation::After, to);
                }
                // It comes from the mount table, not from a file.
                Relation::MountsFor if to.as_str() == "-.mount" => add(name, Relation::After, to),
                Relation::MountsFor => {}
                relation => add(name, *relation, to),
            }
            let pulls_in = Loaded::PULLS_IN.contains(relation);
            let other = units.get(to).is_none_or(|u| u.flags.default_dependencies());
            let before = loaded.relations.contains(&(Relation::Before, to.clone()));
            if loaded.flags.completes_ordering() && pulls_in && other && !before {
                add(name, Relation::After, to);
            }
        }
    }
    (stated, inverse)
}

/// What systemctl showed.
fn their_edges(record: &str) -> (Edges, BTreeSet<String>) {
    let text = fs::read_to_string(directory().join(record)).expect("it is there");
    let (mut edges, mut names) = (Edges::new(), BTreeSet::new());
    for block in text.trim().split("\n\n") {
        let pairs: Vec<(&str, &str)> = block.lines().filter_map(|l| l.split_once('=')).collect();
        let value = |key: &str| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let name = value("Id").expect("every unit has an id");
        names.insert(name.to_owned());
        for relation in RELATIONS {
            let targets = value(relation.setting_name()).unwrap_or_default();
            // Names with backslashes are shown quoted and escaped.
            let unquote = |name: &str| name.trim_matches('"').replace("\\\\", "\\");
            let targets = targets.split_ascii_whitespace().map(unquote).collect();
            edges.insert((name.to_owned(), relation), targets);
        }
    }
    (edges, names)
}

/// Edges that differ; `+` is ours only, `-` is systemd's only. All but the first have one cause: systemd
/// showed them in a container, where it has no devices and leaves swap alone. The manual pages
/// say what ours are. The first is a choice: who has a name on the message bus goes down before it.
const DIFFERENCES: &[&str] = &[
    "+ dbus1.service After dbus.service",
    "+ dev-sdx.swap After dev-sdx.device",
    "+ dev-sdx.swap Before swap.target",
    "+ dev-sdx.swap Before umount.target",
    "+ dev-sdx.swap Conflicts umount.target",
    "+ dev-sdx.swap Requires dev-sdx.device",
    "+ opt-swapfile.swap Before swap.target",
    "+ opt-swapfile.swap Before umount.target",
    "+ opt-swapfile.swap Conflicts umount.target",
    "+ so.socket After sys-subsystem-net-devices-eth0.device",
    "+ so.socket BindsTo sys-subsystem-net-devices-eth0.device",
    "+ srv-dev.mount After dev-sdz1.device",
    "+ srv-dev.mount BindsTo dev-sdz1.device",
    "+ srv-netdev.mount After dev-sdy.device",
    "+ srv-netdev.mount BindsTo dev-sdy.device",
    "+ srv-uuid.mount After dev-disk-by\\x2duuid-1234\\x2dABCD.device",
    "+ srv-uuid.mount BindsTo dev-disk-by\\x2duuid-1234\\x2dABCD.device",
    "- dev-sdx.swap After -.mount",
];

#[test]
fn dependencies_are_those_of_systemd_252() {
    compare("units", Scope::System, "systemd-252.txt", DIFFERENCES);
}

#[test]
fn dependencies_in_a_user_manager_too() {
    compare("user-units", Scope::User, "systemd-252-user.txt", &[]);
}

fn compare(units: &str, scope: Scope, record: &str, known: &[&str]) {
    let (stated, inverse) = our_edges(units, scope);
    let (theirs, names) = their_edges(record);
    let none = BTreeSet::new();
    let mut differences = BTreeSet::new();
    for name in &names {
        for relation in RELATIONS {
            let key = (name.clone(), relation);
            let [a, i, b] = [&stated, &inverse, &theirs].map(|e| e.get(&key).unwrap_or(&none));
            differences.extend(a.difference(b).map(|to| format!("+ {name} {relation} {to}")));
            // systemd shows an edge at both ends only while the other unit is loaded too.
            let rest = b.iter().filter(|to| !a.contains(*to) && !i.contains(*to));
            differences.extend(rest.map(|to| format!("- {name} {relation} {to}")));
        }
    }
    let known: BTreeSet<String> = known.iter().map(|edge| (*edge).to_owned()).collect();
    let new: Vec<_> = differences.difference(&known).collect();
    let gone: Vec<_> = known.difference(&differences).collect();
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}\nno longer: {gone:#?}");
}
