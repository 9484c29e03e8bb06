//! What a fuzzer calls: what reads bytes of processes, of files and of the manager before, with what must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_manager::fuzz::notify(data));` is a whole target.

use serde_json::{Map, Value};
use warren_unit::UnitName;

use crate::config::{fstab, generation_file};
use crate::control::varlink;
use crate::mount::utab;
use crate::process::notify_socket;
use crate::process::stored_fds::{self, Stored};

/// Reads bytes as a message of sd_notify(3), and as the name of a descriptor that init keeps.
///
/// # Panics
/// If a descriptor's name is none, or process 1 becomes a service's main process.
pub fn notify(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let said = notify_socket::parse(1, 0, &text, None);
    assert!(said.store.is_none(), "no descriptor came with it");
    assert!(said.message.main_pid.is_none_or(|pid| pid > 1));
    assert!(said.unstore.is_none_or(|name| notify_socket::is_fd_name(&name)));
    let _ = (Stored::parse(&text), stored_fds::parse_stored_name(&text));
    let _ = crate::socket::accept::parse_stored_name(&text);
    let _ = crate::socket::sockets::parse_stored_name(&text);
}

/// Reads bytes as a call of varlink, and as the context of a unit that is to be made.
///
/// # Panics
/// If a value becomes a line of its own in the unit's file.
pub fn varlink(data: &[u8]) {
    let Some(call) = varlink::parse(data) else { return };
    let _ = call.check();
    let context = call.parameters.get("context").and_then(Value::as_object);
    let Some(Ok((_, text))) = context.map(varlink::read_transient) else { return };
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '['])) {
        let (setting, _) = line.split_once('=').expect("a line is a setting");
        let written = context.is_some_and(|context| is_said(context, setting));
        assert!(written, "{setting} in {text}");
    }
}

/// Whether a context has a field that writes this setting.
fn is_said(context: &Map<String, Value>, setting: &str) -> bool {
    let part = |name: &str| context.get(name).and_then(Value::as_object);
    let parts = [Some(context), part("Service"), part("Exec")];
    let mut fields = parts.into_iter().flatten().flat_map(Map::keys);
    fields.any(|field| field.trim_end_matches("Path") == setting || field == setting)
}

/// Holds an answer against the description of its interface, for tests.
///
/// # Errors
/// The path of what is not as described, or that there is no such interface.
pub fn varlink_answer(interface: &str, method: &str, answer: &Value) -> Result<(), String> {
    let described = varlink::find_interface(interface).ok_or_else(|| interface.to_owned())?;
    let answer = answer.as_object().ok_or_else(|| "no object".to_owned())?;
    described.check_reply(method, answer)
}

/// Reads bytes as a generation file, and as its pieces, two bytes of length before each.
///
/// # Panics
/// If it is read beyond its end.
pub fn generation(data: &[u8]) {
    let names = ["a.service", "b.socket", "c.slice"];
    let names: Vec<_> = names.iter().map(|name| UnitName::parse(name).ok()).collect();
    let header = generation_file::own_header();
    let frames = generation_file::frames(pieces(data));
    for body in [data, &frames] {
        let bytes = [&header[..], body].concat();
        let found = generation_file::read_bytes(&bytes, names.clone(), 1);
        assert!(found.is_none_or(|(_, end)| end as usize <= bytes.len()));
    }
}

/// So many bytes each as the two before them say.
fn pieces(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first_chunk::<2>()?;
        let (piece, after) =
            rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
        data = after;
        Some(piece)
    })
}

/// Reads bytes as fstab(5) and as the table of mount(8).
pub fn tables(data: &[u8]) {
    let host = fstab::Host { has_checker: &|_| true, place_of: &str::to_owned, swaps: true };
    let _ = fstab::units(data, &host).complaints.len();
    let bound = utab::parse(&String::from_utf8_lossy(data));
    assert!(bound.len() <= data.len());
}
