//! Searches for main processes by their PID files. The kernel tells of changes on the way to each file, of all searches
//! through one inotify instance, and threads look at what it tells of. So however many are searched for, who is there
//! is found at once; and who is held up by a path keeps one thread and nobody else, until so many are that there may
//! be no more threads (`workers`).

use crate::base::patience::Patient;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use warren_core::model::ids::EffectId;
use warren_core::protocol::event::Done;
use warren_sys::eventfd::EventFd;
use warren_sys::inotify::{Inotify, WatchFor, WatchId};

use crate::base::worker_pool::{HeldOpen, Piece, Workers};
use crate::process::pid_file::{PidFileSearch, PidFileState};

/// Not every file system tells of changes, and watches may be wanting: what is searched for is looked at so often.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// Threads that look, if there is much to look at.
const LOOKERS: usize = 2;

/// All searches.
pub struct Searches {
    hands: Workers,
    /// None where there can be none.
    inotify: Option<Arc<Inotify>>,
    searches: BTreeMap<EffectId, Search>,
    tell: Sender<(EffectId, WatchId)>,
    /// Watches that threads have begun.
    told: Receiver<(EffectId, WatchId)>,
    /// Searches that a watch is for.
    by_watch: BTreeMap<WatchId, BTreeSet<EffectId>>,
    /// When all were looked at.
    looked: Instant,
}

struct Search {
    wanted: Arc<PidFileSearch>,
    watches: BTreeSet<WatchId>,
    /// A thread looks.
    is_looked_at: bool,
    /// Something has changed since it began to.
    again: bool,
}

impl Searches {
    /// Nothing is searched for. The loop is woken through `wake`.
    pub fn start(wake: Arc<EventFd>) -> std::io::Result<Searches> {
        let inotify = Inotify::new().ok().map(Arc::new);
        let keep: Vec<HeldOpen> =
            inotify.iter().map(|inotify| inotify.clone() as HeldOpen).collect();
        let hands = Workers::start_keeping(wake, keep)?;
        let (tell, told) = channel();
        let (searches, by_watch) = (BTreeMap::new(), BTreeMap::new());
        Ok(Searches { hands, inotify, searches, tell, told, by_watch, looked: Instant::now() })
    }

