//! Timers over years and over changes of the clocks: how often their units were started.

use std::sync::Arc;
use std::time::Duration;

use warren_core::machine::Core;
use warren_core::model::ids::ClientId;
use warren_core::model::job::{JobMode, JobType};
use warren_core::model::time::{Moment, Monotonic};
use warren_core::protocol::event::Event;
use warren_core::protocol::request::{Asker, Request};
use warren_core::settings::Settings;
use warren_sim::faults::Faults;
use warren_sim::kernel::Kernel;
use warren_sim::random::Random;
use warren_sim::script::{Action, Plan};
use warren_sim::units::UnitTexts;
use warren_sim::world::World;
use warren_unit::{Context, Defaults, UnitType};

const SECOND: u64 = 1_000_000;
const DAY: u64 = 24 * 3600 * SECOND;
const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

/// The world in Berlin at a moment in UTC, with a timer that has just been started.
fn world(timer: &str, clock: &str) -> World {
    let text = format!(
        "seed 1\n# a.timer\n[Unit]\nDefaultDependencies=no\n[Timer]\n{}\n# a.service\n[Unit]\n\
         DefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/p exit:0\n==\n",
        timer.replace(';', "\n")
    );
    let plan = Plan::parse(&text).expect("a plan");
    let kernel = Kernel::new(Random::new(plan.seed), Faults::default());
    let mut world = World::new(plan.units, kernel, plan.seed);
    for action in [format!("zone {BERLIN}"), format!("clock {clock}"), "start a.timer".to_owned()] {
        perform(&mut world, &action);
    }
    world
}

fn perform(world: &mut World, action: &str) {
    Action::parse(action).expect("an action").perform(world);
}

fn starts(world: &World) -> usize {
    world.log.iter().filter(|line| line.contains("spawn a.service Start[0]")).count()
}

/// Goes on for so many µs; returns how often the service was started in them.
fn starts_within(world: &mut World, us: u64) -> usize {
    let before = starts(world);
    let until = world.kernel.now + us;
    world.run_until(until);
    assert!(world.wrong.is_empty(), "{:?}", world.wrong);
    starts(world) - before
}

#[test]
fn two_years_of_days_have_a_run_each() {
    for time in ["00:00", "02:00", "02:30", "03:00"] {
        let mut world = world(&format!("OnCalendar={time}"), "2026-01-01 12:00:00");
        assert_eq!(starts_within(&mut world, 730 * DAY), 730, "{time}");
    }
}

#[test]
fn the_repeated_hour_has_120_minutes_and_the_skipped_time_one_run() {
    let mut autumn = world("OnCalendar=*:*:00;AccuracySec=1us", "2026-10-24 23:59:30");
    assert_eq!(starts_within(&mut autumn, 7200 * SECOND), 120);
    let mut spring = world("OnCalendar=02:30;AccuracySec=1us", "2026-03-28 23:00:00");
    assert_eq!(starts_within(&mut spring, 5 * 3600 * SECOND), 1);
    let mut named = world("OnCalendar=02:30;AccuracySec=1us", "2026-10-24 22:00:00");
    assert_eq!(starts_within(&mut named, 5 * 3600 * SECOND), 1);
}

/// A public report: who reloads more often than the random delay is long never sees the timer elapse.
#[test]
fn reloads_put_nothing_off() {
    let timer = "OnCalendar=daily;RandomizedDelaySec=22h";
    let mut world = world(timer, "2026-01-01 12:00:00");
    let runs: usize = (0..300)
        .map(|_| {
            perform(&mut world, "reload");
            starts_within(&mut world, DAY / 10)
        })
        .sum();
    assert!((28..=31).contains(&runs), "{runs} runs in 30 days");
    let mut active = self::world("OnActiveSec=10;AccuracySec=1us", "2026-01-01 12:00:00");
    let runs: usize = (0..30)
        .map(|_| {
            perform(&mut active, "reload");
            starts_within(&mut active, 2 * SECOND)
        })
        .sum();
    assert_eq!(runs, 1);
}

#[test]
fn a_manager_that_is_killed_each_hour_misses_nothing_and_repeats_nothing() {
    let mut world =
        world("OnCalendar=*:0/30;Persistent=yes;AccuracySec=1us", "2026-10-24 12:00:00");
    let runs: usize = (0..48)
        .map(|_| {
            perform(&mut world, "crash");
            starts_within(&mut world, 3600 * SECOND)
        })
        .sum();
    assert_eq!(runs, 96);
}

#[test]
fn a_catch_up_has_its_random_delay_and_comes_once() {
    let mut world =
        world("OnCalendar=hourly;Persistent=yes;RandomizedDelaySec=10min", "2026-01-01 12:30:00");
    assert_eq!(starts_within(&mut world, 3600 * SECOND), 1);
    perform(&mut world, "stop a.timer");
    assert_eq!(starts_within(&mut world, 5 * 3600 * SECOND), 0);
    // 18:30: it would have elapsed five times.
    perform(&mut world, "start a.timer");
    assert_eq!(starts_within(&mut world, SECOND), 0);
    assert_eq!(starts_within(&mut world, 660 * SECOND), 1);
    assert_eq!(starts_within(&mut world, 900 * SECOND), 0);
}

