//! `cargo xtask bench shutdown`: how long a machine takes from the order to power off to the end of
//! its process 1, which in a container is the moment of reboot(2).
//!
//! Whole machines are booted by the scripts of `lab/` (`cargo xtask lab setup` once); Warrener and the systemd in `$LAB/rootfs` (and `$LAB/rootfs-sid`) are booted there
//! one after the other over the same unit files, driven by the same stock systemctl, and told by
//! the same signal. The load of the machine stands beside each figure. systemd is left out where
//! it would take many minutes only to boot (`PEER_SETS_MAX`, default 1000).
//!
//! `PEERS` names a directory with Debian's packages of runit, s6, finit and OpenRC, unpacked: then
//! these are measured too, by `bench/shutdown-peers.sh`, with the same numbers of processes and no
//! units beside them, and so is what none can be faster than, one write to cgroup.kill.
//!
//! Arguments: words that the names of cases are to contain.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warren_cli::tour::layout::{self, Extent};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::process;

use super::subject::Place;
use crate::lab;

/// Name of the machine in the lab, and of the directory of our programs there.
const LAB_NAME: &str = "bench-shutdown";

/// What all units of a case are wanted by.
const TARGET: &str = "bench.target";

/// Times that each case is measured; the median counts.
const RUNS: usize = 3;

/// systemd(1): SIGRTMIN+4 powers off.
const POWER_OFF: i32 = 34 + 4;

/// A machine that has not ended by then never will.
const END_MAX: Duration = Duration::from_secs(600);

/// Larger cases are for those who can boot them soon.
const PEER_SETS_MAX_DEFAULT: u32 = 1000;

/// A load on the machine that is ended.
struct Case {
    name: &'static str,
    /// Sets of the tour's layout, their sockets and automounts up.
    sets: u32,
    /// Services of the sets that run.
    running: u32,
    /// Services beside them.
    services: Vec<Service>,
    /// What no manager can be faster than.
    least: Duration,
}

/// A service that does nothing until it is stopped.
struct Service {
    name: String,
    text: String,
}

impl Case {
    fn all() -> Vec<Case> {
        let case = |name, sets, running, services| {
            let least = Duration::ZERO;
            Case { name, sets, running, services, least }
        };
        let (graph, longest) = graph_of_83();
        let deaf = "ExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 9; done'";
        let (deaf, two) = (format!("TimeoutStopSec=2\n{deaf}"), Duration::from_secs(2));
        vec![
            case("empty machine", 0, 0, Vec::new()),
            Case { least: longest, ..case("83 services in 9 layers", 0, 0, graph) },
            Case { least: two, ..case("50 that ignore SIGTERM", 0, 0, many(50, &deaf)) },
            case("500 services", 0, 0, many(500, SLEEPS)),
            case("4000 services", 4000, 4000, Vec::new()),
            case("1000 sets, 20 running", 1000, 20, Vec::new()),
            case("4000 sets, 20 running", 4000, 20, Vec::new()),
        ]
    }

    fn is_for(&self, place: &Place) -> bool {
        let bound = std::env::var("PEER_SETS_MAX").ok().and_then(|n| n.parse().ok());
        let ours = place.name().starts_with("warrener");
        ours || self.sets <= bound.unwrap_or(PEER_SETS_MAX_DEFAULT)
    }

    fn write(&self, directory: &Path, echo: &Path) -> Result<()> {
        let _ = fs::remove_dir_all(directory);
        let (sets, wanted) = (self.sets, self.sets);
        layout::write(directory, Extent { sets, wanted, slices: false }, echo)?;
        let running = (1..=self.running).map(layout::service);
        let names: Vec<String> =
            self.services.iter().map(|s| s.name.clone()).chain(running).collect();
        let text = format!("[Unit]\nWants={}\n", names.join(" "));
        fs::write(directory.join(TARGET), text)?;
        for service in &self.services {
            fs::write(directory.join(&service.name), &service.text)?;
        }
        Ok(())
    }
}

/// A service of nothing but a process that waits.
const SLEEPS: &str = "ExecStart=/bin/sleep infinity";

