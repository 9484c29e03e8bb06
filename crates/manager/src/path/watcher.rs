//! All paths that are watched, on the loop: the kernel tells of changes through one inotify instance, and threads look
//! at what it tells of.
//!
//! Of a unit one look is under way at most; what is told meanwhile leads to one more. Where the kernel cannot tell, the
//! paths are looked at every few seconds, and that is said.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, Event, PathLook};
use warren_core::settings::Compiled;
use warren_sys::eventfd::EventFd;
use warren_sys::inotify::{Change, Inotify, WatchFor, WatchId};

use super::look::{Role, Untold, Watch, Watched, look};
use crate::base::patience::Patient;
use crate::base::worker_pool::{HeldOpen, Workers};

/// What the kernel does not tell of is looked at so often.
const LOOKS_APART: Duration = Duration::from_secs(5);

/// What a look tells before it answers. The number is that of the look.
enum LookNews {
    Watch(EffectId, WatchId, Role),
    Untold(EffectId, Untold),
}

/// Why each watch tells of something.
type Roles = BTreeMap<WatchId, Vec<Role>>;

/// The paths of one unit.
struct Paths {
    settings: Arc<Compiled>,
    roles: Roles,
    /// The look that is under way.
    looking: Option<EffectId>,
    /// Something has changed since it began.
    again: bool,
    /// What counts as a change was told of, and the core does not know.
    is_changed: bool,
    /// How they looked last.
    print: Option<u64>,
    /// The effect that had them watched, until it is answered.
    watch_asked: Option<EffectId>,
    /// The effect that has them looked at.
    look_asked: Option<EffectId>,
    makes: bool,
}

/// All paths that are watched.
pub(crate) struct PathWatcher {
    hands: Workers,
    /// None where there can be none.
    inotify: Option<Arc<Inotify>>,
    units: BTreeMap<UnitId, Paths>,
    /// Units by the look that is under way.
    looks: BTreeMap<EffectId, UnitId>,
    looks_ever: u64,
    by_watch: BTreeMap<WatchId, BTreeSet<UnitId>>,
    tell: Sender<LookNews>,
    told: Receiver<LookNews>,
    /// What looks that are under way have told.
    telling: BTreeMap<EffectId, (Roles, Option<Untold>)>,
    /// Units whose changes nobody tells of.
    untold: BTreeSet<UnitId>,
    /// The first of them, and why, to be said.
    unsaid: Option<(UnitId, Untold)>,
    /// When these were looked at.
    looked: Instant,
}

impl PathWatcher {
    /// Nothing is watched. The loop is woken through `wake`.
    pub(crate) fn start(wake: Arc<EventFd>) -> std::io::Result<PathWatcher> {
        let inotify = Inotify::new().ok().map(Arc::new);
        let keep: Vec<HeldOpen> =
            inotify.iter().map(|inotify| inotify.clone() as HeldOpen).collect();
        let hands = Workers::start_keeping(wake, keep)?;
        let (tell, told) = channel();
        Ok(PathWatcher {
            hands,
            inotify,
            units: BTreeMap::new(),
            looks: BTreeMap::new(),
            looks_ever: 0,
            by_watch: BTreeMap::new(),
            tell,
            told,
            telling: BTreeMap::new(),
            untold: BTreeSet::new(),
            unsaid: None,
            looked: Instant::now(),
        })
    }

