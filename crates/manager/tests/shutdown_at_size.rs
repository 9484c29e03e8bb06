//! How machines end that have very much on them, judged by what they recorded.
//!
//! The sizes are what any machine can carry; `WARREN_FULL_SIZE=1` makes them those of
//! docs/src/design/shutdown-scenarios.md. Times are printed and not asserted.

mod lab;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Instant;

use lab::recordings::recording;
use lab::{Machine, program_of, until_or};
use serde_json::json;
use warren_trace::analysis::Analysis;
use warren_trace::event::What;
use warren_trace::record::Recording;
use warren_trace::words::{Phase, Work};

/// What the numbers of users begin with: each has limits of its own, of inotify(7) for example.
const USER_BASE: u32 = 70;

/// One of two sizes.
fn size(small: usize, full: usize) -> usize {
    match std::env::var_os("WARREN_FULL_SIZE") {
        Some(_) => full,
        None => small,
    }
}

fn unit(name: String, text: &str) -> (String, String) {
    (name, text.to_owned())
}

fn machine(name: &str, units: &[(String, String)]) -> Option<Machine> {
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (&**name, &**text)).collect();
    Machine::start(name, &units)
}

fn end(m: &mut Machine) -> (String, Recording) {
    m.leave("poweroff");
    let console = m.wait_for_end();
    let shutdown = recording(m, "shutdown").unwrap_or_else(|| panic!("no recording: {console}"));
    (console, shutdown)
}

/// The units that were stopped, each once.
fn stopped<'a>(analysis: &'a Analysis<'_>) -> BTreeSet<&'a str> {
    let bars = analysis.timeline.bars.iter().filter(|bar| bar.work == Work::Stop);
    let names: Vec<&str> = bars.map(|bar| analysis.name(bar.row)).collect();
    let once: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(once.len(), names.len(), "a unit was stopped twice");
    once
}

/// What is at rest costs the end nothing: only what is up gets a job.
#[test]
fn of_thousands_only_those_that_are_up_are_stopped() {
    let (sets, up) = (size(250, 8_000), size(40, 2_000));
    let mut units = Vec::new();
    let mut all = String::from("[Unit]\n");
    for n in 0..sets {
        units.push(unit(format!("s{n}.service"), "[Service]\nExecStart=@P stay"));
        units.push(unit(format!("s{n}.socket"), &format!("[Socket]\nListenStream=/run/s{n}")));
        let place = format!("Where=/run/sets/{n}");
        units.push(unit(format!("run-sets-{n}.mount"), &format!("[Mount]\nWhat=tmpfs\n{place}")));
        units.push(unit(format!("run-sets-{n}.automount"), &format!("[Automount]\n{place}")));
    }
    (0..up).for_each(|n| writeln!(all, "Wants=s{n}.service").expect("a string grows"));
    units.push(unit("all.target".to_owned(), &all));
    let Some(mut m) = machine("at-rest", &units) else { return };
    m.expect_job("start", "all.target", "done");
    let wanted: BTreeSet<String> = (0..up).map(|n| format!("s{n}.service")).collect();
    for name in &wanted {
        m.wait_for(name, "active/running");
    }
    let resident = m.totals()["resident_bytes"].as_u64().expect("a number");
    let began = Instant::now();
    let (console, recording) = end(&mut m);
    let took = began.elapsed();
    let analysis = Analysis::of(&recording);
    let ours: BTreeSet<String> =
        stopped(&analysis).into_iter().filter(|name| is_of_set(name)).map(str::to_owned).collect();
    assert_eq!(ours, wanted, "{console}");
    let queued =
        |event: &&warren_trace::event::Event| matches!(event.what(), Some(What::JobQueued { .. }));
    let jobs = recording.events.iter().filter(queued).count();
    // Besides them the targets and slices around them, however many units are at rest.
    const AROUND_MAX: usize = 32;
    assert!(jobs <= up + AROUND_MAX, "{jobs} jobs for {up} services: {console}");
    println!(
        "{} units, {up} up: {took:.3?} to the end, first signal after {} us, {resident} bytes resident",
        sets * 4,
        first_signal_us(&recording).expect("somebody was asked"),
    );
}

fn is_of_set(name: &str) -> bool {
    let stem = name.strip_prefix("run-sets-").or(name.strip_prefix('s')).unwrap_or_default();
    stem.starts_with(|c: char| c.is_ascii_digit())
}

/// From the beginning of the shutdown.
fn first_signal_us(recording: &Recording) -> Option<u64> {
    let analysis = Analysis::of(recording);
    let begin = analysis.timeline.spans.iter().find(|span| span.phase == Phase::Shutdown)?.from_us;
    let asked =
        |event: &&warren_trace::event::Event| matches!(event.what(), Some(What::Signal { .. }));
    let first = recording.events.iter().find(asked)?;
    Some(first.time_us.saturating_sub(begin))
}

