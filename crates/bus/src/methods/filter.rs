//! What lists are narrowed down by: states, and names or patterns for them.

use crate::error::BusError;
use crate::glob::Patterns;
use crate::methods::method::Invocation;
use std::collections::BTreeSet;

/// States and names that are asked for. None are all.
#[derive(Default)]
pub struct Filter<'a> {
    states: BTreeSet<&'a str>,
    patterns: Patterns<'a>,
}

impl<'a> Filter<'a> {
    /// Errors: `LimitsExceeded`, where a caller who may change nothing gives too many patterns.
    pub fn new(
        call: &Invocation<'_>,
        states: &[&'a str],
        patterns: &[&'a str],
    ) -> Result<Filter<'a>, BusError> {
        let patterns =
            Patterns::new(patterns, call.is_stranger).map_err(BusError::limits_exceeded)?;
        Ok(Filter { states: states.iter().copied().collect(), patterns })
    }

    /// Whether every name is asked for.
    pub fn is_of_all_names(&self) -> bool {
        self.patterns.are_all_names()
    }

    /// Whether one of a unit's states is asked for.
    pub fn has_state(&self, own: &[&str]) -> bool {
        self.states.is_empty() || own.iter().any(|state| self.states.contains(state))
    }

    /// Whether the name is asked for.
    pub fn has_name(&self, name: &str) -> bool {
        self.patterns.has(name)
    }
}
