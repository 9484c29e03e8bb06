//! A load under way: names in, changes of the graph out.

use std::collections::BTreeSet;
use std::sync::Arc;

use warren_core::graph::{Change, Definition, Edit, Graph, NewDefinition};
use warren_unit::{Code, Diagnostic, LoadState, Severity, UnitName, UnitType};

use super::{Loader, Loading};
use crate::base::parallel;
use crate::config::snapshot::Work;

/// Definitions that are made before they are put into the graph.
const CHANGES_PER_PIECE: usize = 512;

/// Relations in a piece, after which it is put into the graph however few its definitions are.
const RELATIONS_PER_PIECE: usize = 1 << 18;

/// Names that there can be, of units and of what units name. A further one gets no room unless there is
/// a file for it, so that many large files cost no more than this: some 450 bytes each.
pub(super) const NAMES_MAX: usize = 1 << 19;

/// Pieces of definitions that wait to be put into the graph.
const PIECES_AHEAD_MAX: usize = 2;

/// What the files say about a name.
pub(super) enum Defined {
    /// It leads to this main name.
    Alias(UnitName),
    /// The unit, and what is wrong with its files.
    Unit(Change, Vec<Diagnostic>),
}

/// A load under way.
struct LoadWork {
    edit: Edit,
    changes: Vec<Change>,
    /// Relations of the changes: they name no more units than these that the graph does not know.
    relations: usize,
    /// See [`NAMES_MAX`].
    names_max: usize,
    /// Aliases are all in one piece with who refers to them.
    are_aliases_done: bool,
    diagnostics: Vec<Diagnostic>,
    done: BTreeSet<UnitName>,
    /// Units that got or lost names, and whoever referred to those in what is applied.
    moved: BTreeSet<UnitName>,
    referrers: BTreeSet<UnitName>,
    /// Names that units lead to and that were looked up already.
    known: BTreeSet<UnitName>,
}

impl LoadWork {
    fn new(graph: &Graph, names_max: usize) -> LoadWork {
        LoadWork {
            edit: graph.edit(),
            changes: Vec::new(),
            relations: 0,
            names_max,
            are_aliases_done: false,
            diagnostics: Vec::new(),
            done: BTreeSet::new(),
            moved: BTreeSet::new(),
            referrers: BTreeSet::new(),
            known: BTreeSet::new(),
        }
    }

