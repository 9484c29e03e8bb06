//! The manager's clients on a message bus, where one connection carries the calls of many.
//!
//! Who a client is, the bus is asked once, before the client's first call is looked at; what comes
//! meanwhile waits here. What is known of a client goes when the bus says that it went. Nothing here
//! sends or receives.

use crate::connection::{CALLS_WAITING_MAX, Parcel};
use crate::names::DBUS;
use crate::wire::{self, Header, Kind, MAX_MESSAGE_BYTES, Message, WireError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use warren_core::model::ids::{JobId, UnitId};

/// The name that the manager has on a bus.
pub const NAME: &str = "org.freedesktop.systemd1";

/// The interface by which a bus has services started for names that nobody has.
const ACTIVATOR: &str = "org.freedesktop.systemd1.Activator";

/// Most bytes that wait here of all clients that are not known yet.
const HELD_BYTES_MAX: usize = 4 * MAX_MESSAGE_BYTES;

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Process; 0 where it has no number here.
    pub pid: i32,
}

/// What is known of a client of the bus.
#[derive(Debug, Default)]
struct Client {
    /// As long as it is there.
    there: Arc<()>,
    caller: Option<Caller>,
    /// What it sent before that was known.
    held: Vec<Parcel>,
    held_bytes: usize,
    /// Calls that wait for the manager, and bytes of those that are looked at again.
    waiting: usize,
    waiting_bytes: usize,
    /// Those of them that later ones wait for.
    holding: usize,
    /// Calls that wait for those.
    later: VecDeque<Parcel>,
    later_bytes: usize,
    is_subscribed: bool,
    references: BTreeMap<UnitId, u32>,
}

/// A question that the bus was asked.
#[derive(Debug)]
enum Question {
    Name,
    Credentials(Arc<str>),
}

/// What a message of the bus comes to.
#[derive(Debug)]
pub enum BrokerMessage {
    /// Nothing.
    Nothing,
    /// A client calls that is not known yet: the bus is to be asked for its credentials.
    Stranger(Arc<str>),
    /// A client that is known calls.
    Call(Arc<str>, Caller, Parcel),
    /// A client became known: its calls so far are the next ([`Broker::next_later`]).
    Known,
    /// A client that is not known yet calls too often.
    TooMuch(Parcel),
    /// A client went, and is to be forgotten ([`Broker::forget`]) once what it called last was looked at.
    Gone(Arc<str>, Caller, VecDeque<Parcel>),
    /// The name is ours.
    Named,
    /// Somebody else has the name, or the bus's policy keeps it from us.
    NotNamed(String),
}

/// The clients on the bus.
#[derive(Debug, Default)]
pub struct Broker {
    clients: BTreeMap<Arc<str>, Client>,
    /// Of all of them together.
    held_bytes: usize,
    asked: BTreeMap<u32, Question>,
    subscribed: BTreeSet<Arc<str>>,
    /// Clients whose next calls wait no longer.
    released: VecDeque<Arc<str>>,
    /// Jobs that clients asked for, who are told of them without a subscription.
    jobs: BTreeMap<JobId, Arc<str>>,
    /// How many clients refer to each unit. They are told of its changes without a subscription.
    referred: BTreeMap<UnitId, usize>,
    /// Some subscribed with an earlier manager, which has not said who.
    has_heirs: bool,
}

impl Broker {
    /// Of a bus whose clients came to an earlier manager.
    pub fn of_heirs() -> Broker {
        Broker { has_heirs: true, ..Broker::default() }
    }

    /// The clients of a bus to which there will be another connection: who is told of something stays. Some may have gone
    /// meanwhile, so the bus is asked for each ([`Broker::unknown`]). What they called is lost.
    pub fn of_same_bus(self) -> Broker {
        let Broker { clients, subscribed, jobs, referred, has_heirs, .. } = self;
        let is_told = |name: &Arc<str>, client: &Client| {
            client.is_subscribed
                || !client.references.is_empty()
                || jobs.values().any(|one| one == name)
        };
        let told = clients.into_iter().filter(|(name, client)| is_told(name, client));
        let kept = |client: Client| Client {
            is_subscribed: client.is_subscribed,
            references: client.references,
            ..Client::default()
        };
        let clients = told.map(|(name, client)| (name, kept(client))).collect();
        Broker { clients, subscribed, jobs, referred, has_heirs, ..Broker::default() }
    }

