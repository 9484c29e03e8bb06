//! From the directories' ground state to definitions: which files make which unit, and what a
//! change of a file changes.
//!
//! Runs on a thread of its own. It is given the generation in force, and returns the next one with
//! what differs; the loop puts it in force. The rules are those of systemd.unit(5), "UNIT FILE
//! LOAD PATH".

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::graph::{Change, Definition, Delta, Edit, Files, Graph, NewDefinition};
use warren_core::settings::Settings;
use warren_unit::load::load;
use warren_unit::parse::UnitFile;
use warren_unit::search::{self, directory_kind};
use warren_unit::{Context, Diagnostic, LoadState, Relation, UnitName, UnitType};

use crate::fleet::{self, Applied, Fleet};
use crate::kernel_mounts::{Changed, FoundMounts, KernelMounts, MountsNow};
use crate::snapshot::{Entry, KnownFiles, Leads, Link, Snapshot, Work};

/// Links that are followed from one name to the next.
const ALIAS_STEPS_MAX: usize = 16;

/// Definitions that are made before they are put into the graph.
const CHANGES_PER_PIECE: usize = 512;

/// Pieces of definitions that wait to be put into the graph.
const PIECES_AHEAD_MAX: usize = 2;

/// What a load made.
#[derive(Debug)]
pub struct Loading {
    /// The next generation; the one that was given if nothing differs.
    pub graph: Arc<Graph>,
    /// What differs.
    pub delta: Delta,
    /// What was wrong with the files of the units that were loaded now.
    pub diagnostics: Vec<Diagnostic>,
    /// What it cost.
    pub work: Work,
    /// What rules made, if that differs.
    pub rules: Option<RulesChange>,
}

/// What rules made before a load and after it.
#[derive(Clone, Debug)]
pub struct RulesChange {
    /// Before.
    pub before: Applied,
    /// After.
    pub after: Applied,
}

impl Loading {
    /// A load that came to this generation.
    pub fn new(graph: Arc<Graph>, delta: Delta, work: Work) -> Loading {
        Loading { graph, delta, diagnostics: Vec::new(), work, rules: None }
    }
}

/// The loader's state.
pub struct Loader {
    snapshot: Snapshot,
    settings: Settings,
    /// For each unit, the aliases that lead to it.
    aliases: BTreeMap<UnitName, BTreeSet<UnitName>>,
    /// Names that differ on disk and are not in force yet: after a dry run, or when only one unit
    /// was refreshed.
    pending: BTreeSet<Box<str>>,
    /// Names or links changed since the installation states were last looked at as a whole.
    links_changed: bool,
    /// Names of all `X.d` directories, so that units without any need no look at them.
    dropin_names: BTreeSet<Box<str>>,
    /// Every X that has an `X.wants`, `X.requires` or `X.upholds` directory.
    link_owners: BTreeSet<Box<str>>,
    /// The rules that make units, if there may be any.
    fleet: Option<Fleet>,
    /// What the kernel has mounted: weaker than any file.
    mounted: KernelMounts,
}

/// How a name resolves.
enum Found {
    /// To this main name, with this file.
    Unit { name: UnitName, fragment: Option<Arc<UnitFile>>, masked: bool },
    /// To something that is no unit file.
    Wrong(&'static str),
}

/// What the files say about a name.
enum Defined {
    /// It leads to this main name.
    Alias(UnitName),
    /// The unit, and what is wrong with its files.
    Unit(Change, Vec<Diagnostic>),
}

/// A load under way.
struct LoadWork {
    edit: Edit,
    changes: Vec<Change>,
    diagnostics: Vec<Diagnostic>,
    done: BTreeSet<UnitName>,
    /// Names that units lead to and that were looked up already.
    known: BTreeSet<UnitName>,
}

impl LoadWork {
    fn new(graph: &Graph) -> LoadWork {
        LoadWork {
            edit: graph.edit(),
            changes: Vec::new(),
            diagnostics: Vec::new(),
            done: BTreeSet::new(),
            known: BTreeSet::new(),
        }
    }

