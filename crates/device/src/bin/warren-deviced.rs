//! `warren-deviced`: the device daemon.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use warren_device::daemon::{Daemon, Options, RECEIVE_BUFFER_BYTES};
use warren_device::index::{Completeness, Policy, parse_crypttab};
use warren_device::readers::Readers;
use warren_device::sysfs::Roots;
use warren_sys::signal::{SignalFd, SignalSet, set_blocked};

const HELP: &str = "\
Usage: warren-deviced [OPTION]...

Looks at all block devices, then hears of changes, and tells which volume groups, arrays and file
systems are complete; with --activate it starts them. SIGUSR1 prints what is there.

  --once               look once, print what is there, end
  --json               print JSON lines
  --activate           write lvm2's files below /run/lvm and run lvm and mdadm;
                       otherwise only say what would be run
  --per-volume         start each logical volume when its own disks are there
  --degraded-after=S   start what can run degraded S seconds after its first disk
  --system-id=ID       this host's id in lvm2's metadata; may be given more than once
  --kernel             listen to the kernel although udev is running
  --sys=DIR --udev-run=DIR --dev=DIR --lvm-run=DIR --crypttab=FILE
                       instead of /sys, /run/udev, /dev, /run/lvm, /etc/crypttab
";

/// What the command line says.
struct Command {
    options: Options,
    once: bool,
    json: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let Some(command) = parse(&words) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("warren-deviced: {error}");
            ExitCode::from(1)
        }
    }
}

fn parse(words: &[String]) -> Option<Command> {
    let roots = Roots::default();
    let lvm_run = PathBuf::from("/run/lvm");
    let policy = Policy::default();
    let receive_buffer_bytes = RECEIVE_BUFFER_BYTES;
    let options =
        Options { roots, udev: false, receive_buffer_bytes, policy, lvm_run, activate: false };
    let mut command = Command { options, once: false, json: false };
    let (mut kernel, mut crypttab) = (false, PathBuf::from("/etc/crypttab"));
    for word in words {
        let options = &mut command.options;
        match word.split_once('=').unwrap_or((word, "")) {
            ("--once", "") => command.once = true,
            ("--json", "") => command.json = true,
            ("--kernel", "") => kernel = true,
            ("--activate", "") => options.activate = true,
            ("--per-volume", "") => options.policy.completeness = Completeness::Volume,
            ("--degraded-after", seconds) => {
                let seconds: u64 = seconds.parse().ok()?;
                options.policy.degraded_after_ms = Some(seconds.checked_mul(1000)?);
            }
            ("--system-id", id) => drop(options.policy.system_ids.insert(id.to_owned())),
            ("--sys", dir) => options.roots.sys = dir.into(),
            ("--udev-run", dir) => options.roots.udev = dir.into(),
            ("--dev", dir) => options.roots.dev = dir.into(),
            ("--lvm-run", dir) => options.lvm_run = dir.into(),
            ("--crypttab", file) => crypttab = file.into(),
            _ => return None,
        }
    }
    // udev's own socket tells whether it is running.
    command.options.udev = !kernel && command.options.roots.udev.join("control").exists();
    command.options.policy.crypttab = read_crypttab(&crypttab);
    Some(command)
}

fn read_crypttab(path: &Path) -> Vec<warren_device::index::CryptEntry> {
    std::fs::read_to_string(path).map_or_else(|_| Vec::new(), |text| parse_crypttab(&text))
}

const SIGINT: i32 = 2;
const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;

fn run(command: Command) -> warren_sys::Result<()> {
    let signals = SignalSet::EMPTY.with(SIGINT).with(SIGUSR1).with(SIGTERM);
    set_blocked(signals)?;
    let signals = SignalFd::new(signals)?;
    let mut daemon = Daemon::start(command.options, Readers::new()?)?;
    daemon.watch(&signals)?;
    loop {
        if command.once && daemon.is_settled() {
            print_report(&daemon, command.json);
            return Ok(());
        }
        daemon.turn(None)?;
        daemon.take_lines().iter().for_each(|line| eprintln!("{line}"));
        match signals.read()?.map(|info| info.signal) {
            Some(SIGUSR1) => print_report(&daemon, command.json),
            Some(_) => return Ok(()),
            None => {}
        }
    }
}

/// A reader that went away is no fault of ours.
fn print_report(daemon: &Daemon, json: bool) {
    let report = daemon.report();
    let text = if json { report.json_lines() } else { report.text() };
    let _ = std::io::stdout().write_all(text.as_bytes());
}
