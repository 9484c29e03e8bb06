//! The cgroups of units: made when something is to run in them, removed when the unit is down. Only
//! groups of active units are ever touched.
//!
//! Whether somebody is left in a group is looked at when a process ends that the machine knows, and
//! a group is watched only when there is: of most services the main process is the last. Where a
//! group has the memory controller, what the kernel kills in it for want of memory is watched too.
//! What cannot be watched (inotify(7), `max_user_watches`) is looked at again when processes end, and now and
//! then ([`Groups::look_at_unwatched`]).

use crate::cgroup::controllers::Enabled;
use crate::cgroup::controllers::NotApplied;
use crate::cgroup::limits::{self, host_tasks};
use crate::cgroup::limits::{DEFAULT_OF_STARTUP, GroupLimits, HostTasks, Mark, OF_STARTUP, Phase};
use crate::cgroup::programs::{Allowed, Programs};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use warren_core::graph::Graph;
use warren_core::graph::cgroup_path::slice_path;
use warren_core::machine::Core;
use warren_core::model::ids::UnitId;
use warren_core::settings::Compiled;
use warren_sys::Result;
use warren_sys::cgroup::watch::{Watch, WatchId};
use warren_sys::cgroup::{GROUPS_MAX, Pruned, Tree};
use warren_trace::words::Counter;
use warren_unit::config::Delegate;
use warren_unit::settings::Id;
use warren_unit::{UnitName, UnitType};

use crate::base::say::say;

const PIDS_MAX: &str = "pids.max";

/// Nobody in the group can make another process.
const NO_PIDS: &str = "0";

/// Groups below that of a unit which the loop looks at or removes by itself. Who has a group delegated makes as many as he
/// likes: with more a thread does it.
const AT_ONCE_MAX: usize = 256;

/// Walks by which a thread removes the groups below that of a unit, at most: some that the unit left may make others
/// for ever.
const WALKS_MAX: usize = 64;

/// Processes of a unit.
pub struct Listed {
    /// Their numbers.
    pub pids: Vec<i32>,
    /// There are no others in groups that were not looked at.
    pub is_all: bool,
}

/// What became of a unit's group.
pub enum Removed {
    /// It is gone, but for the processes that are left over and keep it.
    All {
        /// Them.
        left: Vec<i32>,
    },
    /// Some groups below it are gone, and there are more: its path.
    Some(String),
}

impl Removed {
    fn all() -> Removed {
        Removed::All { left: Vec::new() }
    }
}

/// Where processes of a delegated unit run that are not its main process, below its group.
const CONTROL_GROUP: &str = ".control";

/// In which systemd-oomd counts how often it kills what is in a group.
const OOMD_KILLS: &str = "user.oomd_ooms";

/// What `/proc/PID/cgroup` adds to the path of a group that is gone (cgroups(7)).
const REMOVED: &str = " (deleted)";

/// The tree, if there is one, and the groups in use.
pub struct Groups {
    tree: Option<Arc<Tree>>,
    /// [`root_path`] of it.
    root: String,
    watch: Option<Watch>,
    by_watch: BTreeMap<WatchId, Watched>,
    made: BTreeMap<UnitId, Group>,
    /// Units whose group was to be watched and could not be.
    unwatched: BTreeSet<UnitId>,
    /// The same of want of memory in it.
    memory_unwatched: BTreeSet<UnitId>,
    /// That a group cannot be watched was said.
    is_want_told: bool,
    /// Controllers that the root of the tree offers.
    controllers: Vec<String>,
    /// Units whose group is being killed elsewhere: until that is over nothing is said of it, so
    /// that it cannot hit what comes after.
    killing: BTreeSet<UnitId>,
    /// Units that are killed together, by the first of them.
    together: BTreeMap<UnitId, Vec<UnitId>>,
    enabled: Enabled,
    host_tasks: HostTasks,
    programs: Programs,
    phase: Phase,
    /// Units whose limits are others in another phase.
    of_phase: BTreeSet<UnitId>,
}

/// What a watch is for.
#[derive(Clone, Copy)]
enum Watched {
    /// Whether the unit's group is empty.
    Empty(UnitId),
    /// Whether memory ran out in it.
    Memory(UnitId),
}

/// What the kernel reported of groups.
#[derive(Default)]
pub struct News {
    /// Units whose group is empty now.
    pub empty: Vec<UnitId>,
    /// Units of which a process was killed for want of memory.
    pub out_of_memory: Vec<UnitId>,
}

struct Group {
    path: String,
    watch: Option<WatchId>,
    memory: Option<Memory>,
    /// It is to be made anew before it is used again, if nobody is in it.
    stale: bool,
    /// `cgroup.kill` was written, or nobody knows. Linux 6.18 kills whatever is cloned into such a group
    /// afterwards: a process enters it after it was made.
    killed: bool,
    /// Nobody is in it, and nobody was put there since that was found.
    empty: bool,
    /// Somebody was put there since it was last looked at. Either this, or it is empty, or it is
    /// watched.
    used: bool,
    /// It is gone already, and had used so much.
    removed: Option<Vec<(Counter, u64)>>,
    /// How often systemd-oomd has killed what was in it, as far as the machine was told.
    oomd_kills: u64,
}

