//! The format on disk: files of version 1 load for ever, and a reader written from the format's
//! description alone reads the same.
//!
//! `tests/fixtures/v1` was written once by [`write_fixture`] and is never written again; a later
//! version gets a directory of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use warren_log_store::files::{Disk, Files};
use warren_log_store::query::{Direction, Journal, Query};
use warren_log_store::store::names::Catalogue;
use warren_log_store::store::upkeep::{MERGE_BYTES_MAX, MergeBounds, merge, plan_merge, seal};
use warren_log_store::store::{Setup, Store};
use warren_log_store::{Entry, Fields, Id128, Stamp};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Every entry in the notation of `reader.py`.
fn print(directory: &Path) -> String {
    let journal = Journal::open(Arc::new(Disk::new(directory))).expect("readable");
    let (query, mut out) = (Query::default(), String::new());
    let mut entries = journal.entries(&query, Direction::Forward, None);
    while let Some(entry) = entries.try_next().expect("no read fails") {
        print_entry(&entry, &mut out);
    }
    assert_eq!(entries.damage(), []);
    out
}

fn print_entry(entry: &Entry, out: &mut String) {
    let Stamp { realtime_us, monotonic_us, boot } = entry.stamp;
    writeln!(out, "{} {realtime_us} {monotonic_us} {boot}", entry.seqnum).expect("a string");
    for (name, value) in entry.all_fields() {
        write!(out, " {}=", String::from_utf8_lossy(name)).expect("a string");
        for &byte in value {
            match byte {
                b' '..=b'~' if byte != b'\\' => out.push(char::from(byte)),
                _ => write!(out, "\\x{byte:02x}").expect("a string"),
            }
        }
        out.push('\n');
    }
}

/// Writes a directory with everything that the format has: two classes, merged and single
/// segments, a log with marks, two boots, doubled, empty and binary values, a clock that jumps,
/// plain, dictionary and time columns, packed and unpacked sections.
fn write_fixture(directory: &Path) {
    std::fs::create_dir_all(directory).expect("a new directory");
    let files: Arc<dyn Files> = Arc::new(Disk::new(directory));
    let mut ids = 0;
    let new_id = move || {
        ids += 1;
        Id128([ids; 16])
    };
    let setup = Setup { machine: Id128([0xaa; 16]), new_id: Box::new(new_id) };
    let (mut store, _) = Store::open(files.clone(), setup).expect("empty");
    for round in 0..7u8 {
        (0..12).for_each(|number| append(&mut store, u64::from(round) * 12 + number));
        store.sync().expect("a sync");
        append(&mut store, 1000 + u64::from(round));
        store.flush().expect("a write");
        if round == 6 {
            break;
        }
        store.rotate().expect("a rotation");
        for (number, log) in store.take_sealable().iter().enumerate() {
            let id = Id128([0x80 + round * 2 + number as u8; 16]);
            seal(&*files, log, Id128([0xaa; 16]), id).expect("sealed");
        }
        let plan = plan_merge(
            &Catalogue::of(files.list().expect("a listing")),
            &MergeBounds::bytes(MERGE_BYTES_MAX),
            &BTreeMap::new(),
            &BTreeSet::new(),
        );
        if !plan.is_empty() {
            merge(&*files, &plan, Id128([0xaa; 16]), Id128([0xc0 + round; 16])).expect("merged");
        }
    }
}

fn append(store: &mut Store, number: u64) {
    let time = 1_700_000_000_000_000 + (number * 1_000_003) % 50_000_000;
    let boot = Id128([1 + (number / 40) as u8; 16]);
    let stamp = Stamp { realtime_us: time, monotonic_us: number * 17, boot };
    let (unit, pid) = (format!("unit-{}.service", number % 3), (number % 5).to_string());
    let context: Fields = [("_PID", &*pid), ("_SYSTEMD_UNIT", &unit), ("_TRANSPORT", "journal")]
        .into_iter()
        .collect();
    let mut fields = Fields::new();
    fields.push(b"PRIORITY", (number % 8).to_string().as_bytes());
    fields.push(b"MESSAGE", format!("message {number} of {unit}: {}", "na ".repeat(20)).as_bytes());
    match number % 6 {
        0 => fields.push(b"MESSAGE", b"a second text"),
        1 => fields.push(b"BINARY", &[0, 10, 255, b'\\', b'=']),
        2 => fields.push(b"EMPTY", b""),
        3 => fields.push(b"LONG", "x".repeat(300).as_bytes()),
        _ => fields.push(b"REQUEST", (number * 7919).to_string().as_bytes()),
    }
    fields.push(b"_SOURCE_REALTIME_TIMESTAMP", (time - number).to_string().as_bytes());
    let class = if number.is_multiple_of(4) { "audit" } else { "system" };
    store.append(class, &stamp, &Arc::new(context), &fields).expect("in bounds");
}

#[test]
fn files_of_version_1_load() {
    let expected = fixtures().join("v1.txt");
    if std::env::var_os("WRITE_FIXTURE").is_some() && !expected.exists() {
        write_fixture(&fixtures().join("v1"));
        std::fs::write(&expected, print(&fixtures().join("v1"))).expect("written");
    }
    let expected = std::fs::read_to_string(expected).expect("committed");
    assert_eq!(expected.lines().filter(|line| !line.starts_with(' ')).count(), 91);
    assert_eq!(print(&fixtures().join("v1")), expected);
}

/// Reads with the second reader, which also holds indexes, filters and sums to what the description
/// says of them.
#[track_caller]
fn check_second_reader(directory: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reader.py");
    match Command::new("python3").arg(script).arg(directory).output() {
        Ok(output) if output.status.success() => {
            assert_eq!(String::from_utf8_lossy(&output.stdout), print(directory));
        }
        Ok(output) if output.status.code() != Some(77) => {
            panic!("{}", String::from_utf8_lossy(&output.stderr));
        }
        _ => not_run("a second reader needs python3 and libzstd"),
    }
}

#[test]
fn a_second_reader_reads_the_same() {
    check_second_reader(&fixtures().join("v1"));
}

#[test]
fn a_second_reader_reads_what_is_written_now() {
    let directory = std::env::temp_dir().join(format!("warren-format-{}", std::process::id()));
    write_fixture(&directory);
    check_second_reader(&directory);
    std::fs::remove_dir_all(&directory).expect("ours to remove");
}

/// Says past the test runner's capture that a test could not run here.
fn not_run(why: &str) {
    warren_testkit::not_run(why);
}
