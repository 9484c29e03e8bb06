//! Paths that an `include` finds, in the order in which the installed Icinga 2 reads them.
//!
//! A pattern of paths is one of glob(7): `*`, `?` and `[...]` in any part, and a name that begins with
//! a dot only where the pattern does. A pattern of names below a directory has `*` and `?` alone, for
//! letters of any case and for all names; files come before the directories beside them.

use std::cmp::Ordering;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Most paths that one pattern finds.
const FOUND_MAX: usize = 1 << 20;

/// How deep recursive includes go.
const DEPTH_MAX: usize = 32;

/// What of a directory is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    pub files: bool,
    pub directories: bool,
}

impl Selection {
    pub(crate) const FILES: Selection = Selection { files: true, directories: false };
}

/// Whether a text has wildcards.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The paths that a pattern matches, and the directories that were listed for it.
pub(crate) fn glob_paths(pattern: &Path, listed: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let text = part.as_os_str().to_string_lossy();
        found = match part {
            Component::Normal(_) if is_pattern(&text) => found
                .iter()
                .flat_map(|directory| {
                    names(directory, listed).into_iter().map(move |n| (directory, n))
                })
                .filter(|(_, name)| glob_fits(&text, name))
                .map(|(directory, name)| directory.join(name))
                .take(FOUND_MAX)
                .collect(),
            _ => found.into_iter().map(|directory| directory.join(part)).collect(),
        };
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}

/// The directory before the first part of a pattern that has wildcards.
pub(crate) fn fixed_part(pattern: &Path) -> PathBuf {
    let is_fixed = |part: &Component<'_>| !is_pattern(&part.as_os_str().to_string_lossy());
    pattern.components().take_while(is_fixed).collect()
}

/// What is below a directory and has a name that matches a pattern.
pub(crate) fn below(
    directory: &Path,
    pattern: &str,
    wanted: Selection,
    listed: &mut Vec<PathBuf>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    descend(directory, (pattern, wanted), DEPTH_MAX, &mut found, listed);
    found
}

fn descend(
    directory: &Path,
    (pattern, wanted): (&str, Selection),
    depth: usize,
    found: &mut Vec<PathBuf>,
    listed: &mut Vec<PathBuf>,
) {
    let mut directories = Vec::new();
    for name in names(directory, listed) {
        let path = directory.join(&name);
        match fs::metadata(&path) {
            Ok(m) if m.is_dir() => directories.push((path, name)),
            Ok(m) if m.is_file() && wanted.files && name_fits(pattern, &name) => found.push(path),
            _ => {}
        }
    }
    if wanted.directories {
        let fitting = directories.iter().filter(|(_, name)| name_fits(pattern, name));
        found.extend(fitting.map(|(path, _)| path.clone()));
    }
    for (path, _) in directories {
        if depth > 0 && found.len() < FOUND_MAX {
            descend(&path, (pattern, wanted), depth - 1, found, listed);
        }
    }
}

/// Which of two paths [`below`] finds first: a file before what is in directories beside it.
pub(crate) fn read_order(a: &Path, b: &Path) -> Ordering {
    let (mut a, mut b) = (a.components().peekable(), b.components().peekable());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x == y => {}
            (Some(x), Some(y)) => {
                let inside = a.peek().is_some().cmp(&b.peek().is_some());
                return inside.then_with(|| x.as_os_str().cmp(y.as_os_str()));
            }
        }
    }
}

/// The names in a directory, sorted; those that are not text cannot be written in a rule.
fn names(directory: &Path, listed: &mut Vec<PathBuf>) -> Vec<String> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    listed.push(directory.to_owned());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(FOUND_MAX);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Whether a pattern matches the name of a file below a directory.
pub(crate) fn name_fits(pattern: &str, name: &str) -> bool {
    let [pattern, name] = [pattern, name].map(str::to_ascii_lowercase);
    fits(pattern.as_bytes(), name.as_bytes(), false)
}

/// Whether a part of a pattern of paths matches a name.
fn glob_fits(pattern: &str, name: &str) -> bool {
    let is_hidden = name.starts_with('.') && !pattern.starts_with('.');
    !is_hidden && fits(pattern.as_bytes(), name.as_bytes(), true)
}

/// Whether a pattern of a path matches it, part by part.
pub(crate) fn path_fits(pattern: &Path, path: &Path) -> bool {
    let text = |part: Component<'_>| part.as_os_str().to_string_lossy().into_owned();
    let part_fits = |(pattern, part): (Component<'_>, Component<'_>)| {
        pattern == part || glob_fits(&text(pattern), &text(part))
    };
    pattern.components().count() == path.components().count()
        && pattern.components().zip(path.components()).all(part_fits)
}