/// Managers of users end what is theirs, each within the one time that its own unit has.
#[test]
fn managers_of_users_end_in_order_and_within_one_budget() {
    let (users, each, budget_s) = (size(3, 200), 10, size(4, 20));
    let init = program_of("warren-init", "warren-init");
    let manager = env!("CARGO_BIN_EXE_warrend");
    let session = format!(
        "[Service]\nType=notify\nNotifyAccess=all\nDelegate=yes\nTimeoutStopSec={budget_s}\n\
         KillMode=mixed\nStandardOutput=append:@D/out/%i/said\nUser={USER_BASE}%i\nEnvironment=XDG_RUNTIME_DIR=@D/out/%i\n\
         ExecStart={init} --manager={manager} --helpers=1 -- --user --no-bus --log-target=console \
         --unit-path=@D/units/of-users --record-path=@D/out/%i/records\n"
    );
    let mut units = vec![unit("session@.service".to_owned(), &session)];
    let part = "[Service]\nType=notify\nExecStart=@P ready stay\n\
                ExecStop=/bin/sh -c 'echo %n >>${XDG_RUNTIME_DIR}/stopped'\n";
    let mut default = String::from("[Unit]\nDefaultDependencies=no\n");
    for n in 0..each {
        units.push(unit(format!("of-users/part{n}.service"), part));
        writeln!(default, "Wants=part{n}.service\nAfter=part{n}.service").expect("it grows");
    }
    // The last of them has one that goes neither by itself nor by its manager's patience.
    let stuck = "[Unit]\nConditionPathExists=%t/stuck\n[Service]\nTimeoutStopSec=infinity\n\
         ExecStart=/bin/sh -c 'trap \"\" TERM; : >%t/deaf; while :; do sleep 9; done'\n";
    units.push(unit("of-users/stuck.service".to_owned(), stuck));
    default += "Wants=stuck.service\n";
    units.push(unit("of-users/default.target".to_owned(), &default));
    for target in ["basic", "sysinit", "shutdown", "sockets"] {
        let text = "[Unit]\nDefaultDependencies=no";
        units.push(unit(format!("of-users/{target}.target"), text));
    }
    if !lab::others_reach_programs("managers_of_users_end_in_order_and_within_one_budget") {
        return;
    }
    let Some(mut m) = machine("users", &units) else { return };
    for user in 0..users {
        let (home, id) = (m.out(&user.to_string()), format!("{USER_BASE}{user}"));
        std::fs::create_dir(&home).expect("a directory can be made");
        std::os::unix::fs::chown(&home, id.parse().ok(), None).expect("root may give it away");
    }
    let last = users - 1;
    std::fs::write(m.out(&format!("{last}/stuck")), "").expect("it can be written");
    for user in 0..users {
        let parameters =
            json!({"type": "start", "unit": format!("session@{user}.service"), "wait": false});
        m.call("Job", &parameters);
    }
    for user in 0..users {
        m.wait_for(&format!("session@{user}.service"), "active/running");
        // It is ready before all that it is to start is up.
        let said = || m.lines(&format!("{user}/said")).join("\n");
        let is_up = || said().contains("startup finished").then_some(());
        until_or("all units of a user are up", is_up, said);
    }
    let said = || m.lines(&format!("{last}/said")).join("\n");
    until_or("the last is deaf", || m.out(&format!("{last}/deaf")).exists().then_some(()), said);
    let began = Instant::now();
    let (console, recording) = end(&mut m);
    println!("{users} users with {each} units each: {:.3?} to the end", began.elapsed());
    let analysis = Analysis::of(&recording);
    let bar_of =
        |user| lab::recordings::bar(&analysis, &format!("session@{user}.service"), Work::Stop);
    let slowest = (0..last).map(|user| bar_of(user).own_us()).max();
    println!("the slowest of those that are not stuck took {slowest:?} us");
    for user in 0..users {
        let lines = m.lines(&format!("{user}/stopped"));
        let once: BTreeSet<&String> = lines.iter().collect();
        let said = m.lines(&format!("{user}/said")).join("\n");
        assert_eq!((once.len(), lines.len()), (each, each), "{user}: {lines:?}\n{said}");
        assert!(!said.contains("the last steps: "), "{user}: {said}");
        let bar = bar_of(user);
        let is_killed = bar.kills > 0;
        assert_eq!(is_killed, user == last, "{user}: {bar:?}\n{console}");
        assert!(user != last || bar.own_us() >= budget_s as u64 * 1_000_000, "{bar:?}");
    }
}
