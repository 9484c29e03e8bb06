//! The same small units in systemd and here: which jobs does a request make?
//!
//! `systemctl --show-transaction` prints the anchor job and all others of its transaction. Cases
//! are drawn as in `exhaustive`; each gets units of its own names, so that one systemd serves them
//! all. This makes the files and the shell script, and reads what the script printed; running it
//! is the binary's work. Differences that are intended are in `differences.md`, and told apart
//! here by what causes them.

use std::collections::{BTreeMap, BTreeSet};

use warren_core::model::active_state::ActiveState;
use warren_core::model::job::{JobKind, JobMode, JobType};
use warren_unit::Relation;

use crate::exhaustive::{Case, draw_case};
use crate::oracle::{Small, Unit, Verdict};
use crate::random::Random;

/// One comparison.
#[derive(Debug)]
pub struct Trial {
    number: usize,
    case: Case,
}

/// Draws `count` trials. `isolate` is left out: it would stop the machine around them, and so is
/// what systemctl has no word for.
pub fn draw(count: usize, seed: u64) -> Vec<Trial> {
    let mut random = Random::new(seed);
    let mut trials = Vec::with_capacity(count);
    while trials.len() < count {
        let units = 2 + random.index(2);
        let mut case = draw_case(units, &mut random);
        case.small.installed = vec![None; units];
        if case.mode != JobMode::Isolate && case.job_type != JobType::VerifyActive {
            trials.push(Trial { number: trials.len(), case });
        }
    }
    trials
}

impl Trial {
    fn name(&self, unit: Unit) -> String {
        format!("wd{}{}.target", self.number, char::from(b'a' + unit as u8))
    }

    fn units(&self) -> std::ops::Range<Unit> {
        0..self.case.small.states.len()
    }

    /// File names and texts.
    pub fn files(&self) -> Vec<(String, String)> {
        let text = |unit: Unit| {
            let ties = self.case.small.ties.iter().filter(|(from, ..)| *from == unit);
            let lines = ties.map(|(_, relation, to)| format!("{relation}={}\n", self.name(*to)));
            format!("[Unit]\nDefaultDependencies=no\n{}", lines.collect::<String>())
        };
        self.units().map(|unit| (self.name(unit), text(unit))).collect()
    }

    /// Brings the units into their states, prints `NUMBER STATES ANSWER` (the states as systemd
    /// has them: a unit that is bound to one that is down does not stay up), takes them down.
    pub fn script(&self) -> String {
        let up = |unit: &Unit| self.case.small.states[*unit].is_up();
        let names = |units: Vec<Unit>| {
            units.into_iter().map(|unit| self.name(unit)).collect::<Vec<_>>().join(" ")
        };
        let active = names(self.units().filter(up).collect());
        let all = names(self.units().collect());
        let (job_type, mode) = (self.case.job_type.as_str(), self.case.mode.as_str());
        let start = match active.is_empty() {
            true => String::new(),
            false => format!("systemctl start --job-mode=ignore-dependencies {active}\n"),
        };
        format!(
            "{start}echo {} $(systemctl is-active {all} | tr '\\n' ',') \
             $(systemctl --show-transaction --no-block --job-mode={mode} {job_type} {} 2>&1)\n\
             systemctl stop --job-mode=ignore-dependencies {all}\n",
            self.number,
            self.name(0)
        )
    }

    /// What systemd answered: the jobs by unit, or a refusal.
    fn theirs(&self, answer: &str) -> Verdict {
        // Enqueued anchor job 12 wd0a.target/start. Enqueued auxiliary job 13 wd0b.target/stop.
        if !answer.contains("Enqueued anchor job") {
            return None;
        }
        let mut jobs = BTreeMap::new();
        for (name, word) in answer.split(' ').filter_map(|word| word.split_once('/')) {
            let unit = self.units().find(|unit| self.name(*unit) == name)?;
            let kind = JobType::from_word(word.trim_end_matches('.'))?;
            jobs.insert(unit, kind.collapse(self.case.small.states[unit]));
        }
        Some(jobs)
    }

    /// Compares; a difference that is not intended is put into words.
    fn judge(mut self, line: &str) -> Judgement {
        let (states, answer) = line.split_once(' ').unwrap_or((line, ""));
        for (state, word) in self.case.small.states.iter_mut().zip(states.split(',')) {
            *state = match word {
                "active" => ActiveState::Active,
                _ => ActiveState::Inactive,
            };
        }
        let theirs = self.theirs(answer);
        let ours = self.case.build();
        if ours == theirs || ours.is_none() && theirs.is_none() {
            return Judgement::Same;
        }
        match self.reason(&ours, &theirs) {
            Some(reason) => Judgement::Intended(reason),
            None => Judgement::Different(format!(
                "{}  systemd: {answer}\n  here:    {ours:?}\n",
                self.case.describe()
            )),
        }
    }