    /// Takes one definition in; returns what it names and nobody has looked at yet: instances,
    /// slices, the main name of an alias.
    fn take(&mut self, name: UnitName, defined: Defined) -> Vec<UnitName> {
        self.done.insert(name);
        let (change, diagnostics) = match defined {
            Defined::Alias(main) => return vec![main],
            Defined::Unit(change, diagnostics) => (change, diagnostics),
        };
        self.diagnostics.extend(diagnostics);
        let mut more = Vec::new();
        if let Change::Set(new) = &change {
            for (_, other) in new.relations.iter().filter(|(_, other)| needs_loading(other)) {
                if self.done.contains(other) || !self.known.insert(other.clone()) {
                    continue;
                }
                let graph = self.edit.graph();
                let loaded = graph
                    .lookup(other)
                    .is_some_and(|unit| graph.definition(unit).load_state != LoadState::NotFound);
                if !loaded {
                    more.push(other.clone());
                }
            }
        }
        self.changes.push(change);
        more
    }

    /// In pieces, so that the working memory of a load does not grow with the units.
    fn apply_if_many(&mut self) {
        if self.changes.len() >= CHANGES_PER_PIECE {
            self.edit.apply(std::mem::take(&mut self.changes));
        }
    }

    fn finish(mut self, before: &Arc<Graph>, work: Work) -> Loading {
        self.edit.apply(self.changes);
        let names_stay = self.edit.has_no_new_names();
        let (next, delta) = self.edit.finish();
        let same = delta.is_empty() && names_stay;
        let graph = if same { before.clone() } else { Arc::new(next) };
        Loading { diagnostics: self.diagnostics, ..Loading::new(graph, delta, work) }
    }
}

impl Loader {
    /// A loader over these search directories, with these rules and mounts among them.
    pub fn new(
        paths: Vec<PathBuf>,
        settings: Settings,
        fleet: Option<Fleet>,
        mounts: FoundMounts,
    ) -> Loader {
        let mut loader = Loader::knowing(paths, settings, fleet, KnownFiles::new());
        loader.set_mounts(mounts);
        loader
    }

    /// A loader that goes on from a generation that was made by another incarnation. What differs
    /// from it on disk waits for a reload.
    pub fn resumed(
        paths: Vec<PathBuf>,
        settings: Settings,
        fleet: Option<Fleet>,
        mut mounts: FoundMounts,
        graph: &Arc<Graph>,
    ) -> Loader {
        let files = graph.definitions().map(|definition| &definition.files);
        let files = files.flat_map(|files| files.fragment.iter().chain(&*files.dropins));
        let known = files.map(|file| (file.path().clone(), file.clone())).collect();
        let mut loader = Loader::knowing(paths, settings, fleet, known);
        mounts.kernel.take_up(graph);
        loader.set_mounts(mounts);
        let Loading { graph: next, delta, .. } = loader.load_all(graph);
        let differing = delta.added.iter().chain(&delta.changed).chain(&delta.removed);
        loader.pending = differing.map(|&unit| next.name(unit).as_str().into()).collect();
        loader
    }

    fn knowing(
        paths: Vec<PathBuf>,
        settings: Settings,
        mut fleet: Option<Fleet>,
        known: KnownFiles,
    ) -> Loader {
        let mut snapshot = std::thread::scope(|scope| {
            if let Some(fleet) = &mut fleet {
                scope.spawn(|| fleet.start());
            }
            Snapshot::read_knowing(paths, known)
        });
        if let Some(fleet) = &mut fleet {
            let paths: Vec<PathBuf> = snapshot.paths().map(Path::to_path_buf).collect();
            snapshot.add_made(fleet::place_in(&paths), fleet.directory().to_owned());
            fleet.apply(&mut snapshot);
            fleet.keep();
        }
        let mut loader = Loader {
            snapshot,
            settings,
            aliases: BTreeMap::new(),
            pending: BTreeSet::new(),
            links_changed: true,
            dropin_names: BTreeSet::new(),
            link_owners: BTreeSet::new(),
            fleet,
            mounted: KernelMounts::default(),
        };
        loader.index();
        loader.snapshot.structure_changed = false;
        loader
    }

