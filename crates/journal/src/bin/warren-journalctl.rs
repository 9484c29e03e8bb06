//! The reading command; see `warren_journal::show`.

use std::process::ExitCode;

use clap::Parser;
use warren_journal::show::args::complete;
use warren_journal::show::{Args, run};

/// The options of this program alone: `warren` has its own way to other machines.
#[derive(Debug, Parser)]
#[command(name = "warren-journalctl", version, max_term_width = 100)]
struct Options {
    #[command(flatten)]
    args: Args,
    /// Not here.
    #[arg(short = 'M', long, value_name = "NAME", hide = true)]
    machine: Option<String>,
}

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let Options { args, machine } = Options::parse_from(complete(words));
    if machine.is_some() {
        eprintln!("--machine: a nested machine's log is shown by `warren -M NAME logs`");
        return ExitCode::FAILURE;
    }
    match run(&args, &mut out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{}", failure.0);
            ExitCode::FAILURE
        }
    }
}
