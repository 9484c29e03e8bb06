//! Units that rules make, as a layer of the ground state.

use std::collections::BTreeSet;
use std::sync::Arc;

use warren_core::graph::Graph;

use super::{Loader, Loading};
use crate::config::fleet;
use crate::config::fleet::RulesChange;
use crate::config::fleet::{Applied, Fleet};

impl Loader {
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
        let was_set_back = self.fleet.as_mut().is_some_and(Fleet::insist);
        let loading = self.load_with_rules(graph, BTreeSet::new(), dry_run);
        if let Some(fleet) = self.fleet.as_mut().filter(|_| dry_run && was_set_back) {
            fleet.desist();
        }
        loading
    }

    /// Loads what has changed, and what rules make otherwise than before. After a dry run they
    /// make what they made.
    pub(super) fn load_with_rules(
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
        self.take_news(graph);
        let mut loading = self.load_changed(graph, &changed, None);
        if !dry_run {
            self.settled = self.aliases.clone();
            self.note_found(graph, &loading);
        }
        let Some(fleet) = &mut self.fleet else { return loading };
        loading.diagnostics.extend(fleet.collisions(&self.snapshot, &changed));
        let Some(before) = before else { return loading };
        loading.diagnostics.extend(fleet.diagnostics());
        loading.rules =
            Some(RulesChange { before: before.clone(), after: fleet.applied().clone() });
        match dry_run {
            true => fleet.undo(before, &mut self.snapshot),
            false => fleet.keep(),
        }
        loading
    }

    /// Puts what rules made for an earlier generation into force again.
    pub fn set_rules_back(&mut self, to: Applied) {
        if let Some(fleet) = &mut self.fleet {
            fleet.set_back(to, &mut self.snapshot);
        }
    }
}