    /// Takes one definition in; returns what it names and nobody has looked at yet: instances,
    /// slices, the main name of an alias.
    fn take(&mut self, loader: &Loader, name: UnitName, defined: Defined) -> Vec<UnitName> {
        let (mut change, diagnostics) = match defined {
            Defined::Alias(main) => {
                let mut more = self.note_moved(&name, None);
                more.push(main);
                // It may have been a unit of its own, and lead to nothing now.
                self.changes.push(Change::Remove(name.clone()));
                self.done.insert(name);
                return more;
            }
            Defined::Unit(change, diagnostics) => (change, diagnostics),
        };
        self.done.insert(name);
        self.diagnostics.extend(diagnostics);
        let mut more = Vec::new();
        if let Change::Set(new) = &mut change {
            self.keep_in_bounds(loader, new);
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
        more.extend(match &change {
            Change::Set(new) => self.note_moved(&new.name, Some(&new.aliases)),
            Change::Remove(name) => self.note_moved(name, None),
        });
        self.changes.push(change);
        more
    }

    /// Takes note of who is to refer to other units than before, as names lead elsewhere after a change that leaves
    /// a unit these aliases, or nothing of it. Names are settled before what is not applied yet is looked up.
    /// Returns the names that it loses: they may be others' now.
    fn note_moved(&mut self, name: &UnitName, aliases: Option<&[UnitName]>) -> Vec<UnitName> {
        let graph = self.edit.graph();
        let own = graph.lookup_own(name);
        let had = own.map_or(&[][..], |unit| &graph.definition(unit).aliases);
        let goes = |alias: &&UnitName| {
            graph.lookup(alias) == own && !aliases.is_some_and(|aliases| aliases.contains(alias))
        };
        let lost: Vec<UnitName> = had.iter().filter(goes).cloned().collect();
        let all = aliases.into_iter().flat_map(|aliases| std::iter::once(name).chain(aliases));
        let taken = all.filter_map(|name| graph.lookup(name)).filter(|&unit| Some(unit) != own);
        let mut led = taken.chain(own.filter(|_| !lost.is_empty())).peekable();
        if led.peek().is_some() && self.moved.insert(name.clone()) {
            let referrers = led.flat_map(|unit| graph.named_by(unit));
            self.referrers.extend(referrers.map(|unit| graph.name(unit).clone()));
        }
        lost
    }

    /// Has whoever referred to such names look them up again, by the files that are in force; returns who is to be
    /// loaded for that.
    fn refer_again(&mut self, loader: &Loader) -> BTreeSet<UnitName> {
        let mut names = BTreeSet::new();
        // One of them may have lost its own name by what is not applied yet.
        self.apply();
        for name in std::mem::take(&mut self.referrers) {
            let graph = self.edit.graph();
            let own = graph.lookup(&name).filter(|&unit| *graph.name(unit) == name);
            let Some(unit) = own else { continue };
            let known = graph.definition(unit).clone();
            if self.done.remove(&name) || !known.aliases.is_empty() {
                names.insert(name);
                continue;
            }
            let change = Change::Set(Box::new(loader.restated(graph, &known)));
            names.extend(self.take(loader, name.clone(), Defined::Unit(change, Vec::new())));
            self.apply_if_many();
        }
        names
    }

    /// In pieces, so that the working memory of a load does not grow with the units.
    fn apply_if_many(&mut self) {
        if self.changes.len() >= CHANGES_PER_PIECE || self.relations >= RELATIONS_PER_PIECE {
            self.apply();
        }
    }

    fn apply(&mut self) {
        self.edit.apply(std::mem::take(&mut self.changes));
        self.relations = 0;
    }

    /// Names there may be besides those of the graph and of the changes.
    fn room(&self) -> usize {
        self.names_max.saturating_sub(self.edit.graph().names_count() + self.relations)
    }

    /// Takes relations away for whose ends there is no room.
    fn keep_in_bounds(&mut self, loader: &Loader, new: &mut NewDefinition) {
        if self.room() < new.relations.len() && self.are_aliases_done {
            // The graph knows how many of them are new.
            self.apply();
        }
        let mut room = self.room();
        if room < new.relations.len() {
            let before = new.relations.len();
            let graph = self.edit.graph();
            let mut counted = BTreeSet::new();
            new.relations.retain(|(_, other)| {
                let is_free = graph.lookup(other).is_some()
                    || new.slice.as_ref() == Some(other)
                    || counted.contains(other)
                    || loader.has_file(other);
                if !is_free && room > 0 {
                    room -= 1;
                    counted.insert(other.clone());
                    return true;
                }
                is_free
            });
            let left_out = before - new.relations.len();
            self.diagnostics.extend((left_out > 0).then(|| self.too_many(new, left_out)));
        }
        self.relations += new.relations.len();
    }

    fn too_many(&self, new: &NewDefinition, left_out: usize) -> Diagnostic {
        let path = new.files.fragment.as_ref().map(|file| file.path().clone());
        let max = self.names_max;
        Diagnostic {
            path: path.unwrap_or_else(|| new.name.as_str().into()),
            line: 0,
            column: 0,
            severity: Severity::Error,
            code: Code::TooManyValues,
            message: format!(
                "ignoring {left_out} relations of {} to units without a file: all unit files together name more than \
                 {max} units",
                new.name
            ),
        }
    }

    fn finish(mut self, before: &Arc<Graph>, work: Work) -> Loading {
        self.apply();
        let names_stay = self.edit.has_no_new_names();
        let (next, delta) = self.edit.finish();
        let same = delta.is_empty() && names_stay;
        let graph = if same { before.clone() } else { Arc::new(next) };
        Loading { diagnostics: self.diagnostics, ..Loading::new(graph, delta, work) }
    }
}

impl Loader {
    pub(super) fn load_names(&self, graph: &Arc<Graph>, names: BTreeSet<UnitName>) -> Loading {
        self.work_off(graph, LoadWork::new(graph, self.names_max), names)
    }

    /// The same of one name, which gets an id even if nothing has it: who asks is to see a unit that
    /// is not found.
    pub(super) fn load_name(&self, graph: &Arc<Graph>, name: &UnitName) -> Loading {
        let mut work = LoadWork::new(graph, self.names_max);
        match self.define_name(name) {
            Defined::Unit(Change::Remove(_), _) => work.edit.claim(name),
            Defined::Alias(main) => {
                if let Some(known) = known_unit(graph, &main) {
                    // What is loaded stays as it is until a reload, but for one more name.
                    work.edit.apply(self.with_alias(graph, known, name));
                    return work.finish(graph, self.snapshot.work);
                }
                // Such a link leads to nothing.
                if matches!(self.define_name(&main), Defined::Unit(Change::Remove(_), _)) {
                    work.edit.claim(name);
                }
            }
            Defined::Unit(Change::Set(_), _) => {}
        }
        self.work_off(graph, work, BTreeSet::from([name.clone()]))
    }

