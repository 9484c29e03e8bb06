//! warren-pam: opens a session of PAM for a process on the way to its program (systemd.exec(5), "PAMName=").
//!
//! warren-exec has a new process execute it with a [`Continuation`] at [`CONTINUATION_FD`]. It opens the session,
//! leaves a copy of itself behind that closes the session when the process ends ([`keep`]), and executes warren-exec
//! again for what is left of the spawn. It is linked dynamically, as the modules of PAM are, and runs nothing of the
//! unit's: not even its environment is its own.
//!
//! Must not decide: what cannot be done ends the process with exit status 224, and the helper is told why.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use warren_init::protocol::exec::{REQUEST_BYTES_MAX, SpawnError};
use warren_init::protocol::session::{CONTINUATION_FD, Continuation, Report};
use warren_init::protocol::{ExecStep, decode, encode};
use warren_sys::child::{self, ExecStrings};
use warren_sys::pam::{self, Session, Side};
use warren_sys::signal::{self, SignalSet};
use warren_sys::{Error, fdpass, memfd, process, usage};

/// Text of `--help`.
const HELP: &str = "\
Usage: warren-pam   (started by warren-exec)

  --version  print the version
  --help     this text
";

/// What the process is called that waits for the end of the session, as with systemd.
const KEEPER: &str = "(sd-pam)";

fn main() {
    match usage::words().nth(1).as_deref() {
        None => child::exit_now(become_session()),
        Some("--help" | "-h") => print!("{HELP}"),
        Some("--version" | "-V") => print!("{}", usage::version("warren-pam")),
        Some(word) => {
            eprint!("{}", usage::refusal(&usage::unexpected(word), HELP));
            std::process::exit(usage::EXIT_USAGE.into())
        }
    }
}

/// Returns with the exit status if something fails.
fn become_session() -> i32 {
    match continuation() {
        Ok(left) => run(left),
        Err(why) => {
            eprintln!("warren-pam: {why}");
            ExecStep::Pam.exit_code()
        }
    }
}

/// What is left to be done, and the fds for it, which no program that a module starts inherits.
fn continuation() -> Result<Continuation, String> {
    let own = fdpass::adopt_inherited(CONTINUATION_FD);
    let own = own.map_err(|_| "it is started by warren-exec only".to_owned())?;
    let content = memfd::read_all(own.as_fd(), REQUEST_BYTES_MAX).map_err(|e| e.to_string())?;
    let left: Continuation = decode(&content).map_err(|e| {
        format!("cannot read what warren-exec sent: {e}; install both of one version")
    })?;
    Ok(left)
}

/// Returns with the exit status if something fails.
fn run(mut left: Continuation) -> i32 {
    let inherited = match inherited(&left) {
        Ok(fds) => fds,
        Err(e) => {
            eprintln!("warren-pam: {e}");
            return ExecStep::Pam.exit_code();
        }
    };
    let _ = process::set_name(&name_of(&left.exec.path));
    let Some(report) = fd_of(&inherited, left.report) else { return ExecStep::Pam.exit_code() };
    let opened = open(&left);
    let session = match opened {
        Ok(session) => session,
        Err(why) => return fail(report, &left, &why),
    };
    left.env = merged(&left.env, session.variables());
    let inherited = match leave_keeper(session, inherited) {
        Ok(inherited) => inherited,
        Err((inherited, why)) => {
            let report = fd_of(&inherited, left.report);
            return report.map_or(ExecStep::Pam.exit_code(), |report| fail(report, &left, &why));
        }
    };
    let Some(report) = fd_of(&inherited, left.report) else { return ExecStep::Pam.exit_code() };
    let error = go_on(&left, &inherited);
    // The keeper sees us end and closes the session.
    fail(report, &left, &error.to_string())
}

/// All fds of the spawn, close-on-exec from here on.
fn inherited(left: &Continuation) -> Result<Vec<OwnedFd>, Error> {
    let own = [left.program, left.socket, left.report, left.fault, left.birth];
    left.fds.iter().copied().chain(own).map(fdpass::adopt_inherited).collect()
}

fn fd_of(inherited: &[OwnedFd], number: RawFd) -> Option<BorrowedFd<'_>> {
    inherited.iter().find(|fd| fd.as_raw_fd() == number).map(AsFd::as_fd)
}

/// The name of the program between brackets, the end of it if it is long, as with systemd.
fn name_of(path: &str) -> String {
    const SHOWN_BYTES: usize = 8;
    let name = path.rsplit('/').next().unwrap_or_default();
    let from =
        (name.len().saturating_sub(SHOWN_BYTES)..=name.len()).find(|at| name.is_char_boundary(*at));
    format!("({})", name.get(from.unwrap_or(0)..).unwrap_or_default())
}

fn open(left: &Continuation) -> Result<Session, String> {
    let service = left.exec.session.as_deref().unwrap_or_default();
    let mut session = Session::start(service, &left.user)?;
    let opened = prepare(&mut session, left).and_then(|()| session.open());
    match opened {
        Ok(credentials) => {
            if let Some(why) = credentials {
                eprintln!(
                    "warren-pam: service {service}, user {}: {why}; the session goes on",
                    left.user
                );
            }
            Ok(session)
        }
        Err(why) => {
            let _ = session.close();
            Err(why)
        }
    }
}

