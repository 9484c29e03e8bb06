//! Units that clients make while the manager runs, scopes among them (org.freedesktop.systemd1(5),
//! StartTransientUnit).
//!
//! The loader writes their files and loads them; then they are started as any others. Their names are free again as
//! soon as they are down.

use std::collections::BTreeSet;

use warren_bus::backend::{Answer, Transient};
use warren_bus::{BusError, ReplySender};
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::job::JobType;
use warren_core::model::state::{Scope, TypeState};
use warren_core::protocol::event::{Done, Event};
use warren_core::protocol::request::{Asker, Request};
use warren_core::settings::Compiled;
use warren_sys::errno::ESRCH;
use warren_unit::{UnitName, UnitType};

use crate::base::answers::AnswerTo;
use crate::daemon::Daemon;
use crate::daemon::clients::Client;
use crate::daemon::loads::{AfterLoad, StartTransient};
use crate::published::orders::{JobOutcome, LoaderOrder};

impl Daemon {
    /// A client wants units made, and the first of them started.
    pub(super) fn start_transient(
        &mut self,
        asker: Asker,
        made: Transient,
        reply: ReplySender,
        end: AnswerTo<JobOutcome>,
    ) {
        let others = made.auxiliary.iter().map(|(name, _)| name);
        let names: Vec<UnitName> = [&made.unit].into_iter().chain(others).cloned().collect();
        for name in names {
            if !self.free_name(&name) {
                let text = format!("Unit {name} was already loaded or has a fragment file.");
                return reply.send(Err(BusError::unit_exists(text)));
            }
        }
        let mut files = made.auxiliary.clone();
        files.push((made.unit.clone(), made.text.clone()));
        let after = AfterLoad::Transient(Box::new(StartTransient { asker, made, reply, end }));
        self.load(|token| LoaderOrder::Transient { files, token }, after);
    }

    /// Whether a unit of that name can be made. One that a client made before, and that is over, gives way.
    fn free_name(&mut self, name: &UnitName) -> bool {
        let Some(unit) = self.loaded(name) else { return true };
        let Some(going) = self.gives_way(unit) else { return false };
        let names = going.iter().map(|&unit| self.core.graph().name(unit).clone()).collect();
        self.loads.collector.leave(&going);
        let after = AfterLoad::Forgotten(going);
        self.load(|token| LoaderOrder::Forget { names, token }, after);
        true
    }

    /// The units that are forgotten for one to have the name of this.
    fn gives_way(&mut self, unit: UnitId) -> Option<BTreeSet<UnitId>> {
        if !self.is_transient(unit) {
            return None;
        }
        // Nothing can be learned of a scope that has failed but that it has.
        let run = self.core.unit_run(unit);
        if matches!(run.state, TypeState::Scope(Scope::Failed(_))) && run.job.is_none() {
            let client = self.clients.add(Client::Waiter(AnswerTo::nobody()));
            let request = Request::ResetFailed(Some(unit));
            self.event_loop.events.push_back(Event::Request {
                client,
                asker: Asker::default(),
                request,
            });
            return Some(BTreeSet::from([unit]));
        }
        Some(self.forgotten_with(unit)?.into_iter().collect())
    }

    /// Its files are loaded, or could not be made.
    pub(super) fn transient_loaded(&mut self, started: StartTransient, error: Option<String>) {
        let StartTransient { asker, made, reply, end } = started;
        let graph = self.core.graph().clone();
        let others = made.auxiliary.iter().map(|(name, _)| name);
        let names = [&made.unit].into_iter().chain(others);
        let units: Vec<UnitId> = names.filter_map(|name| graph.lookup(name)).collect();
        // If nothing comes of it, nothing else leads to them.
        self.note_idle(&units);
        let unit = graph.lookup(&made.unit);
        match (error, unit) {
            (Some(text), Some(unit)) if graph.definition(unit).files.fragment.is_some() => {
                reply.send(Err(BusError::unit_exists(text)));
            }
            (Some(text), _) => reply.send(Err(BusError::failed(text))),
            (None, Some(unit)) => {
                if let Err(text) = self.keep_passed(unit, &made) {
                    self.drop_passed(unit);
                    return reply.send(Err(BusError::failed(text)));
                }
                let mode = made.mode;
                let request = match made.unit.unit_type() {
                    UnitType::Scope => Request::StartScope { unit, mode, pids: made.pids.into() },
                    _ => {
                        let (job_type, reload_if_possible) = (JobType::Start, false);
                        Request::Enqueue { unit, job_type, mode, reload_if_possible }
                    }
                };
                self.ask(asker, request, Client::BusAndWaiter(reply, end));
            }
            (None, None) => {
                let text = format!("Unit {} not found.", made.unit);
                reply.send(Err(BusError::no_such_unit(text)));
            }
        }
    }

    /// Moves processes into the group of a scope that starts.
    pub(super) fn attach_to_scope(
        &mut self,
        id: EffectId,
        unit: UnitId,
        pids: &[u32],
        settings: &Compiled,
    ) {
        if let failed @ Done::Failed { .. } = self.make_group(unit, settings) {
            return self.done(id, failed);
        }
        let result = match self.attach(unit, "", pids) {
            Ok(0) => {
                let error = "none of its processes exists any more".to_owned();
                Done::Failed { error }
            }
            Ok(_) => Done::Ok,
            Err(error) => Done::Failed { error },
        };
        let is_attached = result == Done::Ok;
        self.done(id, result);
        if is_attached {
            if self.has_nft_sets(unit, settings) {
                self.tell_nft_sets_beside(unit, settings, None);
            }
            self.cgroup.groups.note_use(unit);
            // They may have ended before the group was watched.
            if self.cgroup.groups.found_empty(unit) {
                self.group_emptied(unit);
            }
        }
    }

    /// A client wants processes moved into the group of a unit that is up.
    pub(super) fn attach_by_call(
        &mut self,
        unit: UnitId,
        subgroup: &str,
        pids: &[u32],
        reply: ReplySender,
    ) {
        if self.core.graph().get(unit).is_none() || self.cgroup.groups.path(unit).is_none() {
            let text = "Unit not running, cannot attach processes.";
            return reply.send(Err(BusError::unit_inactive(text)));
        }
        reply.send(match self.attach(unit, subgroup, pids) {
            Ok(count) if count == pids.len() => Ok(Answer::Done),
            Ok(_) => Err(BusError::failed("No such process")),
            Err(error) => Err(BusError::failed(error)),
        });
    }

    /// Moves processes into a unit's group or one below it; how many were there. Where there are no cgroups nothing
    /// is done.
    fn attach(&mut self, unit: UnitId, subgroup: &str, pids: &[u32]) -> Result<usize, String> {
        let (Some(tree), Some(path)) =
            (self.cgroup.groups.tree().cloned(), self.cgroup.groups.path(unit))
        else {
            return Ok(pids.len());
        };
        let path = match subgroup {
            "" => path.to_owned(),
            subgroup => format!("{path}/{subgroup}"),
        };
        if !subgroup.is_empty() {
            tree.make(&path).map_err(|error| error.to_string())?;
        }
        let mut count = 0;
        for &pid in pids {
            let Ok(pid) = i32::try_from(pid) else { continue };
            match tree.attach(&path, pid) {
                Ok(()) => count += 1,
                Err(error) if error.errno == ESRCH => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(count)
    }
}
