//! Clients of a program that answers each of them in a thread of its own: taken, counted, bounded.
//! What is said to them is a [`Service`]'s matter.

mod client;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use rustix::net::sockopt;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::eventfd::EventFd;
use warren_sys::socket;

use crate::show::run::Failure;

pub use client::Client;

/// Listening sockets have lower tokens.
const TOKEN_ENDED: u64 = 1 << 32;

/// What clients want.
pub trait Service: Send + Sync + 'static {
    /// Most connections at a time.
    const CONNECTIONS_MAX: usize;

    /// Most connections of one address, or of one user on this machine, at a time. Root is bounded by
    /// what there is for all.
    const CONNECTIONS_PER_PEER_MAX: usize;

    /// Talks to a client until it has what it wants.
    fn serve(&self, client: &Client);

    /// Tells a client that there are too many, without waiting for anything.
    fn refuse(&self, client: &Client);
}

/// Who connections are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    Address(IpAddr),
    User(u32),
    Unknown,
}

/// Answers until the process is ended.
///
/// # Errors
/// When the system gives no descriptor for a first connection.
pub fn run(service: impl Service, listeners: Vec<OwnedFd>) -> Result<(), Failure> {
    Server::new(Arc::new(service), listeners)?.run()
}

/// Who is connected.
struct Server<S> {
    service: Arc<S>,
    listeners: Vec<OwnedFd>,
    epoll: Epoll,
    open: BTreeMap<Peer, usize>,
    ended: (Sender<Peer>, Receiver<Peer>),
    wake: Arc<EventFd>,
    /// The system gives no more descriptors: nobody is taken until a connection ends.
    paused: bool,
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
    fn new(service: Arc<S>, listeners: Vec<OwnedFd>) -> Result<Server<S>, Failure> {
        let (epoll, wake) = (Epoll::new()?, Arc::new(EventFd::new()?));
        epoll.add(&*wake, TOKEN_ENDED, Interest::READ)?;
        let (open, ended) = (BTreeMap::new(), mpsc::channel());
        let server = Server { service, listeners, epoll, open, ended, wake, paused: false };
        server.watch()?;
        Ok(server)
    }

    fn watch(&self) -> Result<(), Failure> {
        for (token, listener) in self.listeners.iter().enumerate() {
            self.epoll.add(listener, token as u64, Interest::READ)?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), Failure> {
        let mut events = Events::with_capacity(16);
        loop {
            self.epoll.wait(&mut events, None)?;
            let tokens: Vec<u64> = events.iter().map(|ready| ready.token).collect();
            for token in tokens {
                match token {
                    TOKEN_ENDED => self.forget_ended()?,
                    token => self.accept(token as usize)?,
                }
            }
        }
    }

    fn forget_ended(&mut self) -> Result<(), Failure> {
        self.wake.clear();
        while let Ok(peer) = self.ended.1.try_recv() {
            if let Some(count) = self.open.get_mut(&peer) {
                *count -= 1;
            }
        }
        self.open.retain(|_, count| *count > 0);
        match std::mem::take(&mut self.paused) {
            true => self.watch(),
            false => Ok(()),
        }
    }

    fn accept(&mut self, listener: usize) -> Result<(), Failure> {
        match socket::accept(self.listeners[listener].as_fd()) {
            Ok(Some(connection)) => self.take(connection),
            Ok(None) => {}
            Err(e) if self.open.is_empty() => return Err(e.into()),
            Err(_) if self.paused => {}
            Err(_) => {
                self.paused = true;
                self.listeners.iter().try_for_each(|listener| self.epoll.remove(listener))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, connection: OwnedFd) {
        let peer = peer(&connection);
        let of_all: usize = self.open.values().sum();
        let of_peer = self.open.get(&peer).copied().unwrap_or(0);
        // Of what is no socket any more nobody is there.
        let Ok(client) = Client::new(connection) else { return };
        let has_many = peer != Peer::User(0) && of_peer >= S::CONNECTIONS_PER_PEER_MAX;
        if of_all >= S::CONNECTIONS_MAX || has_many {
            return self.service.refuse(&client);
        }
        *self.open.entry(peer).or_default() += 1;
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

fn peer(connection: &OwnedFd) -> Peer {
    if let Ok(Some((_, peer))) = socket::addresses(connection.as_fd()) {
        return Peer::Address(peer.ip().to_canonical());
    }
    sockopt::socket_peercred(connection).map_or(Peer::Unknown, |who| Peer::User(who.uid.as_raw()))
}
