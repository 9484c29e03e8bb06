//! Generators of the manager's environment (systemd.environment-generator(7)): programs that run one after
//! the other before all others, each with what those before it printed, in the form of files of
//! `EnvironmentFile=`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use warren_unit::value::environment_file;

use crate::base::environment::{ENVIRONMENT_BYTES_MAX, Variables};
use crate::base::say::say;
use crate::config::generators::{Running, TAKES_MAX, Wants, is_want, wait_for};

/// What they made, in the run-time directory: each `NAME=value` with a null byte after it.
pub(super) const FILE: &str = "generator.environment";

/// Runs those of these directories within the bound for all; scratch files go to `scratch`. What one that
/// fails or has to be killed has printed counts, as with systemd.
pub(super) fn run(
    search: &[PathBuf],
    begin: &Variables,
    scratch: &Path,
    wants: &mut Wants,
) -> Variables {
    let end = Instant::now() + TAKES_MAX;
    let (mut made, output) = (Variables::new(), scratch.join("output"));
    for path in crate::base::programs::find(search).into_values().flatten() {
        if end.saturating_duration_since(Instant::now()).is_zero() {
            say!("generator {}: skipped, the time for generators is over", path.display());
            continue;
        }
        let printed = File::create(&output).and_then(|file| {
            let mut command = Command::new(&path);
            command.envs(begin.iter().chain(&made).map(|(name, value)| (&**name, &**value)));
            command.current_dir("/").stdin(Stdio::null()).stdout(file);
            wait_for(vec![Running { path: path.clone(), child: command.spawn()? }], end);
            read(&output)
        });
        match printed {
            Ok(text) => merge(&mut made, &text, &path),
            Err(e) if is_want(&e) => wants.tell(format!("generator {}: {e}", path.display())),
            Err(e) => say!("generator {}: {e}", path.display()),
        }
    }
    made
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(ENVIRONMENT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > ENVIRONMENT_BYTES_MAX {
        return Err(io::Error::other(format!(
            "it printed more than {ENVIRONMENT_BYTES_MAX} bytes"
        )));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("what it printed is not UTF-8"))
}

fn merge(made: &mut Variables, printed: &str, path: &Path) {
    let before = made.clone();
    let pairs = environment_file(printed).into_iter();
    made.extend(pairs.map(|(name, value)| (name.into_boxed_str(), value.into_boxed_str())));
    if crate::base::environment::bytes(made) > ENVIRONMENT_BYTES_MAX {
        say!("generator {}: the environment exceeds {ENVIRONMENT_BYTES_MAX} bytes", path.display());
        *made = before;
    }
}

/// Writes what they made below a directory.
pub(super) fn write(made: &Variables, directory: &Path) -> io::Result<()> {
    let text: String = made.iter().map(|(name, value)| format!("{name}={value}\0")).collect();
    fs::write(directory.join(FILE), text)
}

/// What was last put in place below the run-time directory. Nothing, where nothing ever was.
pub(super) fn last(runtime: &Path) -> Variables {
    let text = match fs::read_to_string(runtime.join(FILE)) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => {
            say!("cannot read the environment from the generators: {e}");
            String::new()
        }
    };
    let pairs = text.split_terminator('\0').filter_map(|one| one.split_once('='));
    pairs.map(|(name, value)| (name.into(), value.into())).collect()
}
