//! The run state of all units, by id, and which units were written to.
//!
//! Owns: the table, and the lists of changes that the machine and its runner take.
//! Must not: decide what a state means for other units.

use crate::graph::Graph;
use crate::model::active_state::ActiveState;
use crate::model::chunked::Chunked;
use crate::model::dynamic_user::DynamicUser;
use crate::model::ids::UnitId;
use crate::model::process::Outcome;
use crate::model::state::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use warren_unit::UnitType;

/// The run state of all units.
#[derive(Debug, Default)]
pub(crate) struct Units {
    runs: Chunked<Arc<UnitRun>>,
    /// What units that never did anything share, by type.
    idle: BTreeMap<UnitType, Arc<UnitRun>>,
    /// Units written to since the runner last asked; a unit may be there several times.
    changed: Vec<UnitId>,
    /// Those of which only what clients are not told was written.
    rearmed: Vec<UnitId>,
    /// Ids that mean another unit, or none, since the runner last asked.
    renamed: BTreeSet<UnitId>,
    /// Units written to in this step, whose deadlines may differ.
    touched: Vec<UnitId>,
}

impl Units {
    /// The ids of all units.
    pub fn ids(&self) -> impl Iterator<Item = UnitId> + use<> {
        (0..self.runs.len()).map(|index| UnitId(u32::try_from(index).expect("ids are 32 bits")))
    }

    /// The whole table, for a view.
    pub fn snapshot(&self) -> Chunked<Arc<UnitRun>> {
        self.runs.clone()
    }

    /// A unit that an event from outside names: the id may be stale.
    pub fn known(&self, unit: UnitId) -> Option<&UnitRun> {
        self.runs.get(unit.index()).map(|run| &**run)
    }

    /// The run state of a unit of this generation.
    pub fn run(&self, unit: UnitId) -> &UnitRun {
        &self.runs[unit.index()]
    }

    /// The run state for writing; notes the unit as changed.
    pub fn run_mut(&mut self, unit: UnitId) -> &mut UnitRun {
        note_write([&mut self.changed, &mut self.touched], unit);
        self.run_to_write(unit)
    }

    /// The same for what clients are not told: a deadline, a count of starts.
    pub fn run_to_rearm(&mut self, unit: UnitId) -> &mut UnitRun {
        note_write([&mut self.rearmed, &mut self.touched], unit);
        self.run_to_write(unit)
    }

    fn run_to_write(&mut self, unit: UnitId) -> &mut UnitRun {
        let run = self.runs.get_mut(unit.index());
        Arc::make_mut(run.expect("ids of this generation have a run state"))
    }

    /// Puts a run state in place that need not be written down again.
    pub fn restore(&mut self, unit: UnitId, run: UnitRun) {
        let place = self.runs.get_mut(unit.index());
        *place.expect("ids of this generation have a run state") = Arc::new(run);
    }

    /// A run state for each unit of the generation that has none.
    pub fn add_idle(&mut self, graph: &Graph) {
        while self.runs.len() < graph.len() {
            let id = UnitId(u32::try_from(self.runs.len()).expect("ids are 32 bits"));
            let unit_type = graph.definition(id).unit_type();
            let idle = self.idle.entry(unit_type);
            let idle = idle.or_insert_with(|| Arc::new(UnitRun::idle(unit_type)));
            self.runs.push(idle.clone());
        }
    }

    /// Every unit that is not down or has a job.
    pub fn busy(&self) -> Vec<UnitId> {
        let busy = |run: &UnitRun| !run.active_state().is_down() || run.job.is_some();
        self.runs
            .iter()
            .enumerate()
            .filter(|(_, run)| busy(run))
            .map(|(i, _)| UnitId(u32::try_from(i).expect("ids are 32 bits")))
            .collect()
    }

    /// Notes that what the runner writes down or signals of a unit differs, though its run state does not.
    pub fn note_changed(&mut self, unit: UnitId) {
        self.changed.push(unit);
    }

    /// Notes that the deadlines of a unit may differ.
    pub fn note_touched(&mut self, unit: UnitId) {
        self.touched.push(unit);
    }

