//! `logs`: what many hosts' own logs say, by ssh(1).
//!
//! - Owns: connections, so many at once, and the lines that come back.
//! - Runs a thread for each host; lines are printed whole, with the host's name before them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use warren_hosts::host::Host;
use warren_hosts::names::HostId;

use super::apps;
use super::show::has_labels;
use super::text::clean;
use crate::site::Site;

/// Connections at once.
const HOSTS_AT_ONCE: usize = 32;

/// Bytes of the names of units that are asked for on a host: a shell there takes 128 KiB in a word.
const UNITS_BYTES_MAX: usize = 64 << 10;

/// Bytes of a line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Which logs of which hosts.
#[derive(Debug, clap::Args)]
pub(super) struct LogsArgs {
    /// Only units of this container, or of containers of this group
    pub app: Option<String>,
    /// Only hosts with this label, `NAME=VALUE`; may be given again
    #[arg(long, short, value_name = "LABEL")]
    pub label: Vec<String>,
    /// Go on with what is logged from now on
    #[arg(long, short)]
    pub follow: bool,
    /// The last lines of each host
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    pub lines: u32,
    /// The program to connect with
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub ssh: String,
}

pub(super) fn logs(site: &Site, args: &LogsArgs) -> Result<i32> {
    let hosts = site.hosts()?;
    let hosts: Vec<&Host> =
        hosts.values().filter(|host| host.is_there() && has_labels(host, &args.label)).collect();
    ensure!(!hosts.is_empty(), "no host that is online has these labels");
    let asked = asked(site, args.app.as_deref(), &hosts)?;
    let hosts: Vec<(&Host, &[String])> =
        hosts.into_iter().filter_map(|host| Some((host, &**asked.get(&host.id)?))).collect();
    let limit = if args.follow { hosts.len() } else { HOSTS_AT_ONCE };
    ensure!(
        limit <= HOSTS_AT_ONCE,
        "{} hosts are too many to follow at once, at most {HOSTS_AT_ONCE}: choose some by --label",
        hosts.len()
    );
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let out = Mutex::new(std::io::stdout());
    std::thread::scope(|scope| {
        for _ in 0..limit.min(hosts.len()) {
            scope.spawn(|| {
                while let Some((host, units)) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = one(host, units, args, &out) {
                        warren_sys::tell!("{}: {why:#}", host.id);
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Ok(i32::from(failed.into_inner()))
}

/// The words that ask each host for the units of an application; hosts that have none are left out.
fn asked(site: &Site, app: Option<&str>, hosts: &[&Host]) -> Result<BTreeMap<HostId, Vec<String>>> {
    let Some(app) = app else {
        return Ok(hosts.iter().map(|host| (host.id.clone(), Vec::new())).collect());
    };
    let (units, unknown) = apps::some_units(site, app, hosts.iter().copied())?;
    let mut out = BTreeMap::new();
    for (id, units) in units {
        out.insert(id.clone(), words(&units).with_context(|| format!("{app} on {id}"))?);
    }
    if !unknown.is_empty() {
        // The shell there sees this.
        ensure!(
            warren_hosts::names::is_name(app),
            "{app:?} is not a valid application name, and what its units are is not known"
        );
        let by_name = vec!["-u".to_owned(), format!("'{app}-*'"), "-u".to_owned(), app.to_owned()];
        out.extend(unknown.into_iter().map(|id| (id, by_name.clone())));
    }
    Ok(out)
}

/// The words that ask for these units; a shell sees them.
fn words(units: &[Box<str>]) -> Result<Vec<String>> {
    let bytes: usize = units.iter().map(|unit| unit.len()).sum();
    if bytes > UNITS_BYTES_MAX {
        bail!(
            "its {} units are too many to ask for at once; choose a container or a smaller group",
            units.len()
        );
    }
    let quoted = |unit: &str| format!("'{}'", unit.replace('\'', "'\\''"));
    Ok(units.iter().flat_map(|unit| ["-u".to_owned(), quoted(unit)]).collect())
}

/// Where a host is reached: what it registered, else its name.
fn address(host: &Host) -> &str {
    let address = host.registration.as_ref().map(|registration| &*registration.facts.address);
    address.filter(|address| !address.is_empty()).unwrap_or(host.id.as_str())
}

fn one(host: &Host, units: &[String], args: &LogsArgs, out: &Mutex<std::io::Stdout>) -> Result<()> {
    let address = address(host);
    ensure!(!address.starts_with('-'), "{address:?} is not an address");
    let mut ssh = Command::new(&args.ssh);
    ssh.args(["-x", "-o", "BatchMode=yes", "--", address, "warren", "logs", "-o", "short-iso"]);
    ssh.arg("-n").arg(args.lines.to_string());
    ssh.args(args.follow.then_some("-f"));
    ssh.args(units).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = ssh.spawn().with_context(|| args.ssh.clone())?;
    let mut lines = BufReader::new(child.stdout.take().context("no pipe")?);
    loop {
        let mut line = Vec::new();
        let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        let line = clean(String::from_utf8_lossy(&line).trim_end_matches('\n'));
        let mut out = out.lock().unwrap_or_else(|e| e.into_inner());
        if writeln!(out, "{} {line}", host.id).is_err() {
            // A reader that has seen enough closes the pipe.
            let _ = child.kill();
            break;
        }
    }
    let status = child.wait()?;
    ensure!(status.success() || status.code().is_none(), "{} ended with {status}", args.ssh);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_asked_for_by_names_that_a_shell_leaves_alone() {
        let asked = words(&["a-web.service".into(), "x\\x2d$(id)'.service".into()]).expect("few");
        assert_eq!(asked, ["-u", "'a-web.service'", "-u", "'x\\x2d$(id)'\\''.service'"]);
        let many: Vec<Box<str>> = (0..10_000).map(|n| format!("u{n}.service").into()).collect();
        let why = words(&many).expect_err("too many").to_string();
        assert!(why.starts_with("its 10000 units are too many"), "{why}");
    }
}
