//! An answer of the loop that a client's thread waits for, as long as the client is there.
//!
//! The thread sleeps in poll(2) over the client's socket and a bell that rings with each answer. Without a
//! descriptor for the bell it waits for the answer alone: it then learns too late that the client has disconnected,
//! and nothing worse.

use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};

use warren_sys::eventfd::EventFd;
use warren_sys::socket;

/// Wakes the thread of one client.
#[derive(Debug)]
pub struct Bell(Option<EventFd>);

impl Bell {
    /// One of its own for a client's thread.
    pub fn new() -> Arc<Bell> {
        Arc::new(Bell(EventFd::new().ok()))
    }

    /// One that is not heard, for what is answered at once.
    pub fn silent() -> Arc<Bell> {
        Arc::new(Bell(None))
    }

    /// Wakes the thread.
    pub fn ring(&self) {
        if let Some(event) = &self.0 {
            event.notify();
        }
    }

    /// Waits until it rings; what rang before is heard now.
    ///
    /// # Errors
    /// The client at the other end of a socket has closed it, or there is no descriptor to wait with.
    pub fn wait(&self, client: BorrowedFd<'_>) -> Result<(), Unanswered> {
        let event = self.0.as_ref().ok_or(Unanswered::Dropped)?;
        match socket::wait_or_hang_up(client, event) {
            Ok(true) => Err(Unanswered::HungUp),
            Ok(false) => {
                let _ = event.clear();
                Ok(())
            }
            Err(_) => Err(Unanswered::Dropped),
        }
    }
}

/// Where an answer goes; dropped without one, it says that there will be none.
#[derive(Debug)]
pub struct AnswerTo<T> {
    sender: Option<Sender<T>>,
    bell: Weak<Bell>,
}

impl<T> AnswerTo<T> {
    /// For what nobody waits for.
    pub fn nobody() -> AnswerTo<T> {
        AnswerTo { sender: None, bell: Weak::new() }
    }

    /// Answers. Who no longer waits needs no answer.
    pub fn send(mut self, answer: T) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(answer);
        }
    }

    /// What goes with who waits.
    pub fn waits(&self) -> Weak<Bell> {
        self.bell.clone()
    }

    /// Whether nobody waits any more.
    pub fn is_in_vain(&self) -> bool {
        self.bell.strong_count() == 0
    }
}

impl<T> Drop for AnswerTo<T> {
    fn drop(&mut self) {
        // Before the bell: who is woken looks at it.
        self.sender = None;
        if let Some(bell) = self.bell.upgrade() {
            bell.ring();
        }
    }
}

/// An answer that is to come.
#[derive(Debug)]
pub struct Awaited<T> {
    receiver: Receiver<T>,
    bell: Arc<Bell>,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// Nobody is there any more who would answer.
    Dropped,
    /// The client has hung up.
    HungUp,
}

/// Room for one answer.
pub fn awaited<T>(bell: &Arc<Bell>) -> (AnswerTo<T>, Awaited<T>) {
    let (sender, receiver) = channel();
    let answer_to = AnswerTo { sender: Some(sender), bell: Arc::downgrade(bell) };
    (answer_to, Awaited { receiver, bell: bell.clone() })
}

impl<T> Awaited<T> {
    /// Waits for the answer.
    pub fn wait(self) -> Result<T, Unanswered> {
        self.receiver.recv().map_err(|_| Unanswered::Dropped)
    }

    /// Waits for the answer, or for the bell to ring for something else. For who looks at several things in turn: what
    /// rang before is heard now.
    ///
    /// # Errors
    /// There will be no answer, or the client at the other end of a socket has closed it.
    pub fn next(&self, client: BorrowedFd<'_>) -> Result<Option<T>, Unanswered> {
        match (self.receiver.try_recv(), &self.bell.0) {
            (Ok(answer), _) => Ok(Some(answer)),
            (Err(TryRecvError::Disconnected), _) => Err(Unanswered::Dropped),
            (Err(TryRecvError::Empty), None) => {
                self.receiver.recv().map(Some).map_err(|_| Unanswered::Dropped)
            }
            (Err(TryRecvError::Empty), Some(bell)) => match socket::wait_or_hang_up(client, bell) {
                Ok(true) => Err(Unanswered::HungUp),
                Ok(false) => {
                    let _ = bell.clear();
                    Ok(None)
                }
                Err(_) => self.receiver.recv().map(Some).map_err(|_| Unanswered::Dropped),
            },
        }
    }

    /// Waits for the answer, or until the client at the other end of a socket has closed it. One that only
    /// says no more still waits.
    pub fn wait_beside(self, client: BorrowedFd<'_>) -> Result<T, Unanswered> {
        let Some(bell) = &self.bell.0 else { return self.wait() };
        loop {
            match self.receiver.try_recv() {
                Ok(answer) => return Ok(answer),
                Err(TryRecvError::Disconnected) => return Err(Unanswered::Dropped),
                Err(TryRecvError::Empty) => {}
            }
            match socket::wait_or_hang_up(client, bell) {
                Ok(true) => return Err(Unanswered::HungUp),
                // It rings for the other answers of this client too, which are looked at in their turn.
                Ok(false) => drop(bell.clear()),
                Err(_) => return self.wait(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn an_answer_comes_or_not_and_a_client_that_hangs_up_ends_the_wait() {
        let bell = Bell::new();
        let (own, client) = UnixStream::pair().expect("a pair");
        let (to, first) = awaited(&bell);
        let (dropped, second) = awaited::<u8>(&bell);
        let (third_to, third) = awaited::<u8>(&bell);
        // All ring before anybody waits.
        to.send(1);
        drop(dropped);
        client.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(first.wait_beside(own.as_fd()), Ok(1), "it said its last word, and still reads");
        assert_eq!(second.wait_beside(own.as_fd()), Err(Unanswered::Dropped));
        assert!(!third_to.is_in_vain());
        let waits = std::thread::spawn(move || third.wait_beside(own.as_fd()));
        drop(client);
        assert_eq!(waits.join().expect("it ends"), Err(Unanswered::HungUp));
        drop(bell);
        assert!(third_to.is_in_vain());
        third_to.send(3);
    }

    #[test]
    fn an_answer_that_comes_during_the_wait_ends_it() {
        let bell = Bell::new();
        let (own, _client) = UnixStream::pair().expect("a pair");
        let (to, answer) = awaited(&bell);
        let waits = std::thread::spawn(move || answer.wait_beside(own.as_fd()));
        to.send(1);
        assert_eq!(waits.join().expect("it ends"), Ok(1));
    }
}