    /// Notes that a deadline of the unit is served.
    pub fn note_served(&mut self, unit: UnitId) {
        note_write([&mut self.changed, &mut self.touched], unit);
    }

    /// Notes that the id means another unit, or none.
    pub fn note_renamed(&mut self, unit: UnitId) {
        self.renamed.insert(unit);
    }

    /// The units that were written to since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<UnitId> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// The units of which only what clients are not told was written since the last call.
    pub fn take_rearmed(&mut self) -> Vec<UnitId> {
        std::mem::take(&mut self.rearmed)
    }

    /// Ids that mean another unit, or none, since the last call.
    pub fn take_renamed(&mut self) -> BTreeSet<UnitId> {
        std::mem::take(&mut self.renamed)
    }

    /// The units whose deadlines may differ, each once, in the order of their ids. The caller gives the list back
    /// empty with [`Units::keep_touched`], so that no step allocates it anew.
    pub fn take_touched(&mut self) -> Vec<UnitId> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// See [`Units::take_touched`].
    pub fn keep_touched(&mut self, mut list: Vec<UnitId>) {
        list.clear();
        self.touched = list;
    }
}

/// What units are in, and what is kept of them.
impl Units {
    pub fn active_state(&self, unit: UnitId) -> ActiveState {
        self.run(unit).active_state()
    }

    pub fn outcome(&self, unit: UnitId) -> Outcome {
        self.run(unit).outcome()
    }

    pub fn history_mut(&mut self, unit: UnitId) -> &mut History {
        self.run_mut(unit).history.get_or_insert_default()
    }

    pub fn freezer(&self, unit: UnitId) -> Freezer {
        self.run(unit).history.as_ref().map(|history| history.freezer).unwrap_or_default()
    }

    /// Who a unit runs as, with `DynamicUser=`.
    pub fn dynamic_user(&self, unit: UnitId) -> Option<Box<DynamicUser>> {
        self.run(unit).history.as_ref()?.dynamic_user.clone()
    }

    /// The removal of what a run left that is under way.
    pub fn clearing(&self, unit: UnitId) -> Option<Clearing> {
        self.run(unit).history.as_ref()?.clearing
    }

