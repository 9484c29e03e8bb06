//! Bars from events: every job is one, and so is every start or stop that a unit made by itself.
//!
//! Events are read once, in their order. A bar knows the positions of the events that released and
//! ended it, because equal times do not tell what came first. What has not ended when the recording
//! does has no end.

use std::collections::BTreeMap;

use crate::event::{Event, NO_UNIT, What};
use crate::record::Recording;
use crate::words::{Active, Asked, Counter, Ending, Exit, Phase, Release, Sub, Subject, Work};

/// Times beyond this many µs, 142 years after the machine was started, are not believed. A page's
/// program counts so far without rounding.
const TIME_US_MAX: u64 = 1 << 52;

/// SIGKILL's number.
const SIGKILL: u8 = 9;

/// A unit that occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Its name; `#` and its number when the name was lost.
    pub name: String,
    /// The row of its slice.
    pub slice: Option<u32>,
    /// The last reading of each counter, in the order of [`Counter`]'s numbers.
    pub counters: [Option<u64>; Counter::ALL.len()],
    /// SIGKILLs that it got, also when nothing was under way.
    pub kills: u32,
}

/// A moment and the position of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// In µs, monotonic.
    pub time_us: u64,
    /// Position among the recording's events.
    pub event: u32,
}

/// How a bar ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// When; of what ended while no manager was there, when its last process did.
    pub at: Mark,
    /// The job's result; done or failed for what a unit did by itself.
    pub ending: Ending,
    /// Reason code, 0 for none: of a job that was done, why its unit is as it is then; of others,
    /// why the job ended.
    pub reason: u16,
    /// The row of the unit that brought it about.
    pub edge: Option<u32>,
}

/// What let a bar run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// When.
    pub at: Mark,
    /// What it waited for last.
    pub by: Release,
    /// The row of the unit that it waited for last.
    pub edge: Option<u32>,
}

/// One job, or one change that a unit made by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The unit's row.
    pub row: u32,
    /// What it is.
    pub work: Work,
    /// The job's id; none for what a unit did by itself.
    pub job: Option<u32>,
    /// When it was asked for.
    pub queued: Mark,
    /// Who asked.
    pub asked: Asked,
    /// The row of the unit that pulled it in.
    pub cause: Option<u32>,
    /// When it could run; none when it never could.
    pub start: Option<Start>,
    /// When it ended.
    pub end: Option<End>,
    /// Until when what it did is known to have gone on: its end, or that of a recording in whose midst it
    /// is, or of a shutdown's wait for it. None for one that never could run, and for what a recording
    /// that is over does not wait for.
    pub until: Option<Mark>,
    /// Its unit had failed when it was over, however it ended.
    pub left_failed: bool,
    /// SIGKILLs that its unit got meanwhile.
    pub kills: u32,
    /// The last process of the unit that ended meanwhile; 0 when none did.
    pub last_pid: u32,
}

impl Bar {
    /// When it could run, or was asked for when it never could, in µs.
    pub fn start_us(&self) -> u64 {
        self.start.map_or(self.queued.time_us, |start| start.at.time_us)
    }

    /// When it ended, or `until_us` when it had not.
    pub fn end_us(&self, until_us: u64) -> u64 {
        self.end.map_or(until_us, |end| end.at.time_us).max(self.start_us())
    }

    /// Until when it went on, or `until_us` when that is not known.
    pub fn went_on_until_us(&self, until_us: u64) -> u64 {
        self.until.map_or_else(|| self.end_us(until_us), |until| until.time_us.max(self.start_us()))
    }

    /// Its own time: from when it could run to its end, or as far as is recorded, in µs; 0 when it never
    /// ran.
    pub fn own_us(&self) -> u64 {
        match (self.start, self.until) {
            (Some(start), Some(until)) => until.time_us.saturating_sub(start.at.time_us),
            _ => 0,
        }
    }

    /// What it waited for until then: it began, or never will because of another unit.
    pub fn let_go(&self) -> Option<(Mark, Option<u32>)> {
        let failed_with = self.end.filter(|end| end.ending == Ending::Dependency);
        let began = self.start.map(|start| (start.at, start.edge));
        began.or_else(|| failed_with.map(|end| (end.at, end.edge)))
    }

