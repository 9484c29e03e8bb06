//! `warren-sim`: runs seeds, shows timelines, shrinks failures.
//!
//! ```text
//! warren-sim --seeds A..B [--steps N] [--budget SECONDS]    run them, report failures, shrunk
//! warren-sim --seed S [--steps N] [--log] [--shrink]        one seed
//! warren-sim --seed S [--steps N] --state-file FILE         keeps what the manager wrote down
//! warren-sim --plan FILE [--log] [--shrink]                 a plan from a file
//! warren-sim --exhaustive N [--ties K] [--part I/M]         transactions of all graphs of N units
//! warren-sim --exhaustive N --share K                       of one of K of them
//! warren-sim --differential N [--seed S]                    N transactions in systemd and here
//! ```

mod systemd;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warren_sim::differential::{self, Judgement};
use warren_sim::exhaustive::{self, Which};
use warren_sim::run::{Verdict, run};
use warren_sim::script::Plan;
use warren_sim::shrink::shrink;
use warren_sim::workload;

/// The exit code that says that there is nothing to compare with.
const NOT_RUN: u8 = 3;

/// The seed that is being run.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Last lines of a timeline that are shown with a failure.
const LINES_SHOWN: usize = 60;

#[derive(Default)]
struct Options {
    seeds: Option<(u64, u64)>,
    plan: Option<String>,
    steps: u64,
    budget: Option<Duration>,
    exhaustive: Option<usize>,
    differential: Option<usize>,
    which: Which,
    log: bool,
    shrink: bool,
    state_file: Option<String>,
}

fn main() -> ExitCode {
    let options = match read_options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("warren-sim: {message}");
            return ExitCode::from(2);
        }
    };
    if let Some(units) = options.exhaustive {
        return all_graphs(units, options.which);
    }
    if let Some(count) = options.differential {
        return against_systemd(count, options.seeds.map_or(1, |(seed, _)| seed));
    }
    match (&options.plan, options.seeds) {
        (Some(path), _) => match std::fs::read_to_string(path) {
            Ok(text) => match Plan::parse(&text) {
                Ok(plan) => one(plan, &options),
                Err(line) => {
                    eprintln!("{path}: means nothing: {line}");
                    ExitCode::from(2)
                }
            },
            Err(error) => {
                eprintln!("{path}: {error}");
                ExitCode::from(2)
            }
        },
        (None, Some((from, to))) if to == from + 1 => {
            one(workload::draw(from, options.steps), &options)
        }
        (None, Some((from, to))) => many(from, to, &options),
        (None, None) => many(0, 1000, &options),
    }
}

fn read_options() -> Result<Options, String> {
    let mut options = Options { steps: 30, ..Options::default() };
    let (mut share, mut most, mut piece) = (None, usize::MAX, (0, 1));
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
        match word.as_str() {
            "--seeds" => {
                let text = value()?;
                let (from, to) = text.split_once("..").ok_or("--seeds takes A..B")?;
                options.seeds = Some((number(from.to_owned())?, number(to.to_owned())?));
            }
            "--seed" => {
                let seed = number(value()?)?;
                options.seeds = Some((seed, seed + 1));
            }
            "--plan" => options.plan = Some(value()?),
            "--steps" => options.steps = number(value()?)?,
            "--budget" => options.budget = Some(Duration::from_secs(number(value()?)?)),
            "--exhaustive" => options.exhaustive = Some(number(value()?)? as usize),
            "--differential" => options.differential = Some(number(value()?)? as usize),
            "--share" => share = Some(Which::OneOf(number(value()?)?)),
            "--ties" => most = number(value()?)? as usize,
            "--part" => {
                let text = value()?;
                let (part, parts) = text.split_once('/').ok_or("--part takes I/M")?;
                piece = (number(part.to_owned())?, number(parts.to_owned())?);
            }
            "--state-file" => options.state_file = Some(value()?),
            "--log" => options.log = true,
            "--shrink" => options.shrink = true,
            other => return Err(format!("unknown option {other}")),
        }
    }
    let (part, parts) = piece;
    if part >= parts {
        return Err(format!("--part {part}/{parts}: parts are counted from 0"));
    }
    options.which = share.unwrap_or(Which::All { ties_max: most, part, parts });
    Ok(options)
}

