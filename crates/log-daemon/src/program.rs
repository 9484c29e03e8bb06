//! The program `warren-journald`: its command line.
//! Must not: do what `daemon` does.
//! Start at [`main`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::config::{Config, Fault, load, of_command_line};
use crate::daemon::{Options, Places, Readers, run};
use clap::Parser;
use warren_log_store::places::{is_namespace, socket_directory};

/// Open files that this daemon asks for.
const OPEN_FILES: u64 = 1 << 17;

/// Receives log messages and keeps them.
#[derive(Debug, Parser)]
#[command(name = "warren-journald", version)]
struct Args {
    /// Keep messages of this namespace; systemd-journald(8).
    #[arg(value_parser = namespace)]
    namespace: Option<String>,
    /// Keep messages there, whatever `Storage=` says, and read no configuration.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Look for configuration and keep messages below this directory.
    #[arg(long, default_value = "/")]
    root: PathBuf,
    /// Where to make the sockets `socket`, `stdout` and `dev-log`; below the root:
    /// run/systemd/journal.
    #[arg(long)]
    socket_directory: Option<PathBuf>,
    /// A setting as in journald.conf, which counts over those in files; may come often.
    #[arg(long, value_name = "[CLASS.]KEY=VALUE")]
    set: Vec<String>,
}

/// Runs it with the words of its command line; its exit status.
pub fn main() -> ExitCode {
    let options = options(Args::parse());
    // One for each service that runs; with fewer, later streams are refused.
    let _ = warren_sys::process::raise_open_files(OPEN_FILES);
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            warren_sys::tell!("warren-journald: {e}");
            ExitCode::FAILURE
        }
    }
}

fn options(args: Args) -> Options {
    let (mut config, mut faults) = match &args.directory {
        Some(_) => (Config::default(), Vec::new()),
        None => load(&args.root, args.namespace.as_deref()),
    };
    let is_default = args.namespace.is_none();
    if args.directory.is_none() && is_default && args.root == Path::new("/") {
        let words = warren_sys::text::read("/proc/cmdline").unwrap_or_default();
        of_command_line(&words)
            .iter()
            .for_each(|set| put(&mut config, "/proc/cmdline", set, &mut faults));
    }
    args.set.iter().for_each(|set| put(&mut config, "--set", set, &mut faults));
    let namespace = args.namespace;
    let below_root = || args.root.join(socket_directory(namespace.as_deref()));
    let sockets = args.socket_directory.unwrap_or_else(below_root);
    // By hand and in a namespace, the kernel's log is somebody else's.
    let kmsg = config.read_kmsg.unwrap_or(args.directory.is_none() && is_default);
    let audit = config.audit.unwrap_or(kmsg);
    let is_of_system = args.directory.is_none() && is_default;
    let mirror_root = args.directory.as_ref().unwrap_or(&args.root).clone();
    let places = match args.directory {
        Some(directory) => Places::by_hand(directory),
        None => Places::of(config.storage, &args.root, namespace.as_deref(), &sockets)
            .read_by(Readers::of(&args.root)),
    };
    Options {
        places,
        socket_directory: sockets,
        config,
        faults,
        kmsg,
        audit,
        is_of_system,
        mirror_root,
        namespace,
    }
}

fn namespace(text: &str) -> Result<String, String> {
    match is_namespace(text) {
        true => Ok(text.to_owned()),
        false => Err("1 to 64 letters, digits, and `-_.:@`, not a dot first".to_owned()),
    }
}

fn put(config: &mut Config, of: &str, assignment: &str, faults: &mut Vec<Fault>) {
    if let Err(text) = config.set_by_hand(assignment) {
        faults.push(Fault { path: of.to_owned(), line: 0, text });
    }
}
