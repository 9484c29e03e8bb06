//! How many bytes of lines that have not ended the streams of each user hold, and those of all but root.
//! What must not be here: what becomes of a line.
//! Pure: used by the receiving thread.

use std::collections::BTreeMap;

/// Most bytes of one user, who is not root.
pub const OF_ONE_USER_MAX: usize = 8 << 20;

/// The same of all users but root.
pub const OF_ALL_MAX: usize = 64 << 20;

/// So much of all users, root too, leaves memory that is worth giving back.
const LARGE_BYTES: usize = 4 << 20;

/// Bytes by user. Root's are not bounded.
#[derive(Debug, Default)]
pub struct HalfLines {
    by_user: BTreeMap<u32, usize>,
    all: usize,
    /// With root's.
    total: usize,
    /// It was large, and nobody was told that it is not any more.
    was_large: bool,
}

impl HalfLines {
    /// A stream of this user holds `now` bytes, and held `before`. Whether that is too much.
    pub fn change(&mut self, uid: u32, before: usize, now: usize) -> bool {
        self.total = self.total + now - before;
        self.was_large |= self.total >= LARGE_BYTES;
        if uid == 0 {
            return false;
        }
        let own = self.by_user.entry(uid).or_default();
        *own = *own + now - before;
        self.all = self.all + now - before;
        let is_over = *own > OF_ONE_USER_MAX || self.all > OF_ALL_MAX;
        if *own == 0 {
            self.by_user.remove(&uid);
        }
        is_over && now > before
    }

    /// Whether there were many bytes, and are few since this was asked.
    pub fn take_shrunk(&mut self) -> bool {
        let is_shrunk = self.was_large && self.total < LARGE_BYTES / 2;
        self.was_large &= !is_shrunk;
        is_shrunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_bytes_that_are_gone_are_told_of_once() {
        let mut lines = HalfLines::default();
        assert!(!lines.change(0, 0, LARGE_BYTES) && !lines.take_shrunk());
        assert!(!lines.change(7, 0, 100) && !lines.take_shrunk());
        assert!(!lines.change(0, LARGE_BYTES, 0));
        assert!(lines.take_shrunk() && !lines.take_shrunk());
    }

    #[test]
    fn what_is_too_much_is_told_of_who_adds_to_it() {
        let mut lines = HalfLines::default();
        assert!(!lines.change(0, 0, 2 * OF_ALL_MAX), "root's are not counted");
        assert!(!lines.change(1, 0, OF_ONE_USER_MAX));
        assert!(lines.change(1, 0, 1) && !lines.change(1, 1, 0));
        let others = OF_ALL_MAX / OF_ONE_USER_MAX;
        (2..=others as u32).for_each(|uid| assert!(!lines.change(uid, 0, OF_ONE_USER_MAX)));
        assert!(lines.change(1000, 0, 1), "all others have too much");
        assert!(!lines.change(1, OF_ONE_USER_MAX, 0));
        assert!(!lines.change(1000, 1, 2));
    }
}
