//! File descriptors: those of a request, by index, and the numbers that are our own.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::LazyLock;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::SpawnError;
use warren_sys::descriptors::Allowance;
use warren_sys::{Error, fdpass};

use crate::fault::{failed, wrong};

/// Lowest number of an fd that we keep: above every number that a service's fds get, so that
/// installing those never hits one of ours. 3 for the standard ones plus 253 of one packet; with more,
/// what is needed is moved higher for the time being.
const OWN_FDS_FROM: RawFd = 256;

/// The same where so few files may be open that half of the numbers are fewer.
pub fn own_fds_from() -> RawFd {
    static FROM: LazyLock<RawFd> = LazyLock::new(|| own_fds_under(Allowance::of_process().limit));
    *FROM
}

fn own_fds_under(limit: u64) -> RawFd {
    let half = RawFd::try_from(limit / 2).unwrap_or(RawFd::MAX);
    half.min(OWN_FDS_FROM)
}

/// Takes an fd that init started us with out of the services' way.
pub fn own_inherited(fd: RawFd) -> Result<OwnedFd, Error> {
    fdpass::take_inherited(fd, own_fds_from())
}

/// Number of the first fd that a service is passed.
const FIRST_PASSED: usize = 3;

/// The request's fds by index.
#[derive(Debug, Default)]
pub struct FdTable {
    fds: Vec<OwnedFd>,
    /// Above every number that is to be installed.
    base: RawFd,
    /// The helper's socket, where that is in the way: who hears of it hears when the program is there.
    _socket: Option<OwnedFd>,
}

impl FdTable {
    /// Takes received fds, moving those that are in the way of the numbers to be installed.
    pub fn new(fds: Vec<OwnedFd>, socket: BorrowedFd<'_>) -> Result<FdTable, SpawnError> {
        let base = RawFd::try_from(fds.len() + FIRST_PASSED).unwrap_or(RawFd::MAX);
        let base = base.max(own_fds_from());
        let copy =
            |fd: BorrowedFd<'_>| fdpass::duplicate(fd, base).map_err(|e| wrong(ExecStep::Fds, &e));
        let high = |fd: OwnedFd| match fd.as_raw_fd() {
            n if n >= base => Ok(fd),
            _ => copy(fd.as_fd()),
        };
        let in_the_way = (base > own_fds_from()).then_some(socket);
        let _socket = in_the_way.map(copy).transpose()?;
        let fds = fds.into_iter().map(high).collect::<Result<_, _>>()?;
        Ok(FdTable { fds, base, _socket })
    }

    /// The fds that this process was started with, under numbers that are not in the way already.
    pub fn inherited(numbers: &[RawFd]) -> Result<FdTable, SpawnError> {
        let adopt = |&number: &RawFd| fdpass::adopt_inherited(number);
        let fds = numbers.iter().map(adopt).collect::<Result<Vec<_>, _>>();
        let fds = fds.map_err(|e| wrong(ExecStep::Fds, &e))?;
        let base = RawFd::try_from(fds.len() + FIRST_PASSED).unwrap_or(RawFd::MAX);
        Ok(FdTable { fds, base: base.max(own_fds_from()), _socket: None })
    }

    /// The numbers of all of them.
    pub fn numbers(&self) -> Vec<RawFd> {
        self.fds.iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// A copy of any fd under a number that is not in the way.
    pub fn out_of_the_way(&self, fd: impl AsFd) -> Result<OwnedFd, SpawnError> {
        fdpass::duplicate(fd, self.base).map_err(|e| wrong(ExecStep::Fds, &e))
    }

    /// Whether so many can be passed below the numbers of ours.
    pub fn has_room_for(&self, passed: usize) -> bool {
        passed + FIRST_PASSED <= self.base as usize
    }

    /// The fd with this index; the request is wrong when there is none.
    pub fn number(&self, index: u16, step: ExecStep) -> Result<RawFd, SpawnError> {
        let fd = self.fds.get(usize::from(index));
        fd.map(AsRawFd::as_raw_fd).ok_or_else(|| {
            failed(step, 0, format!("file descriptor {index} is missing from the request"))
        })
    }

    /// The same, borrowed.
    pub fn borrow(&self, index: u16, step: ExecStep) -> Result<BorrowedFd<'_>, SpawnError> {
        let fd = self.fds.get(usize::from(index));
        fd.map(AsFd::as_fd).ok_or_else(|| {
            failed(step, 0, format!("file descriptor {index} is missing from the request"))
        })
    }

    /// A copy of it.
    pub fn copy(&self, index: u16, step: ExecStep) -> Result<OwnedFd, SpawnError> {
        let Some(fd) = self.fds.get(usize::from(index)) else {
            return Err(failed(
                step,
                0,
                format!("file descriptor {index} is missing from the request"),
            ));
        };
        fdpass::duplicate(fd, self.base).map_err(|e| wrong(step, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_numbers_are_below_the_limit_of_open_files() {
        for (limit, from) in [(1 << 20, 256), (512, 256), (511, 255), (100, 50)] {
            assert_eq!(own_fds_under(limit), from);
        }
        assert_eq!(own_fds_under(u64::MAX), 256);
    }
}
