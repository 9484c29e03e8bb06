//! What users who may change nothing may take up of the control socket: each a share of the connections,
//! and one large answer at a time, until it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Connections served at the same time; more are turned away.
const CONNECTIONS_MAX: usize = 64;

/// Of these, what others than root and the manager's own user may take up.
const UNPRIVILEGED_CONNECTIONS_MAX: usize = 48;

/// Of those, what one of them may.
const OF_ONE_USER_MAX: usize = 16;

fn lock<T>(inside: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds it panics half-way.
    inside.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connections that are served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<Mutex<Usage>>);

#[derive(Debug, Default)]
struct Usage {
    all: usize,
    /// By user, of those without privileges; nobody has none.
    by_user: BTreeMap<u32, usize>,
}

/// One of them; it is free again when this is gone.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    user: u32,
    is_privileged: bool,
}

impl Places {
    /// Takes one for a user, if there is one for him.
    pub fn take(&self, user: u32, is_privileged: bool) -> Option<Place> {
        let mut taken = lock(&self.0);
        let own = taken.by_user.get(&user).copied().unwrap_or(0);
        let is_free = match is_privileged {
            true => taken.all < CONNECTIONS_MAX,
            false => taken.all < UNPRIVILEGED_CONNECTIONS_MAX && own < OF_ONE_USER_MAX,
        };
        if !is_free {
            return None;
        }
        taken.all += 1;
        if !is_privileged {
            taken.by_user.insert(user, own + 1);
        }
        Some(Place { places: self.clone(), user, is_privileged })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.0);
        taken.all -= 1;
        if !self.is_privileged
            && let Some(own) = taken.by_user.get_mut(&self.user)
        {
            *own -= 1;
            if *own == 0 {
                taken.by_user.remove(&self.user);
            }
        }
    }
}

/// Whose turn it is, of those without privileges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// Somebody is sent a recording: some times 12 MB for a boot of 28,000 units.
    is_recording: Arc<AtomicBool>,
    /// Users who are sent an answer about all units: 8 MB of 40,000, and some times that while it is made.
    large: Arc<(Mutex<BTreeSet<u32>>, Condvar)>,
}

/// That one has his turn; it ends with the value.
#[derive(Debug)]
pub(crate) enum Turn {
    /// At recordings.
    Recording(Turns),
    /// At large answers, of this user.
    Large(Turns, u32),
}

impl Turns {
    /// Takes the turn at recordings, unless somebody has it.
    pub fn recording(&self) -> Option<Turn> {
        let was_taken = self.is_recording.swap(true, Ordering::SeqCst);
        (!was_taken).then(|| Turn::Recording(self.clone()))
    }

    /// Takes the user's turn at large answers, when his last one is sent: which it is, or given up, within
    /// the time that a client has to read.
    pub fn large(&self, user: u32) -> Turn {
        let (users, ended) = &*self.large;
        let mut users = lock(users);
        while !users.insert(user) {
            users = ended.wait(users).unwrap_or_else(PoisonError::into_inner);
        }
        Turn::Large(self.clone(), user)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        match self {
            Turn::Recording(turns) => turns.is_recording.store(false, Ordering::SeqCst),
            Turn::Large(turns, user) => {
                lock(&turns.large.0).remove(user);
                turns.large.1.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_is_sent_a_recording() {
        let turns = Turns::default();
        let first = turns.recording().expect("nobody has it");
        assert!(turns.recording().is_none());
        drop(first);
        assert!(turns.recording().is_some());
    }

    #[test]
    fn a_user_waits_for_his_own_large_answer_and_for_nobody_elses() {
        let turns = Turns::default();
        let (first, other) = (turns.large(1), turns.large(2));
        let (sender, has_turn) = std::sync::mpsc::channel();
        let waits = std::thread::spawn({
            let turns = turns.clone();
            move || {
                let turn = turns.large(1);
                sender.send(()).expect("the test waits");
                drop(turn);
            }
        });
        drop(other);
        assert!(has_turn.try_recv().is_err());
        drop(first);
        has_turn.recv().expect("it is his turn");
        waits.join().expect("it ends");
    }

    #[test]
    fn nobody_without_privileges_takes_up_all_places() {
        let places = Places::default();
        let mut taken = Vec::new();
        let mut take = |user: u32, is_privileged: bool| {
            let before = taken.len();
            taken.extend(std::iter::from_fn(|| places.take(user, is_privileged)));
            taken.len() - before
        };
        assert_eq!(take(7, false), OF_ONE_USER_MAX);
        assert_eq!(take(8, false), OF_ONE_USER_MAX);
        assert_eq!(take(9, false), OF_ONE_USER_MAX);
        assert_eq!(take(10, false), 0, "together they have theirs");
        assert_eq!(take(0, true), CONNECTIONS_MAX - UNPRIVILEGED_CONNECTIONS_MAX);
        taken.remove(0);
        assert!(places.take(8, false).is_none() && places.take(0, true).is_some());
        drop(taken);
        assert!(places.take(10, false).is_some());
        assert!(lock(&places.0).by_user.is_empty());
    }
}
