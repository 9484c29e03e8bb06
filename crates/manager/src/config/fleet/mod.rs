//! Units that rules make (`warren-fleet`): a layer of its own among the search directories.
//!
//! The rules are read and evaluated when the configuration is read again, off the loop. What they
//! make enters the ground state as if it were files of a directory, `/run/warren/fleet`; nothing of
//! it is on a disk. A fault in any rule leaves everything as it was.
//!
//! Three states are kept apart: what the files say (`files`), what the newest evaluation without a
//! fault made (`session`), and what is in force (`applied`). Start at [`Fleet::look`].
//!
//! # Precedence
//! The layer is weaker than what is written by hand for one unit (`/etc/systemd/system`,
//! `/run/systemd/system`), so that an exception needs no rule, and stronger than what generators
//! make and packages bring. Whatever hides another file, or is hidden, is reported.

mod applied;
mod cause;
mod kept;
mod layer;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use warren_core::graph::Definition;
use warren_fleet::Severity;
use warren_fleet::engine::Options;
use warren_fleet::made::{Product, Spot};
use warren_fleet::session::{BOUNDS, Delta, Loaded, Message, Session};
use warren_fleet_files::{Changes, Files, Host, Reading};
use warren_unit::parse::UnitFile;
use warren_unit::{Code, Context, Diagnostic, UnitName};

use crate::base::parallel;
use crate::base::say::say;
use crate::config::snapshot::{KnownFiles, Snapshot};

pub use applied::{Applied, RulesChange};
pub use cause::{RuleCause, causes};
pub use show::{Shown, relative};

use applied::Paths;

/// Stack of a thread that evaluates, in bytes: that may be some hundred levels deep.
pub const STACK_BYTES: usize = 64 << 20;

/// Warnings that are kept, those of earlier edits among them.
const WARNINGS_MAX: usize = 200;

/// The rules and what came of them.
pub struct Fleet {
    files: Files,
    /// The layer's directory.
    directory: PathBuf,
    /// What specifiers refer to.
    context: Arc<Context>,
    session: Option<Session>,
    applied: Applied,
    /// Files of the layer that another incarnation's generation has.
    known: BTreeMap<Box<str>, Arc<UnitFile>>,
    /// Where `session` and `applied` differ: in a unit's text, or only in where lines come from.
    pending: Paths,
    /// `applied` was set back: only new rules, or somebody's word, bring `session` into force.
    is_set_back: bool,
    /// Why the newest evaluation came to nothing; empty if it did not.
    faults: Vec<Message>,
    /// What it warned of.
    warnings: Vec<Message>,
}

