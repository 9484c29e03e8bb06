//! What readers see: one consistent picture of the machine after a batch of events.
//!
//! A view costs a few pointers to make and never changes. The bus, the control socket and the
//! charts read views; they never wait for the loop and the loop never waits for them.

mod stop_plan;

use crate::graph::cgroup_path;
use crate::graph::cgroup_path::Strays;
use crate::graph::{Definition, Graph};
use crate::model::active_state::ActiveState;
use crate::model::admin_marks::Marked;
use crate::model::chunked::Chunked;
use crate::model::device_news::Sight;
use crate::model::dynamic_user::Numbers;
use crate::model::ids::{EffectId, JobId, UnitId};
use crate::model::job::comes_up;
use crate::model::job::{Job, JobKind};
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::model::time::Moment;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use warren_unit::{LoadState, Relation, UnitName, UnitType};

/// Jobs that are looked at for what one job waits for.
const VAIN_LOOKS_MAX: usize = 1000;

/// Units whose start waits for a place in a slice, each with that slice (ConcurrencySoftMax=).
pub type SliceWaiters = imbl::OrdMap<UnitId, UnitId>;

/// How often something happened, by its reason. Copied only when it has changed since it was last shown.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CodeCounts(Arc<BTreeMap<Code, u64>>);

impl CodeCounts {
    /// One more.
    pub(crate) fn add(&mut self, code: Code) {
        *Arc::make_mut(&mut self.0).entry(code).or_default() += 1;
    }

    /// Those that happened, by number.
    pub fn iter(&self) -> impl Iterator<Item = (Code, u64)> {
        self.0.iter().map(|(code, count)| (*code, *count))
    }
}

/// Counts and clock of the manager itself.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    /// When the view was made.
    pub now: Moment,
    /// Jobs that are installed.
    pub jobs: u32,
    /// Units that are failed.
    pub failed: u32,
    /// The boot transaction has been worked off.
    pub startup_finished: bool,
    /// The system is shutting down, and there is no way back. Files may describe an end too: see
    /// [`View::is_going_down`].
    pub stopping: bool,
    /// What is done when everything is stopped, in the runner's words; 0 while that is not known.
    pub ending: u16,
    /// Jobs ever installed and jobs ever failed.
    pub jobs_ever: u32,
    /// Jobs that ended in failure, ever.
    pub failed_jobs_ever: u32,
    /// How often units failed for good, since this manager began.
    pub failures: CodeCounts,
    /// How often `Restart=` started units again, by what they had ended with, since this manager began.
    pub restarts: CodeCounts,
    /// What is known of devices.
    pub sight: Sight,
    /// Swap areas are not to be come to: units of them are not started.
    pub without_swaps: bool,
}

impl Totals {
    /// Whether others say the same, at whatever time.
    pub fn are_those_of(&self, others: &Totals) -> bool {
        *self == Totals { now: self.now, ..others.clone() }
    }
}

/// One picture of everything.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The units and what their files say.
    pub graph: Arc<Graph>,
    /// What they are doing, by id.
    pub units: Chunked<Arc<UnitRun>>,
    /// Those of them whose cgroup lies elsewhere than their files say.
    pub strays: Strays,
    /// Starts that wait for a place in their slice.
    pub slice_waiters: SliceWaiters,
    /// Users that are made for runs.
    pub dynamic_users: Numbers,
    /// Counts.
    pub totals: Totals,
}

impl View {
    /// The unit with this name or alias.
    pub fn lookup(&self, name: &UnitName) -> Option<UnitId> {
        self.graph.lookup(name)
    }

    /// What the files say of `unit`.
    pub fn definition(&self, unit: UnitId) -> &Arc<Definition> {
        self.graph.definition(unit)
    }

    /// The run state of `unit`.
    pub fn run(&self, unit: UnitId) -> &UnitRun {
        &self.units[unit.index()]
    }

    /// The job of `unit`.
    pub fn job(&self, unit: UnitId) -> Option<&Job> {
        self.run(unit).job.as_deref()
    }

    /// All installed jobs; looks at every unit unless there are none.
    pub fn jobs(&self) -> Vec<&Job> {
        if self.totals.jobs == 0 {
            return Vec::new();
        }
        self.units.iter().filter_map(|run| run.job.as_deref()).collect()
    }

    /// The job with this number; looks at every unit unless there are none.
    pub fn find_job(&self, id: JobId) -> Option<&Job> {
        self.jobs().into_iter().find(|job| job.id == id)
    }

