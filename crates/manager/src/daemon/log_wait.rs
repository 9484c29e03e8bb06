//! Streams that wait for a log daemon on its way.

use crate::base::say;
use crate::base::say::say;
use crate::daemon::Daemon;
use crate::peer::log_link::spill::{Spill, SpillNews};
use crate::peer::log_link::{HEARD, LOG_DAEMON, lookup};
use std::collections::BTreeSet;
use std::time::Instant;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::UnitId;
use warren_core::model::job::JobKind;
use warren_unit::LoadState;

impl Daemon {
    pub(super) fn say_files(&mut self) {
        if !std::mem::replace(&mut self.peers.log_link.said_files, true) {
            let directory = self.options.log_dir();
            let what = match (self.peers.log_link.heard, self.peers.log_link.awaited.is_late) {
                (true, _) => "there are too many streams",
                (false, true) => "the log daemon has not started yet",
                (false, false) => "there is no log daemon",
            };
            say!("{what}: writing output to files in {}", directory.display());
        }
    }

    /// Whether output can be handed to a log daemon, or to one that is on its way.
    pub(super) fn has_log_daemon(&mut self) -> bool {
        if !self.peers.log_link.heard && self.is_greeted() {
            self.read_log_link();
        }
        self.peers.log_link.heard
            || !self.peers.log_link.awaited.is_late && self.is_log_daemon_coming()
    }

    /// Whether the daemon's unit is on its way up. One that is up says something before that.
    fn is_log_daemon_coming(&self) -> bool {
        let graph = self.core.graph();
        let Some(unit) = lookup(graph, LOG_DAEMON) else { return false };
        let run = self.core.unit_run(unit);
        match run.active_state() {
            _ if graph.definition(unit).load_state != LoadState::Loaded => false,
            ActiveState::Activating => true,
            state if state.is_up() => false,
            _ => {
                let kind = run.job.as_ref().map(|job| job.kind);
                matches!(kind, Some(JobKind::Start | JobKind::Restart))
            }
        }
    }

    /// Takes note of what became of the log daemon.
    pub(crate) fn look_at_log_daemon(&mut self, changed: &BTreeSet<UnitId>) {
        if self.peers.log_link.heard {
            return self.log_daemon_changed(changed);
        }
        let awaited = &self.peers.log_link.awaited;
        if awaited.since.is_none() && !awaited.is_late {
            return;
        }
        let left = awaited.left(Instant::now());
        let is_coming = self.is_log_daemon_coming();
        self.peers.log_link.awaited.is_late &= is_coming;
        if left.is_some_and(|left| left.is_zero() || !is_coming) {
            self.read_log_link();
            if !self.peers.log_link.heard {
                self.give_up_log_daemon(is_coming);
            }
        }
    }

    /// What waits is not to wait any longer.
    fn give_up_log_daemon(&mut self, is_late: bool) {
        let awaited = &mut self.peers.log_link.awaited;
        (awaited.since, awaited.is_late) = (None, is_late);
        if awaited.spill.is_none() {
            match Spill::start(self.options.log_dir(), self.event_loop.wake.clone()) {
                Ok(spill) => self.peers.log_link.awaited.spill = Some(spill),
                Err(e) => {
                    let closed = self.close_streams();
                    return say!("cannot copy {closed} output streams of services: {e}");
                }
            }
        }
        self.say_files();
        let link = &mut self.peers.log_link;
        link.outgoing.clear();
        link.leave_out_all();
        self.ask_for_streams();
    }

    /// What became of streams that were copied.
    pub(crate) fn hear_spill(&mut self) {
        let told = self.peers.log_link.awaited.spill.as_mut().map(Spill::hear).unwrap_or_default();
        let is_news = !told.is_empty();
        for told in told {
            match told {
                SpillNews::Ended(key) => self.stream_ended(key),
                SpillNews::LetGo(keys) => {
                    let keys = keys
                        .into_iter()
                        .filter(|key| self.peers.log_link.streams.contains_key(key));
                    let keys: Vec<u64> = keys.collect();
                    self.peers.log_link.left_out.extend(keys);
                    self.peers.log_link.ask_again = self.peers.log_link.asked;
                }
                SpillNews::Lost(unit, why) => say!("{unit}: output lost: {why}"),
            }
        }
        if is_news && self.peers.log_link.heard {
            self.send_outgoing();
        } else if is_news && !self.peers.log_link.left_out.is_empty() {
            self.ask_for_streams();
        }
    }

    /// The log daemon was stopped for good: nobody reads the streams, and services that write to
    /// them must not wait for ever. From now on their output is lost, new processes write to files.
    fn log_daemon_changed(&mut self, changed: &BTreeSet<UnitId>) {
        let Some(unit) = lookup(self.core.graph(), LOG_DAEMON) else { return };
        let run = self.core.unit_run(unit);
        // It may have gone down in the last incarnation's last turn.
        let is_news = self.stages.recovery.is_resuming || changed.contains(&unit);
        if !is_news || !run.active_state().is_down() || run.job.is_some() {
            return;
        }
        self.peers.log_link.heard = false;
        say::set_heard(false);
        self.peers.log_link.untold.clear();
        self.peers.log_link.take_back();
        let closed = self.close_streams();
        // The last of all: a manager that comes before this does it again.
        let _ = self.process.init.drop_stored(HEARD);
        say!("{LOG_DAEMON} is inactive: closing {closed} output streams of services");
    }

    /// Returns how many there were.
    fn close_streams(&mut self) -> usize {
        self.peers.log_link.outgoing.clear();
        self.peers.log_link.left_out.clear();
        let streams = std::mem::take(&mut self.peers.log_link.streams);
        for name in streams.values() {
            let _ = self.process.init.drop_stored(&name.stored());
        }
        streams.len()
    }
}