    /// The heading of `differences.md` that explains a difference.
    fn reason(&self, ours: &Verdict, theirs: &Verdict) -> Option<&'static str> {
        let small = &self.case.small;
        let whole = Small { whole: true, ..small.clone() };
        let followed = whole.build(0, self.case.job_type, self.case.mode);
        if has_circle(small) && (theirs.is_none() || is_part(theirs, ours)) {
            return Some("Circles are looked for last");
        }
        if theirs.is_none() && followed.contains(&None) || followed.contains(theirs) {
            return Some("Jobs that have nothing to do");
        }
        let restarts =
            |verdict: &Verdict| verdict.iter().flatten().any(|(_, kind)| *kind == JobKind::Restart);
        if restarts(theirs) && has_circle(small) {
            return Some("Restarting in a circle");
        }
        if self.runs_beside(theirs) {
            return Some("Conflicting units");
        }
        let conflicts = small.ties.iter().filter(|(_, tie, _)| *tie == Relation::Conflicts);
        let settled = ours.is_some() && theirs.is_some() && conflicts.count() > 1;
        settled.then_some("Which contradiction is settled first")
    }

    /// Whether the jobs bring up a unit beside one that it conflicts with, or leave it there.
    fn runs_beside(&self, verdict: &Verdict) -> bool {
        let Some(jobs) = verdict else { return false };
        let small = &self.case.small;
        let up = |unit: Unit| match jobs.get(&unit) {
            Some(JobKind::Stop) => false,
            Some(JobKind::Start | JobKind::Restart) => true,
            _ => small.states[unit].is_up(),
        };
        let mut ties = small.ties.iter().filter(|(_, tie, _)| *tie == Relation::Conflicts);
        ties.any(|(a, _, b)| up(*a) && up(*b))
    }
}

/// Whether there are jobs, all of them among the others.
fn is_part(part: &Verdict, whole: &Verdict) -> bool {
    let (Some(part), Some(whole)) = (part, whole) else { return false };
    part.iter().all(|(unit, kind)| whole.get(unit) == Some(kind))
}

/// Whether following the order leads from some unit back to itself.
fn has_circle(small: &Small) -> bool {
    let after: BTreeSet<(Unit, Unit)> = small
        .ties
        .iter()
        .filter(|(_, relation, _)| *relation == Relation::After)
        .map(|(from, _, to)| (*from, *to))
        .collect();
    let mut reach = after.clone();
    for _ in 0..small.states.len() {
        let more: Vec<(Unit, Unit)> = reach
            .iter()
            .flat_map(|&(a, b)| {
                after.iter().filter(move |(c, _)| *c == b).map(move |(_, d)| (a, *d))
            })
            .collect();
        reach.extend(more);
    }
    reach.iter().any(|(a, b)| a == b)
}

/// What came of one comparison.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The same jobs.
    Same,
    /// They differ for a reason that is written down.
    Intended(&'static str),
    /// They differ.
    Different(String),
}

/// Reads the script's output: an answer per trial.
pub fn answers(output: &str) -> BTreeMap<usize, String> {
    let line = |line: &str| {
        let (number, answer) = line.split_once(' ')?;
        Some((number.parse().ok()?, answer.to_owned()))
    };
    output.lines().filter_map(line).collect()
}

/// Compares all trials with their answers. One without an answer is a difference.
pub fn compare(trials: Vec<Trial>, output: &str) -> Vec<Judgement> {
    let answers = answers(output);
    let judge = |trial: Trial| match answers.get(&trial.number) {
        Some(answer) => trial.judge(answer),
        None => Judgement::Different(format!("trial {} has no answer", trial.number)),
    };
    trials.into_iter().map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_systemd_prints_it() {
        let trial = draw(1, 1).remove(0);
        let answer = "Enqueued anchor job 12 wd0a.target/start. \
                      Enqueued auxiliary job 13 wd0b.target/stop.";
        let jobs = trial.theirs(answer).expect("it is no refusal");
        assert_eq!(jobs, BTreeMap::from([(0, JobKind::Start), (1, JobKind::Stop)]));
        assert_eq!(trial.theirs("Call failed: no"), None);
        assert!(matches!(compare(vec![trial], "")[0], Judgement::Different(_)));
    }
}
