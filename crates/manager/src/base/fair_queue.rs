//! Questions to the loader of users who may change nothing. Each may make it look at all unit files, so one
//! is under way at a time: what root orders waits for one of them at most, however many were asked. Users
//! have their turns one after the other, and a client that asks twice waits behind all others. Each user has so many
//! answers in a second, and so have all of them together: a name that nobody knew becomes a unit for some seconds.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

use crate::base::patience::Patient;

/// Questions of one user that wait: as many as one client of the bus may have.
const OF_ONE_MAX: usize = 1024;

/// Questions of all users that wait.
const OF_ALL_MAX: usize = 4096;

/// Answers of one user.
const RATE_OF_ONE: Rate = Rate { at_once: 256, in_a_second: 64 };

/// Answers of all users.
const RATE_OF_ALL: Rate = Rate { at_once: 1024, in_a_second: 512 };

/// How often something may be done.
#[derive(Clone, Copy, Debug)]
struct Rate {
    at_once: u32,
    in_a_second: u32,
}

impl Rate {
    fn apart(self) -> Duration {
        Duration::from_secs(1) / self.in_a_second
    }
}

/// When all that was done counts no more: each time puts it off.
#[derive(Clone, Copy, Debug, Default)]
struct Spent(Option<Instant>);

impl Spent {
    /// How long it is until it may be done again.
    fn wait(self, rate: Rate, now: Instant) -> Duration {
        let room = rate.apart() * rate.at_once.saturating_sub(1);
        self.0.map_or(Duration::ZERO, |until| until.saturating_duration_since(now + room))
    }

    fn spend(&mut self, rate: Rate, now: Instant) {
        let begins = self.0.map_or(now, |until| until.max(now));
        self.0 = Some(begins + rate.apart());
    }

    fn is_over(self, now: Instant) -> bool {
        self.0.is_none_or(|until| until <= now)
    }
}

/// The questions that wait, and whether one is under way.
#[derive(Debug)]
pub(crate) struct Questions<T> {
    /// By user; nobody's list is empty.
    waiting: BTreeMap<u32, VecDeque<T>>,
    count: usize,
    /// The user who was last.
    last: u32,
    is_under_way: bool,
    /// Of those whose answers still count.
    spent: BTreeMap<u32, Spent>,
    spent_by_all: Spent,
}

impl<T> Default for Questions<T> {
    fn default() -> Self {
        let (waiting, spent, spent_by_all) = Default::default();
        Questions { waiting, count: 0, last: 0, is_under_way: false, spent, spent_by_all }
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

    /// The next, which is under way from now on, unless another one is or who asks has had too many answers.
    pub fn begin(&mut self, now: Instant) -> Option<T> {
        if self.is_under_way || !self.spent_by_all.wait(RATE_OF_ALL, now).is_zero() {
            return None;
        }
        let may = |(user, _): &(&u32, &VecDeque<T>)| self.wait_of(**user, now).is_zero();
        let behind = self.waiting.range((Excluded(self.last), Unbounded)).find(may);
        let (&user, _) = behind.or_else(|| self.waiting.iter().find(may))?;
        let of_user = self.waiting.get_mut(&user).expect("it was found");
        let question = of_user.pop_front().expect("nobody's list is empty");
        if of_user.is_empty() {
            self.waiting.remove(&user);
        }
        self.count -= 1;
        (self.last, self.is_under_way) = (user, true);
        // As many as ask within the time that a full count takes to be forgotten.
        self.spent.retain(|_, spent| !spent.is_over(now));
        self.spent.entry(user).or_default().spend(RATE_OF_ONE, now);
        self.spent_by_all.spend(RATE_OF_ALL, now);
        Some(question)
    }

    fn wait_of(&self, user: u32, now: Instant) -> Duration {
        self.spent.get(&user).copied().unwrap_or_default().wait(RATE_OF_ONE, now)
    }

    /// The one that was under way is answered.
    pub fn end(&mut self) {
        self.is_under_way = false;
    }
}

impl<T> Patient for Questions<T> {
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        if self.is_under_way {
            return None;
        }
        let first = self.waiting.keys().map(|&user| self.wait_of(user, now)).min()?;
        Some(first.max(self.spent_by_all.wait(RATE_OF_ALL, now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_under_way_at_a_time_and_users_take_turns() {
        let (mut questions, now) = (Questions::default(), Instant::now());
        for (user, question) in [(7, "a"), (7, "b"), (7, "c"), (3, "d"), (9, "e"), (3, "f")] {
            assert_eq!(questions.add(user, question), Ok(()));
        }
        let mut order = String::new();
        while let Some(question) = questions.begin(now) {
            assert_eq!(questions.begin(now), None, "one is under way");
            order.push_str(question);
            questions.end();
        }
        assert_eq!(order, "daefbc");
        assert_eq!((questions.count, questions.waiting.len()), (0, 0));
    }

    #[test]
    fn who_asks_too_much_is_refused_and_others_are_not() {
        let (mut questions, now) = (Questions::default(), Instant::now());
        let all = (0..OF_ONE_MAX).try_for_each(|question| questions.add(7, question));
        assert_eq!((all, questions.add(7, 0), questions.add(8, 0)), (Ok(()), Err(0), Ok(())));
        let more = (9..).find(|&user| questions.add(user, 0).is_err());
        assert_eq!(more, Some(9 + (OF_ALL_MAX - OF_ONE_MAX - 1) as u32));
        assert_eq!(questions.begin(now), Some(0));
        assert_eq!(questions.add(7, 0), Ok(()), "there is room for one again");
    }

    #[test]
    fn who_has_had_many_answers_waits_for_the_next_and_others_do_not() {
        let (mut questions, now) = (Questions::default(), Instant::now());
        let ask = |questions: &mut Questions<u32>, user, now| {
            questions.add(user, user).expect("there is room");
            questions.begin(now).inspect(|_| questions.end())
        };
        let given = (0..1000).take_while(|_| ask(&mut questions, 7, now).is_some()).count();
        assert_eq!(given, RATE_OF_ONE.at_once as usize);
        assert_eq!(ask(&mut questions, 8, now), Some(8), "that is not for another user");
        let apart = RATE_OF_ONE.apart();
        assert_eq!(questions.patience_left(now), Some(apart));
        let later = now + apart;
        assert_eq!(questions.patience_left(later), Some(Duration::ZERO));
        assert_eq!(questions.begin(later), Some(7));
        questions.end();
        assert_eq!(ask(&mut questions, 7, later), None);
    }

    #[test]
    fn all_users_together_have_no_more_than_some() {
        let (mut questions, now) = (Questions::default(), Instant::now());
        let mut given = 0;
        for user in 1..3000 {
            questions.add(user, user).expect("there is room");
            given += u32::from(questions.begin(now).is_some());
            questions.end();
        }
        assert_eq!(given, RATE_OF_ALL.at_once);
        let much_later = now + Duration::from_secs(3600);
        assert!(questions.begin(much_later).is_some());
        assert_eq!(questions.spent.len(), 1, "what counts no more is forgotten");
    }
}
