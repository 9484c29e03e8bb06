//! The thread that owns the ground state. It makes generations; the loop puts them in force in the
//! order in which they were made.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use warren_bus::Outcome;
use warren_core::graph::{Delta, Graph};
use warren_core::model::time::Monotonic;
use warren_trace::words::Phase;
use warren_unit::install::{UnitFileState, says_how_to_install, state_without_links};
use warren_unit::{Defaults, Diagnostic, UnitName};
use warren_unit_files::Root;

use crate::base::clock::now;
use crate::base::say::say;
use crate::config::file_states::{FileState, FileStates};
use crate::config::first_generation::First;
use crate::config::fleet::Applied;
use crate::config::fleet::RulesChange;
use crate::config::generation_file::GenerationFile;
use crate::config::generators::{Generators, Occasion};
use crate::config::loader::{Loader, Loading};
use crate::config::transient::ClientFiles;
use crate::config::unit_files::{Ground, Question};
use crate::published::orders::{LoaderAnswer, LoaderOrder, Order, Reload};
use crate::published::shared::Shared;
use crate::recording::recorder::{Done, cpu_us};

/// Generations that are kept for rollback.
const KEPT_GENERATIONS_MAX: usize = 16;

/// Units whose installation states are looked at one by one, and looks for one; of more all are.
const STATES_APART_MAX: usize = 16;

/// What began then and has just ended.
fn did(phase: Phase, began: Monotonic, detail: u64) -> Done {
    Done { phase, began, ended: now().monotonic, detail }
}

/// When generators last began, be it for a manager that was killed. Where none ever did, what they
/// would read is as it is now.
fn generated_at_ns(generators: Option<&Generators>) -> u64 {
    let last = generators.and_then(Generators::last_began_ns);
    last.unwrap_or_else(warren_sys::time::coarse_ns)
}

fn is_mask(state: UnitFileState) -> bool {
    matches!(state, UnitFileState::Masked | UnitFileState::MaskedRuntime)
}

/// The thread's state.
pub struct LoaderThread {
    loader: Loader,
    graph: Arc<Graph>,
    /// Generations, and what rules made for each.
    kept: VecDeque<(Arc<Graph>, Applied)>,
    file: GenerationFile,
    /// Where what clients write lies.
    files: ClientFiles,
    generators: Option<Generators>,
    /// What was wrong with the manager's own file when it was last read, if there is one.
    stated: Option<Vec<Diagnostic>>,
    /// See [`generated_at_ns`]: ns since 1970 by the clock of file systems.
    generated_at_ns: u64,
    /// The last installation states that were made.
    states: Arc<FileStates>,
    /// Looks for one unit's state since all were last made.
    looks_apart: usize,
    shared: Arc<Shared>,
}

/// Forgetting so many units at once gives memory back to the kernel.
const TRIMMED_AFTER: usize = 256;

impl LoaderThread {
    /// Goes on from the generation that was found at the start.
    pub fn new(
        first: First,
        generators: Option<Generators>,
        stated: Option<Vec<Diagnostic>>,
        shared: Arc<Shared>,
    ) -> LoaderThread {
        let (loader, graph, file) = first.into_loader();
        shared.publish_rules(loader.applied());
        let kept = VecDeque::from([(graph.clone(), loader.applied())]);
        let generated_at_ns = generated_at_ns(generators.as_ref());
        let states = shared.states();
        let looks_apart = 0;
        let files = ClientFiles::of(&loader.paths());
        LoaderThread {
            files,
            loader,
            graph,
            kept,
            file,
            generators,
            stated,
            generated_at_ns,
            states,
            looks_apart,
            shared,
        }
    }

    fn publish_disk(&mut self) {
        self.shared.publish_disk(self.loader.on_disk(&self.graph, self.generated_at_ns));
    }

    /// What is known of the rest can be put in force.
    fn say_unread(&self) {
        if let Some(why) = self.loader.snapshot().unread() {
            say!("cannot read all unit files; keeping the previous version of those: {why}");
        }
    }

