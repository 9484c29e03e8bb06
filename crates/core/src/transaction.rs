//! Transactions: from one request to the jobs that fulfil it.
//!
//! A pure function of the graph, the units' states, the installed jobs and the request. The steps:
//!
//! 1. *closure*: the anchor job and everything that its relations pull in; a job that has nothing
//!    to do pulls in nothing but stops for the sake of `Conflicts=`, unless the machine is to be as the
//!    anchor describes it (mode `isolate`);
//! 2. *merge*: one job per unit; of two that contradict each other the one that is not required
//!    gives way;
//! 3. *drop redundant*: jobs whose unit is already where they lead;
//! 4. *minimise* (mode `fail`): jobs that are not required stop nothing and replace nothing; a
//!    start that needs such a stop goes with it, for two units that conflict never both run;
//! 5. *order check*, on the merged graph and through the installed jobs: a circle is broken by
//!    dropping one job that is not required, one of stops by having one of them not wait, and reported whole;
//! 6. *meet the installed jobs*: replace them, or refuse.
//!
//! Redundant jobs go before the order check because a circle among units that already run blocks
//! nobody; minimising goes before it because the installed job that a dropped one would have
//! replaced stays. Ties are broken by unit name, so the plan does not depend on the order in which units
//! were loaded. What pulls in what is the table in `pulls`; its source is systemd.unit(5).
//!
//! Step 1 is in `closure`, 2 and 3 in `merge`, the others in `order`.

mod closure;
mod merge;
mod order;

use crate::graph::Graph;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode, JobType};
use crate::protocol::request::Refusal;
use std::collections::BTreeMap;
use warren_unit::Relation;

/// What a transaction needs to know of the units' states.
pub trait World {
    /// The state of a unit.
    fn active_state(&self, unit: UnitId) -> ActiveState;
    /// The installed job of a unit, and whether it is irreversible.
    fn installed(&self, unit: UnitId) -> Option<(JobKind, bool)>;
    /// Whether the installed job of a unit has begun, and so waits for nobody.
    fn has_begun(&self, unit: UnitId) -> bool;
    /// Every unit that is not down or has a job; asked for by `isolate` and `flush` only.
    fn busy_units(&self) -> Vec<UnitId>;
    /// Whether the unit can be reloaded now.
    fn can_reload(&self, unit: UnitId) -> bool;
    /// Whether the unit is a device and no device daemon reports devices: it is taken for plugged in.
    fn is_unseen(&self, unit: UnitId) -> bool;
    /// Whether an administrator has to clear the unit before anything starts it.
    fn is_put_aside(&self, unit: UnitId) -> bool;
    /// Whether each line of `RequireAny=` of `unit` that names `other` has another unit that is up.
    fn does_without(&self, unit: UnitId, other: UnitId) -> bool;
    /// The socket with `Accept=yes` that the unit serves a connection of.
    fn accepted_by(&self, unit: UnitId) -> Option<UnitId>;
}

/// The job that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// Its unit.
    pub unit: UnitId,
    /// Its type.
    pub job_type: JobType,
    /// How it meets the installed jobs.
    pub mode: JobMode,
}

/// One job of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Planned {
    /// Its unit.
    pub unit: UnitId,
    /// What it does.
    pub kind: JobKind,
    /// The unit whose job pulled it in; none for the anchor and for `isolate`'s stops.
    pub pulled_by: Option<UnitId>,
    /// Whether the pull was a conflict.
    pub by_conflict: bool,
}

/// A circle of jobs that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Circle {
    /// Its units; each waits for the next, the last for the first.
    pub units: Vec<UnitId>,
    /// The unit whose job was dropped, or waits for nobody.
    pub at: UnitId,
    /// Whether the job is kept: a stop.
    pub is_kept: bool,
}

/// A start that was wanted and is not in the plan, because of what its unit requires or conflicts with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The unit that was wanted.
    pub unit: UnitId,
    /// The unit that cannot be, required by it or through others, or that is started in its place.
    pub for_want_of: UnitId,
    /// Why not.
    pub refusal: Refusal,
}

/// The jobs to install, and what had to give way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The anchor first, then the others by unit name.
    pub jobs: Vec<Planned>,
    /// Installed jobs that go because the mode is `flush`.
    pub cancelled: Vec<UnitId>,
    /// Circles that were broken.
    pub circles: Vec<Circle>,
    /// Starts that were wanted in vain, by unit name.
    pub left_out: Vec<LeftOut>,
}

/// How a job pulls in another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Strength {
    /// Without it the puller cannot be.
    Required,
    /// It is tried.
    Wanted,
    /// A stop for the sake of somebody else's `Conflicts=`: gives way to a start.
    Conflicted,
}