impl Fleet {
    /// Over the rules in `rules`, for a layer that says it is `directory`.
    pub fn new(rules: PathBuf, directory: PathBuf, context: Arc<Context>) -> Fleet {
        Fleet {
            files: Files::new(rules, true),
            directory,
            context,
            session: None,
            applied: Applied::new(),
            known: BTreeMap::new(),
            pending: Paths::new(),
            is_set_back: false,
            faults: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The layer's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is in force.
    pub fn applied(&self) -> &Applied {
        &self.applied
    }

    /// Why the newest evaluation came to nothing; empty if it did not.
    pub fn faults(&self) -> &[Message] {
        &self.faults
    }

    /// The first evaluation. If the rules are broken, those that were in force last are used, if
    /// this is not the first manager since the start of the machine.
    pub fn start(&mut self) {
        self.evaluate();
        if self.faults.is_empty() {
            self.keep();
        } else if let Some(session) = self.kept_session() {
            say!(
                "rules in {} are invalid: keeping the previous rules",
                self.files.directory().display()
            );
            self.take_session(session);
        }
    }

    /// Takes note of the layer's files among those of a generation: what the rules make once more is
    /// the same value then, and no unit differs.
    pub fn know(&mut self, files: &KnownFiles) {
        let below = |path: &Arc<str>| relative(&self.directory, path).map(Box::from);
        let own = files.iter().filter_map(|(path, file)| Some((below(path)?, file.clone())));
        self.known = own.collect();
    }

    /// After a crash, when units are as they were already: the rules that were in force then, so
    /// that each unit's are known again. What the files say meanwhile is for the next look.
    pub fn resume(&mut self) {
        match self.kept_session() {
            Some(session) => self.take_session(session),
            None => self.start(),
        }
    }

    /// What the rules come to that were in force last, if they are kept.
    fn kept_session(&self) -> Option<Session> {
        let sources = kept::read(&self.kept_file())?;
        let (root, directory) = (self.files.root(), self.directory_text());
        let kept = Box::new(kept::KeptSources(sources));
        on_deep_stack(|| Session::load(root, kept, &options(), &directory)).session
    }

    /// Reads what changed of the rules and evaluates it. Afterwards [`Fleet::faults`] says whether
    /// the newest rules came to something.
    pub fn look(&mut self, full: bool) {
        let changes = self.files.changes(full);
        if !changes.is_empty() {
            self.evaluate_changes(&changes);
        }
    }

    /// An edit of objects makes again what reads them; anything else is evaluated from scratch.
    fn evaluate_changes(&mut self, changes: &Changes) {
        let session = self.session.take_if(|_| self.faults.is_empty() && !changes.others);
        let edit =
            |session: Session| on_deep_stack(|| session.change(&changes.modified, &options()));
        match session.and_then(edit) {
            Some((session, delta)) => self.take_change(session, delta),
            None => self.evaluate(),
        }
    }

    fn take_change(&mut self, session: Session, delta: Delta) {
        self.session = Some(session);
        self.warnings.extend(delta.warnings);
        self.warnings.truncate(WARNINGS_MAX);
        match std::mem::take(&mut self.is_set_back) {
            true => self.compare(),
            false => delta.paths.into_iter().for_each(|path| self.compare_one(path)),
        }
    }

    /// Notes whether the newest evaluation differs in one file from what is in force.
    fn compare_one(&mut self, path: Box<str>) {
        let product = self.session.as_ref().and_then(|session| session.products().get(&path));
        match product == self.applied.get(&path) {
            true => self.pending.remove(&path),
            false => self.pending.insert(path),
        };
    }

    fn evaluate(&mut self) {
        // Two sessions at once would be twice the memory.
        self.session = None;
        self.pending.clear();
        let (root, directory) = (self.files.root(), self.directory_text());
        let mut log = |line: &str| say!("rules: {line}");
        let load = |reading: Reading<'_>| {
            on_deep_stack(|| Session::load(root, Box::new(reading), &options(), &directory))
        };
        let Loaded { session, messages } = self.files.read(&mut log, load);
        let (faults, warnings) =
            messages.into_iter().partition(|m: &Message| m.severity == Severity::Error);
        (self.faults, self.warnings) = (faults, warnings);
        if let Some(session) = session {
            self.take_session(session);
        }
        // Evaluation takes several times what it leaves.
        warren_sys::heap::trim();
    }

    fn take_session(&mut self, session: Session) {
        self.session = Some(session.slim());
        self.is_set_back = false;
        self.compare();
    }

    /// Finds everything in which the newest evaluation differs from what is in force.
    fn compare(&mut self) {
        self.pending.clear();
        let Some(session) = &mut self.session else { return };
        for (path, applied) in &self.applied {
            match session.products().get(path) {
                None => {
                    self.pending.insert(path.clone());
                }
                Some(product)
                    if product.origin != applied.origin || product.file != applied.file =>
                {
                    self.pending.insert(path.clone());
                }
                Some(_) => {}
            }
        }
        let new = session.products().keys().filter(|path| !self.applied.contains_key(*path));
        self.pending.extend(new.cloned());
    }

    /// Whether the newest evaluation differs from what is in force and is to come into force.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty() && !self.is_set_back
    }

    /// Somebody asks for what the rules say, whatever was set back; returns whether it was.
    pub fn insist(&mut self) -> bool {
        let was_set_back = std::mem::take(&mut self.is_set_back);
        if was_set_back {
            self.compare();
        }
        was_set_back
    }

