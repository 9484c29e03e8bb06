//! The analysis against plans whose outcome is computed by other means: 1,000 random graphs, and
//! small recordings written down event by event.

use super::*;
use crate::event::{Event, NO_UNIT, What};
use crate::sample::{Numbers, Sample, SampleUnit};
use crate::words::*;

/// Units of a random graph at most.
const UNITS_MAX: u64 = 40;

fn random(seed: u64) -> Sample {
    let mut numbers = Numbers(seed);
    let count = 1 + numbers.below(UNITS_MAX) as usize;
    let mut units = Vec::new();
    for unit in 0..count {
        let wanted = numbers.below(4);
        let mut after: Vec<usize> = (0..wanted)
            .map(|_| numbers.below(unit as u64) as usize)
            .filter(|n| *n < unit)
            .collect();
        after.sort_unstable();
        after.dedup();
        let own_us = numbers.below(5) * numbers.below(1_000);
        let name = format!("u{unit}.service");
        units.push(SampleUnit { name, own_us, after, ..SampleUnit::default() });
    }
    let subject = if numbers.below(2) == 0 { Subject::Boot } else { Subject::Shutdown };
    let latency_us = numbers.below(2) * numbers.below(50);
    let plan_us = numbers.below(2_000);
    Sample { subject, units, plan_us, latency_us, begin_us: numbers.below(1 << 40) }
}

/// The longest path through a plan, found by recursion over the plan itself.
struct Oracle {
    waits: Vec<Vec<usize>>,
    own: Vec<u64>,
    latency: u64,
}

impl Oracle {
    fn of(sample: &Sample) -> Oracle {
        let count = sample.units.len();
        let mut waits = vec![Vec::new(); count];
        for (index, unit) in sample.units.iter().enumerate() {
            for after in &unit.after {
                match sample.subject {
                    Subject::Shutdown => waits[*after].push(index),
                    _ => waits[index].push(*after),
                }
            }
        }
        let own = sample.units.iter().map(|unit| unit.own_us).collect();
        Oracle { waits, own, latency: sample.latency_us }
    }

    /// When a unit's job ends, from the moment in which all were queued.
    fn end(&self, unit: usize, known: &mut Vec<Option<u64>>) -> u64 {
        if let Some(end) = known[unit] {
            return end;
        }
        let before = self.waits[unit].iter().map(|w| self.end(*w, known)).max().unwrap_or(0);
        let end = before + self.latency + self.own[unit];
        known[unit] = Some(end);
        end
    }

    fn total(&self) -> u64 {
        let mut known = vec![None; self.own.len()];
        (0..self.own.len()).map(|unit| self.end(unit, &mut known)).max().unwrap_or(0)
    }

    /// The same with one unit that takes so much longer.
    fn total_with(&mut self, unit: usize, own: u64) -> u64 {
        let kept = std::mem::replace(&mut self.own[unit], own);
        let total = self.total();
        self.own[unit] = kept;
        total
    }
}

#[test]
fn a_thousand_random_graphs_have_the_longest_path_as_critical_path() {
    for seed in 0..1_000 {
        let sample = random(seed);
        let oracle = Oracle::of(&sample);
        let recording = sample.record();
        let analysis = Analysis::of(&recording);
        let parts = analysis.path.parts;
        let total = analysis.timeline.end_us - analysis.timeline.begin_us;
        assert_eq!(total, oracle.total() + sample.plan_us, "seed {seed}");
        assert_eq!(parts.total_us(), total, "seed {seed}: the parts are the total");
        let releases = analysis.path.steps.len() as u64;
        let overhead = sample.plan_us + releases * sample.latency_us;
        assert_eq!(parts.manager_us, overhead, "seed {seed}");
        let own: u64 = analysis.path.steps.iter().map(|step| step.own_us()).sum();
        assert_eq!(parts.units_us, own, "seed {seed}");
        let rows = analysis.path.steps.iter().map(|s| analysis.timeline.bars[s.bar as usize].row);
        let rows: Vec<usize> = rows.map(|row| row as usize).collect();
        for pair in rows.windows(2) {
            assert!(oracle.waits[pair[1]].contains(&pair[0]), "seed {seed}: {rows:?}");
        }
    }
}

#[test]
fn what_if_and_slack_are_what_another_run_would_show() {
    for seed in 0..300 {
        let sample = random(seed);
        let mut oracle = Oracle::of(&sample);
        let recording = sample.record();
        let analysis = Analysis::of(&recording);
        let total = oracle.total();
        for unit in 0..sample.units.len() {
            let without = oracle.total_with(unit, 0);
            let saved = analysis.saved_without_us(unit as u32);
            // Where several end last, nothing is saved by one alone.
            assert_eq!(saved, total - without, "seed {seed}, unit {unit}");
            let ends_last = total - oracle.end(unit, &mut vec![None; sample.units.len()]);
            let slack = analysis.float.slack_us[unit].expect("it ran");
            let own = sample.units[unit].own_us;
            assert!(slack <= ends_last);
            assert_eq!(oracle.total_with(unit, own + slack), total, "seed {seed}, unit {unit}");
            assert_eq!(oracle.total_with(unit, own + slack + 1), total + 1, "seed {seed}");
        }
    }
}

