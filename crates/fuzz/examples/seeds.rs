//! Writes the seeds that no hand writes: files and packets as the programs make them.
//!
//! `cargo run --package warren-fuzz --example seeds` after a format has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::graph::{Change, Files, Graph, NewDefinition};
use warren_core::model::ids::UnitId;
use warren_core::model::process::Outcome;
use warren_core::model::state::{Service, TypeState, UnitRun};
use warren_core::persist::{generation, run_state};
use warren_device::image::{self, Disk};
use warren_device::lvm::LvmId;
use warren_device::lvm::label::{Area, PvHeader};
use warren_device::read::ReadAt;
use warren_init::protocol::control::InitMessage;
use warren_init::protocol::encode;
use warren_init::protocol::exec::{ExecSpec, HelperReply, SpawnRequest, Sync, Synced};
use warren_log_store::files::{Disk as Directory, Files as _};
use warren_log_store::store::upkeep::seal;
use warren_log_store::store::{DEFAULT_CLASS, Setup, Store};
use warren_log_store::systemd::write::{Ids, Writer};
use warren_log_store::{Fields, Id128, Stamp};
use warren_trace::record::{Anchor, Head, Recording, Unit};
use warren_trace::words::Subject;
use warren_unit::parse::parse;
use warren_unit::{LoadState, UnitFlags, UnitName};

/// Size of the disk that has a label, in bytes: as small as its parts allow.
const DISK_BYTES: u64 = 12 << 10;

fn main() {
    links();
    states();
    recording();
    logs();
    disk();
}

fn put(target: &str, name: &str, bytes: &[u8]) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&directory).expect("the corpus can be written");
    fs::write(directory.join(name), bytes).expect("the corpus can be written");
}

fn links() {
    let exec =
        ExecSpec { user: Some("web".into()), group: Some("33".into()), ..ExecSpec::default() };
    let request = SpawnRequest { id: 7, exec: Box::new(exec) };
    put("helper-link", "spawn-request", &encode(&request).expect("it fits"));
    let refused = HelperReply::Refused { message: "why".into() };
    put("helper-link", "helper-reply", &encode(&refused).expect("it fits"));
    put("helper-link", "synced", &Synced::to(Sync(9)).packet());
    let signal = InitMessage::Signal { signo: 15 };
    put("helper-link", "init-message", &encode(&signal).expect("it fits"));
    let fds = InitMessage::Fds { names: b"a\0b", last: true };
    put("helper-link", "init-fds", &encode(&fds).expect("it fits"));
}

/// With the length that the targets take before each piece.
fn framed(pieces: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let frame = |piece: Vec<u8>| [&(piece.len() as u16).to_le_bytes()[..], &piece].concat();
    pieces.into_iter().flat_map(frame).collect()
}

fn states() {
    let change = |name: &str| {
        let name = UnitName::parse(name).expect("a valid name");
        let text = b"[Unit]\nDescription=one\n";
        let (file, _) = parse(Arc::from(format!("/u/{name}")), text, name.unit_type());
        Change::Set(Box::new(NewDefinition {
            name,
            aliases: Vec::new(),
            load_state: LoadState::Loaded,
            description: "one".into(),
            flags: UnitFlags::default(),
            slice: None,
            relations: Vec::new(),
            files: Files::of(Some(Arc::new(file))),
        }))
    };
    let changes = ["a.service", "b.socket", "c.slice"].map(change);
    let graph = Graph::default().with_resting_min(0).apply(changes.into()).0;
    let pieces: Vec<Vec<u8>> = generation::write_batch(None, &graph).collect();
    put("generation", "first", &framed(pieces));
    let mut frames = Vec::new();
    run_state::write_names(&mut frames, &graph, 0);
    for unit in (0..graph.len() as u32).map(UnitId) {
        let state = TypeState::Service(Service::Failed(Outcome::Timeout));
        let run = UnitRun { state, job: None, history: None };
        run_state::write_unit(&mut frames, unit, &run, Some("a.slice/a.service"));
    }
    let mut payloads = Vec::new();
    let mut rest = &frames[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (payload, after) = after[4..].split_at(u32::from_le_bytes(*length) as usize);
        payloads.push(payload.to_vec());
        rest = after;
    }
    put("run-state", "units", &framed(payloads));
    put("run-state", "file", &[run_state::header(), frames].concat());
}