    /// What is mounted before the first load.
    fn set_mounts(&mut self, mounts: FoundMounts) {
        self.mounted = mounts.kernel;
        self.note_mounts(mounts.now.into_iter());
    }

    fn note_mounts(&mut self, changes: impl Iterator<Item = Changed>) -> BTreeSet<UnitName> {
        let (mut names, mut now) = (BTreeSet::new(), MountsNow::default());
        for (name, id) in changes {
            let hidden = self.entry(name.as_str()).is_some();
            names.insert(name.clone());
            self.mounted.set((name, id.filter(|_| !hidden)), &mut now);
        }
        names
    }

    /// Loads the units of names that gained or lost a mount.
    pub fn load_mounts(&mut self, graph: &Arc<Graph>, changes: Vec<Changed>) -> Loading {
        let names = self.note_mounts(changes.into_iter());
        self.load_names(graph, names)
    }

    /// The search directories, highest precedence first.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.snapshot.paths().map(Path::to_path_buf).collect()
    }

    /// Those of them that lie on a disk.
    pub fn paths_on_disk(&self) -> Vec<PathBuf> {
        let on_disk = self.snapshot.directories.iter().filter(|directory| !directory.is_made);
        on_disk.map(|directory| directory.path.clone()).collect()
    }

    /// What specifiers refer to.
    pub fn context(&self) -> &Arc<Context> {
        &self.settings.context
    }

    /// Whether names or links changed since this was last asked.
    pub fn take_links_changed(&mut self) -> bool {
        std::mem::take(&mut self.links_changed)
    }

    /// The ground state.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Loads every unit that has a file, from scratch, over `graph` (whose names keep their ids).
    pub fn load_all(&mut self, graph: &Arc<Graph>) -> Loading {
        let mut names: BTreeSet<UnitName> = self.unit_names().collect();
        names.extend(perpetual_units());
        names.extend(self.mounted.names().cloned());
        let known = graph.definitions().filter(|d| d.load_state != LoadState::NotFound);
        names.extend(known.map(|d| d.name.clone()));
        names.extend(graph.names().map(|(name, _)| name.clone()).filter(|n| n.is_instance()));
        let mut loading = self.load_names(graph, names);
        loading.work = self.snapshot.work;
        if let Some(fleet) = &self.fleet {
            let made: BTreeSet<Box<str>> = fleet.applied().keys().cloned().collect();
            loading.diagnostics.extend(fleet.diagnostics());
            loading.diagnostics.extend(fleet.collisions(&self.snapshot, &made));
        }
        loading
    }

    /// Loads what changes touch that were found ([`Loader::look`]). What a dry run finds is kept for
    /// the next reload.
    pub fn reload(&mut self, graph: &Arc<Graph>, dry_run: bool) -> Loading {
        let changed = match dry_run {
            true => self.pending.clone(),
            false => std::mem::take(&mut self.pending),
        };
        self.load_with_rules(graph, changed, dry_run)
    }

    // ---- rules ----

    /// What rules made that is in force.
    pub fn applied(&self) -> Applied {
        self.fleet.as_ref().map(|fleet| fleet.applied().clone()).unwrap_or_default()
    }

    /// Reads what changed of the rules. Nothing may be loaded if they came to nothing.
    ///
    /// # Errors
    /// Their faults, in words.
    pub fn look_at_rules(&mut self, full: bool) -> Result<(), String> {
        let Some(fleet) = &mut self.fleet else { return Ok(()) };
        fleet.look(full);
        match fleet.faults() {
            [] => Ok(()),
            faults => Err(fleet::in_words(faults)),
        }
    }

