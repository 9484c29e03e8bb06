//! The program warren-agent: what its command line says.
//!
//! - Must not: do anything but read settings; [`crate::agent`] does it.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::agent;
use crate::settings::{PATH, Settings};
use clap::{CommandFactory as _, Parser};

/// The name that it goes by.
pub const NAME: &str = "warren-agent";

/// Registers this host in etcd, follows the release that it is assigned to, and reports what became of it.
#[derive(Debug, Parser)]
#[command(name = "warren-agent", version)]
struct Args {
    /// File of settings.
    #[arg(long, value_name = "PATH", default_value = PATH)]
    config: PathBuf,
    /// Make the state directory, and in this directory of the manager's rules the file that includes those of the
    /// site; then end.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "/etc/warren/fleet.d")]
    prepare: Option<PathBuf>,
    /// Write the manual pages of this program and of warren-hosts into a directory.
    #[arg(long, value_name = "DIR", hide = true)]
    man: Option<PathBuf>,
}

/// Runs it.
pub fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(directory) = &args.man {
        return match crate::manual::write(directory, Args::command()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("warren-agent: {}: {e}", directory.display());
                ExitCode::FAILURE
            }
        };
    }
    let run = |settings: Settings| match &args.prepare {
        Some(directory) => agent::prepare(&settings, directory),
        None => agent::run(settings),
    };
    let Err(why) = Settings::read(&args.config).and_then(run) else { return ExitCode::SUCCESS };
    eprintln!("warren-agent: {why}");
    ExitCode::FAILURE
}