/// Whether a pattern matches a whole text; `[...]` is a set of bytes if `sets`.
fn fits(mut pattern: &[u8], mut text: &[u8], sets: bool) -> bool {
    // Where to go on when what follows a star does not fit.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        let one = text.first().and_then(|byte| one_fits(pattern, *byte, sets));
        match (pattern, text, one) {
            ([b'*', rest @ ..], ..) => {
                retry = Some((rest, text));
                pattern = rest;
            }
            ([], [], _) => return true,
            (_, [_, others @ ..], Some(rest)) => (pattern, text) = (rest, others),
            _ => match retry {
                Some((rest, [_, others @ ..])) => {
                    retry = Some((rest, others));
                    (pattern, text) = (rest, others);
                }
                _ => return false,
            },
        }
    }
}

/// What of a pattern is left after it matched one byte.
fn one_fits(pattern: &[u8], byte: u8, sets: bool) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', set @ ..] if sets => match set_fits(set, byte) {
            Some((fits, rest)) => fits.then_some(rest),
            // A bracket that nothing closes is itself.
            None => (byte == b'[').then_some(set),
        },
        [b'\\', escaped, rest @ ..] if sets => (*escaped == byte).then_some(rest),
        [first, rest @ ..] => (*first == byte).then_some(rest),
        [] => None,
    }
}

/// Whether a byte is in the set that follows a `[`, and what follows its `]`.
fn set_fits(set: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match set {
        [b'!' | b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (mut found, mut is_first) = (false, true);
    loop {
        rest = match rest {
            [b']', after @ ..] if !is_first => return Some((found != negated, after)),
            [low, b'-', high, after @ ..] if *high != b']' => {
                found |= (*low..=*high).contains(&byte);
                after
            }
            [one, after @ ..] => {
                found |= *one == byte;
                after
            }
            [] => return None,
        };
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_testkit::Scratch;

    #[test]
    fn parts_of_paths_match_patterns() {
        let check = |pattern, name, expected| {
            assert_eq!(glob_fits(pattern, name), expected, "{pattern} {name}");
        };
        check("*.conf", "a.conf", true);
        check("*.conf", "a.conf~", false);
        check("*.conf", ".a.conf", false);
        check(".*.conf", ".a.conf", true);
        check("*.conf", "A.CONF", false);
        check("c*1?.conf", "c11x.conf", true);
        check("c*1?.conf", "c1.conf", false);
        check("*a*b", "xaxxab", true);
        check("", "a", false);
        check("[19]*.conf", "10.conf", true);
        check("[!a-z]*", "10.conf", true);
        check("[!a-z]*", "b.conf", false);
        check("[]x]", "]", true);
        check("[", "[", true);
        check("[a", "a", false);
        check("\\*", "*", true);
        check("\\*", "a", false);
    }

    #[test]
    fn names_match_patterns() {
        let check = |pattern, name, expected| {
            assert_eq!(name_fits(pattern, name), expected, "{pattern} {name}");
        };
        check("*.conf", ".a.conf", true);
        check("*.conf", "x.CONF", true);
        check("*a*", "A.conf", true);
        check("[19]*.conf", "10.conf", false);
        check("*.conf", "a.conf.bak", false);
    }

    #[test]
    fn files_come_before_the_directories_beside_them() {
        let scratch = Scratch::new("find-order");
        let all = [
            ".dot.conf",
            "10.conf",
            "9.conf",
            "A.conf",
            "b.conf",
            "x.CONF",
            ".hidden/h.conf",
            "B/y.conf",
            "a/x.conf",
            "dir.conf/in.conf",
            "z/a.conf",
            "z/deep/q.conf",
        ];
        for path in all.iter().rev().chain(&["note.txt", "x.conf.bak"]) {
            let path = scratch.path(path);
            fs::create_dir_all(path.parent().expect("it is below")).expect("a directory");
            fs::write(path, "").expect("a file");
        }
        std::os::unix::fs::symlink("nowhere", scratch.path("gone.conf")).expect("a link");
        let found = below(&scratch.0, "*.conf", Selection::FILES, &mut Vec::new());
        let expected: Vec<PathBuf> = all.iter().map(|path| scratch.path(path)).collect();
        assert_eq!(found, expected);
        let mut sorted = found.clone();
        sorted.sort();
        sorted.sort_by(|a, b| read_order(a, b));
        assert_eq!(sorted, expected);
        let both = Selection { files: true, directories: true };
        let found = below(&scratch.0, "*.conf", both, &mut Vec::new());
        assert_eq!(found[6], scratch.path("dir.conf"));
    }
}
