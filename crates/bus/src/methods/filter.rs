//! What lists are narrowed down by: states, and names or patterns for them.

use crate::error::BusError;
use crate::glob;
use crate::methods::Invocation;
use std::collections::BTreeSet;

/// Most shell patterns of a call by a stranger ...
const GLOBS_MAX: usize = 64;
/// ... and most bytes of them together: each is held against the name of each unit.
const GLOB_BYTES_MAX: usize = 2048;

/// States and names that are asked for. None are all.
#[derive(Default)]
pub struct Filter<'a> {
    states: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
    globs: Vec<&'a str>,
}

impl<'a> Filter<'a> {
    /// Errors: `LimitsExceeded`, where a caller who may change nothing gives too many patterns.
    pub fn new(
        call: &Invocation<'_>,
        states: &[&'a str],
        patterns: &[&'a str],
    ) -> Result<Filter<'a>, BusError> {
        // A backslash is of a pattern, too.
        let is_glob = |pattern: &&str| glob::is_glob(pattern) || pattern.contains('\\');
        let (globs, names): (Vec<&str>, Vec<&str>) = patterns.iter().partition(|p| is_glob(p));
        let bytes: usize = globs.iter().map(|glob| glob.len()).sum();
        if call.is_stranger && (globs.len() > GLOBS_MAX || bytes > GLOB_BYTES_MAX) {
            let text = format!(
                "A call may have {GLOBS_MAX} patterns with {GLOB_BYTES_MAX} bytes altogether."
            );
            return Err(BusError::limits_exceeded(text));
        }
        let (states, names) = (states.iter().copied().collect(), names.into_iter().collect());
        Ok(Filter { states, names, globs })
    }

    /// Whether every name is asked for.
    pub fn is_of_all_names(&self) -> bool {
        self.names.is_empty() && self.globs.is_empty()
    }

    /// Whether one of a unit's states is asked for.
    pub fn has_state(&self, own: &[&str]) -> bool {
        self.states.is_empty() || own.iter().any(|state| self.states.contains(state))
    }

    /// Whether the name is asked for.
    pub fn has_name(&self, name: &str) -> bool {
        self.is_of_all_names()
            || self.names.contains(name)
            || self.globs.iter().any(|glob| glob::matches(glob, name))
    }
}
