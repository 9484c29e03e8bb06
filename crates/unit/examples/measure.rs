//! Measures parsing, loading and compiling the four units of a set, in memory:
//! `cargo run --release -p warren-unit --example measure`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use warren_unit::{Compiler, Context, Defaults, Sources, UnitName, load, parse};

const UNITS: [(&str, &str); 5] = [
    (
        "test-X.mount",
        "[Unit]\nDescription=mount X\n\n[Mount]\nWhat=tmpfs\nWhere=/test/X\nType=tmpfs\n",
    ),
    ("test-X.automount", "[Unit]\nDescription=automount X\n\n[Automount]\nWhere=/test/X\n"),
    (
        "test-nginx-X.socket",
        "[Unit]\nDescription=socket X\n\n[Socket]\nListenStream=/run/test/X.sock\nSlice=test-X.slice\n\n\
         [Install]\nWantedBy=sockets.target\n",
    ),
    (
        "test-nginx-X.service",
        "[Unit]\nDescription=nginx X\nRequires=test-nginx-X.socket\nRequiresMountsFor=/test/X\n\n\
         [Service]\nType=forking\nSlice=test-X.slice\nPIDFile=/run/test/X.pid\n\
         ExecStart=/usr/sbin/nginx -c /etc/nginx/X.conf\nExecReload=/bin/kill -HUP $MAINPID\n",
    ),
    ("test-X.slice", "[Unit]\nDescription=slice X\n\n[Slice]\nMemoryMax=256M\n"),
];
const SETS: usize = 8_000;

fn main() {
    let (context, defaults) = (Context::system(), Defaults::default());
    let units: Vec<(UnitName, String)> = (0..SETS)
        .flat_map(|i| {
            UNITS.map(|(name, text)| {
                (name.replace('X', &i.to_string()), text.replace('X', &i.to_string()))
            })
        })
        .map(|(name, text)| (UnitName::parse(&name).expect("a valid name"), text))
        .collect();
    let clock = Instant::now();
    let parse_one = |(name, text): &(UnitName, String)| {
        let path: Arc<str> = format!("/etc/systemd/system/{name}").into();
        Arc::new(parse::parse(path, text.as_bytes(), name.unit_type()).0)
    };
    let files: Vec<_> = units.iter().map(parse_one).collect();
    let parsed = clock.elapsed();
    let clock = Instant::now();
    let sources = |i: usize| Sources { fragment: Some(&files[i]), ..Sources::default() };
    let loaded: Vec<_> = units
        .iter()
        .enumerate()
        .map(|(i, (name, _))| load(name, &sources(i), &context, &defaults).0)
        .collect();
    let all_loaded = clock.elapsed();
    let clock = Instant::now();
    for (i, (name, _)) in
        units.iter().enumerate().filter(|(_, (n, _))| n.as_str().ends_with("service"))
    {
        let sources = sources(i);
        let compiler = Compiler { name, sources: &sources, context: &context, defaults: &defaults };
        black_box((compiler.unit(), compiler.service()));
    }
    let compiled = clock.elapsed();
    let n = units.len();
    let heap: usize = files.iter().map(|f| f.heap_bytes()).sum();
    let edges: usize = loaded.iter().map(|l| l.relations.len()).sum();
    println!(
        "parse   {:6.2} us a unit, {} bytes kept",
        parsed.as_secs_f64() * 1e6 / n as f64,
        heap / n
    );
    println!(
        "load    {:6.2} us a unit, {:.1} relations",
        all_loaded.as_secs_f64() * 1e6 / n as f64,
        edges as f64 / n as f64
    );
    println!("compile {:6.2} us a service", compiled.as_secs_f64() * 1e6 / SETS as f64);
}
