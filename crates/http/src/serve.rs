//! Clients of a program that answers each of them in a thread of its own: taken, counted, bounded.
//! What is said to them is a [`Service`]'s matter.

mod client;
mod places;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use rustix::io::Errno;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::eventfd::EventFd;
use warren_sys::notify::Watchdog;
use warren_sys::{socket, time};

pub use client::Client;
use places::{Peer, Places};

/// Listening sockets have lower tokens.
const TOKEN_ENDED: u64 = 1 << 32;

/// So long nobody is taken while there are no descriptors: nothing tells when other programs give some
/// back.
const REST: Duration = Duration::from_secs(1);

/// What clients want.
pub trait Service: Send + Sync + 'static {
    /// Most connections at a time.
    const CONNECTIONS_MAX: usize;

    /// Most connections of one user of this host, or of another host, at a time. Root is bounded by what there is for
    /// all.
    const CONNECTIONS_PER_PEER_MAX: usize;

    /// Talks to a client until it has what it wants.
    fn serve(&self, client: &Client);

    /// Tells a client that there are too many, without waiting for anything.
    fn refuse(&self, client: &Client);
}

/// Answers until the process is ended.
///
/// # Errors
/// When connections cannot be taken, for another reason than that the system has no descriptor or memory
/// for them.
pub fn run(service: impl Service, listeners: Vec<OwnedFd>) -> warren_sys::Result<()> {
    Server::new(Arc::new(service), listeners)?.run()
}

/// Who is connected.
struct Server<S> {
    service: Arc<S>,
    listeners: Vec<OwnedFd>,
    epoll: Epoll,
    places: Places,
    ended: (Sender<Peer>, Receiver<Peer>),
    wake: Arc<EventFd>,
    /// The system gives no more descriptors: nobody is taken until a connection ends or a moment has passed.
    paused: bool,
    /// It was said, and nobody could be taken since.
    is_told: bool,
    /// The manager kills a program that takes no connections any more.
    watchdog: Option<Watchdog>,
}

/// Says that a connection is over, however its thread ends.
struct Ending {
    peer: Peer,
    to: Sender<Peer>,
    wake: Arc<EventFd>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.to.send(self.peer);
        self.wake.notify();
    }
}

impl<S: Service> Server<S> {
    fn new(service: Arc<S>, listeners: Vec<OwnedFd>) -> warren_sys::Result<Server<S>> {
        let (epoll, wake) = (Epoll::new()?, Arc::new(EventFd::new()?));
        epoll.add(&*wake, TOKEN_ENDED, Interest::READ)?;
        let places = Places::new(S::CONNECTIONS_MAX, S::CONNECTIONS_PER_PEER_MAX);
        let ended = mpsc::channel();
        let (paused, is_told) = (false, false);
        let watchdog = Watchdog::of_environment(now_us());
        let server =
            Server { service, listeners, epoll, places, ended, wake, paused, is_told, watchdog };
        server.watch()?;
        Ok(server)
    }

    fn watch(&self) -> warren_sys::Result<()> {
        let add = |(token, listener)| match self.epoll.add(listener, token as u64, Interest::READ) {
            // One that could not be taken off.
            Err(e) if e.errno == Errno::EXIST.raw_os_error() => Ok(()),
            other => other,
        };
        self.listeners.iter().enumerate().try_for_each(add)
    }

    fn run(&mut self) -> warren_sys::Result<()> {
        let mut events = Events::with_capacity(16);
        loop {
            self.watchdog.iter_mut().for_each(|watchdog| watchdog.feed(now_us()));
            self.epoll.wait(&mut events, self.patience())?;
            if events.is_empty() {
                self.go_on();
            }
            let tokens: Vec<u64> = events.iter().map(|ready| ready.token).collect();
            for token in tokens {
                match token {
                    TOKEN_ENDED => self.forget_ended(),
                    token => self.accept(token as usize)?,
                }
            }
        }
    }

    /// How long nothing may happen before there is something to do.
    fn patience(&self) -> Option<Duration> {
        let until = |due_us: u64| Duration::from_micros(due_us.saturating_sub(now_us()));
        let watchdog = self.watchdog.map(|watchdog| until(watchdog.due_us()));
        self.paused.then_some(REST).into_iter().chain(watchdog).min()
    }

    fn forget_ended(&mut self) {
        self.wake.clear();
        while let Ok(peer) = self.ended.1.try_recv() {
            self.places.leave(peer);
        }
        self.go_on();
    }

    /// Takes connections again, unless the kernel has no memory for that either.
    fn go_on(&mut self) {
        if self.paused {
            self.paused = self.watch().is_err();
        }
    }

    fn accept(&mut self, listener: usize) -> warren_sys::Result<()> {
        match socket::accept(self.listeners[listener].as_fd()) {
            Ok(Some(connection)) => {
                self.is_told = false;
                self.take(connection);
            }
            Ok(None) => {}
            Err(e) if is_shortage(&e) => self.pause(&e),
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn pause(&mut self, error: &warren_sys::Error) {
        if !std::mem::replace(&mut self.paused, true) {
            // What cannot be taken off is ready again at once.
            self.listeners.iter().for_each(|listener| _ = self.epoll.remove(listener));
        }
        if !std::mem::replace(&mut self.is_told, true) {
            warren_sys::tell!("Cannot accept connections for now: {error}");
        }
    }

    fn take(&mut self, connection: OwnedFd) {
        let peer = Peer::of(&connection);
        // A connection that cannot be set up is dropped: there is no client to answer.
        let Ok(client) = Client::new(connection) else { return };
        if !self.places.take(peer) {
            return self.service.refuse(&client);
        }
        let ending = Ending { peer, to: self.ended.0.clone(), wake: self.wake.clone() };
        let service = self.service.clone();
        let answer = move || {
            let _ending = ending;
            service.serve(&client);
        };
        // Without a thread the connection is closed, and said to be over.
        let _ = std::thread::Builder::new().name("client".to_owned()).spawn(answer);
    }
}

/// The monotonic clock, µs.
fn now_us() -> u64 {
    time::monotonic_ns() / 1000
}

/// Whether it passes by itself; accept(2).
fn is_shortage(error: &warren_sys::Error) -> bool {
    let errnos = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    errnos.iter().any(|errno| errno.raw_os_error() == error.errno)
}
