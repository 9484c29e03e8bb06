//! Asking the log daemon that runs; [`crate::daemon`]'s control socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::show::run::Failure;

/// Where it is, below the root.
const SOCKET: &str = "run/systemd/journal/io.warrener.journal";

/// Largest answer, bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// How long the daemon may take for what needs no disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// Has a daemon write what it holds in memory, if there is one that we may ask: what was logged
/// before is then in the files.
pub fn write(root: &Path) {
    // Without, the newest quarter of a second may be missing.
    let _ = call(root, "Write", json!({}), Some(PATIENCE));
}

/// Has the daemon do something, and waits until it is done.
pub fn order(root: &Path, method: &str) -> Result<(), Failure> {
    ask(root, method, json!({}))
}

/// Has the daemon write to memory until the next flush; `smart`: unless its disk stays mounted.
pub fn relinquish(root: &Path, smart: bool) -> Result<(), Failure> {
    ask(root, "RelinquishVar", json!({"smart": smart}))
}

fn ask(root: &Path, method: &str, parameters: Value) -> Result<(), Failure> {
    let failed = |text: String| Failure(format!("Failed to ask the log daemon: {text}"));
    let answer = call(root, method, parameters, None).map_err(|e| failed(e.to_string()))?;
    match answer["error"].as_str() {
        None => Ok(()),
        Some(name) => Err(failed(answer["parameters"]["message"].as_str().unwrap_or(name).into())),
    }
}

fn call(
    root: &Path,
    method: &str,
    parameters: Value,
    patience: Option<Duration>,
) -> std::io::Result<Value> {
    let stream = UnixStream::connect(root.join(SOCKET))?;
    stream.set_read_timeout(patience)?;
    let question =
        json!({"method": format!("io.warrener.Journal.{method}"), "parameters": parameters});
    (&stream).write_all(format!("{question}\0").as_bytes())?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_until(0, &mut answer)?;
    let answer = answer.strip_suffix(b"\0").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok(serde_json::from_slice(answer)?)
}
