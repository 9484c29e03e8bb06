//! Files of EnvironmentFile= (systemd.exec(5)), whose paths may be patterns of glob(7).

use std::path::{Path, PathBuf};

use crate::conditions::glob_paths;
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
        true => glob_paths(pattern, FILES_MAX),
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
