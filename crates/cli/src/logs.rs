//! `warren logs`: the log's own reader, with names of units and machines as the other commands take them.

use std::path::PathBuf;

use anyhow::{Result, bail};
use warren_log_show as show;

use crate::args::Global;
use crate::connection::find_machine;
use crate::names;

/// The status of what the command line cannot mean.
const EXIT_USAGE: i32 = 2;

/// Shows messages of the log, read from its files: no manager is asked. Returns the exit status.
pub(crate) fn run(mut args: show::Args, global: &Global) -> Result<i32> {
    args.take_units();
    args.unit = args.unit.iter().map(|unit| names::unit(unit)).collect();
    if global.user {
        args.mean_user();
    }
    args.quiet |= global.quiet;
    let of_text = [
        ("--disk-usage", args.disk_usage),
        ("--header", args.header),
        ("--fields", args.fields),
        ("--field", args.field.is_some()),
    ];
    if let Some((option, _)) = of_text.into_iter().find(|(_, given)| *given && global.json) {
        complain!("warren: {option} prints text alone, not JSON");
        return Ok(EXIT_USAGE);
    }
    if global.json && args.output == "short" {
        args.output = "json".to_owned();
    }
    if let Some(name) = &global.machine {
        let root = PathBuf::from(format!("/proc/{}/root", find_machine(name, global)?.pid));
        args.root.get_or_insert(root);
        // Its log daemon keeps nothing on the disk, which is the host's.
        args.in_memory = true;
    }
    match show::run(&args, &mut std::io::stdout().lock()) {
        Ok(found) => Ok(i32::from(!found)),
        Err(failure) => bail!("{}", failure.0),
    }
}
