//! `cargo xtask bench console [SETS [PROGRAM]]`: what a second of `warren top` takes, at 8,000 sets with slices: 40,000 units.
//!
//! A nested manager over the layout of the tour, all sockets up; script(1) gives `warren top` a terminal of 80 columns and
//! 24 rows. Measured in rest, with the table of units on the screen, and with another key twice a second. Needs root and
//! a release build (`make build`).

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warren_cli::output::span_us;

use super::exporter::cpu_of;
use super::subject::{Place, Subject};
use super::{Size, programs, write};

/// Sets of units, with slices, when no number is given.
const SETS_DEFAULT: u32 = 8_000;

/// Seconds of each measurement.
const SECONDS: u64 = 20;

/// CPU time of a second at most (SPECIFICATION.md).
const CPU_MAX: [(&str, Duration); 2] =
    [("rest", Duration::from_millis(100)), ("keys", Duration::from_millis(250))];

/// Until the first sweeps are over.
const SETTLES: Duration = Duration::from_secs(15);

/// Keys that are pressed one after the other: tables, sorting, a filter and its end.
const KEYS: [&str; 8] = ["5", ">", "3", "j", "/web", "\x1b", "t", "t"];

/// The terminal, until the bench ends.
struct Terminal(Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What was used up to a moment.
struct Used {
    console: Duration,
    calls: u64,
    manager: Duration,
}

impl Used {
    fn read(pid: u32, subject: &Subject) -> Result<Used> {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).context("warren top has ended")?;
        let count = |key: &str| {
            io.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok())
        };
        let calls = count("syscr:").unwrap_or(0) + count("syscw:").unwrap_or(0);
        Ok(Used { console: cpu_of(pid)?, calls, manager: subject.cpu()? })
    }

    /// In each second since `before`.
    fn since(&self, before: &Used) -> Value {
        let each = |now: Duration, before: Duration| (now - before).as_micros() as u64 / SECONDS;
        json!({
            "console_cpu_us": each(self.console, before.console),
            "reads_and_writes": (self.calls - before.calls) / SECONDS,
            "manager_cpu_us": each(self.manager, before.manager),
        })
    }
}

/// Measures and writes `bench/results/console.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let sets = match args {
        [] => SETS_DEFAULT,
        [number, ..] => number.parse().with_context(|| format!("{number} sets"))?,
    };
    let programs = programs()?;
    // Another one may be measured beside it.
    let own = programs.join("warren").display().to_string();
    let warren = args.get(1).copied().unwrap_or(&own);
    let subject = Subject::boot(&Place::Nested, Size { sets, slices: true }, &programs)?;
    let measured = measure(&subject, warren);
    subject.down()?;
    let row = measured?;
    write("console.json", std::slice::from_ref(&row))?;
    for (name, most) in CPU_MAX {
        let took = Duration::from_micros(row[name]["console_cpu_us"].as_u64().context("a time")?);
        ensure!(took <= most, "a second of {name} takes more than {most:?}");
    }
    Ok(())
}

fn measure(subject: &Subject, warren: &str) -> Result<Value> {
    let command = format!("stty cols 80 rows 24; exec {warren} --machine {} top", subject.pid);
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--return", "--command", &command, "/dev/null"]);
    script.stdin(Stdio::piped()).stdout(Stdio::null()).env("TERM", "xterm");
    let mut terminal = Terminal(script.spawn().context("script(1)")?);
    let mut keys = terminal.0.stdin.take().context("its keys")?;
    subject.manager_lives_for(SETTLES)?;
    let pid = child_of(terminal.0.id())?;
    keys.write_all(b"3")?;
    subject.manager_lives_for(Duration::from_secs(1))?;

    let before = Used::read(pid, subject)?;
    subject.manager_lives_for(Duration::from_secs(SECONDS))?;
    let rest = Used::read(pid, subject)?.since(&before);

    let before = Used::read(pid, subject)?;
    for index in 0..2 * SECONDS as usize {
        keys.write_all(KEYS[index % KEYS.len()].as_bytes())?;
        subject.manager_lives_for(Duration::from_millis(500))?;
    }
    let busy = Used::read(pid, subject)?.since(&before);
    let resident = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let resident =
        resident.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    for (name, used) in [("rest", &rest), ("two keys a second", &busy)] {
        let us = |key: &str| span_us(used[key].as_u64().unwrap_or(0));
        println!(
            "{name}: each second {} of CPU, {} reads and writes; the manager {}",
            us("console_cpu_us"),
            used["reads_and_writes"],
            us("manager_cpu_us"),
        );
    }
    println!("resident {}", resident.trim());
    keys.write_all(b"\x1b\x1bq")?;
    Ok(json!({"rest": rest, "keys": busy, "resident": resident.trim()}))
}

/// The program that script(1) runs: its shell has become it.
fn child_of(pid: u32) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    children
        .split_whitespace()
        .next()
        .and_then(|pid| pid.parse().ok())
        .context("warren top has ended")
}
