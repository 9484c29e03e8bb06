//! All small worlds: every graph of a few units over the relations that decide most, the requests that
//! systemctl makes of them, compared with the oracle, and built twice with the units in opposite orders.
//! What is left out (`Upholds=`, units on their way, jobs that have begun) random plans have.
//!
//! A graph of N units has a tie (or none) from each unit to each other one; a case adds a state
//! for each unit, an installed job for the last one, and a request for the first. Which two units
//! are named first makes no difference, so the anchor is always tried at each place.

use std::collections::{BTreeMap, BTreeSet};

use warren_core::graph::{Change, Files, Graph, NewDefinition};
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::UnitId;
use warren_core::model::job::{JobKind, JobMode, JobType};
use warren_core::protocol::request::Refusal;
use warren_core::transaction::{self, Anchor, World};
use warren_unit::{LoadState, Relation, UnitFlags, UnitName};

use crate::oracle::{Small, Unit, Verdict};
use crate::random::Random;

/// How two units may be tied: none, or one relation with or without an order.
const TIES: &[&[Relation]] = &[
    &[],
    &[Relation::Requires],
    &[Relation::Requires, Relation::After],
    &[Relation::Wants],
    &[Relation::Wants, Relation::After],
    &[Relation::BindsTo, Relation::After],
    &[Relation::Requisite],
    &[Relation::Conflicts],
    &[Relation::Conflicts, Relation::After],
    &[Relation::PartOf],
    &[Relation::PropagatesStopTo],
    &[Relation::After],
];

const REQUESTS: &[(JobType, JobMode)] = &[
    (JobType::Start, JobMode::Replace),
    (JobType::Start, JobMode::Fail),
    (JobType::Start, JobMode::Isolate),
    (JobType::Start, JobMode::IgnoreRequirements),
    (JobType::Stop, JobMode::Replace),
    (JobType::Stop, JobMode::Fail),
    (JobType::Restart, JobMode::Replace),
    (JobType::Restart, JobMode::Fail),
    (JobType::TryRestart, JobMode::Replace),
    (JobType::VerifyActive, JobMode::Replace),
];

const STATES: [ActiveState; 2] = [ActiveState::Inactive, ActiveState::Active];

const INSTALLED: [Option<JobKind>; 3] = [None, Some(JobKind::Start), Some(JobKind::Stop)];

/// What came of a comparison.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cases that were tried.
    pub cases: u64,
    /// Cases in which the two differ.
    pub different: u64,
    /// The first of them, for people.
    pub differences: Vec<String>,
}

/// Which graphs of so many units are compared.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    /// Every one of them, or those of one part of so many, counted from 0.
    All {
        /// Only graphs in which at most so many pairs of units are tied, each in one direction.
        ties_max: usize,
        /// Which part.
        part: u64,
        /// Of how many.
        parts: u64,
    },
    /// One of so many, drawn by chance, each in one state and with one request.
    OneOf(u64),
}

impl Default for Which {
    fn default() -> Which {
        Which::ALL
    }
}

impl Which {
    /// All of them.
    pub const ALL: Which = Which::All { ties_max: usize::MAX, part: 0, parts: 1 };
}

/// Compares graphs of `units` units. At most `shown` differences are put into words.
pub fn compare(units: usize, which: Which, shown: usize) -> Outcome {
    let mut outcome = Outcome::default();
    let pairs = pairs_of(units);
    match which {
        Which::All { ties_max, part, parts } => {
            let mut number = 0;
            each_graph(&pairs, ties_max, &mut Vec::new(), &mut |ties| {
                if number % parts == part {
                    let small = small_with(units, ties);
                    compare_graph(&small, &mut outcome, shown, None);
                }
                number += 1;
            });
        }
        Which::OneOf(share) => {
            let mut random = Random::new(share);
            let graphs = (TIES.len() as u64).pow(pairs.len() as u32);
            for _ in 0..graphs / share.max(1) {
                let small = small_of(random.below(graphs), units, &pairs);
                let case = random.below(cases_of(units));
                compare_graph(&small, &mut outcome, shown, Some(case));
            }
        }
    }
    outcome
}

