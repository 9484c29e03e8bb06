//! The reading command; see `warren_journal::show`.

use std::process::ExitCode;

use clap::Parser;
use warren_journal::show::{Args, run};

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    match run(&Args::parse(), &mut out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{}", failure.0);
            ExitCode::FAILURE
        }
    }
}
