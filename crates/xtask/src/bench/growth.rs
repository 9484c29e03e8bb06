//! `cargo xtask bench growth [PART...]`: what costs do up to the next power of ten.
//!
//! Warrener alone, at sizes three apart and more; what bends upwards shows in the last column of a table, the growth of
//! a figure over the growth of the size. Parts: `units` (1,000 to 25,000 sets, which are 100,000 units), `slice` (services
//! of one slice), `devices` (disks that are found, and 2,000 that go and come back), `logs` (100,000 units, 10 GB of
//! text; needs 6 GB of disk), `rules` (hosts by 1,000 rules). All of them take an hour; results of parts that are not
//! named stay in `bench/results/growth.json`. Needs root and a release build (`make build`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Size;
use super::subject::{Place, Subject};
use crate::command::{cargo, root};

const FILE: &str = "growth.json";

/// Sets of units.
const UNITS: [&str; 4] = ["1000", "4000", "10000", "25000"];

/// Services of one slice.
const SLICE: [u32; 3] = [1_000, 3_000, 10_000];

/// Disks, of which [`AWAY`] at most go and come back.
const DEVICES: [u32; 3] = [1_000, 3_000, 10_000];
const AWAY: u32 = 2_000;

/// Messages and units of logs: 100 bytes of text each.
const LOGS: [(u64, u64); 3] = [(1_000_000, 1_000), (10_000_000, 10_000), (100_000_000, 100_000)];

/// Hosts, each matched with [`RULES`].
const HOSTS: [usize; 3] = [5_000, 15_000, 50_000];
const RULES: usize = 1_000;

/// What is measured, by its name, at each size.
type Table = Vec<(u64, Vec<(String, f64)>)>;

/// What measures a part, in a directory of its own.
type Measure = fn(&Path) -> Result<Table>;

const PARTS: [(&str, Measure); 5] = [
    ("units", |_| units()),
    ("slice", |_| slice()),
    ("devices", devices),
    ("logs", logs),
    ("rules", rules),
];

/// Measures, prints the tables, writes `bench/results/growth.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let known = PARTS.map(|(name, _)| name);
    if let Some(other) = args.iter().find(|name| !known.contains(name)) {
        bail!("no part {other}: {}", known.join(", "));
    }
    super::programs()?;
    let mut results = kept()?;
    let scratch = std::env::temp_dir().join(format!("warren-bench-growth-{}", std::process::id()));
    for (name, measure) in PARTS.iter().filter(|(name, _)| args.is_empty() || args.contains(name)) {
        println!("\n{name}");
        fs::create_dir_all(&scratch)?;
        let measured = measure(&scratch);
        fs::remove_dir_all(&scratch)?;
        let table = measured?;
        print(&table);
        let sizes: Vec<Value> =
            table.into_iter().map(|(size, row)| json!({"size": size, "figures": row.into_iter().collect::<BTreeMap<_, _>>()})).collect();
        let date = warren_cli::render::date(warren_sys::time::realtime_ns() / 1000);
        results.insert((*name).to_owned(), json!({"part": name, "date": date, "sizes": sizes}));
        super::write(FILE, &results.values().cloned().collect::<Vec<_>>())?;
    }
    Ok(())
}

/// What earlier runs have measured, by part.
fn kept() -> Result<BTreeMap<String, Value>> {
    let path = root().join("bench/results").join(FILE);
    let Ok(text) = fs::read(&path) else { return Ok(BTreeMap::new()) };
    let all: Value = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    let parts = all["results"].as_array().cloned().unwrap_or_default();
    let part = |part: Value| Some((part["part"].as_str()?.to_owned(), part));
    Ok(parts.into_iter().filter_map(part).collect())
}

fn print(table: &Table) {
    let (Some((first, _)), Some((last, names))) = (table.first(), table.last()) else { return };
    let sizes: String = table.iter().map(|(size, _)| format!("{size:>14}")).collect();
    println!("  {:<34}{sizes}   growth over {}x", "", last / first);
    for (name, _) in names {
        let at =
            |row: &[(String, f64)]| row.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
        let values: Vec<Option<f64>> = table.iter().map(|(_, row)| at(row)).collect();
        let mut line = format!("  {name:<34}");
        for value in &values {
            let text = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
            let _ = write!(line, "{text:>14}");
        }
        match (values.first().copied().flatten(), values.last().copied().flatten()) {
            (Some(first), Some(last)) if first > 0.0 => println!("{line}   {:.1}x", last / first),
            _ => println!("{line}"),
        }
    }
}

// ---- units ----

/// All rows of `bench units` that are there at each size.
fn units() -> Result<Table> {
    let programs = super::programs()?;
    let mut table = Table::new();
    for size in UNITS {
        let size = Size::parse(size)?;
        println!("  {}", size.label());
        let rows = super::measure(&Place::Nested, size, &programs)?;
        let mut figures = Vec::new();
        for row in &rows {
            let name = row["name"].as_str().context("a name")?;
            let mut put = |what: &str, key: &str, unit: f64| {
                if let Some(value) = row[key].as_f64() {
                    figures.push((format!("{name}, {what}"), value / unit));
                }
            };
            put("s", "wall_us", 1e6);
            put("CPU s", "cpu_us", 1e6);
            put("MB", "resident_bytes", 1e6);
        }
        table.push((u64::from(size.sets) * 4, figures));
    }
    Ok(table)
}

// ---- one slice ----