/// A group with the memory controller.
struct Memory {
    watch: Option<WatchId>,
    /// Processes that were killed for want of memory, as far as the machine was told.
    kills: u64,
}

impl Group {
    fn watches(&self) -> impl Iterator<Item = WatchId> + use<> {
        let of_memory = self.memory.as_ref().and_then(|memory| memory.watch);
        self.watch.into_iter().chain(of_memory)
    }
}

impl Groups {
    /// Has a group use no more than is allowed (see [`Programs::apply`]).
    pub fn allow(
        &mut self,
        path: &str,
        before: Option<&Allowed>,
        allowed: &Allowed,
    ) -> Vec<NotApplied> {
        let Some(tree) = self.tree.clone() else { return allowed.without_groups() };
        self.programs.apply(&tree, path, before, allowed)
    }

    /// The map in which processes mark themselves, if a group was restricted as to files (see [`Programs::marks`]).
    pub fn marks(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.programs.marks()
    }

    /// Over this tree, or without cgroups.
    pub fn new(tree: Option<Tree>) -> Groups {
        let watch = tree.as_ref().map(|_| Watch::new()).transpose();
        let is_want_told = watch.as_ref().is_err_and(|error| {
            tell_want(error);
            true
        });
        let watch = watch.ok().flatten();
        let controllers =
            tree.as_ref().map(|t| t.controllers("").unwrap_or_default()).unwrap_or_default();
        let (by_watch, made) = (BTreeMap::new(), BTreeMap::new());
        let (killing, together) = (BTreeSet::new(), BTreeMap::new());
        let enabled = Enabled::default();
        let root = tree.as_ref().map(root_path).unwrap_or_default();
        let tree = tree.map(Arc::new);
        let host_tasks = HostTasks::default();
        Groups {
            tree,
            root,
            watch,
            by_watch,
            made,
            unwatched: BTreeSet::new(),
            memory_unwatched: BTreeSet::new(),
            is_want_told,
            controllers,
            killing,
            together,
            enabled,
            host_tasks,
            programs: Programs::default(),
            phase: Phase::default(),
            of_phase: BTreeSet::new(),
        }
    }

    /// Whether processes are tracked by cgroups.
    pub fn exist(&self) -> bool {
        self.tree.is_some()
    }

    /// The tree.
    pub fn tree(&self) -> Option<&Arc<Tree>> {
        self.tree.as_ref()
    }

    /// To be watched for groups that became empty.
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// The path of an active unit's group below the root of the tree.
    pub fn path(&self, unit: UnitId) -> Option<&str> {
        self.made.get(&unit).map(|g| g.path.as_str())
    }

    /// The same, with the kernel's id of the group.
    pub fn path_and_id(&self, unit: UnitId) -> Option<(&str, Option<u64>)> {
        let path = self.path(unit)?;
        Some((path, self.tree.as_ref().and_then(|tree| tree.id(path).ok())))
    }

    /// Makes and watches the unit's group at this path; fine if it has one. Returned are limits that cannot
    /// be applied.
    pub fn make(
        &mut self,
        graph: &Graph,
        unit: UnitId,
        path: &str,
        settings: &Compiled,
    ) -> Result<Vec<NotApplied>> {
        let is_there = self.made.get_mut(&unit).map(|group| {
            group.empty = false;
            group.stale || group.removed.is_some()
        });
        match is_there {
            Some(true) if !self.is_populated(unit) => _ = self.remove(unit),
            Some(is_stale) => {
                if is_stale {
                    self.make_room(unit, settings);
                }
                return Ok(Vec::new());
            }
            None => {}
        }
        let Some(tree) = &self.tree else { return Ok(Vec::new()) };
        let now = Instant::now();
        let wanted =
            GroupLimits::of(settings, self.phase, &self.controllers, || self.host_tasks.get(now));
        let controllers = wanted.of_offered(&self.controllers);
        let usable = self.enabled.enable(tree, path, &controllers, now);
        let missing = wanted.missing(usable.on());
        let mut failed: Vec<NotApplied> =
            missing.map(|(setting, controller)| usable.lacks(setting, controller)).collect();
        let is_left = if is_slice(graph, unit) {
            tree.make(path)?;
            false
        } else {
            make_anew(tree, path)?
        };
        failed.extend(usable.apply(tree, path, &wanted.attributes));
        failed.extend(mark(tree, path, &wanted.marks));
        self.adopt(graph, unit, path.to_owned(), is_left, is_left);
        if is_left {
            self.make_room(unit, settings);
        }
        Ok(failed)
    }