#[test]
fn without_a_unit_the_goal_ends_when_the_next_to_last_lets_it_go() {
    for seed in 0..300 {
        let mut sample = random(seed);
        // One unit after all others: then the goal is always the same.
        let all: Vec<usize> = (0..sample.units.len()).collect();
        sample.subject = Subject::Boot;
        let last = SampleUnit { name: "last.target".into(), after: all, ..SampleUnit::default() };
        sample.units.push(last);
        let mut oracle = Oracle::of(&sample);
        let recording = sample.record();
        let analysis = Analysis::of(&recording);
        for unit in 0..sample.units.len() {
            let saved = oracle.total() - oracle.total_with(unit, 0);
            assert_eq!(analysis.saved_without_us(unit as u32), saved, "seed {seed}, unit {unit}");
        }
    }
}

/// A recording with units a to e of number 0 to 4, from events as (time, unit, cause, what).
fn recorded(subject: Subject, events: &[(u64, u32, u32, What)]) -> Recording {
    let mut recording = Sample {
        subject,
        units: ["a", "b", "c", "d", "e"]
            .map(|name| SampleUnit { name: name.into(), ..SampleUnit::default() })
            .into(),
        plan_us: 0,
        latency_us: 0,
        begin_us: 0,
    }
    .record();
    let event =
        |(time, unit, cause, what): &(u64, u32, u32, What)| Event::new(*time, *unit, *cause, *what);
    recording.events = events.iter().map(event).collect();
    recording
}

fn queued(job: u32, work: Work) -> What {
    What::JobQueued { job, work, asked: Asked::Request, uid: 0, pid: 7 }
}

fn released(job: u32, by: Release) -> What {
    What::JobReleased { job, by }
}

fn ended(job: u32, ending: Ending) -> What {
    What::JobEnded { job, ending, reason: 10 }
}

fn state(active: Active) -> What {
    What::State { active, sub: Sub::Unknown, reason: 40 }
}

/// Bars as `name work queued-start-end`, `?` where something did not happen.
fn bars(recording: &Recording) -> Vec<String> {
    let analysis = Analysis::of(recording);
    let shown = analysis.timeline.bars.iter().map(|bar| {
        let time = |mark: Option<timeline::Mark>| {
            mark.map_or("?".to_owned(), |mark| mark.time_us.to_string())
        };
        let start = time(bar.start.map(|start| start.at));
        let end = time(bar.end.map(|end| end.at));
        let (name, work) = (analysis.name(bar.row), bar.work.text());
        format!("{name} {work} {}-{start}-{end}", bar.queued.time_us)
    });
    shown.collect()
}

#[test]
fn every_restart_is_a_bar_of_its_own() {
    let recording = recorded(
        Subject::Live,
        &[
            (10, 0, NO_UNIT, queued(1, Work::Start)),
            (11, 0, NO_UNIT, released(1, Release::AtOnce)),
            (12, 0, NO_UNIT, state(Active::Activating)),
            (20, 0, NO_UNIT, state(Active::Active)),
            (20, 0, NO_UNIT, ended(1, Ending::Done)),
            (50, 0, NO_UNIT, state(Active::Deactivating)),
            (53, 0, NO_UNIT, state(Active::Failed)),
            (60, 0, NO_UNIT, state(Active::Activating)),
            (70, 0, NO_UNIT, state(Active::Active)),
            (80, 1, NO_UNIT, queued(2, Work::Stop)),
        ],
    );
    let expect =
        ["a start 10-11-20", "a by itself 50-50-53", "a by itself 60-60-70", "b stop 80-?-?"];
    assert_eq!(bars(&recording), expect);
    let ups = Analysis::of(&recording).timeline.ups;
    let ups: Vec<_> = ups.iter().map(|up| (up.from_us, up.until_us)).collect();
    assert_eq!(ups, [(20, Some(50)), (70, None)]);
}

