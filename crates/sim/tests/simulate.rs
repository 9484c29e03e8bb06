//! The simulator as a test: a fixed number of random plans, and every plan that ever failed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use warren_core::model::state::{Path, Scope, Timer, TypeState};
use warren_core::persist::run_state;
use warren_sim::exhaustive::{self, Which};
use warren_sim::run::run;
use warren_sim::script::Plan;
use warren_sim::workload;

/// Random plans of each test; `warren-sim --seeds` runs more.
const PLANS: u64 = 150;

fn check_range(first: u64, steps: u64) {
    let mut events = 0;
    for seed in first..first + PLANS {
        let verdict = run(&workload::draw(seed, steps));
        events += verdict.events;
        let hint = format!("warren-sim --seed {seed} --steps {steps} --shrink");
        assert!(verdict.wrong.is_empty(), "{:#?}\n{hint}", verdict.wrong);
    }
    assert!(events > PLANS * 20, "the plans hardly did anything: {events} events");
}

#[test]
fn short_plans() {
    check_range(0, 15);
}

#[test]
fn long_plans() {
    check_range(1_000_000, 60);
}

/// What is rare is drawn at all: a fault that never comes finds nothing.
#[test]
fn plans_have_what_is_to_be_survived() {
    let logs: Vec<String> =
        (0..300).map(|seed| run(&workload::draw(seed, 30)).log.join("\n")).collect();
    for what in [
        "events are lost",
        "the manager is killed",
        "bus name of a.service: Owned",
        "give up",
        "stop for a soft reboot",
        "device",
    ] {
        assert!(logs.iter().any(|log| log.contains(what)), "{what}");
    }
}

#[test]
fn the_same_plan_gives_the_same_timeline() {
    for seed in 0..20 {
        let plan = workload::draw(seed, 30);
        assert_eq!(run(&plan).log, run(&plan).log, "seed {seed}");
    }
}

/// Each file of `seeds/` is a plan that failed once; its name says what was wrong.
#[test]
fn plans_that_failed_once() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut plans = 0;
    for entry in fs::read_dir(directory).expect("the plans are there") {
        let path = entry.expect("an entry can be read").path();
        let text = fs::read_to_string(&path).expect("a plan can be read");
        let plan = Plan::parse(&text).unwrap_or_else(|line| panic!("{path:?}: {line}"));
        let verdict = run(&plan);
        assert!(verdict.wrong.is_empty(), "{path:?}: {:#?}\n{:#?}", verdict.wrong, verdict.log);
        plans += 1;
    }
    assert!(plans > 0, "no plan was found");
}

/// The version in the name of a state file of `state-files/`.
fn version_of(path: &std::path::Path) -> u32 {
    let name = path.file_name().expect("it is a file").to_string_lossy();
    let version = name.split(['-', '.']).next().expect("split gives one at least");
    version.parse().expect("its name begins with its version")
}

/// Files of `state-files/` were written by versions of the past: made by `warren-sim --state-file`
/// when a version was new, and kept. What they say is to be found in them to the last byte; and this
/// version writes of each unit what is in its own files, or it is another version.
#[test]
fn state_files_of_all_versions_are_understood() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("state-files");
    let mut kinds_of_this_version = BTreeSet::new();
    for entry in fs::read_dir(directory).expect("the files are there") {
        let path = entry.expect("an entry can be read").path();
        let bytes = fs::read(&path).expect("a file can be read");
        let restored = run_state::read(&bytes).unwrap_or_else(|why| panic!("{path:?}: {why:?}"));
        assert_eq!(restored.valid_bytes, bytes.len(), "{path:?} is read to its end");
        assert!(restored.runs.len() > 3 && restored.manager.is_some(), "{path:?}");
        if version_of(&path) != run_state::VERSION {
            continue;
        }
        for (&unit, run) in &restored.runs {
            let mut written = Vec::new();
            let group = restored.groups.get(&unit).map(|path| &**path);
            run_state::write_unit(&mut written, unit, run, group);
            let is_there = bytes.windows(written.len()).any(|part| part == written);
            assert!(is_there, "{path:?}: {:?} is written otherwise: raise VERSION", run.state);
            let history = run.history.as_deref();
            let account = history.and_then(|history| history.account.as_deref());
            let parts = [
                ("relapse", history.is_some_and(|history| history.relapse.is_some())),
                ("refusal", history.is_some_and(|history| history.refusal.is_some())),
                ("unmet condition", account.is_some_and(|a| !a.conditions.is_empty())),
                ("line", history.is_some_and(|history| !history.lines.is_empty())),
                ("command", account.is_some_and(|a| !a.commands.is_empty())),
                ("CPU time", account.is_some_and(|a| a.cpu_us.is_some())),
                ("cgroup", group.is_some()),
                ("timer that waits", matches!(&run.state, TypeState::Timer(Timer::Up(_)))),
                ("path that is watched", matches!(&run.state, TypeState::Path(Path::Up(_)))),
                ("scope that runs", matches!(&run.state, TypeState::Scope(Scope::Up(_)))),
                ("dynamic user", history.is_some_and(|history| history.dynamic_user.is_some())),
                ("elapse", history.is_some_and(|history| history.timer.is_some())),
            ];
            let there = parts.into_iter().filter(|(_, is_there)| *is_there);
            kinds_of_this_version.extend(there.map(|(part, _)| part.to_owned()));
            let state = format!("{:?}", run.state);
            kinds_of_this_version.extend(state.split('(').next().map(str::to_owned));
        }
    }
    let kinds: Vec<_> = kinds_of_this_version.into_iter().collect();
    let expected = [
        "Automount",
        "CPU time",
        "Device",
        "Mount",
        "Path",
        "Scope",
        "Service",
        "Slice",
        "Socket",
        "Swap",
        "Target",
        "Timer",
        "cgroup",
        "command",
        "dynamic user",
        "elapse",
        "line",
        "path that is watched",
        "refusal",
        "relapse",
        "scope that runs",
        "timer that waits",
        "unmet condition",
    ];
    assert_eq!(kinds, expected, "a new version needs files: warren-sim --state-file");
}

fn check_graphs(units: usize, which: Which, at_least: u64) {
    let outcome = exhaustive::compare(units, which, 5);
    assert!(outcome.cases >= at_least, "{} cases only", outcome.cases);
    assert_eq!(outcome.different, 0, "{}", outcome.differences.join("\n"));
}

#[test]
fn transactions_of_all_graphs_of_two_units_are_as_the_manual_says() {
    check_graphs(2, Which::ALL, 17_000);
}

#[test]
fn transactions_of_all_graphs_of_few_ties_are_as_the_manual_says() {
    check_graphs(3, Which::All { ties_max: 1, part: 0, parts: 1 }, 16_000);
}

#[test]
fn transactions_of_many_graphs_of_three_units_are_as_the_manual_says() {
    check_graphs(3, Which::OneOf(150), 19_000);
}

#[test]
fn transactions_of_some_graphs_of_four_units_are_as_the_manual_says() {
    check_graphs(4, Which::OneOf(3_000_000_000), 2_900);
}