    /// Loads what the rules make now; other changes wait.
    pub fn reload_rules(&mut self, graph: &Arc<Graph>, dry_run: bool) -> Loading {
        if let Some(fleet) = &mut self.fleet {
            fleet.insist();
        }
        self.load_with_rules(graph, BTreeSet::new(), dry_run)
    }

    /// Loads what has changed, and what rules make otherwise than before. After a dry run they
    /// make what they made.
    fn load_with_rules(
        &mut self,
        graph: &Arc<Graph>,
        mut changed: BTreeSet<Box<str>>,
        dry_run: bool,
    ) -> Loading {
        let before = match &mut self.fleet {
            Some(fleet) if fleet.is_pending() => {
                let (names, before) = fleet.apply(&mut self.snapshot);
                changed.extend(names);
                Some(before)
            }
            _ => None,
        };
        let mut loading = self.load_changed(graph, &changed);
        let Some(fleet) = &mut self.fleet else { return loading };
        loading.diagnostics.extend(fleet.collisions(&self.snapshot, &changed));
        let Some(before) = before else { return loading };
        loading.diagnostics.extend(fleet.diagnostics());
        loading.rules =
            Some(RulesChange { before: before.clone(), after: fleet.applied().clone() });
        match dry_run {
            true => {
                fleet.undo(before, &mut self.snapshot);
                if self.snapshot.structure_changed {
                    self.index();
                }
            }
            false => fleet.keep(),
        }
        loading
    }

    /// Puts what rules made for an earlier generation into force again.
    pub fn set_rules_back(&mut self, to: Applied) {
        if let Some(fleet) = &mut self.fleet {
            fleet.set_back(to, &mut self.snapshot);
            if self.snapshot.structure_changed {
                self.index();
            }
        }
    }

    /// The same for what concerns one unit; other changes wait.
    pub fn refresh(&mut self, graph: &Arc<Graph>, unit: &UnitName, dry_run: bool) -> Loading {
        let concerns =
            |name: &str| self.affected(graph, &BTreeSet::from([name.into()])).contains(unit);
        let mine: BTreeSet<Box<str>> =
            self.pending.iter().filter(|n| concerns(n)).cloned().collect();
        if !dry_run {
            self.pending.retain(|name| !mine.contains(name));
        }
        self.load_changed(graph, &mine)
    }

    /// Finds out which files changed and reads those: at every file, or only at those that the
    /// kernel told of.
    pub fn look(&mut self, full: bool) {
        let changed = if full { self.snapshot.sweep() } else { self.snapshot.update() };
        self.pending.extend(changed);
    }

    fn load_changed(&mut self, graph: &Arc<Graph>, changed: &BTreeSet<Box<str>>) -> Loading {
        let work = self.snapshot.work;
        if changed.is_empty() {
            return Loading::new(graph.clone(), Delta::default(), work);
        }
        let mut names = self.affected(graph, changed);
        if std::mem::take(&mut self.snapshot.structure_changed) {
            self.links_changed = true;
            let before = std::mem::take(&mut self.aliases);
            self.index();
            for (unit, aliases) in before.iter().chain(&self.aliases) {
                if before.get(unit) != self.aliases.get(unit) {
                    let all = || std::iter::once(unit).chain(aliases);
                    names.extend(all().flat_map(|name| instances(graph, name)));
                    names.extend(aliases.iter().flat_map(|a| self.referrers(graph, a)));
                    names.extend(all().filter(|name| !name.is_template()).cloned());
                }
            }
        }
        let mut loading = self.load_names(graph, names);
        loading.work = work;
        loading
    }

    /// Loads one name that nothing has led to so far: an instance, or a unit made just now.
    pub fn load_one(&mut self, graph: &Arc<Graph>, name: &UnitName) -> Loading {
        self.load_names(graph, BTreeSet::from([name.clone()]))
    }

