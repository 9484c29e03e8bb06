//! Names and shell patterns that a call asks for ([`warren_unit::glob`]).

use std::collections::BTreeSet;

use warren_unit::glob::matches;

/// Most shell patterns of a call by somebody who may change nothing ...
const GLOBS_MAX: usize = 64;
/// ... and most bytes of them together: each is held against the name of each unit.
const GLOB_BYTES_MAX: usize = 2048;

/// Names and shell patterns that are asked for. None are all.
#[derive(Default)]
pub struct Patterns<'a> {
    names: BTreeSet<&'a str>,
    globs: Vec<&'a str>,
}

impl<'a> Patterns<'a> {
    /// Errors: words for a caller who may change nothing and gives too many patterns. Names are cheap.
    pub fn new(patterns: &[&'a str], is_stranger: bool) -> Result<Patterns<'a>, String> {
        let (globs, names): (Vec<&str>, Vec<&str>) = patterns.iter().partition(|p| is_glob(p));
        let bytes: usize = globs.iter().map(|glob| glob.len()).sum();
        if is_stranger && (globs.len() > GLOBS_MAX || bytes > GLOB_BYTES_MAX) {
            return Err(format!(
                "A call may have {GLOBS_MAX} patterns with {GLOB_BYTES_MAX} bytes altogether."
            ));
        }
        Ok(Patterns { names: names.into_iter().collect(), globs })
    }

    /// Whether every name is asked for.
    pub fn are_all_names(&self) -> bool {
        self.names.is_empty() && self.globs.is_empty()
    }

    /// Whether the name is asked for.
    pub fn has(&self, name: &str) -> bool {
        self.are_all_names()
            || self.names.contains(name)
            || self.globs.iter().any(|glob| matches(glob, name))
    }
}

/// Whether `pattern` is more than a plain name.
fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_patterns_are_asked_for_together_and_patterns_of_strangers_are_bounded() {
        let patterns = Patterns::new(&[r"srv-my\x2ddata.mount", "a*"], true).expect("few");
        assert!(patterns.has(r"srv-my\x2ddata.mount") && patterns.has("ab") && !patterns.has("b"));
        assert!(Patterns::new(&[], true).is_ok_and(|all| all.are_all_names() && all.has("b")));
        let (long, many) = (format!("*{}", "[".repeat(GLOB_BYTES_MAX)), ["a*"; GLOBS_MAX + 1]);
        for patterns in [&[&*long][..], &many] {
            assert!(Patterns::new(patterns, true).is_err());
            assert!(Patterns::new(patterns, false).is_ok());
        }
        assert!(Patterns::new(&["a.service"; 1000], true).is_ok(), "names are no patterns");
    }
}
