//! `warren-journal`: all programs of the log in one file, which does as it is called. Five programs of their own would
//! be five times the store, the reader and the standard library on the disk.
//! Must not: know anything of what they do.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use warren_log_daemon::program as journald;
use warren_log_net::programs::{access, gatewayd, upload};
use warren_log_show::program as journalctl;

type Main = fn() -> ExitCode;

/// Its names, which are links to it; packaging/files.txt lays them out.
const PROGRAMS: [(&str, Main); 5] = [
    ("warren-journald", journald::main),
    ("warren-journal-access", access::main),
    ("warren-journal-gatewayd", gatewayd::main),
    ("warren-journal-upload", upload::main),
    ("warren-journalctl", journalctl::main),
];

/// Exit status for a name that is none of them.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let word = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&word).file_name().unwrap_or_default();
    match PROGRAMS.iter().find(|(program, _)| name == OsStr::new(program)) {
        Some((_, main)) => main(),
        None => {
            let names = PROGRAMS.map(|(program, _)| program).join(", ");
            warren_sys::tell!("this program goes by the name that it is called by: {names}");
            ExitCode::from(USAGE)
        }
    }
}