    /// Writes what these settings say to the group at this path, which is made if it is not there, and takes back
    /// what those of before say and these do not. Returned are limits that cannot be applied.
    pub fn limit(
        &mut self,
        path: &str,
        before: Option<&Compiled>,
        settings: &Compiled,
    ) -> Vec<NotApplied> {
        let now = Instant::now();
        let phase = self.phase;
        let mut want = |settings| {
            GroupLimits::of(settings, phase, &self.controllers, || self.host_tasks.get(now))
        };
        let wanted = match before.map(&mut want) {
            Some(before) => want(settings).since(before),
            None => want(settings),
        };
        self.write(path, wanted)
    }

    /// The system is at something else now. Returned are the units whose limits are others then.
    pub fn enter_phase(&mut self, phase: Phase) -> Vec<UnitId> {
        match std::mem::replace(&mut self.phase, phase) == phase {
            true => Vec::new(),
            false => self.of_phase.iter().copied().collect(),
        }
    }

    /// Writes what is other for the group at this path since [`Groups::enter_phase`].
    pub fn follow_phase(&mut self, path: &str, settings: &Compiled) -> Vec<NotApplied> {
        let before = match self.phase {
            Phase::Passing => Phase::Running,
            Phase::Running => Phase::Passing,
        };
        let now = Instant::now();
        let mut want = |phase| {
            GroupLimits::of(settings, phase, &self.controllers, || self.host_tasks.get(now))
        };
        let wanted = want(self.phase).since(want(before));
        self.write(path, wanted)
    }

    /// Writes to the group at this path, which is made if it is not there.
    fn write(&mut self, path: &str, wanted: GroupLimits) -> Vec<NotApplied> {
        let Some(tree) = &self.tree else { return Vec::new() };
        let now = Instant::now();
        if wanted.attributes.is_empty() && wanted.marks.is_empty() {
            return Vec::new();
        }
        let controllers = wanted.of_offered(&self.controllers);
        let usable = self.enabled.enable(tree, path, &controllers, now);
        if let Err(e) = tree.make(path) {
            let failed = |one: &limits::Attribute| NotApplied {
                setting: one.setting.to_owned(),
                why: e.to_string(),
            };
            return wanted.attributes.iter().map(failed).collect();
        }
        let mut failed = usable.apply(tree, path, &wanted.attributes);
        failed.extend(mark(tree, path, &wanted.marks));
        failed
    }

    /// A group that cannot be made anew, as the kernel holds somebody in it, is used as it is: if a manager was killed
    /// over [`Groups::kill_task`], nobody in it could make processes.
    fn make_room(&self, unit: UnitId, settings: &Compiled) {
        let (Some(tree), Some(path)) = (&self.tree, self.path(unit)) else { return };
        let has_none = || tree.read(path, PIDS_MAX).is_ok_and(|max| max.trim() == NO_PIDS);
        if self.killing.contains(&unit) || !has_none() {
            return;
        }
        let wanted = GroupLimits::of(settings, self.phase, &self.controllers, host_tasks);
        let limit = wanted.attributes.into_iter().find(|attribute| attribute.file == PIDS_MAX);
        let limit = limit.and_then(|attribute| attribute.value);
        let _ = tree.write(path, PIDS_MAX, limit.as_deref().unwrap_or("max"));
    }

    /// Where a process of an active unit is put, and which groups its user is to have (`Delegate=`,
    /// `DelegateSubgroup=`).
    ///
    /// A group whose processes have groups of their own cannot have processes itself (cgroups(7),
    /// "no internal processes"), so that what is not the main process of such a unit runs beside it.
    pub fn place(
        &self,
        unit: UnitId,
        settings: &Compiled,
        main: bool,
    ) -> Result<(Option<String>, Vec<String>)> {
        let (Some(tree), Some(path)) = (&self.tree, self.path(unit)) else {
            return Ok((None, Vec::new()));
        };
        let config = limits::cgroup_config(settings).filter(|c| c.delegate != Delegate::No);
        let Some(config) = config else { return Ok((Some(path.to_owned()), Vec::new())) };
        let mut own = vec![path.to_owned()];
        let below = match main {
            true => config.delegate_subgroup.as_deref(),
            false => Some(CONTROL_GROUP),
        };
        let Some(below) = below else { return Ok((Some(path.to_owned()), own)) };
        let place = format!("{path}/{below}");
        tree.make(&place)?;
        if main {
            own.push(place.clone());
        }
        Ok((Some(place), own))
    }

    /// The group of a unit, and its file that tells of pressure on memory, if the kernel counts that.
    pub fn memory_pressure(&self, unit: UnitId) -> Option<(String, String)> {
        const FILE: &str = "memory.pressure";
        let (tree, path) = (self.tree.as_ref()?, self.path(unit)?);
        let file = tree.path().join(path).join(FILE);
        let file = file.to_str().filter(|file| std::path::Path::new(file).exists())?;
        Some((path.to_owned(), file.to_owned()))
    }