    /// The generation without these units, but for those that got a file meanwhile.
    pub fn forget(&mut self, graph: &Arc<Graph>, names: &[UnitName]) -> Loading {
        let without_file: Vec<UnitName> =
            names.iter().filter(|name| self.entry(name.as_str()).is_none()).cloned().collect();
        let (next, delta) = graph.forget(&without_file);
        let graph = if delta.is_empty() { graph.clone() } else { Arc::new(next) };
        Loading::new(graph, delta, Work::default())
    }

    fn referrers(&self, graph: &Graph, name: &UnitName) -> Vec<UnitName> {
        graph.referrers(name).into_iter().map(|unit| graph.name(unit).clone()).collect()
    }

    // ---- names ----

    /// Every unit name that a search directory has a file or link for, templates aside.
    fn unit_names(&self) -> impl Iterator<Item = UnitName> + '_ {
        self.snapshot
            .directories
            .iter()
            .flat_map(|d| d.entries.iter())
            .filter(|(_, entry)| !matches!(entry, Entry::Directory(_)))
            .filter_map(|(name, _)| UnitName::parse(name).ok())
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

    /// Rebuilds the index of aliases and of drop-in directories.
    fn index(&mut self) {
        let names = self.snapshot.directories.iter().flat_map(|d| d.entries.keys());
        let (dropins, links): (Vec<&Box<str>>, Vec<&Box<str>>) =
            names.filter(|name| directory_kind(name).is_some()).partition(|n| n.ends_with(".d"));
        let owner = |name: &str| name.rsplit_once('.').map(|(owner, _)| owner.into());
        self.link_owners = links.into_iter().filter_map(|name| owner(name)).collect();
        self.dropin_names = dropins.into_iter().cloned().collect();
        let links = self.snapshot.directories.iter().flat_map(|d| {
            d.entries.iter().filter(|(_, e)| matches!(e, Entry::Link(_))).map(|(n, _)| n)
        });
        let mut aliases: BTreeMap<UnitName, BTreeSet<UnitName>> = BTreeMap::new();
        for name in links.filter_map(|name| UnitName::parse(name).ok()) {
            if let Found::Unit { name: main, .. } = self.find(&name)
                && main != name
            {
                aliases.entry(main).or_default().insert(name);
            }
        }
        self.aliases = aliases;
    }

