//! `cargo xtask bench recording [SERVICES]`: which part of the manager's CPU time its recording takes.
//!
//! A nested machine starts so many services at once and ends, under perf(1). What the functions of
//! `RECORDING` take themselves is recording, with what the kernel takes to add up a cgroup's counters
//! for it. What the compiler has put into their callers is not in it: the figure is a lower bound, and
//! beside it stands what the same files come to when each sample is put down to the source of its
//! innermost function (`--sort srcfile`). Needs root, perf(1), addr2line(1), a release build
//! (`make build`).

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use warren_cli::nest::started::{Nested, Over};
use warren_wire::control::{Job, JobType, Leave, LeaveHow};

use super::{programs, write};
use crate::command::output;

/// Services when no number is given.
const SERVICES_DEFAULT: u32 = 2000;

/// Samples a second.
const FREQUENCY: &str = "5000";

/// Parts of names of functions that are there for recordings alone.
const RECORDING: [&str; 9] = [
    "::record_jobs::",
    "::record_names::",
    "::record_ring::",
    "::recorder::",
    "::records::",
    "::happening::",
    "warren_trace::",
    "cpu_stat_show",
    "cgroup_base_stat",
];

/// The files that they are in.
const FILES: [&str; 6] = [
    "record_jobs.rs",
    "record_names.rs",
    "record_ring.rs",
    "recorder.rs",
    "records.rs",
    "happening.rs",
];

/// Measures and writes `bench/results/recording.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let services = match args {
        [] => SERVICES_DEFAULT,
        [number, ..] => number.parse().with_context(|| format!("{number} services"))?,
    };
    let scratch = std::env::temp_dir().join(format!("warren-recording-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let measured = measure(services, &scratch);
    let _ = fs::remove_dir_all(&scratch);
    let (by_function, by_file) = measured?;
    println!(
        "{services} services started and stopped: {by_function:.2} % by function, {by_file:.2} % by file"
    );
    write(
        "recording.json",
        &[json!({"services": services, "by_function": by_function, "by_file": by_file})],
    )
}

/// Percent of the samples: by function and by file.
fn measure(services: u32, scratch: &Path) -> Result<(f64, f64)> {
    let units = scratch.join("units");
    fs::create_dir(&units)?;
    let mut all = String::from("[Unit]\n");
    for number in 0..services {
        all += &format!("Wants=s{number}.service\n");
        let text = "[Service]\nExecStart=/bin/sleep infinity\n";
        fs::write(units.join(format!("s{number}.service")), text)?;
    }
    fs::write(units.join("all.target"), all)?;
    fs::write(units.join("quiet.target"), "[Unit]\n")?;
    let over = Over { flag: "--units", directory: &units, target: "quiet.target", sets: services };
    let nested = Nested::over(&programs()?.join("warren"), scratch, &over)?;
    let data = scratch.join("perf.data");
    let mut perf = begin_perf(&manager_of(nested.machine.pid)?, &data, scratch)?;
    let (unit, job_type) = (Some("all.target".to_owned()), Some(JobType::Start));
    nested.call(&Job { unit, job_type, ..Job::default() })?;
    nested.call(&Leave { how: Some(LeaveHow::Poweroff), ..Leave::default() })?;
    nested.wait()?;
    ensure!(perf.wait()?.success(), "perf record failed");
    let part = |sort: &str, names: &[&str]| part_of(&data, sort, names);
    Ok((part("sym", &RECORDING)?, part("srcfile", &FILES)?))
}

/// Starts perf(1), which has begun when this returns.
fn begin_perf(pid: &str, data: &Path, scratch: &Path) -> Result<Child> {
    let (control, said) = (scratch.join("control"), scratch.join("said"));
    ensure!(Command::new("mkfifo").args([&control, &said]).status()?.success(), "mkfifo(1)");
    let fifos = format!("fifo:{},{}", control.display(), said.display());
    let perf = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", FREQUENCY, "-p", pid])
        .args(["-D", "-1", "--control", &fifos, "-o"])
        .arg(data)
        .stdin(Stdio::null())
        .spawn()
        .context("perf(1)")?;
    fs::write(&control, "enable\n")?;
    // It answers when it counts.
    let mut answer = [0; 3];
    fs::File::open(&said)?.read_exact(&mut answer)?;
    ensure!(&answer == b"ack", "perf(1) does not begin");
    Ok(perf)
}

/// The child of process 1 that is the manager, as perf takes it.
fn manager_of(init: i32) -> Result<String> {
    let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children"))?;
    let is_manager = |pid: &&str| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "warrend")
    };
    let pid = children.split_whitespace().find(is_manager);
    Ok(pid.context("no manager runs")?.to_owned())
}

/// Percent of the samples whose key has one of these names in it.
fn part_of(data: &Path, sort: &str, names: &[&str]) -> Result<f64> {
    let path = data.to_str().context("the path is text")?;
    let report = output("perf", &["report", "--stdio", "-i", path, "--sort", sort])?;
    let percent = |line: &str| line.split('%').next()?.trim().parse::<f64>().ok();
    let ours = report.lines().filter(|line| names.iter().any(|name| line.contains(name)));
    Ok(ours.filter_map(percent).sum())
}
