//! The program `warren-journal-access`: its command line.
//! Must not: do what `access` does.
//! Start at [`main`].

use std::process::ExitCode;

use crate::access::{Options, run};
use clap::Parser;
use warren_log_show::Place;

/// Open files that this program asks for: every client has the log's files open.
const OPEN_FILES: u64 = 1 << 16;

/// Answers questions about the log over varlink.
#[derive(Debug, Parser)]
#[command(name = "warren-journal-access", version)]
struct Args {
    /// Listen there, too: the path of a Unix socket, that only this user can connect to; may come
    /// often.
    #[arg(long, value_name = "PATH", value_parser = parse_path)]
    listen: Vec<String>,
    #[command(flatten)]
    place: Place,
}

fn parse_path(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err("not a path that begins with `/`".to_owned()),
    }
}

/// Runs it with the words of its command line; its exit status.
pub fn main() -> ExitCode {
    let Args { listen, place } = Args::parse();
    // With fewer, later clients are refused.
    let _ = warren_sys::process::raise_open_files(OPEN_FILES);
    match run(Options { args: place.into(), listen }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            warren_sys::tell!("warren-journal-access: {}", failure.0);
            ExitCode::FAILURE
        }
    }
}