    /// Serves orders until the loop is gone.
    pub fn run(mut self, orders: Receiver<LoaderOrder>) {
        self.say_unread();
        self.loader.take_installation_changed();
        let states = self.all_states();
        self.shared.publish_states(states);
        self.file.write(&self.graph);
        warren_sys::heap::trim();
        self.publish_disk();
        while let Ok(order) = orders.recv() {
            let answer = match order {
                LoaderOrder::Reload { how, token } => self.reload(&how, token),
                LoaderOrder::LoadOne { name, goes_far, token } => {
                    self.load_one(&name, goes_far, token)
                }
                LoaderOrder::Mounts { changes, token } => {
                    let loading = self.loader.load_mounts(&self.graph, changes);
                    self.take(token, loading)
                }
                LoaderOrder::Forget { names, token } => self.forget(&names, token),
                LoaderOrder::Transient { files, token } => self.make_transient(&files, token),
                LoaderOrder::SetProperties { unit, runtime, dropins, token } => {
                    self.set_properties(&unit, runtime, &dropins, token)
                }
                LoaderOrder::Files { question, reply } => {
                    let answer = self.of_files(&question);
                    self.publish_disk();
                    reply.send(answer);
                    continue;
                }
            };
            // Who hears that a reload is done can rely on what it did, whoever is killed then.
            self.file.write_ahead(&self.graph);
            self.publish_disk();
            self.shared.order(Order::Loaded(Box::new(answer)));
            self.file.write(&self.graph);
        }
    }

    fn of_files(&mut self, question: &Question) -> Outcome {
        match question {
            Question::Look { unit: Some(unit), goes_far } => self.look_at_state(unit, *goes_far),
            Question::Look { unit: None, .. } => self.look_at_all_states(),
            _ => self.loader.look_nearby(&question.changed_units()),
        }
        let rules = self.shared.rules();
        let (snapshot, context) = (self.loader.snapshot(), self.loader.context());
        let (outcome, has_changed) = Ground { snapshot, context, rules: &rules }.answer(question);
        if has_changed {
            self.shared.order(Order::FilesChanged);
        }
        outcome
    }

    /// Has what is told of this unit's file be what lies on the disk. What is found at the same time is made
    /// known for all after some looks, as each looks for the unit among all entries.
    fn look_at_state(&mut self, unit: &UnitName, goes_far: bool) {
        self.loader.look_at(unit, goes_far);
        if !self.loader.is_unstated() {
            return;
        }
        self.looks_apart += 1;
        let states = match self.looks_apart {
            ..=STATES_APART_MAX => self.states_with(std::slice::from_ref(unit)),
            _ => self.all_states(),
        };
        self.shared.publish_states(states);
    }

    /// The same of all files.
    fn look_at_all_states(&mut self) {
        self.loader.look_nearby(&[]);
        if self.loader.is_unstated() {
            let states = self.all_states();
            self.shared.publish_states(states);
        }
    }

    fn answer(&mut self, token: u64, loading: Loading, dry_run: bool) -> LoaderAnswer {
        let changed = !loading.delta.is_empty();
        if !dry_run {
            self.graph = loading.graph.clone();
        }
        if changed && !dry_run {
            self.kept.push_back((self.graph.clone(), self.loader.applied()));
            if self.kept.len() > KEPT_GENERATIONS_MAX {
                self.kept.pop_front();
            }
        }
        let differ = changed || self.loader.has_installation_changed();
        let states = (differ && !dry_run).then(|| self.new_states(&loading.delta));
        LoaderAnswer { states, ..LoaderAnswer::of(token, loading, dry_run) }
    }

    fn refuse(&self, token: u64, error: String) -> LoaderAnswer {
        let loading = Loading::new(self.graph.clone(), Delta::default(), Default::default());
        LoaderAnswer { error: Some(error), ..LoaderAnswer::of(token, loading, true) }
    }

