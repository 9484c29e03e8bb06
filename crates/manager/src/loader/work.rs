//! A load under way: names in, changes of the graph out.

use std::collections::BTreeSet;
use std::sync::Arc;

use warren_core::graph::{Change, Edit, Graph};
use warren_unit::{Diagnostic, LoadState, UnitName, UnitType};

use super::{Loader, Loading};
use crate::snapshot::Work;

/// Definitions that are made before they are put into the graph.
const CHANGES_PER_PIECE: usize = 512;

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
    pub(super) fn load_names(&self, graph: &Arc<Graph>, names: BTreeSet<UnitName>) -> Loading {
        self.work_off(graph, LoadWork::new(graph), names)
    }

    /// The same of one name, which gets an id even if nothing has it: who asks is to see a unit that
    /// is not found.
    pub(super) fn load_name(&self, graph: &Arc<Graph>, name: &UnitName) -> Loading {
        let mut work = LoadWork::new(graph);
        if matches!(self.define_name(name), Defined::Unit(Change::Remove(_), _)) {
            work.edit.claim(name);
        }
        self.work_off(graph, work, BTreeSet::from([name.clone()]))
    }

    fn work_off(
        &self,
        graph: &Arc<Graph>,
        mut work: LoadWork,
        mut names: BTreeSet<UnitName>,
    ) -> Loading {
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
}

/// Units that may exist without a file of their own, or by a template: whoever names them makes
/// them be looked for.
fn needs_loading(name: &UnitName) -> bool {
    name.is_instance() || matches!(name.unit_type(), UnitType::Slice | UnitType::Device)
}
