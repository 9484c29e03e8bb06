//! One run: a plan from start to verdict.
//!
//! First the safety phase: the actions happen, with faults. Then the liveness phase: no faults, no
//! actions, and everything must come to rest.

use crate::checks;
use crate::faults::Faults;
use crate::kernel::{Kernel, MS};
use crate::random::Random;
use crate::script::Plan;
use crate::world::World;

/// How long the world may take to come to rest, in ms.
const REST_MS: u64 = 60 * 60 * 1000;

/// How often it is looked at in that time.
const LOOKS: u64 = 60;

/// What came of a run.
#[derive(Debug)]
pub struct Verdict {
    /// The timeline.
    pub log: Vec<String>,
    /// What did not hold; empty is good.
    pub wrong: Vec<String>,
    /// Events that the core took.
    pub events: u64,
    /// Times the manager was killed.
    pub crashes: u32,
    /// The state file: all that was written since the manager was killed last.
    pub state_file: Vec<u8>,
}

impl Verdict {
    /// The name of the check that failed.
    pub fn check(&self) -> Option<&str> {
        let first = self.wrong.first()?;
        Some(first.split(':').next().unwrap_or(first))
    }
}

/// Carries out a plan.
pub fn run(plan: &Plan) -> Verdict {
    let kernel = Kernel::new(Random::new(plan.seed), plan.faults);
    let mut world = World::new(plan.units.clone(), kernel, plan.seed);
    let begin = world.kernel.now;
    for (at, action) in &plan.actions {
        world.run_until(begin + at * MS);
        if !world.wrong.is_empty() {
            break;
        }
        action.perform(&mut world);
    }
    if world.wrong.is_empty() {
        settle(&mut world);
    }
    let states = world.states();
    let mut log = std::mem::take(&mut world.log);
    log.push("at the end:".to_owned());
    log.extend(states);
    Verdict {
        log,
        wrong: world.wrong,
        events: world.events,
        crashes: world.crashes,
        state_file: world.file,
    }
}

/// The liveness phase.
fn settle(world: &mut World) {
    world.kernel.faults = Faults::default();
    let begin = world.kernel.now;
    for look in 1..=LOOKS {
        world.run_until(begin + look * REST_MS * MS / LOOKS);
        if !world.wrong.is_empty() {
            return;
        }
        if world.is_at_rest() {
            break;
        }
    }
    world.wrong.extend(checks::at_rest(world));
}
