//! What lists and reads cost this process with 40,000 units: CPU time of the bus's thread and of
//! the kernel on its behalf, the send included. `cargo run --release -p warren-bus --example
//! listing [UNITS]`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warren_bus::backend::*;
use warren_bus::wire::{self, Writer};
use warren_bus::{Backend, Bus};
use warren_core::graph::{Change, Definition, Files, Graph, NewDefinition};
use warren_core::model::ids::UnitId;
use warren_core::model::state::UnitRun;
use warren_core::protocol::request::Asker;
use warren_core::settings::{Compiled, Settings};
use warren_core::view::View;
use warren_unit::load::load;
use warren_unit::parse::parse;
use warren_unit::{Context, Defaults, UnitName};

struct Still {
    view: Arc<View>,
    settings: Settings,
}

impl Backend for Still {
    fn view(&self) -> Arc<View> {
        self.view.clone()
    }
    fn call(&self, _: Asker, _: Call, reply: ReplySender) {
        reply.send(Ok(Answer::Done));
    }
    fn compiled(&self, definition: &Definition) -> Arc<Compiled> {
        Arc::new(self.settings.compile(definition))
    }
    fn files(&self, _: &Definition) -> UnitFiles {
        UnitFiles::default()
    }
    fn unit_file_state(&self, _: &str) -> Option<&'static str> {
        None
    }
    fn default_target(&self) -> Option<String> {
        None
    }

    fn knows_unit_files(&self, _: Option<&UnitName>) -> bool {
        true
    }

    fn each_unit_file(&self, _: &mut dyn FnMut(&str, &'static str)) {}
    fn preset(&self, _: &Definition) -> &'static str {
        ""
    }
    fn differs_on_disk(&self, _: &Definition) -> bool {
        false
    }
    fn processes(&self, _: UnitId) -> Vec<(String, u32, String)> {
        Vec::new()
    }

    fn identity(&self, _: Option<&str>, _: Option<&str>, _: Option<u32>) -> [Option<u32>; 2] {
        [None; 2]
    }
    fn live(&self, _: UnitId) -> Live {
        Live::default()
    }
    fn facts(&self) -> Arc<Facts> {
        Arc::new(Facts::default())
    }
}

fn units(count: usize) -> Still {
    let settings =
        Settings { context: Arc::new(Context::system()), defaults: Arc::new(Defaults::default()) };
    let kinds: BTreeMap<&str, &str> = BTreeMap::from([
        ("automount", "[Automount]\nWhere=/test/%N\n"),
        ("mount", "[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/test/%N\n"),
        ("service", "[Service]\nExecStart=/usr/sbin/nginx -g 'daemon off;'\nSlice=test-%N.slice\n"),
        ("socket", "[Socket]\nListenStream=/run/test/%N.sock\n"),
        ("slice", "[Slice]\nCPUWeight=20\n"),
    ]);
    let mut changes = Vec::new();
    for set in 0..count / kinds.len() {
        for (suffix, text) in &kinds {
            let stem = if *suffix == "slice" { "test" } else { "test-nginx" };
            let name = UnitName::parse(&format!("{stem}-{set}.{suffix}")).expect("a valid name");
            let body = text.replace("%N", &set.to_string());
            let path = Arc::from(format!("/etc/systemd/system/{name}"));
            let fragment = Some(Arc::new(parse(path, body.as_bytes(), name.unit_type()).0));
            let files = Files::of(fragment);
            let loaded = load(&name, &files.sources(), &settings.context, &settings.defaults).0;
            changes.push(Change::Set(Box::new(NewDefinition {
                name,
                aliases: Vec::new(),
                load_state: warren_unit::LoadState::Loaded,
                description: loaded.description,
                flags: loaded.flags,
                slice: loaded.slice,
                relations: loaded.relations.into(),
                files,
            })));
        }
    }
    let (graph, _) = Graph::default().apply(changes);
    let runs = graph.definitions().map(|d| Arc::new(UnitRun::idle(d.unit_type()))).collect();
    let view = View { graph: Arc::new(graph), units: runs, ..View::default() };
    Still { view: Arc::new(view), settings }
}