    /// As if [`Fleet::insist`] had not been called.
    pub fn desist(&mut self) {
        self.is_set_back = true;
    }

    /// Puts the newest evaluation into force; returns the names in the layer that differ, and what
    /// was in force before.
    pub fn apply(&mut self, snapshot: &mut Snapshot) -> (Paths, Applied) {
        let before = self.applied.clone();
        let mut next = before.clone();
        let known = std::mem::take(&mut self.known);
        let products = self.session.as_ref().map(Session::products);
        for path in std::mem::take(&mut self.pending) {
            let was = next.get(&path);
            match products.and_then(|products| products.get(&path)) {
                // A text that is the same stays the same value, wherever its lines come from now.
                Some(product) => {
                    let kept = was.map(|was| &was.file).or_else(|| known.get(&path));
                    let kept = kept.filter(|file| **file == product.file);
                    let file = kept.unwrap_or(&product.file).clone();
                    next.insert(path, Product { file, origin: product.origin.clone() });
                }
                None => {
                    next.remove(&path);
                }
            }
        }
        (self.put(next, snapshot), before)
    }

    /// Puts an earlier state into force again.
    pub fn set_back(&mut self, to: Applied, snapshot: &mut Snapshot) -> Paths {
        self.is_set_back = true;
        self.put(to, snapshot)
    }

    /// As if [`Fleet::apply`] had not been called.
    pub fn undo(&mut self, before: Applied, snapshot: &mut Snapshot) {
        self.put(before, snapshot);
        self.compare();
    }

    fn put(&mut self, next: Applied, snapshot: &mut Snapshot) -> Paths {
        let before = std::mem::replace(&mut self.applied, next);
        let structure = layer::update(snapshot, &before, &self.applied, &self.context);
        snapshot.structure_changed |= structure.1;
        structure.0
    }

    /// Keeps the texts of the rules in force for a manager that comes after this one.
    pub fn keep(&self) {
        if let Err(e) = kept::write(&self.kept_file(), self.files.sources()) {
            say!("cannot save the rules in force: {e}");
        }
    }

    fn kept_file(&self) -> PathBuf {
        self.directory.with_extension("rules")
    }

    fn directory_text(&self) -> String {
        self.directory.to_string_lossy().into_owned()
    }

    /// Faults and warnings of the newest evaluation, as those of files.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.faults.iter().chain(&self.warnings).map(diagnostic).collect()
    }

    /// Diagnostics of files that nobody wrote, at the places that made them so; what is wrong with
    /// one line of a rule is told once.
    pub fn explain(&self, all: &mut Vec<Diagnostic>) {
        if self.applied.is_empty() {
            return;
        }
        let mut told = BTreeSet::new();
        all.retain_mut(|fault| {
            let Some(path) = relative(&self.directory, &fault.path) else { return true };
            let Some(product) = self.applied.get(path) else { return true };
            let Spot { path: rules, line } = product.origin.of_line(fault.line).clone();
            let is_new = told.insert((rules.clone(), line, fault.message.clone()));
            fault.message = format!("{path}: {}", fault.message);
            (fault.path, fault.line, fault.column) = (rules, line, 0);
            is_new
        });
    }

    /// Reports which of these names hide a file of another directory, or are hidden by one.
    pub fn collisions(&self, snapshot: &Snapshot, names: &Paths) -> Vec<Diagnostic> {
        let Some(own) = snapshot.directories.iter().position(|d| d.is_made) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for (name, product) in names.iter().filter_map(|n| Some((n, self.applied.get(n)?))) {
            for (index, directory) in snapshot.directories.iter().enumerate() {
                if index == own || !directory.entries.contains_key(&**name) {
                    continue;
                }
                let other = directory.path.join(&**name);
                let word = if index < own { "is hidden by" } else { "hides" };
                let message =
                    format!("{name}, made by {}, {word} {}", product.origin, other.display());
                out.push(warning(&product.origin.spot, message));
            }
        }
        out
    }
}

