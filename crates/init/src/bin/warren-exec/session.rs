//! A spawn with a session of PAM: what the helper does before it, and the process after it.
//!
//! The process executes `warren-pam` in between, and then this program again ([`go_on`]), in memory of its own.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use warren_init::protocol::birth::Birth;
use warren_init::protocol::exec::{ExecSpec, Missing, REQUEST_BYTES_MAX, SpawnError, StdInput};
use warren_init::protocol::session::{Continuation, FAULT_BYTES, Fault, Report};
use warren_init::protocol::{ExecStep, PACKET_BYTES_MAX, decode, encode};
use warren_sys::child::{self, ExecStrings};
use warren_sys::memfd::{self, SharedWords};
use warren_sys::{Error, fdpass, process};

use crate::apply::{self, Failure};
use crate::fault::{c_string, failed, wrong};
use crate::fds::FdTable;
use crate::identity::Users;
use crate::prepare::{self, Part, Prepared};

const STEP: ExecStep = ExecStep::Pam;

/// Where modules of PAM find programs. Nothing of the unit's is in their program's environment: its user may have
/// written it, and the dynamic linker would heed it.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the session's process is called while nothing else is known of it, and what stays behind of it.
const NAME: &str = "(sd-pam)";

/// What the session's program gets of the helper.
pub struct Opening {
    /// The [`Continuation`].
    pub continuation: OwnedFd,
    /// Numbers of the fds that are in it.
    pub inherited: Vec<RawFd>,
    /// Held open until the process has them.
    _fds: Vec<OwnedFd>,
}

/// What the helper waits with until the process is its program.
pub struct Waits {
    report: OwnedFd,
    fault: Fault,
}

/// Makes the session's program ready; nothing where there is to be no session.
pub fn begin(
    prepared: &mut Prepared,
    socket: BorrowedFd<'_>,
    birth: &Birth,
    birth_fd: BorrowedFd<'_>,
) -> Result<Option<Waits>, SpawnError> {
    if prepared.part != Part::BeforeSession {
        return Ok(None);
    }
    let wrong = |e: Error| wrong(STEP, &e);
    let table = &prepared.fds;
    let own = std::fs::File::open("/proc/self/exe").map_err(|e| {
        failed(STEP, e.raw_os_error().unwrap_or(0), "open /proc/self/exe".to_owned())
    })?;
    let (ours, report) = fdpass::seqpacket_pair(false).map_err(wrong)?;
    let fault = memfd::fixed_size("warren-fault", FAULT_BYTES).map_err(wrong)?;
    let words = SharedWords::map(fault.as_fd()).map_err(wrong)?;
    let fds = [own.as_fd(), socket, report.as_fd(), fault.as_fd(), birth_fd];
    let fds: Vec<OwnedFd> =
        fds.into_iter().map(|fd| table.out_of_the_way(fd)).collect::<Result<_, _>>()?;
    let [program, socket, report, fault, birth_at] =
        std::array::from_fn(|at| fds.get(at).map_or(-1, AsRawFd::as_raw_fd));
    let user = prepared.identity.user.as_ref().map(|user| user.name.clone());
    let spec = &prepared.spec;
    let continuation = Continuation {
        user: user.ok_or_else(|| failed(STEP, 0, "PAMName= needs a user".to_owned()))?,
        terminal: terminal(spec),
        env: prepare::environment(spec, &prepared.identity),
        exec: Box::new(spec.clone()),
        fds: table.numbers(),
        program,
        socket,
        report,
        fault,
        birth: birth_at,
        place: birth.place(),
    };
    let content = encode(&continuation).map_err(|e| failed(STEP, 0, e.to_string()))?;
    let sealed = memfd::sealed("warren-continuation", &content).map_err(wrong)?;
    let mut inherited = continuation.fds;
    inherited.extend(fds.iter().map(AsRawFd::as_raw_fd));
    let continuation = table.out_of_the_way(sealed)?;
    prepared.opening = Some(Opening { continuation, inherited, _fds: fds });
    prepared.program = session_program()?;
    prepared.argv = strings(&[NAME])?;
    prepared.env = strings(&[PATH])?;
    Ok(Some(Waits { report: ours, fault: Fault(words) }))
}

