//! `warren new`: a unit from a command, with what its program turned out to need.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use warren_sys::passwd::{Database, User};
use warren_sys::process::ExitKind;
use warren_unit::{Severity, UnitName, UnitType};

use super::needs::{Plan, unit};
use super::observe::{End, Observed, Run, observe};
use crate::args::{Global, NewArgs};
use crate::output::{clean_lines, print};
use crate::verify::Verifier;

/// Where the manager looks for programs (systemd.exec(5), "ExecSearchPath=").
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whom the rights of root belong to.
const ROOT: u32 = 0;

/// A directory that is removed at the end, with a socket at which a program may say that it is ready.
struct Notify {
    directory: PathBuf,
    socket: UnixDatagram,
}

impl Notify {
    fn new() -> Result<Notify> {
        let name = format!("warren-new-{}-{:x}", std::process::id(), warren_sys::random::u128());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let bound = UnixDatagram::bind(directory.join("notify"));
        let made = Notify { directory, socket: bound.context("cannot make a socket")? };
        // The program may be another user's.
        fs::set_permissions(made.path(), fs::Permissions::from_mode(0o666))?;
        fs::set_permissions(&made.directory, fs::Permissions::from_mode(0o711))?;
        made.socket.set_nonblocking(true)?;
        Ok(made)
    }

    fn path(&self) -> PathBuf {
        self.directory.join("notify")
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path());
        let _ = fs::remove_dir(&self.directory);
    }
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
        bail!("{} is there already", path.display());
    }
    let [word, arguments @ ..] = &args.command[..] else { bail!("there is no command") };
    let mut command = vec![program(word)?];
    command.extend(arguments.iter().cloned());
    ensure!(
        !command.iter().any(|word| word.contains('\0')),
        "a unit file cannot contain a NUL byte"
    );
    let user = user(args)?;
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
    match &args.output {
        None => print(&text),
        Some(path) => {
            let mut file = fs::File::create_new(path)
                .with_context(|| format!("cannot write {}", path.display()))?;
            file.write_all(text.as_bytes())?;
        }
    }
    if let Some(what) = seen.as_ref().and_then(failed) {
        complain!("The command {what}: the unit allows what it did until then.");
        return Ok(1);
    }
    Ok(0)
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
    let notify = Notify::new()?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().env("PATH", PATH).env("NOTIFY_SOCKET", notify.path());
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
    observe(Run {
        command: &mut command,
        time: Duration::from_secs(args.run_for),
        notify: &notify.socket,
    })
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
