//! Files that a service is given opened (OpenFile=, systemd.service(5)): by the helper, so as root and as the host sees
//! them, whatever the service itself may see or open.

use std::os::fd::{AsFd, OwnedFd};

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, FileToOpen, HowToOpen, SpawnError};
use warren_sys::file::{self, Access};
use warren_sys::{Error, socket};

use crate::fault::{failed, wrong};

/// Opens the files of a spec behind the fds that came with it. What the environment says of the fds that are passed is
/// put into the spec, now that it is known which they are.
pub fn open(spec: &mut ExecSpec, fds: &mut Vec<OwnedFd>) -> Result<(), SpawnError> {
    if spec.open_files.is_empty() {
        return Ok(());
    }
    let mut names = std::mem::take(&mut spec.listen_names);
    for asked in std::mem::take(&mut spec.open_files) {
        let fd = match open_one(&asked) {
            Ok(fd) => fd,
            Err(_) if asked.is_optional => continue,
            Err(error) => return Err(wrong(ExecStep::Fds, &error)),
        };
        let too_many = || failed(ExecStep::Fds, 0, format!("{}: too many fds", asked.path));
        spec.listen_fds.push(u16::try_from(fds.len()).map_err(|_| too_many())?);
        fds.push(fd);
        names.push(asked.name);
    }
    // Without descriptors none of the variables is set.
    let has_any = !names.is_empty();
    spec.set_listen_pid &= has_any;
    if spec.set_listen_fds && has_any {
        spec.env.push(format!("LISTEN_FDS={}", names.len()));
    }
    if spec.set_listen_names && has_any {
        spec.env.push(format!("LISTEN_FDNAMES={}", names.join(":")));
    }
    Ok(())
}

/// Opens without waiting for the other end of a pipe. Connecting to a socket waits until the connection is accepted or
/// refused.
fn open_one(asked: &FileToOpen) -> Result<OwnedFd, Error> {
    let fd = match file::is_socket(&asked.path)? {
        true => socket::connect_any(&asked.path)?,
        false => file::open_at_once(&asked.path, access(asked.how))?,
    };
    file::set_nonblocking(fd.as_fd(), asked.non_blocking)?;
    Ok(fd)
}

fn access(how: HowToOpen) -> Access {
    match how {
        HowToOpen::ReadWrite => Access::ReadWrite,
        HowToOpen::Read => Access::Read,
        HowToOpen::Append => Access::Append,
        HowToOpen::Truncate => Access::Truncate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a spec with these files behind one fd of the name `s`, the last of them optional.
    fn opened(paths: &[&str], fds: usize) -> Result<String, SpawnError> {
        let file = |(at, path): (usize, &&str)| FileToOpen {
            path: (*path).to_owned(),
            name: format!("f{at}"),
            how: HowToOpen::Read,
            is_optional: at + 1 == paths.len(),
            non_blocking: false,
        };
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
        let mut all: Vec<OwnedFd> = (0..fds).map(|_| null()).collect();
        let mut spec = ExecSpec {
            open_files: paths.iter().enumerate().map(file).collect(),
            listen_fds: (0..fds as u16).collect(),
            listen_names: (0..fds).map(|_| "s".to_owned()).collect(),
            set_listen_pid: true,
            set_listen_fds: true,
            set_listen_names: true,
            ..ExecSpec::default()
        };
        open(&mut spec, &mut all)?;
        assert_eq!(spec.listen_fds.len(), all.len());
        Ok(format!("{:?} {} {}", spec.listen_fds, spec.set_listen_pid, spec.env.join(" ")))
    }

    #[track_caller]
    fn check(paths: &[&str], fds: usize, expected: &str) {
        let got = opened(paths, fds).unwrap_or_else(|e| format!("{} {}", e.message, e.errno));
        assert_eq!(got, expected, "{paths:?}");
    }

    #[test]
    fn files_come_behind_the_fds_and_optional_ones_may_be_missing() {
        let (null, none) = ("/dev/null", "/no/such/file");
        let names = "LISTEN_FDS=2 LISTEN_FDNAMES=s:f0";
        check(&[null], 1, &format!("[0, 1] true {names}"));
        check(&[null, none], 1, &format!("[0, 1] true {names}"));
        check(&[null, null], 0, "[0, 1] true LISTEN_FDS=2 LISTEN_FDNAMES=f0:f1");
        check(&[none], 1, "[0] true LISTEN_FDS=1 LISTEN_FDNAMES=s");
        check(&[none], 0, "[] false ");
        check(&[none, null], 0, "stat /no/such/file 2");
        check(&[], 1, "[0] true ");
    }
}
