//! The server's end of a message bus: connected as long as the bus's service is up, known there by
//! the manager's name, and found again after it was lost.

use super::polkit::Waits;
use super::{Hears, Origin, ReplyTo, Server};
use crate::authority::Pending;
use crate::broker::{Broker, BrokerMessage, Caller, NAME, credentials_of, is_activation};
use crate::connection::{Connection, Gone, Parcel};
use crate::error::BusError;
use crate::methods::Progress;
use crate::names::{DBUS, DBUS_PATH};
use crate::path;
use crate::wire::{self, Header, Message, To, Writer};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::net::{connect, socket_with};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warren_core::model::ids::UnitId;
use warren_core::protocol::request::Notice;
use warren_sys::endings;
use warren_unit::UnitName;

/// The unit of the bus, whichever program it is.
const SERVICE: &str = "dbus.service";
/// A bus that was lost is looked for again after this time, and each time after twice as long ...
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// ... up to this one.
const LAST_DELAY: Duration = Duration::from_secs(64);
/// So long the bus may take to say who sent a message with file descriptors; behind it nothing is read meanwhile.
const ASKING_TIME: Duration = Duration::from_secs(5);
/// After a user has sent file descriptors that cannot be let go of, none are agreed on for so long at least.
const CALM_TIME: Duration = Duration::from_secs(10);
/// RequestName: not to wait behind another owner.
const DO_NOT_QUEUE: u32 = 4;

/// The way to the bus.
pub struct Link {
    path: PathBuf,
    service: UnitName,
    connection: Option<u64>,
    broker: Broker,
    again: Option<Instant>,
    delay: Duration,
    asker: Option<Asker>,
    /// Somebody sent file descriptors that could not be let go of: none are agreed on until they are, for which is
    /// looked at this time.
    flooded_until: Option<Instant>,
    /// The connection ends, and not the bus.
    is_same_bus: bool,
    /// Calls about which polkit is asked over the connection.
    pub(super) asking: Pending<Waits>,
}

/// A connection to the bus of its own, over which it is asked who sent the message with file descriptors that is next:
/// the answer over the other one would be behind that message.
struct Asker {
    connection: u64,
    client: Box<str>,
    /// Of the question.
    serial: u32,
    until: Instant,
}

impl Link {
    /// To the bus whose socket is at `path`; `is_heir` if an earlier manager may have had clients there.
    pub fn new(path: PathBuf, is_heir: bool) -> Link {
        let broker = if is_heir { Broker::of_heirs() } else { Broker::default() };
        Link {
            path,
            service: UnitName::parse(SERVICE).expect("a unit's name"),
            connection: None,
            broker,
            again: None,
            delay: FIRST_DELAY,
            asker: None,
            flooded_until: None,
            is_same_bus: false,
            asking: Pending::default(),
        }
    }

    /// The unit that is up while there is a message bus.
    pub(super) fn service(&self) -> &UnitName {
        &self.service
    }

    /// The connection, while there is one.
    pub(super) fn connection(&self) -> Option<u64> {
        self.connection
    }
}

impl Server {
    /// Whether that connection is the bus.
    pub(super) fn is_bus(&self, id: u64) -> bool {
        self.link.as_ref().is_some_and(|link| link.connection == Some(id))
    }

