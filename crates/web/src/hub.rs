//! What is known of the units, for all clients at once, with the one thread that asks the manager, and the one that reads
//! cgroups.
//!
//! - Owns: the model, the samples of the last minutes, and strips that several clients look at.
//! - Must not: ask while nobody looks: the thread ends, and what is known is forgotten. Cgroups are read while a table is
//!   in sight that shows what units use. Nothing waits for the manager, the kernel or a client while the lock is held.
//! - Runs on the thread of its caller; the poller and the sampler on one of their own each.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warren_console::manager::Connect;
use warren_console::model::Model;
use warren_console::poller::{PERIOD, Poller, Update};
use warren_console::table::Tab;
use warren_console::usage::{Sampler, WHOLE_MAX};

use crate::query::{Cells, Sight};
use crate::view::{self, Page, Picture, SAMPLES_MAX, Sample, Strip, Table};

/// Tables that are kept for clients.
const TABLES_MAX: usize = 32;

/// For so long after a table was in sight what its units use is read.
const SEEN_FOR: Duration = Duration::from_secs(10);

/// What all share.
pub struct Hub {
    connect: Arc<dyn Connect>,
    known: Mutex<Known>,
    changed: Condvar,
}

/// Clients that look, and what they see.
#[derive(Default)]
struct Known {
    model: Model,
    /// Why the manager does not answer.
    silent: Option<String>,
    /// Counts up with everything that a client may see.
    version: u64,
    /// Counts up with each change of a unit.
    units: u64,
    /// Units that changed since the last sample.
    changes: u64,
    samples: VecDeque<Sample>,
    /// Strips of this count of `units`.
    strips: (u64, BTreeMap<Cells, Arc<Strip>>),
    /// Tables that clients had in sight last, each with the count that it was made at: a look at 40,000 units is for all
    /// who look at the same, and not repeated while nothing changes.
    tables: VecDeque<Kept>,
    /// Where cgroups lie, as this program sees them.
    cgroups: Option<PathBuf>,
    /// How often all groups were looked at, and how often those in sight.
    sweeps: u64,
    reads: u64,
    readers: usize,
    is_polling: bool,
    is_sampling: bool,
}

/// A table that a client had in sight.
struct Kept {
    sight: Sight,
    /// Counts of what it was made of: units, or all counters, and looks at all groups where it is sorted by what they use.
    made_of: (u64, u64),
    /// The look at the groups in sight whose numbers it has.
    reads: u64,
    page: Page,
    table: Arc<Table>,
    seen: Instant,
}

/// A client that looks. When the last one is dropped, the manager is asked no more.
pub struct Reader {
    hub: Arc<Hub>,
    seen: u64,
}

impl Hub {
    /// Asks by these connections.
    pub fn new(connect: Arc<dyn Connect>) -> Arc<Hub> {
        Arc::new(Hub { connect, known: Mutex::default(), changed: Condvar::new() })
    }

    /// Begins to look.
    pub fn read(self: &Arc<Hub>) -> Reader {
        let mut known = self.lock();
        known.readers += 1;
        if !known.is_polling {
            known.is_polling = true;
            let hub = self.clone();
            let poller = std::thread::Builder::new().name("poller".to_owned());
            if poller.spawn(move || hub.poll()).is_err() {
                known.is_polling = false;
                known.silent = Some("the system gives no thread to ask the manager".to_owned());
            }
        }
        drop(known);
        Reader { hub: self.clone(), seen: 0 }
    }