    /// Takes a group that exists.
    ///
    /// Whether memory runs out is not asked of slices: their groups count what their units' do.
    fn adopt(&mut self, graph: &Graph, unit: UnitId, path: String, stale: bool, killed: bool) {
        let memory = if is_slice(graph, unit) { None } else { self.watch_memory(&path) };
        match memory.as_ref().map(|memory| memory.watch) {
            Some(Some(watch)) => _ = self.by_watch.insert(watch, Watched::Memory(unit)),
            Some(None) => _ = self.memory_unwatched.insert(unit),
            None => {}
        }
        let mentions = |unit, setting: Id| graph.definition(unit).mentions(setting);
        if OF_STARTUP.iter().any(|&setting| mentions(unit, setting))
            || graph.slices_above(unit).any(|slice| mentions(slice, DEFAULT_OF_STARTUP))
        {
            self.of_phase.insert(unit);
        }
        let (watch, removed) = (None, None);
        let (empty, used) = (false, false);
        // One that was made just now has none.
        let kills = || self.tree.as_ref()?.marked_number(&path, OOMD_KILLS);
        let oomd_kills = if stale { kills().unwrap_or(0) } else { 0 };
        let group = Group { path, watch, memory, stale, killed, empty, used, removed, oomd_kills };
        self.made.insert(unit, group);
    }

    fn watch_memory(&mut self, path: &str) -> Option<Memory> {
        let tree = self.tree.as_ref()?;
        if !self.controllers.iter().any(|name| name == "memory") {
            return None;
        }
        let watch = self.watch.as_ref().map(|watch| watch.add_memory(tree, path)).transpose();
        let kills = tree.oom_kills(path).ok()?;
        let watch = watch.unwrap_or_else(|error| {
            self.tell_want(&error);
            None
        });
        Some(Memory { watch, kills })
    }

    fn tell_want(&mut self, error: &warren_sys::Error) {
        if !std::mem::replace(&mut self.is_want_told, true) {
            tell_want(error);
        }
    }

    /// Whether a process of the unit was killed for want of memory since this was last asked.
    pub fn ran_out_of_memory(&mut self, unit: UnitId) -> bool {
        let (Some(tree), Some(group)) = (&self.tree, self.made.get_mut(&unit)) else {
            return false;
        };
        let Some(memory) = &mut group.memory else { return false };
        let kills = tree.oom_kills(&group.path).unwrap_or(memory.kills);
        std::mem::replace(&mut memory.kills, kills) < kills
    }

    /// Whether systemd-oomd has killed what was in the unit's group since this was last asked: it counts that in an
    /// extended attribute of the group before it does so.
    pub fn was_killed_by_oomd(&mut self, unit: UnitId) -> bool {
        let (Some(tree), Some(group)) = (&self.tree, self.made.get_mut(&unit)) else {
            return false;
        };
        let kills = tree.marked_number(&group.path, OOMD_KILLS).unwrap_or(group.oomd_kills);
        std::mem::replace(&mut group.oomd_kills, kills) < kills
    }

    /// After a restart: takes up the group of a unit whose record says that it has one. If it is gone, nobody
    /// can be in it; that of a mount need not have been made.
    pub fn take_up(&mut self, graph: &Graph, unit: UnitId, path: &str) {
        let Some(tree) = &self.tree else { return };
        let is_gone = tree.exists(path) == Ok(false);
        let of_mount =
            matches!(graph.definition(unit).unit_type(), UnitType::Mount | UnitType::Swap);
        if is_gone && of_mount {
            return;
        }
        // Nobody knows any more; it is made again when it is next used and empty.
        self.adopt(graph, unit, path.to_owned(), true, true);
        if let Some(group) = self.made.get_mut(&unit).filter(|_| is_gone) {
            group.removed = Some(Vec::new());
        }
        if !is_slice(graph, unit) {
            self.note_use(unit);
        }
    }

    /// Whether nobody is left in the unit's group; the kernel's report of it, if it is still to
    /// come, says nothing new then. If somebody is, the kernel will report his end.
    pub fn found_empty(&mut self, unit: UnitId) -> bool {
        let empty = match self.populated(unit) {
            // Who is the last may go before the watch begins.
            Ok(is_populated) => !is_populated || self.begin_watch(unit) && !self.is_populated(unit),
            Err(_) => self.try_remove(unit) || self.begin_watch(unit) && self.try_remove(unit),
        };
        if let Some(group) = self.made.get_mut(&unit) {
            group.empty = empty;
            group.used = false;
        }
        if empty {
            self.unwatched.remove(&unit);
        }
        empty
    }

    /// The last process of the unit that is known has ended: whether it left nobody behind. What it
    /// left behind is reported by the kernel when it ends.
    pub fn emptied_by_end(&mut self, unit: UnitId) -> bool {
        self.made.get(&unit).is_some_and(|group| group.used) && self.emptied(unit)
    }

