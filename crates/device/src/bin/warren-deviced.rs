//! `warren-deviced`: the device daemon.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode, Stdio};
use std::time::Duration;

use warren_device::daemon::{
    Daemon, Options, PASS_PATIENCE_MS, RECEIVE_BUFFER_BYTES, drop_privileges,
};
use warren_device::index::{Completeness, Policy, parse_crypttab};
use warren_device::link::{ManagerLink, tell_ready};
use warren_device::lvm::LvmId;
use warren_device::lvm::config::{QUESTION, Settings, parse_devices_file, parse_system_id};
use warren_device::lvm::text::TextFault;
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
    let options = Options {
        roots,
        udev: false,
        receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
        pass_patience_ms: PASS_PATIENCE_MS,
        policy,
        lvm_run,
        activate: false,
    };
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
    ask_lvm(&mut command.options);
    // udev's own socket tells whether it is running.
    command.options.udev = !kernel && command.options.roots.udev.join("control").exists();
    command.options.policy.crypttab = read_crypttab(&crypttab);
    Some(command)
}

/// Takes over lvm2's own settings. When it cannot be asked, no volume group is activated: one that
/// lvm2 was told to leave alone might be among them.
fn ask_lvm(options: &mut Options) {
    let policy = &mut options.policy;
    match lvm_settings() {
        Ok(settings) => {
            let listed = settings.devices_file.as_ref().and_then(|name| listed_in(name));
            policy.follow_lvm(&settings, listed);
            policy.system_ids.extend(lvm(&["systemid"]).ok().and_then(|a| parse_system_id(&a)));
        }
        Err(why) => {
            eprintln!("lvm2's settings are not known ({why}): no volume group is activated");
            policy.event_activation = false;
        }
    }
}

fn lvm_settings() -> Result<Settings, String> {
    // Without a file of settings, what lvm2 goes by is its defaults, which are asked for otherwise.
    let answer = match has_lvm_settings() {
        true => lvm(&QUESTION)?,
        false => lvm(&QUESTION.map(|word| if word == "full" { "default" } else { word }))?,
    };
    let fault = |fault: TextFault| format!("lvmconfig: byte {}: {}", fault.at, fault.what);
    Settings::parse(answer.as_bytes()).map_err(fault)
}

fn has_lvm_settings() -> bool {
    let directory = lvm_directory();
    ["lvm.conf", "lvmlocal.conf"].iter().any(|name| directory.join(name).exists())
}

fn lvm_directory() -> PathBuf {
    std::env::var_os("LVM_SYSTEM_DIR").unwrap_or("/etc/lvm".into()).into()
}

fn lvm(arguments: &[&str]) -> Result<String, String> {
    let output = Process::new("lvm").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("lvm: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("lvm {}: {}", arguments.join(" "), output.status)),
    }
}

/// The devices file; without one lvm2 uses all devices, lvmdevices(8). One that is there and cannot
/// be read lists nothing, so that nothing is activated by mistake.
fn listed_in(name: &str) -> Option<BTreeSet<LvmId>> {
    match std::fs::read_to_string(lvm_directory().join("devices").join(name)) {
        Ok(text) => Some(parse_devices_file(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            eprintln!("{name}: {error}");
            Some(BTreeSet::new())
        }
    }
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
    let activates = command.options.activate;
    let mut daemon = Daemon::bind(command.options, Readers::new()?)?;
    daemon.watch(&signals)?;
    let mut link = ManagerLink::inherited().map(Link::new);
    if let Some(link) = &link {
        daemon.watch(&link.end)?;
    }
    if !activates {
        drop_privileges()?;
    }
    daemon.begin();
    loop {
        if let Some(link) = &mut link {
            link.serve(&mut daemon);
        }
        if command.once && daemon.is_settled() {
            print_report(&daemon, command.json);
            return Ok(());
        }
        daemon.turn(link.as_ref().and_then(Link::patience))?;
        daemon.take_lines().iter().for_each(|line| eprintln!("{line}"));
        match signals.read()?.map(|info| info.signal) {
            Some(SIGUSR1) => print_report(&daemon, command.json),
            Some(_) => return Ok(()),
            None => {}
        }
    }
}

/// The manager, and what it was told.
struct Link {
    end: ManagerLink,
    /// The last message found no room.
    is_behind: bool,
    was_ready: bool,
}

/// How soon a message that found no room is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Link {
    fn new(end: ManagerLink) -> Link {
        Link { end, is_behind: false, was_ready: false }
    }

    fn patience(&self) -> Option<Duration> {
        self.is_behind.then_some(AGAIN_AFTER)
    }

    /// Tells the manager what is new. What found no room is told as a whole once there is some.
    fn serve(&mut self, daemon: &mut Daemon) {
        if self.end.is_asked() || self.is_behind {
            daemon.tell_all();
        }
        let Some(message) = daemon.message() else { return };
        self.is_behind = !self.end.send(&message);
        if !self.is_behind && !std::mem::replace(&mut self.was_ready, true) {
            tell_ready();
        }
    }
}

/// A reader that went away is no fault of ours.
fn print_report(daemon: &Daemon, json: bool) {
    let report = daemon.report();
    let text = if json { report.json_lines() } else { report.text() };
    let _ = std::io::stdout().write_all(text.as_bytes());
}
