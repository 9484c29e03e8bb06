//! From the directories' ground state to definitions: which files make which unit, and what a
//! change of a file changes.
//!
//! Runs on a thread of its own. It is given the generation in force, and returns the next one with
//! what differs; the loop puts it in force. The rules are those of systemd.unit(5), "UNIT FILE
//! LOAD PATH".
//!
//! `names` says which file a name leads to, `define` what the files of a unit come to, `work`
//! makes changes of the graph of that, and `rules` puts the units that rules make among them.
//! `pending` is what waits for a reload.

mod define;
mod names;
mod pending;
mod rules;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::graph::{Delta, Graph};
use warren_core::settings::Settings;
use warren_unit::{Context, Defaults, Diagnostic, LoadState, UnitName};

use crate::base::parallel;
use crate::config::fleet;
use crate::config::fleet::{Fleet, RulesChange};
use crate::config::snapshot::{KnownFiles, Snapshot, Work};
use crate::mount::kernel_mounts::{Changed, FoundMounts, KernelMounts, MountsNow};
use define::perpetual_units;
use names::is_for_template;
use pending::Pending;

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

impl Loading {
    /// A load that came to this generation.
    pub fn new(graph: Arc<Graph>, delta: Delta, work: Work) -> Loading {
        Loading { graph, delta, diagnostics: Vec::new(), work, rules: None }
    }
}

/// For each unit, the names that lead to it.
type Aliases = BTreeMap<UnitName, BTreeSet<UnitName>>;

/// The loader's state.
pub struct Loader {
    snapshot: Snapshot,
    settings: Settings,
    /// For each unit, the aliases that lead to it.
    aliases: Arc<Aliases>,
    /// The same as it is in force; of a unit that was loaded alone there may be more.
    settled: Arc<Aliases>,
    /// What differs on disk and is not in force yet: after a dry run, a refresh of one unit, or a look
    /// for a unit that was started or enabled.
    pending: Pending,
    /// Names, links or what is for templates changed since the installation states were last looked at
    /// as a whole.
    installation_changed: bool,
    /// Something was found since the installation states were last made as a whole.
    is_unstated: bool,
    /// Names of all `X.d` directories, so that units without any need no look at them.
    dropin_names: BTreeSet<Box<str>>,
    /// Names of links to units, and of what they lead to.
    linked: BTreeSet<Box<str>>,
    /// Every X that has an `X.wants`, `X.requires` or `X.upholds` directory.
    link_owners: BTreeSet<Box<str>>,
    /// The rules that make units, if there may be any.
    fleet: Option<Fleet>,
    /// What the kernel has mounted: weaker than any file.
    mounted: KernelMounts,
    /// Names that there can be; fewer in tests.
    names_max: usize,
}

impl Loader {
    /// A loader over these search directories, with these rules and mounts among them.
    pub fn new(
        paths: Vec<PathBuf>,
        settings: Settings,
        fleet: Option<Fleet>,
        mounts: FoundMounts,
    ) -> Loader {
        let mut loader = Loader::knowing(paths, settings, fleet, KnownFiles::new(), Fleet::start);
        loader.set_mounts(mounts);
        loader
    }

    /// A loader that goes on from a generation that was made by another incarnation. What differs
    /// from it on disk waits for a reload.
    pub fn resumed(
        paths: Vec<PathBuf>,
        settings: Settings,
        mut fleet: Option<Fleet>,
        mut mounts: FoundMounts,
        graph: &Arc<Graph>,
    ) -> Loader {
        let files = graph.definitions().map(|definition| &definition.files);
        let files = files.flat_map(|files| files.iter());
        let known = files.map(|file| (file.path().clone(), file.clone())).collect();
        if let Some(fleet) = &mut fleet {
            fleet.know(&known);
        }
        let mut loader = Loader::knowing(paths, settings, fleet, known, Fleet::resume);
        mounts.kernel.take_up(graph);
        loader.set_mounts(mounts);
        let Loading { graph: next, delta, .. } = loader.load_all(graph);
        let differing = delta.added.iter().chain(&delta.changed).chain(&delta.removed);
        let differing = differing.map(|&unit| next.name(unit).as_str().into()).collect();
        loader.pending.extend(differing);
        loader
    }