fn options() -> Options<'static> {
    let threads = crate::base::host::threads();
    let now = (warren_sys::time::realtime_ns() / 1_000_000_000) as f64;
    Options { threads, now, facts: &Host, bounds: BOUNDS, ..Options::default() }
}

/// Evaluation is recursive: it gets a thread with room for that. Where none can be had, this one has the
/// room as well, but for a manager's first: that one needs threads anyway.
fn on_deep_stack<T: Send>(evaluate: impl FnOnce() -> T + Send) -> T {
    let thread = parallel::with_stack(STACK_BYTES).name("rules".into());
    parallel::both(thread, evaluate, || ()).0
}

/// What rules made for a unit: its file, and its drop-ins.
pub fn products(applied: &Applied, unit: &UnitName) -> Vec<Product> {
    cause::files(applied, unit).into_iter().map(|(_, product)| product.clone()).collect()
}

/// Type and name of what rules made a unit for: of its own file, or of the first drop-in that has it.
pub fn target(applied: &Applied, unit: &UnitName) -> Option<Arc<str>> {
    let files = cause::files(applied, unit).into_iter();
    files
        .filter_map(|(_, product)| product.origin.target.as_ref())
        .map(|(name, _)| name.clone())
        .next()
}

/// The file that counts more than the one that rules make for a unit; empty if the unit is masked.
pub fn hidden_by(applied: &Applied, definition: &Definition) -> Option<String> {
    let made = applied.get(definition.name.as_str())?;
    let files = definition.file_paths();
    let is_hidden = !files.contains(made.file.path());
    is_hidden.then(|| files.first().map_or_else(String::new, |path| path.to_string()))
}

/// Texts that an answer has in full.
const TEXTS_MAX: usize = 1000;

/// The unit files that differ: path below the layer's directory, text before, text after.
pub fn texts(change: &RulesChange) -> Vec<(Box<str>, Option<String>, Option<String>)> {
    let text = |path: &str, product: &Product| Some(product.text(Product::unit_type(path)?));
    let one = |difference: DiffItem<'_, '_, Box<str>, Product>| match difference {
        DiffItem::Add(path, new) => Some((path.clone(), None, text(path, new))),
        DiffItem::Remove(path, old) => Some((path.clone(), text(path, old), None)),
        DiffItem::Update { old: (_, old), new: (path, new) } => {
            (old.file != new.file).then(|| (path.clone(), text(path, old), text(path, new)))
        }
    };
    change.before.diff(&change.after).filter_map(one).take(TEXTS_MAX).collect()
}

/// Faults that an answer shows in full.
const FAULTS_SHOWN_MAX: usize = 10;

/// Faults for people, each with the lines it is about.
pub fn in_words(faults: &[Message]) -> String {
    let mut out = "the fleet rules have faults; nothing was changed\n".to_owned();
    faults.iter().take(FAULTS_SHOWN_MAX).for_each(|fault| out.push_str(&fault.rendered));
    if let Some(more) = faults.len().checked_sub(FAULTS_SHOWN_MAX).filter(|more| *more > 0) {
        out.push_str(&format!("and {more} more\n"));
    }
    out.trim_end().to_owned()
}

fn diagnostic(message: &Message) -> Diagnostic {
    Diagnostic {
        path: message.path.clone(),
        line: message.line,
        column: message.column,
        severity: message.severity,
        code: Code::Rule,
        message: message.message.clone(),
    }
}

fn warning(spot: &Spot, message: String) -> Diagnostic {
    Diagnostic {
        path: spot.path.clone(),
        line: spot.line,
        column: 0,
        severity: Severity::Warning,
        code: Code::HiddenFile,
        message,
    }
}

/// Where the layer belongs among the search directories: behind what is written by hand, before
/// what generators make and packages bring.
pub fn place_in(paths: &[PathBuf]) -> usize {
    let is_weaker = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let of_packages = ["/usr", "/lib", "/run/warren"].iter().any(|dir| path.starts_with(dir));
        of_packages || matches!(name, "generator" | "generator.late")
    };
    paths.iter().position(is_weaker).unwrap_or(paths.len())
}
