//! The log over HTTP; see `warren_journal::gateway`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use warren_journal::gateway::{Address, Options, parse_address, run};
use warren_journal::show;

/// Open files that this program asks for: every client has the log's files open.
const OPEN_FILES: u64 = 1 << 16;

/// Answers questions about the log over HTTP.
#[derive(Debug, Parser)]
#[command(name = "warren-journal-gatewayd", version)]
struct Args {
    /// Listen there, too: a port, ADDRESS:PORT, or the path of a Unix socket; may come often.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    listen: Vec<Address>,
    /// Serve the log in this directory.
    #[arg(short = 'D', long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Serve these files: logs, segments, systemd's `.journal` files; may come often.
    #[arg(long, value_name = "GLOB", conflicts_with = "directory")]
    file: Vec<PathBuf>,
    /// Serve the log of the system below this directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["directory", "file"])]
    root: Option<PathBuf>,
    /// Serve another namespace; `*`: all of them; `+NAME`: it and the default one.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["directory", "file"])]
    namespace: Option<String>,
    /// Serve all stores that there are; this is always so.
    #[arg(short, long)]
    merge: bool,
}

fn main() -> ExitCode {
    let Args { listen, directory, file, root, namespace, merge: _ } = Args::parse();
    // With fewer, later clients are refused.
    let _ = warren_sys::process::raise_open_files(OPEN_FILES);
    let rest = show::Args::parse_from(["gatewayd"]);
    let args = show::Args { directory, file, root, namespace, ..rest };
    match run(Options { args, listen }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("warren-journal-gatewayd: {}", failure.0);
            ExitCode::FAILURE
        }
    }
}
