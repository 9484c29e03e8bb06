//! What a machine recorded, for tests that judge by it.

use serde_json::{Value, json};
use warren_trace::analysis::Analysis;
use warren_trace::analysis::timeline::Bar;
use warren_trace::record::{self, Damage, Recording};
use warren_trace::words::Work;

use super::Machine;

/// The last recording of a subject that is whole.
pub fn recording(m: &Machine, subject: &str) -> Option<Recording> {
    let (recording, damage) = recording_in(&m.directory.join("records"), subject)?;
    (damage == Damage::default()).then_some(recording)
}

/// The last recording of a subject in a directory, and what is wrong with it.
pub fn recording_in(directory: &std::path::Path, subject: &str) -> Option<(Recording, Damage)> {
    let files = std::fs::read_dir(directory).ok()?.flatten();
    let ours = files.map(|file| file.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(subject) && name.ends_with(".record")
    });
    let bytes = std::fs::read(ours.max()?).ok()?;
    Some(record::read(&bytes).expect("a recording"))
}

/// What is recorded since a moment, in µs on the monotonic clock.
pub fn live(m: &Machine, since_us: u64) -> Recording {
    recorded_by(m, &json!({"since_us": since_us}))
}

/// What the manager has for these parameters.
pub fn recorded_by(m: &Machine, parameters: &Value) -> Recording {
    let answer = m.call("Record", parameters);
    let data = answer["data"].as_str().expect("base64");
    let bytes = warren_trace::base64::decode(data).expect("base64");
    let (live, damage) = record::read(&bytes).expect("a recording");
    assert_eq!(damage, Damage::default());
    live
}

/// The first bar of a unit with this work.
#[track_caller]
pub fn bar<'a>(analysis: &'a Analysis<'_>, name: &str, work: Work) -> &'a Bar {
    let bars = &analysis.timeline.bars;
    let found = bars.iter().find(|bar| analysis.name(bar.row) == name && bar.work == work);
    found.unwrap_or_else(|| panic!("no {} of {name}: {bars:#?}", work.text()))
}