    /// To be watched; then [`Searches::changed`].
    pub fn inotify(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|inotify| inotify.as_fd())
    }

    /// Begins one, for an effect.
    pub fn begin(&mut self, id: EffectId, wanted: PidFileSearch) {
        if self.searches.is_empty() {
            self.looked = Instant::now();
        }
        let (wanted, watches) = (Arc::new(wanted), BTreeSet::new());
        self.searches.insert(id, Search { wanted, watches, is_looked_at: false, again: false });
        self.look(&[id]);
    }

    /// The effects that are not answered.
    pub fn effects(&self) -> Vec<EffectId> {
        self.searches.keys().copied().collect()
    }

    /// Ends one.
    pub fn leave(&mut self, id: EffectId) {
        self.take_watches();
        let Some(search) = self.searches.remove(&id) else { return };
        for watch in search.watches {
            let others = self.by_watch.entry(watch).or_default();
            others.remove(&id);
            if others.is_empty() {
                self.stop_watch(watch);
            }
        }
    }

    fn stop_watch(&mut self, watch: WatchId) {
        self.by_watch.remove(&watch);
        // A thread may have been given it just now.
        self.searches.values_mut().for_each(|search| search.again |= search.is_looked_at);
        self.inotify.iter().for_each(|inotify| inotify.remove(watch));
    }

    /// What was found; each search that is answered has ended.
    pub fn hear(&mut self) -> Vec<(EffectId, Done)> {
        let results: Vec<(EffectId, Done)> = self.hands.results().collect();
        let (mut answers, mut again) = (Vec::new(), Vec::new());
        for (id, done) in results {
            let Some(search) = self.searches.get_mut(&id) else { continue };
            search.is_looked_at = false;
            if !matches!(done, Done::Failed { .. }) {
                self.leave(id);
                answers.push((id, done));
            } else if std::mem::take(&mut search.again) {
                again.push(id);
            }
        }
        self.look(&again);
        answers
    }

    /// The kernel tells of changes.
    pub fn changed(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let mut changes = Vec::new();
        let is_told_all = inotify.drain(&mut changes) == Ok(false);
        // Only now: a thread tells of a watch before it looks at what the watch will tell of.
        self.take_watches();
        let mut ids = BTreeSet::new();
        for change in changes {
            let waiting = self.by_watch.get(&change.watch).into_iter().flatten();
            let is_concerned = |id: &&EffectId| {
                self.searches.get(*id).is_some_and(|search| search.wanted.is_about(&change.name))
            };
            ids.extend(waiting.filter(is_concerned).copied());
            if change.ended {
                self.by_watch.remove(&change.watch);
            }
        }
        if !is_told_all {
            ids.extend(self.effects());
        }
        let ids: Vec<EffectId> = ids.into_iter().collect();
        for id in &ids {
            if let Some(search) = self.searches.get_mut(id) {
                search.again = search.is_looked_at;
            }
        }
        self.look(&ids);
    }

    /// Takes in which watches threads have begun. Those of searches that have ended nobody needs.
    fn take_watches(&mut self) {
        let told: Vec<(EffectId, WatchId)> = self.told.try_iter().collect();
        for (id, watch) in told {
            if let Some(search) = self.searches.get_mut(&id) {
                search.watches.insert(watch);
                self.by_watch.entry(watch).or_default().insert(id);
            } else if !self.by_watch.contains_key(&watch) {
                self.stop_watch(watch);
            }
        }
    }

    /// Has done what is due.
    pub fn look_again(&mut self, now: Instant) {
        self.hands.relieve(now);
        self.take_watches();
        if self.is_due(now) {
            self.looked = now;
            self.look(&self.effects());
        }
    }

    /// Whether all are to be looked at again, told of changes or not.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.searches.is_empty() && self.looked + LOOKS_APART <= now
    }

    /// Has those looked at that nobody looks at.
    fn look(&mut self, ids: &[EffectId]) {
        let pieces = ids.iter().filter_map(|&id| {
            let search = self.searches.get_mut(&id)?;
            let is_new = !std::mem::replace(&mut search.is_looked_at, true);
            is_new.then(|| piece(id, &search.wanted, &self.inotify, &self.tell))
        });
        let pieces = pieces.collect();
        self.hands.share_out(pieces, LOOKERS);
    }
}

impl Patient for Searches {
    // How long nothing is to be done, if something is.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        let next = (self.looked + LOOKS_APART).saturating_duration_since(now);
        let next = (!self.searches.is_empty()).then_some(next);
        next.into_iter().chain(self.hands.patience_left(now)).min()
    }
}

