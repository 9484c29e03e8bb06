//! The reading command; see `warren_journal::show`.

use std::process::ExitCode;

use clap::Parser;
use warren_journal::show::args::complete;
use warren_journal::show::{Args, run};

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    match run(&Args::parse_from(complete(words)), &mut out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{}", failure.0);
            ExitCode::FAILURE
        }
    }
}
