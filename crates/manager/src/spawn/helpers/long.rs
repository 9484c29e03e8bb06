//! Spawns that take long though nothing holds them up: the files of a large directory get another owner.
//!
//! The helper counts what it has done (`Birth::done`). As long as that goes on it is left at it, with nothing behind
//! it in its socket, if there is another one for all others.

use super::{Helper, Helpers, Standing};

impl Helpers {
    /// Whether helper `index` has done something since this was last asked: its directories are large.
    pub fn goes_on(&mut self, index: usize) -> bool {
        let helper = &mut self.helpers[index];
        let done = helper.birth.as_ref().map_or(0, |birth| birth.done());
        let goes_on = std::mem::replace(&mut helper.done, done) != done;
        if goes_on && let Some(sent) = helper.under_way.front_mut() {
            sent.spawn.is_long = true;
        }
        goes_on
    }

    /// Whether helper `index` can be left at what takes long: nothing was sent to it that waits for that, and
    /// there is another one for all others.
    pub fn may_take_long(&self, index: usize) -> bool {
        let helper = &self.helpers[index];
        let is_free = |other: &Helper| {
            other.standing == Standing::Ready && other.given_up.is_none() && !other.takes_long()
        };
        let mut others = self.helpers.iter().enumerate().filter(|(other, _)| *other != index);
        helper.owes.is_none() && helper.under_way.len() == 1 && others.any(|(_, h)| is_free(h))
    }
}

impl Helper {
    /// Whether what it is at, or will be, takes long.
    pub(super) fn takes_long(&self) -> bool {
        self.under_way.iter().any(|sent| sent.spawn.is_long)
    }
}
