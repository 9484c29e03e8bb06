//! Perfetto's own trace processor, over the traces that charts are written as: it takes every event,
//! and each bar stands where it was put.
//!
//! `TRACE_PROCESSOR=PROGRAM` names the trace processor, which Debian does not package; without it the
//! test prints `NOT RUN`. `TRACES=FILE:FILE` adds traces of real recordings (`warren chart -o FILE.json`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use warren_trace::analysis::Analysis;
use warren_trace::export::chrome;
use warren_trace::sample::host;
use warren_trace::words::Subject;

/// Four units each, and some more: 32,085 rows.
const SETS: usize = 8_000;

/// Name, begin and length in ns.
type Slice = (String, i64, i64);

/// The rows that the trace processor answers a question with, without the line of titles.
fn ask(program: &Path, trace: &Path, question: &str) -> Vec<Vec<String>> {
    let output = Command::new(program).arg("query").arg(trace).arg(question).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    // Texts are quoted, numbers are not, and no name of a bar has a quote.
    let row = |line: &str| line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect();
    text.lines().skip(1).map(row).collect()
}

/// The bars of a trace, and how many flows it has.
fn written(trace: &str) -> (BTreeMap<Slice, u64>, usize) {
    let trace: Value = serde_json::from_str(trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let ns = |event: &Value, field: &str| {
        let us = event[field].as_f64().unwrap_or_else(|| panic!("{field} of {event}"));
        (us * 1e3).round() as i64
    };
    let mut slices = BTreeMap::new();
    let (mut waits, mut flows) = (BTreeMap::new(), 0);
    for event in events {
        let name = event["name"].as_str().expect("a name").to_owned();
        match event["ph"].as_str() {
            Some("X") => {
                let slice = (name, ns(event, "ts"), ns(event, "dur"));
                *slices.entry(slice).or_insert(0) += 1;
            }
            Some("b") => {
                assert!(waits.insert(event["id"].to_string(), (name, ns(event, "ts"))).is_none())
            }
            Some("e") => {
                let (name, from) = waits.remove(&event["id"].to_string()).expect("it has begun");
                *slices.entry((name, from, ns(event, "ts") - from)).or_insert(0) += 1;
            }
            Some("s") => flows += 1,
            _ => {}
        }
    }
    (slices, flows)
}

/// That all of a trace is taken as it was meant.
fn check(program: &Path, file: &Path) {
    let (slices, flows) = written(&std::fs::read_to_string(file).expect("the trace"));
    assert!(!slices.is_empty());
    let faults = ask(
        program,
        file,
        "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
    );
    assert_eq!(faults, Vec::<Vec<String>>::new(), "{}", file.display());
    let mut taken = BTreeMap::new();
    for row in ask(program, file, "select name, ts, dur from slice") {
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("a number: {row:?}"));
        let slice = (row[0].clone(), number(&row[1]), number(&row[2]));
        *taken.entry(slice).or_insert(0) += 1;
    }
    // It counts from the begin of the trace, as the file does.
    let missing: Vec<_> =
        slices.iter().filter(|(slice, count)| taken.get(slice) != Some(count)).collect();
    assert!(missing.is_empty(), "of {}, {}: {:#?}", slices.len(), missing.len(), &missing[..1]);
    assert_eq!(taken.len(), slices.len(), "bars that were not written");
    let found = ask(program, file, "select count(*) from flow");
    assert_eq!(found, [[flows.to_string()]]);
    // The manager's phases lie in each other; no bar of a unit lies in another one.
    let nested = ask(
        program,
        file,
        "select count(*) from slice join thread_track on slice.track_id = thread_track.id \
         join thread using (utid) where depth > 0 and thread.name != 'phases'",
    );
    assert_eq!(nested, [["0"]]);
    println!("{}: {} bars, {flows} arrows", file.display(), slices.values().sum::<u64>());
}

#[test]
fn perfetto_takes_every_bar_where_it_was_put() {
    let Some(program) = std::env::var_os("TRACE_PROCESSOR").map(PathBuf::from) else {
        warren_testkit::not_run("TRACE_PROCESSOR does not name Perfetto's trace processor");
        return;
    };
    let directory = std::env::temp_dir().join(format!("warren-perfetto-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    for (name, subject) in [("boot", Subject::Boot), ("shutdown", Subject::Shutdown)] {
        let recording = host(subject, SETS, 1).record();
        let file = directory.join(format!("{name}.json"));
        std::fs::write(&file, chrome::chrome(&Analysis::of(&recording))).expect("it is written");
        check(&program, &file);
    }
    std::fs::remove_dir_all(&directory).expect("it is removed");
    let more = std::env::var("TRACES").unwrap_or_default();
    for file in more.split(':').filter(|name| !name.is_empty()) {
        check(&program, Path::new(file));
    }
}