fn one(plan: Plan, options: &Options) -> ExitCode {
    let plan = if options.shrink { shrink(plan) } else { plan };
    let verdict = run(&plan);
    if options.log || options.shrink {
        println!("{}", plan.print());
        verdict.log.iter().for_each(|line| println!("{line}"));
    }
    report(&plan, &verdict);
    if let Some(path) = &options.state_file
        && let Err(error) = std::fs::write(path, &verdict.state_file)
    {
        eprintln!("{path}: {error}");
        return ExitCode::FAILURE;
    }
    if verdict.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(plan: &Plan, verdict: &Verdict) {
    let (events, crashes) = (verdict.events, verdict.crashes);
    match verdict.wrong.is_empty() {
        true => println!("seed {}: good, {events} events, {crashes} crashes", plan.seed),
        false => println!("seed {}: {}", plan.seed, verdict.wrong.join("; ")),
    }
}

/// Runs seeds until one of each check has failed, the budget is over or all are through.
fn many(from: u64, to: u64, options: &Options) -> ExitCode {
    let begin = Instant::now();
    name_seed_of_panic();
    let (mut runs, mut events, mut failures) = (0u64, 0u64, 0u64);
    let mut shown = std::collections::BTreeSet::new();
    for seed in from..to {
        if options.budget.is_some_and(|budget| begin.elapsed() > budget) {
            break;
        }
        SEED.store(seed, Ordering::Relaxed);
        let plan = workload::draw(seed, options.steps);
        let verdict = run(&plan);
        runs += 1;
        events += verdict.events;
        let Some(check) = verdict.check().map(str::to_owned) else { continue };
        failures += 1;
        report(&plan, &verdict);
        if shown.insert(check) && options.shrink {
            let small = shrink(plan);
            println!("{}", small.print());
            let log = run(&small).log;
            let lines = log.len().saturating_sub(LINES_SHOWN);
            log.iter().skip(lines).for_each(|line| println!("    {line}"));
        }
    }
    println!("{runs} seeds, {events} events, {failures} failures");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A panic ends the program: the seed that led to it is said first.
fn name_seed_of_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("seed {}: panics", SEED.load(Ordering::Relaxed));
        tell(panic);
    }));
}

fn all_graphs(units: usize, which: Which) -> ExitCode {
    let outcome = exhaustive::compare(units, which, 10);
    outcome.differences.iter().for_each(|difference| println!("{difference}\n"));
    println!("{} cases, {} differ", outcome.cases, outcome.different);
    if outcome.different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares transactions with systemd's; loud when there is no systemd to ask.
fn against_systemd(count: usize, seed: u64) -> ExitCode {
    let trials = differential::draw(count, seed);
    let files: Vec<(String, String)> = trials.iter().flat_map(|trial| trial.files()).collect();
    let script: String = trials.iter().map(|trial| trial.script()).collect();
    match systemd::run(&files, &script) {
        Ok(output) => judge(trials, &output),
        Err(reason) => {
            println!("NOT RUN: {reason}");
            ExitCode::from(NOT_RUN)
        }
    }
}

fn judge(trials: Vec<differential::Trial>, output: &str) -> ExitCode {
    let mut intended: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    let (mut same, mut different) = (0, 0);
    for judgement in differential::compare(trials, output) {
        match judgement {
            Judgement::Same => same += 1,
            Judgement::Intended(reason) => *intended.entry(reason).or_default() += 1,
            Judgement::Different(text) => {
                different += 1;
                println!("{text}");
            }
        }
    }
    println!("{same} the same, {different} different, intended: {intended:?}");
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
