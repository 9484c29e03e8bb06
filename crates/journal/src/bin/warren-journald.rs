//! The log daemon; see `warren_journal::daemon`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use warren_journal::daemon::{Options, Rate, run};
use warren_journal::store::vacuum::{ClassLimits, Limits};

/// Open files that this daemon asks for.
const OPEN_FILES: u64 = 1 << 17;

/// Receives log messages and keeps them.
#[derive(Debug, Parser)]
#[command(name = "warren-journald", version)]
struct Args {
    /// Where to keep them.
    #[arg(long, default_value = "/var/log/warren")]
    directory: PathBuf,
    /// Where to make the sockets `socket`, `stdout` and `dev-log`.
    #[arg(long, default_value = "/run/systemd/journal")]
    socket_directory: PathBuf,
    /// Read the kernel's log too.
    #[arg(long)]
    kmsg: bool,
    /// Seconds in which a service may log a burst; 0: no limit.
    #[arg(long, default_value_t = 30)]
    rate_limit_interval: u64,
    /// Messages of a burst; 0: no limit.
    #[arg(long, default_value_t = 10_000)]
    rate_limit_burst: u64,
    /// Bytes to keep at most.
    #[arg(long, default_value_t = 4 << 30)]
    max_use: u64,
    /// Bytes to leave free in the file system.
    #[arg(long, default_value_t = 1 << 30)]
    keep_free: u64,
    /// Days to keep messages; 0: no limit.
    #[arg(long, default_value_t = 0)]
    max_age: u64,
}

fn main() -> ExitCode {
    const DAY_US: u64 = 86_400_000_000;
    let args = Args::parse();
    let age_max_us = (args.max_age > 0).then(|| args.max_age.saturating_mul(DAY_US));
    let options = Options {
        directory: args.directory,
        socket_directory: args.socket_directory,
        rate: Rate {
            interval_us: args.rate_limit_interval.saturating_mul(1_000_000),
            burst: args.rate_limit_burst,
        },
        kmsg: args.kmsg,
        limits: Limits {
            bytes_max: Some(args.max_use),
            keep_free_bytes: Some(args.keep_free),
            other: ClassLimits { age_max_us, ..ClassLimits::default() },
            ..Limits::default()
        },
    };
    // One for each service that runs; with fewer, later streams are refused.
    let _ = warren_sys::process::raise_open_files(OPEN_FILES);
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("warren-journald: {e}");
            ExitCode::FAILURE
        }
    }
}
