//! `warren-deviced`: the device daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use warren_sys::signal::{SIGINT, SIGTERM, SIGUSR1};

use warren_device::begun;
use warren_device::daemon::{Daemon, Options, PASS_PATIENCE_MS, RECEIVE_BUFFER_BYTES};
use warren_device::executor::{self, Places};
use warren_device::index::{Completeness, Policy, parse_crypttab};
use warren_device::link::{ManagerLink, Starter};
use warren_device::lvm::LvmId;
use warren_device::lvm::config::{QUESTION, Settings, parse_devices_file};
use warren_device::lvm::host;
use warren_device::lvm::text::TextFault;
use warren_device::readers::Readers;
use warren_device::sandbox;
use warren_device::sysfs::{Roots, parse_wwids};
use warren_sys::notify::Watchdog;
use warren_sys::signal::{SignalFd, SignalSet, set_blocked};
use warren_sys::{time, usage};

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
  --sys=DIR --udev-run=DIR --dev=DIR --lvm-run=DIR --records=DIR --crypttab=FILE
                       instead of /sys, /run/udev, /dev, /run/lvm, /run/warren/devices,
                       /etc/crypttab
  --version            print the version
  --help               this text
";

/// What the command line says.
struct Command {
    options: Options,
    activate: bool,
    is_executor: bool,
    lvm_run: PathBuf,
    records: PathBuf,
    crypttab: PathBuf,
    kernel: bool,
    once: bool,
    json: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if words.iter().any(|word| word == "--version" || word == "-V") {
        print!("{}", usage::version("warren-deviced"));
        return ExitCode::SUCCESS;
    }
    let command = match parse(&words) {
        Ok(command) => command,
        Err(fault) => {
            eprint!("{}", usage::refusal(&fault, HELP));
            return ExitCode::from(usage::EXIT_USAGE);
        }
    };
    let done = match command.is_executor {
        true => execute(&command),
        false => run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warren_sys::tell!("warren-deviced: {error}");
            ExitCode::from(1)
        }
    }
}

fn parse(words: &[String]) -> Result<Command, String> {
    let options = Options {
        roots: Roots::default(),
        udev: false,
        waits_for_udev: false,
        receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
        pass_patience_ms: PASS_PATIENCE_MS,
        policy: Policy::default(),
        begun: BTreeMap::new(),
    };
    let mut command = Command {
        options,
        activate: false,
        is_executor: false,
        lvm_run: "/run/lvm".into(),
        records: "/run/warren/devices".into(),
        crypttab: "/etc/crypttab".into(),
        kernel: false,
        once: false,
        json: false,
    };
    for word in words {
        let options = &mut command.options;
        match word.split_once('=').unwrap_or((word, "")) {
            (executor::ARGUMENT, "") => command.is_executor = true,
            ("--once", "") => command.once = true,
            ("--json", "") => command.json = true,
            ("--kernel", "") => command.kernel = true,
            ("--activate", "") => command.activate = true,
            ("--per-volume", "") => options.policy.completeness = Completeness::Volume,
            ("--degraded-after", seconds) => {
                let ms = seconds.parse().ok().and_then(|s: u64| s.checked_mul(1000));
                let ms = ms.ok_or_else(|| format!("{word}: not a number of seconds"))?;
                options.policy.degraded_after_ms = Some(ms);
            }
            ("--system-id", id) => drop(options.policy.system_ids.insert(id.to_owned())),
            ("--sys", dir) => options.roots.sys = dir.into(),
            ("--udev-run", dir) => options.roots.udev = dir.into(),
            ("--dev", dir) => options.roots.dev = dir.into(),
            ("--lvm-run", dir) => command.lvm_run = dir.into(),
            ("--records", dir) => command.records = dir.into(),
            ("--crypttab", file) => command.crypttab = file.into(),
            _ => return Err(usage::unexpected(word)),
        }
    }
    Ok(command)
}

/// What is asked of others and read from files, before anything is given up.
fn prepare(command: &mut Command) {
    ask_lvm(&mut command.options);
    let options = &mut command.options;
    // udev's own socket tells whether it is running.
    options.udev = !command.kernel && options.roots.udev.join("control").exists();
    options.waits_for_udev = !command.kernel;
    options.policy.crypttab = read_crypttab(&command.crypttab);
    if command.activate {
        options.begun = begun::read(&command.records);
    }
}

/// This process is the other one's hands.
fn execute(command: &Command) -> warren_sys::Result<()> {
    // What the service is told to end by is for the reader, whose end is the executor's.
    set_blocked(SignalSet::EMPTY.with(SIGINT).with(SIGUSR1).with(SIGTERM))?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let socket = socket.map_err(|error| failed("standard input", &error))?;
    executor::serve(socket, &places(command))
}

fn places(command: &Command) -> Places {
    Places {
        dev: command.options.roots.dev.clone(),
        lvm_run: command.lvm_run.clone(),
        records: command.records.clone(),
    }
}

fn failed(call: &'static str, error: &std::io::Error) -> warren_sys::Error {
    warren_sys::Error::new(call, error.raw_os_error().unwrap_or(0))
}

