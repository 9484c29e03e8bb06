//! Names on a message bus: who of our services has taken the name that `BusName=` says
//! (systemd.service(5), `Type=dbus`).
//!
//! One thread with one connection, made when the first name is watched and again after it was lost.
//! It only listens, and believes the bus alone.

use crate::connection::{Connection, Frame, Gone};
use crate::wire::{Kind, Message, Writer, method_call, parse};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::sockopt;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The bus's own name.
pub(crate) const DBUS: &str = "org.freedesktop.DBus";
/// The bus's own object.
pub(crate) const DBUS_PATH: &str = "/org/freedesktop/DBus";

/// What is told about a name that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameState {
    /// Somebody has it.
    Owned,
    /// Nobody has it.
    Free,
    /// There is no bus to ask.
    NoBus,
}

/// A bus that was lost is looked for again after this time, and each time after twice as long ...
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// ... up to this one: nothing tells when it is back.
const LAST_DELAY: Duration = Duration::from_secs(64);
/// Once it is back, who had a name on it has this time to take it again.
const GRACE: Duration = Duration::from_secs(5);

type Tell = Box<dyn Fn(&str, NameState) + Send>;

/// Whether something was told of a name since it is watched.
type Names = BTreeMap<String, bool>;

enum NameCommand {
    Watch(String),
    Leave(String),
}

/// The watcher's handle.
pub struct NameWatcher {
    orders: Sender<NameCommand>,
    wake: UnixStream,
}

impl NameWatcher {
    /// Starts the thread, which connects to the bus at `path` once it is needed and calls `tell`.
    pub fn start(
        path: &Path,
        tell: impl Fn(&str, NameState) + Send + 'static,
    ) -> io::Result<NameWatcher> {
        let (orders, queue) = channel();
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let watcher = Watcher {
            path: path.to_owned(),
            queue,
            woken,
            tell: Box::new(tell),
            names: BTreeMap::new(),
            bus: None,
            again: None,
            delay: FIRST_DELAY,
        };
        std::thread::Builder::new().name("bus-names".into()).spawn(move || watcher.run())?;
        Ok(NameWatcher { orders, wake })
    }

    /// Tells the state of `name` now and whenever it changes. While the bus is lost nothing is told, and
    /// afterwards that a name is free only when its owner has had time to come back as well.
    pub fn watch(&self, name: &str) {
        self.order(NameCommand::Watch(name.to_owned()));
    }

    /// Tells no more about `name`.
    pub fn leave(&self, name: &str) {
        self.order(NameCommand::Leave(name.to_owned()));
    }

    fn order(&self, order: NameCommand) {
        // A full wake-up socket wakes as well as another byte would.
        if self.orders.send(order).is_ok() {
            let _ = (&self.wake).write(&[1]);
        }
    }
}

struct Watcher {
    path: PathBuf,
    queue: Receiver<NameCommand>,
    woken: UnixStream,
    tell: Tell,
    names: Names,
    bus: Option<Bus>,
    /// When a bus that was lost is looked for.
    again: Option<Instant>,
    delay: Duration,
}

struct Bus {
    connection: Connection,
    serial: u32,
    /// Calls of GetNameOwner under way: serial and name.
    asked: BTreeMap<u32, String>,
    /// Names that were owned before the last bus was lost, and are free on this one.
    missed: BTreeSet<String>,
    /// When those are told of.
    patience: Instant,
}

impl Watcher {
    fn run(mut self) {
        loop {
            if self.wait().is_err() {
                return;
            }
            let mut bytes = [0; 64];
            if let Ok(0) = (&self.woken).read(&mut bytes) {
                return;
            }
            while let Ok(order) = self.queue.try_recv() {
                self.take(order);
            }
            let tell = &self.tell;
            let names = &mut self.names;
            if self.bus.as_mut().is_some_and(|bus| bus.exchange(names, tell).is_err()) {
                self.lost();
            }
            if let Some(bus) = &mut self.bus {
                bus.tell_missed(&self.names, &self.tell);
            }
            if self.again.is_some_and(|again| again <= Instant::now()) {
                self.connect_again();
            }
        }
    }

