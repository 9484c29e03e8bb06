//! What users who may change nothing may take up of the control socket: each a share of the connections,
//! and one large answer at a time, until it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use warren_core::model::dynamic_user;
use warren_sys::passwd::{DYNAMIC, is_of_people};

/// Connections served at the same time; more are turned away.
const CONNECTIONS_MAX: usize = 64;

/// Of these, what others than root and the manager's own user may take up.
const UNPRIVILEGED_CONNECTIONS_MAX: usize = 48;

/// Of those, what may be of people: one of them may have as many users as he likes (subuid(5)), and the agent, the
/// exporter and the page for browsers are users of the system.
const OF_PEOPLE_MAX: usize = 32;

/// Of those, what one of them may.
const OF_ONE_USER_MAX: usize = 16;

/// One that has asked nothing for so long is ended for somebody who comes when there is no place.
const IDLE_MIN: Duration = Duration::from_secs(1);

const _: () =
    assert!(*DYNAMIC.start() == dynamic_user::FIRST && *DYNAMIC.end() == dynamic_user::LAST);

fn lock<T>(inside: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds it panics half-way.
    inside.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Root, or the manager's own user.
    Privileged,
    /// The user of a service.
    Service(u32),
    /// Another user, or one of the users that he may have.
    Person(u32),
}

impl Who {
    /// A user without privileges.
    pub fn unprivileged(user: u32) -> Who {
        if is_of_people(user) { Who::Person(user) } else { Who::Service(user) }
    }

    fn user(self) -> Option<u32> {
        match self {
            Who::Privileged => None,
            Who::Service(user) | Who::Person(user) => Some(user),
        }
    }
}

/// The connections that are served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    usage: Arc<Mutex<Usage>>,
    turns: Turns,
}

#[derive(Debug, Default)]
struct Usage {
    /// Those that are served, by their number.
    visits: BTreeMap<u64, Visit>,
    next: u64,
}

#[derive(Debug)]
struct Visit {
    who: Who,
    connection: Weak<UnixStream>,
    /// Since when it is waited for what the client asks; nothing while that is answered.
    idle_since: Option<Instant>,
}

/// One of them; it is free again when this is gone.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    number: u64,
}

impl Places {
    /// Takes one for a connection, if there is one; where others' connections are too many, that of the person who has
    /// asked nothing for longest is ended.
    pub fn take(&self, connection: &Arc<UnixStream>, who: Who) -> Option<Place> {
        let mut usage = lock(&self.usage);
        let now = Instant::now();
        if !usage.is_free(who) && (!usage.has_share(who) || !usage.end_idle(now)) {
            return None;
        }
        let number = usage.next;
        usage.next += 1;
        let connection = Arc::downgrade(connection);
        usage.visits.insert(number, Visit { who, connection, idle_since: Some(now) });
        Some(Place { places: self.clone(), number })
    }
}

impl Usage {
    fn count(&self, is_counted: impl Fn(Who) -> bool) -> usize {
        self.visits.values().filter(|visit| is_counted(visit.who)).count()
    }

    fn is_free(&self, who: Who) -> bool {
        let unprivileged = || self.count(|who| who != Who::Privileged);
        let people = || self.count(|who| matches!(who, Who::Person(_)));
        match who {
            Who::Privileged => self.visits.len() < CONNECTIONS_MAX,
            Who::Service(_) => self.has_share(who) && unprivileged() < UNPRIVILEGED_CONNECTIONS_MAX,
            Who::Person(_) => {
                self.has_share(who)
                    && unprivileged() < UNPRIVILEGED_CONNECTIONS_MAX
                    && people() < OF_PEOPLE_MAX
            }
        }
    }

    /// Whether it is not his own connections that are too many.
    fn has_share(&self, who: Who) -> bool {
        match who.user() {
            Some(user) => self.count(|other| other.user() == Some(user)) < OF_ONE_USER_MAX,
            None => self.visits.len() < CONNECTIONS_MAX,
        }
    }