    fn reload(&mut self, how: &Reload, token: u64) -> LoaderAnswer {
        if let Some(generation) = how.rollback {
            return self.rollback(generation, token);
        }
        // Faulty rules leave everything as it is.
        if how.unit.is_none()
            && let Err(faults) = self.loader.look_at_rules(how.full)
        {
            return self.refuse(token, faults);
        }
        if how.rules_only {
            let loading = self.loader.reload_rules(&self.graph, how.dry_run);
            return self.answer(token, loading, how.dry_run);
        }
        // A dry run is to change nothing, and they write what they make.
        let all = how.unit.is_none() && !how.dry_run;
        let (cpu_us, mut done) = (cpu_us(), Vec::new());
        if all {
            match self.generate() {
                Ok(ran) => done.extend(ran),
                Err(why) => return self.refuse(token, why),
            }
        }
        let began = now().monotonic;
        let (defaults, faults) = if all { self.look_at_defaults() } else { Default::default() };
        self.loader.look(how.full && how.unit.is_none());
        if let Some(why) = self.loader.snapshot().shortage() {
            return self.refuse(token, format!("cannot read all unit files: {why}"));
        }
        self.say_unread();
        let scanned = did(Phase::Scan, began, 0);
        let began = scanned.ended;
        let mut loading = match &how.unit {
            Some(unit) => self.loader.refresh(&self.graph, unit, how.dry_run),
            None => self.loader.reload(&self.graph, how.dry_run),
        };
        loading.diagnostics.extend(faults);
        done.push(Done { detail: loading.work.parsed.into(), ..scanned });
        let delta = &loading.delta;
        let computed = delta.added.len() + delta.changed.len() + delta.removed.len();
        let linked = did(Phase::Link, began, computed as u64);
        done.push(linked);
        let answer = self.answer(token, loading, how.dry_run);
        if all {
            self.loader.note_stated();
        }
        if answer.states.is_some() {
            done.push(did(Phase::Enabled, linked.ended, 0));
        }
        let environment = self.generators.as_ref().filter(|_| all).map(Generators::environment);
        LoaderAnswer { done, cpu_us, environment, defaults, ..answer }
    }

    /// Reads the manager's own file again. What units get that say nothing, if that is another now, and what is
    /// wrong with the file, if that is new.
    fn look_at_defaults(&mut self) -> (Option<Arc<Defaults>>, Vec<Diagnostic>) {
        let Some(stated) = &mut self.stated else { return Default::default() };
        let (defaults, faults) = warren_unit_files::manager_defaults(self.loader.context());
        let is_new = *stated != faults;
        let told = if is_new { faults.clone() } else { Vec::new() };
        *stated = faults;
        let changed = self.loader.set_defaults(&self.graph, defaults);
        if let (Some(defaults), Some(generators)) = (&changed, &mut self.generators) {
            generators.set_defaults(defaults.environment.clone());
        }
        (changed, told)
    }

    /// Runs the generators, if there are any. Without all that they make, the last is what counts.
    fn generate(&mut self) -> Result<Option<Done>, String> {
        let began = now().monotonic;
        let ran =
            self.generators.as_ref().map(|all| all.run_apart(Occasion::Reload)).transpose()?;
        self.generated_at_ns = generated_at_ns(self.generators.as_ref());
        Ok(ran.map(|()| did(Phase::Generators, began, 0)))
    }

    /// A name that nothing has led to so far may be that of a file that was written just now: such a
    /// unit needs no reload, as with systemd. Instances that come with each connection cost no look.
    fn load_one(&mut self, name: &UnitName, goes_far: bool, token: u64) -> LoaderAnswer {
        if !name.is_instance() || !self.loader.has_file(name) {
            let far = goes_far.then_some(name);
            self.loader.look_nearby(far.map_or(&[], std::slice::from_ref));
        }
        let loading = self.loader.load_one(&self.graph, name);
        self.take(token, loading)
    }

    /// Units of these files, none of which may have had one; with an error, those that there are.
    fn make_transient(&mut self, files: &[(UnitName, String)], token: u64) -> LoaderAnswer {
        let names: Vec<UnitName> = files.iter().map(|(name, _)| name.clone()).collect();
        self.loader.look_nearby(&names);
        let existing = names.iter().find(|name| self.loader.has_file(name));
        let error = match existing {
            Some(name) => Some(format!("Unit {name} was already loaded or has a fragment file.")),
            None => self
                .files
                .write_units(files)
                .err()
                .map(|error| format!("the files of transient units cannot be written: {error}")),
        };
        self.loader.look_nearby(&names);
        let loading = self.loader.load_made(&self.graph, names.clone());
        if error.is_some() {
            return LoaderAnswer { error, ..self.take(token, loading) };
        }
        self.graph = loading.graph.clone();
        let states = self.states_of_made(&names);
        LoaderAnswer { states: Some(states), ..LoaderAnswer::of(token, loading, false) }
    }

