//! `RuntimeMaxSec=`: services that have been up for too long (systemd.service(5)).

use crate::graph::{Definition, Graph};
use crate::ids::UnitId;
use crate::machine::Core;
use crate::reason::Code;
use crate::state::{Outcome, ServicePhase};
use std::time::Duration;
use warren_unit::settings::{Group, Id};

const RUNTIME_MAX: Id = Id::of(Group::Service, "RuntimeMaxSec");

impl Core {
    /// The service was edited, and `before` is the generation before that: `RuntimeMaxSec=` holds for what
    /// runs too, counted from its start, as with systemd 252. More time that it has asked for by
    /// `EXTEND_TIMEOUT_USEC=` (sd_notify(3)) stays.
    pub(crate) fn renew_runtime_limit(&mut self, unit: UnitId, before: &Graph) {
        let runs = |phase| {
            use ServicePhase::{Reload, ReloadNotify, ReloadSignal, Running};
            matches!(phase, Running | Reload | ReloadSignal | ReloadNotify)
        };
        let Some(run) = self.service(unit).filter(|run| runs(run.phase)) else { return };
        let deadline = run.runtime_deadline;
        let was = before.get(unit).and_then(|definition| self.runtime_max_of(definition));
        let max = self.runtime_max_of(self.graph.definition(unit));
        if was == max {
            return;
        }
        let history = self.run(unit).history.as_ref();
        let since = history.map_or(self.now.monotonic, |history| history.active_enter.monotonic);
        let [until_now, until] = [was, max].map(|max| max.map(|max| since.after(max)));
        let extended = deadline.filter(|_| deadline > until_now);
        self.service_mut(unit).runtime_deadline =
            until.map(|until| extended.map_or(until, |at| at.max(until)));
    }

    /// What the files say, or those that there were. Most say nothing of it, and are not compiled for it.
    fn runtime_max_of(&self, definition: &Definition) -> Option<Duration> {
        let is_said = definition.files.in_use().mention(RUNTIME_MAX);
        let settings = is_said.then(|| self.settings().compile_running(definition))?;
        settings.service().runtime_max
    }

    /// Its time is over: it is stopped as somebody would stop it, by `ExecStop=` first, as with systemd 252.
    pub(crate) fn ran_too_long(&mut self, unit: UnitId) {
        if self.active_state(unit).is_up() {
            self.fail_service(unit, Outcome::Timeout, Code::RuntimeTimeout);
            self.enter_stop(unit);
        }
    }
}
