//! The bus's one thread: accepts clients, reads their calls, answers, tells subscribers.
//!
//! It waits in one place, for any of: a client, a message bus, a message of the manager ([`Mail`]),
//! the end of the time that a client has to greet. It never waits for the manager.

mod mailbox;
mod over_bus;
mod polkit;
mod waiting;

pub use mailbox::{Mail, Mailbox};
pub use over_bus::Link;

use mailbox::Hears;
use polkit::Asking;
use waiting::{After, Again, WaitingCall, holds_later};

use crate::backend::{Backend, Call};
use crate::broker::{Broker, Caller};
use crate::connection::{Connection, Frame, Gone, Parcel};
use crate::dispatch::{self, Context, Dispatched};
use crate::error::BusError;
use crate::methods::{Progress, Refusal, Step};
use crate::signals::{Encoded, Signal, SignalQueue};
use crate::wire::{self, Header, Kind, To, Writer};
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use warren_core::model::ids::UnitId;
use warren_sys::{endings, fdpass};

/// Most clients at a time, as systemd has it.
const CONNECTIONS_MAX: usize = 4096;
/// Most clients at a time of one user who is neither root nor the manager's own, with those whose connection
/// cannot be closed for what he has sent.
const CONNECTIONS_PER_STRANGER_MAX: usize = 64;
/// Most clients at a time that may change nothing: the others are root's and the manager's own user's.
const STRANGERS_MAX: usize = 3840;
/// When those are there, one that has said nothing for so long makes room for another.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// So long a client who may change nothing may take for a message.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// Most bytes of messages that are not whole, of all clients who may change nothing.
const HALF_OF_STRANGERS_BYTES_MAX: usize = 16 << 20;
/// Time to greet.
const GREETING_TIME: Duration = Duration::from_secs(30);
/// So long a client who may change nothing may take nothing of what is to be sent to him.
const READING_TIME: Duration = Duration::from_secs(30);
/// With so many bytes unsent to all clients of a user who may change nothing, his calls are refused.
const UNREAD_BY_STRANGER_BYTES_MAX: usize = 16 << 20;
/// Below this many unsent bytes a subscriber is sent more signals.
const SIGNAL_WATER_BYTES: usize = 256 << 10;
/// So long nobody is taken after accept(2) has failed, for want of descriptors or memory, unless a client
/// ends: nothing tells when others give some back.
const REST: Duration = Duration::from_secs(1);
/// Units that one call may have loaded (`ListUnitsByNames`).
const LOADS_PER_CALL_MAX: usize = 4096;
const SEND_BUFFER_BYTES: usize = 8 << 20;
const EVENTS_MAX: usize = 64;

const LISTENER: u64 = 0;
const MAILBOX: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// Where a call came from, and its answer goes.
#[derive(Clone)]
struct Origin {
    connection: u64,
    /// Its name, if it is a client of the bus.
    client: Option<Arc<str>>,
    caller: Caller,
}

impl Origin {
    fn to(&self) -> To<'_> {
        self.client.as_deref().map_or(To::Peer, To::Client)
    }
}

/// What the answer answers.
#[derive(Clone)]
enum ReplyTo {
    /// A call that wants none.
    Nothing,
    /// The call of this number.
    Call(u32),
    /// The bus's wish to have this unit started.
    Activation(Box<str>),
}

impl ReplyTo {
    fn of(header: &Header<'_>) -> ReplyTo {
        match header.wants_reply {
            true => ReplyTo::Call(header.serial),
            false => ReplyTo::Nothing,
        }
    }
}

