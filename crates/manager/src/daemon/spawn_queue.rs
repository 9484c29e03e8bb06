//! Has commands made ready for helpers no sooner than these have room.

use warren_core::model::ids::EffectId;
use warren_core::protocol::event::{Done, Spawn};
use warren_init::protocol::exec::Served;

use crate::daemon::Daemon;
use crate::spawn::queue::Queued;

impl Daemon {
    /// Asks a helper for a process, with the variables of its environment files and what name services said; now, or
    /// when one has room.
    pub(crate) fn try_spawn(
        &mut self,
        id: EffectId,
        spawn: &Spawn,
        file_variables: &[(String, String)],
        served: Served,
    ) -> Result<(), String> {
        if self.spawning.queue.is_empty() && self.spawning.helpers.has_room() {
            return self.prepare_spawn(id, spawn, file_variables, served);
        }
        let (spawn, variables) = (Box::new(spawn.clone()), file_variables.to_vec());
        self.spawning.queue.push_back(Queued { id, spawn, variables, served });
        Ok(())
    }

    /// Makes ready what helpers have room for, and does not begin what nobody wants any more.
    pub(crate) fn prepare_queued_spawns(&mut self) {
        while let Some(Queued { id, .. }) = self.spawning.queue.front() {
            let is_over = self.core.effect_unit(*id).is_none();
            let is_unwanted = !is_over && self.core.is_unwanted(*id);
            if !is_over && !is_unwanted && !self.spawning.helpers.has_room() {
                return;
            }
            let Some(queued) = self.spawning.queue.pop_front() else { return };
            if is_unwanted {
                self.done(queued.id, Done::NeverBegun);
            } else if !is_over {
                let Queued { id, spawn, variables, served } = queued;
                if let Err(error) = self.prepare_spawn(id, &spawn, &variables, served) {
                    self.done(id, Done::SpawnFailed { exit_code: 0, error });
                }
            }
        }
    }
}
