//! `cargo xtask bench units`: the figures of SPECIFICATION.md's table of units.
//!
//! Warrener runs in a nested machine (`warren run`). Where `cargo xtask lab setup` has made
//! root file systems for the machines of `lab/`, Warrener and the systemd in
//! `$LAB/rootfs` (and `$LAB/rootfs-sid`) are booted there instead, one after the other in one run.
//! All are asked by the same stock systemctl. CPU is that of the manager's own processes; beside it
//! stands that of all that ran in its cgroup, where generators are.
//!
//! Arguments: `SETS...`, each with an optional `s` for slices (`4000s`); default: all of
//! 250, 1000, 4000 and 8000; up to 25000, of which no more than 9,000 have sockets and automounts that are up, for want
//! of descriptors, and no more than 11,111 services are started. systemd needs many minutes from 4,000 sets on: it is measured up to
//! `PEER_SETS_MAX` sets (default 1000), beyond 1,000 once and without what takes it the minutes:
//! listing the files, 500 mounts, all services. Needs root and a release build (`make build`).

pub mod console;
pub mod devices;
pub mod exporter;
pub mod fleet;
pub mod growth;
pub mod hostile;
pub mod hosts;
pub mod journal;
pub mod logins;
pub mod recording;
mod rows;
pub mod sandbox;
pub mod shutdown;
mod subject;
pub mod web;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::command::{output, root};
use subject::{Place, Subject};

/// What is measured when no sizes are given.
const SIZES_DEFAULT: [&str; 8] = ["250", "250s", "1000", "1000s", "4000", "4000s", "8000", "8000s"];

/// One layout.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Sets of units.
    pub sets: u32,
    /// With a slice for each.
    pub slices: bool,
}

impl Size {
    fn parse(text: &str) -> Result<Size> {
        let slices = text.ends_with('s');
        let sets = text.trim_end_matches('s').parse().with_context(|| format!("size {text}"))?;
        ensure!((10..=25_000).contains(&sets), "sizes are 10 to 25000");
        Ok(Size { sets, slices })
    }

    /// Sets whose sockets and automounts are up: each takes two descriptors, and there are 20,000 where the limit cannot
    /// be raised.
    fn wanted(self) -> u32 {
        self.sets.min(9_000)
    }

    fn label(self) -> String {
        format!("{}{}", self.sets, if self.slices { " sets, slices" } else { " sets" })
    }
}

/// Measures, prints the table, writes `bench/results/units.json`.
pub fn units(args: &[&str]) -> Result<()> {
    let sizes = if args.is_empty() { &SIZES_DEFAULT[..] } else { args };
    let sizes = sizes.iter().map(|text| Size::parse(text)).collect::<Result<Vec<_>>>()?;
    let programs = programs()?;
    let mut results = Vec::new();
    for size in sizes {
        for place in Place::available().into_iter().filter(|place| place.takes(size)) {
            println!("\n{} at {}", place.name(), size.label());
            match measure(&place, size, &programs) {
                Ok(rows) => results.push(json!({
                    "manager": place.name(), "sets": size.sets, "slices": size.slices,
                    "rows": rows,
                })),
                Err(error) => println!("  not measured: {error:#}"),
            }
        }
        // With the peers the last sizes take the longest: what there is by then is kept.
        write("units.json", &results)?;
    }
    Ok(())
}

fn measure(place: &Place, size: Size, programs: &std::path::Path) -> Result<Vec<Value>> {
    let subject = Subject::boot(place, size, programs)?;
    let measured = rows::all(&subject, size);
    let down = subject.down()?;
    let mut rows = measured?;
    rows.push(rows::print_row("power-off", Some(down), None, None));
    Ok(rows)
}

/// The directory of static release programs; `WARREN_PROGRAMS` names another one, to try a bench.
pub(crate) fn programs() -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os("WARREN_PROGRAMS") {
        return Ok(directory.into());
    }
    let host = output("rustc", &["-vV"])?;
    let host = host.lines().find_map(|l| l.strip_prefix("host: ")).context("rustc's host")?;
    let directory = root().join("target").join(host).join("release");
    ensure!(directory.join("warrend").exists(), "build first: make build");
    Ok(directory)
}

pub(crate) fn write(file: &str, results: &[Value]) -> Result<()> {
    let commit = output("git", &["rev-parse", "--short", "HEAD"])?;
    let date = warren_cli::render::date(warren_sys::time::realtime_ns() / 1000);
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let all = json!({
        "date": date, "commit": commit.trim(), "cpus": cpus, "kernel": kernel.trim(),
        "results": results,
    });
    let path = root().join("bench/results").join(file);
    fs::create_dir_all(path.parent().context("a directory")?)?;
    fs::write(&path, format!("{all:#}\n"))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}
