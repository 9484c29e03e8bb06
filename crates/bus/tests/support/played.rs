//! A message bus that the test plays, with one peer on it.

use super::client::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use warren_bus::wire::{self, To, Writer};

pub const DBUS: &str = "org.freedesktop.DBus";
pub const DBUS_PATH: &str = "/org/freedesktop/DBus";

/// The next one who connects, greeted.
pub fn accept(listener: &UnixListener) -> Client {
    let mut waiting = [PollFd::new(listener, PollFlags::IN)];
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(poll(&mut waiting, Some(&patience)), Ok(1), "the peer does not connect");
    let (mut stream, _) = listener.accept().expect("the peer connects");
    let mut greeting = Vec::new();
    let mut byte = [0];
    while !greeting.ends_with(b"BEGIN\r\n") {
        stream.read_exact(&mut byte).expect("the peer greets");
        greeting.push(byte[0]);
    }
    assert!(greeting.starts_with(b"\0AUTH EXTERNAL "), "{greeting:?}");
    stream.write_all(b"OK 0123456789abcdef0123456789abcdef\r\n").expect("the peer reads");
    let asks = |what: &[u8]| greeting.windows(what.len()).any(|part| part == what);
    if asks(b"NEGOTIATE_UNIX_FD\r\n") {
        stream.write_all(b"AGREE_UNIX_FD\r\n").expect("the peer reads");
    }
    Client::accepted(stream)
}

/// The bus's end of a connection.
pub struct PlayedBus {
    pub peer: Client,
    serial: u32,
}

impl PlayedBus {
    pub fn new(peer: Client) -> PlayedBus {
        PlayedBus { peer, serial: 100 }
    }

    /// Closes the connection.
    pub fn end(&mut self) {
        self.peer = Client::accepted(UnixStream::pair().expect("a pair").0);
    }

    pub fn next(&mut self) -> Received {
        self.peer.receive().expect("the peer says something")
    }

    /// The bus's answer to a call of the peer.
    pub fn answer(&mut self, call: &Received, signature: &str, body: &Writer) {
        self.answer_as(DBUS, call, signature, body);
    }

    pub fn answer_as(&mut self, sender: &str, call: &Received, signature: &str, body: &Writer) {
        let asked = wire::parse(&call.frame).expect("a sound call").header.serial;
        let mut whole = wire::method_return(To::Peer, 7, asked, signature, body.len());
        whole.extend(body.as_bytes());
        self.put(&whole, sender);
    }

    /// Sends a message as from `sender`, whose name buses put in.
    pub fn put(&mut self, whole: &[u8], sender: &str) {
        self.serial += 1;
        let message = from(whole, sender, self.serial);
        self.peer.stream.write_all(&message).expect("the peer reads");
    }

    /// The same with file descriptors.
    pub fn put_with_fds(&mut self, whole: &[u8], sender: &str, fds: &[BorrowedFd<'_>]) {
        self.serial += 1;
        let message = of_fds(from(whole, sender, self.serial), fds.len() as u32);
        warren_sys::fdpass::send(self.peer.stream.as_fd(), &message, fds).expect("the peer reads");
    }

    pub fn signal(&mut self, sender: &str, member: &str, texts: &[&str]) {
        let (signature, body) = strings(texts);
        let member = format!("org.freedesktop.{member}");
        let whole = wire::signal(To::Peer, 1, DBUS_PATH, &member, signature, body.as_bytes());
        self.put(&whole, sender);
    }

    /// What a client can have any bus pass on: a call that is longer than is taken, one that says how
    /// many file descriptors come along, a message of no known kind.
    pub fn put_hostile(&mut self, sender: &str) {
        let mut body = Writer::new();
        body.bytes(&vec![0; 5 << 20]);
        let call = |body: &Writer, signature: &str| {
            let member = "org.freedesktop.DBus.Peer.Ping";
            let mut whole = wire::signal(To::Peer, 1, "/", member, signature, body.as_bytes());
            (whole[1], whole[2]) = (1, 0);
            whole
        };
        self.put(&call(&body, "ay"), sender);
        self.serial += 1;
        let fds = of_fds(from(&call(&Writer::new(), ""), sender, self.serial), 7);
        self.peer.stream.write_all(&fds).expect("the peer reads");
        let mut unknown = call(&Writer::new(), "");
        unknown[1] = 9;
        self.put(&unknown, sender);
    }
}

/// The message with the number of its file descriptors: a field of eight bytes behind the others.
pub fn of_fds(whole: Vec<u8>, count: u32) -> Vec<u8> {
    let fields = u32::from_le_bytes(whole[12..16].try_into().expect("four bytes"));
    let padded = fields.next_multiple_of(8);
    let (head, body) = whole.split_at(16 + padded as usize);
    let mut out = head.to_vec();
    out.extend([9, 1, b'u', 0]);
    out.extend(count.to_le_bytes());
    out[12..16].copy_from_slice(&(padded + 8).to_le_bytes());
    out.extend(body);
    out
}

/// The message with another serial and with its sender's name.
fn from(whole: &[u8], sender: &str, serial: u32) -> Vec<u8> {
    let header = wire::parse(whole).expect("a sound message").header;
    let body_bytes = u32::from_le_bytes(whole[4..8].try_into().expect("four bytes"));
    let texts = [
        (1, "o", header.path),
        (2, "s", header.interface),
        (3, "s", header.member),
        (4, "s", header.error_name),
    ];
    let mut w = Writer::new();
    w.byte(b'l').byte(whole[1]).byte(whole[2]).byte(1).u32(body_bytes).u32(serial);
    w.array(b'(', |w| {
        for (code, kind, text) in texts.into_iter().chain([(7, "s", sender)]) {
            if !text.is_empty() {
                w.structure().byte(code).variant(kind).str(text);
            }
        }
        if header.reply_serial != 0 {
            w.structure().byte(5).variant("u").u32(header.reply_serial);
        }
        if !header.signature.is_empty() {
            w.structure().byte(8).variant("g").signature(header.signature);
        }
    });
    w.align(8);
    w.raw(&whole[whole.len() - body_bytes as usize..]);
    w.finish()
}