    fn knowing(
        paths: Vec<PathBuf>,
        settings: Settings,
        mut fleet: Option<Fleet>,
        known: KnownFiles,
        begin: fn(&mut Fleet),
    ) -> Loader {
        let read = || Snapshot::read_knowing(paths, known);
        let mut snapshot = match &mut fleet {
            None => read(),
            Some(fleet) => {
                let thread = parallel::with_stack(fleet::STACK_BYTES);
                parallel::both(thread, || begin(fleet), read).1
            }
        };
        if let Some(fleet) = &mut fleet {
            let paths: Vec<PathBuf> = snapshot.paths().map(Path::to_path_buf).collect();
            snapshot.add_made(fleet::place_in(&paths), fleet.directory().to_owned());
            fleet.apply(&mut snapshot);
        }
        let mut loader = Loader {
            snapshot,
            settings,
            aliases: Arc::default(),
            settled: Arc::default(),
            pending: Pending::default(),
            installation_changed: true,
            is_unstated: true,
            dropin_names: BTreeSet::new(),
            linked: BTreeSet::new(),
            link_owners: BTreeSet::new(),
            fleet,
            mounted: KernelMounts::default(),
            names_max: work::NAMES_MAX,
        };
        loader.refresh_index();
        loader.settled = loader.aliases.clone();
        loader
    }

    /// What is mounted before the first load.
    fn set_mounts(&mut self, mounts: FoundMounts) {
        self.mounted = mounts.kernel;
        self.note_mounts(mounts.now.into_iter());
    }

    fn note_mounts(&mut self, changes: impl Iterator<Item = Changed>) -> BTreeSet<UnitName> {
        let (mut names, mut now) = (BTreeSet::new(), MountsNow::default());
        for mut changed in changes {
            if self.has_entry(&changed.name) {
                changed.mount = None;
            }
            names.insert(changed.name.clone());
            self.mounted.set(changed, &mut now);
        }
        names
    }

    /// Loads the units of names that gained or lost a mount.
    pub fn load_mounts(&mut self, graph: &Arc<Graph>, changes: Vec<Changed>) -> Loading {
        self.refresh_index();
        self.take_news(graph);
        let names = self.note_mounts(changes.into_iter());
        let loading = self.load_names(graph, names);
        self.settle(&loading);
        self.note_found(graph, &loading);
        loading
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

    /// Whether the installation states may differ in more than those of units that were loaded.
    pub fn has_installation_changed(&self) -> bool {
        self.installation_changed
    }

    /// The same since this was last asked.
    pub fn take_installation_changed(&mut self) -> bool {
        std::mem::take(&mut self.installation_changed)
    }

    /// Whether something was found since the installation states were last made as a whole.
    pub fn is_unstated(&self) -> bool {
        self.is_unstated
    }

    /// They are made now.
    pub fn note_stated(&mut self) {
        self.is_unstated = false;
    }

    /// The ground state.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Loads every unit that has a file, from scratch, over `graph` (whose names keep their ids).
    pub fn load_all(&mut self, graph: &Arc<Graph>) -> Loading {
        self.refresh_index();
        let mut names: BTreeSet<UnitName> = self.unit_names().collect();
        names.extend(perpetual_units());
        names.extend(self.mounted.names().cloned());
        let known = graph.definitions().filter(|d| d.load_state != LoadState::NotFound);
        names.extend(known.map(|d| d.name.clone()));
        // Of those that need no file of their own, some may be there only because somebody asked for them.
        names.extend(graph.names().map(|(name, _)| name.clone()).filter(work::needs_loading));
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
            true => self.pending.names().clone(),
            false => self.pending.take(),
        };
        self.load_with_rules(graph, changed, dry_run)
    }

    /// The same for what concerns one unit; other changes wait.
    pub fn refresh(&mut self, graph: &Arc<Graph>, unit: &UnitName, dry_run: bool) -> Loading {
        let concerns =
            |name: &str| self.affected(graph, &BTreeSet::from([name.into()])).contains(unit);
        let mine: BTreeSet<Box<str>> =
            self.pending.names().iter().filter(|n| concerns(n)).cloned().collect();
        if !dry_run {
            self.take_news(graph);
            let units = self.affected(graph, &mine);
            self.pending.settle(&mine, units);
        }
        let loading = self.load_changed(graph, &mine, Some(unit));
        if !dry_run {
            self.settle(&loading);
            self.settle_unit(unit);
        }
        loading
    }

