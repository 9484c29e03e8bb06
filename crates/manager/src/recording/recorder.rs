//! The record: what happened, in a ring, and when a stretch of it is kept as a recording.
//!
//! The core says what happened after each batch ([`warren_core::protocol::trace_event`]); this turns it into
//! events of [`warren_trace`] and adds what the core does not know: what the manager itself did and
//! what it cost. Boot, reloads and shutdown are cut out and handed to [`crate::recording::files`].
//!
//! The ring outlives the manager ([`crate::recording::ring`]): one that comes back after a SIGKILL goes on
//! with what was recorded, and with the boot or shutdown that was under way.
//!
//! Recording decides nothing and must never fail: what does not fit is counted as lost.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use warren_sys::signal::SIGKILL;

use warren_core::graph::Graph;
use warren_core::model::ids::UnitId;
use warren_core::model::time::{Moment, Monotonic};
use warren_core::protocol::trace_event::{Happening, What as Happened};
use warren_trace::event::{Event, NO_UNIT, What};
use warren_trace::record::{Anchor, Head};
use warren_trace::words::{Counter, Phase, Reading, Subject};

use crate::base::say::say;
use crate::last_steps::report::Done as LastDone;
use crate::recording::files::{Material, Records, RecordsThread, WriteResult};
use crate::recording::names::Formers;
use crate::recording::ring::RecordRing;

mod words;

pub(crate) use words::event;

/// Events that are kept while a boot or a shutdown goes on: 16 MB.
const EVENTS_MAX: usize = 512 << 10;

/// Events that are kept at other times: 2 MB.
const IDLE_EVENTS_MAX: usize = 64 << 10;

/// Events that are cut out in one turn of the loop, for somebody who asks: 256 KB.
pub const PIECE_EVENTS_MAX: usize = 8 << 10;

/// The manager's CPU time is recorded no more often than this, and only when something has happened.
const CPU_APART: Duration = Duration::from_millis(20);

/// Something that the manager did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What.
    pub phase: Phase,
    /// Since when.
    pub began: Monotonic,
    /// Until when.
    pub ended: Monotonic,
    /// A count whose meaning depends on the phase.
    pub detail: u64,
}

/// The manager's own CPU time, that of all its threads, in µs.
pub fn cpu_us() -> u64 {
    warren_sys::time::process_cpu_ns() / 1000
}

/// A stretch that is being recorded.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    began: Moment,
    /// The number of its first event.
    first: u64,
}

/// The recorder.
#[derive(Debug)]
pub struct Recorder {
    ring: RecordRing,
    records: Records,
    thread: RecordsThread,
    host: String,
    kernel: String,
    formers: Formers,
    /// When the manager's CPU time was recorded.
    cpu_told: Monotonic,
    /// Something has happened since.
    has_news: bool,
    /// When processes ended of which this manager hears while it takes up what runs.
    reaped: BTreeMap<u32, Monotonic>,
}

/// Places of the ring's notes: a stretch takes three, its first event's number plus one or 0 and
/// the two clocks at its begin.
const BOOT: usize = 0;
const SHUTDOWN: usize = 3;
/// What became of the part of the shutdown that is written before it is over.
const PART: usize = 6;
/// The end of a shutdown that is over and could not be written, as for a stretch's first event: the
/// manager that comes after a soft reboot writes it.
const TO_BE_JOINED: usize = 7;
/// When the manager was seen to work last, in µs.
const SEEN: usize = 8;
/// A manager takes up what runs.
const RECOVERS: usize = 9;

/// Values of [`PART`]: there is none; something of the shutdown is in its file; it was said that its
/// recording is lost.
const PART_NONE: u64 = 0;
const PART_KEPT: u64 = 1;
const PART_LOST: u64 = 2;

impl Recorder {
    /// Over a directory of recordings.
    ///
    /// Goes on with the ring that an earlier manager left, if there is one that can be.
    pub fn start(
        records: Records,
        context: &warren_unit::Context,
        left: Option<OwnedFd>,
    ) -> io::Result<Recorder> {
        let ring = left.and_then(RecordRing::go_on).map_or_else(
            || RecordRing::create(EVENTS_MAX).map_err(|error| io::Error::other(error.to_string())),
            Ok,
        )?;
        Ok(Recorder {
            ring,
            thread: RecordsThread::start(records.clone())?,
            records,
            host: context.hostname.to_string(),
            kernel: context.kernel_release.to_string(),
            formers: Formers::default(),
            cpu_told: Monotonic(0),
            has_news: false,
            reaped: BTreeMap::new(),
        })
    }