/// A service that fails at 20 and has `RestartSec=`: the time until it is started again is a wait for
/// a timer, not its own, and no part of the bar before.
#[test]
fn the_pause_before_a_restart_is_waited_for() {
    let none = NO_UNIT;
    let sub = |active, sub| What::State { active, sub, reason: 46 };
    let again =
        What::JobQueued { job: 2, work: Work::Restart, asked: Asked::Restart, uid: 0, pid: 0 };
    let events = [
        (10, 0, none, queued(1, Work::Start)),
        (10, 0, none, released(1, Release::AtOnce)),
        (11, 0, none, sub(Active::Active, Sub::Running)),
        (11, 0, none, ended(1, Ending::Done)),
        (20, 0, none, sub(Active::Deactivating, Sub::StopPost)),
        (23, 0, none, sub(Active::Activating, Sub::AutoRestart)),
        (73, 0, none, again),
        (74, 0, none, released(2, Release::AtOnce)),
        (74, 0, none, sub(Active::Activating, Sub::Start)),
        (76, 0, none, sub(Active::Active, Sub::Running)),
        (76, 0, none, ended(2, Ending::Done)),
    ];
    let recording = recorded(Subject::Live, &events);
    assert_eq!(bars(&recording), ["a start 10-10-11", "a by itself 20-20-23", "a start 23-74-76"]);
    let analysis = Analysis::of(&recording);
    let start = analysis.timeline.bars[2].start.expect("it ran");
    assert_eq!((start.by, start.edge), (Release::Timer, None));
    // Its start and its end before had other reasons.
    let expect =
        path::Parts { units_us: 2, outside_us: 51, before_us: 4, idle_us: 9, manager_us: 0 };
    assert_eq!(analysis.path.parts, expect);

    let recording = recorded(Subject::Live, &events[..6]);
    assert_eq!(bars(&recording)[2], "a by itself 23-?-?", "it still waits");
}

/// The job of a start that failed is over after its unit waits for the next one.
#[test]
fn the_pause_after_a_start_that_failed_is_waited_for_too() {
    let none = NO_UNIT;
    let sub = |active, sub| What::State { active, sub, reason: 46 };
    let again =
        What::JobQueued { job: 2, work: Work::Restart, asked: Asked::Restart, uid: 0, pid: 0 };
    let events = [
        (10, 0, none, queued(1, Work::Start)),
        (10, 0, none, released(1, Release::AtOnce)),
        (10, 0, none, sub(Active::Activating, Sub::Start)),
        (20, 0, none, sub(Active::Failed, Sub::Failed)),
        (20, 0, none, sub(Active::Activating, Sub::AutoRestart)),
        (20, 0, none, ended(1, Ending::Failed)),
        (70, 0, none, again),
        (71, 0, none, released(2, Release::AtOnce)),
        (71, 0, none, sub(Active::Activating, Sub::Start)),
        (76, 0, none, sub(Active::Active, Sub::Running)),
        (76, 0, none, ended(2, Ending::Done)),
    ];
    let recording = recorded(Subject::Live, &events);
    assert_eq!(bars(&recording), ["a start 10-10-20", "a start 20-71-76"]);
    let recording = recorded(Subject::Live, &events[..6]);
    assert_eq!(bars(&recording), ["a start 10-10-20", "a by itself 20-?-?"], "it still waits");
    let recording = recorded(Subject::Live, &events[..5]);
    assert_eq!(bars(&recording), ["a start 10-10-?"], "what its job does is in its bar");
}

/// `a` fails while it is up, `b` when it is stopped, and `d` is well.
#[test]
fn a_unit_that_fails_by_itself_or_with_its_stop_has_failed() {
    let none = NO_UNIT;
    let up = |time, unit, job| {
        [
            (time, unit, none, queued(job, Work::Start)),
            (time, unit, none, released(job, Release::AtOnce)),
            (time + 1, unit, none, state(Active::Active)),
            (time + 1, unit, none, ended(job, Ending::Done)),
        ]
    };
    let mut events = [up(10, 0, 1), up(20, 1, 2), up(30, 3, 4)].concat();
    events.extend([
        (50, 0, none, state(Active::Failed)),
        (60, 1, none, queued(5, Work::Stop)),
        (60, 1, none, released(5, Release::AtOnce)),
        (61, 1, none, state(Active::Deactivating)),
        (70, 1, none, state(Active::Failed)),
        (70, 1, none, ended(5, Ending::Done)),
        (80, 3, none, state(Active::Deactivating)),
        (81, 3, none, state(Active::Inactive)),
    ]);
    let recording = recorded(Subject::Live, &events);
    let expect = [
        "a start 10-10-11",
        "b start 20-20-21",
        "d start 30-30-31",
        "a by itself 50-50-50",
        "b stop 60-60-70",
        "d by itself 80-80-81",
    ];
    assert_eq!(bars(&recording), expect);
    let analysis = Analysis::of(&recording);
    let failed = analysis.timeline.bars.iter().map(crate::export::show::has_failed);
    assert_eq!(failed.collect::<Vec<_>>(), [false, false, false, true, true, false]);
    assert_eq!(crate::export::show::Totals::of(&analysis).failed, 2);
}