    /// To be watched by the loop; then [`PathWatcher::changed`].
    pub(crate) fn inotify(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|inotify| inotify.as_fd())
    }

    /// Watches the paths of a unit, for an effect, in place of those that were watched for it.
    pub(crate) fn watch(
        &mut self,
        id: EffectId,
        unit: UnitId,
        settings: Arc<Compiled>,
        makes: bool,
    ) {
        self.unwatch(unit);
        let paths = Paths {
            settings,
            roles: BTreeMap::new(),
            looking: None,
            again: false,
            is_changed: false,
            print: None,
            watch_asked: Some(id),
            look_asked: None,
            makes,
        };
        self.units.insert(unit, paths);
        self.look(unit);
    }

    /// Looks at the paths of a unit, for an effect.
    pub(crate) fn look_at(&mut self, id: EffectId, unit: UnitId) -> bool {
        let Some(paths) = self.units.get_mut(&unit) else { return false };
        paths.look_asked = Some(id);
        self.look(unit);
        true
    }

    /// Watches the paths of a unit no longer.
    pub(crate) fn unwatch(&mut self, unit: UnitId) {
        let Some(paths) = self.units.remove(&unit) else { return };
        self.untold.remove(&unit);
        let watches = paths.roles.into_keys().collect();
        self.leave(unit, watches);
        if let Some(look) = paths.looking {
            self.looks.remove(&look);
        }
    }

    fn leave(&mut self, unit: UnitId, watches: Vec<WatchId>) {
        for watch in watches {
            let Some(units) = self.by_watch.get_mut(&watch) else { continue };
            units.remove(&unit);
            if units.is_empty() {
                self.by_watch.remove(&watch);
                self.end_watch(watch);
            }
        }
    }

    fn end_watch(&mut self, watch: WatchId) {
        self.inotify.iter().for_each(|inotify| inotify.remove(watch));
        // A look that is under way may have been given it just now.
        for unit in self.looks.values() {
            self.units.get_mut(unit).iter_mut().for_each(|paths| paths.again = true);
        }
    }

    /// Has the paths of a unit looked at: now, or when the look that is under way is over.
    fn look(&mut self, unit: UnitId) {
        let Some(paths) = self.units.get_mut(&unit) else { return };
        if paths.looking.is_some() {
            paths.again = true;
            return;
        }
        self.looks_ever += 1;
        let id = EffectId(self.looks_ever);
        paths.looking = Some(id);
        self.looks.insert(id, unit);
        let makes = std::mem::take(&mut paths.makes);
        let settings = paths.settings.clone();
        let mut watches = Watches { id, inotify: self.inotify.clone(), tell: self.tell.clone() };
        self.hands.run(id, move || Done::Paths(look(settings.path(), makes, &mut watches)));
    }

    fn take_told(&mut self) {
        for told in self.told.try_iter() {
            match told {
                LookNews::Watch(id, watch, role) => {
                    let roles = &mut self.telling.entry(id).or_default().0;
                    roles.entry(watch).or_default().push(role.clone());
                    // From now on it tells, before the look is over.
                    let Some(&unit) = self.looks.get(&id) else { continue };
                    self.by_watch.entry(watch).or_default().insert(unit);
                    if let Some(paths) = self.units.get_mut(&unit) {
                        let roles = paths.roles.entry(watch).or_default();
                        if !roles.contains(&role) {
                            roles.push(role);
                        }
                    }
                }
                LookNews::Untold(id, why) => self.telling.entry(id).or_default().1 = Some(why),
            }
        }
    }

    /// The kernel tells of changes.
    pub(crate) fn changed(&mut self) {
        let Some(inotify) = self.inotify.clone() else { return };
        let mut changes = Vec::new();
        let is_told_all = inotify.drain(&mut changes) == Ok(false);
        // Only now: a thread tells of a watch before it looks at what the watch will tell of.
        self.take_told();
        let mut concerned = BTreeSet::new();
        for change in &changes {
            for &unit in self.by_watch.get(&change.watch).into_iter().flatten() {
                let Some(paths) = self.units.get_mut(&unit) else { continue };
                if paths.hear(change) {
                    concerned.insert(unit);
                }
            }
            if change.ended {
                self.by_watch.remove(&change.watch);
                self.units.values_mut().for_each(|paths| _ = paths.roles.remove(&change.watch));
            }
        }
        if !is_told_all {
            concerned.extend(self.units.keys().copied());
        }
        concerned.into_iter().for_each(|unit| self.look(unit));
    }

    /// What looks have found.
    pub(crate) fn hear(&mut self) -> Vec<Event> {
        let results: Vec<(EffectId, Done)> = self.hands.results().collect();
        self.take_told();
        let mut events = Vec::new();
        for (id, done) in results {
            let (roles, untold) = self.telling.remove(&id).unwrap_or_default();
            let unit = self.looks.remove(&id).filter(|unit| self.units.contains_key(unit));
            let (Some(unit), Done::Paths(found)) = (unit, done) else {
                self.leave_unclaimed(roles.into_keys().collect());
                continue;
            };
            self.take_watches(unit, roles);
            self.note_untold(unit, untold);
            let paths = self.units.get_mut(&unit).expect("it is one of those that are watched");
            paths.looking = None;
            events.extend(paths.report(unit, found));
            if std::mem::take(&mut paths.again) {
                self.look(unit);
            }
        }
        events
    }

    /// Watches of a look that nobody waits for any more.
    fn leave_unclaimed(&mut self, watches: Vec<WatchId>) {
        for watch in watches {
            if !self.by_watch.contains_key(&watch) {
                self.end_watch(watch);
            }
        }
    }

    /// The watches that the last look has set are those that count.
    fn take_watches(&mut self, unit: UnitId, roles: Roles) {
        let paths = self.units.get_mut(&unit).expect("the caller saw that it is watched");
        let before = std::mem::replace(&mut paths.roles, roles);
        let gone = before.into_keys().filter(|watch| !paths.roles.contains_key(watch)).collect();
        self.leave(unit, gone);
    }

    fn note_untold(&mut self, unit: UnitId, untold: Option<Untold>) {
        match untold {
            None => _ = self.untold.remove(&unit),
            Some(why) => {
                if self.untold.is_empty() {
                    self.unsaid = Some((unit, why));
                    self.looked = Instant::now();
                }
                self.untold.insert(unit);
            }
        }
    }

    /// What is to be said of paths that cannot be watched: the first unit, why, and how often they are looked at.
    pub(crate) fn take_unsaid(&mut self) -> Option<(UnitId, &'static str, Duration)> {
        self.unsaid.take().map(|(unit, why)| (unit, why.as_str(), LOOKS_APART))
    }

    /// Has looked at what nobody tells of.
    pub(crate) fn look_again(&mut self, now: Instant) {
        if !self.untold.is_empty() && self.looked + LOOKS_APART <= now {
            self.looked = now;
            let untold: Vec<UnitId> = self.untold.iter().copied().collect();
            untold.into_iter().for_each(|unit| self.look(unit));
        }
    }
}