    /// It began and goes on where the recording ends.
    pub fn is_under_way(&self) -> bool {
        self.end.is_none() && self.until.is_some()
    }

    /// Whether it ran and came to an end.
    pub fn has_run(&self) -> bool {
        self.start.is_some() && self.end.is_some()
    }

    /// Where what it did begins, in µs: for one that never could run, where it ended.
    pub fn ran_from_us(&self, until_us: u64) -> u64 {
        self.start.map_or_else(|| self.end_us(until_us), |start| start.at.time_us)
    }

    /// From when it was asked for to when it could run, in µs.
    pub fn waited_us(&self) -> u64 {
        self.start_us().saturating_sub(self.queued.time_us)
    }
}

/// A stretch of time in which a unit was active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Up {
    /// The unit's row.
    pub row: u32,
    /// Since when, in µs.
    pub from_us: u64,
    /// Until when; none when it still was.
    pub until_us: Option<u64>,
}

/// Something that the manager did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What.
    pub phase: Phase,
    /// How many phases it began in; a boot and a shutdown are in none.
    pub depth: u32,
    /// Since when, in µs.
    pub from_us: u64,
    /// Until when, in µs.
    pub until_us: u64,
    /// The count that the end of the phase carries, or its begin when it did not end.
    pub detail: u64,
}

/// What a sample is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Clients of the bus and the control socket that wait for the manager's loop.
    BusQueue(u64),
    /// CPU time of the manager, in µs.
    OwnCpu(u64),
}

/// Everything on one line of time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The units, by number in the recording.
    pub rows: Vec<Row>,
    /// In the order in which they were asked for.
    pub bars: Vec<Bar>,
    /// When units were active, in the order in which they ceased to be.
    pub ups: Vec<Up>,
    /// What the manager did, in the order in which it began.
    pub spans: Vec<Span>,
    /// Samples with their times in µs.
    pub samples: Vec<(u64, Sample)>,
    /// Where it begins: its phase, or the first event that is not missing, in µs.
    pub begin_us: u64,
    /// Where it ends: its phase, or the last event, in µs.
    pub end_us: u64,
    /// Processes of no unit that were killed.
    pub stragglers: u64,
    /// Events that are missing.
    pub lost: u64,
    /// The end of what was recorded is in it; always so for a stretch that somebody chose.
    pub is_over: bool,
    /// What was recorded came to no end of its own: a boot that a shutdown ended.
    pub is_given_up: bool,
    /// Until when jobs that have no end went on, in µs: where the recording ends in their midst, and where a
    /// shutdown that is over waited no longer for them.
    pub open_until_us: Option<u64>,
}

impl Timeline {
    /// It ends where something goes on: what is under way then is waited for.
    pub fn is_in_the_midst(&self, subject: Subject) -> bool {
        subject == Subject::Live || !self.is_over || self.is_given_up
    }

    /// The timeline of a recording.
    pub fn of(recording: &Recording) -> Timeline {
        let mut builder = Builder::new(recording);
        for (position, event) in recording.events.iter().enumerate() {
            if let Some(what) = event.what() {
                let time_us = event.time_us.min(TIME_US_MAX);
                let mark = Mark { time_us, event: position as u32 };
                builder.event(event, mark, what);
            }
        }
        builder.finish(recording)
    }
}

/// What is open of a unit while events are read.
#[derive(Clone, Copy, Default)]
struct Open {
    job: Option<u32>,
    own: Option<u32>,
    up_us: Option<u64>,
    /// Of its last change of state since the job was queued.
    reason: Option<u16>,
    /// It failed with that.
    failed: bool,
    /// Since when it waits for its time to be started again.
    pause: Option<Mark>,
    /// The bar of the job that came when that time was over.
    paused: Option<u32>,
    /// When a process of it ended last.
    exit_us: Option<u64>,
}

