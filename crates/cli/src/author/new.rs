//! `warren new`: a unit from a command, with what its program turned out to need, and tried.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use warren_sys::passwd::{Database, User};
use warren_sys::process::ExitKind;
use warren_sys::signal::{SIGHUP, SIGINT, SIGTERM, SignalFd, SignalSet};
use warren_unit::{Severity, UnitName, UnitType};

use super::needs::{Plan, unit, with_trial};
use super::observe::{End, Observed, Run, observe};
use super::trial::{Success, Trials, Tried};
use super::verdict::words;
use crate::args::{Global, NewArgs};
use crate::output::{clean, clean_lines, print};
use crate::verify::Verifier;

/// Where the manager looks for programs (systemd.exec(5), "ExecSearchPath=").
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whom the rights of root belong to.
const ROOT: u32 = 0;

/// Directories that are there now.
static DIRECTORIES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn directories() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often a directory is removed to which this program adds something meanwhile.
const REMOVALS_MAX: u32 = 100;

/// Removes the directories when the user ends the program by a signal. What it runs ends with it: the kernel kills a
/// program that is followed, and a machine stops with its parent.
fn clean_up_at_signals() -> Result<()> {
    let ending = SignalSet::EMPTY.with(SIGHUP).with(SIGINT).with(SIGTERM);
    let signals = SignalFd::new(ending)?;
    let wait = move || {
        let read = signal_of(&signals);
        // Never given back: nobody makes another one, or ends the program otherwise.
        let held = directories();
        held.iter().for_each(|path| remove_whole(path));
        std::process::exit(128 + read.unwrap_or(SIGTERM));
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}

/// Removes a directory to which another thread may add something until it is gone; it is never made again.
fn remove_whole(path: &Path) {
    for _ in 0..REMOVALS_MAX {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
    }
}

/// The signal that comes next.
fn signal_of(signals: &SignalFd) -> Option<i32> {
    warren_sys::fdpass::wait_ready(signals.as_fd()).ok()?;
    Some(signals.read().ok()??.signal)
}

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Scratch> {
        let name = format!("warren-new-{}-{:x}", std::process::id(), warren_sys::random::u128());
        let path = std::env::temp_dir().join(name);
        let mut known = directories();
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        known.insert(path.clone());
        drop(known);
        let directory = Scratch(path);
        // The program may be another user's.
        fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o711))?;
        Ok(directory)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut known = directories();
        let _ = fs::remove_dir_all(&self.0);
        known.remove(&self.0);
    }
}

/// A socket at which a program may say that it is ready.
fn notify_socket(path: &Path) -> Result<UnixDatagram> {
    let socket = UnixDatagram::bind(path).context("cannot make a socket")?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The program by its whole path, as the manager would find it.
fn program(word: &str) -> Result<String> {
    if word.starts_with('/') {
        return Ok(word.to_owned());
    }
    ensure!(
        !word.contains('/'),
        "{word}: name the program by its whole path, or by a name without a slash"
    );
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let found = PATH.split(':').map(|directory| Path::new(directory).join(word)).find(is_program);
    let found = found.with_context(|| format!("{word}: no such program in {PATH}"))?;
    Ok(found.to_string_lossy().into_owned())
}

/// The user that the command names, or who asks.
fn user(args: &NewArgs) -> Result<Option<User>> {
    let own = warren_sys::process::own_ids().0;
    let users = Database::read()?;
    let Some(name) = &args.run_as else {
        let own = (own != ROOT).then(|| own.to_string());
        return Ok(own.and_then(|uid| users.find_user(&uid)));
    };
    let user = users.find_user(name).with_context(|| format!("{name}: no such user"))?;
    ensure!(own == ROOT || own == user.uid, "only root can run a command as another user");
    Ok((user.uid != ROOT).then_some(user))
}

/// Writes the unit, to standard output if no file is named.
pub(crate) fn run(args: &NewArgs, global: &Global) -> Result<i32> {
    let name = crate::names::with_suffix(&args.name);
    let name = UnitName::parse(&name).map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
    ensure!(name.unit_type() == UnitType::Service, "{name}: only services are written");
    if let Some(path) = args.output.as_deref().filter(|path| path.exists()) {
        bail!("{} exists already", path.display());
    }
    let [word, arguments @ ..] = &args.command[..] else { bail!("there is no command") };
    let mut command = vec![program(word)?];
    command.extend(arguments.iter().cloned());
    ensure!(
        !command.iter().any(|word| word.contains('\0')),
        "a unit file cannot contain a NUL byte"
    );
    let user = user(args)?;
    clean_up_at_signals()?;
    let seen = (!args.no_run).then(|| look(args, &command, user.as_ref(), global)).transpose()?;
    let description = args.description.clone().unwrap_or_else(|| name.stem().to_owned());
    let text = unit(&Plan {
        description: &description,
        command: &command,
        directory: args.directory.as_deref(),
        user: user.as_ref().map(|user| &*user.name),
        run: seen.as_ref().map(|seen| (args.run_for, seen)),
    });
    check(&name, &text)?;
    let Some(seen) = &seen else {
        write(args, &text)?;
        return Ok(0);
    };
    if let Some(what) = failed(seen) {
        let said = format!("The command {what}: the unit allows what it did until then.");
        write(args, &with_trial(&text, &format!("Not tried. {said}")))?;
        complain!("{said}");
        return Ok(1);
    }
    let trial = match args.no_try {
        true => Trial { text, status: 0 },
        false => try_it(args, &name, seen, &text, global)?,
    };
    write(args, &trial.text)?;
    Ok(trial.status)
}

fn write(args: &NewArgs, text: &str) -> Result<()> {
    let Some(path) = &args.output else {
        print(text);
        return Ok(());
    };
    let file = fs::File::create_new(path);
    let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file.write_all(text.as_bytes())?)
}

