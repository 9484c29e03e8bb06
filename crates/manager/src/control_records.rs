//! Recordings for clients of the control socket.
//!
//! One of a boot of 28,000 units is 12 MB, and takes some times that while it is made and sent: of those who
//! have no privileges one is served at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use serde_json::{Value, json};
use warren_core::time::Monotonic;

use crate::control::Caller;
use crate::control_calls::{Answered, refused};
use crate::orders::{Order, Stretch};
use crate::recorder::PIECE_EVENTS_MAX;
use crate::records::{Kept, Material};
use crate::shared::Shared;

/// Whose turn it is, of those without privileges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<AtomicBool>);

/// That one has his turn; it ends with the value.
#[derive(Debug)]
pub(crate) struct Turn(Arc<AtomicBool>);

impl Turns {
    /// Takes the turn, unless somebody has it.
    pub fn take(&self) -> Option<Turn> {
        let was_taken = self.0.swap(true, Ordering::SeqCst);
        (!was_taken).then(|| Turn(self.0.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Recordings that are kept, the oldest first.
pub(crate) fn records(_: &Value, _: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let row = |kept: Kept| {
        let (subject, began_us) = (kept.subject.text(), kept.realtime_us);
        json!({"name": kept.name, "subject": subject, "began_us": began_us, "bytes": kept.bytes})
    };
    let rows: Vec<Value> = shared.records.list().into_iter().map(row).collect();
    Ok(json!({"records": rows, "trouble": shared.records.trouble()}))
}

/// A recording's bytes in base64: one that is kept, by `name`, or what happened in the time from
/// `since_us` to `until_us` (both monotonic; without them, everything that is still there).
pub(crate) fn record(parameters: &Value, _: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let bytes = match parameters["name"].as_str() {
        Some(name) => shared
            .records
            .read(name)
            .map_err(|e| refused(format!("the recording {name} cannot be read: {e}")))?,
        None => {
            let from = Monotonic(parameters["since_us"].as_u64().unwrap_or(0));
            let until = Monotonic(parameters["until_us"].as_u64().unwrap_or(u64::MAX));
            let material = material(shared, from, until);
            let material = material.ok_or_else(|| refused("the manager was restarted"))?;
            warren_trace::record::write(&crate::records::recording(material))
        }
    };
    Ok(json!({"data": warren_trace::base64::encode(&bytes)}))
}

/// What happened between two moments, taken from the loop piece by piece; nothing if the manager ends.
fn material(shared: &Shared, from: Monotonic, until: Monotonic) -> Option<Material> {
    let (reply, stretch) = channel();
    shared.order(Order::Stretch { from, until, reply });
    let Stretch { head, numbers, graph } = stretch.recv().ok()?;
    let mut events = Vec::new();
    for first in numbers.clone().step_by(PIECE_EVENTS_MAX) {
        let (reply, piece) = channel();
        shared.order(Order::Cut { numbers: first..numbers.end, reply });
        events.append(&mut piece.recv().ok()?);
    }
    Some(Material { head, events, graph })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_the_turn() {
        let turns = Turns::default();
        let first = turns.take().expect("nobody has it");
        assert!(turns.take().is_none());
        drop(first);
        assert!(turns.take().is_some());
    }
}