/// The thread's state.
pub struct Server {
    backend: Arc<dyn Backend>,
    mailbox: Arc<Mailbox>,
    epoll: OwnedFd,
    listener: OwnedFd,
    own_uid: u32,
    server_id: [u8; 32],
    connections: BTreeMap<u64, Connection>,
    /// Units that clients of the private socket refer to, and how often.
    references: BTreeMap<u64, BTreeMap<UnitId, u32>>,
    link: Option<Link>,
    waiting: BTreeMap<u64, WaitingCall>,
    /// Units that were `failed` when clients were last told.
    failed: u32,
    /// What the clients that are told in this turn hear.
    encoded: Option<Encoded>,
    /// Calls that are to be looked at again as soon as their connection has room for a reply.
    again: BTreeMap<u64, VecDeque<(Origin, ReplyTo, Again)>>,
    /// Clients in the order in which their time to greet ends.
    greeting: VecDeque<u64>,
    /// Clients who may change nothing and have yet to take something, with the time when they last did.
    slow: BTreeMap<u64, Instant>,
    /// Nobody is taken until then.
    resting_until: Option<Instant>,
    /// Clients who may change nothing.
    strangers: usize,
    /// Since when the oldest message of theirs is not whole.
    half_since: Option<Instant>,
    next_connection: u64,
    next_question: u64,
    next_serial: u32,
}

