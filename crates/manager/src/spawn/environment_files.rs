//! Files of EnvironmentFile= (systemd.exec(5)), whose paths may be patterns of glob(7). They are read beside
//! the loop: the way to one may lead past a server that does not answer.

use crate::base::path_globs::{STEPS_MAX, glob_paths, is_pattern};
use crate::base::patience::Patient;
use crate::base::worker_pool::Piece;
use crate::spawn::request::SpawnError;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::Spawn;
use warren_sys::error::io_text;
use warren_unit::config::EnvironmentFile;

/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Files that one pattern may mean.
const FILES_MAX: usize = 1024;

/// The files of a command are read within this time, or it fails.
pub(crate) const READ_WITHIN: Duration = Duration::from_secs(10);

/// Of open(2): O_NONBLOCK, and O_NOCTTY.
const OPEN_FLAGS: i32 = 0o4000 | 0o400;

/// Names and values, in the order of the files.
pub type Variables = Vec<(String, String)>;

pub(crate) type Found = Arc<OnceLock<Result<Variables, SpawnError>>>;

/// A command that waits for its files.
pub(crate) struct Waiting {
    pub(crate) spawn: Box<Spawn>,
    pub(crate) since: Instant,
    pub(crate) found: Found,
}

/// Commands whose files are being read.
#[derive(Default)]
pub struct Reads {
    pub(crate) waiting: BTreeMap<EffectId, Waiting>,
    /// The same by their units.
    pub(crate) of_units: BTreeSet<(UnitId, EffectId)>,
    /// For the workers at the end of the turn.
    pub(crate) to_do: VecDeque<Piece>,
}

impl Reads {
    pub(crate) fn take(&mut self, id: EffectId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        self.of_units.remove(&(waiting.spawn.unit, id));
        Some(waiting)
    }

    /// Those of a unit.
    pub(crate) fn of(&self, unit: UnitId) -> Vec<EffectId> {
        let all = (unit, EffectId(0))..=(unit, EffectId(u64::MAX));
        self.of_units.range(all).map(|(_, id)| *id).collect()
    }
}

impl Patient for Reads {
    // How long nothing is to be done about files that do not come, if some may not. Who asked first has the
    // least id.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        let (_, first) = self.waiting.first_key_value()?;
        Some((first.since + READ_WITHIN).saturating_duration_since(now))
    }
}

pub(crate) fn read_all(files: &[EnvironmentFile]) -> Result<Variables, SpawnError> {
    let mut all = Vec::new();
    for file in files {
        all.append(&mut read(&file.path, file.optional)?);
    }
    Ok(all)
}

/// The files of a pattern; all or none.
fn meant(pattern: &str, most: usize) -> Result<Vec<PathBuf>, SpawnError> {
    let found = glob_paths(pattern, most + 1);
    match (found.is_cut, found.paths.len() > most) {
        (true, _) => {
            Err(format!("EnvironmentFile={pattern}: more than {STEPS_MAX} files to look at"))
        }
        (_, true) => Err(format!("EnvironmentFile={pattern}: more than {most} files")),
        (false, false) => Ok(found.paths),
    }
}

/// The variables of one assignment, in the order of the files' names.
pub(crate) fn read(pattern: &str, optional: bool) -> Result<Variables, SpawnError> {
    let mut out = Vec::new();
    let files = match is_pattern(pattern) {
        false => vec![PathBuf::from(pattern)],
        true => meant(pattern, FILES_MAX)?,
    };
    if files.is_empty() && !optional {
        return Err(format!("EnvironmentFile={pattern}: no such file"));
    }
    for file in files {
        match read_one(&file) {
            Ok(variables) => out.extend(variables),
            Err(_) if optional => {}
            Err(error) => return Err(error),
        }
    }
    Ok(out)
}

/// What is there to be read now: nobody waits for somebody to write to a FIFO.
fn read_one(path: &Path) -> Result<Variables, SpawnError> {
    let error = |e: std::io::Error| format!("EnvironmentFile={}: {}", path.display(), io_text(&e));
    let wrong = |what| Err(format!("EnvironmentFile={}: {what}", path.display()));
    let file = std::fs::File::options().read(true).custom_flags(OPEN_FLAGS).open(path);
    let mut bytes = Vec::new();
    file.map_err(error)?.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(error)?;
    if bytes.len() as u64 > BYTES_MAX {
        return wrong("larger than 1 MiB");
    }
    if bytes.contains(&0) {
        return wrong("it contains a zero byte");
    }
    let text = String::from_utf8_lossy(&bytes);
    let variables = warren_unit::value::environment_file(&text);
    // In a comment anything may stand.
    let is_damaged = matches!(text, Cow::Owned(_));
    let has_damage = |text: &str| text.contains(char::REPLACEMENT_CHARACTER);
    match is_damaged && variables.iter().any(|(_, value)| has_damage(value)) {
        true => wrong("a value is not UTF-8"),
        false => Ok(variables),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_told_in_the_kernels_words() {
        let told = read_one(Path::new("/nonexistent/a.env"));
        let expected = "EnvironmentFile=/nonexistent/a.env: No such file or directory";
        assert_eq!(told, Err(expected.to_owned()));
    }

    /// As systemd 252: it is no file at all, also where it may be missing.
    #[test]
    fn a_file_of_what_no_variable_can_be_is_refused() {
        let directory = crate::base::scratch::Scratch::new("environment-bytes");
        let check = |bytes: &[u8], want: Result<&str, &str>| {
            let path = directory.0.join("a.env");
            std::fs::write(&path, bytes).expect("a file");
            let path = path.to_str().expect("text");
            let shown = read(path, false).map(|all| {
                all.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(" ")
            });
            let want = want.map(str::to_owned);
            assert_eq!(shown, want.map_err(|what| format!("EnvironmentFile={path}: {what}")));
            assert_eq!(read(path, true).map(|all| all.is_empty()), Ok(shown.is_err()));
        };
        check(b"A=1\nB=bad\xff\n", Err("a value is not UTF-8"));
        check(b"A=1\nB=\0\n", Err("it contains a zero byte"));
        check(b"#\0\nB=1\n", Err("it contains a zero byte"));
        check(b"#\xff\nA=\xc3\xa4\nx\xff", Ok("A=\u{e4}"));
        check("A=\u{fffd}".as_bytes(), Ok("A=\u{fffd}"));
    }

    #[test]
    fn patterns_mean_all_files_in_order_of_their_names() {
        let directory = crate::base::scratch::Scratch::new("environment-files");
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
        let all = directory.0.join("*.env");
        let all = all.to_str().expect("text");
        assert_eq!(meant(all, 2).map(|files| files.len()), Ok(2));
        assert!(meant(all, 1).is_err_and(|error| error.ends_with("more than 1 files")));
        assert_eq!(read("[b].e?v", false).as_deref(), Ok("A=b B=1"));
        assert_eq!(read("a.env", false).as_deref(), Ok("A=a"));
        assert_eq!(read("z*", true).as_deref(), Ok(""));
        assert_eq!(read("z", true).as_deref(), Ok(""));
        assert!(read("z*", false).is_err_and(|e| e.ends_with("z*: no such file")));
        assert!(read("z", false).is_err());
    }
}
