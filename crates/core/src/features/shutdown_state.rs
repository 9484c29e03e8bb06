//! Whether everything is being stopped: by the manager's own last jobs, or by a start of `shutdown.target`,
//! with which all others conflict (systemd.special(7)). That is how files describe an end, and how
//! `systemctl poweroff` begins one.

use crate::graph::Graph;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::JobKind;
use crate::model::state::UnitRun;
use crate::parts::Core;
use crate::view::View;
use warren_unit::UnitName;

const SHUTDOWN: &str = "shutdown.target";

/// Targets that say what follows an end of files (systemd.special(7)).
const GOALS: [&str; 6] = [
    "poweroff.target",
    "reboot.target",
    "halt.target",
    "kexec.target",
    "soft-reboot.target",
    "exit.target",
];

/// The unit of that name, if it is to be reached, or has been and is to stay so.
fn sought<'a>(
    graph: &Graph,
    run: impl Fn(UnitId) -> &'a UnitRun,
    name: &'static str,
) -> Option<UnitId> {
    let unit = graph.lookup(&UnitName::parse(name).expect("a valid name"))?;
    let job = run(unit).job.as_ref().map(|job| job.kind);
    let is_sought = match job {
        Some(kind) => matches!(kind, JobKind::Start | JobKind::Restart),
        None => run(unit).active_state() == ActiveState::Active,
    };
    is_sought.then_some(unit)
}

/// Whether somebody may wait for the unit to be down, or, while everything is being stopped, for a start of
/// it, which is then a part of that.
fn holds_up(run: &UnitRun, is_going_down: bool) -> bool {
    let starts = run.job.as_ref().is_some_and(|job| job.running && job.kind == JobKind::Start);
    let state = run.active_state();
    state == ActiveState::Deactivating || is_going_down && starts && !state.is_up()
}

impl View {
    /// Whether the end that is under way waits for the unit: it is being stopped, or is being started as a
    /// part of the end.
    pub fn holds_up_the_end(&self, unit: UnitId) -> bool {
        let is_going_down = self.is_going_down();
        is_going_down && holds_up(self.run(unit), is_going_down)
    }

    /// Whether everything is being stopped. There may be a way back yet: see [`Totals::stopping`].
    ///
    /// [`Totals::stopping`]: crate::view::Totals::stopping
    pub fn is_going_down(&self) -> bool {
        self.totals.stopping || self.sought(SHUTDOWN).is_some()
    }

    /// The target that says what follows the end that files describe.
    pub fn goal(&self) -> Option<UnitId> {
        GOALS.into_iter().find_map(|name| self.sought(name))
    }

    fn sought(&self, name: &'static str) -> Option<UnitId> {
        sought(&self.graph, |unit| self.run(unit), name)
    }
}

/// Whether somebody may be tired of waiting for the unit: it is being stopped, or is being started while
/// everything is.
pub(crate) fn may_be_hurried(core: &Core, unit: UnitId) -> bool {
    holds_up(core.units.run(unit), is_going_down(core))
}

/// See [`View::is_going_down`].
pub(crate) fn is_going_down(core: &Core) -> bool {
    core.totals.stopping || sought(&core.graph, |unit| core.units.run(unit), SHUTDOWN).is_some()
}