    /// The same where the unit is down with it, so that its group can go: the kernel does not
    /// remove one in which somebody is, and nothing need be read to know.
    pub fn removed_by_end(&mut self, unit: UnitId) -> bool {
        let is_used = self.made.get(&unit).is_some_and(|group| group.used);
        if !is_used || self.killing.contains(&unit) {
            return false;
        }
        self.try_remove(unit)
    }

    /// Removes the unit's group; whether that could be, as it can if nobody is in it: of that nothing need be
    /// read, for which there may be no descriptor. It is made again when it is used.
    fn try_remove(&mut self, unit: UnitId) -> bool {
        let counters = self.counters(unit);
        let (Some(tree), Some(group)) = (&self.tree, self.made.get_mut(&unit)) else {
            return false;
        };
        let is_gone = tree.remove(&group.path).is_ok();
        if is_gone {
            (group.empty, group.used, group.removed) = (true, false, Some(counters));
        }
        is_gone
    }

    /// Whether nobody is left in the unit's group that is not being killed just now.
    pub fn emptied(&mut self, unit: UnitId) -> bool {
        !self.killing.contains(&unit) && self.found_empty(unit)
    }

    /// Whether a process lives in the unit's group, as far as can be told.
    pub fn is_populated(&self, unit: UnitId) -> bool {
        self.populated(unit).unwrap_or(true)
    }

    /// The same; an error where it cannot be told, as for want of descriptors.
    fn populated(&self, unit: UnitId) -> Result<bool> {
        let (Some(tree), Some(group)) = (&self.tree, self.made.get(&unit)) else {
            return Ok(false);
        };
        if group.removed.is_some() {
            return Ok(false);
        }
        match tree.events(&group.path) {
            Ok(events) => Ok(events.populated),
            Err(error) if error.is_gone() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The processes of the unit's group and of groups below it, those of the group itself first, as far as they can be
    /// listed at once.
    pub fn processes(&self, unit: UnitId) -> Vec<i32> {
        self.listed(unit).map(|listed| listed.pids).unwrap_or_default()
    }

    /// The same; none if it has no group, and nothing if they cannot be listed: there are no cgroups, or
    /// no descriptors to read of them.
    pub fn listed(&self, unit: UnitId) -> Option<Listed> {
        let tree = self.tree.as_ref()?;
        match self.path(unit).map(|path| tree.some_procs_below(path, AT_ONCE_MAX)) {
            Some(Ok((pids, is_all))) => Some(Listed { pids, is_all }),
            Some(Err(error)) if !error.is_gone() => None,
            _ => Some(Listed { pids: Vec::new(), is_all: true }),
        }
    }

    /// Whether the unit's group is of a run before and is to be made anew: nobody is in it any more.
    pub fn is_outdated(&self, unit: UnitId) -> bool {
        let is_old = |group: &Group| group.stale && group.removed.is_none();
        self.made.get(&unit).is_some_and(is_old) && !self.is_populated(unit)
    }

    /// Whether a process is in a group that is neither the unit's nor below it. Of one that has ended, and waits to
    /// be reaped, the kernel tells the group that it was in.
    pub fn is_elsewhere(&self, unit: UnitId, pid: i32) -> bool {
        let own = self.path(unit);
        let Some(own) = own.map(|path| format!("{}/{path}", self.root.trim_end_matches('/')))
        else {
            return false;
        };
        let Ok(group) = warren_sys::process::cgroup_path(pid) else { return false };
        let group = group.strip_suffix(REMOVED).unwrap_or(&group);
        !group.strip_prefix(&own).is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }

    /// Has all processes of the unit stand still, or go on; the kernel reports when they do. The error
    /// is for people.
    pub fn freeze(&mut self, unit: UnitId, frozen: bool) -> std::result::Result<(), String> {
        self.begin_watch(unit);
        match (&self.tree, self.path(unit)) {
            (Some(tree), Some(path)) => tree.freeze(path, frozen).map_err(|e| e.to_string()),
            _ if frozen => Err("it has no cgroup".to_owned()),
            _ => Ok(()),
        }
    }

    /// Whether all processes of the unit stand still.
    pub fn is_frozen(&self, unit: UnitId) -> bool {
        let events = self.tree.as_ref().zip(self.path(unit));
        events.and_then(|(tree, path)| tree.events(path).ok()).is_some_and(|events| events.frozen)
    }

    /// Kills everything in the unit's group at once.
    pub fn kill(&mut self, unit: UnitId) -> Result<()> {
        self.note_kill(unit);
        match (&self.tree, self.path(unit)) {
            (Some(tree), Some(path)) => tree.kill(path),
            _ => Ok(()),
        }
    }

    /// The same, as a task for another thread: the kernel visits every process of the group. While
    /// it does they cannot make others, where the kernel lets that be said.
    pub fn kill_task(
        &mut self,
        unit: UnitId,
    ) -> Option<impl FnOnce() -> Result<()> + Send + 'static> {
        let tree = Tree::open(self.tree.as_ref()?.path()).ok()?;
        let path = self.path(unit)?.to_owned();
        self.killing.insert(unit);
        self.note_kill(unit);
        Some(move || {
            let limit = tree.read(&path, PIDS_MAX).ok();
            if limit.is_some() {
                let _ = tree.write(&path, PIDS_MAX, NO_PIDS);
            }
            let killed = tree.kill(&path);
            if let Some(limit) = limit {
                let _ = tree.write(&path, PIDS_MAX, limit.trim());
            }
            killed
        })
    }

    /// Of these units, those of slices in which there is nobody else, by the slice's path; and the
    /// rest.
    pub fn whole_slices(&self, units: Vec<UnitId>) -> (Vec<(String, Vec<UnitId>)>, Vec<UnitId>) {
        let mut by_slice: BTreeMap<String, Vec<UnitId>> = BTreeMap::new();
        for unit in units {
            let slice = self.path(unit).and_then(|path| path.rsplit_once('/'));
            by_slice.entry(slice.map_or("", |(slice, _)| slice).to_owned()).or_default().push(unit);
        }
        let is_whole = |slice: &str, units: &[UnitId]| {
            let count = self.tree.as_ref().and_then(|tree| tree.count_children(slice).ok());
            !slice.is_empty() && units.len() > 1 && count == Some(units.len())
        };
        let (whole, rest): (Vec<_>, Vec<_>) =
            by_slice.into_iter().partition(|(slice, units)| is_whole(slice, units));
        (whole, rest.into_iter().flat_map(|(_, units)| units).collect())
    }

    /// Kills everything in a slice, as a task for another thread: there is nobody in it but these.
    pub fn slice_kill_task(
        &mut self,
        slice: &str,
        units: &[UnitId],
    ) -> Option<impl FnOnce() -> Result<()> + Send + 'static> {
        let (tree, slice) = (Tree::open(self.tree.as_ref()?.path()).ok()?, slice.to_owned());
        for unit in units {
            self.killing.insert(*unit);
            self.note_kill(*unit);
        }
        self.together.insert(*units.first()?, units.to_vec());
        Some(move || tree.kill(&slice))
    }

