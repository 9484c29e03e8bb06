//! The control socket: what `warren` talks to. Messages are JSON objects, each ended by a NUL byte
//! (the framing of varlink): `{"method": ..., "parameters": {...}}` in, `{"parameters": {...}}` or
//! `{"error": ..., "parameters": {...}}` out.
//!
//! Reading is open to all who can connect; what changes something is for root and the manager's
//! own user. Readers are answered from the published view by threads of this room, never by the
//! loop.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use warren_core::request::Asker;

use crate::control_calls;
use crate::inhibit::{self, Held};
use crate::say;
use crate::shared::Shared;

/// Connections served at the same time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// Largest request, in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Listens at `path` and serves in threads of its own.
pub fn start(path: &Path, shared: Arc<Shared>) -> std::io::Result<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(path, mode)?;
    std::thread::Builder::new().name("control".into()).spawn(move || accept(&listener, &shared))?;
    Ok(())
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            let _ = reply(&stream, &error("io.warrener.Busy", "too many connections"));
            continue;
        }
        let (shared, count) = (shared.clone(), open.clone());
        let serve = move || {
            serve(stream, &shared);
            count.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(e) = std::thread::Builder::new().name("client".into()).spawn(serve) {
            open.fetch_sub(1, Ordering::Relaxed);
            say!("a client of the control socket is turned away: {e}");
        }
    }
}

fn serve(stream: UnixStream, shared: &Arc<Shared>) {
    let Ok(peer) = warren_sys::credentials::peer(stream.as_fd()) else { return };
    let asker = Asker::client(peer.uid, peer.pid);
    let mut reader = BufReader::new(&stream);
    // Gone with the connection.
    let mut held = Vec::new();
    loop {
        let mut request = Vec::new();
        let read = reader.by_ref().take(REQUEST_BYTES_MAX).read_until(0, &mut request);
        // The end, or something that never ends.
        if !matches!(read, Ok(n) if n > 0) || request.pop() != Some(0) {
            return;
        }
        let answer = match serde_json::from_slice::<Value>(&request) {
            Ok(request) => answer(&request, asker, shared, &mut held),
            Err(e) => error("io.warrener.Malformed", &e.to_string()),
        };
        if reply(&stream, &answer).is_err() {
            return;
        }
    }
}

fn reply(mut stream: &UnixStream, answer: &Value) -> std::io::Result<()> {
    let mut bytes = answer.to_string().into_bytes();
    bytes.push(0);
    stream.write_all(&bytes)
}

fn error(name: &str, message: &str) -> Value {
    serde_json::json!({"error": name, "parameters": {"message": message}})
}

fn answer(request: &Value, asker: Asker, shared: &Arc<Shared>, held: &mut Vec<Held>) -> Value {
    let method = request["method"].as_str().unwrap_or_default();
    let Some(name) = method.strip_prefix("io.warrener.Manager.") else {
        return error("org.varlink.service.MethodNotFound", method);
    };
    let inhibits = name == "Inhibit";
    let call = control_calls::CALLS.iter().find(|call| call.name == name);
    let own = warren_sys::process::own_ids().0;
    if (inhibits || call.is_some_and(|call| call.changes)) && asker.uid != 0 && asker.uid != own {
        return error(
            "io.warrener.AccessDenied",
            "only root and the manager's own user may do this",
        );
    }
    if inhibits {
        return inhibit(&request["parameters"], asker, shared, held);
    }
    let Some(call) = call else {
        return error("org.varlink.service.MethodNotFound", method);
    };
    match (call.serve)(&request["parameters"], asker, shared) {
        Ok(parameters) => serde_json::json!({"parameters": parameters}),
        Err((name, message)) => error(name, &message),
    }
}

/// The one method that leaves something with its connection.
fn inhibit(parameters: &Value, asker: Asker, shared: &Arc<Shared>, held: &mut Vec<Held>) -> Value {
    match inhibit::take(parameters, asker, shared) {
        Ok(lock) => {
            held.push(lock);
            serde_json::json!({"parameters": {}})
        }
        Err(why) => error("io.warrener.Refused", &why),
    }
}