#[test]
fn what_is_under_way_is_neither_idle_nor_the_managers() {
    let events = [
        (0, 0, NO_UNIT, queued(1, Work::Start)),
        (1, 0, NO_UNIT, released(1, Release::AtOnce)),
        (50, 0, NO_UNIT, ended(1, Ending::Done)),
        (60, 1, NO_UNIT, queued(2, Work::Start)),
        (60, 1, NO_UNIT, released(2, Release::AtOnce)),
        (61, 1, NO_UNIT, ended(2, Ending::Done)),
    ];
    let parts = |subject, events: &[_]| Analysis::of(&recorded(subject, events)).path;
    // The path of a stretch of time is that of what ended last: its number is that of the steps.
    let live = parts(Subject::Live, &events);
    let expect =
        path::Parts { units_us: 1, outside_us: 0, before_us: 49, idle_us: 10, manager_us: 1 };
    assert_eq!((live.parts, live.steps.len()), (expect, 1));
    let recording = recorded(Subject::Live, &events);
    let text = crate::export::table::table(&Analysis::of(&recording));
    let (headline, _) = text.split_once('\n').expect("a first line");
    let of_path =
        "(critical path 0.000 s, before it other work was in progress for 0.000 s, manager 1 us)";
    assert!(headline.contains(of_path), "{headline}");
    assert!(text.contains("       49 us   80.3 %  other work was in progress\n"), "{text}");
    // A connection to a socket, made by what had started before, is asked for late in a boot.
    let boot = parts(Subject::Boot, &events);
    let expect =
        path::Parts { units_us: 50, outside_us: 0, before_us: 0, idle_us: 0, manager_us: 11 };
    assert_eq!((boot.parts, boot.steps.len()), (expect, 2));
    // What hangs is what the stretch is about.
    let hangs = [events[0], events[1], (90, 1, NO_UNIT, queued(2, Work::Start))];
    let live = parts(Subject::Live, &hangs);
    let expect =
        path::Parts { units_us: 89, outside_us: 0, before_us: 0, idle_us: 0, manager_us: 1 };
    assert_eq!((live.parts, live.steps.len()), (expect, 1));
    let recording = recorded(Subject::Live, &hangs);
    let hung = &Analysis::of(&recording).timeline.bars[0];
    assert_eq!((hung.own_us(), hung.is_under_way(), hung.has_run()), (89, true, false));
}

/// `a` is done at 30, `b` and `c` are still being started when the shutdown comes; `d` waits for `c`.
#[test]
fn of_a_boot_that_was_given_up_what_was_under_way_is_the_path() {
    let begin = |phase| What::PhaseBegin { phase, detail: 0 };
    let given_up = |phase| What::PhaseGivenUp { phase };
    let none = NO_UNIT;
    let mut events = vec![
        (0, none, none, begin(Phase::Boot)),
        (2, none, none, begin(Phase::StartUnits)),
        (5, 0, none, queued(1, Work::Start)),
        (5, 1, none, queued(2, Work::Start)),
        (5, 2, none, queued(3, Work::Start)),
        (5, 3, none, queued(4, Work::Start)),
        (6, 0, none, released(1, Release::AtOnce)),
        (7, 2, none, released(3, Release::AtOnce)),
        (30, 0, none, ended(1, Ending::Done)),
        (31, 1, 0, released(2, Release::Unit)),
        (90, none, none, given_up(Phase::StartUnits)),
        (90, none, none, given_up(Phase::Boot)),
    ];
    let recording = recorded(Subject::Boot, &events);
    let analysis = Analysis::of(&recording);
    let names = analysis.path.steps.iter().map(|step| {
        let bar = &analysis.timeline.bars[step.bar as usize];
        (analysis.name(bar.row), bar.own_us(), bar.is_under_way())
    });
    assert_eq!(names.collect::<Vec<_>>(), [("c", 83, true)]);
    let expect =
        path::Parts { units_us: 83, outside_us: 0, before_us: 0, idle_us: 0, manager_us: 7 };
    assert_eq!(analysis.path.parts, expect);
    assert!(analysis.timeline.is_over && !analysis.is_whole(), "it did not come to its end");
    let spans = analysis.timeline.spans.iter().map(|span| (span.phase, span.until_us));
    assert_eq!(spans.collect::<Vec<_>>(), [(Phase::Boot, 90), (Phase::StartUnits, 90)]);
    let table = blockers::blockers(&analysis);
    let shown = table.iter().map(|b| (analysis.name(b.row), b.own_us, b.saved_us, b.slack_us));
    let expect =
        [("c", 83, 0, Some(0)), ("b", 59, 0, Some(0)), ("a", 24, 0, Some(0)), ("d", 0, 0, None)];
    assert_eq!(shown.collect::<Vec<_>>(), expect, "two were under way: one alone saves nothing");

    // It goes on: nothing is missing but its end.
    events.truncate(10);
    events.push((90, none, none, What::BusQueue { depth: 1 }));
    let recording = recorded(Subject::Boot, &events);
    let going_on = Analysis::of(&recording);
    assert_eq!((going_on.path, going_on.timeline.is_over), (analysis.path, false));

    // One that came up does not wait for what its units do by themselves.
    events.insert(8, (8, 4, none, state(Active::Activating)));
    events.push((91, 1, none, ended(2, Ending::Done)));
    events.push((92, 2, none, ended(3, Ending::Done)));
    events.push((95, none, none, What::PhaseEnd { phase: Phase::Boot, detail: 0 }));
    let recording = recorded(Subject::Boot, &events);
    let whole = Analysis::of(&recording);
    assert!(whole.is_whole() && whole.timeline.bars.iter().all(|bar| !bar.is_under_way()));
    assert_eq!(whole.path.parts.units_us, 85);
}