    /// The units that were killed together with this one, it among them.
    pub fn killed_with(&mut self, first: UnitId) -> Vec<UnitId> {
        self.together.remove(&first).unwrap_or_else(|| vec![first])
    }

    fn note_kill(&mut self, unit: UnitId) {
        if let Some(group) = self.made.get_mut(&unit) {
            (group.stale, group.killed) = (true, true);
        }
    }

    /// The task is done; whether the group is empty now.
    pub fn killed(&mut self, unit: UnitId) -> bool {
        self.killing.remove(&unit);
        self.found_empty(unit)
    }

    /// What the unit's group has used in all, as far as the kernel counts it: CPU time always, the
    /// rest where the controller is there. The counters of a group begin at zero with the unit.
    pub fn counters(&self, unit: UnitId) -> Vec<(Counter, u64)> {
        let (Some(tree), Some(group)) = (&self.tree, self.made.get(&unit)) else {
            return Vec::new();
        };
        if let Some(counters) = &group.removed {
            return counters.clone();
        }
        let mut out = Vec::new();
        out.extend(self.cpu_us(unit).map(|us| (Counter::CpuUs, us)));
        let has = |name: &str| self.controllers.iter().any(|controller| controller == name);
        if has("memory") {
            let peak = tree.read(&group.path, "memory.peak").ok();
            let peak = peak.and_then(|text| text.trim().parse().ok());
            out.extend(peak.map(|bytes| (Counter::MemoryPeakBytes, bytes)));
        }
        if has("io")
            && let Ok((read, written)) = tree.io_bytes(&group.path)
        {
            out.extend([(Counter::IoReadBytes, read), (Counter::IoWriteBytes, written)]);
        }
        out
    }

    /// CPU time that all processes of the unit's group have used, in µs; none where it has no group.
    pub fn cpu_us(&self, unit: UnitId) -> Option<u64> {
        let (tree, group) = (self.tree.as_ref()?, self.made.get(&unit)?);
        match &group.removed {
            None => tree.cpu_usage_us(&group.path).ok(),
            Some(counters) => {
                let cpu = counters.iter().find(|(counter, _)| *counter == Counter::CpuUs);
                cpu.map(|&(_, us)| us)
            }
        }
    }

    /// Removes the unit's group, and groups that its processes made below, as far as that is done at once.
    pub fn remove(&mut self, unit: UnitId) -> Removed {
        let path = self.forget(unit);
        let (Some(tree), Some(path)) = (&self.tree, path) else { return Removed::all() };
        match tree.prune_some(&path, AT_ONCE_MAX) {
            Ok(Pruned::All | Pruned::WasGone) => Removed::all(),
            Ok(Pruned::Some) => Removed::Some(path),
            // Processes that KillMode= spared are left over and keep it.
            Err(_) => match tree.some_procs_below(&path, AT_ONCE_MAX) {
                Ok((left, true)) => Removed::All { left },
                Ok((_, false)) => Removed::Some(path),
                Err(_) => Removed::all(),
            },
        }
    }