fn slice() -> Result<Table> {
    let programs = super::programs()?;
    let mut table = Table::new();
    for services in SLICE {
        let size = Size { sets: 10, slices: false };
        let subject = Subject::boot(&Place::Nested, size, &programs)?;
        let measured = slice_of(&subject, services);
        subject.down()?;
        table.push((u64::from(services), measured?));
    }
    Ok(table)
}

fn slice_of(subject: &Subject, services: u32) -> Result<Vec<(String, f64)>> {
    for service in 0..services {
        let text = "[Service]\nSlice=bulk.slice\nExecStart=/bin/sleep infinity\n";
        fs::write(subject.units.join(format!("bulk-{service}.service")), text)?;
    }
    let mut figures = Vec::new();
    let mut step = |what: &str, command: &[&str]| -> Result<()> {
        let (began, cpu) = (Instant::now(), subject.cpu()?);
        subject.inside(command)?;
        let cpu = subject.cpu()?.saturating_sub(cpu);
        figures.push((format!("{what}, s"), began.elapsed().as_secs_f64()));
        figures.push((format!("{what}, CPU s"), cpu.as_secs_f64()));
        Ok(())
    };
    step("reload", &["systemctl", "daemon-reload"])?;
    step("start all", &["systemctl", "start", "--all", "bulk-*.service"])?;
    let started = running(subject)?;
    ensure!(started == services as usize, "{started} of {services} services run");
    step("status of the slice", &["systemctl", "show", "bulk.slice"])?;
    step("restart one", &["systemctl", "restart", "bulk-7.service"])?;
    step(
        "a limit of the slice",
        &["systemctl", "set-property", "--runtime", "bulk.slice", "CPUWeight=90"],
    )?;
    step("stop one", &["systemctl", "stop", "bulk-8.service"])?;
    step("stop the slice", &["systemctl", "stop", "bulk.slice"])?;
    let (resident, _) = subject.resources()?;
    figures.push(("memory, MB".to_owned(), resident as f64 / 1e6));
    let left = running(subject)?;
    ensure!(left == 0, "the slice was stopped, and {left} services run");
    Ok(figures)
}

/// How many services of the slice are active.
fn running(subject: &Subject) -> Result<usize> {
    let list = ["list-units", "--state=active", "--no-legend", "bulk-*.service"];
    Ok(subject.inside(&[&["systemctl"][..], &list].concat())?.lines().count())
}

// ---- devices ----

fn devices(scratch: &Path) -> Result<Table> {
    let example = super::devices::build_example()?;
    let mut table = Table::new();
    for count in DEVICES {
        let images = scratch.join(count.to_string()).display().to_string();
        said_by(Command::new(&example).args(["make", &images, &count.to_string(), "many"]))?;
        let all = said_by(Command::new(&example).args(["run", &images]))?;
        let away =
            said_by(Command::new(&example).args(["away", &images, &AWAY.min(count).to_string()]))?;
        fs::remove_dir_all(&images)?;
        print!("  {all}  {away}");
        let figures = [
            ("all found, CPU s", after(&all, "CPU ")?),
            ("all found, s", after(&all, "wall ")?),
            ("2,000 or all go, CPU s", after(&away, "gone CPU ")?),
            ("they come back, CPU s", after(&away, "back CPU ")?),
        ];
        table.push((
            u64::from(count),
            figures.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        ));
    }
    Ok(table)
}

fn said_by(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The number behind a word.
fn after(text: &str, word: &str) -> Result<f64> {
    let rest = text.split_once(word).map(|(_, rest)| rest.trim_start());
    let number = rest.and_then(|rest| rest.split([' ', ',', 's', ';']).next()?.parse().ok());
    number.with_context(|| format!("no number behind {word:?} in {text:?}"))
}

// ---- logs ----

fn logs(scratch: &Path) -> Result<Table> {
    cargo(&["build", "--locked", "--release", "--package", "warren-log-store", "--examples"])?;
    let example = root().join("target/release/examples/bench");
    let mut table = Table::new();
    for (messages, units) in LOGS {
        let store = scratch.join(units.to_string());
        let mut command = Command::new(&example);
        let output = said_by(
            command.arg(messages.to_string()).arg(&store).env("RARE_UNITS", units.to_string()),
        )?;
        fs::remove_dir_all(&store)?;
        print!("{output}");
        let mut figures = vec![
            ("a message, CPU µs".to_owned(), after(&output, "CPU ")?),
            ("a message at rest, B".to_owned(), after(&output, "at rest ")?),
        ];
        for question in [
            "-u rare-7.service -n 20",
            "-u busy-3.service -n 20",
            "-u nosuch.service -n 20",
            "-n 20",
        ] {
            let line = output.lines().find(|line| line.starts_with(&format!("{question}: ")));
            let line = line.with_context(|| format!("no answer to {question}"))?;
            figures.push((format!("{question}, ms CPU"), after(line, "MB, ")?));
            figures.push((format!("{question}, MB read"), after(line, "reads, ")?));
        }
        table.push((messages, figures));
    }
    Ok(table)
}

// ---- rules ----

fn rules(scratch: &Path) -> Result<Table> {
    let mut table = Table::new();
    for hosts in HOSTS {
        let (cpu_s, memory_mb) = super::fleet::own(scratch, (hosts, RULES))?;
        let figures = vec![("CPU s".to_owned(), cpu_s), ("memory, MB".to_owned(), memory_mb)];
        table.push((hosts as u64, figures));
    }
    Ok(table)
}
