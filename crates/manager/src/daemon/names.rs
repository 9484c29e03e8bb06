//! Commands that wait for a name service.

use crate::daemon::Daemon;
use crate::spawn::users::Waiting;
use std::collections::BTreeSet;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, Spawn};
use warren_init::protocol::exec::Served;

impl Daemon {
    /// Asks a helper for a process, when it is known who the command is to run as.
    pub(crate) fn spawn_as_named(
        &mut self,
        id: EffectId,
        spawn: &Spawn,
        variables: &[(String, String)],
    ) -> Result<(), String> {
        let names = self.spawning.users.unlisted(spawn);
        if !names.is_empty() && self.spawning.users.wait(id, spawn, variables, names) {
            return Ok(());
        }
        self.try_spawn(id, spawn, variables, Served::default())
    }

    /// Runs the commands of which all names are known now.
    pub(crate) fn hear_of_names(&mut self) {
        for (id, waiting) in self.spawning.users.hear() {
            if self.core.effect_unit(id).is_none() {
                continue;
            }
            if self.core.is_unwanted(id) {
                self.done(id, Done::NeverBegun);
                continue;
            }
            let Waiting { spawn, variables, served, .. } = waiting;
            if let Err(error) = self.try_spawn(id, &spawn, &variables, served) {
                self.done(id, Done::SpawnFailed { exit_code: 0, error });
            }
        }
    }

    /// Does not begin what nobody wants any more since these units changed.
    pub(crate) fn leave_unwanted_names(&mut self, changed: &BTreeSet<UnitId>) {
        if self.spawning.users.waiting.is_empty() {
            return;
        }
        let of = |&unit: &UnitId| {
            let all = (unit, EffectId(0))..=(unit, EffectId(u64::MAX));
            self.spawning.users.of_units.range(all).map(|(_, id)| *id).collect::<Vec<_>>()
        };
        for id in changed.iter().flat_map(of).collect::<Vec<_>>() {
            if self.core.is_unwanted(id) {
                let _ = self.spawning.users.take(id);
                self.done(id, Done::NeverBegun);
            }
        }
    }
}
