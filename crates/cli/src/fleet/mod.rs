//! `warren fleet` and `warren icinga`: rules checked here, or by the manager that has them in
//! force.
//!
//! What needs no manager (`check`, `test`, `plan DIR`, `dump`, `console`, `fmt`, `lsp`, and all of `icinga`) is done by
//! `warren-fleet` in this process; `plan`, `apply`, `diff` and `rollback` are calls of the
//! manager's, so that what is shown is what it would do.

mod candidate;
pub mod changes;
mod console;
mod dump;
mod fmt;
mod icinga;
mod lines;
mod lsp;
mod messages;
mod rules;
mod test;

use anyhow::Result;

use crate::args::{FleetCommand, Global, IcingaCommand};

/// Commands that need no manager; the others come back.
pub fn run(command: FleetCommand, global: &Global) -> Result<Result<i32, FleetCommand>> {
    match command {
        FleetCommand::Check(args) => rules::check(&args, global),
        FleetCommand::Test(args) => test::run(&args, global),
        FleetCommand::Plan(args) if args.dir.is_some() => candidate::plan(&args, global),
        FleetCommand::Dump(args) => dump::run(&args, global),
        FleetCommand::Console(args) => console::run(&args, global),
        FleetCommand::Fmt(args) => fmt::run(&args),
        FleetCommand::Lsp(args) => lsp::run(args.dir),
        other => return Ok(Err(other)),
    }
    .map(Ok)
}

/// Configurations of Icinga 2.
pub fn icinga(command: &IcingaCommand, global: &Global) -> Result<i32> {
    match command {
        IcingaCommand::Check(args) => icinga::check(args, global),
        IcingaCommand::Objects(args) => icinga::objects(args, global),
    }
}
