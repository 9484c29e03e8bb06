//! The program `warren-journal-gatewayd`: its command line.
//! Must not: do what `gateway` does.
//! Start at [`main`].

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use crate::gateway::{Address, Failure, Options, parse_address, run};
use crate::tls;
use clap::Parser;
use warren_log_show::Place;

/// Open files that this program asks for: every client has the log's files open.
const OPEN_FILES: u64 = 1 << 16;

/// Answers questions about the log over HTTP.
#[derive(Debug, Parser)]
#[command(name = "warren-journal-gatewayd", version)]
struct Args {
    /// Listen there, too: a port, ADDRESS:PORT, or the path of a Unix socket; may come often.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    listen: Vec<Address>,
    /// Speak TLS, and show the certificate in this file (PEM, the server's own first).
    #[arg(long, value_name = "PATH", requires = "key")]
    cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    #[arg(long, value_name = "PATH", requires = "cert")]
    key: Option<PathBuf>,
    /// Answer only clients whose certificates were signed by one in this file (PEM).
    #[arg(long, value_name = "PATH", requires = "cert")]
    trust: Option<PathBuf>,
    /// Answer clients that call this machine by that name, too, where they speak no TLS; may come often.
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// Runs it with the words of its command line; its exit status.
pub fn main() -> ExitCode {
    // With fewer, later clients are refused.
    let _ = warren_sys::process::raise_open_files(OPEN_FILES);
    match options(Args::parse()).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            warren_sys::tell!("warren-journal-gatewayd: {}", failure.0);
            ExitCode::FAILURE
        }
    }
}

fn options(args: Args) -> Result<Options, Failure> {
    let Args { listen, cert, key, trust, names, place } = args;
    let tls = match cert.zip(key) {
        Some((cert, key)) => Some(Arc::new(tls::server(cert, key, trust)?)),
        None => None,
    };
    Ok(Options { args: place.into(), listen, tls, names })
}