/// One look.
fn piece(
    id: EffectId,
    wanted: &Arc<PidFileSearch>,
    inotify: &Option<Arc<Inotify>>,
    tell: &Sender<(EffectId, WatchId)>,
) -> Piece {
    let (wanted, inotify, tell) = (wanted.clone(), inotify.clone(), tell.clone());
    let look = move || {
        let watch = |path: &Path, what: WatchFor| {
            let watch = inotify.as_ref().and_then(|inotify| inotify.add(path, what).ok());
            // The loop is gone only with the process.
            watch.is_some_and(|watch| tell.send((id, watch)).is_ok())
        };
        match wanted.look(watch) {
            PidFileState::Process(pid) => Done::MainProcess { pid: Some(pid) },
            PidFileState::Nobody => Done::MainProcess { pid: None },
            PidFileState::NotYet => Done::Failed { error: String::new() },
        }
    };
    (id, Box::new(look))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::base::scratch::Scratch;

    fn searches() -> Searches {
        let wake = Arc::new(EventFd::new().expect("an eventfd"));
        Searches::start(wake).expect("threads")
    }

    fn wanted(path: &Path) -> PidFileSearch {
        PidFileSearch { path: path.to_owned(), group: None, tracked: false, waits: true }
    }

    /// The process that the next search comes to, as soon as the kernel has told of it.
    fn next(searches: &mut Searches) -> (u64, Option<u32>) {
        warren_testkit::wait_for("a search ends", || {
            searches.changed();
            searches.hands.relieve(Instant::now());
            match searches.hear().pop()? {
                (id, Done::MainProcess { pid }) => Some((id.0, pid)),
                other => panic!("{other:?}"),
            }
        })
    }

    fn cat() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat(1)")
    }

    fn end(mut cat: Child) {
        drop(cat.stdin.take());
        cat.wait().expect("it is a child");
    }

    #[test]
    fn the_file_is_found_where_its_directories_are_made_later() {
        let scratch = Scratch::new("pid-later");
        let path = scratch.0.join("a/b/pid");
        let mut searches = searches();
        searches.begin(EffectId(1), wanted(&path));
        for directory in [scratch.0.join("a"), scratch.0.join("a/b")] {
            std::fs::create_dir(directory).expect("a directory can be made");
        }
        let cat = cat();
        std::fs::write(&path, format!("{}\n", cat.id())).expect("a file can be written");
        assert_eq!(next(&mut searches), (1, Some(cat.id())));
        assert_eq!((searches.effects().len(), searches.patience_left(Instant::now())), (0, None));
        assert!(searches.by_watch.is_empty());
        end(cat);
    }

    /// Many more than there may be threads.
    #[test]
    fn who_is_there_is_found_at_once_however_many_others_are_searched_for() {
        const OTHERS: u64 = 300;
        let scratch = Scratch::new("pid-many");
        let path = |n: u64| scratch.0.join(format!("{n}.pid"));
        let cat = cat();
        let write = |n| std::fs::write(path(n), cat.id().to_string()).expect("a file");
        let mut searches = searches();
        (1..=OTHERS).for_each(|n| searches.begin(EffectId(n), wanted(&path(n))));
        write(0);
        searches.begin(EffectId(0), wanted(&path(0)));
        let pid = Some(cat.id());
        assert_eq!(next(&mut searches), (0, pid));
        for n in [OTHERS, 1, OTHERS / 2] {
            write(n);
            assert_eq!(next(&mut searches), (n, pid));
        }
        searches.leave(EffectId(2));
        write(2);
        write(3);
        assert_eq!(next(&mut searches), (3, pid), "nobody waits for the other");
        end(cat);
    }

    /// As a daemon does that locks its file for as long as it runs.
    #[test]
    fn who_writes_a_file_that_he_keeps_open_is_found_when_he_has() {
        let scratch = Scratch::new("pid-open");
        let path = scratch.0.join("pid");
        let mut file = std::fs::File::create(&path).expect("a file can be made");
        let (mut searches, id, cat) = (searches(), EffectId(1), cat());
        searches.begin(id, wanted(&path));
        warren_testkit::wait_until("the first look is over", || {
            let is_looked_at = searches.searches[&id].is_looked_at;
            assert!(!is_looked_at || searches.hear().is_empty());
            !is_looked_at
        });
        file.write_all(format!("{}\n", cat.id()).as_bytes()).expect("it is open");
        assert_eq!(next(&mut searches), (1, Some(cat.id())));
        end(cat);
    }

    #[test]
    fn nobody_is_searched_for_in_a_group_that_is_gone() {
        let scratch = Scratch::new("pid-gone");
        let group = Some(scratch.0.join("group"));
        let mut searches = searches();
        let path = scratch.0.join("pid");
        searches.begin(EffectId(1), PidFileSearch { path, group, tracked: true, waits: true });
        assert_eq!(next(&mut searches), (1, None));
    }

    #[test]
    fn a_file_that_is_not_waited_for_says_what_it_says_now() {
        let scratch = Scratch::new("pid-now");
        let path = scratch.0.join("pid");
        let mut searches = searches();
        searches.begin(EffectId(1), PidFileSearch { waits: false, ..wanted(&path) });
        assert_eq!(next(&mut searches), (1, None));
        let cat = cat();
        std::fs::write(&path, cat.id().to_string()).expect("a file can be written");
        searches.begin(EffectId(2), PidFileSearch { waits: false, ..wanted(&path) });
        assert_eq!(next(&mut searches), (2, Some(cat.id())));
        end(cat);
    }
}