    /// Whether somebody on the bus wants all signals.
    pub(super) fn has_bus_subscribers(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.broker.has_subscribers())
    }

    /// Whether somebody on the bus wants the signals of some units.
    pub(super) fn has_bus_references(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.broker.has_references())
    }

    /// Tells the bus of changes of units that somebody there refers to, where nobody wants more.
    pub(super) fn tell_of_referred(&mut self, changed: &[UnitId]) {
        let Some(link) = self.link.as_ref().filter(|link| !link.broker.has_subscribers()) else {
            return;
        };
        let referred = changed.iter().filter(|unit| link.broker.is_referred_to(**unit));
        let referred: Vec<UnitId> = referred.copied().collect();
        if let Some(bus) = link.connection.and_then(|id| self.connections.get_mut(&id)) {
            bus.signals.publish(&referred, &[], false);
        }
    }

    /// Who asked for these jobs has been told of their end.
    pub(super) fn jobs_over(&mut self, notices: &[Notice]) {
        let Some(link) = &mut self.link else { return };
        for notice in notices {
            if let Notice::JobRemoved { job, .. } = notice {
                link.broker.job_over(*job);
            }
        }
    }

    /// The clients on the bus, while the connection is it.
    pub(super) fn broker(&mut self, id: u64) -> Option<&mut Broker> {
        let link = self.link.as_mut().filter(|link| link.connection == Some(id))?;
        Some(&mut link.broker)
    }

    /// How long until the bus is to be looked for again.
    pub(super) fn until_next_try(&self) -> Option<Duration> {
        let again = self.link.as_ref()?.again?;
        Some(again.saturating_duration_since(Instant::now()))
    }

    /// Connects if the bus's service is up, and, unless it is among what has just `changed`, the
    /// time for it has come.
    pub(super) fn look_for_bus(&mut self, changed: &[UnitId]) {
        let Some(link) = self.link.as_ref().filter(|link| link.connection.is_none()) else {
            return;
        };
        let view = self.backend.view();
        let service = view.lookup(&link.service);
        let is_up = service.is_some_and(|unit| view.active_state(unit).is_up());
        let is_news = service.is_some_and(|unit| changed.contains(&unit));
        let is_time = link.again.is_none_or(|again| again <= Instant::now());
        match is_up {
            false => {
                self.link.as_mut().expect("it was there").again = None;
                self.forget_kept_clients();
            }
            true if is_news || is_time => self.connect_to_bus(),
            true => {}
        }
    }

    fn connect_to_bus(&mut self) {
        let Some(link) = &mut self.link else { return };
        link.flooded_until = link.flooded_until.filter(|_| endings::held_up() > 0);
        let has_fds = link.flooded_until.is_none();
        match self.open_bus(has_fds) {
            Err(_) => {
                self.forget_kept_clients();
                self.try_again_later();
            }
            Ok(id) => {
                self.link.as_mut().expect("it was there").connection = Some(id);
                self.introduce(id);
            }
        }
    }

    /// Another connection to the bus.
    fn open_bus(&mut self, has_fds: bool) -> Result<u64, Errno> {
        let Some(link) = &self.link else { return Err(Errno::NOTCONN) };
        let socket = open(&link.path)?;
        let peer = sockopt::socket_peercred(&socket)?;
        let connect = if has_fds { Connection::to_bus_with_fds } else { Connection::to_bus };
        let bus = connect(socket, peer, self.own_uid, Instant::now());
        let id = self.next_connection;
        let data = epoll::EventData::new_u64(id);
        epoll::add(&self.epoll, &bus.socket, data, bus.interest)?;
        self.next_connection += 1;
        self.connections.insert(id, bus);
        self.greeting.push_back(id);
        Ok(id)
    }

    /// Decides about the message with file descriptors that is next on the bus's connection: they are taken if its
    /// sender may change things. Of whom that is not known, the bus is asked first.
    pub(super) fn judge(&mut self, id: u64) -> Result<(), Gone> {
        while let Some(front) = self.connections.get(&id).and_then(Connection::front) {
            if self.link.as_ref().is_none_or(|link| link.asker.is_some()) {
                return Ok(());
            }
            let sender: Box<str> = front.into();
            let caller = self.broker(id).and_then(|broker| broker.caller_of(&sender));
            match caller {
                Some(caller) => self.judged(id, caller.uid)?,
                None if !self.ask_who(sender) => self.judged(id, u32::MAX)?,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// The message that is next is of this user.
    fn judged(&mut self, id: u64, uid: u32) -> Result<(), Gone> {
        let is_privileged = self.is_privileged(uid);
        let Some(bus) = self.connections.get_mut(&id) else { return Ok(()) };
        match is_privileged {
            true => bus.take_front()?,
            false => bus.take_front_without(uid)?,
        }
        self.pump(id)
    }

    /// Whether the bus can be asked.
    fn ask_who(&mut self, client: Box<str>) -> bool {
        let Ok(connection) = self.open_bus(false) else { return false };
        let mut body = Writer::new();
        body.str(&client);
        self.call_bus(connection, "Hello", "", &Writer::new());
        let serial = self.call_bus(connection, "GetConnectionCredentials", "s", &body);
        let until = Instant::now() + ASKING_TIME;
        if let Some(link) = &mut self.link {
            link.asker = Some(Asker { connection, client, serial, until });
        }
        if self.pump(connection).is_err() {
            self.end(connection);
        }
        true
    }

    /// Whether the bus is asked over that connection.
    pub(super) fn is_asker(&self, id: u64) -> bool {
        let asker = self.link.as_ref().and_then(|link| link.asker.as_ref());
        asker.is_some_and(|asker| asker.connection == id)
    }

    /// How long the bus has yet to answer.
    pub(super) fn until_asked_in_vain(&self) -> Option<Duration> {
        let asker = self.link.as_ref()?.asker.as_ref()?;
        Some(asker.until.saturating_duration_since(Instant::now()))
    }

    /// The bus's answer, if it is that. The connection has no further use then.
    pub(super) fn take_credentials(&mut self, id: u64, message: &Message<'_>) -> Result<(), Gone> {
        let Some(link) = &mut self.link else { return Err(Gone::Closed) };
        let Some(asker) = link.asker.as_ref().filter(|asker| asker.connection == id) else {
            return Err(Gone::Closed);
        };
        let header = &message.header;
        if header.sender != DBUS || header.reply_serial != asker.serial {
            return Ok(());
        }
        if let Some(caller) = credentials_of(message) {
            link.broker.know(&asker.client, caller);
        }
        Err(Gone::Closed)
    }

    /// The bus took too long.
    pub(super) fn end_asker(&mut self) {
        let asker = self.link.as_ref().and_then(|link| link.asker.as_ref());
        if let Some(id) = asker.map(|asker| asker.connection) {
            self.end(id);
        }
    }

    /// The bus was asked over this connection: what waited for the answer goes on, also where there was none.
    pub(super) fn asker_ended(&mut self, id: u64) {
        let Some(link) = self.link.as_mut() else { return };
        let Some(asker) = link.asker.take_if(|asker| asker.connection == id) else { return };
        let Some(bus) = link.connection else { return };
        let is_next = |bus: &Connection| bus.front() == Some(&*asker.client);
        if !self.connections.get(&bus).is_some_and(is_next) {
            return;
        }
        let caller = self.broker(bus).and_then(|broker| broker.caller_of(&asker.client));
        let uid = caller.map_or(u32::MAX, |caller| caller.uid);
        if let Err(why) = self.judged(bus, uid).and_then(|()| self.judge(bus)) {
            self.note_flood(bus, why);
            self.end(bus);
        }
    }

    /// Why the connection ends: if it is the bus, over file descriptors that cannot be let go of, none are agreed on
    /// with the next.
    pub(super) fn note_flood(&mut self, id: u64, why: Gone) {
        if why != Gone::Descriptors || !self.is_bus(id) {
            return;
        }
        if let Some(link) = &mut self.link {
            link.flooded_until = Some(Instant::now() + CALM_TIME);
            link.is_same_bus = true;
        }
        self.backend.remark(
            "a user sent file descriptors over the message bus that cannot be closed: the manager connects again and \
             takes none over the bus",
        );
    }

    /// How long until it is looked whether file descriptors can be agreed on again.
    pub(super) fn until_calm(&self) -> Option<Duration> {
        let link = self.link.as_ref().filter(|link| link.connection.is_some())?;
        Some(link.flooded_until?.saturating_duration_since(Instant::now()))
    }

    /// Connects again if what could not be let go of is gone by now. What clients have called comes first.
    pub(super) fn look_for_calm(&mut self) {
        let is_busy = self.waiting.values().any(|waiting| waiting.origin.client.is_some());
        let Some(link) = &mut self.link else { return };
        if is_busy || !link.asking.is_empty() || endings::held_up() > 0 {
            link.flooded_until = Some(Instant::now() + CALM_TIME);
            return;
        }
        link.is_same_bus = true;
        if let Some(bus) = link.connection {
            self.end(bus);
            self.connect_to_bus();
        }
    }

    fn try_again_later(&mut self) {
        let Some(link) = &mut self.link else { return };
        link.again = Some(Instant::now() + link.delay);
        link.delay = (link.delay * 2).min(LAST_DELAY);
    }

    /// What is sent behind the greeting: who we are, whose end we want to hear of, and last the name,
    /// so that nobody calls before.
    fn introduce(&mut self, id: u64) {
        let rule = format!("type='signal',sender='{DBUS}',member='NameOwnerChanged',arg2=''");
        let mut rule_body = Writer::new();
        rule_body.str(&rule);
        let mut name_body = Writer::new();
        name_body.str(NAME).u32(DO_NOT_QUEUE);
        self.call_bus(id, "Hello", "", &Writer::new());
        self.call_bus(id, "AddMatch", "s", &rule_body);
        let serial = self.call_bus(id, "RequestName", "su", &name_body);
        if let Some(broker) = self.broker(id) {
            broker.asked_for_name(serial);
        }
        let unknown = self.broker(id).map_or_else(Vec::new, |broker| broker.unknown());
        unknown.into_iter().for_each(|client| self.ask_for_credentials(id, client));
        if self.pump(id).is_err() {
            self.end(id);
        }
    }

    fn call_bus(&mut self, id: u64, member: &str, signature: &str, body: &Writer) -> u32 {
        let serial = self.serial();
        let member = format!("{DBUS}.{member}");
        let call = wire::method_call(serial, DBUS, DBUS_PATH, &member, signature, body.as_bytes());
        if let Some(bus) = self.connections.get_mut(&id) {
            bus.push(call);
        }
        serial
    }

    /// The connection ended: if it was the bus, nobody there is known any more, unless the bus itself goes on.
    pub(super) fn bus_ended(&mut self, id: u64) {
        if !self.is_bus(id) {
            return;
        }
        let Some(link) = &mut self.link else { return };
        link.connection = None;
        link.asking = Pending::default();
        self.end_asker();
        let Some(link) = &mut self.link else { return };
        self.mailbox.hear(Hears::All);
        match std::mem::take(&mut link.is_same_bus) {
            true => link.broker = std::mem::take(&mut link.broker).of_same_bus(),
            false => self.forget_clients(),
        }
        self.try_again_later();
    }

    /// The bus is gone, and all its clients with it.
    fn forget_clients(&mut self) {
        let Some(link) = &mut self.link else { return };
        let broker = std::mem::take(&mut link.broker);
        broker.references().into_iter().for_each(|unit| self.backend.refer(unit, false));
    }

    /// The same of a bus that was thought to go on.
    fn forget_kept_clients(&mut self) {
        if self.link.as_ref().is_some_and(|link| link.broker.has_clients()) {
            self.forget_clients();
        }
    }

    /// Takes a message of the bus. One that is not sound is some client's fault, not the bus's.
    pub(super) fn hear(&mut self, id: u64, parcel: Parcel) -> Result<(), Gone> {
        if self.hear_polkit(id, &parcel) {
            return Ok(());
        }
        let Some(broker) = self.broker(id) else { return Ok(()) };
        match broker.hear(parcel) {
            BrokerMessage::Nothing => Ok(()),
            BrokerMessage::Known => {
                self.handle_later(id);
                Ok(())
            }
            BrokerMessage::Call(client, caller, parcel) => {
                self.take_from_bus(id, client, caller, parcel);
                Ok(())
            }
            BrokerMessage::Stranger(client) => {
                self.ask_for_credentials(id, client);
                Ok(())
            }
            BrokerMessage::TooMuch(parcel) => {
                if let Ok(header) = wire::parse_header(&parcel.bytes) {
                    self.refuse(id, &header, "Too many calls at once.");
                }
                Ok(())
            }
            BrokerMessage::Gone(client, caller, later) => {
                for parcel in later {
                    self.take_from_bus(id, client.clone(), caller, parcel);
                }
                let units = self.broker(id).map_or_else(Vec::new, |broker| broker.forget(&client));
                units.into_iter().for_each(|unit| self.backend.refer(unit, false));
                Ok(())
            }
            BrokerMessage::Named => {
                if let Some(link) = &mut self.link {
                    (link.again, link.delay) = (None, FIRST_DELAY);
                }
                Ok(())
            }
            BrokerMessage::NotNamed(why) => {
                self.backend.remark(&format!("{NAME} could not be acquired on the bus: {why}"));
                Err(Gone::NoGreeting)
            }
        }
    }

    fn ask_for_credentials(&mut self, id: u64, client: Arc<str>) {
        let mut body = Writer::new();
        body.str(&client);
        let serial = self.call_bus(id, "GetConnectionCredentials", "s", &body);
        if let Some(broker) = self.broker(id) {
            broker.asked_for_credentials(serial, client);
        }
    }

    /// Refuses a message of the bus of which this is the beginning.
    pub(super) fn refuse_long(&mut self, id: u64, beginning: &[u8]) {
        if let Ok(header) = wire::parse_header(beginning) {
            self.refuse(id, &header, "The message is too long.");
        }
    }

    /// Refuses what a client on the bus sent, whoever it is.
    fn refuse(&mut self, id: u64, header: &Header<'_>, text: &str) {
        let caller = Caller { uid: u32::MAX, pid: 0 };
        let origin = Origin { connection: id, client: Some(header.sender.into()), caller };
        self.fail(&origin, &ReplyTo::of(header), &BusError::limits_exceeded(text));
    }

    pub(super) fn take_from_bus(
        &mut self,
        id: u64,
        client: Arc<str>,
        caller: Caller,
        parcel: Parcel,
    ) {
        let origin = Origin { connection: id, client: Some(client), caller };
        let Ok(message) = wire::parse(&parcel.bytes) else { return };
        match is_activation(&message.header) {
            true => self.activate(&origin, &message),
            false => {
                let reply_to = ReplyTo::of(&message.header);
                if let Err(gone) =
                    self.handle_call(&origin, reply_to.clone(), parcel, Progress::default())
                {
                    let text = format!("The call is not sound: {gone:?}.");
                    self.fail(&origin, &reply_to, &BusError::invalid_args(text));
                }
            }
        }
    }

    /// The bus holds a message for a name that nobody has and asks for the unit that is to take it
    /// (`SystemdService=` of the name's file). It is told only if that cannot be tried.
    fn activate(&mut self, origin: &Origin, message: &Message<'_>) {
        let Ok(unit) = message.body().str() else { return };
        let reply_to = ReplyTo::Activation(unit.into());
        let mut body = Writer::new();
        body.str(unit).str("replace");
        let member = "org.freedesktop.systemd1.Manager.StartUnit";
        let call = wire::method_call(
            message.header.serial,
            NAME,
            path::MANAGER,
            member,
            "ss",
            body.as_bytes(),
        );
        // It is our own, and sound.
        let call = Parcel { bytes: call, ..Parcel::default() };
        let _ = self.handle_call(origin, reply_to, call, Progress::default());
    }

    /// A client refers to a unit, or no longer does: nothing where it never did.
    pub(super) fn refer(&mut self, origin: &Origin, unit: UnitId, on: bool) -> Option<()> {
        let Some(client) = origin.client.clone() else {
            return self.refer_privately(origin.connection, unit, on);
        };
        let broker = self.broker(origin.connection)?;
        let changes = match on {
            true => broker.refer(&client, unit),
            false => broker.unrefer(&client, unit)?,
        };
        if changes {
            self.backend.refer(unit, on);
        }
        // What happens from here on is told.
        self.mailbox.hear(self.hears());
        Some(())
    }

    /// The same of a client of the private socket.
    fn refer_privately(&mut self, connection: u64, unit: UnitId, on: bool) -> Option<()> {
        if !self.connections.contains_key(&connection) {
            return None;
        }
        let of_client = self.references.entry(connection).or_default();
        let changes = match on {
            true => {
                let count = of_client.entry(unit).or_insert(0);
                *count += 1;
                *count == 1
            }
            false => {
                let count = of_client.get_mut(&unit)?;
                *count -= 1;
                let is_last = *count == 0;
                if is_last {
                    of_client.remove(&unit);
                }
                is_last
            }
        };
        if changes {
            self.backend.refer(unit, on);
        }
        Some(())
    }

    /// Tells the bus that nobody will take the name for which it wanted this unit.
    pub(super) fn activation_failure(&mut self, origin: &Origin, unit: &str, error: &BusError) {
        let mut body = Writer::new();
        body.str(unit).str(&error.name).str(&error.text);
        let member = "org.freedesktop.systemd1.Activator.ActivationFailure";
        let serial = self.serial();
        let to = To::Client(DBUS);
        let signal = wire::signal(to, serial, path::MANAGER, member, "sss", body.as_bytes());
        if let Some(bus) = self.connections.get_mut(&origin.connection) {
            bus.push(signal);
        }
    }
}

fn open(path: &std::path::Path) -> Result<rustix::fd::OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}