    /// The service, if something of it is under way.
    pub fn service(&self, unit: UnitId) -> Option<&ServiceRun> {
        match &self.run(unit).state {
            TypeState::Service(Service::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// The same for writing; the caller saw that it is up.
    pub fn service_mut(&mut self, unit: UnitId) -> &mut ServiceRun {
        service_up(self.run_mut(unit))
    }

    /// The same for deadlines, of which clients are not told.
    pub fn service_to_rearm(&mut self, unit: UnitId) -> &mut ServiceRun {
        service_up(self.run_to_rearm(unit))
    }

    pub fn service_phase(&self, unit: UnitId) -> Option<ServicePhase> {
        self.service(unit).map(|run| run.phase)
    }

    /// Whether `Restart=` will start the service again when its time has come.
    pub fn waits_to_restart(&self, unit: UnitId) -> bool {
        self.service_phase(unit) == Some(ServicePhase::AutoRestart)
    }

    /// Notes what went wrong with a service, unless something did before.
    pub fn set_outcome(&mut self, unit: UnitId, outcome: Outcome) {
        let run = self.service_mut(unit);
        if run.outcome == Outcome::Success {
            run.outcome = outcome;
        }
    }

    /// The socket unit, if something of it is under way.
    pub fn socket(&self, unit: UnitId) -> Option<&SocketRun> {
        match &self.run(unit).state {
            TypeState::Socket(Socket::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// The same for writing; the caller saw that it is up.
    pub fn socket_mut(&mut self, unit: UnitId) -> &mut SocketRun {
        match &mut self.run_mut(unit).state {
            TypeState::Socket(Socket::Up(run)) => run,
            _ => panic!("the socket is up: its phase was looked at just before"),
        }
    }

    /// The mount or swap area, if something of it is under way.
    pub fn mount(&self, unit: UnitId) -> Option<&MountRun> {
        match &self.run(unit).state {
            TypeState::Mount(Mount::Up(run)) | TypeState::Swap(Mount::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// The same for writing; the caller saw that it is up.
    pub fn mount_mut(&mut self, unit: UnitId) -> &mut MountRun {
        match &mut self.run_mut(unit).state {
            TypeState::Mount(Mount::Up(run)) | TypeState::Swap(Mount::Up(run)) => run,
            _ => panic!("the mount is up: its phase was looked at just before"),
        }
    }

    /// The automount, if something of it is under way.
    pub fn automount(&self, unit: UnitId) -> Option<&AutomountRun> {
        match &self.run(unit).state {
            TypeState::Automount(Automount::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// The same for writing; the caller saw that it is up.
    pub fn automount_mut(&mut self, unit: UnitId) -> &mut AutomountRun {
        match &mut self.run_mut(unit).state {
            TypeState::Automount(Automount::Up(run)) => run,
            _ => panic!("the automount is up: it was looked at just before"),
        }
    }
}

impl Units {
    /// The timer, if it is active.
    pub fn timer(&self, unit: UnitId) -> Option<&TimerRun> {
        match &self.run(unit).state {
            TypeState::Timer(Timer::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// The same for writing; the caller saw that it is active.
    pub fn timer_mut(&mut self, unit: UnitId) -> &mut TimerRun {
        match &mut self.run_mut(unit).state {
            TypeState::Timer(Timer::Up(run)) => run,
            _ => panic!("the timer is active: it was looked at just before"),
        }
    }

    /// The scope, if it has processes or is to have some.
    pub fn scope(&self, unit: UnitId) -> Option<&ScopeRun> {
        match &self.run(unit).state {
            TypeState::Scope(Scope::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// The same for writing; the caller saw that it is up.
    pub fn scope_mut(&mut self, unit: UnitId) -> &mut ScopeRun {
        match &mut self.run_mut(unit).state {
            TypeState::Scope(Scope::Up(run)) => run,
            _ => panic!("the scope is up: it was looked at just before"),
        }
    }

    /// The path unit, if it is up or on its way.
    pub fn path(&self, unit: UnitId) -> Option<&PathRun> {
        match &self.run(unit).state {
            TypeState::Path(Path::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// The same for writing; the caller saw that it is up.
    pub fn path_mut(&mut self, unit: UnitId) -> &mut PathRun {
        match &mut self.run_mut(unit).state {
            TypeState::Path(Path::Up(run)) => run,
            _ => panic!("the path unit is up: it was looked at just before"),
        }
    }
}

fn service_up(run: &mut UnitRun) -> &mut ServiceRun {
    match &mut run.state {
        TypeState::Service(Service::Up(run)) => run,
        _ => panic!("the service is up: its phase was looked at just before"),
    }
}

/// Most writes are to the unit that was last written to.
fn note_write(lists: [&mut Vec<UnitId>; 2], unit: UnitId) {
    for list in lists {
        if list.last() != Some(&unit) {
            list.push(unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_services() -> Units {
        let run = Arc::new(UnitRun::idle(UnitType::Service));
        let mut units = Units::default();
        units.runs.push(run.clone());
        units.runs.push(run);
        units
    }

    #[test]
    fn a_write_is_told_once_and_a_rearmed_unit_apart() {
        let mut units = two_services();
        let (one, two) = (UnitId(0), UnitId(1));
        units.history_mut(two).restarts = 1;
        units.history_mut(one).restarts = 1;
        units.history_mut(two).restarts = 2;
        units.run_to_rearm(one);
        assert_eq!(units.take_changed(), BTreeSet::from([one, two]));
        assert_eq!(units.take_rearmed(), [one]);
        assert!(units.take_changed().is_empty() && units.take_rearmed().is_empty());
        let touched = units.take_touched();
        assert_eq!(touched, [one, two]);
        units.keep_touched(touched);
        assert!(units.take_touched().is_empty());
    }

    #[test]
    fn a_write_to_one_unit_leaves_the_snapshot_and_the_others_alone() {
        let mut units = two_services();
        let before = units.snapshot();
        units.history_mut(UnitId(0)).restarts = 1;
        assert!(before[0].history.is_none());
        assert!(units.run(UnitId(1)).history.is_none());
    }
}