/// What a job of `kind` on a unit pulls in over which relations.
fn pulls(kind: JobKind) -> impl Iterator<Item = &'static (Relation, JobType, Strength)> {
    use JobType::{Start, Stop, TryReload, TryRestart, VerifyActive};
    use Relation::*;
    use Strength::*;
    const START: &[(Relation, JobType, Strength)] = &[
        (Relation::Requires, Start, Required),
        (BindsTo, Start, Required),
        (MountsFor, Start, Required),
        (Requisite, VerifyActive, Required),
        (Relation::Wants, Start, Wanted),
        (Upholds, Start, Wanted),
        (RequireAny, Start, Wanted),
        (Conflicts, Stop, Required),
        (ConflictedBy, Stop, Strength::Conflicted),
    ];
    const STOP: &[(Relation, JobType, Strength)] = &[
        (RequiredBy, Stop, Required),
        (BoundBy, Stop, Required),
        (RequisiteOf, Stop, Required),
        (ConsistsOf, Stop, Required),
        (MountsForOf, Stop, Required),
        (PropagatesStopTo, Stop, Required),
        (RestartOnRestartOf, Stop, Required),
        (RestartOnRefreshOf, Stop, Required),
    ];
    /// Beside [`START`].
    const RESTART: &[(Relation, JobType, Strength)] = &[
        (RequiredBy, TryRestart, Required),
        (BoundBy, TryRestart, Required),
        (RequisiteOf, TryRestart, Required),
        (ConsistsOf, TryRestart, Required),
        (MountsForOf, TryRestart, Required),
        (RestartOnRestartOf, TryRestart, Required),
        (RestartOnRefreshOf, TryRestart, Required),
    ];
    const RELOAD: &[(Relation, JobType, Strength)] =
        &[(PropagatesReloadTo, TryReload, Wanted), (RestartOnRefreshOf, TryRestart, Wanted)];
    let [first, second] = match kind {
        JobKind::Start => [START, &[]],
        JobKind::Stop => [STOP, &[]],
        JobKind::Restart => [START, RESTART],
        JobKind::Reload => [RELOAD, &[]],
        JobKind::VerifyActive | JobKind::Nop => [&[][..], &[]],
    };
    first.iter().chain(second)
}

/// Builds the plan for `anchor`, or says why there is none.
pub fn build(graph: &Graph, world: &dyn World, anchor: Anchor) -> Result<Plan, Refusal> {
    let mut draft = Draft::closed(graph, world, anchor)?;
    draft.add_mode_jobs();
    draft.merge()?;
    draft.drop_redundant();
    draft.minimise()?;
    draft.check_order()?;
    draft.meet_installed()?;
    Ok(draft.into_plan())
}

#[derive(Debug)]
struct Entry {
    unit: UnitId,
    kind: JobKind,
    /// Required by the anchor, directly or through others.
    required: bool,
    pulled_by: Option<UnitId>,
    by_conflict: bool,
    live: bool,
    /// Cannot be: the unit is not loadable, or the job does not apply to it.
    refused: Option<Refusal>,
    /// It is another unit that cannot be, and this one requires it.
    for_want_of: Option<UnitId>,
}

#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    strength: Strength,
}

/// A unit's job, and whether its second half is meant.
type Half = (UnitId, bool);

struct Draft<'a> {
    graph: &'a Graph,
    world: &'a dyn World,
    anchor: Anchor,
    entries: Vec<Entry>,
    index: BTreeMap<(UnitId, JobKind), usize>,
    links: Vec<Link>,
    /// Jobs after merging: unit to kind.
    jobs: BTreeMap<UnitId, JobKind>,
    circles: Vec<Circle>,
    cancelled: Vec<UnitId>,
    /// Follow also what jobs pull in that have nothing to do.
    whole: bool,
}

impl<'a> Draft<'a> {
    /// With everything that the anchor pulls in. `isolate` looks behind jobs that have nothing to do as well,
    /// as with systemd 252, unless something there cannot be.
    fn closed(graph: &'a Graph, world: &'a dyn World, anchor: Anchor) -> Result<Self, Refusal> {
        if anchor.mode == JobMode::Isolate {
            let mut draft = Draft { whole: true, ..Draft::new(graph, world, anchor) };
            if draft.close().is_ok() {
                return Ok(draft);
            }
        }
        let mut draft = Draft::new(graph, world, anchor);
        draft.close()?;
        Ok(draft)
    }

    fn new(graph: &'a Graph, world: &'a dyn World, anchor: Anchor) -> Self {
        Draft {
            graph,
            world,
            anchor,
            entries: Vec::new(),
            index: BTreeMap::new(),
            links: Vec::new(),
            jobs: BTreeMap::new(),
            circles: Vec::new(),
            cancelled: Vec::new(),
            whole: false,
        }
    }

    fn collapse(&self, unit: UnitId, job_type: JobType) -> JobKind {
        job_type.collapse(self.world.active_state(unit))
    }

    fn into_plan(self) -> Plan {
        let left_out = self.left_out();
        let by_unit = self.by_unit();
        let mut jobs: Vec<Planned> = self
            .jobs
            .iter()
            .map(|(&unit, &kind)| {
                let from = by_unit.get(&unit).and_then(|entries| entries.first());
                let entry = from.map(|&i| &self.entries[i]);
                Planned {
                    unit,
                    kind,
                    pulled_by: entry.and_then(|e| e.pulled_by),
                    by_conflict: entry.is_some_and(|e| e.by_conflict),
                }
            })
            .collect();
        let anchor = self.anchor.unit;
        jobs.sort_unstable_by_key(|job| (job.unit != anchor, self.graph.name(job.unit)));
        Plan { jobs, cancelled: self.cancelled, circles: self.circles, left_out }
    }
}
