//! How a release is to reach hosts.

use serde::{Deserialize, Serialize};

use crate::waves::{STEPS_MAX, Step};

/// How a release is to reach the hosts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Which hosts, in which order; what they leave over comes last.
    pub steps: Vec<Step>,
    /// Hosts of a wave that may be unavailable at once: away, at work or sick. 0: all of them.
    pub max_unavailable: u32,
    /// How long a wave has to be healthy before the next one begins, seconds.
    pub soak: u64,
    /// How long a host may take, seconds.
    pub patience: u64,
    /// Sick hosts with which the rollout goes on.
    pub failures_max: u32,
    /// Failed units of a host, above those that it had before, with which it is healthy.
    pub failed_units_max: u32,
    /// With one sick host too many, hosts go back to the revision before; else they stay as they are.
    pub goes_back: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            steps: vec![Step::Hosts(1), Step::Share(10), Step::Rest],
            max_unavailable: 0,
            soak: 30,
            patience: 300,
            failures_max: 0,
            failed_units_max: 0,
            goes_back: true,
        }
    }
}

impl Policy {
    /// Says what is wrong with it.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        match self.steps.len() {
            0..=STEPS_MAX => Ok(()),
            n => Err(format!("the policy has {n} steps, at most {STEPS_MAX}")),
        }
    }
}