/// A public report: after a catch-up the next elapse came late by up to the offset.
#[test]
fn after_a_catch_up_the_usual_offset_counts() {
    let timer = "OnCalendar=hourly;Persistent=yes;RandomizedOffsetSec=1h;AccuracySec=1us";
    let mut world = world(timer, "2026-01-01 12:30:00");
    perform(&mut world, "stop a.timer");
    assert_eq!(starts_within(&mut world, 5 * 3600 * SECOND), 0);
    perform(&mut world, "start a.timer");
    assert_eq!(starts_within(&mut world, SECOND), 1);
    for hour in 0..5 {
        assert_eq!(starts_within(&mut world, 3600 * SECOND), 1, "hour {hour}");
    }
}

#[test]
fn a_clock_that_was_far_ahead_silences_no_timer() {
    let mut world = world("OnCalendar=minutely;AccuracySec=1us", "2038-01-01 00:00:30");
    assert_eq!(starts_within(&mut world, 600 * SECOND), 10);
    perform(&mut world, "clock 2026-01-01 00:00:30");
    assert_eq!(starts_within(&mut world, 600 * SECOND), 10);
    // A small step back has nothing run twice.
    let mut daily = self::world("OnCalendar=daily;AccuracySec=1us", "2026-01-01 22:59:59");
    assert_eq!(starts_within(&mut daily, 2 * SECOND), 1);
    perform(&mut daily, "clock 2026-01-01 22:59:58");
    assert_eq!(starts_within(&mut daily, 3600 * SECOND), 0);
}

#[test]
fn what_elapses_while_the_machine_sleeps_comes_once_afterwards() {
    let mut world = world("OnCalendar=*:0/10;AccuracySec=1us", "2026-01-01 12:00:30");
    perform(&mut world, "sleep 36000");
    assert_eq!(starts_within(&mut world, SECOND), 1);
    assert_eq!(starts_within(&mut world, 1200 * SECOND), 2);
}

/// A core with so many timers that are active, each before one target, at 12:00 in UTC.
fn many(count: u64, settings: &str) -> (Core, u64) {
    let context = Arc::new(Context::system());
    let mut core = Core::new(Settings { context, defaults: Arc::new(Defaults::default()) }, 1);
    let one = |number: u64| {
        format!(
            "# t{number}.timer\n[Unit]\nDefaultDependencies=no\n[Timer]\nUnit=x.target\n{}\n",
            settings.replace(';', "\n")
        )
    };
    let texts: String = (0..count).map(one).collect();
    let texts = UnitTexts::parse(&format!("{texts}# x.target\n[Unit]\nDefaultDependencies=no\n"));
    let (graph, delta) = core.graph().apply(texts.changes_from(&UnitTexts::default()));
    let begin = NOON;
    core.step(moment(begin), Event::Commit { graph: Arc::new(graph), delta: Box::new(delta) });
    for definition in core.graph().clone().definitions() {
        if definition.unit_type() != UnitType::Timer {
            continue;
        }
        let request = Request::Enqueue {
            unit: definition.id,
            job_type: JobType::Start,
            mode: JobMode::Replace,
            reload_if_possible: false,
        };
        let (client, asker) = (ClientId(1), Asker { uid: 0, pid: 1 });
        core.step(moment(begin), Event::Request { client, asker, request });
    }
    core.take_changed();
    (core, begin)
}

const NOON: u64 = 1_774_612_800 * SECOND;

/// Both clocks are the same.
fn moment(us: u64) -> Moment {
    Moment { monotonic: Monotonic(us), realtime_us: us }
}

/// How often the loop is woken within a day.
fn wakes_in_a_day(core: &mut Core, begin: u64) -> usize {
    let mut wakes = 0;
    while let Some(at) = core.next_deadline().filter(|at| at.0 <= begin + DAY) {
        core.step(moment(at.0), Event::Tick);
        wakes += 1;
    }
    wakes
}

/// `WARREN_TIMERS` says how many (2,000).
#[test]
fn many_timers_wake_the_manager_seldom_and_cost_nothing_at_rest() {
    let count = warren_testkit::variable("WARREN_TIMERS", 2_000);
    let (mut core, begin) = many(count, "OnCalendar=daily");
    let took = std::time::Instant::now();
    for second in 1..3600 {
        let effects = core.step(moment(begin + second * SECOND), Event::Tick);
        assert!(effects.is_empty() && core.take_changed().is_empty());
    }
    println!("{count} timers at rest: {:?} for 3,600 turns", took.elapsed());
    let took = std::time::Instant::now();
    let slept = Duration::from_secs(5);
    core.step(moment(begin + 3600 * SECOND), Event::ClockSet { slept });
    println!("{count} timers when the clock was set: {:?}", took.elapsed());
    assert_eq!(wakes_in_a_day(&mut core, begin), 1);
    // Spread over the day by dice, those of a minute come together.
    let (mut core, begin) = many(count, "OnCalendar=12:00;RandomizedDelaySec=24h");
    let wakes = wakes_in_a_day(&mut core, begin);
    assert!(wakes <= 24 * 60 + 1, "{wakes} wakes");
}
