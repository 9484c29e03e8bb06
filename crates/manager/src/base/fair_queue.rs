//! Questions to the loader of users who may change nothing. Each may make it look at all unit files, so one
//! is under way at a time: what root orders waits for one of them at most, however many were asked. Users
//! have their turns one after the other, and a client that asks twice waits behind all others.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

/// Questions of one user that wait: as many as one client of the bus may have.
const OF_ONE_MAX: usize = 1024;

/// Questions of all users that wait.
const OF_ALL_MAX: usize = 4096;

/// The questions that wait, and whether one is under way.
#[derive(Debug)]
pub(crate) struct Questions<T> {
    /// By user; nobody's list is empty.
    waiting: BTreeMap<u32, VecDeque<T>>,
    count: usize,
    /// The user who was last.
    last: u32,
    is_under_way: bool,
}

impl<T> Default for Questions<T> {
    fn default() -> Self {
        Questions { waiting: BTreeMap::new(), count: 0, last: 0, is_under_way: false }
    }
}

impl<T> Questions<T> {
    /// Puts one behind those of the same user; gives it back if there are too many.
    pub fn add(&mut self, user: u32, question: T) -> Result<(), T> {
        let of_user = self.waiting.get(&user).map_or(0, VecDeque::len);
        if of_user >= OF_ONE_MAX || self.count >= OF_ALL_MAX {
            return Err(question);
        }
        self.waiting.entry(user).or_default().push_back(question);
        self.count += 1;
        Ok(())
    }

    /// The next, which is under way from now on, unless another one is.
    pub fn begin(&mut self) -> Option<T> {
        if self.is_under_way {
            return None;
        }
        let mut behind = self.waiting.range((Excluded(self.last), Unbounded));
        let (&user, _) = behind.next().or_else(|| self.waiting.first_key_value())?;
        let of_user = self.waiting.get_mut(&user).expect("it was found");
        let question = of_user.pop_front().expect("nobody's list is empty");
        if of_user.is_empty() {
            self.waiting.remove(&user);
        }
        self.count -= 1;
        (self.last, self.is_under_way) = (user, true);
        Some(question)
    }

    /// The one that was under way is answered.
    pub fn end(&mut self) {
        self.is_under_way = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_under_way_at_a_time_and_users_take_turns() {
        let mut questions = Questions::default();
        for (user, question) in [(7, "a"), (7, "b"), (7, "c"), (3, "d"), (9, "e"), (3, "f")] {
            assert_eq!(questions.add(user, question), Ok(()));
        }
        let mut order = String::new();
        while let Some(question) = questions.begin() {
            assert_eq!(questions.begin(), None, "one is under way");
            order.push_str(question);
            questions.end();
        }
        assert_eq!(order, "daefbc");
        assert_eq!((questions.count, questions.waiting.len()), (0, 0));
    }

    #[test]
    fn who_asks_too_much_is_refused_and_others_are_not() {
        let mut questions = Questions::default();
        let all = (0..OF_ONE_MAX).try_for_each(|question| questions.add(7, question));
        assert_eq!((all, questions.add(7, 0), questions.add(8, 0)), (Ok(()), Err(0), Ok(())));
        let more = (9..).find(|&user| questions.add(user, 0).is_err());
        assert_eq!(more, Some(9 + (OF_ALL_MAX - OF_ONE_MAX - 1) as u32));
        assert_eq!(questions.begin(), Some(0));
        assert_eq!(questions.add(7, 0), Ok(()), "there is room for one again");
    }
}
