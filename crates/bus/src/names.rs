//! Names on a message bus: who of our services has taken the name that `BusName=` says
//! (systemd.service(5), `Type=dbus`).
//!
//! One thread with one connection, made when the first name is watched. It only listens.

use crate::sasl::{NoGreeting, client_greeting, greeting_answer};
use crate::wire::{Kind, Writer, frame_bytes, method_call, parse};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

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

type Tell = Box<dyn Fn(&str, NameState) + Send>;

enum Order {
    Watch(String),
    Leave(String),
}

/// The watcher's handle.
pub struct NameWatcher {
    orders: Sender<Order>,
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
            names: BTreeSet::new(),
            bus: None,
        };
        std::thread::Builder::new().name("bus-names".into()).spawn(move || watcher.run())?;
        Ok(NameWatcher { orders, wake })
    }

    /// Tells the state of `name` now and whenever it changes.
    pub fn watch(&self, name: &str) {
        self.order(Order::Watch(name.to_owned()));
    }

    /// Tells no more about `name`.
    pub fn leave(&self, name: &str) {
        self.order(Order::Leave(name.to_owned()));
    }

    fn order(&self, order: Order) {
        // A full wake-up socket wakes as well as another byte would.
        if self.orders.send(order).is_ok() {
            let _ = (&self.wake).write(&[1]);
        }
    }
}

struct Watcher {
    path: PathBuf,
    queue: Receiver<Order>,
    woken: UnixStream,
    tell: Tell,
    names: BTreeSet<String>,
    bus: Option<Bus>,
}

struct Bus {
    stream: UnixStream,
    received: Vec<u8>,
    serial: u32,
    /// Calls of GetNameOwner under way: serial and name.
    asked: Vec<(u32, String)>,
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
            let lost =
                self.bus.as_mut().is_some_and(|bus| bus.receive(&self.names, &self.tell).is_err());
            if lost {
                // Names are asked for again when the next one is watched: a bus that is restarted
                // is no reason to stop every service that has a name on it.
                self.bus = None;
            }
        }
    }

    fn wait(&self) -> Result<(), rustix::io::Errno> {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        if let Some(bus) = &self.bus {
            fds.push(PollFd::new(&bus.stream, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Leave(name) => {
                self.names.remove(&name);
            }
            Order::Watch(name) => {
                self.names.insert(name.clone());
                let asked = self.connected().and_then(|bus| bus.ask(&name));
                if asked.is_err() {
                    self.bus = None;
                    (self.tell)(&name, NameState::NoBus);
                }
            }
        }
    }

    fn connected(&mut self) -> io::Result<&mut Bus> {
        if self.bus.is_none() {
            self.bus = Some(Bus::connect(&self.path)?);
        }
        Ok(self.bus.as_mut().expect("made just now"))
    }
}

impl Bus {
    fn connect(path: &Path) -> io::Result<Bus> {
        let mut stream = UnixStream::connect(path)?;
        stream.write_all(&client_greeting(rustix::process::geteuid().as_raw()))?;
        read_greeting(&mut stream)?;
        let mut bus = Bus { stream, received: Vec::new(), serial: 0, asked: Vec::new() };
        bus.call("org.freedesktop.DBus.Hello", &[])?;
        let rule = "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged'";
        bus.call("org.freedesktop.DBus.AddMatch", &[rule])?;
        bus.stream.set_nonblocking(true)?;
        Ok(bus)
    }

    fn call(&mut self, member: &str, arguments: &[&str]) -> io::Result<u32> {
        self.serial += 1;
        let mut body = Writer::new();
        arguments.iter().for_each(|text| {
            body.str(text);
        });
        let signature = "s".repeat(arguments.len());
        let bytes = method_call(self.serial, DBUS, DBUS_PATH, member, &signature, body.as_bytes());
        self.stream.write_all(&bytes)?;
        Ok(self.serial)
    }

    fn ask(&mut self, name: &str) -> io::Result<()> {
        let serial = self.call("org.freedesktop.DBus.GetNameOwner", &[name])?;
        self.asked.push((serial, name.to_owned()));
        Ok(())
    }

    /// Takes what has arrived; an error means that the connection is over.
    fn receive(&mut self, names: &BTreeSet<String>, tell: &Tell) -> io::Result<()> {
        let mut chunk = [0; 16 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.received.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
        while let Some(length) = frame_bytes(&self.received).map_err(malformed)? {
            if self.received.len() < length {
                break;
            }
            let frame: Vec<u8> = self.received.drain(..length).collect();
            self.understand(&frame, names, tell);
        }
        Ok(())
    }

    fn understand(&mut self, frame: &[u8], names: &BTreeSet<String>, tell: &Tell) {
        let Ok(message) = parse(frame) else { return };
        let header = &message.header;
        match header.kind {
            Kind::Signal if header.member == "NameOwnerChanged" => {
                let mut body = message.body();
                let (Ok(name), Ok(_), Ok(new)) = (body.str(), body.str(), body.str()) else {
                    return;
                };
                if names.contains(name) {
                    tell(name, if new.is_empty() { NameState::Free } else { NameState::Owned });
                }
            }
            Kind::MethodReturn | Kind::Error => {
                let at = self.asked.iter().position(|(serial, _)| *serial == header.reply_serial);
                let Some((_, name)) = at.map(|at| self.asked.swap_remove(at)) else { return };
                if names.contains(&name) && header.kind == Kind::MethodReturn {
                    tell(&name, NameState::Owned);
                }
            }
            _ => {}
        }
    }
}

/// Reads the server's answer to the greeting, up to the end of its line.
fn read_greeting(stream: &mut UnixStream) -> io::Result<()> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match greeting_answer(&line) {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {}
            Err(NoGreeting) => return Err(io::ErrorKind::PermissionDenied.into()),
        }
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
}
