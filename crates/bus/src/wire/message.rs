//! Messages: the fixed header, the header fields, the body.

use super::{Reader, WireError, Writer};

/// Longest message that is looked at, header included.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Longest message that there can be (D-Bus Specification, "Message Format").
const FRAME_BYTES_MAX: usize = 128 << 20;

/// Bytes of the part of the header that has a fixed size, the length of the fields included.
const FIXED_BYTES: usize = 16;

const NO_REPLY_EXPECTED: u8 = 1;
const ALLOW_INTERACTIVE_AUTHORIZATION: u8 = 4;

/// Who sends: without a bus between them, clients still match signals by the manager's name.
const SENDER: &str = "org.freedesktop.systemd1";

/// Where an answer or a signal goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To<'a> {
    /// To the other end of the socket, without a bus between.
    Peer,
    /// To a bus, for everyone there who wants it. A bus says itself who sends.
    Everyone,
    /// To a bus, for the client of this name.
    Client(&'a str),
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    MethodCall,
    MethodReturn,
    Error,
    Signal,
    /// Of a later version of the protocol: to be ignored.
    Unknown,
}

/// The header of a received message, as far as a server looks at it. Absent texts are empty.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// What it is.
    pub kind: Kind,
    /// The sender's number of it, to which a reply refers.
    pub serial: u32,
    /// Whether the sender wants a reply.
    pub wants_reply: bool,
    /// Whether a person may be asked before the reply.
    pub allows_interaction: bool,
    /// Object path.
    pub path: &'a str,
    /// Interface; empty where any that has the member will do.
    pub interface: &'a str,
    /// Method or signal.
    pub member: &'a str,
    /// Error name of an error.
    pub error_name: &'a str,
    /// The message that a reply answers.
    pub reply_serial: u32,
    /// Who sent it, as a bus says: nobody else is to be believed.
    pub sender: &'a str,
    /// Types of the body.
    pub signature: &'a str,
    /// How many file descriptors come with it, as it says itself.
    pub descriptors: u32,
}

/// A received message.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Its header.
    pub header: Header<'a>,
    body: &'a [u8],
    big_endian: bool,
}

impl<'a> Message<'a> {
    /// A reader at the start of the body.
    pub fn body(&self) -> Reader<'a> {
        Reader::new(self.body, self.big_endian)
    }

    /// Whether the body holds what its signature says, all of it and nothing else.
    pub fn is_body_sound(&self) -> bool {
        let mut reader = self.body();
        let mut rest = self.header.signature;
        while let Ok((one, after)) = super::first_type(rest) {
            if reader.skip(one).is_err() {
                return false;
            }
            rest = after;
        }
        reader.is_at_end()
    }
}

/// How many bytes the message has that `received` begins with, which may be more than
/// [`MAX_MESSAGE_BYTES`]; nothing while that is not known.
///
/// Errors: what begins there is no message, or one that is longer than any.
pub fn frame_bytes(received: &[u8]) -> Result<Option<usize>, WireError> {
    let Some(fixed) = received.get(..FIXED_BYTES) else {
        return Ok(None);
    };
    if fixed[3] != 1 {
        return Err(WireError::Malformed);
    }
    let mut reader = Reader::new(fixed, is_big_endian(fixed[0])?);
    reader.skip("(yyyy)")?;
    let body = reader.u32()? as usize;
    reader.u32()?;
    let fields = reader.u32()? as usize;
    let total = FIXED_BYTES.saturating_add(fields).next_multiple_of(8).saturating_add(body);
    match total > FRAME_BYTES_MAX {
        true => Err(WireError::TooLong),
        false => Ok(Some(total)),
    }
}

/// The message in `frame`, which has the length that [`frame_bytes`] gave.
pub fn parse(frame: &[u8]) -> Result<Message<'_>, WireError> {
    let (message, body_bytes) = parse_head(frame)?;
    match message.body.len() == body_bytes {
        true => Ok(message),
        false => Err(WireError::Malformed),
    }
}

/// The header of a message of which only the beginning is there.
pub fn parse_header(beginning: &[u8]) -> Result<Header<'_>, WireError> {
    parse_head(beginning).map(|(message, _)| message.header)
}

