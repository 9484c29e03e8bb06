//! The log over HTTP; see `warren_journal::gateway`.

use std::process::ExitCode;

use clap::Parser;
use warren_journal::gateway::{Address, Options, parse_address, run};
use warren_journal::show::Place;

/// Open files that this program asks for: every client has the log's files open.
const OPEN_FILES: u64 = 1 << 16;

/// Answers questions about the log over HTTP.
#[derive(Debug, Parser)]
#[command(name = "warren-journal-gatewayd", version)]
struct Args {
    /// Listen there, too: a port, ADDRESS:PORT, or the path of a Unix socket; may come often.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    listen: Vec<Address>,
    #[command(flatten)]
    place: Place,
}

fn main() -> ExitCode {
    let Args { listen, place } = Args::parse();
    // With fewer, later clients are refused.
    let _ = warren_sys::process::raise_open_files(OPEN_FILES);
    match run(Options { args: place.into(), listen }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("warren-journal-gatewayd: {}", failure.0);
            ExitCode::FAILURE
        }
    }
}