    /// The states with those of units that clients made just now, of which nothing else can say anything.
    fn states_of_made(&mut self, names: &[UnitName]) -> Arc<FileStates> {
        let directory =
            self.loader.snapshot().paths().position(|path| self.files.is_of_units(path));
        let state = UnitFileState::Transient;
        let made = FileState {
            state,
            of_instances: state,
            directory: directory.and_then(|index| u16::try_from(index).ok()),
        };
        let mut states = (*self.states).clone();
        names.iter().for_each(|name| states.set(name, Some(made)));
        self.keep_states(states)
    }

    /// Settings of a unit that is loaded, as drop-ins: they are in force with the answer.
    fn set_properties(
        &mut self,
        unit: &UnitName,
        runtime: bool,
        dropins: &[(&'static str, String)],
        token: u64,
    ) -> LoaderAnswer {
        if let Err(error) = self.files.write_settings(unit, runtime, dropins) {
            return self
                .refuse(token, format!("the settings of {unit} cannot be written: {error}"));
        }
        self.loader.look_nearby(std::slice::from_ref(unit));
        let loading = self.loader.refresh(&self.graph, unit, false);
        self.take(token, loading)
    }

    fn forget(&mut self, names: &[UnitName], token: u64) -> LoaderAnswer {
        let transient: Vec<UnitName> =
            names.iter().filter(|name| self.is_transient(name)).cloned().collect();
        if !transient.is_empty() {
            transient.iter().for_each(|name| self.files.remove(name));
            self.loader.look_nearby(&transient);
        }
        let loading = self.loader.forget(&self.graph, names);
        let states = (!transient.is_empty()).then(|| self.states_without(&transient));
        let answer = self.take(token, loading);
        if names.len() >= TRIMMED_AFTER {
            warren_sys::heap::trim();
        }
        LoaderAnswer { states: states.or(answer.states), ..answer }
    }

    fn is_transient(&self, name: &UnitName) -> bool {
        let fragment = self
            .graph
            .lookup(name)
            .and_then(|unit| self.graph.definition(unit).files.fragment.as_ref());
        fragment.is_some_and(|file| self.files.is_transient(file.path()))
    }

    /// A generation that no reload made: there is no going back to it, and no file differs.
    fn take(&mut self, token: u64, loading: Loading) -> LoaderAnswer {
        self.graph = loading.graph.clone();
        let states = self.states_of_found(&loading.delta);
        LoaderAnswer { states, ..LoaderAnswer::of(token, loading, false) }
    }

    /// The installation states with those of units that no reload loaded, if one of them has a file that
    /// they may not be of.
    fn states_of_found(&mut self, delta: &Delta) -> Option<Arc<FileStates>> {
        if !self.loader.is_unstated() {
            return None;
        }
        let units = delta.added.iter().chain(&delta.changed).map(|&unit| self.graph.name(unit));
        // An instance has the state of its template's, unless a link is for it.
        let is_known = |name: &UnitName| name.is_instance() && self.states.get(name).is_some();
        let found = units.filter(|name| self.loader.has_file(name) && !is_known(name));
        let found: Vec<UnitName> = found.cloned().collect();
        match found.len() {
            0 => None,
            1..=STATES_APART_MAX => Some(self.states_with(&found)),
            _ => Some(self.all_states()),
        }
    }

    /// Puts an earlier generation's definitions in force again, as a new generation. The files stay
    /// as they are: the next reload that finds them changed brings them back.
    fn rollback(&mut self, generation: u64, token: u64) -> LoaderAnswer {
        let found = self.kept.iter().find(|(graph, _)| graph.generation() == generation).cloned();
        let Some((old, rules)) = found else {
            let kept: Vec<String> =
                self.kept.iter().map(|(graph, _)| graph.generation().to_string()).collect();
            let kept = kept.join(", ");
            return self.refuse(
                token,
                format!("generation {generation} is no longer kept; available: {kept}"),
            );
        };
        let (graph, delta) = self.graph.restored_to(&old);
        let before = self.loader.applied();
        self.loader.set_rules_back(rules.clone());
        let mut loading = Loading::new(Arc::new(graph), delta, Default::default());
        loading.rules = Some(RulesChange { before, after: rules });
        self.answer(token, loading, false)
    }

    /// The installation states that go with a new generation. New text in a file changes the state
    /// of that unit at most; new links can change that of any, and templates are no units.
    fn new_states(&mut self, delta: &Delta) -> Arc<FileStates> {
        if self.loader.take_installation_changed() {
            return self.all_states();
        }
        let mut states = (*self.states).clone();
        let mut again = Vec::new();
        for &unit in delta.added.iter().chain(&delta.changed) {
            let definition = self.graph.definition(unit);
            let Some(file) = &definition.files.fragment else { continue };
            if definition.files.dropins().iter().any(|dropin| says_how_to_install(dropin)) {
                return self.all_states();
            }
            let now = state_without_links(file);
            match states.get(&definition.name) {
                // Which masks, or masked until now.
                known if file.is_empty() || known.is_some_and(is_mask) => {
                    again.push(definition.name.clone());
                    again.extend(definition.aliases.iter().cloned());
                }
                // By a link that its Alias= may no longer name.
                Some(UnitFileState::Enabled | UnitFileState::EnabledRuntime)
                    if !definition.aliases.is_empty()
                        || self.loader.snapshot().has_link_out(&definition.name) =>
                {
                    again.push(definition.name.clone());
                }
                Some(UnitFileState::Static | UnitFileState::Disabled) => {
                    states.change(&definition.name, now);
                }
                Some(UnitFileState::Indirect) => return self.all_states(),
                // Its file was not there before.
                None => again.push(definition.name.clone()),
                _ => {}
            }
        }
        again.extend(delta.removed.iter().map(|&unit| self.graph.name(unit).clone()));
        if again.len() > STATES_APART_MAX {
            return self.all_states();
        }
        self.look_again(&mut states, &again);
        self.keep_states(states)
    }

    fn keep_states(&mut self, mut states: FileStates) -> Arc<FileStates> {
        states.number += 1;
        self.states = Arc::new(states);
        self.states.clone()
    }

    /// The states with those of these units as they are on the disk.
    fn states_with(&mut self, units: &[UnitName]) -> Arc<FileStates> {
        let mut states = (*self.states).clone();
        self.look_again(&mut states, units);
        self.keep_states(states)
    }

    /// The states without those of units that clients made and that are gone, unless they have another file.
    fn states_without(&mut self, units: &[UnitName]) -> Arc<FileStates> {
        let mut states = (*self.states).clone();
        let (with_file, gone): (Vec<UnitName>, Vec<UnitName>) =
            units.iter().cloned().partition(|unit| self.loader.has_file(unit));
        gone.iter().for_each(|unit| states.set(unit, None));
        self.look_again(&mut states, &with_file);
        self.keep_states(states)
    }

    /// Has these units' states be as they are on the disk.
    fn look_again(&self, states: &mut FileStates, units: &[UnitName]) {
        let (snapshot, context) = (self.loader.snapshot(), self.loader.context());
        for unit in units {
            for name in unit.template().into_iter().chain([unit.clone()]) {
                states.set(&name, crate::config::install::state_of(snapshot, context, &name));
            }
        }
        if units.contains(&crate::config::install::default_name()) {
            states.default_target = crate::config::install::default_target(snapshot, context);
        }
    }

    /// All states, made anew.
    fn all_states(&mut self) -> Arc<FileStates> {
        self.loader.note_stated();
        self.looks_apart = 0;
        let mut states = self.made_states();
        states.number = self.states.number;
        self.keep_states(states)
    }

    /// `UnitFileState` of everything that has a file, and of the instances that there are.
    fn made_states(&self) -> FileStates {
        let names = self.graph.names().map(|(name, _)| name);
        let instances = names.filter(|name| name.is_instance()).cloned();
        let scope = self.loader.context().scope;
        let presets = warren_unit_files::presets_for(&Root::OWN, scope);
        crate::config::install::states(
            self.loader.snapshot(),
            self.loader.context(),
            instances,
            presets,
        )
    }
}