    /// The device without which the job of `unit` never begins, or never ends: it is not there, and
    /// it is waited for without a limit. None if a timeout, a process or another job ends the wait.
    pub fn waits_in_vain_for(&self, unit: UnitId) -> Option<UnitId> {
        let (mut seen, mut open) = (BTreeSet::from([unit]), vec![unit]);
        while let Some(unit) = open.pop().filter(|_| seen.len() <= VAIN_LOOKS_MAX) {
            let Some(job) = self.job(unit).filter(|job| job.deadline.is_none()) else { continue };
            if job.running {
                if self.graph.is_device(unit) && job.kind == JobKind::Start {
                    return Some(unit);
                }
                continue;
            }
            let holds_up = |&other: &UnitId| {
                let other_job = self.job(other).map(|job| job.kind);
                other_job.is_some_and(|kind| self.graph.may_wait(unit, job.kind, other, kind))
            };
            let blockers = self.graph.ordered_with(unit).filter(|_| job.blockers > 0);
            open.extend(blockers.filter(holds_up).filter(|other| seen.insert(*other)));
        }
        None
    }

    /// The units whose jobs the job of `unit` waits for; none if it is at work.
    pub fn blockers(&self, unit: UnitId) -> impl Iterator<Item = UnitId> + '_ {
        let kind = self.job(unit).filter(|job| !job.running && job.blockers > 0).map(|j| j.kind);
        let others = kind
            .into_iter()
            .flat_map(move |kind| self.graph.ordered_with(unit).map(move |other| (kind, other)));
        let holds_up = move |&(kind, other): &(JobKind, UnitId)| {
            self.job(other).is_some_and(|job| self.graph.may_wait(unit, kind, other, job.kind))
        };
        others.filter(holds_up).map(|(_, other)| other)
    }

    /// Whether the job of `unit` has begun.
    pub fn is_at_work(&self, unit: UnitId) -> bool {
        self.job(unit).is_some_and(|job| job.running)
    }

    /// The unit that the job of `unit` waits for: one whose job it is ordered against, if there is one
    /// that is at work, one of a group of its own that is about to come up (`OptionalAll=`,
    /// `RequireAny=`), its slice, or `unit` itself, whose state stands against the job. None if it is at work.
    pub fn waited_for(&self, unit: UnitId) -> Option<UnitId> {
        use ActiveState::{Activating, Deactivating, Reloading};
        let job = self.job(unit).filter(|job| !job.running)?;
        if job.blockers > 0 {
            let at_work = self.blockers(unit).find(|&other| self.is_at_work(other));
            return at_work.or_else(|| self.blockers(unit).next());
        }
        match (job.kind, self.active_state(unit)) {
            (JobKind::Start, Deactivating) => return Some(unit),
            (JobKind::Reload, Activating | Reloading | Deactivating) => return Some(unit),
            (JobKind::VerifyActive, Activating) => return Some(unit),
            (JobKind::Start, _) => {}
            _ => return None,
        }
        if let Some(&slice) = self.slice_waiters.get(&unit) {
            return Some(slice);
        }
        let is_coming = |&other: &UnitId| {
            comes_up(self.job(other).map(|job| job.kind), self.active_state(other))
        };
        let groups = [Relation::OptionalAll, Relation::RequireAny].into_iter();
        groups.flat_map(|relation| self.graph.related(unit, relation)).find(is_coming)
    }

    /// The ACTIVE column.
    pub fn active_state(&self, unit: UnitId) -> ActiveState {
        self.run(unit).active_state()
    }

    /// Why `unit` is as it is: that it cannot be loaded counts before what happened to it, and that
    /// it was put aside before what is no trouble.
    pub fn reason(&self, unit: UnitId) -> Reason {
        let of_files = match self.definition(unit).load_state {
            LoadState::NotFound => Some(Code::NotLoaded),
            LoadState::Masked => Some(Code::Masked),
            LoadState::BadSetting | LoadState::Error => Some(Code::BadSetting),
            _ => None,
        };
        if let Some(code) = of_files {
            return Reason::new(code, Cause::None);
        }
        let run = self.run(unit);
        let reason = run.history.as_ref().map_or(Reason::default(), |history| history.reason);
        match run.notes().and_then(|notes| notes.mark.as_ref()) {
            Some((Marked::Maintenance, remark)) if !reason.code.is_trouble() => {
                Reason::new(Code::Maintenance, remark.by)
            }
            _ => reason,
        }
    }

    /// The SUB column.
    pub fn sub_state(&self, unit: UnitId) -> &'static str {
        self.run(unit).sub_state()
    }

    /// Ids of the units whose main process or control process is `pid`; looks at every unit.
    pub fn unit_of_process(&self, pid: u32) -> Option<UnitId> {
        let index = self.units.iter().position(|run| {
            run.main_process().is_some_and(|p| p.pid == pid) || run.control_pid() == Some(pid)
        })?;
        Some(UnitId(u32::try_from(index).expect("ids are 32 bits")))
    }
}

