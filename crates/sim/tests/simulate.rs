//! The simulator as a test: a fixed number of random plans, and every plan that ever failed.

use std::fs;
use std::path::PathBuf;

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