/// Two units and how the first is tied to the second.
type Tie = (Unit, Unit, &'static [Relation]);

/// Calls `visit` with each choice of at most `left` pairs and a tie for each of them.
fn each_graph(
    pairs: &[(Unit, Unit)],
    left: usize,
    chosen: &mut Vec<Tie>,
    visit: &mut impl FnMut(&[Tie]),
) {
    let Some((&(from, to), rest)) = pairs.split_first().filter(|_| left > 0) else {
        return visit(chosen);
    };
    each_graph(rest, left, chosen, visit);
    for ties in TIES.iter().filter(|ties| !ties.is_empty()) {
        chosen.push((from, to, ties));
        each_graph(rest, left - 1, chosen, visit);
        chosen.pop();
    }
}

fn small_with(units: usize, ties: &[Tie]) -> Small {
    let relations = ties.iter().flat_map(|&(from, to, relations)| {
        relations.iter().map(move |&relation| (from, relation, to))
    });
    Small {
        states: vec![ActiveState::Inactive; units],
        installed: vec![None; units],
        ties: relations.collect(),
        ..Small::default()
    }
}

/// A graph with a request.
#[derive(Debug)]
pub struct Case {
    /// The units.
    pub small: Small,
    /// What is asked of the first.
    pub job_type: JobType,
    /// How.
    pub mode: JobMode,
}

impl Case {
    /// The jobs that the core makes.
    pub fn build(&self) -> Verdict {
        core_builds(&graph_of(&self.small, false), &self.small, self.job_type, self.mode)
    }

    /// For people: the request, the ties, the states.
    pub fn describe(&self) -> String {
        let mut out = format!("{} a {}\n", self.job_type.as_str(), self.mode.as_str());
        for (from, relation, to) in &self.small.ties {
            out += &format!("  {} {relation} {}\n", name(*from), name(*to));
        }
        for unit in 0..self.small.states.len() {
            let job = self.small.installed[unit].map_or("", |kind| kind.as_str());
            out += &format!("  {} {} {job}\n", name(unit), self.small.states[unit].as_str());
        }
        out
    }
}

/// One case by chance.
pub fn draw_case(units: usize, random: &mut Random) -> Case {
    let pairs = pairs_of(units);
    let graphs = (TIES.len() as u64).pow(pairs.len() as u32);
    let small = small_of(random.below(graphs), units, &pairs);
    case_of(&small, random.below(cases_of(units)))
}

/// How many states and requests a graph is tried with.
fn cases_of(units: usize) -> u64 {
    2u64.pow(units as u32) * INSTALLED.len() as u64 * REQUESTS.len() as u64
}

fn pairs_of(units: usize) -> Vec<(Unit, Unit)> {
    (0..units).flat_map(|a| (0..units).filter(move |&b| b != a).map(move |b| (a, b))).collect()
}

/// The case of this number.
fn case_of(small: &Small, number: u64) -> Case {
    let mut small = small.clone();
    let mut rest = number;
    let mut next = |count: usize| {
        let choice = (rest % count as u64) as usize;
        rest /= count as u64;
        choice
    };
    let (job_type, mode) = REQUESTS[next(REQUESTS.len())];
    if let Some(last) = small.installed.last_mut() {
        *last = INSTALLED[next(INSTALLED.len())];
    }
    for state in &mut small.states {
        *state = STATES[next(STATES.len())];
    }
    Case { small, job_type, mode }
}

/// The graph of this number: a tie for each pair, a digit of it.
fn small_of(number: u64, units: usize, pairs: &[(Unit, Unit)]) -> Small {
    let mut rest = number;
    let ties = pairs.iter().map(|&(from, to)| {
        let ties = TIES[(rest % TIES.len() as u64) as usize];
        rest /= TIES.len() as u64;
        (from, to, ties)
    });
    small_with(units, &ties.collect::<Vec<Tie>>())
}

/// Tries all states and requests of one graph, or the one of this number.
fn compare_graph(small: &Small, outcome: &mut Outcome, shown: usize, one: Option<u64>) {
    let units = small.states.len();
    let graphs = [graph_of(small, false), graph_of(small, true)];
    for number in one.map_or(0..cases_of(units), |number| number..number + 1) {
        let case = case_of(small, number);
        outcome.cases += 1;
        let wanted = case.small.build(0, case.job_type, case.mode);
        let builds = |graph| core_builds(graph, &case.small, case.job_type, case.mode);
        let got = graphs.each_ref().map(builds);
        if got[0] != got[1] || !wanted.contains(&got[0]) {
            outcome.different += 1;
            if outcome.differences.len() < shown {
                outcome.differences.push(describe(&case, &wanted, &got));
            }
        }
    }
}

fn name(unit: Unit) -> UnitName {
    let letter = char::from(b'a' + unit as u8);
    UnitName::parse(&format!("{letter}.target")).expect("a letter and a suffix")
}

/// The graph, with the units made known from first to last or the other way round.
fn graph_of(small: &Small, reversed: bool) -> Graph {
    let mut order: Vec<Unit> = (0..small.states.len()).collect();
    if reversed {
        order.reverse();
    }
    let mut graph = Graph::default();
    for unit in order {
        let of_unit = small.ties.iter().filter(|(from, ..)| *from == unit);
        let mut flags = UnitFlags::NONE;
        flags.set(UnitFlags::ALLOW_ISOLATE, true);
        let new = NewDefinition {
            name: name(unit),
            aliases: Vec::new(),
            load_state: LoadState::Loaded,
            description: "".into(),
            flags,
            slice: None,
            relations: of_unit.map(|(_, relation, to)| (*relation, name(*to))).collect(),
            files: Files::default(),
        };
        graph = graph.apply(vec![Change::Set(Box::new(new))]).0;
    }
    graph
}

struct SmallWorld<'a> {
    small: &'a Small,
    /// By id.
    units: Vec<Unit>,
}