/// `b` requires `a`, which fails at 80; `c` comes after `b`.
#[test]
fn who_fails_with_another_has_waited_for_that_one() {
    let none = NO_UNIT;
    let start = |time, unit, job| (time, unit, none, queued(job, Work::Start));
    let events = [
        (0, none, none, What::PhaseBegin { phase: Phase::Boot, detail: 0 }),
        start(5, 0, 1),
        start(5, 1, 2),
        start(5, 2, 3),
        (6, 0, none, released(1, Release::AtOnce)),
        (80, 0, none, ended(1, Ending::Failed)),
        (80, 1, 0, ended(2, Ending::Dependency)),
        (81, 2, 1, released(3, Release::Unit)),
        (99, 2, none, ended(3, Ending::Done)),
        (99, none, none, What::PhaseEnd { phase: Phase::Boot, detail: 0 }),
    ];
    let recording = recorded(Subject::Boot, &events);
    let analysis = Analysis::of(&recording);
    let steps = analysis.path.steps.iter().map(|step| {
        let row = analysis.timeline.bars[step.bar as usize].row;
        (analysis.name(row), step.from_us, step.own_us(), step.gap_us)
    });
    assert_eq!(steps.collect::<Vec<_>>(), [("a", 6, 74, 1), ("b", 80, 0, 0), ("c", 81, 18, 1)]);
    let expect =
        path::Parts { units_us: 92, outside_us: 0, before_us: 0, idle_us: 0, manager_us: 7 };
    assert_eq!(analysis.path.parts, expect);
    let table = blockers::blockers(&analysis);
    let shown = table.iter().map(|b| {
        (analysis.name(b.row), b.path_us, b.saved_us, b.released, b.waited_us, b.slack_us)
    });
    let expect =
        [("a", 74, 74, 1, 75, Some(0)), ("c", 18, 18, 0, 0, Some(0)), ("b", 0, 0, 1, 76, Some(0))];
    assert_eq!(shown.collect::<Vec<_>>(), expect);

    // What is cancelled while it waits is let go by nobody: what was under way then is the path's.
    let mut events = events;
    events[6] = (70, 1, none, ended(2, Ending::Canceled));
    events[7] = (70, 2, 1, released(3, Release::Unit));
    events.swap(5, 6);
    events.swap(6, 7);
    let recording = recorded(Subject::Boot, &events);
    let parts = Analysis::of(&recording).path.parts;
    let expect =
        path::Parts { units_us: 93, outside_us: 0, before_us: 0, idle_us: 0, manager_us: 6 };
    assert_eq!(parts, expect);
}

/// A stop that was under way was asked for again, by another end.
#[test]
fn what_was_given_up_after_it_had_begun_took_its_time() {
    let none = NO_UNIT;
    let events = [
        (0, none, none, What::PhaseBegin { phase: Phase::Shutdown, detail: 0 }),
        (0, 0, none, queued(1, Work::Stop)),
        (1, 0, none, released(1, Release::AtOnce)),
        (60, 0, none, ended(1, Ending::Canceled)),
        (60, 0, none, queued(2, Work::Stop)),
        (61, 0, none, released(2, Release::AtOnce)),
        (99, 0, none, ended(2, Ending::Done)),
        (99, none, none, What::PhaseEnd { phase: Phase::Shutdown, detail: 0 }),
    ];
    let analysis = |recording: &Recording| Analysis::of(recording).path.parts;
    let parts = analysis(&recorded(Subject::Shutdown, &events));
    let expect =
        path::Parts { units_us: 97, outside_us: 0, before_us: 0, idle_us: 0, manager_us: 2 };
    assert_eq!(parts, expect);
}

/// What is started as a part of the end, and what waits for that.
#[test]
fn a_shutdown_waits_for_what_it_starts() {
    let none = NO_UNIT;
    let events = [
        (0, none, none, What::PhaseBegin { phase: Phase::Shutdown, detail: 0 }),
        (0, 0, none, queued(1, Work::Stop)),
        (0, 1, none, queued(2, Work::Start)),
        (0, 2, none, queued(3, Work::Start)),
        (1, 0, none, released(1, Release::AtOnce)),
        (10, 0, none, ended(1, Ending::Done)),
        (12, 1, 0, released(2, Release::Unit)),
        (80, 1, none, ended(2, Ending::Done)),
        (83, 2, 1, released(3, Release::Unit)),
        (83, 2, none, ended(3, Ending::Done)),
        (90, none, none, What::PhaseEnd { phase: Phase::Shutdown, detail: 0 }),
    ];
    let recording = recorded(Subject::Shutdown, &events);
    let words = crate::export::show::words(&Analysis::of(&recording));
    assert!(words.contains("1 unit, 2 started for it, longest b"), "{words}");
    let path = Analysis::of(&recording).path;
    let steps: Vec<u32> = path.steps.iter().map(|step| step.bar).collect();
    assert_eq!(steps, [0, 1, 2]);
    let expect =
        path::Parts { units_us: 77, outside_us: 0, before_us: 0, idle_us: 0, manager_us: 13 };
    assert_eq!(path.parts, expect);
}