    /// Nothing that is done under the lock can panic half-way.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self) {
        let mut poller = Poller::default();
        loop {
            let began = Instant::now();
            let mut is_large = false;
            let mut take = |update| {
                is_large |= matches!(update, Update::Overview(_, true));
                let update = match update {
                    Update::CgroupRoot(root) => {
                        let root = self.connect.root().join(root.trim_start_matches('/'));
                        self.lock().cgroups = Some(root);
                        return true;
                    }
                    update => update,
                };
                self.lock().take(update);
                true
            };
            let asked = poller.ask(&*self.connect, &mut take);
            if is_large {
                // What an answer about all units was read into.
                warren_sys::heap::trim();
            }
            let mut known = self.lock();
            known.silent = asked.err().map(|trouble| trouble.text);
            known.sample(now_ms());
            known.version += 1;
            self.changed.notify_all();
            loop {
                if known.readers == 0 {
                    known.forget();
                    return;
                }
                let left = PERIOD.saturating_sub(began.elapsed());
                if left.is_zero() {
                    break;
                }
                known = self
                    .changed
                    .wait_timeout(known, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
    }
}

impl Hub {
    /// Has a thread read cgroups, if there is need of it and none.
    fn sample_if_wanted(self: &Arc<Hub>, known: &mut Known) {
        if known.is_sampling || known.cgroups.is_none() || known.wanted().is_none() {
            return;
        }
        let hub = self.clone();
        let sampler = std::thread::Builder::new().name("sampler".to_owned());
        // Without a thread the columns stay empty, and the next picture tries again.
        known.is_sampling = sampler.spawn(move || hub.sample()).is_ok();
    }

    fn sample(&self) {
        let (mut sampler, mut opened) = (Sampler::default(), None);
        loop {
            let began = Instant::now();
            let mut known = self.lock();
            let (wanted, root) = (known.wanted(), known.cgroups.clone());
            let (Some(wanted), Some(root)) = (wanted.filter(|_| known.readers > 0), root) else {
                known.is_sampling = false;
                // It would be old when somebody looks again.
                let old = std::mem::take(&mut known.model.usage);
                drop(known);
                drop((sampler, old));
                warren_sys::heap::trim();
                return;
            };
            drop(known);
            if opened.as_ref() != Some(&root) {
                sampler.open(&root);
                opened = Some(root);
            }
            let is_due = sampler.is_due(wanted.is_whole);
            let swept = is_due.then(|| sampler.sweep(wanted.is_whole));
            let read = sampler.read(&wanted.units);
            known = self.lock();
            if let Some(swept) = swept {
                known.model.take_usage(swept, true);
                known.sweeps += 1;
            }
            known.model.take_usage(read, false);
            known.reads += 1;
            while known.readers > 0
                && let left = PERIOD.saturating_sub(began.elapsed())
                && !left.is_zero()
            {
                let waited = self.changed.wait_timeout(known, left);
                known = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// What is to be read of cgroups.
struct Wanted {
    /// Units in sight, at most [`WHOLE_MAX`].
    units: Vec<Arc<str>>,
    /// All that there is is wanted of all.
    is_whole: bool,
}

impl Known {
    /// What tables in sight ask for; none if none does.
    fn wanted(&self) -> Option<Wanted> {
        let in_sight = |kept: &&Kept| kept.sight.shows_usage() && kept.seen.elapsed() < SEEN_FOR;
        let tables: Vec<&Kept> = self.tables.iter().filter(in_sight).collect();
        let is_whole = tables.iter().any(|kept| kept.sight.needs_whole_usage());
        // Those seen last come first: of many tables the older ones have numbers of the looks at all.
        let names = tables.iter().rev().flat_map(|kept| kept.page.names());
        let units = names.take(WHOLE_MAX).cloned().collect();
        (!tables.is_empty()).then_some(Wanted { units, is_whole })
    }

    fn take(&mut self, update: Update) {
        match update {
            Update::Top(top) => self.model.take_top(*top),
            // It is joined to the manager's root.
            Update::CgroupRoot(_) => {}
            Update::Overview(answer, is_all) => {
                let count = answer.rows.len() as u64;
                self.changes += if is_all { 0 } else { count };
                self.units += u64::from(is_all || count > 0);
                self.model.take_overview(answer, is_all);
            }
        }
    }

    fn sample(&mut self, at_ms: u64) {
        // The first counters make no rate.
        let rates = self.model.rate(|top| top.restarts).zip(self.model.rate(|top| top.cpu_us));
        if let Some((restarts, cpu_us)) = rates.filter(|_| self.silent.is_none()) {
            self.samples.push_back(Sample {
                at_ms,
                jobs: self.model.top.jobs,
                failed: self.model.top.failed_total,
                changes: std::mem::take(&mut self.changes),
                restarts,
                cpu: cpu_us / 10_000.0,
            });
        }
        let over = self.samples.len().saturating_sub(SAMPLES_MAX);
        self.samples.drain(..over);
    }

    /// Nobody looks any more: what is known grows old. The samples stay, with the gap that shows.
    fn forget(&mut self) {
        self.model = Model::default();
        self.strips = (0, BTreeMap::new());
        self.tables.clear();
        self.cgroups = None;
        (self.is_polling, self.silent) = (false, None);
    }

    fn strip(&mut self, cells: Cells) -> Option<Arc<Strip>> {
        if cells == Cells::None {
            return None;
        }
        if self.strips.0 != self.units {
            self.strips = (self.units, BTreeMap::new());
        }
        let model = &self.model;
        Some(
            self.strips
                .1
                .entry(cells)
                .or_insert_with(|| Arc::new(view::strip(model, cells)))
                .clone(),
        )
    }

    fn table(&mut self, sight: &Sight) -> Option<Arc<Table>> {
        let tab = sight.wish.as_ref()?.tab;
        // Jobs and restarts are among the counters.
        let of_counters = matches!(tab, Tab::Trouble | Tab::Jobs);
        let count = if of_counters { self.version } else { self.units };
        let made_of = (count, if sight.is_by_usage() { self.sweeps } else { 0 });
        let reads = if sight.shows_usage() { self.reads } else { 0 };
        let at = self.tables.iter().position(|kept| kept.sight == *sight);
        let kept = at.and_then(|at| self.tables.remove(at));
        let seen = Instant::now();
        let kept = match kept.filter(|kept| kept.made_of == made_of) {
            Some(kept) if kept.reads == reads => Kept { seen, ..kept },
            Some(mut kept) => {
                kept.page.measure(&self.model);
                let table = kept.page.table(&self.model);
                // Who has the one before sees at once that nothing differs.
                let table = if *kept.table == table { kept.table } else { Arc::new(table) };
                Kept { reads, table, seen, ..kept }
            }
            None => {
                let page = view::page(&self.model, sight)?;
                let table = Arc::new(page.table(&self.model));
                Kept { sight: sight.clone(), made_of, reads, page, table, seen }
            }
        };
        let table = kept.table.clone();
        if self.tables.len() >= TABLES_MAX {
            self.tables.pop_front();
        }
        self.tables.push_back(kept);
        Some(table)
    }

    fn picture(&mut self, sight: &Sight) -> Picture {
        let strip = self.strip(sight.cells);
        Picture {
            top: view::top(&self.model, self.silent.as_deref(), now_ms()),
            strip,
            table: self.table(sight),
            series: if sight.has_series {
                self.samples.iter().copied().collect()
            } else {
                Vec::new()
            },
        }
    }
}

impl Reader {
    /// What is in sight when there is something new, at the latest after that time; none if nothing was new by then.
    /// The first one waits for the manager's first answer.
    pub fn next(&mut self, sight: &Sight, longest: Duration) -> Option<Picture> {
        let until = Instant::now() + longest;
        let mut known = self.hub.lock();
        loop {
            let is_told = known.model.is_loaded || known.silent.is_some();
            if known.version != self.seen && is_told {
                self.seen = known.version;
                let picture = known.picture(sight);
                self.hub.sample_if_wanted(&mut known);
                return Some(picture);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.hub.changed.wait_timeout(known, left);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Reader {
    /// The slices of units whose names begin so, once all units are known.
    pub fn slices(&self, prefixes: &[&str]) -> BTreeMap<String, String> {
        let known = self.hub.lock();
        let fits = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let units = known.model.units.iter().filter(|(name, _)| fits(name));
        units
            .filter_map(|(name, unit)| Some((name.to_string(), unit.slice.as_ref()?.to_string())))
            .collect()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.hub.lock().readers -= 1;
        self.hub.changed.notify_all();
    }
}

/// ms since 1970.
fn now_ms() -> u64 {
    warren_sys::time::realtime_ns() / 1_000_000
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use warren_console::manager::{Manager, Start, Trouble, UnitPage};
    use warren_console::questions::{Ask, Subject};
    use warren_testkit::wait_until;
    use warren_wire::control::{JobType, OverviewAnswer, OverviewRow, TopAnswer};

    use super::*;

    /// A manager with one unit, whose connections are counted.
    struct One(AtomicUsize, Arc<AtomicUsize>);
    struct Connection(Arc<AtomicUsize>);

    impl Manager for Connection {
        fn top(&mut self) -> Result<TopAnswer, Trouble> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(TopAnswer::default())
        }
        fn overview(&mut self, _: Option<u64>) -> Result<OverviewAnswer, Trouble> {
            let row = OverviewRow {
                name: "a.service".into(),
                active: "failed".into(),
                ..OverviewRow::default()
            };
            Ok(OverviewAnswer { rows: vec![row], ..OverviewAnswer::default() })
        }
        fn page(&mut self, _: &str) -> Result<UnitPage, Trouble> {
            unreachable!("nobody asks")
        }
        fn files(&mut self, _: &str) -> Result<String, Trouble> {
            unreachable!("nobody asks")
        }
        fn jobs(&mut self, _: JobType, _: &[String]) -> Result<Vec<String>, Trouble> {
            unreachable!("nobody asks")
        }
        fn clear(&mut self, _: &str) -> Result<(), Trouble> {
            unreachable!("nobody asks")
        }
    }

    impl Connect for One {
        fn connect(&self) -> Result<Box<dyn Manager>, Trouble> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Connection(self.1.clone())))
        }
        fn follow_log(&self, _: &str) -> Command {
            unreachable!("nobody asks")
        }
        fn past_starts(&self, _: &str) -> Result<Vec<Start>, String> {
            unreachable!("nobody asks")
        }
        fn answer(&self, _: Ask, _: &Subject) -> Result<String, String> {
            unreachable!("nobody asks")
        }
        fn root(&self) -> std::path::PathBuf {
            "/".into()
        }
    }

    fn sight(query: &str) -> Sight {
        match crate::query::route("GET", &format!("/api/look?{query}")) {
            Ok(crate::query::Route::Look(sight)) => *sight,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn many_clients_have_one_poller_and_none_has_none() {
        let questions = Arc::new(AtomicUsize::new(0));
        let manager = Arc::new(One(AtomicUsize::new(0), questions.clone()));
        let hub = Hub::new(manager.clone());
        assert_eq!(manager.0.load(Ordering::SeqCst), 0, "nobody looks");
        let sight = sight("table=units&cells=units&series=1");
        let mut readers: Vec<Reader> = (0..20).map(|_| hub.read()).collect();
        for reader in &mut readers {
            let picture = reader.next(&sight, warren_testkit::WAIT_MAX).expect("it is told");
            assert_eq!(picture.strip.expect("a strip").states, b"f");
            assert_eq!(picture.table.expect("a table").total, 1);
        }
        assert_eq!(hub.lock().tables.len(), 1, "one table for all");
        assert_eq!(manager.0.load(Ordering::SeqCst), 1, "one connection for all");
        drop(readers);
        wait_until("the poller ends", || !hub.lock().is_polling);
        assert!(hub.lock().model.units.is_empty(), "what would grow old is forgotten");
        let asked = questions.load(Ordering::SeqCst);
        // Who comes back starts it again.
        let mut reader = hub.read();
        assert!(reader.next(&sight, warren_testkit::WAIT_MAX).is_some());
        assert!(questions.load(Ordering::SeqCst) > asked);
    }
}