/// The message as far as it is there, and how many bytes its body should have.
fn parse_head(frame: &[u8]) -> Result<(Message<'_>, usize), WireError> {
    let big_endian = is_big_endian(*frame.first().ok_or(WireError::Truncated)?)?;
    let mut reader = Reader::new(frame, big_endian);
    reader.byte()?;
    let kind = kind(reader.byte()?)?;
    let flags = reader.byte()?;
    reader.byte()?;
    let body_bytes = reader.u32()? as usize;
    let serial = reader.u32()?;
    let mut header = Header {
        kind,
        serial,
        wants_reply: kind == Kind::MethodCall && flags & NO_REPLY_EXPECTED == 0,
        allows_interaction: flags & ALLOW_INTERACTIVE_AUTHORIZATION != 0,
        path: "",
        interface: "",
        member: "",
        error_name: "",
        reply_serial: 0,
        sender: "",
        signature: "",
        descriptors: 0,
    };
    reader.array(b'(', |r| read_field(r, &mut header))?;
    reader.align(8)?;
    let body = frame.get(reader.position()..).ok_or(WireError::Truncated)?;
    if serial == 0 || is_incomplete(&header) {
        return Err(WireError::Malformed);
    }
    Ok((Message { header, body, big_endian }, body_bytes))
}

fn is_big_endian(mark: u8) -> Result<bool, WireError> {
    match mark {
        b'l' => Ok(false),
        b'B' => Ok(true),
        _ => Err(WireError::Malformed),
    }
}

fn kind(code: u8) -> Result<Kind, WireError> {
    match code {
        1 => Ok(Kind::MethodCall),
        2 => Ok(Kind::MethodReturn),
        3 => Ok(Kind::Error),
        4 => Ok(Kind::Signal),
        0 => Err(WireError::Malformed),
        _ => Ok(Kind::Unknown),
    }
}

fn is_incomplete(header: &Header<'_>) -> bool {
    match header.kind {
        Kind::MethodCall => header.member.is_empty() || !header.path.starts_with('/'),
        Kind::Signal => header.member.is_empty() || header.interface.is_empty(),
        Kind::MethodReturn => header.reply_serial == 0,
        Kind::Error => header.reply_serial == 0 || header.error_name.is_empty(),
        Kind::Unknown => false,
    }
}

fn read_field<'a>(reader: &mut Reader<'a>, header: &mut Header<'a>) -> Result<(), WireError> {
    reader.align(8)?;
    let code = reader.byte()?;
    let signature = reader.signature()?;
    match (code, signature) {
        (1, "o") => header.path = reader.str()?,
        (2, "s") => header.interface = reader.str()?,
        (3, "s") => header.member = reader.str()?,
        (4, "s") => header.error_name = reader.str()?,
        (5, "u") => header.reply_serial = reader.u32()?,
        (7, "s") => header.sender = reader.str()?,
        (8, "g") => header.signature = reader.signature()?,
        (9, "u") => header.descriptors = reader.u32()?,
        (1..=5 | 7..=9, _) => return Err(WireError::Malformed),
        _ => reader.skip(signature)?,
    }
    Ok(())
}

/// The bytes that go before `body` in the answer to message `reply_to`.
pub fn method_return(
    to: To<'_>,
    serial: u32,
    reply_to: u32,
    signature: &str,
    body_bytes: usize,
) -> Vec<u8> {
    head(2, to, serial, (body_bytes, 0), signature, |w| field(w, 5, "u", |w| w.u32(reply_to)))
}

/// The same with one file descriptor, to be sent with the first of these bytes.
pub fn method_return_with_fd(
    to: To<'_>,
    serial: u32,
    reply_to: u32,
    signature: &str,
    body_bytes: usize,
) -> Vec<u8> {
    head(2, to, serial, (body_bytes, 0), signature, |w| {
        field(w, 5, "u", |w| w.u32(reply_to));
        field(w, 9, "u", |w| w.u32(1));
    })
}

/// A whole error message in answer to message `reply_to`.
pub fn error_reply(to: To<'_>, serial: u32, reply_to: u32, name: &str, text: &str) -> Vec<u8> {
    let mut body = Writer::new();
    body.str(text);
    let mut out = head(3, to, serial, (body.len(), body.len()), "s", |w| {
        field(w, 4, "s", |w| w.str(name));
        field(w, 5, "u", |w| w.u32(reply_to));
    });
    out.extend_from_slice(body.as_bytes());
    out
}

/// A whole method call to another program on a bus; `member` is the interface and, after the last
/// dot, the method's name.
pub fn method_call(
    serial: u32,
    destination: &str,
    path: &str,
    member: &str,
    signature: &str,
    body: &[u8],
) -> Vec<u8> {
    let (interface, member) = member.rsplit_once('.').expect("methods are named in full");
    let mut w = Writer::with_capacity(HEAD_BYTES + body.len());
    w.byte(b'l').byte(1).byte(0).byte(1);
    w.u32(u32::try_from(body.len()).expect("calls are small")).u32(serial);
    w.array(b'(', |w| {
        field(w, 1, "o", |w| w.str(path));
        field(w, 2, "s", |w| w.str(interface));
        field(w, 3, "s", |w| w.str(member));
        field(w, 6, "s", |w| w.str(destination));
        if !signature.is_empty() {
            field(w, 8, "g", |w| w.signature(signature));
        }
    });
    w.align(8);
    let mut out = w.finish();
    out.extend_from_slice(body);
    out
}