/// `warren-pam` beside this program.
fn session_program() -> Result<CString, SpawnError> {
    let own = process::program(child::own_pid()).map_err(|e| wrong(STEP, &e))?;
    let directory = Path::new(&own).parent().unwrap_or(Path::new("/"));
    c_string(&directory.join("warren-pam").to_string_lossy(), STEP)
}

fn strings(words: &[&str]) -> Result<ExecStrings, SpawnError> {
    let mut list = ExecStrings::with_capacity(words.len());
    words.iter().try_for_each(|word| list.push(word)).map_err(|e| wrong(STEP, &e))?;
    list.finish();
    Ok(list)
}

/// The terminal that modules are told of: that which is stated, or on standard input.
fn terminal(spec: &ExecSpec) -> Option<String> {
    match (&spec.tty_path, &spec.stdin) {
        (path, _) if !path.is_empty() => Some(path.clone()),
        (_, StdInput::Tty(_)) => Some("/dev/console".to_owned()),
        _ => None,
    }
}

impl Waits {
    /// Waits until the process is its program, or has ended before it could say what is wrong.
    pub fn until_program(self, pid: i32, pidfd: BorrowedFd<'_>) -> Result<Missing, SpawnError> {
        let failed_at = |error: SpawnError| SpawnError { pid: Some(pid), ..error };
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        loop {
            let waited = fdpass::wait_for_either([self.report.as_fd(), pidfd]);
            waited.map_err(|e| failed_at(wrong(STEP, &e)))?;
            let mut fds = Vec::new();
            match fdpass::recv(self.report.as_fd(), &mut buffer, &mut fds, false) {
                Err(e) if e.is_would_block() && process::is_alive(pidfd) => continue,
                Err(_) => return Ok(Missing::default()),
                Ok(received) if received.bytes == 0 => return Ok(Missing::default()),
                Ok(received) => {
                    let packet = buffer.get(..received.bytes).unwrap_or_default();
                    match decode(packet) {
                        Ok(Report::Failed(error)) => return Err(failed_at(error)),
                        Ok(Report::Executes { missing, program }) => {
                            fds.iter().for_each(|end| wait_for_end(end.as_fd()));
                            return self.outcome(missing, program).map_err(failed_at);
                        }
                        Err(e) => return Err(failed_at(failed(STEP, 0, e.to_string()))),
                    }
                }
            }
        }
    }

    fn outcome(&self, missing: Missing, program: String) -> Result<Missing, SpawnError> {
        match self.fault.get() {
            None => Ok(missing),
            Some((ExecStep::Exec, errno)) => {
                Err(failed(ExecStep::Exec, errno, format!("execve {program}")))
            }
            Some((step, errno)) => Err(failed(step, errno, step.name().to_owned())),
        }
    }
}

/// Waits until all who have the other end are gone.
fn wait_for_end(end: BorrowedFd<'_>) {
    const LOOK: Duration = Duration::from_secs(3600);
    while matches!(fdpass::wait_readable(end, LOOK), Ok(false)) {}
}

/// The environment of the program: what modules have made of it, without what UnsetEnvironment= says and without
/// what has the number of the process in it.
pub fn environment(spec: &ExecSpec, variables: Vec<String>) -> Vec<String> {
    let is_unset = |variable: &str| {
        let name = variable.split_once('=').map(|(name, _)| name);
        spec.unset_env.iter().any(|word| word == variable || Some(&**word) == name)
    };
    let is_numbered =
        |variable: &str| spec.pid_variables().any(|prefix| variable.starts_with(prefix));
    variables.into_iter().filter(|text| !is_unset(text) && !is_numbered(text)).collect()
}

