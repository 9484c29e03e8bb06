//! The server's end of a message bus: connected as long as the bus's service is up, known there by
//! the manager's name, and found again after it was lost.

use super::{Hears, Origin, ReplyTo, Server};
use crate::broker::{Broker, BrokerMessage, Caller, NAME, is_activation};
use crate::connection::{Connection, Gone};
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
use warren_unit::UnitName;

/// The unit of the bus, whichever program it is.
const SERVICE: &str = "dbus.service";
/// A bus that was lost is looked for again after this time, and each time after twice as long ...
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// ... up to this one.
const LAST_DELAY: Duration = Duration::from_secs(64);
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

    /// Whether somebody on the bus wants signals.
    pub(super) fn has_bus_subscribers(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.broker.has_subscribers())
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
            false => self.link.as_mut().expect("it was there").again = None,
            true if is_news || is_time => self.connect_to_bus(),
            true => {}
        }
    }

    fn connect_to_bus(&mut self) {
        let Some(link) = &self.link else { return };
        let connected = open(&link.path).and_then(|socket| {
            let peer = sockopt::socket_peercred(&socket)?;
            let id = self.next_connection;
            let bus = Connection::to_bus(socket, peer, self.own_uid, Instant::now());
            let data = epoll::EventData::new_u64(id);
            epoll::add(&self.epoll, &bus.socket, data, bus.interest)?;
            Ok((id, bus))
        });
        match connected {
            Err(_) => self.try_again_later(),
            Ok((id, bus)) => {
                self.next_connection += 1;
                self.connections.insert(id, bus);
                self.greeting.push_back(id);
                self.link.as_mut().expect("it was there").connection = Some(id);
                self.introduce(id);
            }
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

    /// The connection ended: if it was the bus, nobody there is known any more.
    pub(super) fn bus_ended(&mut self, id: u64) {
        if !self.is_bus(id) {
            return;
        }
        let Some(link) = &mut self.link else { return };
        link.connection = None;
        self.mailbox.hear(Hears::All);
        let broker = std::mem::take(&mut link.broker);
        broker.references().into_iter().for_each(|unit| self.backend.refer(unit, false));
        self.try_again_later();
    }

    /// Takes a message of the bus. One that is not sound is some client's fault, not the bus's.
    pub(super) fn hear(&mut self, id: u64, frame: Vec<u8>) -> Result<(), Gone> {
        let Ok(message) = wire::parse(&frame) else { return Ok(()) };
        let Some(broker) = self.broker(id) else { return Ok(()) };
        match broker.hear(&message, &frame) {
            BrokerMessage::Nothing => Ok(()),
            BrokerMessage::Known => {
                self.handle_later(id);
                Ok(())
            }
            BrokerMessage::Call(client, caller) => {
                self.take_from_bus(id, client, caller, frame);
                Ok(())
            }
            BrokerMessage::Stranger(client) => {
                let mut body = Writer::new();
                body.str(&client);
                let serial = self.call_bus(id, "GetConnectionCredentials", "s", &body);
                if let Some(broker) = self.broker(id) {
                    broker.asked_for_credentials(serial, client);
                }
                Ok(())
            }
            BrokerMessage::TooMuch => {
                self.refuse(id, &message.header, "Too many calls at once.");
                Ok(())
            }
            BrokerMessage::Gone(client, caller, later) => {
                for frame in later {
                    self.take_from_bus(id, client.clone(), caller, frame);
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
                self.backend.remark(&format!("{NAME} could not be had on the bus: {why}"));
                Err(Gone::NoGreeting)
            }
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
        frame: Vec<u8>,
    ) {
        let origin = Origin { connection: id, client: Some(client), caller };
        let Ok(message) = wire::parse(&frame) else { return };
        match is_activation(&message.header) {
            true => self.activate(&origin, &message),
            false => {
                let reply_to = ReplyTo::of(&message.header);
                if let Err(gone) =
                    self.handle_call(&origin, reply_to.clone(), frame, Progress::default())
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
