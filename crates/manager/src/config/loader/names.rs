//! Names: which file a name leads to, by links, templates and precedence, and whom a change of
//! a file concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use warren_core::graph::Graph;
use warren_unit::parse::UnitFile;
use warren_unit::search::{check_alias, directory_kind};
use warren_unit::{UnitName, UnitType};

use super::{Aliases, Loader, Loading};
use crate::config::snapshot::{Entry, Leads, Link};

/// Links that are followed from one name to the next.
const ALIAS_STEPS_MAX: usize = 16;

/// How a name resolves.
pub(super) enum Resolution {
    /// To this main name, with this file.
    Unit { name: UnitName, fragment: Option<Arc<UnitFile>>, masked: bool },
    /// To something that is no unit file.
    Wrong(&'static str),
}

enum Step {
    Done(Resolution),
    Alias(UnitName),
}

/// What an entry comes to.
enum LinkTarget {
    Step(Step),
    /// It is a link to another directory's entry of the same name: the next weaker one counts.
    SameName,
    /// It is a link of an instance to its template, whose entries count.
    Template,
    /// It is a link to a name that it cannot be an alias of: the next weaker one counts, as with systemd 252.
    Rejected,
}

impl Loader {
    /// Every unit name that a search directory has a file or link for, templates aside.
    pub(super) fn unit_names(&self) -> impl Iterator<Item = UnitName> + '_ {
        self.snapshot
            .directories
            .iter()
            .flat_map(|d| d.entries.iter())
            .filter(|(_, entry)| !matches!(entry, Entry::Directory(_)))
            .filter_map(|(name, _)| UnitName::shared(name).ok())
            .filter(|name| !name.is_template())
            .chain(self.wanted_names())
    }