fn many(count: usize, text: &str) -> Vec<Service> {
    let service =
        |n| Service { name: format!("bench-{n}.service"), text: format!("[Service]\n{text}\n") };
    (0..count).map(service).collect()
}

/// 83 services in 9 layers, each ordered after two of the layer below, and the time of the longest
/// chain of their stop commands.
fn graph_of_83() -> (Vec<Service>, Duration) {
    const LAYERS: usize = 9;
    let layer = |n: usize| n * LAYERS / 83;
    let stop_ms = |n: usize| match n % 20 {
        0 => 400,
        1..=4 => 20 + (n * 37 % 100),
        _ => 2 + n * 7 % 18,
    };
    let after = |n: usize| -> Vec<usize> {
        let below: Vec<usize> = (0..n).filter(|&other| layer(other) + 1 == layer(n)).collect();
        let pick = |step: usize| below.get((n * step) % below.len().max(1)).copied();
        [pick(5), pick(11)].into_iter().flatten().collect()
    };
    let mut until = [0; 83];
    for n in (0..83).rev() {
        let before = (n..83).filter(|&other| after(other).contains(&n)).map(|other| until[other]);
        until[n] = stop_ms(n) + before.max().unwrap_or(0);
    }
    let service = |n: usize| {
        let after: Vec<String> = after(n).iter().map(|n| format!("bench-{n}.service")).collect();
        let (after, stop) = (after.join(" "), stop_ms(n) as f64 / 1000.0);
        Service {
            name: format!("bench-{n}.service"),
            text: format!(
                "[Unit]\nAfter={after}\n[Service]\n{SLEEPS}\nExecStop=/bin/sleep {stop}\n"
            ),
        }
    };
    let longest = until.into_iter().max().unwrap_or(0);
    ((0..83).map(service).collect(), Duration::from_millis(longest as u64))
}

/// Measures, prints the table, writes `bench/results/shutdown.json`.
pub fn run(words: &[&str]) -> Result<()> {
    ensure!(lab::is_there(), "NOT RUN: {}", lab::NO_LAB);
    let programs = super::programs()?;
    let units = std::env::temp_dir().join(format!("warren-bench-shutdown-{}", std::process::id()));
    let mut results = Vec::new();
    let wanted = |case: &Case| words.is_empty() || words.iter().any(|w| case.name.contains(w));
    for case in Case::all().iter().filter(|case| wanted(case)) {
        println!("\n{}, at least {:.3} s", case.name, case.least.as_secs_f64());
        for place in Place::available().iter().filter(|place| case.is_for(place)) {
            results.push(measure(place, case, &programs, &units));
        }
    }
    let _ = fs::remove_dir_all(&units);
    if let Some(packages) = std::env::var_os("PEERS") {
        let wanted = |name: &str| words.is_empty() || words.iter().any(|w| name.contains(w));
        for peer in PEER_CASES.iter().filter(|peer| wanted(peer.case)) {
            results.push(measure_peer(peer, Path::new(&packages)));
        }
    }
    super::write("shutdown.json", &results)
}

/// A case of another manager's.
struct PeerCase {
    case: &'static str,
    manager: &'static str,
    count: u32,
    /// `quiet` or `deaf`.
    kind: &'static str,
}

/// OpenRC is left out at 4,000: it starts as many shells side by side.
const PEER_CASES: &[PeerCase] = &{
    const fn peer(
        case: &'static str,
        count: u32,
        kind: &'static str,
        manager: &'static str,
    ) -> PeerCase {
        PeerCase { case, manager, count, kind }
    }
    [
        peer("empty machine", 0, "quiet", "runit"),
        peer("empty machine", 0, "quiet", "s6"),
        peer("empty machine", 0, "quiet", "finit"),
        peer("empty machine", 0, "quiet", "openrc"),
        peer("50 that ignore SIGTERM", 50, "deaf", "runit"),
        peer("50 that ignore SIGTERM", 50, "deaf", "s6"),
        peer("50 that ignore SIGTERM", 50, "deaf", "finit"),
        peer("50 that ignore SIGTERM", 50, "deaf", "openrc"),
        peer("500 services", 500, "quiet", "runit"),
        peer("500 services", 500, "quiet", "s6"),
        peer("500 services", 500, "quiet", "finit"),
        peer("500 services", 500, "quiet", "openrc"),
        peer("500 services", 500, "quiet", "kill"),
        peer("4000 services", 4000, "quiet", "runit"),
        peer("4000 services", 4000, "quiet", "s6"),
        peer("4000 services", 4000, "quiet", "finit"),
        peer("4000 services", 4000, "quiet", "kill"),
    ]
};

