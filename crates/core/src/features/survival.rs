//! What is still up when everything else has been stopped (systemd-soft-reboot.service(8) and
//! `SurviveFinalKillSignal=` of systemd.unit(5)).

use crate::features::cgroup_place;
use crate::graph::Graph;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::state::{BootTimes, TypeState, UnitRun};
use crate::parts::Core;
use crate::parts::resources::Resources;
use crate::parts::units::Units;
use crate::persist::run_state::Restored;
use std::collections::BTreeSet;
use warren_unit::Relation;

/// Whoever conflicts with one of these is stopped by every end: default dependencies say so.
const ALL_ENDS: [&str; 3] = ["shutdown.target", "umount.target", "final.target"];

/// Whoever conflicts with one of these is stopped before the machine boots with a kernel or is off.
const HARD_ENDS: [&str; 4] = ["reboot.target", "poweroff.target", "halt.target", "kexec.target"];

/// What takes a unit with it when it is stopped.
const LEANS_ON: [Relation; 6] = [
    Relation::Requires,
    Relation::Requisite,
    Relation::BindsTo,
    Relation::PartOf,
    Relation::StopPropagatedFrom,
    Relation::MountsFor,
];

/// Units that the end leaves up, with the slices that they are in: services that say so and that
/// conflict with no target of the end; if it is a soft reboot, sockets and file systems that
/// conflict with none too. Whoever leans on what is stopped is stopped with it.
pub(crate) fn outlasting(core: &Core, soft: bool) -> BTreeSet<UnitId> {
    let mut out: BTreeSet<UnitId> = core
        .units
        .busy()
        .into_iter()
        .filter(|&unit| may_outlast(&core.graph, &core.units, unit, soft))
        .collect();
    loop {
        let falls = |&unit: &UnitId| leans_on_stopped(&core.graph, &core.units, unit, &out);
        let falling: Vec<UnitId> = out.iter().copied().filter(falls).collect();
        if falling.is_empty() {
            break;
        }
        falling.iter().for_each(|unit| _ = out.remove(unit));
    }
    let slices: Vec<UnitId> =
        out.iter().flat_map(|&unit| slices_of(&core.graph, &core.resources, unit)).collect();
    out.extend(slices);
    out
}

fn may_outlast(graph: &Graph, units: &Units, unit: UnitId, soft: bool) -> bool {
    let kind_may = match units.run(unit).state {
        TypeState::Service(_) => graph.flags(unit).survive_final_kill_signal(),
        TypeState::Socket(_)
        | TypeState::Mount(_)
        | TypeState::Automount(_)
        | TypeState::Swap(_) => soft,
        _ => false,
    };
    let is_up = matches!(units.active_state(unit), ActiveState::Active | ActiveState::Reloading);
    kind_may && is_up && !is_ended_by(graph, unit, soft)
}

fn is_ended_by(graph: &Graph, unit: UnitId, soft: bool) -> bool {
    let both = [Relation::Conflicts, Relation::ConflictedBy];
    let mut others = both.into_iter().flat_map(|relation| graph.related(unit, relation));
    others.any(|other| {
        let name = graph.name(other).as_str();
        let of_kind = match soft {
            true => name == "soft-reboot.target",
            false => HARD_ENDS.contains(&name),
        };
        of_kind || ALL_ENDS.contains(&name)
    })
}

fn leans_on_stopped(
    graph: &Graph,
    units: &Units,
    unit: UnitId,
    staying: &BTreeSet<UnitId>,
) -> bool {
    let mut others = LEANS_ON.into_iter().flat_map(|relation| graph.related(unit, relation));
    others.any(|other| {
        let stays = staying.contains(&other)
            || graph.flags(other).perpetual()
            || matches!(units.run(other).state, TypeState::Slice(_) | TypeState::Device(_));
        !stays && !units.active_state(other).is_down()
    })
}

fn slices_of(graph: &Graph, resources: &Resources, unit: UnitId) -> Vec<UnitId> {
    let parent = |&slice: &UnitId| graph.definition(slice).slice;
    let defined = || std::iter::successors(graph.definition(unit).slice, parent).collect();
    cgroup_place::strays_in(graph, resources, unit).unwrap_or_else(defined)
}

impl Restored {
    /// What holds after a soft reboot: the run state of what is up. The rest begins as on a boot.
    #[must_use]
    pub fn after_soft_reboot(mut self) -> Restored {
        let is_kept = |run: &UnitRun| {
            let up = matches!(run.active_state(), ActiveState::Active | ActiveState::Reloading);
            up && !matches!(run.state, TypeState::Target(_) | TypeState::Device(_))
        };
        self.runs.retain(|_, run| is_kept(run));
        self.runs.values_mut().for_each(|run| run.job = None);
        self.boot = BootTimes::default();
        if let Some(manager) = &mut self.manager {
            manager.startup_finished = false;
            manager.stopping = false;
            manager.jobs_ever = 0;
            manager.failed_jobs_ever = 0;
            manager.ending = 0;
        }
        self
    }
}
