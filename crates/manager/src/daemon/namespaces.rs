//! The namespaces that the processes of a run share: made for its first process, kept by init, and forgotten when the
//! run is over.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use warren_core::model::ids::UnitId;
use warren_core::protocol::event::Spawn;
use warren_sandbox::mounts::Plan;
use warren_unit::{Relation, UnitName};

use crate::daemon::Daemon;
use crate::spawn::helpers::Passed;
use crate::spawn::namespaces::{are_asked_for, kept_as, parse_kept};

impl Daemon {
    /// The two ends of the store of a run's namespaces, for a process of it; nothing if it has none of its own.
    pub(crate) fn namespace_store(
        &mut self,
        spawn: &Spawn,
        plan: &Plan,
    ) -> Result<Vec<Passed>, String> {
        if !are_asked_for(plan) {
            return Ok(Vec::new());
        }
        let graph = Arc::clone(self.core.graph());
        let relations = [Relation::JoinsNamespaceOf, Relation::JoinedBy];
        let joined = relations.into_iter().flat_map(|relation| graph.related(spawn.unit, relation));
        let stores = &mut self.spawning.namespaces;
        let (store, is_new) = stores
            .of_run(spawn.unit, spawn.invocation, joined)
            .map_err(|e| format!("making a store of namespaces: {e}"))?;
        if is_new {
            let names = kept_as(graph.name(spawn.unit).as_str(), spawn.invocation);
            for (name, end) in names.iter().zip(store.borrowed()) {
                self.process
                    .init
                    .store(name, end)
                    .map_err(|e| format!("storing namespaces: {e}"))?;
            }
        }
        let ends = store.borrowed().map(|end| end.try_clone_to_owned().map(Passed::Own));
        ends.into_iter().collect::<Result<_, _>>().map_err(|e| format!("storing namespaces: {e}"))
    }

    /// A run is over.
    pub(crate) fn forget_namespaces(&mut self, unit: UnitId) {
        let Some(invocation) = self.spawning.namespaces.forget(unit) else { return };
        for name in kept_as(self.core.graph().name(unit).as_str(), invocation) {
            let _ = self.process.init.drop_stored(&name);
        }
    }

    /// Takes up what init kept, if its run goes on. Gives back what has the name of something else.
    pub(crate) fn take_up_namespaces(&mut self, name: &str, fd: OwnedFd) -> Result<(), OwnedFd> {
        let Some((unit, invocation, second)) = parse_kept(name) else { return Err(fd) };
        let unit = UnitName::parse(unit).ok();
        let unit = unit.and_then(|unit| self.core.graph().lookup_own(&unit));
        let goes_on = |unit: &UnitId| {
            let run = self.core.unit_run(*unit);
            let is_run = run.history.as_ref().is_some_and(|h| h.invocation == invocation);
            is_run && !run.active_state().is_down()
        };
        match unit.filter(goes_on) {
            Some(unit) => self.spawning.namespaces.take_up(unit, invocation, second, fd),
            None => _ = self.process.init.drop_stored(name),
        }
        Ok(())
    }
}