impl UnitRun {
    /// Whether the answer to this search for its main process is waited for.
    pub fn searches_main(&self, search: EffectId) -> bool {
        match &self.state {
            TypeState::Service(Service::Up(run)) => run.main_search == Some(search),
            _ => false,
        }
    }

    /// A unit of this type that never did anything.
    pub fn idle(unit_type: UnitType) -> UnitRun {
        let state = match unit_type {
            UnitType::Service => TypeState::Service(Service::Dead),
            UnitType::Socket => TypeState::Socket(Socket::Dead),
            UnitType::Mount => TypeState::Mount(Mount::Dead),
            UnitType::Automount => TypeState::Automount(Automount::Dead),
            UnitType::Slice => TypeState::Slice(Slice::Dead),
            UnitType::Target => TypeState::Target(false),
            UnitType::Device => TypeState::Device(Device::Dead),
            UnitType::Scope => TypeState::Scope(Scope::Dead),
            UnitType::Swap => TypeState::Swap(Mount::Dead),
            UnitType::Timer => TypeState::Timer(Timer::Dead),
            UnitType::Path => TypeState::Path(Path::Dead),
        };
        UnitRun { state, job: None, history: None }
    }

    /// Whether this is a socket unit whose sockets are open or being opened.
    pub fn holds_sockets(&self) -> bool {
        matches!(&self.state, TypeState::Socket(Socket::Up(run)) if run.holds_sockets())
    }

    /// The ACTIVE column.
    pub fn active_state(&self) -> ActiveState {
        match self.state_of_type() {
            state if state.is_down() && self.is_put_aside() => ActiveState::Maintenance,
            state => state,
        }
    }

    fn is_put_aside(&self) -> bool {
        self.marked() == Some(Marked::Maintenance)
    }

    fn state_of_type(&self) -> ActiveState {
        use ActiveState::*;
        let up = |up: bool| if up { Active } else { Inactive };
        match &self.state {
            TypeState::Service(Service::Dead) => Inactive,
            TypeState::Service(Service::Failed(_)) => Failed,
            TypeState::Service(Service::Up(run)) => run.phase.active_state(),
            TypeState::Socket(Socket::Dead) => Inactive,
            TypeState::Socket(Socket::Failed(_)) => Failed,
            TypeState::Socket(Socket::Up(run)) => run.phase.active_state(),
            TypeState::Mount(state) | TypeState::Swap(state) => match state {
                Mount::Dead => Inactive,
                Mount::Failed(_) => Failed,
                Mount::Up(run) => run.phase.active_state(),
            },
            TypeState::Automount(Automount::Dead) => Inactive,
            TypeState::Automount(Automount::Failed(_)) => Failed,
            TypeState::Automount(Automount::Up(run)) if run.closing.is_some() => Deactivating,
            TypeState::Automount(Automount::Up(run)) if run.asked.is_some() => Activating,
            TypeState::Automount(Automount::Up(_)) => Active,
            TypeState::Slice(Slice::Dead) => Inactive,
            TypeState::Slice(Slice::Asked(_)) => Activating,
            TypeState::Slice(Slice::Active) => Active,
            TypeState::Target(reached) => up(*reached),
            TypeState::Device(Device::Dead) => Inactive,
            TypeState::Device(Device::Tentative) => Activating,
            TypeState::Device(Device::Plugged) => Active,
            TypeState::Scope(Scope::Dead | Scope::Awaiting(_)) => Inactive,
            TypeState::Scope(Scope::Perpetual) => Active,
            TypeState::Scope(Scope::Failed(_)) => Failed,
            TypeState::Scope(Scope::Up(run)) => run.phase.active_state(),
            TypeState::Timer(Timer::Dead) => Inactive,
            TypeState::Timer(Timer::Failed(_)) => Failed,
            TypeState::Timer(Timer::Up(_)) => Active,
            TypeState::Path(Path::Dead) => Inactive,
            TypeState::Path(Path::Failed(_)) => Failed,
            TypeState::Path(Path::Up(run)) if run.phase == PathPhase::Starting => Activating,
            TypeState::Path(Path::Up(_)) => Active,
            TypeState::Unsupported => Inactive,
        }
    }

