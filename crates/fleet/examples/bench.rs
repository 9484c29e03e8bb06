//! Loads a configuration and says how long each part took: the figures of the fleet language.
//!
//! ```sh
//! gen.py DIR seed 10000 1000 --style ns
//! cargo run --release -p warren-fleet --example bench -- DIR/main.conf [indexed|scan|naive] [THREADS]
//! ```

use std::path::Path;
use std::time::Instant;

use warren_fleet::engine::{Fleet, Matching, Options, load};
use warren_fleet::modules::Modules;
use warren_fleet::outside::{Include, Outside};
use warren_fleet::schema::icinga;
use warren_fleet::types::Types;
use warren_fleet::{Source, diagnostic};

/// Reads plain includes, and patterns with one star in the name.
struct Files;

impl Outside for Files {
    fn include(&mut self, include: &Include) -> Result<Vec<Source>, String> {
        let directory = Path::new(&include.from).parent().unwrap_or(Path::new("."));
        let Some((start, end)) = include.path.split_once('*') else {
            return read(&directory.join(&include.path)).map(|source| vec![source]);
        };
        let entries = std::fs::read_dir(directory).map_err(|error| error.to_string())?.flatten();
        let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries
            .map(name)
            .filter(|name| name.starts_with(start) && name.ends_with(end))
            .collect();
        names.sort();
        names.iter().map(|name| read(&directory.join(name))).collect()
    }
}

fn read(path: &Path) -> Result<Source, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Source::new(&path.display().to_string(), &text))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (path, matching, threads) = match words[..] {
        [path] => (path, Matching::Indexed, 1),
        [path, matching] => (path, way(matching), 1),
        [path, matching, threads] => (path, way(matching), threads.parse().unwrap_or(1)),
        _ => panic!("usage: bench FILE [indexed|scan|naive] [THREADS]"),
    };
    let source = read(Path::new(path)).unwrap_or_else(|error| panic!("{error}"));
    let (types, modules) = (Types::new(icinga::types(Default::default())), Modules::default());
    let options = Options { matching, threads, ..Options::default() };
    let start = Instant::now();
    let fleet = load(source, &types, &modules, Box::new(Files), &options);
    let wall = start.elapsed().as_secs_f64();
    report(&fleet, &types, &modules);
    println!("{matching:?}, {threads} threads: {wall:.3} s wall, {} ", usage());
}

fn way(word: &str) -> Matching {
    match word {
        "scan" => Matching::Scan,
        "naive" => Matching::Naive,
        _ => Matching::Indexed,
    }
}

fn report(fleet: &Fleet, types: &Types, modules: &Modules) {
    for fault in fleet.faults.iter().take(5) {
        print!("{}", diagnostic::render(fault, &|file| modules.source(file)));
    }
    for (id, objects) in &fleet.world.by_type {
        println!("{:8} {}", objects.len(), types.get(*id).name);
    }
}

/// Processor time and the greatest memory of this process, from /proc.
fn usage() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("?");
    let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    format!(
        "{:.2} user s, {:.2} system s, {} at most, {} voluntary switches",
        ticks(11) / 100.0,
        ticks(12) / 100.0,
        memory.trim(),
        switches.unwrap_or("?").trim()
    )
}
