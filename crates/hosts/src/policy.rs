//! How a release is to reach hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::waves::{STEPS_MAX, Step};

/// Applications of which a policy bounds how much is unavailable.
pub const APPS_MAX: usize = 64;

/// Stands for each container; a group is bounded by its name alone.
pub const EACH_APP: &str = "*";

/// How a release is to reach the hosts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Which hosts, in which order; what they leave over comes last.
    pub steps: Vec<Step>,
    /// Hosts of a wave that may be unavailable at once: away, at work or sick. 0: all of them.
    pub max_unavailable: u32,
    /// Units of a container or of a group of containers, or with [`EACH_APP`] of each container, that may be unavailable at
    /// once on all hosts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub max_unavailable_of: BTreeMap<String, u32>,
    /// How long a wave has to be healthy before the next one begins, seconds.
    pub soak: u64,
    /// How long a host may take, seconds.
    pub patience: u64,
    /// Sick hosts with which the rollout goes on.
    pub failures_max: u32,
    /// Units of a host with which it is healthy: those that failed, above those that had before, and those that were
    /// started again by themselves since.
    pub failed_units_max: u32,
    /// With one sick host too many, hosts go back to the revision before; else they stay as they are.
    pub goes_back: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            steps: vec![Step::Hosts(1), Step::Share(10), Step::Rest],
            max_unavailable: 0,
            max_unavailable_of: BTreeMap::new(),
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
        if self.steps.len() > STEPS_MAX {
            return Err(format!("the policy has {} steps, at most {STEPS_MAX}", self.steps.len()));
        }
        if self.max_unavailable_of.len() > APPS_MAX {
            return Err(format!("the policy bounds more than {APPS_MAX} applications"));
        }
        match self.max_unavailable_of.iter().find(|(_, most)| **most == 0) {
            Some((app, _)) => {
                Err(format!("{app}: with 0 units unavailable none is ever restarted"))
            }
            None => Ok(()),
        }
    }

    /// The bounds that a unit of these applications counts for, with how many units may be unavailable at once.
    pub fn bounds_of<'a>(&self, apps: &'a [Arc<str>]) -> impl Iterator<Item = (&'a str, u32)> {
        let of = &self.max_unavailable_of;
        let bound = |(at, app): (usize, &'a Arc<str>)| {
            let each = of.get(EACH_APP).filter(|_| at == 0);
            Some((&**app, *of.get(&**app).or(each)?))
        };
        apps.iter().enumerate().filter_map(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::apps;

    #[test]
    fn a_unit_counts_for_its_container_and_for_groups_that_are_named() {
        let check = |bounds: &[(&str, u32)], expected: &[(&str, u32)]| {
            let of = bounds.iter().map(|(app, most)| ((*app).to_owned(), *most)).collect();
            let policy = Policy { max_unavailable_of: of, ..Policy::default() };
            let unit = apps("cart", &["all".into(), "shop".into()]);
            assert_eq!(policy.bounds_of(&unit).collect::<Vec<_>>(), expected);
        };
        check(&[], &[]);
        check(&[("*", 3)], &[("cart", 3)]);
        check(&[("*", 3), ("shop", 5), ("other", 1)], &[("cart", 3), ("shop", 5)]);
        check(&[("*", 3), ("cart", 1), ("all", 9)], &[("cart", 1), ("all", 9)]);
    }
}