    /// What units get that say nothing is this from now on, which is returned if it is another. All units are
    /// loaded with the next reload where what they depend on follows from it.
    pub fn set_defaults(&mut self, graph: &Graph, defaults: Defaults) -> Option<Arc<Defaults>> {
        let before = &self.settings.defaults;
        if **before == defaults {
            return None;
        }
        if before.standard_output.is_logged() != defaults.standard_output.is_logged() {
            self.pending.extend(graph.definitions().map(|d| d.name.as_str().into()).collect());
        }
        self.settings.defaults = Arc::new(defaults);
        Some(self.settings.defaults.clone())
    }

    /// Finds out which files changed and reads those: at every file, or only at those that the
    /// kernel told of.
    pub fn look(&mut self, full: bool) {
        let changed = if full { self.snapshot.sweep() } else { self.snapshot.update() };
        self.note_changed(changed);
    }

    /// The same for who starts or enables these units, without what lies behind other units' links to
    /// where no configuration is: that waits for a reload.
    pub fn look_nearby(&mut self, units: &[UnitName]) {
        let changed = self.snapshot.update_nearby(units);
        self.note_changed(changed);
    }

    /// The same for who asks what is told of this unit's file, behind its links to there only if it goes far.
    pub fn look_at(&mut self, unit: &UnitName, goes_far: bool) {
        let changed = self.snapshot.update_of(unit, goes_far);
        self.note_changed(changed);
    }

    fn note_changed(&mut self, mut changed: BTreeSet<Box<str>>) {
        self.is_unstated |= !changed.is_empty();
        // What a directory of links says depends on which of them lead to masks.
        changed.extend(self.snapshot.take_remasked());
        self.pending.extend(changed);
    }

    /// Loads what these changes and those of aliases touch; of aliases only this unit's, if one is named.
    fn load_changed(
        &mut self,
        graph: &Arc<Graph>,
        changed: &BTreeSet<Box<str>>,
        only: Option<&UnitName>,
    ) -> Loading {
        let work = self.snapshot.work;
        self.refresh_index();
        self.installation_changed |= changed.iter().any(|name| is_for_template(name));
        let mut names = self.affected(graph, changed);
        names.extend(self.realiased(graph, only));
        if only.is_none() {
            // Who has such a name as an alias may have lost it to the unit's own file.
            let had = names.iter().filter_map(|name| graph.lookup(name));
            let had: Vec<UnitName> = had.map(|unit| graph.name(unit).clone()).collect();
            names.extend(had);
        }
        if names.is_empty() {
            return Loading::new(graph.clone(), Delta::default(), work);
        }
        let mut loading = self.load_names(graph, names);
        loading.work = work;
        loading
    }

    /// Whether the unit, or its template, had a file when we last looked.
    pub fn has_file(&self, name: &UnitName) -> bool {
        self.has_entry(name) || name.template().is_some_and(|template| self.has_entry(&template))
    }

    /// Loads one name that nothing has led to so far: an instance, or a unit made just now.
    pub fn load_one(&mut self, graph: &Arc<Graph>, name: &UnitName) -> Loading {
        self.refresh_index();
        self.take_news(graph);
        let loading = self.load_name(graph, name);
        self.settle(&loading);
        self.note_found(graph, &loading);
        loading
    }

    /// The same of several that clients made at once.
    pub fn load_made(&mut self, graph: &Arc<Graph>, names: Vec<UnitName>) -> Loading {
        self.refresh_index();
        self.take_news(graph);
        let names: BTreeSet<UnitName> = names.into_iter().collect();
        let files = names.iter().map(|name| name.as_str().into()).collect();
        let loading = self.load_names(graph, names.clone());
        self.settle(&loading);
        self.pending.settle(&files, names);
        loading
    }

    /// The generation without these units, but for those that got a file meanwhile.
    pub fn forget(&mut self, graph: &Arc<Graph>, names: &[UnitName]) -> Loading {
        self.refresh_index();
        self.take_news(graph);
        let without_file: Vec<UnitName> =
            names.iter().filter(|name| !self.has_entry(name)).cloned().collect();
        self.pending.forget(&without_file);
        let (next, delta) = graph.forget(&without_file);
        let graph = if delta.is_empty() { graph.clone() } else { Arc::new(next) };
        Loading::new(graph, delta, Work::default())
    }
}

#[cfg(test)]
mod tests;