fn measure_peer(peer: &PeerCase, packages: &Path) -> Value {
    let PeerCase { case, manager, count, kind } = peer;
    let runs: Result<Vec<(f64, String)>> =
        (0..RUNS).map(|_| one_peer(packages, manager, *count, kind)).collect();
    match runs {
        Ok(mut runs) => {
            runs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (s, load) = &runs[RUNS / 2];
            println!("{case}: {manager:16} {s:8.3} s   (load {load})");
            let all: Vec<f64> = runs.iter().map(|(s, _)| *s).collect();
            json!({"case": case, "manager": manager, "s": s, "runs_s": all, "load": load})
        }
        Err(error) => json!({"case": case, "manager": manager, "error": format!("{error:#}")}),
    }
}

fn one_peer(packages: &Path, manager: &str, count: u32, kind: &str) -> Result<(f64, String)> {
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    let mut command = Command::new("sh");
    command.arg("bench/shutdown-peers.sh").arg(packages);
    let output = command.args([manager, &count.to_string(), kind]).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let seconds = said.lines().last().and_then(|line| line.trim().parse().ok());
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((seconds.with_context(|| format!("{manager}: {complaint}"))?, load))
}

fn measure(place: &Place, case: &Case, programs: &Path, units: &Path) -> Value {
    let runs: Result<Vec<(Duration, String)>> =
        (0..RUNS).map(|_| one(place, case, programs, units)).collect();
    let name = place.name();
    match runs {
        Ok(mut runs) => {
            runs.sort();
            let (took, load) = &runs[RUNS / 2];
            println!("  {name:16} {:8.3} s   (load {load})", took.as_secs_f64());
            let all: Vec<f64> = runs.iter().map(|(took, _)| took.as_secs_f64()).collect();
            json!({"case": case.name, "manager": name, "s": took.as_secs_f64(), "runs_s": all,
                "load": load, "least_s": case.least.as_secs_f64()})
        }
        Err(error) => {
            println!("  {name:16} not measured: {error:#}");
            json!({"case": case.name, "manager": name, "error": format!("{error:#}")})
        }
    }
}

/// One machine from its boot to its end; how long the end took, and the load before it.
fn one(place: &Place, case: &Case, programs: &Path, units: &Path) -> Result<(Duration, String)> {
    let Place::Lab(_, rootfs, init) = place else { anyhow::bail!("no machine of the lab") };
    let directory = lab::copy_programs(LAB_NAME, programs)?;
    case.write(units, &directory.join("warren-echo"))?;
    let init = init.replace("/lab/bench/", &format!("/lab/{LAB_NAME}/"));
    let machine = lab::Machine::boot(LAB_NAME, rootfs, &init, units)?;
    let measured = end_machine(machine.pid);
    let removed = machine.down();
    let measured = measured?;
    removed?;
    Ok(measured)
}

fn end_machine(pid: i32) -> Result<(Duration, String)> {
    start_all(pid)?;
    let (pidfd, epoll) = (process::pidfd_open(pid)?, Epoll::new()?);
    epoll.add(&pidfd, 0, Interest::READ)?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let began = Instant::now();
    process::kill(pid, POWER_OFF)?;
    let mut events = Events::with_capacity(1);
    epoll.wait(&mut events, Some(END_MAX))?;
    ensure!(!events.is_empty(), "it has not ended after {} s", END_MAX.as_secs());
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    Ok((began.elapsed(), load))
}

fn start_all(pid: i32) -> Result<()> {
    let status = lab::inside(pid, &["systemctl", "start", TARGET]).status()?;
    ensure!(status.success(), "systemctl start {TARGET}: {status}");
    Ok(())
}