/// The manager is killed at 20 and another one is there at 60; `a` ended at 30, and `b` has no process.
#[test]
fn the_time_without_a_manager_is_not_that_of_who_ended_in_it() {
    let none = NO_UNIT;
    let begin = |time, phase| (time, none, none, What::PhaseBegin { phase, detail: 0 });
    let end = |time, phase| (time, none, none, What::PhaseEnd { phase, detail: 0 });
    let exit = |pid| What::Exit { pid, exit: Exit::Exited, status: 0, main: false };
    let events = [
        begin(0, Phase::Shutdown),
        (0, 0, none, queued(1, Work::Stop)),
        (0, 1, none, queued(2, Work::Stop)),
        (1, 0, none, released(1, Release::AtOnce)),
        (5, 0, none, exit(4)),
        begin(20, Phase::Recover),
        (30, 0, none, exit(7)),
        begin(60, Phase::Restore),
        (61, 0, none, ended(1, Ending::Done)),
        (62, 1, 0, released(2, Release::Unit)),
        (64, 1, none, ended(2, Ending::Done)),
        end(65, Phase::Recover),
        end(70, Phase::Shutdown),
    ];
    let recording = recorded(Subject::Shutdown, &events);
    assert_eq!(bars(&recording), ["a stop 0-1-30", "b stop 0-62-64"]);
    let path = Analysis::of(&recording).path;
    let expect =
        path::Parts { units_us: 31, outside_us: 0, before_us: 0, idle_us: 0, manager_us: 39 };
    assert_eq!((path.parts, path.steps[1].gap_us), (expect, 32));

    // It ended when the manager was there already.
    let mut events = events;
    events[7] = end(55, Phase::Recover);
    events.swap(6, 7);
    events[7].0 = 60;
    assert_eq!(bars(&recorded(Subject::Shutdown, &events))[0], "a stop 0-1-61");
}

/// The time for the end was over before the stop was; what a unit does by itself then is not waited for.
#[test]
fn a_stop_that_a_shutdown_does_not_wait_for_any_more_has_held_it_up() {
    let none = NO_UNIT;
    let begin = |time, phase| (time, none, none, What::PhaseBegin { phase, detail: 0 });
    let end = |time, phase| (time, none, none, What::PhaseEnd { phase, detail: 0 });
    let events = [
        begin(0, Phase::Shutdown),
        begin(0, Phase::StopUnits),
        (0, 0, none, queued(1, Work::Stop)),
        (0, 1, none, queued(2, Work::Stop)),
        (0, 2, none, queued(3, Work::Stop)),
        (1, 0, none, released(1, Release::AtOnce)),
        (4, 0, none, ended(1, Ending::Done)),
        (6, 1, 0, released(2, Release::Unit)),
        (7, 3, none, state(Active::Activating)),
        end(70, Phase::StopUnits),
        begin(70, Phase::Stragglers),
        (95, 1, none, What::Signal { signal: 9, pid: 0, count: 1 }),
        end(99, Phase::Shutdown),
    ];
    let recording = recorded(Subject::Shutdown, &events);
    let analysis = Analysis::of(&recording);
    let steps = analysis.path.steps.iter().map(|step| (step.bar, step.from_us, step.until_us));
    assert_eq!(steps.collect::<Vec<_>>(), [(0, 1, 4), (1, 6, 70)]);
    let expect =
        path::Parts { units_us: 67, outside_us: 0, before_us: 0, idle_us: 0, manager_us: 32 };
    assert_eq!(analysis.path.parts, expect);
    let bars = analysis.timeline.bars.iter().map(|bar| (bar.own_us(), bar.is_under_way()));
    assert_eq!(bars.collect::<Vec<_>>(), [(3, false), (64, true), (0, false), (0, false)]);
    let words = crate::export::show::words(&analysis);
    assert!(words.ends_with(": 2 units, longest b 0.000 s, 1 killed"), "{words}");
}

#[test]
fn processes_that_outlive_their_units_are_neither_a_units_nor_the_managers() {
    let none = NO_UNIT;
    let begin = |time, phase| (time, none, none, What::PhaseBegin { phase, detail: 3 });
    let end = |time, phase| (time, none, none, What::PhaseEnd { phase, detail: 3 });
    let events = [
        begin(0, Phase::Shutdown),
        begin(0, Phase::StopUnits),
        (0, 0, none, queued(1, Work::Stop)),
        (0, 0, none, released(1, Release::AtOnce)),
        (20, 0, none, ended(1, Ending::Done)),
        end(21, Phase::StopUnits),
        begin(21, Phase::Stragglers),
        begin(22, Phase::LeftOver),
        end(50, Phase::LeftOver),
        begin(50, Phase::Held),
        end(90, Phase::Held),
        end(91, Phase::Shutdown),
    ];
    let recording = recorded(Subject::Shutdown, &events);
    let analysis = Analysis::of(&recording);
    let expect =
        path::Parts { units_us: 20, outside_us: 68, before_us: 0, idle_us: 0, manager_us: 3 };
    assert_eq!(analysis.path.parts, expect);
    let words = crate::export::show::words(&analysis);
    let told = "68 us of it leftover processes): 1 unit, longest";
    assert!(words.contains(told), "{words}");
    let depths = analysis.timeline.spans.iter().map(|span| (span.phase, span.depth));
    let expect = [
        (Phase::Shutdown, 0),
        (Phase::StopUnits, 1),
        (Phase::Stragglers, 1),
        (Phase::LeftOver, 2),
        (Phase::Held, 2),
    ];
    assert_eq!(depths.collect::<Vec<_>>(), expect);
}

