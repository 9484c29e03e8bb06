//! How many of its file descriptors a process gives to those that it works for. The rest is a reserve: for whoever
//! comes to its doors, for what ends things, and for what is open for a moment only.
//!
//! The kernel hands out the lowest number that is free, so a number in the reserve says that all others are taken:
//! nothing has to be counted.
//! What must not be here: what a program does with those that it cannot have.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::{Resource, getrlimit};

/// Largest reserve.
const RESERVE_MAX: u64 = 256;

/// Of a small limit, this part is the reserve.
const RESERVE_PART: u64 = 4;

/// A limit of open files (`RLIMIT_NOFILE`), and what of it is kept in reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// The soft limit.
    pub limit: u64,
    /// Not for those that the process works for.
    pub reserve: u64,
}

impl Allowance {
    /// Of this process, as its limit is now.
    pub fn of_process() -> Allowance {
        Allowance::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of(limit: u64) -> Allowance {
        Allowance { limit, reserve: RESERVE_MAX.min(limit / RESERVE_PART) }
    }

    /// Whether a descriptor that was opened just now leaves the reserve alone.
    pub fn covers(&self, fd: BorrowedFd<'_>) -> bool {
        u64::try_from(fd.as_raw_fd()).is_ok_and(|number| self.covers_number(number))
    }

    fn covers_number(&self, number: u64) -> bool {
        number < self.limit - self.reserve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_small_limit_is_kept_and_no_more_than_256_of_a_large_one() {
        for (limit, last) in [(0, None), (3, Some(2)), (700, Some(524)), (20_000, Some(19_743))] {
            let allowance = Allowance::of(limit);
            let covered = (0..limit).rev().find(|number| allowance.covers_number(*number));
            assert_eq!(covered, last, "{limit}");
        }
        assert!(Allowance::of(u64::MAX).covers_number(1 << 30));
    }
}