    /// Whether any client is known, or will be.
    pub fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// The clients of whom the bus is to be asked.
    pub fn unknown(&self) -> Vec<Arc<str>> {
        let unknown = self.clients.iter().filter(|(_, client)| client.caller.is_none());
        unknown.map(|(name, _)| name.clone()).collect()
    }

    /// The bus was asked for our name by this message.
    pub fn asked_for_name(&mut self, serial: u32) {
        self.asked.insert(serial, Question::Name);
    }

    /// The bus was asked by this message who the client is.
    pub fn asked_for_credentials(&mut self, serial: u32, client: Arc<str>) {
        self.asked.insert(serial, Question::Credentials(client));
    }

    /// Takes a message.
    pub fn hear(&mut self, parcel: Parcel) -> BrokerMessage {
        let Ok(message) = wire::parse(&parcel.bytes) else { return BrokerMessage::Nothing };
        let header = &message.header;
        match header.kind {
            Kind::MethodCall => self.call(parcel),
            Kind::Signal if header.sender != DBUS => BrokerMessage::Nothing,
            Kind::Signal if is_activation(header) => self.call(parcel),
            Kind::Signal if header.member == "NameOwnerChanged" => match gone(&message) {
                Ok(Some(client)) => self.goes(client),
                _ => BrokerMessage::Nothing,
            },
            Kind::Signal | Kind::Unknown => BrokerMessage::Nothing,
            // Only the bus is asked anything.
            Kind::MethodReturn | Kind::Error if header.sender != DBUS => BrokerMessage::Nothing,
            Kind::MethodReturn | Kind::Error => match self.asked.remove(&header.reply_serial) {
                Some(Question::Name) => named(&message),
                Some(Question::Credentials(client)) => {
                    self.introduced(&client, credentials_of(&message))
                }
                None => BrokerMessage::Nothing,
            },
        }
    }

    fn call(&mut self, parcel: Parcel) -> BrokerMessage {
        let own_bytes = parcel.bytes.len();
        let all_bytes = self.held_bytes + own_bytes;
        let sender = wire::parse_header(&parcel.bytes).map_or("", |header| header.sender);
        let Some((name, client)) = self.find(sender) else {
            if all_bytes > HELD_BYTES_MAX {
                return BrokerMessage::TooMuch(parcel);
            }
            self.held_bytes = all_bytes;
            let name: Arc<str> = sender.into();
            let first = Client { held: vec![parcel], held_bytes: own_bytes, ..Client::default() };
            self.clients.insert(name.clone(), first);
            return BrokerMessage::Stranger(name);
        };
        if let Some(caller) = client.caller {
            if client.holding == 0 && client.later.is_empty() {
                return BrokerMessage::Call(name, caller, parcel);
            }
            let bytes = client.later_bytes + own_bytes;
            if bytes > MAX_MESSAGE_BYTES || client.later.len() >= CALLS_WAITING_MAX {
                return BrokerMessage::TooMuch(parcel);
            }
            client.later_bytes = bytes;
            client.later.push_back(parcel);
            return BrokerMessage::Nothing;
        }
        let bytes = client.held_bytes + own_bytes;
        let is_over = bytes > MAX_MESSAGE_BYTES || all_bytes > HELD_BYTES_MAX;
        if is_over || client.held.len() >= CALLS_WAITING_MAX {
            return BrokerMessage::TooMuch(parcel);
        }
        client.held_bytes = bytes;
        client.held.push(parcel);
        self.held_bytes = all_bytes;
        BrokerMessage::Nothing
    }

    fn find(&mut self, name: &str) -> Option<(Arc<str>, &mut Client)> {
        let name = self.clients.get_key_value(name)?.0.clone();
        let client = self.clients.get_mut(&name)?;
        Some((name, client))
    }

    /// Who that client is, if that is known.
    pub fn caller_of(&self, name: &str) -> Option<Caller> {
        self.clients.get(name)?.caller
    }

    /// A client that is on the bus was asked for beside what it calls.
    pub fn know(&mut self, name: &str, caller: Caller) {
        let name: Arc<str> = name.into();
        self.clients.entry(name.clone()).or_default();
        self.introduced(&name, Some(caller));
    }

