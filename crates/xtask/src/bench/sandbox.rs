//! `cargo xtask bench sandbox [SERVICES]`: what protection costs at the start of services.
//!
//! A machine of the lab starts so many services at once, whose program does nothing: without any protection, with the
//! one of Debian's redis-server, and with all that there is. CPU is that of everything in the machine, which is the
//! manager's own work, its helpers' and the kernel's for both; the median of [`RUNS`] runs. Needs root, the lab and
//! a release build (`make build`).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::subject::{Place, scope_of};
use crate::lab;

/// Services when no number is given.
const SERVICES_DEFAULT: usize = 1000;

/// Runs of each, of which the one in the middle counts.
const RUNS: usize = 3;

/// Name of the machine in the lab.
const LAB_NAME: &str = "bench-sandbox";

const TARGET: &str = "bench.target";

/// What services ask for.
const KINDS: [(&str, &str); 3] = [
    ("nothing", ""),
    (
        "redis-server",
        "User=daemon\nRuntimeDirectory=%p\nRuntimeDirectoryMode=2755\nUMask=007\nPrivateTmp=yes\n\
         LimitNOFILE=20000\nPrivateDevices=yes\nProtectHome=yes\nReadOnlyDirectories=/\n\
         ReadWritePaths=-/var/lib/redis -/var/log/redis -/run/redis\nCapabilityBoundingSet=\n\
         LockPersonality=true\nMemoryDenyWriteExecute=true\nNoNewPrivileges=true\n\
         PrivateUsers=true\nProtectClock=true\nProtectControlGroups=true\nProtectHostname=true\n\
         ProtectKernelLogs=true\nProtectKernelModules=true\nProtectKernelTunables=true\n\
         ProtectProc=invisible\nRemoveIPC=true\nRestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX\n\
         RestrictNamespaces=true\nRestrictRealtime=true\nRestrictSUIDSGID=true\n\
         SystemCallArchitectures=native\nSystemCallFilter=@system-service\n\
         SystemCallFilter=~@privileged @resources\nProtectSystem=full\n",
    ),
    (
        "everything",
        "User=daemon\nStateDirectory=%p\nPrivateTmp=yes\nPrivateDevices=yes\nPrivateNetwork=yes\n\
         PrivateIPC=yes\nPrivateUsers=yes\nProtectSystem=strict\nProtectHome=tmpfs\n\
         ProtectClock=yes\nProtectControlGroups=yes\nProtectHostname=yes\nProtectKernelLogs=yes\n\
         ProtectKernelModules=yes\nProtectKernelTunables=yes\nProtectProc=invisible\n\
         TemporaryFileSystem=/opt\nInaccessiblePaths=/srv\nBindReadOnlyPaths=/etc:/opt/etc\n\
         CapabilityBoundingSet=\nNoNewPrivileges=yes\nLockPersonality=yes\n\
         MemoryDenyWriteExecute=yes\nRestrictAddressFamilies=AF_UNIX\nRestrictNamespaces=yes\n\
         RestrictRealtime=yes\nRestrictSUIDSGID=yes\nSystemCallArchitectures=native\n\
         SystemCallFilter=@system-service\nIPAddressDeny=any\nSetCredential=a:b\n",
    ),
];

/// Measures, prints the table, writes `bench/results/sandbox.json`.
pub fn run(args: &[&str]) -> Result<()> {
    ensure!(lab::is_there(), "NOT RUN: {}", lab::NO_LAB);
    let services = match args {
        [] => SERVICES_DEFAULT,
        [number, ..] => number.parse().with_context(|| format!("{number} services"))?,
    };
    let programs = super::programs()?;
    let units = std::env::temp_dir().join(format!("warren-bench-sandbox-{}", std::process::id()));
    let mut results = Vec::new();
    for (kind, settings) in KINDS {
        println!("\n{services} services with {kind}");
        for place in Place::available() {
            results.push(measure(&place, (kind, settings), services, &programs, &units));
        }
    }
    let _ = fs::remove_dir_all(&units);
    super::write("sandbox.json", &results)
}

fn measure(
    place: &Place,
    (kind, settings): (&str, &str),
    services: usize,
    programs: &Path,
    units: &Path,
) -> Value {
    let runs: Result<Vec<(Duration, Duration)>> =
        (0..RUNS).map(|_| one(place, settings, services, programs, units)).collect();
    let name = place.name();
    match runs {
        Ok(mut runs) => {
            runs.sort();
            let (cpu, wall) = runs[RUNS / 2];
            let (cpu, wall) = (cpu.as_secs_f64(), wall.as_secs_f64());
            println!("  {name:16} {cpu:8.2} CPU s {wall:8.2} s");
            json!({"kind": kind, "manager": name, "services": services, "cpu_s": cpu, "wall_s": wall})
        }
        Err(error) => {
            println!("  {name:16} not measured: {error:#}");
            json!({"kind": kind, "manager": name, "error": format!("{error:#}")})
        }
    }
}

/// One machine that starts them all: CPU time of all in it, and time on the clock.
fn one(
    place: &Place,
    settings: &str,
    services: usize,
    programs: &Path,
    units: &Path,
) -> Result<(Duration, Duration)> {
    let Place::Lab(_, rootfs, init) = place else { anyhow::bail!("no machine of the lab") };
    lab::copy_programs(LAB_NAME, programs)?;
    write_units(units, settings, services)?;
    let init = init.replace("/lab/bench/", &format!("/lab/{LAB_NAME}/"));
    let machine = lab::Machine::boot(LAB_NAME, rootfs, &init, units)?;
    let measured = start(machine.pid, services);
    let removed = machine.down();
    let measured = measured?;
    removed?;
    Ok(measured)
}

fn write_units(directory: &Path, settings: &str, services: usize) -> Result<()> {
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory)?;
    let names: Vec<String> = (0..services).map(|n| format!("bench-{n}.service")).collect();
    for name in &names {
        let text = format!(
            "[Service]\nType=oneshot\nRemainAfterExit=yes\nStandardOutput=null\n\
             ExecStart=/bin/true\n{settings}"
        );
        fs::write(directory.join(name), text)?;
    }
    fs::write(directory.join(TARGET), format!("[Unit]\nWants={}\n", names.join(" ")))?;
    Ok(())
}

fn start(pid: i32, services: usize) -> Result<(Duration, Duration)> {
    // Of the machine, whose process 1 is in a group of its own.
    let all = scope_of(pid)?.parent().map(PathBuf::from).context("a group above")?;
    let (before, began) = (cpu(&all)?, Instant::now());
    let status = lab::inside(pid, &["systemctl", "start", TARGET]).status()?;
    ensure!(status.success(), "systemctl start {TARGET}: {status}");
    let took = began.elapsed();
    let used = cpu(&all)?.saturating_sub(before);
    let words = ["systemctl", "list-units", "--state=active", "--no-legend", "bench-*.service"];
    let active = lab::inside(pid, &words).output()?;
    let active = String::from_utf8_lossy(&active.stdout).lines().count();
    ensure!(active == services, "{active} of {services} services were started");
    Ok((used, took))
}

fn cpu(group: &Path) -> Result<Duration> {
    let path = group.join("cpu.stat");
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let us = text.lines().find_map(|l| l.strip_prefix("usage_usec ")?.parse().ok());
    us.map(Duration::from_micros).context("usage_usec")
}