/// CPU time of the thread with this name, in nanoseconds.
fn cpu_of_bus() -> u64 {
    for task in std::fs::read_dir("/proc/self/task").expect("proc").flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.trim() == "bus" {
            let text = std::fs::read_to_string(task.path().join("schedstat")).expect("schedstat");
            return text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        }
    }
    panic!("the bus has a thread")
}

struct Client(UnixStream, Vec<u8>);

impl Client {
    fn new(path: &PathBuf) -> Client {
        let mut stream = UnixStream::connect(path).expect("the bus listens");
        stream.write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n").expect("it reads");
        stream.read_exact(&mut [0; 43]).expect("it answers");
        Client(stream, vec![0; 16 << 20])
    }

    /// Calls and gives the reply's size.
    fn call(&mut self, path: &str, member: &str, args: (&str, Writer)) -> usize {
        let mut call = wire::signal(wire::To::Peer, 1, path, member, args.0, args.1.as_bytes());
        (call[1], call[2]) = (1, 0);
        self.0.write_all(&call).expect("the bus reads");
        let mut got = 0;
        loop {
            got += self.0.read(&mut self.1[got..]).expect("the bus answers");
            if got >= 16 && message_bytes(&self.1) == got {
                return got;
            }
        }
    }
}

/// The size that the header of a reply gives, beyond what the bus itself would take.
fn message_bytes(header: &[u8]) -> usize {
    let number =
        |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes")) as usize;
    (16 + number(12)).next_multiple_of(8) + number(4)
}

fn measure(what: &str, rounds: u32, mut call: impl FnMut() -> usize) {
    let mut bytes = call();
    let (before, start) = (cpu_of_bus(), Instant::now());
    for _ in 0..rounds {
        bytes = call();
    }
    let cpu = Duration::from_nanos((cpu_of_bus() - before) / u64::from(rounds));
    println!(
        "{what:50} {cpu:>12.1?} CPU {:>12.1?} wall {bytes:>9} bytes",
        start.elapsed() / rounds
    );
}

fn main() {
    let count = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(40_000);
    let path = std::env::temp_dir().join(format!("warren-bus-listing-{}", std::process::id()));
    let still = units(count);
    println!("{} names", still.view.graph.len());
    let bus = Bus::start(&path, None, None, Arc::new(still)).expect("a bus can be started");
    let mut client = Client::new(&path);
    let manager = "/org/freedesktop/systemd1";
    let list = "org.freedesktop.systemd1.Manager.ListUnits";
    let by_patterns = "org.freedesktop.systemd1.Manager.ListUnitsByPatterns";
    let get_all = "org.freedesktop.DBus.Properties.GetAll";
    let get = "org.freedesktop.DBus.Properties.Get";
    let texts = |texts: &[&str]| {
        let mut w = Writer::new();
        texts.iter().for_each(|text| {
            w.str(text);
        });
        w
    };
    measure("ListUnits", 20, || client.call(manager, list, ("", Writer::new())));
    measure("ListUnitsByPatterns test-nginx-77*", 20, || {
        let mut args = Writer::new();
        args.strs([]).strs(["test-nginx-77*"]);
        client.call(manager, by_patterns, ("asas", args))
    });
    let unit = format!("{manager}/unit/test_2dnginx_2d77_2eservice");
    measure("GetAll(\"\") of a service", 500, || client.call(&unit, get_all, ("s", texts(&[""]))));
    measure("Get of one property", 500, || {
        client.call(&unit, get, ("ss", texts(&["org.freedesktop.systemd1.Service", "Type"])))
    });
    measure("connection, greeting, Get", 200, || {
        let args = ("ss", texts(&["org.freedesktop.systemd1.Unit", "ActiveState"]));
        Client::new(&path).call(&unit, get, args)
    });
    drop(bus);
}