    /// Ends the connection of the person who has asked nothing for longest; whether there was one.
    fn end_idle(&mut self, now: Instant) -> bool {
        let idle = self.visits.iter().filter(|(_, visit)| matches!(visit.who, Who::Person(_)));
        let idle = idle.filter_map(|(&number, visit)| Some((visit.idle_since?, number)));
        let Some((_, number)) =
            idle.filter(|(since, _)| now.duration_since(*since) >= IDLE_MIN).min()
        else {
            return false;
        };
        let visit = self.visits.remove(&number);
        let connection = visit.and_then(|visit| visit.connection.upgrade());
        connection.iter().for_each(|connection| _ = connection.shutdown(Shutdown::Both));
        true
    }
}

impl Place {
    /// What its client asks is being answered until the value is gone.
    pub fn answering(&self) -> Answering<'_> {
        self.note(None);
        Answering(self)
    }

    /// Whose turn it is, of all who have a place.
    pub fn turns(&self) -> &Turns {
        &self.places.turns
    }

    fn note(&self, idle_since: Option<Instant>) {
        // One that was ended has none.
        if let Some(visit) = lock(&self.places.usage).visits.get_mut(&self.number) {
            visit.idle_since = idle_since;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places.usage).visits.remove(&self.number);
    }
}

/// A client is being answered.
#[derive(Debug)]
pub(crate) struct Answering<'a>(&'a Place);

impl Answering<'_> {
    /// The client holds something for as long as it is connected, so it is not ended for others.
    pub fn for_good(self) {
        std::mem::forget(self);
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.note(Some(Instant::now()));
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

    fn client() -> (Arc<UnixStream>, UnixStream) {
        let (own, client) = UnixStream::pair().expect("a pair");
        (Arc::new(own), client)
    }

    #[test]
    fn nobody_without_privileges_takes_up_all_places() {
        let places = Places::default();
        let (own, _client) = client();
        let mut taken = Vec::new();
        let mut take = |who: Who| {
            let before = taken.len();
            let answered = |place: Place| {
                place.note(None);
                place
            };
            taken.extend(std::iter::from_fn(|| places.take(&own, who).map(answered)));
            taken.len() - before
        };
        assert_eq!(take(Who::Person(1000)), OF_ONE_USER_MAX);
        assert_eq!(take(Who::Person(100_000)), OF_PEOPLE_MAX - OF_ONE_USER_MAX);
        assert_eq!(take(Who::Person(100_001)), 0, "people together have theirs");
        assert_eq!(take(Who::Service(7)), UNPRIVILEGED_CONNECTIONS_MAX - OF_PEOPLE_MAX);
        assert_eq!(take(Who::Service(8)), 0, "together they have theirs");
        assert_eq!(take(Who::Privileged), CONNECTIONS_MAX - UNPRIVILEGED_CONNECTIONS_MAX);
        taken.remove(0);
        assert!(places.take(&own, Who::Person(100_001)).is_some());
        drop(taken);
        assert!(lock(&places.usage).visits.is_empty());
    }

    #[test]
    fn services_are_told_from_people_by_their_numbers() {
        for (user, is_service) in [
            (1, true),
            (999, true),
            (1000, false),
            (61_184, true),
            (65_534, false),
            (100_000, false),
        ] {
            let expected = if is_service { Who::Service(user) } else { Who::Person(user) };
            assert_eq!(Who::unprivileged(user), expected);
        }
    }

    /// People who hold all places and ask nothing have the others wait for ever.
    #[test]
    fn who_asks_nothing_for_long_makes_room_for_who_comes() {
        use std::io::Read;
        let places = Places::default();
        let mut all: Vec<_> = (0..OF_PEOPLE_MAX as u32)
            .map(|user| {
                let (own, client) = client();
                let place = places.take(&own, Who::Person(1000 + user)).expect("there is room");
                (own, client, place)
            })
            .collect();
        let (own, _other) = client();
        let come = || places.take(&own, Who::Person(999_999));
        assert!(come().is_none(), "they came just now");
        let begin =
            Instant::now().checked_sub(2 * IDLE_MIN).expect("a machine that is up for longer");
        all[3].2.note(Some(begin));
        let (_own, _client, busy) = all.remove(5);
        let answering = busy.answering();
        let place = come().expect("somebody makes room");
        let (_, mut ended, old) = all.remove(3);
        assert_eq!(ended.read(&mut [0]).expect("the end"), 0);
        // The place is the other one's now.
        drop(old);
        assert!(come().is_none());
        drop((place, answering));
        assert!(come().is_some());
    }
}
