//! Recordings for clients of the control socket.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::channel;

use warren_bus::backend::Backend;
use warren_core::model::time::Monotonic;
use warren_trace::event::{Event, What};
use warren_trace::words::Subject;
use warren_wire::control::{Record, RecordAnswer, RecordRow, RecordUnderWay, RecordsAnswer};

use crate::control::answer::{Answered, refused};
use crate::published::orders::{Order, Stretch};
use crate::published::shared::Shared;
use crate::recording::files::{KeptRecording, Material};
use crate::recording::jobs::JobsBefore;
use crate::recording::recorder::PIECE_EVENTS_MAX;

/// Recordings that are kept, the oldest first, and the boot or shutdown of which one goes on.
pub(crate) fn records(shared: &Arc<Shared>) -> RecordsAnswer {
    let row = |kept: KeptRecording| {
        let head = shared.records.head(&kept);
        RecordRow {
            began_us: head.map_or(kept.number, |head| head.anchor.realtime_us),
            subject: kept.subject.text().to_owned(),
            name: kept.name,
            bytes: kept.bytes,
        }
    };
    RecordsAnswer {
        records: shared.records.list().into_iter().map(row).collect(),
        trouble: shared.records.trouble(),
        under_way: under_way(shared),
    }
}

/// What is being recorded.
fn under_way(shared: &Shared) -> Option<RecordUnderWay> {
    let (reply, under_way) = channel();
    shared.order(Order::UnderWay(reply));
    let (subject, began) = under_way.recv().ok().flatten()?;
    Some(RecordUnderWay { subject: subject.text().to_owned(), since_us: began.monotonic.0 })
}

/// A recording's bytes in base64: one that is kept, by `name`, or what happened in the time from
/// `since_us` to `until_us` (both monotonic; without them, everything that is still there), as one of
/// `subject` if it is given.
pub(crate) fn record(request: &Record, shared: &Arc<Shared>) -> Answered<RecordAnswer> {
    let bytes = match request.name.as_deref() {
        Some(name) => shared
            .records
            .read(name)
            .map_err(|e| refused(format!("the recording {name} cannot be read: {e}")))?,
        None => {
            let from = Monotonic(request.since_us.unwrap_or(0));
            let until = Monotonic(request.until_us.unwrap_or(u64::MAX));
            let material = material(shared, from, until);
            let mut material = material.ok_or_else(|| refused("the manager was restarted"))?;
            let subject = request.subject.as_deref().and_then(Subject::from_text);
            material.head.subject = subject.unwrap_or(Subject::Live);
            warren_trace::record::write(&crate::recording::files::recording(material))
        }
    };
    Ok(RecordAnswer { data: warren_trace::base64::encode(&bytes) })
}

/// What happened between two moments, taken from the loop piece by piece; nothing if the manager ends.
fn material(shared: &Shared, from: Monotonic, until: Monotonic) -> Option<Material> {
    // Before the stretch is found: of a job that ends meanwhile the end is in it.
    let view = shared.view();
    let (reply, stretch) = channel();
    shared.order(Order::Stretch { from, until, reply });
    let Stretch { head, numbers, kept, began, graph, formers } = stretch.recv().ok()?;
    let mut events = Vec::new();
    for first in numbers.clone().step_by(PIECE_EVENTS_MAX) {
        events.append(&mut piece(shared, first..numbers.end)?);
    }
    let mut before = JobsBefore::new(began);
    before.follow(&events);
    // Who was forgotten since has no name in the generation of today.
    for first in (numbers.end..kept.end).step_by(PIECE_EVENTS_MAX) {
        let later = piece(shared, first..kept.end)?;
        before.follow(&later);
        events.extend(later.into_iter().filter(|event| event.what() == Some(What::Renamed)));
    }
    before.take_present(view.jobs());
    let mut end = numbers.start;
    while !before.is_complete() && end > kept.start {
        let first = end.saturating_sub(PIECE_EVENTS_MAX as u64).max(kept.start);
        before.look(&piece(shared, first..end)?);
        end = first;
    }
    events.splice(..0, before.events());
    Some(Material { head, events, graph, formers })
}

/// The first [`PIECE_EVENTS_MAX`] of these events.
fn piece(shared: &Shared, numbers: Range<u64>) -> Option<Vec<Event>> {
    let (reply, piece) = channel();
    shared.order(Order::Cut { numbers, reply });
    piece.recv().ok()
}