/// What a trial made of a unit.
struct Trial {
    text: String,
    /// The exit status of the command.
    status: i32,
}

/// Tries the unit, and tells how that went.
fn try_it(
    args: &NewArgs,
    name: &UnitName,
    seen: &Observed,
    text: &str,
    global: &Global,
) -> Result<Trial> {
    let scratch = Scratch::make()?;
    let time = Duration::from_secs(args.run_for);
    if !global.quiet {
        complain!(
            "Trying the unit for {} s in a nested manager; what it writes there is not kept.",
            args.run_for
        );
    }
    let tried = Trials::new(name, seen, &scratch.0).try_unit(text, time, global.quiet);
    let told = match tried {
        Ok(tried) => told(tried, args.run_for),
        Err(error) => Told {
            text: None,
            lines: vec![format!("Not tried: {}", clean_lines(&format!("{error:#}")))],
            status: 0,
        },
    };
    let status = told.status;
    let own = told.text.unwrap_or_else(|| text.to_owned());
    let first = told.lines.first().map_or("", |line| line.lines().next().unwrap_or_default());
    // What went as it should is in the unit, too.
    if !global.quiet || told.lines.len() > 1 || status != 0 {
        told.lines.iter().for_each(|line| complain!("{line}"));
    }
    Ok(Trial { text: with_trial(&own, first), status })
}

/// What is said of a trial; the first line is in the unit, too.
struct Told {
    /// The unit, if another one than was written.
    text: Option<String>,
    lines: Vec<String>,
    status: i32,
}

fn told(tried: Tried, seconds: u64) -> Told {
    match tried {
        Tried::Works(success) => Told { text: None, lines: worked(&success, seconds), status: 0 },
        Tried::Without { text, names, differences, printed, success } => {
            let mut lines = worked(&success, seconds);
            let names = names.join("=, ");
            lines.push(format!("Left out, as it was in the way: {names}=."));
            lines.push(format!("With it {}.", clean_lines(&words(&differences))));
            lines.extend(last_lines(&printed));
            Told { text: Some(text), lines, status: 0 }
        }
        Tried::Fails { differences, why, printed } => {
            let what = clean_lines(&words(&differences));
            let mut lines =
                vec![format!("Tried, and it does not do what the command did: {what}."), why];
            lines.extend(last_lines(&printed));
            Told { text: None, lines, status: 1 }
        }
    }
}

/// What a program printed last, with a heading.
fn last_lines(printed: &[String]) -> impl Iterator<Item = String> + '_ {
    let heading = (!printed.is_empty()).then(|| "The last lines of its log then:".to_owned());
    heading.into_iter().chain(printed.iter().map(|line| format!("  {}", clean(line))))
}

/// What is said of a trial that went well.
fn worked(success: &Success, seconds: u64) -> Vec<String> {
    let did = success.expected.words();
    let mut tried = format!("Tried for {seconds} s in a nested manager: {}.", clean(&did));
    if !success.not_in_force.is_empty() {
        tried += &format!(" Not in force then: {}.", clean(&success.not_in_force.join("; ")));
    }
    let mut lines = vec![tried];
    if !success.once_only.is_empty() {
        let once = clean(&words(&success.once_only));
        lines.push(format!("Unlike the first run, and without its sandbox too: {once}."));
    }
    lines
}

/// How a run ended that says little about the program.
fn failed(seen: &Observed) -> Option<String> {
    match seen.end {
        End::Ended(ExitKind::Exited(0)) | End::Running | End::Forked => None,
        End::Ended(ExitKind::Exited(status)) => Some(format!("ended with exit status {status}")),
        End::Ended(kind) => Some(format!("was ended by signal {}", kind.status())),
    }
}

/// Runs the command as the manager would, and looks.
fn look(
    args: &NewArgs,
    words: &[String],
    user: Option<&User>,
    global: &Global,
) -> Result<Observed> {
    let scratch = Scratch::make()?;
    let notify_path = scratch.0.join("notify");
    let notify = notify_socket(&notify_path)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().env("PATH", PATH).env("NOTIFY_SOCKET", &notify_path);
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    command.current_dir(args.directory.as_deref().unwrap_or(Path::new("/")));
    if let Some(user) = user {
        command
            .env("HOME", &user.home)
            .env("LOGNAME", &user.name)
            .env("USER", &user.name)
            .env("SHELL", &user.shell);
        if warren_sys::process::own_ids().0 == ROOT {
            command.uid(user.uid).gid(user.gid);
        }
    }
    if !global.quiet {
        complain!("Running the command for {} s; what it prints follows.", args.run_for);
    }
    observe(Run { command: &mut command, time: Duration::from_secs(args.run_for), notify: &notify })
}

/// What is written must load.
fn check(name: &UnitName, text: &str) -> Result<()> {
    let path = Path::new("/run/systemd/system").join(name.as_str());
    let mut verifier = Verifier::new(false, &[]);
    verifier.overlay(path.clone(), Some(text));
    let verdict = verifier.verify(&path.to_string_lossy()).map_err(anyhow::Error::msg)?;
    let error = verdict
        .diagnostics
        .iter()
        .find(|fault| fault.severity == Severity::Error && *fault.path == *path.to_string_lossy());
    match error {
        None => Ok(()),
        Some(fault) => bail!("this cannot be a unit: {}", clean_lines(&fault.message)),
    }
}
