//! `warren`: reads the arguments, does what they say, turns errors into a message and a status.

use clap::Parser;
use warren_cli::args::Cli;
use warren_cli::output::{status_when_told, without_number};
use warren_cli::words::words;

fn main() {
    let status = match warren_cli::verbs::run(Cli::parse_from(words(std::env::args_os()))) {
        Ok(status) => status,
        Err(error) => {
            warren_cli::complain!("warren: {}", without_number(&format!("{error:#}")));
            1
        }
    };
    std::process::exit(status_when_told(status));
}