/// Starts the executor, which keeps what this process gives up.
fn start_executor(command: &Command) -> warren_sys::Result<Option<OwnedFd>> {
    if !command.activate {
        return Ok(None);
    }
    // A udev that is started later finds its directory there, and so does this process, which sees
    // no directory that is made later.
    let udev = &command.options.roots.udev;
    if let Err(error) = std::fs::create_dir_all(udev) {
        warren_sys::tell!("{}: {error}", udev.display());
    }
    let started = std::env::current_exe().and_then(|own| executor::start(&own, &places(command)));
    started.map(Some).map_err(|error| failed("cannot start the executor", &error))
}

/// Takes over lvm2's own settings. When it cannot be asked, no volume group is activated: one that
/// lvm2 was told to leave alone might be among them.
fn ask_lvm(options: &mut Options) {
    let policy = &mut options.policy;
    match lvm_settings() {
        Ok(settings) => {
            options.roots.wwids = settings.wwids_file.as_ref().map_or_else(BTreeSet::new, wwids_in);
            let listed = settings.devices_file.as_ref().and_then(|name| listed_in(name));
            policy.follow_lvm(&settings, listed);
            policy.system_ids.extend(host::system_id());
        }
        Err(why) => {
            warren_sys::tell!("cannot read lvm2's settings ({why}); no volume group is activated");
            policy.event_activation = false;
        }
    }
}

fn lvm_settings() -> Result<Settings, String> {
    // Without a file of settings, what lvm2 goes by is its defaults, which are asked for otherwise.
    let answer = match has_lvm_settings() {
        true => host::ask(&QUESTION)?,
        false => host::ask(&QUESTION.map(|word| if word == "full" { "default" } else { word }))?,
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

/// The devices file; without one lvm2 uses all devices, lvmdevices(8). One that is there and cannot
/// be read lists nothing, so that nothing is activated by mistake.
fn listed_in(name: &str) -> Option<BTreeSet<LvmId>> {
    match std::fs::read_to_string(lvm_directory().join("devices").join(name)) {
        Ok(text) => Some(parse_devices_file(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            warren_sys::tell!("{name}: {error}");
            Some(BTreeSet::new())
        }
    }
}

/// Where multipath is not set up there is no such file.
fn wwids_in(path: &String) -> BTreeSet<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse_wwids(&text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeSet::new(),
        Err(error) => {
            warren_sys::tell!("{path}: {error}");
            BTreeSet::new()
        }
    }
}

fn read_crypttab(path: &Path) -> Vec<warren_device::index::CryptEntry> {
    std::fs::read_to_string(path).map_or_else(|_| Vec::new(), |text| parse_crypttab(&text))
}

fn run(mut command: Command) -> warren_sys::Result<()> {
    // Who asks before there is an answer waits for it, and so does the executor, which inherits this.
    set_blocked(SignalSet::EMPTY.with(SIGUSR1))?;
    prepare(&mut command);
    // Before another program is started that would inherit it.
    let mut link = ManagerLink::inherited().map(Link::new);
    let executor = start_executor(&command)?;
    let signals = SignalSet::EMPTY.with(SIGINT).with(SIGUSR1).with(SIGTERM);
    set_blocked(signals)?;
    let signals = SignalFd::new(signals)?;
    let roots = command.options.roots.clone();
    let mut daemon = Daemon::bind(command.options, Readers::new()?, executor)?;
    daemon.watch(&signals)?;
    if let Some(link) = &link {
        daemon.watch(&link.end)?;
    }
    sandbox::enter(&roots)?.iter().for_each(|line| warren_sys::tell!("sandbox: {line}"));
    daemon.begin();
    let mut watchdog = Watchdog::of_environment(now_us());
    loop {
        if let Some(link) = &mut link {
            link.serve(&mut daemon);
        }
        if watchdog.as_mut().is_some_and(|watchdog| watchdog.is_due(now_us())) {
            daemon.say_alive();
        }
        if command.once && daemon.is_settled() {
            print_report(&daemon, command.json);
            return Ok(());
        }
        let until = |due_us: u64| Duration::from_micros(due_us.saturating_sub(now_us()));
        let due = watchdog.map(|watchdog| until(watchdog.due_us()));
        daemon.turn(link.as_ref().and_then(Link::patience).into_iter().chain(due).min())?;
        daemon.take_lines().iter().for_each(|line| warren_sys::tell!("{line}"));
        match signals.read()?.map(|info| info.signal) {
            Some(SIGUSR1) => print_report(&daemon, command.json),
            Some(_) => return Ok(()),
            None => {}
        }
    }
}

/// The monotonic clock, µs.
fn now_us() -> u64 {
    time::monotonic_ns() / 1000
}

/// The manager, and what it was told.
struct Link {
    end: ManagerLink,
    starter: Option<Starter>,
    /// The last message found no room.
    is_behind: bool,
    was_ready: bool,
}

/// How soon a message that found no room is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Link {
    fn new(end: ManagerLink) -> Link {
        Link { end, starter: Starter::find(), is_behind: false, was_ready: false }
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
            self.starter.iter().for_each(Starter::tell_ready);
        }
    }
}

/// A reader that went away is no fault of ours.
fn print_report(daemon: &Daemon, json: bool) {
    let report = daemon.report();
    let text = if json { report.json_lines() } else { report.text() };
    let _ = std::io::stdout().write_all(text.as_bytes());
}