    /// The SUB column.
    pub fn sub_state(&self) -> &'static str {
        match &self.state {
            TypeState::Service(Service::Up(run)) => run.phase.as_str(),
            TypeState::Socket(Socket::Up(run)) => run.phase.as_str(),
            TypeState::Mount(Mount::Up(run)) => run.phase.as_str(),
            TypeState::Swap(Mount::Up(run)) => run.phase.of_swap(),
            TypeState::Automount(Automount::Up(run)) if run.running => "running",
            TypeState::Automount(Automount::Up(_)) => "waiting",
            TypeState::Timer(Timer::Up(run)) => run.phase.as_str(),
            TypeState::Path(Path::Up(run)) => run.phase.as_str(),
            TypeState::Service(Service::Failed(_))
            | TypeState::Socket(Socket::Failed(_))
            | TypeState::Mount(Mount::Failed(_))
            | TypeState::Swap(Mount::Failed(_))
            | TypeState::Automount(Automount::Failed(_))
            | TypeState::Timer(Timer::Failed(_))
            | TypeState::Path(Path::Failed(_))
            | TypeState::Scope(Scope::Failed(_))
                if !self.is_put_aside() =>
            {
                "failed"
            }
            TypeState::Slice(Slice::Active) | TypeState::Target(true) => "active",
            TypeState::Device(Device::Plugged) => "plugged",
            TypeState::Device(Device::Tentative) => "tentative",
            TypeState::Scope(Scope::Perpetual) => "running",
            TypeState::Scope(Scope::Up(run)) => run.phase.as_str(),
            _ if self.is_put_aside() => "maintenance",
            _ => "dead",
        }
    }

    /// The outcome of the run that is under way, or of the last one.
    pub fn outcome(&self) -> Outcome {
        match &self.state {
            TypeState::Service(Service::Failed(outcome))
            | TypeState::Socket(Socket::Failed(outcome))
            | TypeState::Mount(Mount::Failed(outcome))
            | TypeState::Swap(Mount::Failed(outcome))
            | TypeState::Automount(Automount::Failed(outcome))
            | TypeState::Timer(Timer::Failed(outcome))
            | TypeState::Path(Path::Failed(outcome))
            | TypeState::Scope(Scope::Failed(outcome)) => *outcome,
            TypeState::Scope(Scope::Up(run)) => run.outcome,
            TypeState::Service(Service::Up(run)) => run.outcome,
            TypeState::Socket(Socket::Up(run)) => run.outcome,
            TypeState::Mount(Mount::Up(run)) | TypeState::Swap(Mount::Up(run)) => run.outcome,
            _ => self.history.as_ref().map(|history| history.outcome).unwrap_or_default(),
        }
    }

    /// The main process, while it runs.
    pub fn main_process(&self) -> Option<Process> {
        match &self.state {
            TypeState::Service(Service::Up(run)) => run.main.process(),
            _ => None,
        }
    }

    /// The control process, while one runs.
    pub fn control_pid(&self) -> Option<u32> {
        let control = match &self.state {
            TypeState::Service(Service::Up(run)) => run.control,
            TypeState::Socket(Socket::Up(run)) => run.control,
            _ => None,
        };
        match control {
            Some(Control::Running(process)) => Some(process.pid),
            _ => None,
        }
    }
}

impl ServicePhase {
    /// systemd's name of the sub-state.
    pub fn as_str(self) -> &'static str {
        use ServicePhase::*;
        match self {
            Condition => "condition",
            StartPre => "start-pre",
            Start => "start",
            StartPost => "start-post",
            Running => "running",
            Exited => "exited",
            Reload => "reload",
            ReloadSignal => "reload-signal",
            ReloadNotify => "reload-notify",
            Stop => "stop",
            StopWatchdog => "stop-watchdog",
            StopSigterm => "stop-sigterm",
            StopSigkill => "stop-sigkill",
            StopPost => "stop-post",
            FinalWatchdog => "final-watchdog",
            FinalSigterm => "final-sigterm",
            FinalSigkill => "final-sigkill",
            AutoRestart => "auto-restart",
        }
    }

    fn active_state(self) -> ActiveState {
        use ServicePhase::*;
        match self {
            Condition | StartPre | Start | StartPost | AutoRestart => ActiveState::Activating,
            Running | Exited => ActiveState::Active,
            Reload | ReloadSignal | ReloadNotify => ActiveState::Reloading,
            _ => ActiveState::Deactivating,
        }
    }
}

