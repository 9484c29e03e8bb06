//! A client that speaks the wire format with the crate's own writer and nothing else of it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use warren_bus::wire::{self, Kind, Writer};

pub const MANAGER: &str = "/org/freedesktop/systemd1";
pub const MANAGER_INTERFACE: &str = "org.freedesktop.systemd1.Manager";
pub const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// One connection.
pub struct Client {
    pub stream: UnixStream,
    buffer: Vec<u8>,
    serial: u32,
}

/// A message in full.
#[derive(Clone, Debug)]
pub struct Received {
    pub kind: Kind,
    pub member: String,
    pub path: String,
    pub error_name: String,
    pub reply_serial: u32,
    pub signature: String,
    pub frame: Vec<u8>,
}

impl Received {
    pub fn body(&self) -> wire::Reader<'_> {
        wire::parse(&self.frame).expect("it was parsed before").body()
    }

    /// `name: text` of an error.
    pub fn error(&self) -> String {
        assert_eq!(self.kind, Kind::Error, "{self:?}");
        format!("{}: {}", self.error_name, self.body().str().expect("errors have a text"))
    }
}

/// An answer is waited for so long: thousands of clients may be before it, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    /// Connects without a greeting.
    pub fn raw(path: &Path) -> Client {
        let stream = UnixStream::connect(path).expect("the bus listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Client { stream, buffer: Vec::new(), serial: 0 }
    }

    /// What is at the other end of a connection that was accepted.
    pub fn accepted(stream: UnixStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Client { stream, buffer: Vec::new(), serial: 0 }
    }

    /// Connects and greets.
    pub fn new(path: &Path) -> Client {
        let mut client = Client::raw(path);
        client.stream.write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n").expect("the bus reads");
        let mut answer = [0; 6 + 3 + 32 + 2];
        client.stream.read_exact(&mut answer).expect("the bus answers");
        assert!(answer.starts_with(b"DATA\r\nOK "));
        client
    }

    /// Sends a call and gives its number.
    pub fn send(&mut self, path: &str, interface: &str, member: &str, args: (&str, Writer)) -> u32 {
        self.serial += 1;
        let (signature, body) = args;
        let member = format!("{interface}.{member}");
        let mut message =
            wire::signal(wire::To::Peer, self.serial, path, &member, signature, body.as_bytes());
        message[1] = 1; // a call in place of a signal
        message[2] = 0; // that wants a reply
        self.stream.write_all(&message).expect("the bus reads");
        self.serial
    }

    /// Calls and waits for the reply; signals on the way are dropped.
    pub fn call(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        args: (&str, Writer),
    ) -> Received {
        let serial = self.send(path, interface, member, args);
        loop {
            let message = self.receive().expect("the bus replies");
            if message.reply_serial == serial {
                return message;
            }
        }
    }

    /// Calls a method of the manager whose arguments are all texts.
    pub fn manager(&mut self, member: &str, texts: &[&str]) -> Received {
        self.call(MANAGER, MANAGER_INTERFACE, member, strings(texts))
    }

    /// The next message; nothing at the end of the connection.
    pub fn receive(&mut self) -> Option<Received> {
        loop {
            let known = wire::frame_bytes(&self.buffer).expect("the bus sends messages");
            if let Some(bytes) = known.filter(|bytes| *bytes <= self.buffer.len()) {
                let rest = self.buffer.split_off(bytes);
                let frame = std::mem::replace(&mut self.buffer, rest);
                return Some(received(frame));
            }
            let mut chunk = [0; 65536];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(bytes) => self.buffer.extend_from_slice(&chunk[..bytes]),
            }
        }
    }

    /// Whether the bus has closed the connection.
    pub fn is_dropped(&mut self) -> bool {
        while self.receive().is_some() {}
        let mut byte = [0];
        matches!(self.stream.read(&mut byte), Ok(0))
            || self.stream.write_all(&[0; 64]).and_then(|()| self.stream.read(&mut byte)).is_err()
    }
}

fn received(frame: Vec<u8>) -> Received {
    let message = wire::parse(&frame).expect("the bus sends sound messages");
    assert!(message.is_body_sound(), "a body that is not what its signature says");
    let header = message.header;
    Received {
        kind: header.kind,
        member: header.member.to_owned(),
        path: header.path.to_owned(),
        error_name: header.error_name.to_owned(),
        reply_serial: header.reply_serial,
        signature: header.signature.to_owned(),
        frame,
    }
}

/// Arguments that are all texts.
pub fn strings(texts: &[&str]) -> (&'static str, Writer) {
    const SIGNATURES: [&str; 4] = ["", "s", "ss", "sss"];
    let mut body = Writer::new();
    for text in texts {
        body.str(text);
    }
    (SIGNATURES[texts.len()], body)
}