    /// The units whose definition depends on what has one of these names.
    fn affected(&self, graph: &Graph, changed: &BTreeSet<Box<str>>) -> BTreeSet<UnitName> {
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
            } else {
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
            Found::Unit { name, .. } => name,
            Found::Wrong(_) => name.clone(),
        }
    }

    /// Known units that a `foo-.service.d` or `service.d` directory is for.
    fn covered_by<'a>(&self, graph: &'a Graph, owner: &str) -> impl Iterator<Item = UnitName> + 'a {
        let (prefix, suffix) = match owner.rsplit_once('.') {
            Some((prefix, suffix)) => (prefix.to_owned(), suffix.to_owned()),
            None => (String::new(), owner.to_owned()),
        };
        let covers = move |name: &UnitName| {
            name.unit_type().suffix() == suffix && name.as_str().starts_with(&prefix)
        };
        graph.definitions().map(|d| d.name.clone()).filter(covers)
    }

    // ---- one name ----

    /// Follows a name through the directories to its main name and file.
    fn find(&self, name: &UnitName) -> Found {
        let mut current = name.clone();
        for _ in 0..ALIAS_STEPS_MAX {
            match self.find_step(&current) {
                Step::Done(found) => return found,
                Step::Alias(next) => current = next,
            }
        }
        Found::Wrong("its links lead in a circle")
    }

    fn find_step(&self, name: &UnitName) -> Step {
        let missing = || {
            let fragment = self.mounted.file(name).cloned();
            Found::Unit { name: name.clone(), fragment, masked: false }
        };
        if let Some(entry) = self.entry(name.as_str()) {
            return self.follow(name, name, entry);
        }
        let Some(template) = name.template() else { return Step::Done(missing()) };
        match self.entry(template.as_str()) {
            Some(entry) => self.follow(name, &template, entry),
            None => Step::Done(missing()),
        }
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.snapshot
            .directories
            .iter()
            .find_map(|d| d.entries.get(name).filter(|e| !matches!(e, Entry::Directory(_))))
    }

    /// What the entry called `entry_name` means for `name`, which it was found for.
    fn follow(&self, name: &UnitName, entry_name: &UnitName, entry: &Entry) -> Step {
        match entry {
            Entry::File(file) => Step::Done(Found::Unit {
                name: name.clone(),
                fragment: Some(file.parsed.clone()),
                masked: file.parsed.is_empty(),
            }),
            Entry::Link(link) if &*link.target == "/dev/null" => {
                Step::Done(Found::Unit { name: name.clone(), fragment: None, masked: true })
            }
            Entry::Link(link) => self.follow_link(name, entry_name, link),
            Entry::Directory(_) => Step::Done(Found::Wrong("is a directory")),
            Entry::Wrong(why) => Step::Done(Found::Wrong(why)),
        }
    }

    fn follow_link(&self, name: &UnitName, entry_name: &UnitName, link: &Link) -> Step {
        let found = |fragment: Option<Arc<UnitFile>>| {
            let masked = fragment.as_ref().is_some_and(|file| file.is_empty());
            Found::Unit { name: name.clone(), fragment, masked }
        };
        match &link.leads {
            Leads::Outside(file) => return Step::Done(found(Some(file.parsed.clone()))),
            Leads::Nowhere => return Step::Done(found(None)),
            Leads::Inside => {}
        }
        let file_name = link.target.rsplit('/').next().unwrap_or_default();
        match UnitName::parse(file_name) {
            // To another directory's file of the same name, or of an instance to its template.
            Ok(next) if next == *entry_name || entry_name.template().as_ref() == Some(&next) => {
                Step::Done(found(self.file_of(name)))
            }
            Ok(next) if is_valid_alias(entry_name, &next) => Step::Alias(for_instance(name, next)),
            _ => Step::Done(Found::Wrong("is a link to a name that it cannot be an alias of")),
        }
    }

    /// The strongest file of this name or of its template, links aside.
    fn file_of(&self, name: &UnitName) -> Option<Arc<UnitFile>> {
        let template = name.template();
        self.snapshot.directories.iter().find_map(|directory| {
            let names = [Some(name), template.as_ref()];
            names.into_iter().flatten().find_map(|name| {
                match directory.entries.get(name.as_str()) {
                    Some(Entry::File(file)) => Some(file.parsed.clone()),
                    _ => None,
                }
            })
        })
    }

    // ---- loading ----

    fn load_names(&self, graph: &Arc<Graph>, mut names: BTreeSet<UnitName>) -> Loading {
        let mut work = LoadWork::new(graph);
        // Units with aliases first: names are settled before others refer to them.
        let first: Vec<UnitName> =
            names.iter().filter(|name| self.aliases.contains_key(*name)).cloned().collect();
        for name in first {
            let defined = self.define_name(&name);
            names.extend(work.take(name, defined));
        }
        if names.len() > 2 * CHANGES_PER_PIECE {
            let known: Vec<UnitName> = std::mem::take(&mut names).into_iter().collect();
            names = self.load_many(&known, &mut work);
        }
        while let Some(name) = names.pop_first() {
            if !work.done.contains(&name) {
                let defined = self.define_name(&name);
                names.extend(work.take(name, defined));
                work.apply_if_many();
            }
        }
        let mut loading = work.finish(graph, self.snapshot.work);
        if let Some(fleet) = &self.fleet {
            fleet.explain(&mut loading.diagnostics);
        }
        loading
    }

    /// Loads these names while another thread makes the definitions of those to come; returns
    /// the names that they lead to.
    fn load_many(&self, names: &[UnitName], work: &mut LoadWork) -> BTreeSet<UnitName> {
        let mut more = BTreeSet::new();
        let (sender, pieces) = std::sync::mpsc::sync_channel(PIECES_AHEAD_MAX);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for piece in names.chunks(CHANGES_PER_PIECE) {
                    let define = |name: &UnitName| (name.clone(), self.define_name(name));
                    let piece: Vec<(UnitName, Defined)> = piece.iter().map(define).collect();
                    if sender.send(piece).is_err() {
                        return;
                    }
                }
            });
            for (name, defined) in pieces.iter().flatten() {
                if !work.done.contains(&name) {
                    more.extend(work.take(name, defined));
                    work.apply_if_many();
                }
            }
        });
        more
    }

    /// What the files say about one name.
    fn define_name(&self, name: &UnitName) -> Defined {
        let mut diagnostics = Vec::new();
        match self.find(name) {
            Found::Unit { name: main, .. } if main != *name => Defined::Alias(main),
            Found::Unit { fragment, masked, .. } => {
                let change = self.define(name, fragment, masked, &mut diagnostics);
                Defined::Unit(change, diagnostics)
            }
            Found::Wrong(why) => {
                diagnostics.push(wrong_entry(name, why));
                Defined::Unit(Change::Set(Box::new(broken(name))), diagnostics)
            }
        }
    }

    /// The names that lead to this one: links, and for an instance those that its template has.
    fn aliases_of(&self, name: &UnitName) -> Vec<UnitName> {
        let own = self.aliases.get(name).into_iter().flatten().cloned();
        let (template, instance) = (name.template(), name.instance());
        let of_template = template.as_ref().and_then(|template| self.aliases.get(template));
        let made = of_template.into_iter().flatten().filter_map(|alias| {
            alias.with_instance(instance?).ok().filter(|alias| self.entry(alias.as_str()).is_none())
        });
        let aliases: BTreeSet<UnitName> = own.chain(made).collect();
        aliases.into_iter().collect()
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
        let files = Files { fragment, dropins: dropins.into(), links: links.into(), masked };
        if files.fragment.is_none()
            && files.dropins.is_empty()
            && !masked
            && is_absent(name, &files)
        {
            return Change::Remove(name.clone());
        }
        for file in files.fragment.iter().chain(&*files.dropins) {
            diagnostics
                .extend(self.snapshot.diagnostics.get(file.path()).into_iter().flatten().cloned());
        }
        let sources = files.sources();
        let (loaded, found) = load(name, &sources, &self.settings.context, &self.settings.defaults);
        diagnostics.extend(found);
        let mut relations = loaded.relations.into_vec();
        if is_kernel_file(files.fragment.as_ref()) {
            // The kernel holds on to the device as long as it is mounted.
            relations.retain(|(_, other)| other.unit_type() != UnitType::Device);
        }
        Change::Set(Box::new(NewDefinition {
            name: name.clone(),
            aliases,
            load_state: loaded.load_state,
            description: loaded.description,
            flags: loaded.flags,
            slice: loaded.slice,
            relations,
            files: Arc::new(files),
        }))
    }

    /// Drop-ins of a unit in the order in which they apply: by file name, and of several files
    /// with one name only the one of the most specific and highest directory.
    fn dropins(&self, names: &[UnitName]) -> Vec<Arc<UnitFile>> {
        let mut chosen: BTreeMap<&str, Option<&Arc<UnitFile>>> = BTreeMap::new();
        for owner in self.dropin_owners(names) {
            for directory in &self.snapshot.directories {
                let Some(Entry::Directory(entries)) = directory.entries.get(&owner) else {
                    continue;
                };
                for (name, entry) in entries.iter() {
                    let file = match entry {
                        Entry::File(file) => Some(&file.parsed),
                        _ => None,
                    };
                    chosen.entry(name).or_insert(file);
                }
            }
        }
        chosen.into_values().flatten().filter(|file| !file.is_empty()).cloned().collect()
    }

    /// The `.d` directories that exist for a unit, most specific first.
    fn dropin_owners(&self, names: &[UnitName]) -> Vec<Box<str>> {
        if self.dropin_names.is_empty() {
            return Vec::new();
        }
        let all = names.iter().flat_map(search::dropin_directories);
        all.map(String::into_boxed_str).filter(|name| self.dropin_names.contains(name)).collect()
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
    /// that a link to /dev/null takes it away. Templates get the unit's instance.
    fn links_in(&self, directory: &str, unit: &UnitName) -> impl Iterator<Item = UnitName> {
        let mut chosen: BTreeMap<&str, bool> = BTreeMap::new();
        for search in &self.snapshot.directories {
            if let Some(Entry::Directory(entries)) = search.entries.get(directory) {
                for (name, entry) in entries.iter() {
                    let taken_away =
                        matches!(entry, Entry::Link(link) if &*link.target == "/dev/null");
                    chosen.entry(name).or_insert(!taken_away);
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

enum Step {
    Done(Found),
    Alias(UnitName),
}

/// A template reached from an instance stands for the same instance of it.
fn for_instance(name: &UnitName, other: UnitName) -> UnitName {
    match (other.is_template(), name.instance()) {
        (true, Some(instance)) => other.with_instance(instance).unwrap_or(other),
        _ => other,
    }
}

/// Aliases are of the same type, and templates alias templates or instances theirs
/// (systemd.unit(5), "ALIAS").
fn is_valid_alias(alias: &UnitName, target: &UnitName) -> bool {
    let shapes = match (alias.is_template(), alias.is_instance()) {
        (true, _) => target.is_template(),
        (_, true) => {
            target.is_template() || target.is_instance() && alias.instance() == target.instance()
        }
        _ => !target.is_template(),
    };
    alias.unit_type() == target.unit_type() && shapes
}

/// Whether the owner of a `.d` directory is a `foo-` prefix or a bare type.
fn is_shared_owner(owner: &str) -> bool {
    match owner.rsplit_once('.') {
        None => UnitType::from_suffix(owner).is_some(),
        Some((stem, suffix)) => stem.ends_with('-') && UnitType::from_suffix(suffix).is_some(),
    }
}

fn instances<'a>(graph: &'a Graph, template: &'a UnitName) -> impl Iterator<Item = UnitName> + 'a {
    graph
        .names()
        .map(|(name, _)| name)
        .filter(move |name| name.is_instance() && name.template().as_ref() == Some(template))
        .cloned()
}

/// Units that may exist without a file of their own, or by a template: whoever names them makes
/// them be looked for.
fn needs_loading(name: &UnitName) -> bool {
    name.is_instance() || matches!(name.unit_type(), UnitType::Slice | UnitType::Device)
}

/// Whether a unit without any file is nothing at all.
fn is_absent(name: &UnitName, files: &Files) -> bool {
    let without_file =
        matches!(name.unit_type(), UnitType::Slice | UnitType::Device) || is_perpetual(name);
    !without_file && files.links.is_empty()
}

fn is_perpetual(name: &UnitName) -> bool {
    perpetual_units().any(|unit| unit == *name)
}

fn perpetual_units() -> impl Iterator<Item = UnitName> {
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
        files: Arc::default(),
    }
}

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

/// The generation without unit `definition`'s files: what the definition was compiled from.
pub fn file_paths(definition: &Definition) -> Vec<Arc<str>> {
    let files = definition.files.fragment.iter().chain(&*definition.files.dropins);
    files.map(|file| file.path().clone()).filter(|path| !path.is_empty()).collect()
}

/// Whether the unit stands for what the kernel has mounted, and no file is for it.
pub fn is_of_kernel(definition: &Definition) -> bool {
    is_kernel_file(definition.files.fragment.as_ref())
}

fn is_kernel_file(fragment: Option<&Arc<UnitFile>>) -> bool {
    fragment.is_some_and(|file| file.path().is_empty())
}

#[cfg(test)]
mod tests;