impl SocketPhase {
    /// systemd's name of the sub-state.
    pub fn as_str(self) -> &'static str {
        use SocketPhase::*;
        match self {
            StartPre => "start-pre",
            StartChown => "start-chown",
            StartPost => "start-post",
            Listening => "listening",
            Running => "running",
            StopPre => "stop-pre",
            StopPreSigterm => "stop-pre-sigterm",
            StopPreSigkill => "stop-pre-sigkill",
            StopPost => "stop-post",
            FinalSigterm => "final-sigterm",
            FinalSigkill => "final-sigkill",
        }
    }

    fn active_state(self) -> ActiveState {
        use SocketPhase::*;
        match self {
            StartPre | StartChown | StartPost => ActiveState::Activating,
            Listening | Running => ActiveState::Active,
            _ => ActiveState::Deactivating,
        }
    }
}

impl MountPhase {
    /// systemd's name of the sub-state.
    pub fn as_str(self) -> &'static str {
        use MountPhase::*;
        match self {
            Mounting => "mounting",
            MountingDone => "mounting-done",
            Mounted => "mounted",
            Remounting => "remounting",
            RemountingSigterm => "remounting-sigterm",
            RemountingSigkill => "remounting-sigkill",
            Unmounting => "unmounting",
            UnmountingSigterm | MountingSigterm => "unmounting-sigterm",
            UnmountingSigkill | MountingSigkill => "unmounting-sigkill",
        }
    }

    /// systemd's name of the sub-state when it is a swap area's, which has no reload.
    pub fn of_swap(self) -> &'static str {
        use MountPhase::*;
        match self {
            Mounting => "activating",
            MountingDone => "activating-done",
            Mounted | Remounting | RemountingSigterm | RemountingSigkill => "active",
            Unmounting => "deactivating",
            UnmountingSigterm | MountingSigterm => "deactivating-sigterm",
            UnmountingSigkill | MountingSigkill => "deactivating-sigkill",
        }
    }

    fn active_state(self) -> ActiveState {
        use MountPhase::*;
        match self {
            Mounting | MountingDone => ActiveState::Activating,
            Mounted => ActiveState::Active,
            Remounting | RemountingSigterm | RemountingSigkill => ActiveState::Reloading,
            _ => ActiveState::Deactivating,
        }
    }
}

impl ScopePhase {
    /// systemd's name of the sub-state.
    pub fn as_str(self) -> &'static str {
        match self {
            ScopePhase::Starting => "start-chown",
            ScopePhase::Running => "running",
            ScopePhase::Abandoned => "abandoned",
            ScopePhase::StopSigterm => "stop-sigterm",
            ScopePhase::StopSigkill => "stop-sigkill",
        }
    }

    fn active_state(self) -> ActiveState {
        match self {
            ScopePhase::Starting => ActiveState::Activating,
            ScopePhase::Running | ScopePhase::Abandoned => ActiveState::Active,
            ScopePhase::StopSigterm | ScopePhase::StopSigkill => ActiveState::Deactivating,
        }
    }
}

impl TimerPhase {
    /// systemd's name of the sub-state.
    pub fn as_str(self) -> &'static str {
        match self {
            TimerPhase::Waiting => "waiting",
            TimerPhase::Running => "running",
            TimerPhase::Elapsed => "elapsed",
        }
    }
}

impl PathPhase {
    /// systemd's name of the sub-state.
    pub fn as_str(self) -> &'static str {
        match self {
            PathPhase::Starting | PathPhase::Waiting => "waiting",
            PathPhase::Running => "running",
        }
    }
}

impl View {
    /// The path of a unit's group below the root of the tree, or where it would be made.
    pub fn group_path(&self, unit: UnitId) -> Cow<'_, str> {
        cgroup_path::path(&self.graph, &self.strays, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_state_of_its_own() {
        for of_type in UnitType::ALL {
            assert_ne!(UnitRun::idle(of_type).state, TypeState::Unsupported, "{of_type:?}");
        }
    }
}