    fn introduced(&mut self, name: &Arc<str>, caller: Option<Caller>) -> BrokerMessage {
        match (caller, self.clients.get_mut(name)) {
            (Some(caller), Some(client)) => {
                client.caller = Some(caller);
                let bytes = std::mem::take(&mut client.held_bytes);
                client.later_bytes += bytes;
                self.held_bytes -= bytes;
                client.later.extend(std::mem::take(&mut client.held));
                self.released.push_back(name.clone());
                BrokerMessage::Known
            }
            // It was asked for twice.
            (None, Some(client)) if client.caller.is_some() => BrokerMessage::Nothing,
            // It went before it was known, or the bus does not know who it is.
            _ => self.goes(name),
        }
    }

    /// A client went. What it called waits no longer.
    fn goes(&mut self, name: &str) -> BrokerMessage {
        let Some((name, client)) = self.find(name) else { return BrokerMessage::Nothing };
        // Of one that is not known yet there is nothing to be looked at.
        let caller = client.caller.unwrap_or(Caller { uid: u32::MAX, pid: 0 });
        BrokerMessage::Gone(name, caller, std::mem::take(&mut client.later))
    }

    /// The next call that waited for one before it, and does no longer.
    pub fn next_later(&mut self) -> Option<(Arc<str>, Caller, Parcel)> {
        while let Some(name) = self.released.front() {
            let client = self.clients.get_mut(name).filter(|client| client.holding == 0);
            if let Some(client) = client
                && let (Some(caller), Some(parcel)) = (client.caller, client.later.pop_front())
            {
                client.later_bytes -= parcel.bytes.len();
                return Some((name.clone(), caller, parcel));
            }
            self.released.pop_front();
        }
        None
    }

    /// Forgets a client; gives the units that only it referred to.
    pub fn forget(&mut self, name: &str) -> Vec<UnitId> {
        self.subscribed.remove(name);
        self.jobs.retain(|_, asker| **asker != *name);
        let Some(client) = self.remove(name) else { return Vec::new() };
        client.references.into_keys().filter(|unit| self.one_fewer_refers_to(*unit)).collect()
    }

    fn remove(&mut self, name: &str) -> Option<Client> {
        let client = self.clients.remove(name)?;
        self.held_bytes -= client.held_bytes;
        Some(client)
    }

    /// One more of the client's calls waits for the manager; not if there are too many.
    pub fn begin(&mut self, name: &str, bytes: usize, holds: bool) -> bool {
        let has_room = |client: &Client| {
            client.waiting < CALLS_WAITING_MAX && client.waiting_bytes + bytes <= MAX_MESSAGE_BYTES
        };
        match self.clients.get_mut(name) {
            Some(client) if has_room(client) => {
                client.waiting += 1;
                client.waiting_bytes += bytes;
                // The bus asks for units on behalf of many.
                client.holding += usize::from(holds && name != DBUS);
                true
            }
            _ => false,
        }
    }

    /// What is there as long as the client is.
    pub fn there(&self, name: &str) -> Option<&Arc<()>> {
        self.clients.get(name).map(|client| &client.there)
    }

    /// One fewer.
    pub fn end(&mut self, name: &str, bytes: usize, holds: bool) {
        if let Some((name, client)) = self.find(name) {
            client.holding = client.holding.saturating_sub(holds.into());
            let is_released = client.holding == 0 && !client.later.is_empty();
            client.waiting = client.waiting.saturating_sub(1);
            client.waiting_bytes = client.waiting_bytes.saturating_sub(bytes);
            if is_released {
                self.released.push_back(name);
            }
        }
    }

    /// Begins or ends a client's subscription; says whether that changed anything, as far as is known.
    pub fn subscribe(&mut self, name: &Arc<str>, on: bool) -> bool {
        let Some(client) = self.clients.get_mut(name) else { return false };
        let is_new = client.is_subscribed != on;
        client.is_subscribed = on;
        match on {
            true => drop(self.subscribed.insert(name.clone())),
            false => drop(self.subscribed.remove(name)),
        }
        is_new || self.has_heirs
    }

    /// Whether anybody wants all signals.
    pub fn has_subscribers(&self) -> bool {
        self.has_heirs || !self.subscribed.is_empty() || !self.jobs.is_empty()
    }

