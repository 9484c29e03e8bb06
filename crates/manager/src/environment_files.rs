//! Files of EnvironmentFile= (systemd.exec(5)), whose paths may be patterns of glob(7).

use std::path::{Path, PathBuf};

use crate::conditions::glob;
use crate::spawn::SpawnError;

/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Files that one pattern may mean.
const FILES_MAX: usize = 1024;

/// The variables of one assignment, in the order of the files' names.
pub fn read(pattern: &str, optional: bool) -> Result<Vec<(String, String)>, SpawnError> {
    let mut out = Vec::new();
    let files = match pattern.contains(['*', '?', '[']) {
        false => vec![PathBuf::from(pattern)],
        true => matches(pattern),
    };
    if files.is_empty() && !optional {
        return Err(format!("EnvironmentFile={pattern}: no such file"));
    }
    for file in files {
        match read_one(&file) {
            Ok(text) => out.extend(warren_unit::value::environment_file(&text)),
            Err(_) if optional => {}
            Err(error) => return Err(error),
        }
    }
    Ok(out)
}

fn read_one(path: &Path) -> Result<String, SpawnError> {
    let error = |e: std::io::Error| format!("EnvironmentFile={}: {e}", path.display());
    let size = std::fs::metadata(path).map_err(error)?.len();
    if size > BYTES_MAX {
        return Err(format!("EnvironmentFile={}: larger than 1 MiB", path.display()));
    }
    std::fs::read(path).map_err(error).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What is there, sorted by name; names that begin with a dot only where the pattern has it, too.
fn matches(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next: Vec<PathBuf> = found.iter().flat_map(|base| matches_in(base, part)).collect();
        next.sort();
        next.truncate(FILES_MAX);
        found = next;
    }
    found
}

fn matches_in(base: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains(['*', '?', '[']) {
        let path = base.join(part);
        return path.exists().then_some(path).into_iter().collect();
    }
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_meant = |name: &String| part.starts_with('.') == name.starts_with('.');
    names.filter(|name| is_meant(name) && glob(part, name)).map(|name| base.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_all_files_in_order_of_their_names() {
        let directory = crate::scratch::Scratch::new("environment-files");
        for (name, text) in [("b.env", "A=b\nB=1\n"), ("a.env", "A=a\n"), (".c.env", "C=1")] {
            std::fs::write(directory.0.join(name), text).expect("a file");
        }
        let read = |pattern: &str, optional| {
            let path = directory.0.join(pattern);
            let read = read(path.to_str().expect("text"), optional);
            read.map(|all| {
                all.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(" ")
            })
        };
        assert_eq!(read("*.env", false).as_deref(), Ok("A=a A=b B=1"));
        assert_eq!(read("[b].e?v", false).as_deref(), Ok("A=b B=1"));
        assert_eq!(read("a.env", false).as_deref(), Ok("A=a"));
        assert_eq!(read("z*", true).as_deref(), Ok(""));
        assert_eq!(read("z", true).as_deref(), Ok(""));
        assert!(read("z*", false).is_err_and(|e| e.ends_with("z*: no such file")));
        assert!(read("z", false).is_err());
    }
}
