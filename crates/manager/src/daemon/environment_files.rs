//! Commands that wait for their environment files.

use crate::daemon::Daemon;
use crate::spawn::environment_files::{Found, READ_WITHIN, Waiting, read_all};
use crate::spawn::request::command_of;
use std::collections::BTreeSet;
use std::time::Instant;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, Spawn};

impl Daemon {
    /// Has the files of a command read, if it has any.
    pub(crate) fn read_environment(&mut self, id: EffectId, spawn: &Spawn) -> bool {
        let Some((_, exec)) = command_of(&spawn.settings, spawn.list, spawn.index) else {
            return false;
        };
        if exec.environment_files.is_empty() {
            return false;
        }
        let (files, found) = (exec.environment_files.clone(), Found::default());
        let waiting =
            Waiting { spawn: Box::new(spawn.clone()), since: Instant::now(), found: found.clone() };
        self.spawning.environment_files.waiting.insert(id, waiting);
        self.spawning.environment_files.of_units.insert((spawn.unit, id));
        let read = move || {
            let _ = found.set(read_all(&files));
            Done::Ok
        };
        self.spawning.environment_files.to_do.push_back((id, Box::new(read)));
        true
    }

    /// Has one worker read the files of all commands of this turn.
    pub(crate) fn read_environments(&mut self) {
        if !self.spawning.environment_files.to_do.is_empty() {
            self.event_loop
                .workers
                .run_all(std::mem::take(&mut self.spawning.environment_files.to_do));
        }
    }

    /// The files of a command were read: it is run. False if the effect is none of those.
    pub(crate) fn environment_read(&mut self, id: EffectId) -> bool {
        let Some(Waiting { spawn, found, .. }) = self.spawning.environment_files.take(id) else {
            return false;
        };
        if self.core.effect_unit(id).is_none() {
            return true;
        }
        if self.core.is_unwanted(id) {
            self.done(id, Done::NeverBegun);
            return true;
        }
        let variables = found.get().cloned().unwrap_or_else(|| Err("it was not read".to_owned()));
        match variables.and_then(|variables| self.spawn_as_named(id, &spawn, &variables)) {
            Ok(()) => {}
            Err(error) => self.done(id, Done::SpawnFailed { exit_code: 0, error }),
        }
        true
    }

    /// Does not begin what nobody wants any more since these units changed.
    pub(crate) fn leave_unwanted_environments(&mut self, changed: &BTreeSet<UnitId>) {
        if self.spawning.environment_files.waiting.is_empty() {
            return;
        }
        for id in changed
            .iter()
            .flat_map(|&unit| self.spawning.environment_files.of(unit))
            .collect::<Vec<_>>()
        {
            if self.core.is_unwanted(id) {
                let _ = self.spawning.environment_files.take(id);
                self.done(id, Done::NeverBegun);
            }
        }
    }

    /// Waits no longer for files that do not come.
    pub(crate) fn leave_late_environments(&mut self) {
        let now = Instant::now();
        while let Some((&id, first)) = self.spawning.environment_files.waiting.first_key_value()
            && first.since + READ_WITHIN <= now
            && let Some(Waiting { spawn, .. }) = self.spawning.environment_files.take(id)
        {
            let files = command_of(&spawn.settings, spawn.list, spawn.index)
                .map_or(&[][..], |(_, exec)| &exec.environment_files);
            let files: Vec<&str> = files.iter().map(|file| &*file.path).collect();
            let (files, seconds) = (files.join(" "), READ_WITHIN.as_secs());
            let error = format!("EnvironmentFile={files}: no answer within {seconds} s");
            self.done(id, Done::SpawnFailed { exit_code: 0, error });
        }
    }
}