    /// Names that only `.wants` and its like have: instances of templates.
    fn wanted_names(&self) -> impl Iterator<Item = UnitName> + '_ {
        self.snapshot
            .directories
            .iter()
            .flat_map(|d| d.entries.iter())
            .filter(|(name, _)| !name.ends_with(".d"))
            .filter_map(|(_, entry)| match entry {
                Entry::Directory(links) => Some(links.keys()),
                _ => None,
            })
            .flatten()
            .filter_map(|name| UnitName::parse(name).ok())
            .filter(|name| name.is_instance())
    }

    /// Names of instances in one `.wants` or similar directory.
    fn linked_names<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = UnitName> + 'a {
        self.snapshot
            .directories
            .iter()
            .filter_map(move |d| match d.entries.get(directory) {
                Some(Entry::Directory(links)) => Some(links.keys()),
                _ => None,
            })
            .flatten()
            .filter_map(|name| UnitName::parse(name).ok())
            .filter(|name| name.is_instance())
    }

    /// Has the index of aliases and of drop-in directories be that of the ground state.
    pub(super) fn refresh_index(&mut self) {
        let plain = std::mem::take(&mut self.snapshot.plain_changes);
        // A template is no unit that is asked for alone, and what is found of others is asked for by name.
        let is_of_links = |name: &str| self.linked.contains(name) || is_for_template(name);
        let is_changed = std::mem::take(&mut self.snapshot.structure_changed);
        if is_changed || plain.iter().any(|name| is_of_links(name)) {
            self.installation_changed = true;
            self.index();
        }
    }

    fn index(&mut self) {
        let names = self.snapshot.directories.iter().flat_map(|d| d.entries.keys());
        let (dropins, links): (Vec<&Arc<str>>, Vec<&Arc<str>>) =
            names.filter(|name| directory_kind(name).is_some()).partition(|n| n.ends_with(".d"));
        let owner = |name: &str| name.rsplit_once('.').map(|(owner, _)| owner.into());
        self.link_owners = links.into_iter().filter_map(|name| owner(name)).collect();
        self.dropin_names = dropins.into_iter().map(|name| Box::from(&**name)).collect();
        let links = self.snapshot.directories.iter().flat_map(|d| {
            d.entries.iter().filter_map(|(name, entry)| match entry {
                Entry::Link(link) => Some((name, link)),
                _ => None,
            })
        });
        let target = |link: &Link| link.target.rsplit('/').next().map(Box::from);
        self.linked = links
            .clone()
            .flat_map(|(name, link)| [Some(Box::from(&**name)), target(link)])
            .flatten()
            .collect();
        let links = links.map(|(name, _)| name);
        let mut aliases = Aliases::new();
        for name in links.filter_map(|name| UnitName::parse(name).ok()) {
            if let Resolution::Unit { name: main, .. } = self.find(&name)
                && main != name
            {
                aliases.entry(main).or_default().insert(name);
            }
        }
        if *self.aliases != aliases {
            self.aliases = Arc::new(aliases);
        }
    }

    /// Takes note of the aliases that units got by a load that is put in force and was not of everything.
    pub(super) fn settle(&mut self, loading: &Loading) {
        if Arc::ptr_eq(&self.settled, &self.aliases) {
            return;
        }
        for &unit in loading.delta.added.iter().chain(&loading.delta.changed) {
            let definition = loading.graph.definition(unit);
            // Instances have those of their templates besides.
            let Some(own) = self.aliases.get(&definition.name) else { continue };
            let got = definition.aliases.iter().filter(|alias| own.contains(*alias)).cloned();
            let settled = Arc::make_mut(&mut self.settled);
            settled.entry(definition.name.clone()).or_default().extend(got);
        }
    }

    /// All aliases of this unit are in force.
    pub(super) fn settle_unit(&mut self, unit: &UnitName) {
        if self.settled.get(unit) == self.aliases.get(unit) {
            return;
        }
        let settled = Arc::make_mut(&mut self.settled);
        match self.aliases.get(unit) {
            Some(aliases) => drop(settled.insert(unit.clone(), aliases.clone())),
            None => drop(settled.remove(unit)),
        }
    }

    /// Who is concerned by aliases that have come or gone since the last reload; if a unit is named, by
    /// those of that unit.
    pub(super) fn realiased(&self, graph: &Graph, only: Option<&UnitName>) -> BTreeSet<UnitName> {
        let mut names = BTreeSet::new();
        if Arc::ptr_eq(&self.settled, &self.aliases) {
            return names;
        }
        for (unit, aliases) in self.settled.iter().chain(self.aliases.iter()) {
            if self.settled.get(unit) == self.aliases.get(unit) {
                continue;
            }
            if let Some(only) = only.filter(|only| *only != unit) {
                names.extend((only.template().as_ref() == Some(unit)).then(|| only.clone()));
                continue;
            }
            let all = || std::iter::once(unit).chain(aliases);
            names.extend(all().flat_map(|name| instances(graph, name)));
            names.extend(all().filter(|name| !name.is_template()).cloned());
        }
        names
    }

    /// The units whose definition depends on what has one of these names.
    pub(super) fn affected(
        &self,
        graph: &Graph,
        changed: &BTreeSet<Box<str>>,
    ) -> BTreeSet<UnitName> {
        let mut out = BTreeSet::new();
        for name in changed {
            let (owner, dropin) = match directory_kind(name) {
                Some((owner, _)) => (owner, name.ends_with(".d")),
                None => (&**name, false),
            };
            if dropin && is_shared_owner(owner) {
                out.extend(self.covered_by(graph, owner));
            }
            let Ok(owner) = UnitName::parse(owner) else { continue };
            if owner.is_template() {
                out.extend(instances(graph, &owner));
                out.extend(self.led_to(graph, &owner));
            } else {
                // A drop-in alone makes no unit: `foo-.slice.d` is for others than `foo-.slice`.
                if dropin && graph.lookup(&owner).is_none() && !self.has_file(&owner) {
                    continue;
                }
                out.insert(self.main_name(&owner));
                out.insert(owner);
            }
            // Units that `.wants` names for the first time are loaded with their wanter.
            if directory_kind(name).is_some() && !dropin {
                let linked = self.linked_names(name);
                out.extend(linked.filter(|name| graph.lookup(name).is_none()));
            }
        }
        out
    }

    fn main_name(&self, name: &UnitName) -> UnitName {
        match self.find(name) {
            Resolution::Unit { name, .. } => name,
            Resolution::Wrong(_) => name.clone(),
        }
    }

    /// Known units that a `foo-.service.d`, `foo-@.service.d` (instances only) or `service.d` directory is
    /// for, by one of their names.
    fn covered_by<'a>(&self, graph: &'a Graph, owner: &str) -> impl Iterator<Item = UnitName> + 'a {
        let (prefix, suffix) = match owner.rsplit_once('.') {
            Some((prefix, suffix)) => (prefix.to_owned(), suffix.to_owned()),
            None => (String::new(), owner.to_owned()),
        };
        let (prefix, is_of_templates) = match prefix.strip_suffix('@') {
            Some(prefix) => (prefix.to_owned(), true),
            None => (prefix, false),
        };
        let covers = move |name: &UnitName| {
            name.unit_type().suffix() == suffix
                && name.as_str().starts_with(&prefix)
                && (name.is_instance() || !is_of_templates)
        };
        let definitions = graph.definitions();
        let covered = definitions.filter(move |d| covers(&d.name) || d.aliases.iter().any(&covers));
        covered.map(|definition| definition.name.clone())
    }

    /// Names that lead to instances of this template, be there any such yet or not.
    fn led_to(&self, graph: &Graph, template: &UnitName) -> BTreeSet<UnitName> {
        let of_template = self.aliases.get(template).into_iter().flatten();
        let of_instances =
            self.aliases.keys().filter(|main| main.template().as_ref() == Some(template));
        of_template.flat_map(|alias| instances(graph, alias)).chain(of_instances.cloned()).collect()
    }

    /// Follows a name through the directories to its main name and file.
    pub(super) fn find(&self, name: &UnitName) -> Resolution {
        let mut current = name.clone();
        for _ in 0..ALIAS_STEPS_MAX {
            match self.find_step(&current) {
                Step::Done(found) => return found,
                Step::Alias(next) => current = next,
            }
        }
        Resolution::Wrong("its links form a loop")
    }

    fn find_step(&self, name: &UnitName) -> Step {
        let template = name.template();
        let names = || std::iter::once(name).chain(template.as_ref());
        let all = || names().flat_map(|name| self.entries(name).map(move |entry| (name, entry)));
        let is_wrong = |entry: &Entry| matches!(entry, Entry::Wrong(_));
        let (mut is_linked, mut is_template_meant) = (false, false);
        for (entry_name, entry) in all().filter(|(_, entry)| !is_wrong(entry)) {
            if is_template_meant && entry_name == name {
                continue;
            }
            match self.follow(name, entry_name, entry) {
                LinkTarget::Step(step) => return step,
                LinkTarget::SameName => is_linked = true,
                LinkTarget::Template => (is_linked, is_template_meant) = (true, true),
                LinkTarget::Rejected => {}
            }
        }
        // What is no file counts only where there is nothing else.
        let wrong = all().find(|(_, entry)| is_wrong(entry));
        if let Some((_, Entry::Wrong(why))) = wrong.filter(|_| !is_linked) {
            return Step::Done(Resolution::Wrong(why));
        }
        let fragment = self.mounted.file(name).cloned();
        Step::Done(Resolution::Unit { name: name.clone(), fragment, masked: false })
    }

    /// What the search directories have by this name, the strongest first.
    fn entries<'a>(&'a self, name: &'a UnitName) -> impl Iterator<Item = &'a Entry> {
        let entries = self.snapshot.directories.iter().filter_map(|d| d.entries.get(name.as_str()));
        entries.filter(|entry| !matches!(entry, Entry::Directory(_)))
    }

    /// Whether a search directory has this name, be it by something that is no file; not by a link that is no alias.
    pub(super) fn has_entry(&self, name: &UnitName) -> bool {
        self.entries(name).any(|entry| !is_rejected(name, entry))
    }

    /// Whether one has it by such a link.
    pub(super) fn has_rejected_link(&self, name: &UnitName) -> bool {
        self.entries(name).any(|entry| is_rejected(name, entry))
    }

    /// What the entry called `entry_name` means for `name`, which it was found for.
    fn follow(&self, name: &UnitName, entry_name: &UnitName, entry: &Entry) -> LinkTarget {
        let found = |fragment: Option<&Arc<UnitFile>>| {
            let masked = fragment.is_some_and(|file| file.is_empty());
            let (name, fragment) = (name.clone(), fragment.cloned());
            LinkTarget::Step(Step::Done(Resolution::Unit { name, fragment, masked }))
        };
        let wrong = |why| LinkTarget::Step(Step::Done(Resolution::Wrong(why)));
        let link = match entry {
            Entry::File(file) => return found(Some(&file.parsed)),
            Entry::Link(link) => link,
            Entry::Directory(_) => return wrong("is a directory"),
            Entry::Wrong(why) => return wrong(why),
        };
        if &*link.target == "/dev/null" {
            let (name, fragment) = (name.clone(), None);
            return LinkTarget::Step(Step::Done(Resolution::Unit { name, fragment, masked: true }));
        }
        match &link.leads {
            Leads::Outside(file) => return found(Some(&file.parsed)),
            Leads::Nowhere => return found(None),
            Leads::Inside => {}
        }
        match named_by(link) {
            Some(next) if next == *entry_name => LinkTarget::SameName,
            Some(next) if entry_name.template().as_ref() == Some(&next) => LinkTarget::Template,
            Some(next) if check_alias(entry_name, &next).is_ok() => {
                LinkTarget::Step(Step::Alias(for_instance(name, next)))
            }
            _ => LinkTarget::Rejected,
        }
    }

    /// Whether names lead to this one, or did in this generation.
    pub(super) fn has_or_had_aliases(&self, graph: &Graph, name: &UnitName) -> bool {
        let has = |name: &UnitName| self.aliases.contains_key(name);
        let had = || {
            let before = graph.lookup(name).map(|unit| graph.definition(unit));
            before.is_some_and(|before| before.name == *name && !before.aliases.is_empty())
        };
        has(name) || name.template().as_ref().is_some_and(has) || had()
    }

    /// The names that lead to this one: links, and for an instance those that its template has.
    pub(super) fn aliases_of(&self, name: &UnitName) -> Vec<UnitName> {
        let own = self.aliases.get(name).into_iter().flatten().cloned();
        let (template, instance) = (name.template(), name.instance());
        let of_template = template.as_ref().and_then(|template| self.aliases.get(template));
        let made = of_template.into_iter().flatten().filter_map(|alias| {
            alias.with_instance(instance?).ok().filter(|alias| !self.has_entry(alias))
        });
        let aliases: BTreeSet<UnitName> = own.chain(made).collect();
        aliases.into_iter().collect()
    }
}