#[test]
fn what_is_missing_does_not_begin_a_recording() {
    let lost = (0, NO_UNIT, NO_UNIT, What::Lost { count: 7 });
    let events = [lost, (100, 0, NO_UNIT, queued(1, Work::Start))];
    let timeline = Timeline::of(&recorded(Subject::Live, &events));
    assert_eq!((timeline.begin_us, timeline.end_us, timeline.lost), (100, 100, 7));
    let timeline = Timeline::of(&recorded(Subject::Live, &events[..1]));
    assert_eq!((timeline.begin_us, timeline.end_us), (0, 0));
}

#[test]
fn a_recording_without_its_end_is_not_over() {
    let begin = (10, NO_UNIT, NO_UNIT, What::PhaseBegin { phase: Phase::Shutdown, detail: 0 });
    let end = (20, NO_UNIT, NO_UNIT, What::PhaseEnd { phase: Phase::Shutdown, detail: 0 });
    let is_over = |subject, events: &[_]| Timeline::of(&recorded(subject, events)).is_over;
    assert!(is_over(Subject::Shutdown, &[begin, end]));
    assert!(!is_over(Subject::Shutdown, &[begin]) && !is_over(Subject::Shutdown, &[]));
    assert!(is_over(Subject::Live, &[begin]), "it ends where somebody wanted it to");
}

#[test]
fn the_time_before_a_request_is_idle_and_a_device_is_outside() {
    let recording = recorded(
        Subject::Live,
        &[
            (100, NO_UNIT, NO_UNIT, What::BusQueue { depth: 1 }),
            (130, 0, NO_UNIT, queued(1, Work::Start)),
            (131, 1, NO_UNIT, queued(2, Work::Start)),
            (133, 0, NO_UNIT, released(1, Release::AtOnce)),
            (150, 0, NO_UNIT, ended(1, Ending::Done)),
            (190, 1, NO_UNIT, released(2, Release::Device)),
            (200, 1, NO_UNIT, ended(2, Ending::Done)),
        ],
    );
    let parts = Analysis::of(&recording).path.parts;
    let expect =
        path::Parts { units_us: 10, outside_us: 59, before_us: 0, idle_us: 31, manager_us: 0 };
    assert_eq!(parts, expect);
}

#[test]
fn events_that_make_no_sense_are_survived() {
    let recording = recorded(
        Subject::Shutdown,
        &[
            (9, 0, 0, ended(1, Ending::Done)),
            (8, 0, 0, released(1, Release::Unit)),
            (7, 77, 78, queued(3, Work::Stop)),
            (6, 0, NO_UNIT, queued(1, Work::Stop)),
            (5, 0, 0, released(1, Release::Unit)),
            (4, 0, 0, ended(1, Ending::Done)),
            (3, 0, NO_UNIT, What::PhaseEnd { phase: Phase::Boot, detail: 0 }),
            (2, 1, NO_UNIT, What::Signal { signal: 9, pid: 0, count: 0 }),
        ],
    );
    let analysis = Analysis::of(&recording);
    assert_eq!(bars(&recording), ["a stop 6-5-4"]);
    let total = analysis.timeline.end_us.saturating_sub(analysis.timeline.begin_us);
    assert_eq!(analysis.path.parts.total_us(), total);
}

#[test]
fn phases_lie_within_each_other() {
    let begin = |phase| What::PhaseBegin { phase, detail: 1 };
    let end = |phase| What::PhaseEnd { phase, detail: 2 };
    let none = NO_UNIT;
    let recording = recorded(
        Subject::Reload,
        &[
            (10, none, none, begin(Phase::Reload)),
            (11, none, none, begin(Phase::Scan)),
            (15, none, none, end(Phase::Scan)),
            (15, none, none, begin(Phase::Parse)),
            (20, none, none, end(Phase::Reload)),
            (25, none, none, begin(Phase::Plan)),
        ],
    );
    let timeline = Analysis::of(&recording).timeline;
    let spans = timeline.spans.iter().map(|s| (s.phase, s.depth, s.from_us, s.until_us, s.detail));
    let expect = [
        (Phase::Reload, 0, 10, 20, 2),
        (Phase::Scan, 1, 11, 15, 2),
        (Phase::Parse, 1, 15, 20, 1),
        (Phase::Plan, 0, 25, 25, 1),
    ];
    assert_eq!(spans.collect::<Vec<_>>(), expect);
    assert_eq!((timeline.begin_us, timeline.end_us), (10, 20));
}