impl World for SmallWorld<'_> {
    fn active_state(&self, unit: UnitId) -> ActiveState {
        self.small.states[self.units[unit.index()]]
    }

    fn installed(&self, unit: UnitId) -> Option<(JobKind, bool)> {
        self.small.installed[self.units[unit.index()]].map(|kind| (kind, false))
    }

    fn has_begun(&self, _unit: UnitId) -> bool {
        false
    }

    fn busy_units(&self) -> Vec<UnitId> {
        let busy =
            |&unit: &UnitId| !self.active_state(unit).is_down() || self.installed(unit).is_some();
        (0..self.units.len()).map(|i| UnitId(i as u32)).filter(busy).collect()
    }

    fn can_reload(&self, _unit: UnitId) -> bool {
        false
    }

    fn is_unseen(&self, _unit: UnitId) -> bool {
        false
    }

    fn is_put_aside(&self, _unit: UnitId) -> bool {
        false
    }

    fn does_without(&self, _unit: UnitId, _other: UnitId) -> bool {
        false
    }

    fn accepted_by(&self, _unit: UnitId) -> Option<UnitId> {
        None
    }
}

fn core_builds(graph: &Graph, small: &Small, job_type: JobType, mode: JobMode) -> Verdict {
    let unit_of = |id: usize| {
        let id = UnitId(id as u32);
        (0..small.states.len()).find(|&unit| name(unit) == *graph.name(id)).expect("one of ours")
    };
    let units: Vec<Unit> = (0..graph.len()).map(unit_of).collect();
    let world = SmallWorld { small, units };
    let unit = graph.lookup(&name(0)).expect("it was put in");
    let plan: Result<_, Refusal> =
        transaction::build(graph, &world, Anchor { unit, job_type, mode });
    let plan = plan.ok()?;
    Some(plan.jobs.iter().map(|job| (world.units[job.unit.index()], job.kind)).collect())
}

fn describe(case: &Case, wanted: &BTreeSet<Verdict>, got: &[Verdict; 2]) -> String {
    let mut out = case.describe();
    let words = |verdict: &Verdict| match verdict {
        None => "refused".to_owned(),
        Some(jobs) => jobs_in_words(jobs),
    };
    let manual: Vec<String> = wanted.iter().map(words).collect();
    out += &format!("  manual: {}\n  core:   {}\n", manual.join(" | "), words(&got[0]));
    if got[0] != got[1] {
        out += &format!("  core, units in the other order: {}\n", words(&got[1]));
    }
    out
}

fn jobs_in_words(jobs: &BTreeMap<Unit, JobKind>) -> String {
    let words = jobs.iter().map(|(unit, kind)| format!("{}/{}", name(*unit), kind.as_str()));
    words.collect::<Vec<_>>().join(" ")
}