/// A template reached from an instance stands for the same instance of it.
pub(super) fn for_instance(name: &UnitName, other: UnitName) -> UnitName {
    match (other.is_template(), name.instance()) {
        (true, Some(instance)) => other.with_instance(instance).unwrap_or(other),
        _ => other,
    }
}

/// The unit name that a link leads to.
fn named_by(link: &Link) -> Option<UnitName> {
    UnitName::parse(link.target.rsplit('/').next()?).ok()
}

/// Whether the entry is a link to a name in a search directory that it cannot be an alias of.
fn is_rejected(name: &UnitName, entry: &Entry) -> bool {
    let Entry::Link(link) = entry else { return false };
    let fits = |next: UnitName| {
        next == *name || name.template().as_ref() == Some(&next) || check_alias(name, &next).is_ok()
    };
    matches!(link.leads, Leads::Inside)
        && &*link.target != "/dev/null"
        && !named_by(link).is_some_and(fits)
}

/// Whether this is the name of a template's file, or of a directory that belongs to one.
pub(super) fn is_for_template(name: &str) -> bool {
    let owner = directory_kind(name).map_or(name, |(owner, _)| owner);
    UnitName::parse(owner).is_ok_and(|owner| owner.is_template())
}

/// Whether the owner of a `.d` directory is a `foo-` prefix, which may be of templates only, or a bare
/// type.
fn is_shared_owner(owner: &str) -> bool {
    match owner.rsplit_once('.') {
        None => UnitType::from_suffix(owner).is_some(),
        Some((stem, suffix)) => {
            stem.trim_end_matches('@').ends_with('-') && UnitType::from_suffix(suffix).is_some()
        }
    }
}

fn instances<'a>(graph: &'a Graph, template: &'a UnitName) -> impl Iterator<Item = UnitName> + 'a {
    graph
        .names()
        .map(|(name, _)| name)
        .filter(move |name| name.is_instance() && name.template().as_ref() == Some(template))
        .cloned()
}