impl Server {
    /// Takes a listening socket, and the way to a message bus.
    pub fn new(
        listener: OwnedFd,
        link: Option<Link>,
        backend: Arc<dyn Backend>,
        mailbox: Arc<Mailbox>,
        server_id: [u8; 32],
    ) -> Result<Server, Errno> {
        // One that an earlier manager made may not have it.
        let _ = fdpass::refuse_fds(listener.as_fd());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), readable)?;
        // Each ringing is reported once: the counter need not be read.
        let rung = readable | epoll::EventFlags::ET;
        epoll::add(&epoll, &mailbox.bell, epoll::EventData::new_u64(MAILBOX), rung)?;
        let failed = backend.view().totals.failed;
        Ok(Server {
            backend,
            failed,
            mailbox,
            epoll,
            listener,
            own_uid: rustix::process::geteuid().as_raw(),
            server_id,
            connections: BTreeMap::new(),
            references: BTreeMap::new(),
            link,
            waiting: BTreeMap::new(),
            encoded: None,
            again: BTreeMap::new(),
            greeting: VecDeque::new(),
            slow: BTreeMap::new(),
            resting_until: None,
            strangers: 0,
            half_since: None,
            next_connection: FIRST_CONNECTION,
            next_question: 1,
            next_serial: 1,
        })
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        self.look_for_bus(&[]);
        while self.wait(&mut events) {
            let ready: Vec<(u64, epoll::EventFlags)> =
                events.drain(..).map(|event| (event.data.u64(), event.flags)).collect();
            for (token, flags) in ready {
                match token {
                    LISTENER => self.accept(),
                    MAILBOX if self.read_mail() => return self.farewell(),
                    MAILBOX => {}
                    client => self.serve(client, flags),
                }
            }
            self.encoded = None;
            let now = Instant::now();
            self.drop_silent(now);
            self.drop_slow(now);
            if self.strangers > 0 {
                self.drop_half(now);
            }
            if self.resting_until.is_some_and(|until| until <= now) {
                self.watch_listener(true);
            }
            if self.until_asked_in_vain().is_some_and(|left| left.is_zero()) {
                self.end_asker();
            }
            if self.until_asked_polkit_in_vain().is_some_and(|left| left.is_zero()) {
                self.end_unanswered();
            }
            if self.until_calm().is_some_and(|left| left.is_zero()) {
                self.look_for_calm();
            }
            if self.until_next_try().is_some_and(|left| left.is_zero()) {
                self.look_for_bus(&[]);
            }
            self.mailbox.hear(self.hears());
        }
    }

    fn hears(&self) -> Hears {
        let bus = self.link.as_ref().and_then(Link::connection);
        let clients = self.connections.len().saturating_sub(bus.is_some().into());
        match &self.link {
            _ if clients > 0 || self.has_bus_subscribers() || self.has_bus_references() => {
                Hears::All
            }
            Some(_) if self.waiting.values().any(|waiting| waiting.origin.client.is_some()) => {
                Hears::All
            }
            Some(link) if bus.is_none() => Hears::Of(link.service().clone()),
            _ => Hears::Nothing,
        }
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> bool {
        let oldest = self.greeting.front().and_then(|id| self.connections.get(id));
        let greeting = oldest.map(|client| GREETING_TIME.saturating_sub(client.since.elapsed()));
        let rest = self.resting_until.map(|until| until.saturating_duration_since(Instant::now()));
        let reading = self.slow.values().min();
        let reading = reading.map(|since| READING_TIME.saturating_sub(since.elapsed()));
        let half = self.half_since.filter(|_| self.strangers > 0);
        let half = half.map(|since| MESSAGE_TIME.saturating_sub(since.elapsed()));
        let all = greeting.into_iter().chain(reading).chain(self.until_next_try());
        let all = all.chain(self.until_asked_in_vain()).chain(self.until_calm());
        let all = all.chain(self.until_asked_polkit_in_vain());
        let due = all.chain(rest).chain(half).min();
        let timeout = due.map(|left| {
            Timespec::try_from(left + Duration::from_millis(1)).expect("a minute fits")
        });
        let room = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, room, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => true,
            Err(errno) => panic!("waiting for events of own file descriptors failed: {errno}"),
        }
    }

    fn accept(&mut self) {
        loop {
            // What is not taken costs nothing; nothing tells when there are fewer.
            if endings::are_full() {
                return self.watch_listener(false);
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.listener, flags) {
                Ok(socket) => self.welcome(socket),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                // EMFILE and its like: they wait, unwatched, as the listener would wake the thread
                // again at once.
                Err(_) => return self.watch_listener(false),
            }
        }
    }

    fn watch_listener(&mut self, on: bool) {
        let interest = if on { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        let data = epoll::EventData::new_u64(LISTENER);
        let modified = epoll::modify(&self.epoll, &self.listener, data, interest);
        modified.expect("the listener is in the set");
        self.resting_until = (!on).then(|| Instant::now() + REST);
    }

    /// Whoever comes from now on is served by the manager that comes.
    fn leave_others_to_the_next(&mut self) {
        self.watch_listener(false);
        self.resting_until = None;
    }

    fn welcome(&mut self, socket: OwnedFd) {
        let Ok(peer) = sockopt::socket_peercred(&socket) else {
            return endings::end(socket, u32::MAX);
        };
        let uid = peer.uid.as_raw();
        let id = self.next_connection;
        let has_room = self.connections.len() < CONNECTIONS_MAX
            && !self.is_crowd(uid)
            && (self.is_privileged(uid) || self.has_room_for_stranger());
        let data = epoll::EventData::new_u64(id);
        let interest = epoll::EventFlags::IN;
        if !has_room || epoll::add(&self.epoll, &socket, data, interest).is_err() {
            return endings::end(socket, uid);
        }
        // A large buffer makes a list of 40,000 units a few writes; less is no error. It is memory of the
        // kernel for as long as nobody reads, so that others get what every process may have.
        if self.is_privileged(uid)
            && sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES).is_err()
        {
            let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
        }
        let mut client = Connection::new(socket, peer, self.server_id, Instant::now());
        match self.is_privileged(uid) {
            true => client.allow_fds(),
            false => {
                client.bound();
                self.strangers += 1;
            }
        }
        self.next_connection += 1;
        self.greeting.push_back(id);
        self.connections.insert(id, client);
        self.mailbox.hear(Hears::All);
    }

    /// Whether there may be one more who may change nothing, also in the place of one who says nothing.
    fn has_room_for_stranger(&mut self) -> bool {
        if self.strangers < STRANGERS_MAX {
            return true;
        }
        let is_idle = |client: &&Connection| {
            client.is_bound()
                && client.waiting == 0
                && !client.has_output()
                && client.heard_at.elapsed() >= IDLE_TIME
        };
        let idle = self.connections.iter().filter(|(_, client)| is_idle(client));
        let longest = idle.min_by_key(|(_, client)| client.heard_at).map(|(&id, _)| id);
        longest.into_iter().for_each(|id| self.end(id));
        longest.is_some()
    }

    /// Ends those who may change nothing and take too long for a message, and the oldest of those as long as all have
    /// too much of theirs.
    fn drop_half(&mut self, now: Instant) {
        let of_strangers = |(&id, client): (&u64, &Connection)| {
            let (bytes, since) = client.half().filter(|_| client.is_bound())?;
            Some((since, id, bytes))
        };
        let mut half: Vec<_> = self.connections.iter().filter_map(of_strangers).collect();
        half.sort_unstable();
        let mut all: usize = half.iter().map(|(_, _, bytes)| bytes).sum();
        self.half_since = None;
        for (since, id, bytes) in half {
            let is_over = now.saturating_duration_since(since) >= MESSAGE_TIME;
            if is_over || all > HALF_OF_STRANGERS_BYTES_MAX {
                all -= bytes;
                self.end(id);
            } else {
                self.half_since.get_or_insert(since);
            }
        }
    }

    fn is_privileged(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own_uid
    }

    fn is_crowd(&self, uid: u32) -> bool {
        let users = self.connections.values().map(|client| client.peer.uid.as_raw());
        let count = || users.filter(|of| *of == uid).count() + endings::unended(uid);
        !self.is_privileged(uid) && count() >= CONNECTIONS_PER_STRANGER_MAX
    }

    /// Ends clients that did not greet in time.
    fn drop_silent(&mut self, now: Instant) {
        while let Some(&id) = self.greeting.front() {
            match self.connections.get(&id) {
                Some(client) if client.is_open() => {}
                Some(client) if now.duration_since(client.since) < GREETING_TIME => return,
                _ => self.end(id),
            }
            self.greeting.pop_front();
        }
    }

    /// Ends clients that may change nothing and have taken nothing for too long: what waits for them is
    /// memory of this process and of the kernel.
    fn drop_slow(&mut self, now: Instant) {
        let is_over = |since: &Instant| now.saturating_duration_since(*since) >= READING_TIME;
        let over = self.slow.iter().filter(|(_, since)| is_over(since)).map(|(&id, _)| id);
        for id in over.collect::<Vec<_>>() {
            self.end(id);
        }
    }

    fn end(&mut self, id: u64) {
        for unit in self.references.remove(&id).into_iter().flat_map(BTreeMap::into_keys) {
            self.backend.refer(unit, false);
        }
        if let Some(client) = self.connections.remove(&id) {
            self.strangers -= usize::from(client.is_bound());
            // It may be closed later.
            let _ = epoll::delete(&self.epoll, &client.socket);
            endings::end(client.socket, client.peer.uid.as_raw());
        }
        self.again.remove(&id);
        self.slow.remove(&id);
        self.bus_ended(id);
        self.asker_ended(id);
        if self.resting_until.is_some() {
            self.watch_listener(true);
        }
    }

    fn serve(&mut self, id: u64, flags: epoll::EventFlags) {
        let Some(client) = self.connections.get_mut(&id) else { return };
        let readable = flags
            .intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let received = if readable { client.receive() } else { Ok(()) };
        client.is_over = received.is_err();
        // What came before the end is still answered.
        let pumped = self.pump(id).and_then(|()| self.judge(id)).and(received);
        if let Err(why) = pumped {
            self.note_flood(id, why);
            self.end(id);
        }
    }

    /// Handles calls; what comes of them is sent at once, in the end or where it makes room for calls
    /// that were left unread.
    fn pump(&mut self, id: u64) -> Result<(), Gone> {
        loop {
            let Some(client) = self.connections.get_mut(&id) else { return Ok(()) };
            if !client.has_room() {
                client.flush()?;
            }
            if !self.handle_messages(id)? {
                return self.advance(id);
            }
        }
    }

    /// Handles the calls that are there while the client reads; says whether there were any.
    fn handle_messages(&mut self, id: u64) -> Result<bool, Gone> {
        let mut any = self.handle_again(id)?;
        any |= self.handle_later(id);
        while let Some(client) = self.connections.get_mut(&id)
            && client.is_ready_for_calls()
            && let Some(frame) = client.next_message()?
        {
            any = true;
            match frame {
                Frame::Whole(parcel) => self.handle(id, parcel)?,
                Frame::TooLong(beginning) => self.refuse_long(id, &beginning),
            }
        }
        Ok(any)
    }

    /// Looks again at calls that waited for units, while the client reads.
    fn handle_again(&mut self, id: u64) -> Result<bool, Gone> {
        let mut any = false;
        while self.connections.get(&id).is_some_and(Connection::has_room)
            && let Some((origin, reply_to, again)) =
                self.again.get_mut(&id).and_then(VecDeque::pop_front)
        {
            any = true;
            self.end_waiting(&origin, again.call.bytes.len(), again.holds);
            let handled = self.handle_call(&origin, reply_to, again.call, again.done);
            // A bus does not end with what one of its clients sent.
            if origin.client.is_none() {
                handled?;
            }
        }
        if self.again.get(&id).is_some_and(VecDeque::is_empty) {
            self.again.remove(&id);
        }
        Ok(any)
    }

    /// Looks at calls of clients on the bus that waited for those before them, while the bus reads.
    fn handle_later(&mut self, id: u64) -> bool {
        let mut any = false;
        while self.connections.get(&id).is_some_and(Connection::has_room)
            && let Some((client, caller, parcel)) = self.broker(id).and_then(Broker::next_later)
        {
            any = true;
            self.take_from_bus(id, client, caller, parcel);
        }
        any
    }

    /// Encodes and sends signals while there is room, and says what to wait for next.
    fn advance(&mut self, id: u64) -> Result<(), Gone> {
        let is_bus = self.is_bus(id);
        let Some(client) = self.connections.get_mut(&id) else { return Ok(()) };
        if !client.signals.is_empty() {
            let backend = &*self.backend;
            let view = backend.view();
            let newest = self.encoded.take().filter(|encoded| encoded.is_of(&view));
            let encoded = self.encoded.insert(newest.unwrap_or_else(|| Encoded::of(view)));
            let to = if is_bus { To::Everyone } else { To::Peer };
            encode_signals(client, to, encoded, backend, &mut self.next_serial)?;
        }
        client.flush()?;
        let (uid, waits_since) = (client.peer.uid.as_raw(), client.waits_since());
        if !is_bus && uid != 0 && uid != self.own_uid {
            match waits_since {
                Some(since) => drop(self.slow.insert(id, since)),
                None => drop(self.slow.remove(&id)),
            }
        }
        let mut interest = epoll::EventFlags::empty();
        interest.set(epoll::EventFlags::IN, client.is_to_be_read());
        interest.set(epoll::EventFlags::OUT, client.has_output());
        if interest == client.interest {
            return Ok(());
        }
        client.interest = interest;
        let data = epoll::EventData::new_u64(id);
        epoll::modify(&self.epoll, client.socket.as_fd(), data, interest).map_err(Gone::Failed)
    }

    fn handle(&mut self, id: u64, parcel: Parcel) -> Result<(), Gone> {
        if self.is_bus(id) {
            return self.hear(id, parcel);
        }
        let message = wire::parse(&parcel.bytes)?;
        if self.is_asker(id) {
            return self.take_credentials(id, &message);
        }
        let Some(client) = self.connections.get_mut(&id) else { return Ok(()) };
        client.has_spoken = true;
        let (uid, pid) = (client.peer.uid.as_raw(), client.peer.pid.as_raw_nonzero().get());
        let origin = Origin { connection: id, client: None, caller: Caller { uid, pid } };
        match message.header.kind {
            Kind::MethodCall => {
                let reply_to = ReplyTo::of(&message.header);
                self.handle_call(&origin, reply_to, parcel, Progress::default())
            }
            _ => Ok(()),
        }
    }

    fn handle_call(
        &mut self,
        origin: &Origin,
        reply_to: ReplyTo,
        parcel: Parcel,
        done: Progress,
    ) -> Result<(), Gone> {
        let message = wire::parse(&parcel.bytes)?;
        if !message.is_body_sound() {
            return Err(Gone::Garbage(wire::WireError::Malformed));
        }
        if self.leaves_too_much(origin) {
            let error = BusError::limits_exceeded("Too much is left unread.");
            self.fail(origin, &reply_to, &error);
            return Ok(());
        }
        let backend = self.backend.clone();
        let view = backend.view();
        let context = Context {
            view: &view,
            backend: &*backend,
            peer_pid: u32::try_from(origin.caller.pid).unwrap_or(0),
            // Whether a name's first message may start a service, the bus's policy has said.
            may_write: matches!(reply_to, ReplyTo::Activation(_))
                || self.is_privileged(origin.caller.uid),
            may_ask: origin.client.is_some() && self.is_bus(origin.connection),
            connection: origin.connection,
            fds: &parcel.fds,
            done: &done,
        };
        match dispatch::dispatch(&message, context) {
            Err(Refusal::Garbage(error)) => return Err(error.into()),
            Err(Refusal::Error(error)) => self.fail(origin, &reply_to, &error),
            Ok(dispatched) => self.follow(origin, reply_to, dispatched, (parcel, done)),
        }
        Ok(())
    }

    /// Whether the clients of the caller's user have more to read than a user may leave: each may have a
    /// list of all units.
    fn leaves_too_much(&self, origin: &Origin) -> bool {
        let uid = origin.caller.uid;
        let slow = || self.slow.keys().filter_map(|id| self.connections.get(id));
        let of_user = || slow().filter(|client| client.peer.uid.as_raw() == uid);
        origin.client.is_none()
            && !self.is_privileged(uid)
            && of_user().map(Connection::unsent).sum::<usize>() >= UNREAD_BY_STRANGER_BYTES_MAX
    }

    fn follow(
        &mut self,
        origin: &Origin,
        reply_to: ReplyTo,
        dispatched: Dispatched,
        (call, mut done): (Parcel, Progress),
    ) {
        let signature = dispatched.signature;
        match dispatched.step {
            Step::Reply(body) => self.reply(origin, &reply_to, &signature, body),
            Step::ReplyWithFd(body, fd) => {
                self.reply_with_fd(origin, &reply_to, &signature, (body, fd));
            }
            Step::Subscribe(on) => self.subscribe(origin, &reply_to, on),
            Step::Refer(unit, on) => match self.refer(origin, unit, on) {
                Some(()) => self.reply(origin, &reply_to, "", Writer::new()),
                None => {
                    let error = BusError::not_referenced("Unit has not been referenced yet.");
                    self.fail(origin, &reply_to, &error);
                }
            },
            Step::Ask(question, then) => {
                let then = After::Render(then);
                let (origin, holds) = (origin.clone(), holds_later(&question));
                self.ask(question, WaitingCall { origin, reply_to, signature, holds, then });
            }
            Step::Load(names) if done.tried.len() + names.len() > LOADS_PER_CALL_MAX => {
                let text = "Too many units to load at once.";
                self.fail(origin, &reply_to, &BusError::limits_exceeded(text));
            }
            Step::Load(mut to_load) => {
                done.tried.extend(to_load.iter().cloned());
                to_load.reverse();
                let Some(name) = to_load.pop() else { return };
                let holds = true;
                let then = After::Again(Again { call, done, to_load, holds });
                let waiting =
                    WaitingCall { origin: origin.clone(), reply_to, signature, holds, then };
                self.ask(Call::LoadUnit(name), waiting);
            }
            Step::Authorize(question) => {
                let reply_to = reply_to.clone();
                self.ask_polkit(Asking { origin: origin.clone(), reply_to, call, done, question });
            }
            Step::LookAtFiles(unit) => {
                done.has_looked = true;
                let holds = false;
                let then = After::Again(Again { call, done, to_load: Vec::new(), holds });
                let waiting =
                    WaitingCall { origin: origin.clone(), reply_to, signature, holds, then };
                self.ask(Call::LookAtUnitFiles(unit), waiting);
            }
        }
    }

    fn subscribe(&mut self, origin: &Origin, reply_to: &ReplyTo, on: bool) {
        let changes = match &origin.client {
            Some(name) => {
                self.broker(origin.connection).is_some_and(|broker| broker.subscribe(name, on))
            }
            None => self
                .connections
                .get_mut(&origin.connection)
                .is_some_and(|client| std::mem::replace(&mut client.is_subscribed, on) != on),
        };
        if !on && !changes {
            let error = BusError::not_subscribed("Client is not subscribed.");
            return self.fail(origin, reply_to, &error);
        }
        self.mailbox.hear(self.hears());
        self.reply(origin, reply_to, "", Writer::new());
    }

    fn reply(&mut self, origin: &Origin, reply_to: &ReplyTo, signature: &str, body: Writer) {
        let serial = self.serial();
        let client = self.connections.get_mut(&origin.connection);
        let (&ReplyTo::Call(reply_to), Some(client)) = (reply_to, client) else { return };
        let head = wire::method_return(origin.to(), serial, reply_to, signature, body.len());
        client.push(head);
        if !body.is_empty() {
            client.push(body.finish());
        }
    }

    fn reply_with_fd(
        &mut self,
        origin: &Origin,
        reply_to: &ReplyTo,
        signature: &str,
        (body, fd): (Writer, OwnedFd),
    ) {
        let serial = self.serial();
        let client = self.connections.get_mut(&origin.connection);
        let (&ReplyTo::Call(asked), Some(client)) = (reply_to, client) else { return };
        if !client.sends_fds() {
            let error = BusError::not_supported("The connection passes no file descriptors.");
            return self.fail(origin, reply_to, &error);
        }
        let mut reply =
            wire::method_return_with_fd(origin.to(), serial, asked, signature, body.len());
        reply.extend(body.finish());
        client.push_with_fd(reply, fd);
    }

    fn fail(&mut self, origin: &Origin, reply_to: &ReplyTo, error: &BusError) {
        match reply_to {
            ReplyTo::Nothing => {}
            ReplyTo::Activation(unit) => self.activation_failure(origin, unit, error),
            ReplyTo::Call(call) => {
                let serial = self.serial();
                let reply = wire::error_reply(origin.to(), serial, *call, &error.name, &error.text);
                if let Some(client) = self.connections.get_mut(&origin.connection) {
                    client.push(reply);
                }
            }
        }
    }

    fn serial(&mut self) -> u32 {
        next_serial(&mut self.next_serial)
    }

    /// Takes what others have put in; says whether the thread is to end.
    fn read_mail(&mut self) -> bool {
        if self.resting_until.is_some() {
            self.watch_listener(true);
        }
        let mut stop = false;
        let mut touched = Vec::new();
        for mail in self.mailbox.take() {
            match mail {
                Mail::Published(changed, notices, failed) => {
                    let fails_others = std::mem::replace(&mut self.failed, failed) != failed;
                    self.tell(|queue| queue.publish(&changed, &notices, fails_others));
                    self.tell_of_referred(&changed);
                    self.jobs_over(&notices);
                    self.look_for_bus(&changed);
                }
                Mail::Announcement(announcement) => {
                    self.tell(|queue| queue.announce(announcement));
                }
                Mail::Answer(question, outcome) => touched.extend(self.answer(question, outcome)),
                Mail::Authorize(asked) => self.ask_polkit_for(*asked),
                Mail::Stop => stop = true,
            }
        }
        let told = self.connections.iter().filter(|(_, client)| !client.signals.is_empty());
        touched.extend(told.map(|(id, _)| *id));
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            // An answer may have made room for calls that were left unread.
            if self.pump(id).is_err() {
                self.end(id);
            }
        }
        stop
    }

    fn tell(&mut self, add: impl Fn(&mut SignalQueue)) {
        let bus = self.link.as_ref().and_then(Link::connection);
        let is_silent = bus.filter(|_| !self.has_bus_subscribers());
        // What is told to the message bus goes out behind the greeting.
        let open = self
            .connections
            .iter_mut()
            .filter(|(id, client)| client.is_open() && client.has_spoken || Some(**id) == bus);
        open.filter(|(id, _)| Some(**id) != is_silent)
            .for_each(|(_, client)| add(&mut client.signals));
    }

    /// Sends what the sockets take at once; what they do not take is lost with the connections.
    fn farewell(mut self) {
        for client in self.connections.values_mut() {
            client.is_closing = true;
            let _ = client.flush();
        }
    }
}

fn next_serial(next: &mut u32) -> u32 {
    let serial = *next;
    *next = next.checked_add(1).unwrap_or(1);
    serial
}

fn encode_signals(
    client: &mut Connection,
    to: To<'_>,
    encoded: &mut Encoded,
    backend: &dyn Backend,
    serial: &mut u32,
) -> Result<(), Gone> {
    let mut queue = std::mem::take(&mut client.signals);
    while !queue.is_empty() && client.unsent() < SIGNAL_WATER_BYTES {
        let mut push = |signal: &Signal| {
            client.push(signal.message(to, next_serial(serial)));
        };
        queue.encode_next(encoded, backend, &mut push);
        if client.unsent() >= SIGNAL_WATER_BYTES {
            client.flush()?;
        }
    }
    let over = queue.is_over();
    client.signals = queue;
    if over { Err(Gone::TooSlow) } else { Ok(()) }
}
