//! Asking the log daemon that runs, over its control socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::args::Args;
use crate::failure::Failure;
use warren_log_store::places::{CONTROL_SOCKET, socket_directory};

/// Largest answer, bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// How long the daemon may take for what needs no disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// Has the daemons of what is read write what they hold in memory, if they are there and we may ask
/// them: what was logged before is then in the files.
pub fn write(args: &Args) {
    for namespace in args.namespaces() {
        // Without, the newest quarter of a second may be missing.
        let _ = call(args, namespace.as_deref(), "Write", json!({}), Some(PATIENCE));
    }
}

/// Has the daemon do all that the options name, one after the other, and waits until it is done; false when they
/// name nothing. What is moved to the disk is closed there, and what is closed is sealed if old files are to be
/// removed then: logs are not.
pub fn order(args: &Args) -> Result<bool, Failure> {
    let leaves = args.relinquish_var || args.smart_relinquish_var;
    let orders = [
        (args.flush, "FlushToVar", json!({})),
        (leaves, "RelinquishVar", json!({"smart": !args.relinquish_var})),
        (args.rotate, "Rotate", json!({"sealed": args.vacuums()})),
        (args.sync, "Synchronize", json!({})),
    ];
    let asked = orders.into_iter().filter(|(is_asked, ..)| *is_asked);
    asked
        .map(|(_, method, parameters)| ask(args, method, parameters))
        .try_fold(false, |_, done| done.map(|()| true))
}

fn ask(args: &Args, method: &str, parameters: Value) -> Result<(), Failure> {
    let namespace = args.one_namespace();
    let failed = |text: String| Failure(format!("Failed to ask the log daemon: {text}"));
    let answer = call(args, namespace.as_deref(), method, parameters, None)
        .map_err(|e| failed(e.to_string()))?;
    match answer["error"].as_str() {
        None => Ok(()),
        Some(name) => Err(failed(answer["parameters"]["message"].as_str().unwrap_or(name).into())),
    }
}

fn call(
    args: &Args,
    namespace: Option<&str>,
    method: &str,
    parameters: Value,
    patience: Option<Duration>,
) -> std::io::Result<Value> {
    let directory = args.root().join(socket_directory(namespace));
    let stream = UnixStream::connect(directory.join(CONTROL_SOCKET))?;
    stream.set_read_timeout(patience)?;
    let question =
        json!({"method": format!("io.warrener.Journal.{method}"), "parameters": parameters});
    (&stream).write_all(format!("{question}\0").as_bytes())?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_until(0, &mut answer)?;
    let answer = answer.strip_suffix(b"\0").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok(serde_json::from_slice(answer)?)
}