struct Builder<'a> {
    timeline: Timeline,
    recording: &'a Recording,
    open: Vec<Open>,
    /// Bars of jobs that have not ended, by job id.
    jobs: BTreeMap<u32, u32>,
    /// Positions of phases that have not ended.
    phases: Vec<usize>,
    last_us: u64,
}

impl<'a> Builder<'a> {
    fn new(recording: &'a Recording) -> Builder<'a> {
        let row_of = |id| recording.units.binary_search_by_key(&id, |unit| unit.id).ok();
        let row = |unit: &crate::record::Unit| Row {
            name: unit.name.clone(),
            slice: row_of(unit.slice).map(|row| row as u32),
            counters: Default::default(),
            kills: 0,
        };
        let rows: Vec<Row> = recording.units.iter().map(row).collect();
        let is_there = |event: &&Event| !matches!(event.what(), Some(What::Lost { .. }));
        let first = recording.events.iter().find(is_there).or(recording.events.first());
        let first_us = first.map_or(0, |event| event.time_us.min(TIME_US_MAX));
        Builder {
            open: vec![Open::default(); rows.len()],
            timeline: Timeline { rows, begin_us: first_us, ..Timeline::default() },
            recording,
            jobs: BTreeMap::new(),
            phases: Vec::new(),
            last_us: first_us,
        }
    }

    /// The row of a unit; none for units without a name in the recording.
    fn row(&self, unit: u32) -> Option<u32> {
        if unit == NO_UNIT {
            return None;
        }
        let found = self.recording.units.binary_search_by_key(&unit, |unit| unit.id);
        found.ok().map(|row| row as u32)
    }

    fn event(&mut self, event: &Event, mark: Mark, what: What) {
        self.last_us = self.last_us.max(mark.time_us);
        match what {
            What::PhaseBegin { phase, detail } => self.phase_begin(phase, detail, mark),
            What::PhaseEnd { phase, detail } => self.phase_end(phase, detail, mark),
            What::PhaseGivenUp { phase } => {
                self.timeline.is_given_up |= Phase::of(self.recording.head.subject) == Some(phase);
                self.phase_end(phase, 0, mark);
            }
            What::BusQueue { depth } => self.sample(mark, Sample::BusQueue(depth)),
            What::OwnCpu { cpu_us } => self.sample(mark, Sample::OwnCpu(cpu_us)),
            What::Lost { count } => {
                self.timeline.lost = self.timeline.lost.saturating_add(count);
            }
            What::Signal { signal: SIGKILL, count, .. } if event.unit == NO_UNIT => {
                self.timeline.stragglers = self.timeline.stragglers.saturating_add(count);
            }
            _ => {
                if let Some(row) = self.row(event.unit) {
                    self.unit_event(row, self.row(event.cause), mark, what);
                }
            }
        }
    }

    fn unit_event(&mut self, row: u32, cause: Option<u32>, mark: Mark, what: What) {
        match what {
            What::JobQueued { job, work, asked, .. } => {
                let index = self.timeline.bars.len() as u32;
                self.jobs.insert(job, index);
                let open = &mut self.open[row as usize];
                (open.job, open.reason, open.failed) = (Some(index), None, false);
                // A service that is started again is down already.
                let again = asked == Asked::Restart && work == Work::Restart;
                let work = if again { Work::Start } else { work };
                // It waits from when it failed, not from when its time has come.
                let pause = open.pause.take_if(|_| asked == Asked::Restart);
                if pause.is_some() {
                    open.paused = Some(index);
                }
                let bar = bar(row, work, pause.unwrap_or(mark), asked, cause);
                self.timeline.bars.push(Bar { job: Some(job), ..bar });
            }
            What::JobReleased { job, by } => {
                if let Some(&index) = self.jobs.get(&job) {
                    let paused = self.open[row as usize].paused == Some(index);
                    let by = if paused && by == Release::AtOnce { Release::Timer } else { by };
                    let bar = &mut self.timeline.bars[index as usize];
                    bar.start.get_or_insert(Start { at: mark, by, edge: cause });
                }
            }
            What::JobEnded { job, ending, reason } => {
                self.job_ended(job, row, End { at: mark, ending, reason, edge: cause })
            }
            What::State { .. } => self.state(row, cause, mark, what),
            What::Exit { pid, exit, .. } if exit != Exit::Unknown || pid != 0 => {
                self.open[row as usize].exit_us = Some(mark.time_us);
                self.each_open(row, |bar| bar.last_pid = pid);
            }
            What::Signal { signal: SIGKILL, .. } => {
                self.timeline.rows[row as usize].kills += 1;
                self.each_open(row, |bar| bar.kills += 1);
            }
            What::GroupEmpty { last_pid } if last_pid != 0 => {
                self.each_open(row, |bar| bar.last_pid = last_pid);
            }
            What::Counter { counter, value, .. } => {
                let slot = usize::from(counter.number()) - 1;
                self.timeline.rows[row as usize].counters[slot] = Some(value);
            }
            _ => {}
        }
    }

    fn job_ended(&mut self, job: u32, row: u32, end: End) {
        let Some(bar) = self.jobs.remove(&job) else { return };
        let end = End { at: self.ended_at(row, end.at), ..end };
        let open = &mut self.open[row as usize];
        let reason = open.reason.filter(|_| end.ending == Ending::Done).unwrap_or(end.reason);
        let bar_of_job = &mut self.timeline.bars[bar as usize];
        (bar_of_job.end, bar_of_job.left_failed) = (Some(End { reason, ..end }), open.failed);
        if open.job == Some(bar) {
            open.job = None;
        }
    }

    /// What a manager finds to be over when it takes up what runs was over when the last process ended: from
    /// then on it was the manager that was waited for.
    fn ended_at(&self, row: u32, mark: Mark) -> Mark {
        let mut phases = self.phases.iter().map(|&span| &self.timeline.spans[span]);
        let found = phases.rfind(|span| span.phase == Phase::Recover);
        let exit_us = self.open[row as usize].exit_us;
        let meanwhile = exit_us.filter(|us| found.is_some_and(|span| span.from_us <= *us));
        meanwhile.map_or(mark, |time_us| Mark { time_us, ..mark })
    }

    /// Keeps the time in which a unit is active, and makes a bar of a change that no job asked for.
    fn state(&mut self, row: u32, cause: Option<u32>, mark: Mark, what: What) {
        let What::State { active, sub, reason } = what else { return };
        let up = matches!(active, Active::Active | Active::Reloading);
        let failed = matches!(active, Active::Failed | Active::Maintenance);
        let open = &mut self.open[row as usize];
        open.reason = Some(reason);
        // Nobody asked for it, and it was not seen to go down: it failed at once.
        let fails_at_once = failed && open.up_us.is_some();
        // What waits to be started again has failed nevertheless.
        open.failed = failed || open.failed && sub == Sub::AutoRestart;
        // In the time until it is started again it does nothing. The start that failed ends after it.
        let is_pause = sub == Sub::AutoRestart;
        open.pause = None;
        match (up, open.up_us) {
            (true, None) => open.up_us = Some(mark.time_us),
            (false, Some(from_us)) => {
                open.up_us = None;
                let until_us = Some(mark.time_us);
                self.timeline.ups.push(Up { row, from_us, until_us });
            }
            _ => {}
        }
        if fails_at_once {
            self.begin_own(row, cause, mark);
        }
        let under_way = matches!(active, Active::Activating | Active::Deactivating);
        if let Some(own) = self.open[row as usize].own.take_if(|_| !under_way || is_pause) {
            let ending = if failed { Ending::Failed } else { Ending::Done };
            let end = End { at: self.ended_at(row, mark), ending, reason, edge: None };
            self.timeline.bars[own as usize].end = Some(end);
        }
        if is_pause {
            self.open[row as usize].pause = Some(mark);
        } else if under_way {
            self.begin_own(row, cause, mark);
        }
    }

    /// Begins a bar of what a unit does by itself, unless one of a job or of its own is open.
    fn begin_own(&mut self, row: u32, cause: Option<u32>, mark: Mark) {
        let open = &mut self.open[row as usize];
        if open.own.is_some() || open.job.is_some() {
            return;
        }
        open.own = Some(self.timeline.bars.len() as u32);
        let bar = bar(row, Work::Own, mark, Asked::Unknown, cause);
        let start = Some(Start { at: mark, by: Release::AtOnce, edge: None });
        self.timeline.bars.push(Bar { start, ..bar });
    }

    fn each_open(&mut self, row: u32, change: impl Fn(&mut Bar)) {
        let open = self.open[row as usize];
        for bar in [open.job, open.own].into_iter().flatten() {
            change(&mut self.timeline.bars[bar as usize]);
        }
    }

    fn sample(&mut self, mark: Mark, sample: Sample) {
        self.timeline.samples.push((mark.time_us, sample));
    }

    fn phase_begin(&mut self, phase: Phase, detail: u64, mark: Mark) {
        let around = self.phases.last().map(|span| self.timeline.spans[*span].depth);
        let depth = match phase {
            Phase::Boot | Phase::Shutdown => 0,
            _ => around.map_or(0, |depth| depth + 1),
        };
        self.phases.push(self.timeline.spans.len());
        let (from_us, until_us) = (mark.time_us, u64::MAX);
        self.timeline.spans.push(Span { phase, depth, from_us, until_us, detail });
    }

    /// Ends the innermost phase of this name, and what may lie within it, began in it and was not
    /// ended. What merely began meanwhile goes on.
    fn phase_end(&mut self, phase: Phase, detail: u64, mark: Mark) {
        let spans = &mut self.timeline.spans;
        let Some(at) = self.phases.iter().rposition(|span| spans[*span].phase == phase) else {
            return;
        };
        let whole = self.phases[at];
        spans[whole].detail = detail;
        let ends = |span: &mut usize| *span == whole || phase.may_hold(spans[*span].phase);
        let ended: Vec<usize> = self.phases.extract_if(at.., ends).collect();
        ended.into_iter().for_each(|span| spans[span].until_us = mark.time_us);
    }

    fn finish(self, recording: &Recording) -> Timeline {
        let Builder { mut timeline, open, last_us, .. } = self;
        for (row, open) in open.into_iter().enumerate() {
            if let Some(pause) = open.pause.filter(|_| open.job.is_none()) {
                let waits = bar(row as u32, Work::Own, pause, Asked::Restart, None);
                timeline.bars.push(waits);
            }
            if let Some(from_us) = open.up_us {
                timeline.ups.push(Up { row: row as u32, from_us, until_us: None });
            }
        }
        let whole = Phase::of(recording.head.subject);
        let is_whole = |span: &&Span| Some(span.phase) == whole;
        let unended = |span: &Span| span.until_us == u64::MAX;
        timeline.is_over = whole.is_none()
            || timeline.spans.iter().find(is_whole).is_some_and(|span| !unended(span));
        for span in &mut timeline.spans {
            span.until_us = span.until_us.min(last_us);
        }
        timeline.end_us = last_us;
        if let Some(span) = timeline.spans.iter().find(is_whole) {
            (timeline.begin_us, timeline.end_us) = (span.from_us, span.until_us);
        }
        let is_in_the_midst = timeline.is_in_the_midst(recording.head.subject);
        timeline.open_until_us = match recording.head.subject {
            _ if is_in_the_midst => Some(timeline.end_us),
            // The time for it was over before they were.
            Subject::Shutdown => {
                let stop = timeline.spans.iter().find(|span| span.phase == Phase::StopUnits);
                stop.map(|span| span.until_us)
            }
            _ => None,
        };
        let last = timeline.open_until_us.map(|time_us| Mark { time_us, event: u32::MAX });
        for bar in &mut timeline.bars {
            let last = last.filter(|_| is_in_the_midst || bar.job.is_some());
            let under_way = last.filter(|last| bar.start_us() <= last.time_us);
            bar.until = bar.start.and(bar.end.map(|end| end.at).or(under_way));
        }
        timeline
    }
}

fn bar(row: u32, work: Work, queued: Mark, asked: Asked, cause: Option<u32>) -> Bar {
    let (job, start, end, until, left_failed, kills, last_pid) = Default::default();
    Bar { row, work, job, queued, asked, cause, start, end, until, left_failed, kills, last_pid }
}