    fn wait(&self) -> Result<(), rustix::io::Errno> {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        if let Some(bus) = &self.bus {
            let mut interest = PollFlags::IN;
            interest.set(PollFlags::OUT, bus.connection.has_output());
            fds.push(PollFd::new(&bus.connection.socket, interest));
        }
        let missed = self.bus.as_ref().filter(|bus| !bus.missed.is_empty());
        let next = [self.again, missed.map(|bus| bus.patience)].into_iter().flatten().min();
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        let left = left.map(|left| {
            Timespec::try_from(left + Duration::from_millis(1)).expect("a minute fits")
        });
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn take(&mut self, order: NameCommand) {
        match order {
            NameCommand::Leave(name) => {
                self.names.remove(&name);
            }
            NameCommand::Watch(name) => {
                match &mut self.bus {
                    Some(bus) => {
                        bus.ask(&name);
                        self.names.insert(name, false);
                    }
                    // Of one that was told of before the bus was lost nothing is known.
                    None => {
                        self.names.entry(name.clone()).or_insert(false);
                        self.connect_for(&name);
                    }
                }
            }
        }
    }

    /// Connects because this name is to be watched.
    fn connect_for(&mut self, name: &str) {
        if self.connect().is_err() {
            (self.tell)(name, NameState::NoBus);
            if self.again.is_none() {
                self.try_again_later();
            }
        }
    }

    fn connect_again(&mut self) {
        self.again = None;
        if !self.names.is_empty() && self.connect().is_err() {
            self.try_again_later();
        }
    }

    /// Connects and asks for all names.
    fn connect(&mut self) -> io::Result<()> {
        let mut bus = Bus::connect(&self.path)?;
        self.names.keys().for_each(|name| bus.ask(name));
        self.bus = Some(bus);
        self.again = None;
        Ok(())
    }

    fn try_again_later(&mut self) {
        self.again = Some(Instant::now() + self.delay);
        self.delay = (self.delay * 2).min(LAST_DELAY);
    }

    /// A bus that is restarted is no reason to stop every service that has a name on it, but for those that
    /// do not take it again. One that refuses us is none.
    fn lost(&mut self) {
        let Some(bus) = self.bus.take() else { return };
        if bus.connection.is_open() {
            self.delay = FIRST_DELAY;
        } else {
            bus.asked.values().for_each(|name| (self.tell)(name, NameState::NoBus));
        }
        self.try_again_later();
    }
}

impl Bus {
    fn connect(path: &Path) -> io::Result<Bus> {
        let socket = OwnedFd::from(UnixStream::connect(path)?);
        let peer = sockopt::socket_peercred(&socket)?;
        let own_uid = rustix::process::geteuid().as_raw();
        let connection = Connection::to_bus(socket, peer, own_uid, Instant::now());
        let patience = Instant::now() + GRACE;
        let (asked, missed) = (BTreeMap::new(), BTreeSet::new());
        let mut bus = Bus { connection, serial: 0, asked, missed, patience };
        bus.call("org.freedesktop.DBus.Hello", &[]);
        let rule = "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged'";
        bus.call("org.freedesktop.DBus.AddMatch", &[rule]);
        Ok(bus)
    }

    fn call(&mut self, member: &str, arguments: &[&str]) -> u32 {
        self.serial += 1;
        let mut body = Writer::new();
        arguments.iter().for_each(|text| {
            body.str(text);
        });
        let signature = "s".repeat(arguments.len());
        let bytes = method_call(self.serial, DBUS, DBUS_PATH, member, &signature, body.as_bytes());
        self.connection.push(bytes);
        self.serial
    }

    fn ask(&mut self, name: &str) {
        let serial = self.call("org.freedesktop.DBus.GetNameOwner", &[name]);
        self.asked.insert(serial, name.to_owned());
    }

    /// Sends what the bus takes, and takes some of what has arrived; an error means that the connection
    /// is over.
    fn exchange(&mut self, names: &mut Names, tell: &Tell) -> Result<(), Gone> {
        self.connection.flush()?;
        let received = self.connection.receive();
        while let Some(frame) = self.connection.next_message()? {
            if let Frame::Whole(parcel) = frame
                && let Ok(message) = parse(&parcel.bytes)
                && message.header.sender == DBUS
            {
                self.understand(&message, names, tell);
            }
        }
        received
    }

    fn understand(&mut self, message: &Message<'_>, names: &mut Names, tell: &Tell) {
        let header = &message.header;
        match header.kind {
            Kind::Signal if (header.interface, header.member) == (DBUS, "NameOwnerChanged") => {
                let mut body = message.body();
                let (Ok(name), Ok(_), Ok(new)) = (body.str(), body.str(), body.str()) else {
                    return;
                };
                if let Some(is_told) = names.get_mut(name) {
                    *is_told = true;
                    self.missed.remove(name);
                    tell(name, if new.is_empty() { NameState::Free } else { NameState::Owned });
                }
            }
            Kind::MethodReturn | Kind::Error => {
                let Some(name) = self.asked.remove(&header.reply_serial) else { return };
                let Some(is_told) = names.get_mut(&name) else { return };
                let was_told = std::mem::replace(is_told, true);
                match header.kind {
                    Kind::MethodReturn => tell(&name, NameState::Owned),
                    _ if !was_told => tell(&name, NameState::Free),
                    _ => _ = self.missed.insert(name),
                }
            }
            _ => {}
        }
    }

    /// Tells that names are free whose owners have not come back in time.
    fn tell_missed(&mut self, names: &Names, tell: &Tell) {
        if Instant::now() >= self.patience {
            let missed = std::mem::take(&mut self.missed);
            let watched = missed.iter().filter(|name| names.contains_key(*name));
            watched.for_each(|name| tell(name, NameState::Free));
        }
    }
}
