//! Paths that a pattern matches (glob(7), without `[...]`): `*` and `?` in any part of a path, never
//! a name that begins with a dot. What is found is sorted, so that files are read in one order.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Most paths that one pattern finds.
const FOUND_MAX: usize = 1 << 20;

/// How deep recursive includes go.
const DEPTH_MAX: usize = 32;

/// Whether a text has wildcards.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
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
                .filter(|(_, name)| name_fits(&text, name))
                .map(|(directory, name)| directory.join(name))
                .take(FOUND_MAX)
                .collect(),
            _ => found.into_iter().map(|directory| directory.join(part)).collect(),
        };
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}

/// The files below a directory whose names match a pattern.
pub(crate) fn below(directory: &Path, pattern: &str, listed: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    descend(directory, pattern, DEPTH_MAX, &mut found, listed);
    found
}

fn descend(
    directory: &Path,
    pattern: &str,
    depth: usize,
    found: &mut Vec<PathBuf>,
    listed: &mut Vec<PathBuf>,
) {
    for name in names(directory, listed) {
        let path = directory.join(&name);
        match fs::metadata(&path) {
            Ok(m) if m.is_dir() && depth > 0 => {
                descend(&path, pattern, depth - 1, found, listed);
            }
            Ok(m) if m.is_file() && name_fits(pattern, &name) && found.len() < FOUND_MAX => {
                found.push(path);
            }
            _ => {}
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

/// Whether a pattern matches a name.
pub(crate) fn name_fits(pattern: &str, name: &str) -> bool {
    !name.starts_with('.') && fits(pattern.as_bytes(), name.as_bytes())
}

/// Whether a pattern of a path matches it, part by part.
pub(crate) fn path_fits(pattern: &Path, path: &Path) -> bool {
    let text = |part: Component<'_>| part.as_os_str().to_string_lossy().into_owned();
    let part_fits = |(pattern, part): (Component<'_>, Component<'_>)| {
        pattern == part || name_fits(&text(pattern), &text(part))
    };
    pattern.components().count() == path.components().count()
        && pattern.components().zip(path.components()).all(part_fits)
}

fn fits(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // Where to go on when what follows a star does not fit.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern, text) {
            ([b'*', rest @ ..], _) => {
                retry = Some((rest, text));
                pattern = rest;
            }
            ([], []) => return true,
            ([p, rest @ ..], [t, others @ ..]) if *p == b'?' || p == t => {
                (pattern, text) = (rest, others);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        let check = |pattern, name, expected| {
            assert_eq!(name_fits(pattern, name), expected, "{pattern} {name}");
        };
        check("*.conf", "a.conf", true);
        check("*.conf", "a.conf~", false);
        check("*.conf", ".a.conf", false);
        check("*.conf", "A.CONF", false);
        check("c*1?.conf", "c11x.conf", true);
        check("c*1?.conf", "c1.conf", false);
        check("*a*b", "xaxxab", true);
        check("", "a", false);
    }
}
