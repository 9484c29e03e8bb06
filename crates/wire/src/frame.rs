//! Messages in a stream: each is JSON and ends with a NUL byte, as in varlink.
//!
//! - Owns: where a message ends, and how long one may be. No JSON has a NUL byte in it.
//! - Must not: read from anything but what its caller hands it.
//! - Runs on the thread of its caller.

use std::fmt;
use std::io::{self, BufRead, ErrorKind};

use serde::Serialize;

/// Ends a message.
const END: u8 = 0;

/// A message as bytes, with its end.
pub fn write(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(message).expect("keys of our messages are texts");
    bytes.push(END);
    bytes
}

/// A message of which a part may have come.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    bytes_max: usize,
}

/// What became of a piece.
#[derive(Debug, PartialEq, Eq)]
pub enum Pushed {
    /// All of it belongs to a message whose end has not come.
    Part,
    /// The message, without its end, and how many bytes of the piece belong to it.
    Whole(Vec<u8>, usize),
    /// The message is longer than the bound.
    TooLong,
}

impl Inbox {
    /// For a message of at most so many bytes, its end among them.
    pub fn new(bytes_max: usize) -> Inbox {
        Inbox { bytes: Vec::new(), bytes_max }
    }

    /// Whether no part of a message has come.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the next piece of the stream. After a whole message it is empty again.
    pub fn push(&mut self, piece: &[u8]) -> Pushed {
        let end = piece.iter().position(|&byte| byte == END);
        let part = &piece[..end.unwrap_or(piece.len())];
        // Without its end a message of this many bytes is too long already.
        if self.bytes.len() + part.len() >= self.bytes_max {
            return Pushed::TooLong;
        }
        self.bytes.extend_from_slice(part);
        match end {
            Some(end) => Pushed::Whole(std::mem::take(&mut self.bytes), end + 1),
            None => Pushed::Part,
        }
    }
}

/// Why no message was read.
#[derive(Debug)]
pub enum ReadError {
    /// The stream ended where a message could have begun.
    Ended,
    /// The stream ended within a message.
    CutShort,
    /// The message is longer than the bound.
    TooLong,
    /// Reading failed.
    Failed {
        /// As the reader said.
        error: io::Error,
        /// A part of the message had come.
        has_begun: bool,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Ended => f.write_str("the connection has ended"),
            ReadError::CutShort => f.write_str("it is cut short"),
            ReadError::TooLong => f.write_str("it is too long"),
            ReadError::Failed { error, .. } => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> io::Error {
        match error {
            ReadError::Ended | ReadError::CutShort => ErrorKind::UnexpectedEof.into(),
            ReadError::TooLong => io::Error::new(ErrorKind::InvalidData, error),
            ReadError::Failed { error, .. } => error,
        }
    }
}

/// The next message of a stream, without its end; at most so many bytes with it.
///
/// # Errors
/// Where there is none: see [`ReadError`].
pub fn read(stream: &mut impl BufRead, bytes_max: usize) -> Result<Vec<u8>, ReadError> {
    let mut inbox = Inbox::new(bytes_max);
    loop {
        let piece = match stream.fill_buf() {
            Ok([]) if inbox.is_empty() => return Err(ReadError::Ended),
            Ok([]) => return Err(ReadError::CutShort),
            Ok(piece) => piece,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(ReadError::Failed { error, has_begun: !inbox.is_empty() }),
        };
        let length = piece.len();
        match inbox.push(piece) {
            Pushed::Part => stream.consume(length),
            Pushed::Whole(message, taken) => {
                stream.consume(taken);
                return Ok(message);
            }
            Pushed::TooLong => return Err(ReadError::TooLong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read from a stream that comes in pieces of one size.
    fn check(stream: &[u8], bytes_max: usize, expected: &str) {
        for piece in 1..=stream.len().max(1) {
            let mut reader = io::BufReader::with_capacity(piece, stream);
            let mut seen = String::new();
            loop {
                match read(&mut reader, bytes_max) {
                    Ok(message) => seen += &format!("[{}]", String::from_utf8_lossy(&message)),
                    Err(error) => {
                        seen += &error.to_string();
                        break;
                    }
                }
            }
            assert_eq!(seen, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn messages_are_cut_where_they_end_whatever_pieces_they_come_in() {
        check(b"", 8, "the connection has ended");
        check(b"{}\0", 8, "[{}]the connection has ended");
        check(b"one\0\0three\0", 8, "[one][][three]the connection has ended");
        check(b"one\0tw", 8, "[one]it is cut short");
    }

    #[test]
    fn a_message_with_its_end_is_no_longer_than_the_bound() {
        check(b"1234567\0", 8, "[1234567]the connection has ended");
        check(b"12345678\0", 8, "it is too long");
        check(b"123456789", 8, "it is too long");
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = write(&serde_json::json!({"a": "b\0c"}));
        assert_eq!(bytes, b"{\"a\":\"b\\u0000c\"}\0");
        let read = read(&mut &bytes[..], bytes.len()).expect("it is whole");
        assert_eq!(read, bytes[..bytes.len() - 1]);
    }

    #[test]
    fn a_failure_says_whether_a_message_had_begun() {
        struct Fails;
        impl io::Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::WouldBlock.into())
            }
        }
        let begun = |before: &'static [u8]| {
            let mut reader = io::BufReader::new(io::Read::chain(before, Fails));
            match read(&mut reader, 8) {
                Err(ReadError::Failed { error, has_begun }) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    has_begun
                }
                other => panic!("{other:?}"),
            }
        };
        assert!(!begun(b"") && begun(b"{"));
    }
}
