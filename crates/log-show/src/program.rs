//! The program `warren-journalctl`: its command line.
//! Must not: do what `run` does.
//! Start at [`main`].

use std::process::ExitCode;

use crate::args::complete;
use crate::{Args, run};
use clap::Parser;
use warren_sys::terminal;

// With those of this program alone: `warren` has its own way to other machines.
/// Show messages of the log, as journalctl(1) does.
#[derive(Debug, Parser)]
#[command(name = "warren-journalctl", version, max_term_width = 100, infer_long_args = true)]
struct Options {
    #[command(flatten)]
    args: Args,
    /// Not here.
    #[arg(short = 'M', long, value_name = "NAME", hide = true)]
    machine: Option<String>,
    /// Show everything; what is there without it.
    #[arg(long)]
    system: bool,
    /// Show what processes of the calling user said.
    #[arg(long)]
    user: bool,
    /// Leave the host's name out of lines.
    #[arg(long)]
    no_hostname: bool,
    /// Show all lines with `--follow`.
    #[arg(long)]
    no_tail: bool,
    /// Show the last 1,000 entries of the last boot, as at the end of a pager; there is none.
    #[arg(short = 'e', long)]
    pager_end: bool,
    /// Show lines whole, as without it.
    #[arg(short = 'l', long, overrides_with = "no_full")]
    full: bool,
    /// Cut lines to the width of the terminal, and show no more than the beginning of long texts.
    #[arg(long)]
    no_full: bool,
}

/// Exit status for arguments that were refused, as of all our programs.
const USAGE: u8 = 2;

/// Entries of `--pager-end`; journalctl(1).
const PAGER_LINES: &str = "1000";

/// Columns where there is no terminal, and `COLUMNS` does not say how many.
const COLUMNS_DEFAULT: usize = 80;

/// Columns that there are for lines; `COLUMNS` counts before the terminal, environ(7).
fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || terminal::size(std::io::stdout()).map(|(columns, _)| usize::from(columns));
    said.filter(|columns| *columns > 0).or_else(terminal).unwrap_or(COLUMNS_DEFAULT)
}

impl Options {
    /// The options of all programs that read, with those of this one in them.
    fn into_args(self) -> Args {
        let Options { mut args, system, user, no_hostname, no_tail, pager_end, no_full, .. } = self;
        args.own = user && !system;
        args.no_hostname = no_hostname;
        args.columns = no_full.then(columns);
        if pager_end {
            args.lines.get_or_insert_with(|| PAGER_LINES.to_owned());
            args.boot.get_or_insert_with(|| "0".to_owned());
        }
        if no_tail {
            args.lines = Some("all".to_owned());
        }
        args
    }
}

/// Runs it with the words of its command line; its exit status.
pub fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let options = match Options::try_parse_from(complete(words)) {
        Ok(options) => options,
        Err(e) => {
            // That nobody reads it is no reason for another status.
            let _ = e.print();
            return if e.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    if options.machine.is_some() {
        warren_sys::tell!("--machine: a nested machine's log is shown by `warren -M NAME logs`");
        return ExitCode::FAILURE;
    }
    match run(&options.into_args(), &mut out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            warren_sys::tell!("{}", failure.0);
            ExitCode::FAILURE
        }
    }
}
