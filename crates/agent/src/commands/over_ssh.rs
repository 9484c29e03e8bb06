//! `logs`: what many hosts' own logs say, by ssh(1).
//!
//! - Owns: connections, so many at once, and the lines that come back.
//! - Runs a thread for each host; lines are printed whole, with the host's name before them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use warren_hosts::host::Host;

use super::show::has_labels;
use super::text::clean;
use crate::site::Site;

/// Connections at once.
const HOSTS_AT_ONCE: usize = 32;

/// Bytes of a line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Which logs of which hosts.
#[derive(Debug, clap::Args)]
pub(super) struct LogsArgs {
    /// Only units of this application
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
                while let Some(host) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = one(host, args, &out) {
                        warren_sys::tell!("{}: {why:#}", host.id);
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Ok(i32::from(failed.into_inner()))
}

/// Where a host is reached: what it registered, else its name.
fn address(host: &Host) -> &str {
    let address = host.registration.as_ref().map(|registration| &*registration.facts.address);
    address.filter(|address| !address.is_empty()).unwrap_or(host.id.as_str())
}

fn one(host: &Host, args: &LogsArgs, out: &Mutex<std::io::Stdout>) -> Result<()> {
    let address = address(host);
    ensure!(!address.starts_with('-'), "{address:?} is not an address");
    let mut ssh = Command::new(&args.ssh);
    ssh.args(["-x", "-o", "BatchMode=yes", "--", address, "warren", "logs", "-o", "short-iso"]);
    ssh.arg("-n").arg(args.lines.to_string());
    ssh.args(args.follow.then_some("-f"));
    if let Some(app) = &args.app {
        // The shell there sees this.
        ensure!(warren_hosts::names::is_name(app), "{app:?} is not a valid application name");
        ssh.args(["-u", &format!("'{app}-*'"), "-u", app]);
    }
    ssh.stdin(Stdio::null()).stdout(Stdio::piped());
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
