//! What the files of one unit come to.

use std::collections::BTreeMap;
use std::sync::Arc;

use warren_core::graph::{Change, Definition, Files, Graph, NewDefinition};
use warren_unit::load::load;
use warren_unit::parse::UnitFile;
use warren_unit::search::{self, Dropin};
use warren_unit::{Diagnostic, LoadState, Relation, UnitName, UnitType};

use super::Loader;
use super::names::{Resolution, for_instance};
use super::work::Defined;
use crate::config::snapshot::Entry;
use crate::mount::kernel_mounts::is_bound;

/// What is wrong with a link that is passed over.
const NO_ALIAS: &str = "is a link to a name that it cannot be an alias of: ignoring the link";

impl Loader {
    /// What the files say about one name.
    pub(super) fn define_name(&self, name: &UnitName) -> Defined {
        let mut diagnostics = Vec::new();
        match self.find(name) {
            Resolution::Unit { name: main, .. } if main != *name => Defined::Alias(main),
            Resolution::Unit { fragment, masked, .. } => {
                if self.has_rejected_link(name) {
                    diagnostics.push(wrong_entry(name, NO_ALIAS));
                }
                let change = self.define(name, fragment, masked, &mut diagnostics);
                Defined::Unit(change, diagnostics)
            }
            Resolution::Wrong(why) => {
                diagnostics.push(wrong_entry(name, why));
                Defined::Unit(Change::Set(Box::new(broken(name))), diagnostics)
            }
        }
    }

