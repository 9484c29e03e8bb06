//! The smallest plan that still fails: drops actions, units, faults and lines as long as the same
//! check fails.

use warren_unit::UnitName;

use crate::faults::Faults;
use crate::run::run;
use crate::script::{FAULT_NAMES, Plan};

/// Runs that one shrinking may take.
const RUNS_MAX: u32 = 3000;

struct Shrinker {
    best: Plan,
    check: String,
    runs: u32,
}

/// Shrinks a plan that fails; one that does not fail comes back as it is.
pub fn shrink(plan: Plan) -> Plan {
    let verdict = run(&plan);
    let Some(check) = verdict.check().map(str::to_owned) else { return plan };
    let mut shrinker = Shrinker { best: plan, check, runs: 0 };
    while shrinker.round() {}
    shrinker.best
}

impl Shrinker {
    /// Keeps `plan` if it fails the same check.
    fn attempt(&mut self, plan: Plan) -> bool {
        self.runs += 1;
        if self.runs > RUNS_MAX || plan == self.best {
            return false;
        }
        let fails = run(&plan).check() == Some(&self.check);
        if fails {
            self.best = plan;
        }
        fails
    }

    /// One pass over everything; whether anything became smaller.
    fn round(&mut self) -> bool {
        let mut smaller = self.drop_actions();
        smaller |= self.drop_units();
        smaller |= self.drop_faults();
        smaller |= self.drop_lines();
        smaller
    }

    fn drop_actions(&mut self) -> bool {
        let mut smaller = false;
        let mut width = self.best.actions.len();
        while width > 0 {
            let mut at = 0;
            while at < self.best.actions.len() {
                let mut plan = self.best.clone();
                let end = (at + width).min(plan.actions.len());
                plan.actions.drain(at..end);
                if self.attempt(plan) {
                    smaller = true;
                } else {
                    at += width;
                }
            }
            width /= 2;
        }
        smaller
    }

    fn drop_units(&mut self) -> bool {
        let names: Vec<UnitName> = self.best.units.names().cloned().collect();
        let mut smaller = false;
        for name in names {
            let mut plan = self.best.clone();
            plan.units.remove(&name);
            smaller |= self.attempt(plan);
        }
        smaller
    }

    fn drop_faults(&mut self) -> bool {
        let mut smaller = self.attempt(Plan { faults: Faults::default(), ..self.best.clone() });
        for name in FAULT_NAMES {
            let mut plan = self.best.clone();
            if let Some(fault) = plan.faults.by_name(name) {
                *fault = 0;
            }
            smaller |= self.attempt(plan);
        }
        smaller
    }

    fn drop_lines(&mut self) -> bool {
        let names: Vec<UnitName> = self.best.units.names().cloned().collect();
        let mut smaller = false;
        for name in names {
            let mut at = 0;
            while let Some(text) = self.best.units.text(&name) {
                let mut lines: Vec<&str> = text.lines().collect();
                if at >= lines.len() {
                    break;
                }
                lines.remove(at);
                let text = lines.join("\n") + "\n";
                let mut plan = self.best.clone();
                plan.units.set(name.clone(), text);
                if self.attempt(plan) {
                    smaller = true;
                } else {
                    at += 1;
                }
            }
        }
        smaller
    }
}
