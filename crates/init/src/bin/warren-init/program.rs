//! Starting our own programs: the manager and the exec helpers.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use warren_sys::child::{self, ExecStrings};
use warren_sys::clone::{self, Child, Options, Stack};
use warren_sys::process::{self, Wait};
use warren_sys::signal::{self, SignalSet};
use warren_sys::{Error, Result};

/// First number of the fds that a program is started with.
const FIRST_FD: RawFd = 3;

/// Where those fds are moved to first, so that none is in another's way.
const ASIDE: RawFd = FIRST_FD + FDS_MAX as RawFd;

/// Most fds that a program is started with.
const FDS_MAX: usize = 4;

/// SIGINT, SIGQUIT and SIGTSTP: what keys of a terminal send to a whole process group.
const TERMINAL_SIGNALS: SignalSet = SignalSet::EMPTY.with(2).with(3).with(20);

/// A program with its arguments and environment, made once.
pub struct Program {
    path: CString,
    argv: ExecStrings,
    env: ExecStrings,
}

impl Program {
    /// Arguments after the name, and `NAME=value` entries.
    pub fn new(path: &Path, args: &[String], env: &[String]) -> Result<Program> {
        let bad = |_| Error::at("program path", path, 22);
        let c_path = CString::new(path.as_os_str().as_bytes()).map_err(bad)?;
        let mut argv = ExecStrings::with_capacity(args.len() + 1);
        argv.push(&path.to_string_lossy())?;
        args.iter().try_for_each(|arg| argv.push(arg))?;
        argv.finish();
        let mut strings = ExecStrings::with_capacity(env.len());
        env.iter().try_for_each(|entry| strings.push(entry))?;
        strings.finish();
        Ok(Program { path: c_path, argv, env: strings })
    }

    /// Starts it with the standard fds of this process and `fds` as 3, 4, ... Fails when exec
    /// does. It stays in our process group, which autofs knows as the one that mounts; what a
    /// terminal sends to all of it is blocked, for us alone to handle.
    pub fn start(&self, stack: &mut Stack, fds: &[BorrowedFd<'_>]) -> Result<Child> {
        let mut failure = None;
        let mut body = |_| {
            failure = Some(self.become_it(fds));
            1
        };
        let child = clone::spawn(&Options::default(), stack, &mut body)?;
        match failure {
            None => Ok(child),
            Some(error) => {
                // Reaped here: nobody else must take it for a service.
                let _ = process::wait(Wait::PidFd(child.pidfd.as_fd()), true);
                Err(error.on(Path::new(&*self.path.to_string_lossy())))
            }
        }
    }

    /// In the new process: allocates nothing. Returns only when it failed.
    fn become_it(&self, fds: &[BorrowedFd<'_>]) -> Error {
        match self.arrange(fds) {
            Ok(()) => child::exec(&self.path, &self.argv, &self.env),
            Err(error) => error,
        }
    }

    fn arrange(&self, fds: &[BorrowedFd<'_>]) -> Result<()> {
        assert!(fds.len() <= FDS_MAX, "our programs get a few fds");
        let mut aside = [0; FDS_MAX];
        for (copy, fd) in aside.iter_mut().zip(fds) {
            *copy = child::copy_above(fd.as_raw_fd(), ASIDE)?;
        }
        let mut next = FIRST_FD;
        for &copy in aside.iter().take(fds.len()) {
            child::install_fd(copy, next)?;
            next += 1;
        }
        child::close_on_exec_from(next);
        signal::set_blocked(TERMINAL_SIGNALS).map(|_| ())
    }
}