    fn define(
        &self,
        name: &UnitName,
        fragment: Option<Arc<UnitFile>>,
        masked: bool,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Change {
        let aliases = self.aliases_of(name);
        let mut all_names = vec![name.clone()];
        all_names.extend(aliases.iter().cloned());
        let dropins = self.dropins(&all_names);
        let links = self.links(&all_names);
        let files = Files::new(fragment, dropins, links, masked);
        if files.fragment.is_none()
            && files.dropins().is_empty()
            && !masked
            && is_absent(name, &files)
        {
            return Change::Remove(name.clone());
        }
        for file in files.iter() {
            diagnostics
                .extend(self.snapshot.diagnostics.get(file.path()).into_iter().flatten().cloned());
        }
        let (made, found) = self.made_of(name, aliases, files);
        diagnostics.extend(found);
        Change::Set(Box::new(made))
    }

    /// What a unit in force is by its files, with all that they name to be looked up again.
    pub(super) fn restated(&self, graph: &Graph, known: &Definition) -> NewDefinition {
        let leads = |alias: &&UnitName| graph.lookup(alias) == Some(known.id);
        let aliases = known.aliases.iter().filter(leads).cloned().collect();
        self.made_of(&known.name, aliases, known.files.clone()).0
    }

    fn made_of(
        &self,
        name: &UnitName,
        aliases: Vec<UnitName>,
        files: Files,
    ) -> (NewDefinition, Vec<Diagnostic>) {
        let sources = files.sources();
        let (loaded, found) = load(name, &sources, &self.settings.context, &self.settings.defaults);
        let mut relations = loaded.relations.into_vec();
        let of_kernel = files.fragment.as_ref().filter(|file| file.path().is_empty());
        if let Some(file) = of_kernel {
            // The kernel holds on to the device as long as it is mounted. Quotas are of who has mounted it.
            let is_bound = is_bound(file);
            relations.retain(|(_, other)| match other.unit_type() {
                UnitType::Device => is_bound,
                _ => !QUOTA_SERVICES.contains(&other.as_str()),
            });
        }
        let made = NewDefinition {
            name: name.clone(),
            aliases,
            load_state: loaded.load_state,
            description: loaded.description,
            flags: loaded.flags,
            slice: loaded.slice,
            relations,
            files,
        };
        (made, found)
    }

    /// Drop-ins of a unit in the order in which they apply ([`search::select_dropins`]).
    fn dropins(&self, names: &[UnitName]) -> Vec<Arc<UnitFile>> {
        if self.dropin_names.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (alias_rank, name) in names.iter().enumerate() {
            let kinds = search::dropin_directories(name);
            for (name_rank, kind) in kinds.iter().enumerate() {
                let of_type = name_rank + 1 == kinds.len();
                let entries = self.dropin_entries(kind).into_iter();
                found.extend(entries.map(|(path_rank, file_name, file)| {
                    let (file_name, item) = (file_name.to_owned(), file);
                    let masks = item.is_none();
                    Dropin { alias_rank, name_rank, of_type, path_rank, file_name, masks, item }
                }));
            }
        }
        search::select_dropins(found).into_iter().flatten().cloned().collect()
    }

    /// What lies in the `.d` directories of this name: each one's place in the search path, name of
    /// the drop-in, and what is in it, if it does not only hide others.
    fn dropin_entries(&self, kind: &str) -> Vec<(usize, &str, Option<&Arc<UnitFile>>)> {
        let mut out = Vec::new();
        if !self.dropin_names.contains(kind) {
            return out;
        }
        for (path_rank, directory) in self.snapshot.directories.iter().enumerate() {
            let Some(Entry::Directory(entries)) = directory.entries.get(kind) else { continue };
            out.extend(entries.iter().map(|(name, entry)| {
                let file = entry.file().map(|file| &file.parsed);
                (path_rank, &**name, file.filter(|file| !file.is_empty()))
            }));
        }
        out
    }

    /// What the unit's `.wants`, `.requires` and `.upholds` directories link to.
    fn links(&self, names: &[UnitName]) -> Vec<(Relation, UnitName)> {
        let kinds = [
            ("wants", Relation::Wants),
            ("requires", Relation::Requires),
            ("upholds", Relation::Upholds),
        ];
        let mut out = Vec::new();
        for name in names {
            let template = name.template();
            let owners = std::iter::once(name).chain(template.as_ref());
            for owner in owners.filter(|owner| self.link_owners.contains(owner.as_str())) {
                for (kind, relation) in kinds {
                    let directory: Box<str> = format!("{owner}.{kind}").into();
                    out.extend(self.links_in(&directory, name).map(|other| (relation, other)));
                }
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// The names in one such directory; the highest search directory that has a name decides, so
    /// that a link to a mask takes it away. Templates get the unit's instance.
    fn links_in(&self, directory: &str, unit: &UnitName) -> impl Iterator<Item = UnitName> {
        let mut chosen: BTreeMap<&str, bool> = BTreeMap::new();
        for search in &self.snapshot.directories {
            if let Some(Entry::Directory(entries)) = search.entries.get(directory) {
                for (name, entry) in entries.iter() {
                    chosen.entry(name).or_insert_with(|| match entry {
                        Entry::Link(link) => {
                            !self.snapshot.leads_to_mask(&search.path, directory, link)
                        }
                        _ => true,
                    });
                }
            }
        }
        let names: Vec<UnitName> = chosen
            .into_iter()
            .filter(|(_, wanted)| *wanted)
            .filter_map(|(name, _)| UnitName::parse(name).ok())
            .map(|name| for_instance(unit, name))
            .collect();
        names.into_iter()
    }
}

/// Whether a unit without any file is nothing at all.
fn is_absent(name: &UnitName, files: &Files) -> bool {
    let without_file =
        matches!(name.unit_type(), UnitType::Slice | UnitType::Device) || is_perpetual(name);
    !without_file && files.links().is_empty()
}

fn is_perpetual(name: &UnitName) -> bool {
    perpetual_units().any(|unit| unit == *name)
}

pub(super) fn perpetual_units() -> impl Iterator<Item = UnitName> {
    ["-.slice", "system.slice", "init.scope", "-.mount"]
        .into_iter()
        .map(|name| UnitName::parse(name).expect("a valid name"))
}

fn broken(name: &UnitName) -> NewDefinition {
    NewDefinition {
        name: name.clone(),
        aliases: Vec::new(),
        load_state: LoadState::Error,
        description: name.as_str().into(),
        flags: warren_unit::UnitFlags::NONE,
        slice: None,
        relations: Vec::new(),
        files: Files::default(),
    }
}

/// Wanted by who mounts something with quotas.
const QUOTA_SERVICES: [&str; 2] = ["systemd-quotacheck.service", "quotaon.service"];

fn wrong_entry(name: &UnitName, why: &str) -> Diagnostic {
    Diagnostic {
        path: name.as_str().into(),
        line: 0,
        column: 0,
        severity: warren_unit::Severity::Error,
        code: warren_unit::Code::BadUnitName,
        message: format!("{name} {why}"),
    }
}