impl Paths {
    /// Whether a change is to be looked at.
    fn hear(&mut self, change: &Change) -> bool {
        let mut is_concerned = change.ended;
        for role in self.roles.get(&change.watch).into_iter().flatten() {
            let (concerns, is_change) = match role {
                Role::Way(name) => (change.name == *name || change.name.is_empty(), false),
                Role::Pattern | Role::Directory => (!change.is_write, false),
                Role::Target(writes) => {
                    let counts = (*writes || !change.is_write) && !change.ended;
                    (counts, counts)
                }
            };
            is_concerned |= concerns;
            self.is_changed |= is_change;
        }
        is_concerned
    }

    /// What the core is told of a look.
    fn report(&mut self, unit: UnitId, found: PathLook) -> Vec<Event> {
        let differs = self.print.replace(found.print).is_some_and(|print| print != found.print);
        let is_changed = std::mem::take(&mut self.is_changed) || differs;
        let mut events = Vec::new();
        if let Some(effect) = self.watch_asked.take() {
            let result = Done::Paths(PathLook { is_changed: false, ..found });
            events.push(Event::Done { effect, result });
        } else if is_changed || found.is_met && self.look_asked.is_none() {
            let look = PathLook { is_changed, ..found };
            events.push(Event::PathTouched { unit, look });
        }
        // A look that had begun before it was asked for says nothing of it.
        if let Some(effect) = self.look_asked.take_if(|_| !self.again) {
            let look = PathLook { is_changed: false, print: 0, ..found };
            events.push(Event::Done { effect, result: Done::Paths(look) });
        }
        events
    }
}

impl Patient for PathWatcher {
    // How long nothing is to be done, if something is.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        let next = (self.looked + LOOKS_APART).saturating_duration_since(now);
        let next = (!self.untold.is_empty()).then_some(next);
        next.into_iter().chain(self.hands.patience_left(now)).min()
    }

    fn relieve(&self, now: Instant) {
        self.hands.relieve(now);
    }
}

/// The watches of one look.
struct Watches {
    id: EffectId,
    inotify: Option<Arc<Inotify>>,
    tell: Sender<LookNews>,
}

impl Watch for Watches {
    fn watch(&mut self, path: &Path, what: WatchFor, role: Role) -> Watched {
        let Some(inotify) = &self.inotify else { return Watched::NoWatches };
        match inotify.add(path, what) {
            Ok(watch) => {
                // The loop is gone only with the process.
                let _ = self.tell.send(LookNews::Watch(self.id, watch, role));
                Watched::Yes
            }
            Err(e) if e.is_no_room() => Watched::NoWatches,
            Err(_) => Watched::NotThere,
        }
    }

    fn untold(&mut self, why: Untold) {
        let _ = self.tell.send(LookNews::Untold(self.id, why));
    }
}