/// The process, its session open: does what is left and becomes its program, or says why not and ends.
pub fn go_on(continuation: OwnedFd) -> ! {
    let content = memfd::read_all(continuation.as_fd(), REQUEST_BYTES_MAX);
    let content = content.map_err(|e| e.to_string());
    let decoded = content.and_then(|c| decode::<Continuation>(&c).map_err(|e| e.to_string()));
    drop(continuation);
    match decoded {
        Ok(left) => child::exit_now(Rest::of(left).map_or(STEP.exit_code(), Rest::run)),
        Err(e) => {
            eprintln!("warren-exec: cannot read the rest of a request: {e}");
            child::exit_now(STEP.exit_code())
        }
    }
}

/// What is left of a spawn, with what it is told by.
struct Rest {
    exec: ExecSpec,
    env: Vec<String>,
    fds: FdTable,
    report: OwnedFd,
    fault: Fault,
    birth: Birth,
    /// Held open until the process is its program.
    _socket: OwnedFd,
}

impl Rest {
    fn of(left: Continuation) -> Option<Rest> {
        let own = |number: RawFd| fdpass::adopt_inherited(number).ok();
        let (report, fault) = (own(left.report)?, own(left.fault)?);
        let socket = own(left.socket)?;
        let birth = own(left.birth)?;
        Some(Rest {
            exec: *left.exec,
            env: left.env,
            fds: FdTable::inherited(&left.fds).ok()?,
            fault: Fault(SharedWords::map(fault.as_fd()).ok()?),
            birth: Birth::attach_at(birth.as_fd(), left.place).ok()?,
            report,
            _socket: socket,
        })
    }

    /// Returns with the exit code where a step failed.
    fn run(self) -> i32 {
        let mut users = Users::default();
        let prepared = prepare::in_session(self.exec, self.fds, self.env, &mut users, &|| {
            self.birth.goes_on()
        });
        let mut prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return fail(self.report.as_fd(), error),
        };
        let mut is_reported = false;
        let pid = child::own_pid();
        let (report, mut end) = (self.report.as_fd(), None);
        let mut tell = |prepared: &Prepared| {
            is_reported = true;
            end = executes(report, prepared).ok();
        };
        let Failure { step, errno, call } =
            apply::apply_and_exec(&mut prepared, None, pid, &self.birth, &mut tell);
        if is_reported {
            // What filters forbid was not to be done after them; the memory needs no call.
            self.fault.set(step, errno);
            return step.exit_code();
        }
        fail(report, failed(step, errno, prepared.describe(step, call)))
    }
}

/// Says that the program follows. The other end is kept until it does.
fn executes(report: BorrowedFd<'_>, prepared: &Prepared) -> Result<OwnedFd, Error> {
    let (theirs, end) = fdpass::seqpacket_pair(false)?;
    let program = prepared.program.to_string_lossy().into_owned();
    let packet = encode(&Report::Executes { missing: prepared.missing(), program });
    let packet = packet.map_err(|_| Error::new("report", warren_sys::errno::EINVAL))?;
    fdpass::send(report, &packet, &[theirs.as_fd()])?;
    Ok(end)
}

/// Says what failed; nobody may be there to hear it.
fn fail(report: BorrowedFd<'_>, error: SpawnError) -> i32 {
    let code = error.step.exit_code();
    if let Ok(packet) = encode(&Report::Failed(error)) {
        let _ = fdpass::send(report, &packet, &[]);
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_the_last_word_but_for_what_is_unset() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let spec = ExecSpec {
            unset_env: texts(&["GONE", "VALUE=1"]),
            set_listen_pid: true,
            ..ExecSpec::default()
        };
        let given = ["A=1", "GONE=x", "VALUE=1", "LISTEN_PID=7", "WATCHDOG_PID=7", "GONER=1"];
        assert_eq!(environment(&spec, texts(&given)), ["A=1", "WATCHDOG_PID=7", "GONER=1"]);
        let given = ["VALUE=2"];
        assert_eq!(environment(&spec, texts(&given)), ["VALUE=2"]);
    }
}