    /// A client asked for a job.
    pub fn asked_for_job(&mut self, job: JobId, client: &Arc<str>) {
        if self.clients.contains_key(client) {
            self.jobs.insert(job, client.clone());
        }
    }

    /// The job has ended.
    pub fn job_over(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// A client refers to a unit; says whether nobody did before.
    pub fn refer(&mut self, name: &str, unit: UnitId) -> bool {
        let Some(client) = self.clients.get_mut(name) else { return false };
        let count = client.references.entry(unit).or_insert(0);
        *count += 1;
        if *count > 1 {
            return false;
        }
        let clients = self.referred.entry(unit).or_insert(0);
        *clients += 1;
        *clients == 1
    }

    /// A client refers to a unit once less. Nothing if it did not; else whether nobody does now.
    pub fn unrefer(&mut self, name: &str, unit: UnitId) -> Option<bool> {
        let client = self.clients.get_mut(name)?;
        let count = client.references.get_mut(&unit)?;
        *count -= 1;
        if *count > 0 {
            return Some(false);
        }
        client.references.remove(&unit);
        Some(self.one_fewer_refers_to(unit))
    }

    /// A client refers to the unit no longer; says whether it was the last one.
    fn one_fewer_refers_to(&mut self, unit: UnitId) -> bool {
        let Some(clients) = self.referred.get_mut(&unit) else { return false };
        *clients -= 1;
        let was_last = *clients == 0;
        if was_last {
            self.referred.remove(&unit);
        }
        was_last
    }

    /// Whether a client refers to the unit.
    pub fn is_referred_to(&self, unit: UnitId) -> bool {
        self.referred.contains_key(&unit)
    }

    /// Whether clients refer to any units.
    pub fn has_references(&self) -> bool {
        !self.referred.is_empty()
    }

    /// All units that clients refer to, when the bus is lost.
    pub fn references(&self) -> BTreeSet<UnitId> {
        self.referred.keys().copied().collect()
    }
}

/// Whether the bus asks for a service to be started. It alone may: a client's message can have the
/// same words.
pub fn is_activation(header: &Header<'_>) -> bool {
    let is_bus = header.kind == Kind::Signal && header.sender == DBUS;
    is_bus && header.interface == ACTIVATOR && header.member == "ActivationRequest"
}

/// The name of a client that went, if that is what the bus tells.
fn gone<'a>(message: &Message<'a>) -> Result<Option<&'a str>, WireError> {
    let mut body = message.body();
    let (name, _, new) = (body.str()?, body.str()?, body.str()?);
    Ok(new.is_empty().then_some(name))
}

/// The answer to RequestName.
fn named(message: &Message<'_>) -> BrokerMessage {
    const PRIMARY_OWNER: u32 = 1;
    const ALREADY_OWNER: u32 = 4;
    let mut body = message.body();
    match message.header.kind {
        Kind::MethodReturn => match body.u32() {
            Ok(PRIMARY_OWNER | ALREADY_OWNER) => BrokerMessage::Named,
            _ => BrokerMessage::NotNamed("somebody else has it".to_owned()),
        },
        _ => BrokerMessage::NotNamed(body.str().unwrap_or(message.header.error_name).to_owned()),
    }
}

/// What a reply to GetConnectionCredentials says; nothing of one that is an error.
pub fn credentials_of(message: &Message<'_>) -> Option<Caller> {
    match message.header.kind {
        Kind::MethodReturn => credentials(message).ok().flatten(),
        _ => None,
    }
}

/// The answer to GetConnectionCredentials: nothing where the user is missing.
fn credentials(message: &Message<'_>) -> Result<Option<Caller>, WireError> {
    let (mut uid, mut pid) = (None, 0);
    message.body().array(b'{', |entry| {
        entry.align(8)?;
        let key = entry.str()?;
        match (key, entry.signature()?) {
            ("UnixUserID", "u") => uid = Some(entry.u32()?),
            ("ProcessID", "u") => pid = i32::try_from(entry.u32()?).unwrap_or(0),
            (_, other) => entry.skip(other)?,
        }
        Ok(())
    })?;
    Ok(uid.map(|uid| Caller { uid, pid }))
}
