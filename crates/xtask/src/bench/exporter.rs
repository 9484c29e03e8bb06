//! `cargo xtask bench exporter [SETS]`: what a scrape of warren-exporter takes, at 8,000 sets with slices: 40,000 units.
//!
//! A nested manager over the layout of the tour; the exporter asks it over its control socket and reads its cgroups.
//! Scrapes are further apart than what the exporter shows again. Needs root and a release build (`make build`).

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warren_cli::output::span_us;

use super::subject::{Place, Subject};
use super::{Size, programs, write};

/// Sets of units, with slices, when no number is given.
const SETS_DEFAULT: u32 = 8_000;

/// Scrapes that are measured; the median counts.
const SCRAPES: usize = 15;

/// More than the time for which the exporter shows the same again.
const APART: Duration = Duration::from_millis(1_100);

/// Series at most (SPECIFICATION.md).
const SERIES_MAX: usize = 2_000;

/// Time of a scrape at most (SPECIFICATION.md).
const SCRAPE_MAX: Duration = Duration::from_millis(50);

/// The exporter, until the bench ends.
struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures and writes `bench/results/exporter.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let sets = match args {
        [] => SETS_DEFAULT,
        [number, ..] => number.parse().with_context(|| format!("{number} sets"))?,
    };
    let programs = programs()?;
    let subject = Subject::boot(&Place::Nested, Size { sets, slices: true }, &programs)?;
    let measured = measure(&subject, &programs);
    subject.down()?;
    let row = measured?;
    write("exporter.json", std::slice::from_ref(&row))?;
    let wall_us = row["wall_us"].as_u64().context("a time")?;
    ensure!(
        Duration::from_micros(wall_us) <= SCRAPE_MAX,
        "a scrape takes more than {SCRAPE_MAX:?}"
    );
    Ok(())
}

fn measure(subject: &Subject, programs: &Path) -> Result<Value> {
    let socket = std::env::temp_dir().join(format!("warren-exporter-{}", std::process::id()));
    let _ = fs::remove_file(&socket);
    let mut command = Command::new(programs.join("warren-exporter"));
    command.arg("--listen").arg(&socket).arg("--control").arg(subject.path("/run/warren/control"));
    command.arg("--cgroups").arg(subject.groups()?).stderr(Stdio::null());
    let exporter = Exporter(command.spawn().context("warren-exporter: build first: make build")?);
    let mut first = None;
    while first.is_none() {
        subject.manager_lives_for(Duration::from_millis(10))?;
        first = UnixStream::connect(&socket).ok();
    }
    // The first scrapes order the choice of those that use most, and find it made.
    for _ in 0..5 {
        scrape(&socket)?;
        subject.manager_lives_for(APART)?;
    }
    let (mut walls, cpu, of_exporter) = (Vec::new(), subject.cpu()?, cpu_of(exporter.0.id())?);
    let mut text = String::new();
    for _ in 0..SCRAPES {
        subject.manager_lives_for(APART)?;
        let began = Instant::now();
        text = scrape(&socket)?;
        walls.push(began.elapsed().as_micros() as u64);
    }
    let cpu = (subject.cpu()? - cpu).as_micros() as u64 / SCRAPES as u64;
    let of_exporter = (cpu_of(exporter.0.id())? - of_exporter).as_micros() as u64 / SCRAPES as u64;
    let _ = fs::remove_file(&socket);
    walls.sort_unstable();
    let (wall_us, worst_us) = (walls[SCRAPES / 2], walls[SCRAPES - 1]);
    let samples = text.lines().filter(|line| line.starts_with("warren_")).count();
    let value = |name: &str| -> Result<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.with_context(|| name.to_owned())?.parse()?)
    };
    let units = value("warren_units_loaded")? as u64;
    let sweep = value("warren_exporter_sweep_seconds")?;
    ensure!(samples < SERIES_MAX, "{samples} series");
    println!(
        "{units} units: a scrape {} (the longest {}), {samples} series, {} bytes; CPU of the manager {}, of the \
         exporter {}; a sweep {}",
        span_us(wall_us),
        span_us(worst_us),
        text.len(),
        span_us(cpu),
        span_us(of_exporter),
        span_us((sweep * 1e6) as u64),
    );
    Ok(
        json!({"units": units, "wall_us": wall_us, "worst_us": worst_us, "series": samples, "bytes": text.len(),
        "manager_cpu_us": cpu, "exporter_cpu_us": of_exporter, "sweep_us": (sweep * 1e6) as u64}),
    )
}

fn scrape(socket: &Path) -> Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    ensure!(text.contains("\nwarren_up 1\n"), "{text}");
    Ok(text)
}

/// CPU time so far of a process with all its threads, those that ended included; proc(5), `stat`.
pub(super) fn cpu_of(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |at: usize| fields.get(at).and_then(|n| n.parse::<u64>().ok()).context("utime, stime");
    // Ticks are 10 ms; over all scrapes that is exact enough.
    Ok(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}