/// A whole signal; `member` is the interface and, after the last dot, the signal's name.
pub fn signal(
    to: To<'_>,
    serial: u32,
    path: &str,
    member: &str,
    signature: &str,
    body: &[u8],
) -> Vec<u8> {
    let (interface, member) = member.rsplit_once('.').expect("signals are named in full");
    let mut out = head(4, to, serial, (body.len(), body.len()), signature, |w| {
        field(w, 1, "o", |w| w.str(path));
        field(w, 2, "s", |w| w.str(interface));
        field(w, 3, "s", |w| w.str(member));
    });
    out.extend_from_slice(body);
    out
}

/// What most heads take, with their paths.
const HEAD_BYTES: usize = 288;

/// A message up to its body, with room for so much of that as is to follow in the same buffer.
fn head(
    kind: u8,
    to: To<'_>,
    serial: u32,
    (body_bytes, room): (usize, usize),
    signature: &str,
    fields: impl FnOnce(&mut Writer),
) -> Vec<u8> {
    let mut w = Writer::with_capacity(HEAD_BYTES + room);
    w.byte(b'l').byte(kind).byte(NO_REPLY_EXPECTED).byte(1);
    w.u32(u32::try_from(body_bytes).expect("replies are far below 4 GiB")).u32(serial);
    w.array(b'(', |w| {
        fields(w);
        match to {
            To::Peer => field(w, 7, "s", |w| w.str(SENDER)),
            To::Everyone => {}
            To::Client(name) => field(w, 6, "s", |w| w.str(name)),
        }
        if !signature.is_empty() {
            field(w, 8, "g", |w| w.signature(signature));
        }
    });
    w.align(8);
    w.finish()
}

fn field(
    w: &mut Writer,
    code: u8,
    signature: &str,
    value: impl FnOnce(&mut Writer) -> &mut Writer,
) {
    w.structure().byte(code).variant(signature);
    value(w);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Vec<u8> {
        let mut body = Writer::new();
        body.str("a.service");
        let mut bytes = head(1, To::Peer, 7, (body.len(), body.len()), "s", |w| {
            field(w, 1, "o", |w| w.str("/x"));
            field(w, 3, "s", |w| w.str("GetUnit"));
        });
        bytes.extend(body.finish());
        bytes
    }

    #[test]
    fn a_call_is_read_back() {
        let bytes = call();
        assert_eq!(frame_bytes(&bytes), Ok(Some(bytes.len())));
        let message = parse(&bytes).expect("a sound message");
        assert_eq!((message.header.path, message.header.member), ("/x", "GetUnit"));
        assert_eq!((message.header.serial, message.header.kind), (7, Kind::MethodCall));
        assert_eq!(message.body().str(), Ok("a.service"));
        assert!(message.is_body_sound());
    }

    #[test]
    fn a_frame_is_known_only_with_its_fixed_part() {
        let bytes = call();
        assert!((0..FIXED_BYTES).all(|n| frame_bytes(&bytes[..n]) == Ok(None)));
    }

    #[test]
    fn one_wrong_byte_never_panics() {
        let bytes = call();
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = bytes.clone();
                bad[at] = value;
                if frame_bytes(&bad) == Ok(Some(bad.len()))
                    && let Ok(message) = parse(&bad)
                {
                    message.is_body_sound();
                }
            }
        }
    }

    #[test]
    fn a_message_says_how_many_file_descriptors_it_has() {
        let with = |count: u32| {
            head(1, To::Peer, 7, (0, 0), "", |w| {
                field(w, 1, "o", |w| w.str("/x"));
                field(w, 3, "s", |w| w.str("Get"));
                field(w, 9, "u", |w| w.u32(count));
            })
        };
        for count in [0, 1, 16] {
            assert_eq!(parse(&with(count)).map(|message| message.header.descriptors), Ok(count));
        }
    }

    #[test]
    fn a_kind_of_a_later_version_is_read_and_no_kind_is_not() {
        let mut bytes = call();
        bytes[1] = 5;
        assert_eq!(parse(&bytes).map(|message| message.header.kind), Ok(Kind::Unknown));
        bytes[1] = 0;
        assert_eq!(parse(&bytes).err(), Some(WireError::Malformed));
    }

    #[test]
    fn a_header_is_read_before_its_body_is_there() {
        let bytes = call();
        let head = &bytes[..bytes.len() - 4];
        assert_eq!(parse_header(head).map(|header| header.member), Ok("GetUnit"));
        assert!(parse(head).is_err());
    }

    #[test]
    fn lengths_beyond_the_bound_are_refused() {
        let mut bytes = call();
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(frame_bytes(&bytes), Err(WireError::TooLong));
        assert_eq!(frame_bytes(b"GET / HTTP/1.0\r\n"), Err(WireError::Malformed));
    }
}
