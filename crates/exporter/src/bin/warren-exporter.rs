//! Metrics over HTTP; see `warren_exporter`.

use std::process::ExitCode;

use clap::Parser;
use warren_exporter::options::Options;
use warren_exporter::server::run;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warren_sys::tell!("warren-exporter: {error}");
            ExitCode::FAILURE
        }
    }
}
