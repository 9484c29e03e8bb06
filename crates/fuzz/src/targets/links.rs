//! Messages between the programs, and requests of clients.

use warren_init::protocol::control::{InitMessage, InitRequest};
use warren_init::protocol::exec::{FromHelper, SpawnRequest, Sync, Synced};
use warren_init::protocol::session::{Continuation, Report};
use warren_init::protocol::{WireError, decode};
use warren_wire::call::Received;
use warren_wire::control::{Method, Reply, Request};
use warren_wire::frame::{Inbox, Pushed};
use warren_wire::{device_link, log, log_link};

/// Longest message here, in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Reads bytes as a stream of requests to the manager, and to the log daemon.
///
/// # Panics
/// If a stream that comes byte by byte has other messages.
pub fn control(data: &[u8]) {
    let whole = messages(data, data.len());
    assert_eq!(whole, messages(data, 1), "pieces change nothing");
    for message in whole {
        let _ = log::Question::read(&message);
        let Ok(received) = Received::read(&message) else { continue };
        // A request of this method, and of some others with the same parameters.
        let named = Method::from_full_name(&received.method);
        let others = Method::ALL.iter().copied().filter(|_| named.is_none());
        for method in named.into_iter().chain(others) {
            let Ok(request) = Request::read(method, received.parameters.clone()) else { continue };
            assert!(!format!("{request:?}").is_empty());
        }
    }
}

/// Messages up to one that is too long, and what comes of it.
fn messages(data: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let (mut inbox, mut all) = (Inbox::new(MESSAGE_BYTES_MAX), Vec::new());
    for mut part in data.chunks(piece.max(1)) {
        while !part.is_empty() {
            match inbox.push(part) {
                Pushed::Part => break,
                Pushed::Whole(message, taken) => {
                    all.push(message);
                    part = &part[taken..];
                }
                Pushed::TooLong => return all,
            }
        }
    }
    all
}

/// Reads bytes as an answer to `warren`.
pub fn answer(data: &[u8]) {
    let _ = Reply::<serde_json::Value>::read(data).is_ok();
    let _ = Reply::<warren_wire::control::WhyAnswer>::read(data).is_ok();
    let _ = log::Answer::read(data).is_ok();
}

/// Reads bytes as packets of all kinds between manager, helpers, init and sessions.
pub fn packets(data: &[u8]) {
    let _ = (Sync::parse(data), Synced::parse(data), FromHelper::parse(data).is_ok());
    let _ = SpawnRequest::id_of(data);
    let found: [Result<(), WireError>; 5] = [
        decode::<SpawnRequest>(data).map(drop),
        decode::<InitRequest<'_>>(data).map(drop),
        decode::<InitMessage<'_>>(data).map(drop),
        decode::<Continuation>(data).map(drop),
        decode::<Report>(data).map(drop),
    ];
    let whole = found.iter().any(Result::is_ok);
    assert!(!(whole && data.is_empty()), "an empty packet is none");
    let _ = log_link::DaemonWord::read(data);
}

/// Reads bytes as a message of the device daemon.
///
/// # Panics
/// If it means more than it has lines.
pub fn device(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let message = device_link::read(&text);
    let batch = &message.batch;
    let count = batch.devices.len() + batch.groups.len() + batch.gone.len();
    assert!(count <= text.lines().count());
}
