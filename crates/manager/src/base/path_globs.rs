//! Patterns of glob(7) for paths, as of `ConditionPathExistsGlob=` and `EnvironmentFile=`. They are looked up
//! beside the loop: a directory may be behind a server.

use std::fs;
use std::path::{Path, PathBuf};

use warren_unit::glob::matches;

/// Entries of directories that are looked at for one pattern, and directories.
pub const STEPS_MAX: usize = 1 << 20;

/// Patterns that one with braces may stand for.
const ALTERNATIVES_MAX: usize = 1024;

/// What a pattern means.
#[derive(PartialEq, Eq, Debug)]
pub struct GlobMatches {
    /// In the order of their names.
    pub paths: Vec<PathBuf>,
    /// After [`STEPS_MAX`], or of more than [`ALTERNATIVES_MAX`] patterns, nobody looked further.
    pub is_cut: bool,
}

/// Whether it is a pattern rather than a path.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The paths that there are, or, of more, so many of them.
pub fn glob_paths(pattern: &str, most: usize) -> GlobMatches {
    look_up(Path::new("/"), &[pattern], most, STEPS_MAX)
}

/// The same where a pattern may have alternatives in braces as well (glob(3), GLOB_BRACE).
pub fn braced_paths(pattern: &str, most: usize) -> GlobMatches {
    let Some(patterns) = alternatives(pattern) else {
        return GlobMatches { paths: Vec::new(), is_cut: true };
    };
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    look_up(Path::new("/"), &patterns, most, STEPS_MAX)
}

fn look_up(base: &Path, patterns: &[&str], most: usize, steps: usize) -> GlobMatches {
    let mut walk = Walk { most, left: steps, paths: Vec::new() };
    for pattern in patterns {
        walk.directory(base, pattern.trim_start_matches('/'));
    }
    let (mut paths, is_cut) = (walk.paths, walk.left == 0);
    paths.sort();
    GlobMatches { paths, is_cut }
}

/// The patterns without braces that one with braces stands for; nothing if they are too many. A brace that
/// is not closed is a character like others.
fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let (mut done, mut to_do) = (Vec::new(), vec![pattern.to_owned()]);
    while let Some(pattern) = to_do.pop() {
        if done.len() + to_do.len() >= ALTERNATIVES_MAX {
            return None;
        }
        match first_braces(&pattern) {
            None => done.push(pattern),
            Some((before, within, after)) => {
                to_do.extend(within.iter().map(|within| format!("{before}{within}{after}")));
            }
        }
    }
    Some(done)
}

/// What is before, within and after the first braces that are closed.
fn first_braces(pattern: &str) -> Option<(&str, Vec<&str>, &str)> {
    let open = pattern.find('{')?;
    let (before, rest) = (&pattern[..open], &pattern[open + 1..]);
    let (mut depth, mut from, mut within) = (0, 0, Vec::new());
    for (at, c) in rest.char_indices() {
        match (c, depth) {
            ('{', _) => depth += 1,
            (',', 0) => {
                within.push(&rest[from..at]);
                from = at + 1;
            }
            ('}', 0) => {
                within.push(&rest[from..at]);
                return Some((before, within, &rest[at + 1..]));
            }
            ('}', _) => depth -= 1,
            _ => {}
        }
    }
    None
}

/// One component of a pattern after the other.
struct Walk {
    most: usize,
    left: usize,
    paths: Vec<PathBuf>,
}

impl Walk {
    fn is_over(&self) -> bool {
        self.left == 0 || self.paths.len() >= self.most
    }

    fn directory(&mut self, base: &Path, pattern: &str) {
        let (first, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
        if !is_pattern(first) {
            return self.entry(base.join(first), rest);
        }
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            if self.is_over() {
                return;
            }
            let name = entry.file_name();
            let is_meant = name.to_str().is_some_and(|name| {
                let is_hidden = name.starts_with('.') && !first.starts_with('.');
                !is_hidden && matches(first, name)
            });
            match is_meant {
                true => self.entry(entry.path(), rest),
                false => self.left -= 1,
            }
        }
    }

    fn entry(&mut self, path: PathBuf, rest: &str) {
        if self.is_over() {
            return;
        }
        self.left -= 1;
        match rest.is_empty() {
            true => self.paths.extend(path.symlink_metadata().is_ok().then_some(path)),
            false => self.directory(&path, rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path, names: impl Iterator<Item = String>) {
        names.for_each(|name| fs::write(directory.join(name), "").expect("a file"));
    }

    #[test]
    fn what_lies_behind_thousands_of_entries_is_found() {
        let directory = crate::base::scratch::Scratch::new("path-globs");
        files(&directory.0, (0..5000).map(|number| format!("other-{number}")));
        files(&directory.0, (0..5).map(|number| format!("meant-{number}")));
        let pattern = format!("{}/meant-[0-3]", directory.0.display());
        let found = glob_paths(&pattern, 100);
        let names = ["meant-0", "meant-1", "meant-2", "meant-3"];
        assert_eq!(found.paths, names.map(|name| directory.0.join(name)));
        assert!(!found.is_cut);
        assert_eq!(glob_paths(&pattern, 1).paths.len(), 1);
        let none = glob_paths(&format!("{}/n*", directory.0.display()), 1);
        assert_eq!(none, GlobMatches { paths: Vec::new(), is_cut: false });
    }

    #[test]
    fn a_lookup_ends_at_its_bound_and_says_so() {
        let directory = crate::base::scratch::Scratch::new("path-globs-bound");
        for parent in ["a", "b", ".c"] {
            let parent = directory.0.join(parent);
            fs::create_dir(&parent).expect("a directory");
            files(&parent, (0..20).map(|number| number.to_string()));
        }
        let look = |pattern, steps| look_up(&directory.0, &[pattern], 1000, steps);
        assert_eq!(look("*/x", 100), GlobMatches { paths: Vec::new(), is_cut: false });
        assert!(look("*/x*", 30).is_cut);
        let found = look("*/1*", 100);
        assert_eq!((found.paths.len(), found.is_cut), (22, false));
        assert_eq!(look(".*/1", 100).paths, [directory.0.join(".c/1")]);
    }

    #[test]
    fn braces_have_alternatives() {
        let of = |pattern| {
            let mut found = alternatives(pattern).unwrap_or_default();
            found.sort();
            found.join(" ")
        };
        assert_eq!(of("/a"), "/a");
        assert_eq!(of("/{a,b}/c"), "/a/c /b/c");
        assert_eq!(of("/{a,b{1,2},}c{x}"), "/acx /b1cx /b2cx /cx");
        assert_eq!(of("/a{}b"), "/ab");
        assert_eq!([of("/{a,b"), of("/a}")], ["/{a,b", "/a}"]);
        assert_eq!(alternatives(&"{a,b}".repeat(11)), None);
        let found = braced_paths("/{nonexistent,etc/{nonexistent,pass*}}", 9).paths;
        assert!(found.contains(&PathBuf::from("/etc/passwd")), "{found:?}");
    }
}
