//! `warren-hosts`: one command over many hosts; by the name `warren-agent` it is the agent of a host.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use warren_agent::commands::{Cli, run};
use warren_agent::service;

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    if Path::new(&name).file_name().is_some_and(|name| name == service::NAME) {
        return service::main();
    }
    match run(Cli::parse()) {
        Ok(code) => ExitCode::from(code as u8),
        Err(why) => {
            eprintln!("warren-hosts: {why:#}");
            ExitCode::FAILURE
        }
    }
}
