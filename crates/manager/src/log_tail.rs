//! The last lines of a unit: from the memory of the log daemon, or from the unit's file while there
//! is no daemon. For the threads that answer clients: the loop never waits for another process.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// Lines that are given.
const LINES: usize = 10;

/// Bytes at the end of a file that are looked at for them.
const FILE_TAIL_BYTES: u64 = 16 << 10;

/// Largest answer of the daemon, bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// How long the daemon may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The last lines of a unit, oldest first, without what a terminal would act on; none when there are
/// none or nobody tells.
pub fn last_lines(socket: &Path, log_dir: &Path, unit: &str) -> Vec<String> {
    match ask(socket, unit) {
        Some(lines) if !lines.is_empty() => lines,
        _ => of_file(&log_dir.join(format!("{unit}.log"))).unwrap_or_default(),
    }
}

fn ask(socket: &Path, unit: &str) -> Option<Vec<String>> {
    let stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let question = json!({"method": "io.warrener.Journal.Tail", "parameters": {"unit": unit}});
    (&stream).write_all(format!("{question}\0").as_bytes()).ok()?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_until(0, &mut answer).ok()?;
    let answer: Value = serde_json::from_slice(answer.strip_suffix(b"\0")?).ok()?;
    let lines = answer["parameters"]["lines"].as_array()?;
    Some(lines.iter().filter_map(|line| Some(line.as_str()?.to_owned())).collect())
}

fn of_file(path: &Path) -> std::io::Result<Vec<String>> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(FILE_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(FILE_TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let last = &lines[lines.len().saturating_sub(LINES)..];
    // The daemon's are clean.
    Ok(last.iter().map(|line| line.chars().map(plain).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn last_lines_of_a_file_have_nothing_that_a_terminal_acts_on() {
        let scratch = Scratch::new("log-tail");
        let path = scratch.0.join("a.service.log");
        std::fs::write(&path, "one\n\x1b[2Jtwo\x07\n").expect("it is written");
        assert_eq!(of_file(&path).expect("it is there"), ["one", " [2Jtwo "]);
    }
}