    /// What init keeps for the next manager.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ring.fd()
    }

    /// The manager is there again: what nobody recorded meanwhile is a gap with a name. It begins when
    /// the last one was seen, which may have had nothing to do for long; what the new one takes lies
    /// within it.
    pub fn came_back(&mut self, at: Monotonic) {
        let last = self.ring.last_time_us().unwrap_or(at.0).max(self.ring.note(SEEN)).min(at.0);
        if self.ring.note(RECOVERS) != 0 {
            // One that was killed before it answered.
            self.manager(Monotonic(last), What::PhaseEnd { phase: Phase::Recover, detail: 0 });
        }
        self.ring.set_note(RECOVERS, 1);
        self.manager(Monotonic(last), What::PhaseBegin { phase: Phase::Recover, detail: 0 });
        self.manager(at, What::PhaseBegin { phase: Phase::Restore, detail: 0 });
    }

    /// It answers, and goes on where the last one was killed.
    pub fn goes_on(&mut self, at: Monotonic) {
        // Ends what lies within it too.
        self.manager(at, What::PhaseEnd { phase: Phase::Recover, detail: 0 });
        self.ring.set_note(RECOVERS, 0);
    }

    /// A process was reaped then. Of what ended while no manager was there that is told later; of all
    /// else the manager tells at once.
    pub fn reaped(&mut self, pid: u32, at: Monotonic) {
        if self.ring.note(RECOVERS) != 0 {
            self.reaped.insert(pid, at);
        }
    }

    fn under_way(&self, place: usize) -> Option<UnderWay> {
        let first = self.ring.note(place).checked_sub(1)?;
        let (monotonic, realtime_us) =
            (Monotonic(self.ring.note(place + 1)), self.ring.note(place + 2));
        Some(UnderWay { began: Moment { monotonic, realtime_us }, first })
    }

    fn set_under_way(&self, place: usize, stretch: Option<UnderWay>) {
        if let Some(UnderWay { began, .. }) = stretch {
            self.ring.set_note(place + 1, began.monotonic.0);
            self.ring.set_note(place + 2, began.realtime_us);
        }
        self.ring.set_note(place, stretch.map_or(0, |stretch| stretch.first + 1));
    }

    fn take_under_way(&self, place: usize) -> Option<UnderWay> {
        let stretch = self.under_way(place);
        self.set_under_way(place, None);
        stretch
    }

    fn begin(&self, place: usize, began: Moment) {
        self.set_under_way(place, Some(UnderWay { began, first: self.ring.next() }));
    }

    // ---- what happens ----

    /// The manager works: what comes after it is killed is the gap until the next one is there.
    pub fn seen(&mut self, at: Monotonic) {
        self.ring.set_note(SEEN, at.0);
        if self.has_news && at.since(self.cpu_told) >= CPU_APART {
            self.own_cpu(at);
        }
    }

    /// Takes what the core tells. A SIGKILL is recorded when it is known whom it has met.
    pub fn take(&mut self, happenings: &[Happening], lost: u64) {
        self.has_news |= !happenings.is_empty();
        for happening in happenings {
            let mut event = event(happening);
            match happening.what {
                Happened::Signal { signal: SIGKILL, .. } => continue,
                Happened::ProcessEnded { pid, .. } => {
                    let reaped = self.reaped.remove(&pid).map_or(event.time_us, |at| at.0);
                    event.time_us = event.time_us.min(reaped);
                }
                _ => {}
            }
            self.ring.push(event);
        }
        if self.ring.note(RECOVERS) == 0 {
            self.reaped.clear();
        }
        if lost > 0 {
            let time_us = happenings.last().map_or(0, |happening| happening.at.0);
            self.manager(Monotonic(time_us), What::Lost { count: lost });
        }
    }

    /// Units are forgotten; `before` still has them. Their numbers will mean others.
    pub fn forgotten(&mut self, at: Monotonic, units: &[UnitId], before: &Graph) {
        for unit in units {
            self.ring.push(Event::new(at.0, unit.0, NO_UNIT, What::Renamed));
        }
        self.formers.add(at.0, units, before);
    }

    /// Names of units that were forgotten.
    pub fn formers(&self) -> Formers {
        self.formers.clone()
    }

    /// Something that the manager did and has ended.
    pub fn did(&mut self, done: Done) {
        let Done { phase, began, ended, detail } = done;
        self.manager(began, What::PhaseBegin { phase, detail });
        self.manager(ended, What::PhaseEnd { phase, detail });
    }

    /// Counters of a unit's cgroup were read.
    pub fn counted(
        &mut self,
        at: Monotonic,
        unit: UnitId,
        reading: Reading,
        counters: &[(Counter, u64)],
    ) {
        for &(counter, value) in counters {
            let what = What::Counter { counter, reading, value };
            self.ring.push(Event::new(at.0, unit.0, NO_UNIT, what));
        }
    }

    /// SIGKILL has met so many processes of a unit or of none, 0 when that is not known, or this one alone.
    pub fn killed(&mut self, at: Monotonic, unit: Option<UnitId>, pid: Option<u32>, count: usize) {
        let (unit, pid) = (unit.map_or(NO_UNIT, |unit| unit.0), pid.unwrap_or(0));
        let what = What::Signal { signal: SIGKILL as u8, pid, count: count as u64 };
        self.ring.push(Event::new(at.0, unit, NO_UNIT, what));
    }

    /// So many clients of the bus and of the control socket have waited for the loop until now.
    pub fn asked(&mut self, at: Monotonic, count: usize) {
        if count > 0 {
            self.manager(at, What::BusQueue { depth: count as u64 });
        }
    }

    /// What they asked has been taken up.
    pub fn answered(&mut self, at: Monotonic, count: usize) {
        if count > 0 {
            self.manager(at, What::BusQueue { depth: 0 });
        }
    }

    fn manager(&mut self, at: Monotonic, what: What) {
        self.ring.push(Event::new(at.0, NO_UNIT, NO_UNIT, what));
    }

    fn own_cpu(&mut self, at: Monotonic) {
        self.manager(at, What::OwnCpu { cpu_us: cpu_us() });
        (self.cpu_told, self.has_news) = (at, false);
    }

    // ---- what is kept ----

    /// The manager was started and everything is to be started.
    pub fn boot_began(&mut self, began: Moment) {
        self.begin(BOOT, began);
        self.manager(began.monotonic, What::PhaseBegin { phase: Phase::Boot, detail: 0 });
    }

    /// The units are loaded: until the first transaction is asked for, the manager looks at what there
    /// is already and opens what it listens to.
    pub fn loaded(&mut self, at: Monotonic) {
        self.own_cpu(at);
        self.manager(at, What::PhaseBegin { phase: Phase::Prepare, detail: 0 });
    }

    /// The first transaction is asked for.
    pub fn first_unit_asked(&mut self, at: Moment) {
        if self.under_way(BOOT).is_some() {
            self.manager(at.monotonic, What::PhaseEnd { phase: Phase::Prepare, detail: 0 });
            self.manager(at.monotonic, What::PhaseBegin { phase: Phase::StartUnits, detail: 0 });
        }
    }

    /// The first transaction is worked off.
    pub fn boot_ended(&mut self, ended: Moment, graph: &Arc<Graph>) {
        self.boot_is_over(ended, graph, |phase| What::PhaseEnd { phase, detail: 0 });
    }

    /// The end has begun. A boot that is under way never will be worked off.
    pub fn boot_given_up(&mut self, ended: Moment, graph: &Arc<Graph>) {
        self.boot_is_over(ended, graph, |phase| What::PhaseGivenUp { phase });
    }

    fn boot_is_over(&mut self, ended: Moment, graph: &Arc<Graph>, end: impl Fn(Phase) -> What) {
        self.join_shutdown(graph);
        let Some(boot) = self.take_under_way(BOOT) else { return };
        self.own_cpu(ended.monotonic);
        for phase in [Phase::StartUnits, Phase::Boot] {
            self.manager(ended.monotonic, end(phase));
        }
        self.thread.keep(self.material(Subject::Boot, boot, graph));
        if self.under_way(SHUTDOWN).is_none() {
            self.ring.set_max(IDLE_EVENTS_MAX);
        }
    }

    /// A reload that is over: the manager's CPU time when it began, in µs, and what was done for it, the
    /// first the reload itself.
    pub fn reloaded(&mut self, began: Moment, cpu_us: u64, done: &[Done], graph: &Arc<Graph>) {
        let material = self.whole_reload(began, cpu_us, done, graph);
        self.thread.keep(material);
    }

    fn whole_reload(
        &mut self,
        began: Moment,
        cpu_us: u64,
        done: &[Done],
        graph: &Arc<Graph>,
    ) -> Material {
        let reload = UnderWay { began, first: self.ring.next() };
        let meanwhile = self.samples_since(began.monotonic);
        done.iter().for_each(|done| self.did(*done));
        if let Some(whole) = done.first() {
            self.own_cpu(whole.ended);
        }
        let mut material = self.material(Subject::Reload, reload, graph);
        // Not in the ring: it is known late, and samples there are in the order of their times.
        let begin = Event::new(began.monotonic.0, NO_UNIT, NO_UNIT, What::OwnCpu { cpu_us });
        material.events.splice(..0, std::iter::once(begin).chain(meanwhile));
        material
    }

    /// What the manager has cost, and who has waited for it, from then on.
    fn samples_since(&self, began: Monotonic) -> Vec<Event> {
        let mut events = self.ring.cut(self.ring.since(began.0), self.ring.next());
        events.retain(|event| event.time_us >= began.0 && is_sample(event));
        events
    }

    /// Everything is to be stopped; `jobs` are there already.
    pub fn shutdown_began(&mut self, began: Moment, jobs: &[Event]) {
        if self.under_way(SHUTDOWN).is_some() {
            return;
        }
        // Where they lie may have been mounted after the manager was started.
        self.thread.look_again();
        self.ring.set_note(PART, PART_NONE);
        self.ring.set_max(EVENTS_MAX);
        self.begin(SHUTDOWN, began);
        self.own_cpu(began.monotonic);
        for phase in [Phase::Shutdown, Phase::StopUnits] {
            self.manager(began.monotonic, What::PhaseBegin { phase, detail: 0 });
        }
        jobs.iter().for_each(|job| self.ring.push(*job));
    }

    /// When the shutdown that is under way began, by whichever manager.
    pub fn shutdown_since(&self) -> Option<Moment> {
        let is_over = self.ring.note(TO_BE_JOINED) != 0;
        Some(self.under_way(SHUTDOWN).filter(|_| !is_over)?.began)
    }

    /// The boot or shutdown that is being recorded, and when it began.
    pub fn being_recorded(&self) -> Option<(Subject, Moment)> {
        let shutdown = self.shutdown_since().map(|began| (Subject::Shutdown, began));
        shutdown.or_else(|| Some((Subject::Boot, self.under_way(BOOT)?.began)))
    }

    /// What was recorded of it so far, by whichever manager.
    pub fn shutdown_so_far(&self) -> Vec<Event> {
        let shutdown = self.under_way(SHUTDOWN);
        shutdown.map_or_else(Vec::new, |shutdown| self.ring.cut(shutdown.first, self.ring.next()))
    }

    /// What looked like a shutdown was none.
    pub fn shutdown_given_up(&mut self) {
        self.set_under_way(SHUTDOWN, None);
        if self.under_way(BOOT).is_none() {
            self.ring.set_max(IDLE_EVENTS_MAX);
        }
    }

    /// A file system is about to be unmounted: if recordings lie below it, what there is of the
    /// shutdown is written now, because later it cannot be.
    pub fn before_unmount(&mut self, mount_point: &str, graph: &Arc<Graph>) {
        if self.records.lie_below(Path::new(mount_point)) {
            self.keep_part_of_shutdown(graph);
        }
    }

    /// All units are down; stragglers and, where `storage` says so, file systems are next.
    pub fn units_stopped(&mut self, at: Moment, storage: bool, graph: &Arc<Graph>) {
        let next = if storage { Phase::Storage } else { Phase::Stragglers };
        self.manager(at.monotonic, What::PhaseEnd { phase: Phase::StopUnits, detail: 0 });
        self.manager(at.monotonic, What::PhaseBegin { phase: next, detail: 0 });
        if storage {
            self.keep_part_of_shutdown(graph);
        }
    }

    /// Processes that outlived their units are over, as `last` tells; file systems are next.
    pub fn stragglers_ended(&mut self, at: Moment, last: &LastDone, graph: &Arc<Graph>) {
        self.tell_stragglers(at, last);
        self.manager(at.monotonic, What::PhaseEnd { phase: Phase::Stragglers, detail: 0 });
        self.manager(at.monotonic, What::PhaseBegin { phase: Phase::Storage, detail: 0 });
        self.keep_part_of_shutdown(graph);
    }

    fn tell_stragglers(&mut self, at: Moment, last: &LastDone) {
        if last.killed > 0 {
            self.killed(at.monotonic, None, None, last.killed);
        }
        waits(last).for_each(|wait| self.did(wait));
    }

    fn keep_part_of_shutdown(&mut self, graph: &Arc<Graph>) {
        let Some(shutdown) = self.under_way(SHUTDOWN) else { return };
        let part = self.material(Subject::Shutdown, shutdown, graph);
        match self.thread.write(part, false, || {}) {
            WriteResult::Kept => self.ring.set_note(PART, PART_KEPT),
            // Whoever comes to the end without a part says so.
            WriteResult::NotThere(_) | WriteResult::Nowhere => {}
            WriteResult::Lost(error) => self.tell_lost(&error),
        }
    }

    /// Says that nothing is kept of the shutdown, unless something is, or that was said.
    fn tell_lost(&self, error: &str) {
        if self.ring.note(PART) == PART_NONE {
            self.ring.set_note(PART, PART_LOST);
            say!("lost the recording of the shutdown: {error}");
        }
    }

    /// Everything is over, with what `last` tells of the processes that outlived their units. Written at once,
    /// because this process is about to be ended; where that can no longer be, the part that was
    /// written before has to do, unless memory `outlasts` it. What there is of the shutdown that `began`
    /// then is handed to `tell` meanwhile.
    pub fn shutdown_ended(
        &mut self,
        (began, ended): (Moment, Moment),
        last: &LastDone,
        outlasts: bool,
        graph: &Arc<Graph>,
        tell: impl FnOnce(Material),
    ) {
        let Some(whole) = self.whole_shutdown(ended, last, graph) else {
            return tell(self.unkept_shutdown(began, ended, last, graph));
        };
        let told = whole.clone();
        match self.thread.write(whole, true, || tell(told)) {
            WriteResult::NotThere(_) | WriteResult::Nowhere if outlasts => {
                return self.ring.set_note(TO_BE_JOINED, self.ring.next() + 1);
            }
            WriteResult::NotThere(error) | WriteResult::Lost(error) => self.tell_lost(&error),
            WriteResult::Kept | WriteResult::Nowhere => {}
        }
        // Not before: who comes after a SIGKILL writes it.
        self.set_under_way(SHUTDOWN, None);
    }

    /// A shutdown of which no recording is made, because the one before waits to be written.
    fn unkept_shutdown(
        &mut self,
        began: Moment,
        ended: Moment,
        last: &LastDone,
        graph: &Arc<Graph>,
    ) -> Material {
        self.tell_stragglers(ended, last);
        let stretch = UnderWay { began, first: self.ring.since(began.monotonic.0) };
        let mut material = self.material(Subject::Shutdown, stretch, graph);
        let (phase, detail) = (Phase::Shutdown, 0);
        let event = |at: Moment, what| Event::new(at.monotonic.0, NO_UNIT, NO_UNIT, what);
        material.events.insert(0, event(began, What::PhaseBegin { phase, detail }));
        material.events.push(event(ended, What::PhaseEnd { phase, detail }));
        material
    }

    /// The shutdown that is under way, with its end. It is under way until it is written.
    fn whole_shutdown(
        &mut self,
        ended: Moment,
        last: &LastDone,
        graph: &Arc<Graph>,
    ) -> Option<Material> {
        let shutdown = self.under_way(SHUTDOWN).filter(|_| self.ring.note(TO_BE_JOINED) == 0)?;
        self.own_cpu(ended.monotonic);
        self.tell_stragglers(ended, last);
        // Ends the phases within it too.
        self.manager(ended.monotonic, What::PhaseEnd { phase: Phase::Shutdown, detail: 0 });
        Some(self.material(Subject::Shutdown, shutdown, graph))
    }

    /// Writes the shutdown before the soft reboot that this boot follows, if that is still to be
    /// done: where recordings lie is mounted again.
    fn join_shutdown(&mut self, graph: &Arc<Graph>) {
        let Some(end) = self.ring.note(TO_BE_JOINED).checked_sub(1) else { return };
        self.ring.set_note(TO_BE_JOINED, 0);
        let Some(shutdown) = self.take_under_way(SHUTDOWN) else { return };
        let mut whole = self.material(Subject::Shutdown, shutdown, graph);
        whole.events = self.ring.cut(shutdown.first, end);
        self.thread.keep(whole);
    }

    /// The numbers of what happened between two moments, as far as it is still there.
    pub fn between(&self, from: Monotonic, until: Monotonic) -> Range<u64> {
        self.ring.since(from.0)..self.ring.since(until.0.saturating_add(1))
    }

    /// The numbers of all that is still there, and since when it is, or `from` if that is later.
    pub fn kept_since(&self, from: Monotonic) -> (Range<u64>, Monotonic) {
        let first_us = self.ring.first_time_us().unwrap_or(0);
        (self.ring.oldest()..self.ring.next(), from.max(Monotonic(first_us)))
    }

    /// What a recording of such a stretch begins with.
    pub fn live_head(&self, now: Moment) -> Head {
        self.head(Subject::Live, now)
    }

    /// The first [`PIECE_EVENTS_MAX`] of these events; what is gone of them is counted in their place.
    pub fn piece(&self, numbers: Range<u64>) -> Vec<Event> {
        let end = numbers.end.min(numbers.start.saturating_add(PIECE_EVENTS_MAX as u64));
        self.ring.cut(numbers.start, end)
    }

    fn material(&self, subject: Subject, stretch: UnderWay, graph: &Arc<Graph>) -> Material {
        let events = self.ring.cut(stretch.first, self.ring.next());
        let (graph, formers) = (graph.clone(), self.formers.clone());
        Material { head: self.head(subject, stretch.began), events, graph, formers }
    }

    fn head(&self, subject: Subject, at: Moment) -> Head {
        // The three clocks are read apart, within a few µs.
        let slept_us = (warren_sys::time::boottime_ns() / 1000)
            .saturating_sub(warren_sys::time::monotonic_ns() / 1000);
        Head {
            subject,
            anchor: Anchor {
                monotonic_us: at.monotonic.0,
                realtime_us: at.realtime_us,
                boottime_us: at.monotonic.0.saturating_add(slept_us),
            },
            host: self.host.clone(),
            kernel: self.kernel.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// What the last steps waited for, if anything: processes that are asked to end, then those that do not end
/// though they were killed.
fn waits(last: &LastDone) -> impl Iterator<Item = Done> {
    let wait = last.wait;
    let killed_us = if wait.held > 0 { wait.killed_us } else { wait.until_us };
    let phase = |phase, from_us, until_us, count: usize| Done {
        phase,
        began: Monotonic(from_us),
        ended: Monotonic(until_us),
        detail: count as u64,
    };
    let left = phase(Phase::LeftOver, wait.from_us, killed_us, last.left_over);
    let held = phase(Phase::Held, killed_us, wait.until_us, wait.held);
    [left, held].into_iter().filter(|done| done.detail > 0 && done.ended > done.began)
}

/// Whether the manager's lane is made of it.
fn is_sample(event: &Event) -> bool {
    matches!(event.what(), Some(What::OwnCpu { .. } | What::BusQueue { .. }))
}

#[cfg(test)]
mod tests {
    use warren_core::model::process::ExitStatus;
    use warren_trace::analysis::timeline::{Sample, Timeline};
    use warren_unit::Context;

    use super::*;
    use crate::base::scratch::Scratch;
    use crate::last_steps::report::Wait;

    fn moment(seconds: u64) -> Moment {
        Moment { monotonic: Monotonic(seconds * 1_000_000), realtime_us: seconds * 1_000_000 }
    }

    fn recorder(scratch: &Scratch) -> Recorder {
        let records = Records::at(scratch.0.join("records"));
        Recorder::start(records, &Context::system(), None).expect("a thread and a memfd")
    }

    #[test]
    fn a_shutdown_that_is_lost_is_told_though_of_an_earlier_one_there_is_a_part() {
        let scratch = Scratch::new("recorder-lost");
        let (mut recorder, graph) = (recorder(&scratch), Arc::<Graph>::default());
        recorder.shutdown_began(moment(1), &[]);
        recorder.before_unmount("/", &graph);
        assert_eq!(recorder.ring.note(PART), PART_KEPT);
        recorder.shutdown_ended((moment(1), moment(2)), &LastDone::default(), true, &graph, drop);

        recorder.shutdown_began(moment(3), &[]);
        assert_eq!(recorder.ring.note(PART), PART_NONE);
        // The thread has looked where the directory is when it has done what comes behind that.
        let other = UnderWay { began: moment(3), first: recorder.ring.next() };
        let other = recorder.material(Subject::Reload, other, &graph);
        assert!(matches!(recorder.thread.write(other, true, || {}), WriteResult::Kept));
        std::fs::remove_dir_all(scratch.0.join("records")).expect("it is there");
        recorder.shutdown_ended((moment(3), moment(4)), &LastDone::default(), false, &graph, drop);
        assert_eq!(recorder.ring.note(PART), PART_LOST);
    }

    #[test]
    fn a_manager_that_is_killed_while_it_writes_the_end_leaves_the_shutdown_under_way() {
        let scratch = Scratch::new("recorder-written");
        let (mut recorder, graph) = (recorder(&scratch), Arc::<Graph>::default());
        recorder.shutdown_began(moment(1), &[]);
        recorder.whole_shutdown(moment(2), &LastDone::default(), &graph).expect("it is under way");
        assert_eq!(recorder.shutdown_since(), Some(moment(1)), "the next one goes on with it");
        recorder.shutdown_ended((moment(1), moment(3)), &LastDone::default(), false, &graph, drop);
        assert_eq!(recorder.shutdown_since(), None);
        assert_eq!(recorder.records.list().len(), 1);
    }

    #[test]
    fn what_the_last_steps_waited_for_has_phases_with_their_times() {
        let told = |wait, left_over| {
            let last = LastDone { left_over, wait, ..LastDone::default() };
            let waits = waits(&last).map(|one| (one.phase, one.began.0, one.ended.0, one.detail));
            waits.collect::<Vec<_>>()
        };
        let none = Wait::default();
        assert_eq!(told(none, 0), []);
        let gone = Wait { from_us: 5, killed_us: 9, until_us: 12, held: 0 };
        assert_eq!(told(gone, 3), [(Phase::LeftOver, 5, 12, 3)]);
        let held = Wait { held: 2, ..gone };
        assert_eq!(told(held, 3), [(Phase::LeftOver, 5, 9, 3), (Phase::Held, 9, 12, 2)]);
    }

    /// On a host with one file system nothing is written any more once that is taken apart.
    #[test]
    fn what_is_written_before_storage_is_taken_apart_has_the_processes_that_were_left() {
        let scratch = Scratch::new("recorder-part");
        let (mut recorder, graph) = (recorder(&scratch), Arc::<Graph>::default());
        recorder.shutdown_began(moment(1), &[]);
        recorder.units_stopped(moment(2), false, &graph);
        let wait = Wait { from_us: 2_000_000, killed_us: 7_000_000, until_us: 7_500_000, held: 0 };
        let last = LastDone { left_over: 2, killed: 1, wait, ..LastDone::default() };
        recorder.stragglers_ended(moment(8), &last, &graph);
        let events = recorder.shutdown_so_far();
        let has = |phase| {
            let is_it = |event: &Event| matches!(event.what(), Some(What::PhaseBegin { phase: is, .. }) if is == phase);
            events.iter().any(is_it)
        };
        assert!(has(Phase::Stragglers) && has(Phase::LeftOver) && has(Phase::Storage));
        assert_eq!(recorder.ring.note(PART), PART_KEPT);
    }

    #[test]
    fn a_shutdown_that_waits_to_be_written_is_not_under_way() {
        let scratch = Scratch::new("recorder-joined");
        let (mut recorder, graph) = (recorder(&scratch), Arc::<Graph>::default());
        recorder.shutdown_began(moment(1), &[]);
        assert_eq!(recorder.shutdown_since(), Some(moment(1)));
        let part = recorder.under_way(SHUTDOWN).expect("it is under way");
        let part = recorder.material(Subject::Shutdown, part, &graph);
        assert!(matches!(recorder.thread.write(part, false, || {}), WriteResult::Kept));
        std::fs::remove_dir_all(scratch.0.join("records")).expect("it is there");
        recorder.shutdown_ended((moment(1), moment(2)), &LastDone::default(), true, &graph, drop);
        assert!(recorder.under_way(SHUTDOWN).is_some(), "for the next manager");
        assert_eq!(recorder.shutdown_since(), None);
        // One that comes before that is done has no recording, and last words all the same.
        recorder.shutdown_began(moment(5), &[]);
        let tell = |material| {
            let words = crate::shutdown::critical_path::words(material);
            let expect = "The system is down. Shutdown took 2.500 s (critical path 2.000 s, 2.000 s of it \
                          leftover processes): 0 units, 1 killed";
            assert_eq!(words, expect);
        };
        let wait = Wait { from_us: 5_250_000, killed_us: 7_000_000, until_us: 7_250_000, held: 0 };
        let last = LastDone { left_over: 1, killed: 1, wait, ..LastDone::default() };
        let ended = Moment { monotonic: Monotonic(7_500_000), ..moment(7) };
        recorder.shutdown_ended((moment(5), ended), &last, true, &graph, tell);
    }

    #[test]
    fn a_reload_has_what_the_manager_cost_from_its_begin_and_who_waited_meanwhile() {
        let scratch = Scratch::new("recorder-reload");
        let (mut recorder, graph) = (recorder(&scratch), Arc::<Graph>::default());
        let at = |seconds| moment(seconds).monotonic;
        recorder.asked(at(1), 1);
        recorder.answered(at(2), 1);
        recorder.asked(at(4), 3);
        recorder.killed(at(5), None, None, 1);
        recorder.has_news = true;
        recorder.seen(at(5));
        let whole = Done { phase: Phase::Reload, began: at(3), ended: at(6), detail: 0 };
        let scan = Done { phase: Phase::Scan, ended: at(4), ..whole };
        let material = recorder.whole_reload(moment(3), 0, &[whole, scan], &graph);
        let timeline = Timeline::of(&crate::recording::files::recording(material));
        let samples = timeline.samples.iter().map(|(time_us, sample)| match sample {
            Sample::OwnCpu(cpu_us) => (time_us / 1_000_000, None, *cpu_us > 0),
            Sample::BusQueue(depth) => (time_us / 1_000_000, Some(*depth), true),
        });
        let expect = [(3, None, false), (4, Some(3), true), (5, None, true), (6, None, true)];
        assert_eq!(samples.collect::<Vec<_>>(), expect);
        assert_eq!((timeline.begin_us, timeline.end_us), (3_000_000, 6_000_000));
        assert_eq!((timeline.spans.len(), timeline.stragglers), (2, 0));
        let kept = recorder.ring.cut(0, recorder.ring.next());
        let times = kept.iter().filter(|event| is_sample(event)).map(|event| event.time_us);
        assert!(times.is_sorted(), "{kept:?}");
    }

    #[test]
    fn what_ended_while_no_manager_was_there_has_its_own_time() {
        let scratch = Scratch::new("recorder-reaped");
        let mut recorder = recorder(&scratch);
        let at = |seconds| moment(seconds).monotonic;
        let end = |pid, seconds| {
            let what = Happened::ProcessEnded { pid, status: ExitStatus::Exited(0) };
            Happening { at: at(seconds), unit: UnitId(3), what }
        };
        recorder.reaped(4, at(1));
        recorder.take(&[end(4, 2)], 0);
        recorder.came_back(at(5));
        recorder.reaped(7, at(4));
        recorder.goes_on(at(6));
        recorder.take(&[end(7, 6), end(8, 6)], 0);
        recorder.take(&[end(7, 9)], 0);
        let events = recorder.ring.cut(0, recorder.ring.next());
        let is_end = |event: &&Event| matches!(event.what(), Some(What::Exit { .. }));
        let seconds = events.iter().filter(is_end).map(|event| event.time_us / 1_000_000);
        assert_eq!(seconds.collect::<Vec<_>>(), [2, 4, 6, 9]);
        assert!(recorder.reaped.is_empty());
    }

    #[test]
    fn a_manager_that_is_killed_while_it_comes_back_leaves_no_phase_open() {
        let scratch = Scratch::new("recorder-back");
        let mut recorder = recorder(&scratch);
        recorder.asked(moment(1).monotonic, 1);
        recorder.came_back(moment(3).monotonic);
        recorder.seen(moment(4).monotonic);
        recorder.came_back(moment(6).monotonic);
        recorder.goes_on(moment(7).monotonic);
        recorder.seen(moment(9).monotonic);
        recorder.asked(moment(9).monotonic, 1);
        let stretch = UnderWay { began: moment(1), first: 0 };
        let material = recorder.material(Subject::Live, stretch, &Arc::default());
        let timeline = Timeline::of(&crate::recording::files::recording(material));
        let seconds = |us: u64| us / 1_000_000;
        let spans = timeline
            .spans
            .iter()
            .map(|span| (span.phase, span.depth, seconds(span.from_us), seconds(span.until_us)));
        let expect = [
            (Phase::Recover, 0, 1, 4),
            (Phase::Restore, 1, 3, 4),
            (Phase::Recover, 0, 4, 7),
            (Phase::Restore, 1, 6, 7),
        ];
        assert_eq!(spans.collect::<Vec<_>>(), expect);
    }
}