fn recording() {
    let anchor = Anchor { monotonic_us: 1, realtime_us: 2, boottime_us: 3 };
    let (host, kernel, version) = ("host".into(), "6.1".into(), "1".into());
    let head = Head { subject: Subject::Boot, anchor, host, kernel, version };
    let unit = |id, name: &str| Unit { id, slice: 2, name: name.into() };
    let units = vec![unit(0, "a.service"), unit(1, "b.service"), unit(2, "c.slice")];
    let reasons = vec![(1, "asked".into())];
    let recording = Recording { head, units, reasons, edges: vec![(1, 0)], events: Vec::new() };
    let file = warren_trace::record::write(&recording);
    put("recording", "file", &file);
    // The same as the target makes it of its blocks.
    let mut rest = &file[warren_trace::record::MAGIC.len()..];
    let mut blocks = Vec::new();
    while let Some((header, after)) = rest.split_at_checked(24) {
        let length = u32::from_le_bytes(header[12..16].try_into().expect("four bytes")) as usize;
        blocks.extend([header[4], header[8], header[9], header[12], header[13]]);
        blocks.extend_from_slice(&after[..length]);
        rest = &after[length..];
    }
    put("recording", "blocks", &blocks);
}

fn fields(number: u64) -> Fields {
    let message = format!("message {number}");
    [("MESSAGE", &*message), ("PRIORITY", "6"), ("_PID", "1")].into_iter().collect()
}

fn logs() {
    let stamp = |number: u64| Stamp {
        realtime_us: 1_700_000_000_000_000 + number,
        monotonic_us: number,
        boot: Id128([3; 16]),
    };
    let ids = Ids { file: Id128([1; 16]), machine: Id128([2; 16]), sequence: Id128([4; 16]) };
    let scratch = scratch();
    let directory = Arc::new(Directory::new(&scratch));
    let mut journal = Writer::new(ids, 16 << 10);
    let new_id = || Id128([5; 16]);
    let setup = Setup { machine: Id128([2; 16]), new_id: Box::new(new_id) };
    let (mut store, _) = Store::open(directory.clone(), setup).expect("an empty directory");
    for number in 1..8 {
        let fields = fields(number);
        journal.append(number, &stamp(number), &Arc::default(), &fields);
        store.append(DEFAULT_CLASS, &stamp(number), &Arc::default(), &fields).expect("taken");
    }
    let file = directory.create("system.journal").expect("made");
    journal.flush(&*file).expect("written");
    put("journal-file", "small", &fs::read(scratch.join("system.journal")).expect("read"));
    store.rotate().expect("closed");
    for log in store.take_sealable() {
        put("segment", "log", &fs::read(scratch.join(log.to_string())).expect("read"));
        seal(&*directory, &log, Id128([2; 16]), new_id()).expect("sealed");
    }
    for file in directory.list().expect("listed").iter().filter(|file| file.name.ends_with(".seg"))
    {
        let segment = fs::read(scratch.join(&file.name)).expect("read");
        put("segment", "segment", &segment);
        // Its first block lies behind the header of the file; by itself it says that it lies at 0.
        let mut block = segment[128..].to_vec();
        block[40..48].fill(0);
        put("block", "entries", &block);
    }
    fs::remove_dir_all(scratch).expect("removed");
}

fn scratch() -> PathBuf {
    let path = std::env::temp_dir().join(format!("warren-seeds-{}", std::process::id()));
    fs::create_dir_all(&path).expect("made");
    path
}

fn disk() {
    let area = Area { offset: 4096, bytes: 4096 };
    let header = PvHeader {
        id: LvmId::parse(&"a".repeat(32)).expect("an id"),
        device_bytes: DISK_BYTES,
        data_areas: vec![Area { offset: 8192, bytes: 0 }],
        metadata_areas: vec![area],
        extension_version: 2,
        flags: 1,
    };
    let text = b"g { id = \"gggggg-gggg-gggg-gggg-gggg-gggg-gggggg\" seqno = 1 status = [\"RESIZEABLE\"] }\n";
    let mut disk = Disk::new(DISK_BYTES);
    image::put_label(&mut disk, 1, &header);
    image::put_area(&mut disk, area, 512, text);
    let mut bytes = vec![0; DISK_BYTES as usize];
    disk.read_at(0, &mut bytes).expect("memory can be read");
    put("disk", "lvm", &bytes);
}