    /// Whether the unit's group may have been killed, and somebody is in it still: what is to run in it
    /// enters it after it was made.
    pub fn is_killed(&self, unit: UnitId) -> bool {
        self.made.get(&unit).is_some_and(|group| group.killed && group.removed.is_none())
    }

    /// Forgets the unit's group, which is to be removed: its path.
    pub fn forget(&mut self, unit: UnitId) -> Option<String> {
        let group = self.made.remove(&unit)?;
        self.killing.remove(&unit);
        self.of_phase.remove(&unit);
        self.unwatched.remove(&unit);
        self.memory_unwatched.remove(&unit);
        for id in group.watches() {
            self.by_watch.remove(&id);
            if let Some(watch) = &self.watch {
                watch.remove(id);
            }
        }
        self.enabled.forget(&group.path);
        group.removed.is_none().then_some(group.path)
    }

    /// What was reported since this was last asked. When reports were lost every group is looked at.
    pub fn drain(&mut self) -> News {
        let mut changed = Vec::new();
        let Some(watch) = &self.watch else { return News::default() };
        let overflow = watch.drain(&mut changed).unwrap_or(false);
        let all = || self.by_watch.values().copied().collect();
        let reported = || changed.iter().filter_map(|id| self.by_watch.get(id).copied()).collect();
        let watched: Vec<Watched> = if overflow { all() } else { reported() };
        let mut news = News::default();
        for watched in watched {
            match watched {
                Watched::Empty(unit) => news.empty.push(unit),
                Watched::Memory(unit) => news.out_of_memory.push(unit),
            }
        }
        for units in [&mut news.empty, &mut news.out_of_memory] {
            units.sort_unstable();
            units.dedup();
        }
        self.confirm(news)
    }

    /// What is so and was not known.
    fn confirm(&mut self, mut news: News) -> News {
        news.empty.retain(|&unit| {
            let is_known = self.made.get(&unit).is_none_or(|group| group.empty);
            !is_known && !self.killing.contains(&unit) && self.found_empty(unit)
        });
        news.out_of_memory.retain(|&unit| self.ran_out_of_memory(unit));
        news
    }

    /// Whether [`Groups::look_at_unwatched`] may find something; `killed`: a process was killed since it was
    /// last asked.
    pub fn has_unwatched(&self, killed: bool) -> bool {
        !self.unwatched.is_empty() || killed && !self.memory_unwatched.is_empty()
    }

    /// What the kernel would have reported of groups that cannot be watched. Those that can be by now are.
    pub fn look_at_unwatched(&mut self, killed: bool) -> News {
        let empty = self.unwatched.iter().copied().collect();
        let out_of_memory = self.memory_unwatched.iter().copied().filter(|_| killed).collect();
        self.confirm(News { empty, out_of_memory })
    }

    /// A process was put into the unit's group, and may be gone already.
    pub fn note_use(&mut self, unit: UnitId) {
        if let Some(group) = self.made.get_mut(&unit) {
            (group.empty, group.used) = (false, true);
        }
    }

    /// Has the kernel report when the unit's group is empty; whether it was not asked to before.
    fn begin_watch(&mut self, unit: UnitId) -> bool {
        let (Some(tree), Some(group)) = (&self.tree, self.made.get_mut(&unit)) else {
            return false;
        };
        if group.watch.is_some() {
            return false;
        }
        match self.watch.as_ref().map(|watch| watch.add(tree, &group.path)).transpose() {
            Ok(watch) => group.watch = watch,
            Err(error) if error.is_gone() => {}
            Err(error) => self.tell_want(&error),
        }
        let watch = self.made.get(&unit).and_then(|group| group.watch);
        self.by_watch.extend(watch.map(|id| (id, Watched::Empty(unit))));
        match watch {
            Some(_) => self.unwatched.remove(&unit),
            None => self.unwatched.insert(unit),
        };
        watch.is_some()
    }

    /// Forgets the unit's group where it is, if nobody is known to be in it, or if it is one of
    /// groups: at the end the whole tree goes at once. If there may be a way back from the end, one
    /// that could not be used again goes now. False if it has to be removed.
    pub fn leave(&mut self, unit: UnitId, holds_groups: bool, for_good: bool) -> bool {
        let usable = |group: &Group| for_good || !group.stale;
        let unused = |group: &Group| (group.empty || holds_groups) && usable(group);
        let is_left = self.made.get(&unit).is_none_or(unused);
        if is_left && let Some(group) = self.made.remove(&unit) {
            self.unwatched.remove(&unit);
            self.memory_unwatched.remove(&unit);
            for id in group.watches() {
                self.by_watch.remove(&id);
            }
        }
        is_left
    }

