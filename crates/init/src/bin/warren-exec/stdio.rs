//! Where the three standard fds come from.

use std::ffi::CString;
use std::os::fd::RawFd;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, SpawnError, StdInput, StdOutput, TtyMode};

use crate::fault::c_string;
use crate::fds::FdTable;

const O_RDONLY: i32 = 0;
const O_WRONLY: i32 = 1;
const O_RDWR: i32 = 2;
const O_CREAT: i32 = 0o100;
const O_NOCTTY: i32 = 0o400;
const O_TRUNC: i32 = 0o1000;
const O_APPEND: i32 = 0o2000;

/// One standard fd, as the new process sets it up.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// An fd we hold.
    Fd(RawFd),
    /// The same; if it is a terminal, it becomes the controlling one.
    Passed(RawFd),
    /// Open this. What is made is for root and its group to read if it `is_ours`, else as UMask= says.
    Open { path: CString, flags: i32, is_ours: bool },
    /// Open this terminal; make it the controlling one when `take` says how.
    Tty { path: CString, take: Option<TtyMode> },
    /// Connect this fd to the log daemon and say the header; where that cannot be, open the file.
    Journal { fd: RawFd, header: Vec<u8>, file: CString },
    /// The same as a lower standard fd.
    Same(RawFd),
}

/// How a log file of the manager's own is opened.
pub const LOG_FLAGS: i32 = O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY;

/// The three of them, in the order in which they are set up.
pub fn plan(spec: &ExecSpec, fds: &FdTable) -> Result<[Source; 3], SpawnError> {
    Ok([
        input(spec, fds)?,
        output(&spec.stdout, 1, spec, fds)?,
        output(&spec.stderr, 2, spec, fds)?,
    ])
}

fn input(spec: &ExecSpec, fds: &FdTable) -> Result<Source, SpawnError> {
    let step = ExecStep::Stdin;
    match &spec.stdin {
        StdInput::Null => Ok(null(O_RDONLY)),
        StdInput::Fd(index) => fds.number(*index, step).map(Source::Fd),
        StdInput::Passed(index) => fds.number(*index, step).map(Source::Passed),
        StdInput::File(path) => {
            // Standard error inherits standard output.
            let is_file = |output: &StdOutput| matches!(output, StdOutput::File(p) if p == path);
            let shared =
                spec.stdout == StdOutput::Inherit || is_file(&spec.stdout) || is_file(&spec.stderr);
            open(path, if shared { O_RDWR } else { O_RDONLY }, step)
        }
        StdInput::Tty(mode) => tty(spec, Some(*mode), step),
    }
}

fn output(
    kind: &StdOutput,
    number: RawFd,
    spec: &ExecSpec,
    fds: &FdTable,
) -> Result<Source, SpawnError> {
    let step = if number == 1 { ExecStep::Stdout } else { ExecStep::Stderr };
    match kind {
        StdOutput::Inherit if number == 1 && spec.stdin == StdInput::Null => Ok(null(O_WRONLY)),
        StdOutput::Inherit => Ok(Source::Same(number - 1)),
        StdOutput::Null => Ok(null(O_WRONLY)),
        StdOutput::Fd(index) => fds.number(*index, step).map(Source::Fd),
        // One file for both is opened once, so that neither overwrites the other, and that a socket is
        // connected to once.
        StdOutput::File(path) if spec.stdin == StdInput::File(path.clone()) => Ok(Source::Same(0)),
        StdOutput::File(_) | StdOutput::Truncate(_) if number == 2 && *kind == spec.stdout => {
            Ok(Source::Same(1))
        }
        StdOutput::File(path) => open(path, O_WRONLY | O_CREAT, step),
        StdOutput::Append(path) => open(path, O_WRONLY | O_CREAT | O_APPEND, step),
        StdOutput::Truncate(path) => open(path, O_WRONLY | O_CREAT | O_TRUNC, step),
        StdOutput::Tty => tty(spec, None, step),
        StdOutput::Journal { .. } if number == 2 && *kind == spec.stdout => Ok(Source::Same(1)),
        StdOutput::Journal { fd, header, file } => Ok(Source::Journal {
            fd: fds.number(*fd, step)?,
            header: header.clone().into_bytes(),
            file: c_string(file, step)?,
        }),
        StdOutput::Log(path) => {
            let path = c_string(path, step)?;
            Ok(Source::Open { path, flags: LOG_FLAGS, is_ours: true })
        }
    }
}

fn null(flags: i32) -> Source {
    Source::Open { path: c"/dev/null".to_owned(), flags, is_ours: false }
}

fn open(path: &str, flags: i32, step: ExecStep) -> Result<Source, SpawnError> {
    Ok(Source::Open { path: c_string(path, step)?, flags: flags | O_NOCTTY, is_ours: false })
}

fn tty(spec: &ExecSpec, take: Option<TtyMode>, step: ExecStep) -> Result<Source, SpawnError> {
    let path = if spec.tty_path.is_empty() { "/dev/console" } else { &spec.tty_path };
    Ok(Source::Tty { path: c_string(path, step)?, take })
}

/// How a terminal is opened: never as controlling terminal by accident.
pub const TTY_FLAGS: i32 = O_RDWR | O_NOCTTY;

/// The same for what is written only.
pub const TTY_OUTPUT_FLAGS: i32 = O_WRONLY | O_NOCTTY;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stdin: StdInput, stdout: StdOutput, stderr: StdOutput, expected: &str) {
        let spec = ExecSpec { stdin, stdout, stderr, ..ExecSpec::default() };
        let plan = plan(&spec, &FdTable::default()).expect("no fds are used");
        let text = |s: &Source| match s {
            Source::Fd(fd) | Source::Passed(fd) => format!("fd{fd}"),
            Source::Open { path, flags, .. } => format!("{}:{flags:o}", path.to_string_lossy()),
            Source::Tty { path, take } => format!("{}:{take:?}", path.to_string_lossy()),
            Source::Same(fd) => format!("={fd}"),
            Source::Journal { fd, .. } => format!("journal{fd}"),
        };
        assert_eq!(plan.iter().map(text).collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn inheriting_follows_the_manual() {
        let file = |p: &str| StdOutput::File(p.into());
        let inherit = || StdOutput::Inherit;
        check(StdInput::Null, inherit(), inherit(), "/dev/null:0 /dev/null:1 =1");
        check(StdInput::File("/a".into()), inherit(), inherit(), "/a:402 =0 =1");
        check(StdInput::File("/a".into()), file("/b"), file("/b"), "/a:400 /b:501 =1");
        check(StdInput::File("/a".into()), file("/b"), inherit(), "/a:400 /b:501 =1");
        check(StdInput::File("/a".into()), file("/a"), inherit(), "/a:402 =0 =1");
        check(StdInput::File("/a".into()), StdOutput::Null, file("/a"), "/a:402 /dev/null:1 =0");
        check(StdInput::Null, file("/b"), file("/c"), "/dev/null:0 /b:501 /c:501");
        let console = "/dev/console:Some(Fail) =0 /dev/console:None";
        check(StdInput::Tty(TtyMode::Fail), inherit(), StdOutput::Tty, console);
    }
}
