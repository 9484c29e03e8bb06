//! What a run of a service leaves in the file system and nobody is to find afterwards: `PIDFile=`
//! (systemd.service(5)) and `RuntimeDirectory=` (systemd.exec(5)).
//!
//! It is removed by an effect that is awaited, for a path may lie where nobody answers. The unit is
//! down meanwhile, but the job that stops it is over when its traces are, and so do starts wait that
//! would have the same paths, of this unit or of another: nothing that a new run has made is removed
//! for the sake of an old one. A stop waits for it no longer than [`WAIT_MAX`]; a start has to.

use crate::event::{Done, Effect};
use crate::ids::{EffectId, UnitId};
use crate::job::{JobKind, JobResult};
use crate::machine::Core;
use crate::settings::{Compiled, TypeSettings};
use crate::state::Clearing;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use warren_unit::Context;
use warren_unit::config::{Preserve, ServiceConfig};

/// How long the stop of a unit waits for the removal of what it has left.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// One thing that is to be removed; nothing is amiss if it is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trace {
    /// A file.
    File(String),
    /// A link, if it is one.
    Link(String),
    /// A directory with all that is in it.
    Directory(String),
}

impl Trace {
    fn path(&self) -> &Path {
        match self {
            Trace::File(path) | Trace::Link(path) | Trace::Directory(path) => Path::new(path),
        }
    }

    /// Whether the removal of one touches the other.
    fn meets(&self, other: &Trace) -> bool {
        self.path().starts_with(other.path()) || other.path().starts_with(self.path())
    }
}

/// What of a run of a service with these settings is to be removed. `restarting`: it is about to run
/// again.
fn traces(settings: &Compiled, context: &Context, restarting: bool) -> Vec<Trace> {
    match &settings.own {
        TypeSettings::Service(config) => {
            traces_of(config, context, !keeps_directories(config, restarting))
        }
        _ => Vec::new(),
    }
}

/// What a run of a service has, the directories only if they are asked for.
fn traces_of(config: &ServiceConfig, context: &Context, directories: bool) -> Vec<Trace> {
    let base = Path::new(&*context.runtime_dir);
    let below = |path: &str| base.join(path).to_string_lossy().into_owned();
    let mut out = Vec::new();
    for directory in config.exec.runtime_directory.paths.iter().filter(|_| directories) {
        out.push(Trace::Directory(below(&directory.path)));
        out.extend(directory.symlinks.iter().map(|link| Trace::Link(below(link))));
    }
    out.extend(config.pid_file.iter().map(|path| Trace::File(path.to_string())));
    out
}

/// `RuntimeDirectoryPreserve=`
fn keeps_directories(config: &ServiceConfig, restarting: bool) -> bool {
    match config.exec.runtime_directory_preserve {
        Preserve::Yes => true,
        Preserve::Restart => restarting,
        Preserve::No => false,
    }
}

impl Core {
    /// Has the traces of a run removed that has ended; a unit without any pays nothing.
    pub(crate) fn clear_away(&mut self, unit: UnitId, settings: &Compiled, restarting: bool) {
        let traces = traces(settings, &self.settings.context, restarting);
        if traces.is_empty() {
            return;
        }
        // Nothing has run since: only what was to stay for a restart is left to be removed.
        if let Some(clearing) = &mut self.history_mut(unit).clearing {
            clearing.again |= clearing.restarting && !restarting;
            return;
        }
        let id = self.new_effect(unit);
        let until = Some(self.now.monotonic.after(WAIT_MAX));
        self.history_mut(unit).clearing = Some(Clearing { id, restarting, again: false, until });
        self.clearing.insert(unit);
        self.out.push(Effect::ClearAway { id, unit, traces });
    }

    /// The removal that is under way.
    pub(crate) fn clearing(&self, unit: UnitId) -> Option<Clearing> {
        self.run(unit).history.as_ref()?.clearing
    }

    /// Whether the stop of a unit that is down waits for what it has left to be removed.
    pub(crate) fn is_stop_held(&self, unit: UnitId) -> bool {
        self.clearing(unit).is_some_and(|clearing| clearing.until.is_some())
    }

    /// Whether a start has to wait because something is being removed that it would have; it is
    /// looked at again when that is done.
    pub(crate) fn waits_for_clearing(&mut self, unit: UnitId) -> bool {
        let waits = self.clearing(unit).is_some() || self.meets_clearing(unit);
        if waits {
            self.clearing_waiters.insert(unit);
        }
        waits
    }

    fn meets_clearing(&mut self, unit: UnitId) -> bool {
        if self.clearing.is_empty() {
            return false;
        }
        let context = self.settings.context.clone();
        let own = match &self.compiled(unit).own {
            TypeSettings::Service(config) => traces_of(config, &context, true),
            _ => return false,
        };
        if own.is_empty() {
            return false;
        }
        let others: Vec<UnitId> = self.clearing.iter().copied().collect();
        others.into_iter().any(|other| {
            let theirs = traces(&self.compiled(other), &context, false);
            own.iter().any(|trace| theirs.iter().any(|their| trace.meets(their)))
        })
    }

    /// Whether the job of the unit waits for a removal.
    pub(crate) fn is_clearing_waiter(&self, unit: UnitId) -> bool {
        self.clearing_waiters.contains(&unit)
    }

    /// Serves the answer to a removal; returns whether it was one.
    pub(crate) fn clearing_done(&mut self, unit: UnitId, effect: EffectId, _: &Done) -> bool {
        let Some(clearing) = self.clearing(unit).filter(|clearing| clearing.id == effect) else {
            return false;
        };
        self.history_mut(unit).clearing = None;
        self.clearing.remove(&unit);
        if clearing.again {
            let settings = self.compiled(unit);
            self.clear_away(unit, &settings, false);
        }
        if !self.is_stop_held(unit) {
            self.end_held_stop(unit);
        }
        for waiter in std::mem::take(&mut self.clearing_waiters) {
            match self.waits_idly(waiter) {
                true => _ = self.idle_queue.insert(waiter),
                false => self.queue_job(waiter),
            }
        }
        true
    }

    /// The stop of the unit has waited long enough for what cannot be removed.
    pub(crate) fn clearing_deadline(&mut self, unit: UnitId) {
        let now = self.now.monotonic;
        let due = |clearing: &Clearing| clearing.until.is_some_and(|until| until <= now);
        if !self.clearing(unit).as_ref().is_some_and(due) {
            return;
        }
        if let Some(clearing) = &mut self.history_mut(unit).clearing {
            clearing.until = None;
        }
        self.end_held_stop(unit);
    }

    fn end_held_stop(&mut self, unit: UnitId) {
        let job = self.run(unit).job.as_ref().filter(|job| job.running);
        let stop = job.filter(|job| job.kind == JobKind::Stop).map(|job| job.reason);
        if let Some(reason) = stop.filter(|_| self.active_state(unit).is_down()) {
            self.finish_job(unit, JobResult::Done, reason);
            // When it went down this job stood against what is to bring it up again.
            self.upheld_queue.insert(unit);
            self.return_if_allowed(unit);
        }
    }

    /// What was being removed when the last manager ended is removed by this one.
    pub(crate) fn resume_clearing(&mut self, unit: UnitId) {
        let Some(clearing) = self.clearing(unit) else { return };
        let settings = Arc::new(self.settings.compile(self.graph.definition(unit)));
        let traces = traces(&settings, &self.settings.context, clearing.restarting);
        self.expect_effect(clearing.id, unit);
        self.clearing.insert(unit);
        self.out.push(Effect::ClearAway { id: clearing.id, unit, traces });
    }
}