    /// Whether [`Groups::unit_of_process`] can tell: not without cgroups, nor without a descriptor to
    /// read that file.
    pub fn can_tell(&self, pid: i32) -> bool {
        let known = warren_sys::process::cgroup_path(pid);
        self.tree.is_some() && known.map_or_else(|error| error.is_gone(), |_| true)
    }

    /// The unit whose group a process is in, by the path in `/proc/PID/cgroup`.
    pub fn unit_of_process(&self, core: &Core, pid: i32) -> Option<UnitId> {
        self.tree.as_ref()?;
        let group = warren_sys::process::cgroup_path(pid).ok()?;
        unit_of_group(&self.root, &group, |name, path| {
            let named = core.graph().lookup(name).filter(|&unit| self.path(unit) == Some(path));
            // Its name may be another unit's by now.
            named.or_else(|| core.stray_at(path))
        })
    }
}

/// Once: it is so for all, and for as long as others have so many.
fn tell_want(error: &warren_sys::Error) {
    say!("cannot watch all cgroups; checking the others when processes exit: {error}");
}

/// The unit in whose group a process is, by where groups of units lie; none for a group that only has the name
/// of a unit, as who has a group delegated can make it. `root` is the tree's [`root_path`].
pub fn unit_of_process(root: &str, graph: &Graph, pid: i32) -> Option<UnitId> {
    let path = warren_sys::process::cgroup_path(pid).ok()?;
    unit_of_group(root, &path, |name, path| graph.lookup(name).filter(|_| lies_in_slices(path)))
}

/// Whether only slices are above a group, as above a unit's. Which they are a reload may have changed while it was
/// in use.
fn lies_in_slices(path: &str) -> bool {
    let is_slice = |path: &str| slice_path(path.rsplit('/').next().unwrap_or(path)) == path;
    match path.rsplit_once('/') {
        _ if path.ends_with(".slice") => is_slice(path),
        Some((above, _)) => above.ends_with(".slice") && is_slice(above),
        None => true,
    }
}

/// The innermost unit whose group is this one or above it. `whose` says which unit has the group of this name
/// and path below the tree's root.
fn unit_of_group(
    root: &str,
    group: &str,
    whose: impl Fn(&UnitName, &str) -> Option<UnitId>,
) -> Option<UnitId> {
    let below = group.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/')?;
    let ends = below.match_indices('/').map(|(at, _)| at).chain([below.len()]);
    ends.rev().find_map(|end| {
        let path = &below[..end];
        let own = path.rsplit('/').next().unwrap_or(path);
        whose(&UnitName::parse(own).ok()?, path)
    })
}

/// Sets extended attributes of a group, or takes them away. Returned is the setting of the first that cannot be set.
fn mark(tree: &Tree, path: &str, marks: &[Mark]) -> Option<NotApplied> {
    marks.iter().find_map(|mark| {
        let done = tree.mark(path, mark.name, mark.on.then_some("1"));
        let why = done.err()?.to_string();
        Some(NotApplied { setting: mark.setting.to_owned(), why })
    })
}

/// Makes a group. One that is there may have been killed and is made anew; whether it has to be taken as it is,
/// because somebody is in it.
fn make_anew(tree: &Tree, path: &str) -> Result<bool> {
    if tree.make(path)? {
        return Ok(false);
    }
    match tree.prune_some(path, AT_ONCE_MAX) {
        Ok(Pruned::All | Pruned::WasGone) => Ok(!tree.make(path)?),
        Ok(Pruned::Some) | Err(_) => Ok(true),
    }
}

/// Removes a group, and groups that processes made below it. Returns the processes that are left
/// over and keep it.
pub fn remove(tree: &Tree, path: &str) -> Vec<i32> {
    if tree.remove(path).is_ok() {
        return Vec::new();
    }
    // Left-over groups of the unit's own: they go if they are empty, else they stay as what they
    // are, processes that KillMode= spared.
    for _ in 0..WALKS_MAX {
        if tree.prune_some(path, GROUPS_MAX - 1) != Ok(Pruned::Some) {
            break;
        }
    }
    tree.procs_below(path).unwrap_or_default()
}

/// The tree's root as `/proc/PID/cgroup` names it in this process's cgroup namespace. Reads the whole mount table:
/// to be asked once.
pub fn root_path(tree: &Tree) -> String {
    let mount = warren_sys::cgroup::mount_point().ok().flatten();
    let below = mount.and_then(|m| tree.path().strip_prefix(m).ok().map(|p| p.to_path_buf()));
    match below {
        Some(path) if path.as_os_str().is_empty() => String::new(),
        Some(path) => format!("/{}", path.display()),
        None => String::new(),
    }
}

/// Whether other units' groups lie in the unit's.
pub fn is_slice(graph: &Graph, unit: UnitId) -> bool {
    graph.definition(unit).unit_type() == UnitType::Slice
}

#[cfg(test)]
mod tests;