    /// What makes a name another name of a unit that is loaded: the unit and who refers to that name, all
    /// else of them as it is in force.
    fn with_alias(&self, graph: &Graph, known: &Definition, alias: &UnitName) -> Vec<Change> {
        let mut main = self.restated(graph, known);
        main.aliases.push(alias.clone());
        main.aliases.sort_unstable();
        main.aliases.dedup();
        let referrers = graph.referrers(alias).into_iter().filter(|&unit| unit != known.id);
        let referrers = referrers.map(|unit| self.restated(graph, graph.definition(unit)));
        std::iter::once(main).chain(referrers).map(|new| Change::Set(Box::new(new))).collect()
    }

    fn work_off(
        &self,
        graph: &Arc<Graph>,
        mut work: LoadWork,
        mut names: BTreeSet<UnitName>,
    ) -> Loading {
        // Units whose aliases come or go first: names are settled before others refer to them.
        let is_first = |name: &&UnitName| self.has_or_had_aliases(graph, name);
        let first: Vec<UnitName> = names.iter().filter(is_first).cloned().collect();
        for name in first {
            let defined = self.define_name(&name);
            names.extend(work.take(self, name, defined));
        }
        work.are_aliases_done = true;
        if names.len() > 2 * CHANGES_PER_PIECE {
            let known: Vec<UnitName> = std::mem::take(&mut names).into_iter().collect();
            names = self.load_many(&known, &mut work);
        }
        loop {
            while let Some(name) = names.pop_first() {
                if !work.done.contains(&name) {
                    let defined = self.define_name(&name);
                    names.extend(work.take(self, name, defined));
                    work.apply_if_many();
                }
            }
            names = work.refer_again(self);
            if names.is_empty() {
                break;
            }
        }
        let mut loading = work.finish(graph, self.snapshot.work);
        if let Some(fleet) = &self.fleet {
            fleet.explain(&mut loading.diagnostics);
        }
        loading
    }

    /// All of them, piece by piece.
    fn define_pieces<'a>(
        &'a self,
        names: &'a [UnitName],
    ) -> impl Iterator<Item = Vec<(UnitName, Defined)>> + 'a {
        let mut names = names.iter();
        std::iter::from_fn(move || (names.len() > 0).then(|| self.define_piece(names.by_ref())))
    }

    fn define_piece<'a>(
        &self,
        names: impl Iterator<Item = &'a UnitName>,
    ) -> Vec<(UnitName, Defined)> {
        let (mut piece, mut relations) = (Vec::with_capacity(CHANGES_PER_PIECE), 0);
        for name in names {
            let defined = self.define_name(name);
            if let Defined::Unit(Change::Set(new), _) = &defined {
                relations += new.relations.len();
            }
            piece.push((name.clone(), defined));
            if piece.len() == CHANGES_PER_PIECE || relations >= RELATIONS_PER_PIECE {
                break;
            }
        }
        piece
    }

    /// Loads these names while another thread makes the definitions of those to come; returns
    /// the names that they lead to.
    fn load_many(&self, names: &[UnitName], work: &mut LoadWork) -> BTreeSet<UnitName> {
        let mut more = BTreeSet::new();
        let (sender, pieces) = std::sync::mpsc::sync_channel(PIECES_AHEAD_MAX);
        std::thread::scope(|scope| {
            let ahead = self.define_pieces(names);
            let started = parallel::builder().spawn_scoped(scope, move || {
                for piece in ahead {
                    if sender.send(piece).is_err() {
                        return;
                    }
                }
            });
            // Without that thread nothing comes from it.
            let own = started.is_err().then(|| self.define_pieces(names));
            for (name, defined) in pieces.iter().chain(own.into_iter().flatten()).flatten() {
                if !work.done.contains(&name) {
                    more.extend(work.take(self, name, defined));
                    work.apply_if_many();
                }
            }
        });
        more
    }
}

/// The unit of this name, if it is loaded.
pub(super) fn known_unit<'a>(graph: &'a Graph, name: &UnitName) -> Option<&'a Definition> {
    let definition = graph.definition(graph.lookup(name)?);
    let is_loaded = definition.load_state != LoadState::NotFound;
    (is_loaded && definition.name == *name).then_some(definition)
}

/// Units that may exist without a file of their own, or by a template: whoever names them makes
/// them be looked for.
pub(super) fn needs_loading(name: &UnitName) -> bool {
    name.is_instance() || matches!(name.unit_type(), UnitType::Slice | UnitType::Device)
}