/// A reload is told when it is over: one that was under way when the shutdown began does not end it.
#[test]
fn phases_that_cross_end_each_by_its_own_end() {
    let begin = |at, phase| (at, NO_UNIT, NO_UNIT, What::PhaseBegin { phase, detail: 0 });
    let end = |at, phase| (at, NO_UNIT, NO_UNIT, What::PhaseEnd { phase, detail: 0 });
    let recording = recorded(
        Subject::Shutdown,
        &[
            begin(10, Phase::Reload),
            begin(11, Phase::Scan),
            begin(20, Phase::Shutdown),
            begin(20, Phase::StopUnits),
            begin(30, Phase::Loop),
            end(35, Phase::Scan),
            end(40, Phase::Reload),
            end(90, Phase::StopUnits),
            begin(90, Phase::Stragglers),
            end(99, Phase::Shutdown),
        ],
    );
    let timeline = Analysis::of(&recording).timeline;
    let spans = timeline.spans.iter().map(|s| (s.phase, s.depth, s.from_us, s.until_us));
    let expect = [
        (Phase::Reload, 0, 10, 40),
        (Phase::Scan, 1, 11, 35),
        (Phase::Shutdown, 0, 20, 99),
        (Phase::StopUnits, 1, 20, 90),
        (Phase::Loop, 2, 30, 40),
        (Phase::Stragglers, 1, 90, 99),
    ];
    assert_eq!(spans.collect::<Vec<_>>(), expect);
    assert_eq!((timeline.begin_us, timeline.end_us), (20, 99));
    assert!(timeline.is_over);
}

#[test]
fn differences_are_ranked_and_name_what_is_new() {
    let plan = |own: &[u64]| {
        let unit = |(index, own): (usize, &u64)| SampleUnit {
            name: format!("u{index}"),
            own_us: *own,
            ..SampleUnit::default()
        };
        let units = own.iter().enumerate().map(unit).collect();
        let (plan_us, latency_us, begin_us) = (0, 0, 0);
        Sample { subject: Subject::Boot, units, plan_us, latency_us, begin_us }.record()
    };
    let (a, b) = (plan(&[100, 50, 7]), plan(&[90, 80, 7, 20]));
    let found = compare::differences(&Analysis::of(&a), &Analysis::of(&b));
    let shown: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.delta_us(), d.a_us)).collect();
    let expect =
        [("u1", 30, Some(50)), ("u3", 20, None), ("u0", -10, Some(100)), ("u2", 0, Some(7))];
    assert_eq!(shown, expect);
}

/// A path of very many units: what would be without them is computed of the longest alone.
#[test]
fn of_a_very_long_path_the_longest_units_are_judged() {
    let count = 2 * blockers::SAVED_MAX as u64;
    let unit = |n: u64| SampleUnit {
        name: format!("u{n}"),
        own_us: 10 + n,
        after: (n > 0).then(|| n as usize - 1).into_iter().collect(),
        ..SampleUnit::default()
    };
    let units = (0..count).map(unit).collect();
    let (plan_us, latency_us, begin_us) = (0, 0, 0);
    let recording =
        Sample { subject: Subject::Boot, units, plan_us, latency_us, begin_us }.record();
    let table = blockers::blockers(&Analysis::of(&recording));
    assert!(table.is_sorted_by(|a, b| a.path_us >= b.path_us));
    let (judged, rest) = table.split_at(blockers::SAVED_MAX);
    assert!(judged.iter().all(|row| row.saved_us == row.path_us), "it is a chain");
    assert!(rest.iter().all(|row| row.saved_us == 0 && row.path_us > 0));
}

#[test]
fn blockers_begin_with_the_critical_path() {
    let unit = |name: &str, own_us, after: &[usize]| SampleUnit {
        name: name.into(),
        own_us,
        after: after.into(),
        ..SampleUnit::default()
    };
    let units = vec![unit("slow", 500, &[]), unit("quick", 450, &[]), unit("end", 10, &[0, 1])];
    let (plan_us, latency_us, begin_us) = (0, 0, 0);
    let recording =
        Sample { subject: Subject::Boot, units, plan_us, latency_us, begin_us }.record();
    let analysis = Analysis::of(&recording);
    let table = blockers::blockers(&analysis);
    let shown = table.iter().map(|b| {
        let slack = b.slack_us.unwrap_or(u64::MAX);
        (analysis.name(b.row), b.path_us, b.saved_us, b.released, b.waited_us, slack)
    });
    let expect =
        [("slow", 500, 50, 1, 500, 0), ("end", 10, 10, 0, 0, 0), ("quick", 0, 0, 0, 0, 50)];
    assert_eq!(shown.collect::<Vec<_>>(), expect);
}
