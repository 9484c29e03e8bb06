//! `warren-hosts`: one command over many hosts.

use std::process::ExitCode;

use clap::Parser as _;
use warren_agent::commands::{Cli, run};

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => ExitCode::from(code as u8),
        Err(why) => {
            eprintln!("warren-hosts: {why:#}");
            ExitCode::FAILURE
        }
    }
}