fn prepare(session: &mut Session, left: &Continuation) -> Result<(), String> {
    if let Some(terminal) = &left.terminal {
        session.set_terminal(terminal)?;
    }
    let pid = child::own_pid();
    let numbered = left.exec.pid_variables().map(|prefix| format!("{prefix}{pid}"));
    let all = left.env.iter().cloned().chain(numbered);
    all.into_iter().try_for_each(|variable| session.put_variable(&variable))
}

/// Variables of the unit, and those of modules, which win (systemd.exec(5), "Environment Variables in Spawned
/// Processes").
fn merged(unit: &[String], modules: Vec<String>) -> Vec<String> {
    let name = |variable: &str| variable.split('=').next().unwrap_or_default().to_owned();
    let of_modules: Vec<String> = modules.iter().map(|variable| name(variable)).collect();
    let stays = |variable: &&String| !of_modules.contains(&name(variable));
    unit.iter().filter(stays).cloned().chain(modules).collect()
}

/// Leaves a copy of this process behind that has the session. Gives the fds back, which the copy has not.
fn leave_keeper(
    session: Session,
    inherited: Vec<OwnedFd>,
) -> Result<Vec<OwnedFd>, (Vec<OwnedFd>, String)> {
    let close = |session: Session, inherited, e: Error| {
        let _ = session.close();
        Err((inherited, e.to_string()))
    };
    let main = match process::pidfd_open(child::own_pid()) {
        Ok(main) => main,
        Err(e) => return close(session, inherited, e),
    };
    // What ends the unit's processes does not end the copy before it has closed the session.
    let before = signal::set_blocked(SignalSet::ALL).unwrap_or(SignalSet::EMPTY);
    match pam::fork(&session) {
        Ok(Side::Child) => {
            drop(inherited);
            keep(session, main.as_fd())
        }
        forked => {
            let _ = signal::set_blocked(before);
            match forked {
                Ok(_) => Ok(inherited),
                Err(e) => close(session, inherited, e),
            }
        }
    }
}

/// The copy: waits for the end of the process, and closes the session. It keeps root's rights, which modules may
/// need, and the standard streams of the unit, for what they say.
fn keep(session: Session, main: BorrowedFd<'_>) -> ! {
    const LOOK: Duration = Duration::from_secs(3600);
    let _ = process::set_name(KEEPER);
    while process::is_alive(main) {
        let _ = fdpass::wait_readable(main, LOOK);
    }
    let status = match session.close() {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("warren-pam: {why}");
            ExecStep::Pam.exit_code()
        }
    };
    child::exit_now(status)
}

/// Executes the helper's program, which does what is left. Returns why it could not.
fn go_on(left: &Continuation, inherited: &[OwnedFd]) -> Error {
    keep_from_program();
    let invalid = |_| Error::new("encode continuation", warren_sys::errno::EINVAL);
    let sealed = encode(left).map_err(invalid);
    let sealed = sealed.and_then(|content| memfd::sealed("warren-continuation", &content));
    // Above the numbers that the program gets.
    let above = inherited.iter().map(|fd| fd.as_raw_fd()).max().unwrap_or(CONTINUATION_FD);
    let sealed = match sealed.and_then(|fd| fdpass::duplicate(fd, above)) {
        Ok(fd) => fd,
        Err(e) => return e,
    };
    let all = inherited.iter().map(AsFd::as_fd).chain([sealed.as_fd()]);
    if let Err(e) = all.into_iter().try_for_each(fdpass::set_inheritable) {
        return e;
    }
    let strings = |words: &[&str]| {
        let mut list = ExecStrings::with_capacity(words.len());
        words.iter().try_for_each(|word| list.push(word)).map(|()| list.finish())?;
        Ok::<_, Error>(list)
    };
    let argument = format!("--continue={}", sealed.as_raw_fd());
    match strings(&["warren-exec", &argument]).and_then(|argv| Ok((argv, strings(&[])?))) {
        Ok((argv, env)) => child::exec_fd(left.program, &argv, &env),
        Err(e) => e,
    }
}

/// What modules have left open is not the unit's.
fn keep_from_program() {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<RawFd>().ok();
    let numbers: Vec<RawFd> = open.filter_map(number).collect();
    numbers.into_iter().filter(|number| *number >= CONTINUATION_FD).for_each(child::close_on_exec);
}

/// Has the helper know why there is no session, and says it where the unit's own messages go.
fn fail(report: BorrowedFd<'_>, left: &Continuation, why: &str) -> i32 {
    let service = left.exec.session.as_deref().unwrap_or_default();
    let message = format!("service {service} of PAM, user {}: {why}", left.user);
    let step = ExecStep::Pam;
    let error = SpawnError { step, errno: 0, message, pid: None };
    if let Ok(packet) = encode(&Report::Failed(error)) {
        let _ = fdpass::send(report, &packet, &[]);
    }
    step.exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_the_last_word() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let unit = texts(&["A=unit", "B=unit", "TAKEN=1"]);
        let modules = texts(&["B=pam", "C=pam=x"]);
        // What modules take out stays, as with systemd.
        assert_eq!(merged(&unit, modules), ["A=unit", "TAKEN=1", "B=pam", "C=pam=x"]);
    }

    #[test]
    fn a_process_shows_the_end_of_its_programs_name() {
        for (path, shown) in [
            ("/bin/sh", "(sh)"),
            ("/x/nonexistent", "(existent)"),
            ("", "()"),
            ("/ääääää", "(ääää)"),
        ] {
            assert_eq!(name_of(path), shown);
        }
    }
}
