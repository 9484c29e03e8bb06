//! The head of a request: what it asks for, in which format.

use std::net::{Ipv4Addr, Ipv6Addr};

use std::io::{ErrorKind, Result as IoResult};
use std::time::{Duration, Instant};

/// A head must be there in this time.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Longest head, bytes.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// Most header fields.
const FIELDS_MAX: usize = 64;

/// Why there is no answer: a status, and words for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub u16, pub &'static str);

/// A request, as far as it counts here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// `GET`, mostly.
    pub method: String,
    /// What is asked for, still with `%` and all.
    pub target: String,
    /// The client knows HTTP/1.1: it takes an answer in chunks.
    pub is_1_1: bool,
    /// `Accept:`; empty without.
    pub accept: String,
    /// `Range:`.
    pub range: Option<String>,
    /// `Host:`: by which name the client knows this machine.
    pub host: Option<String>,
    /// All fields in their order, for those who ask for others than these.
    pub fields: Vec<(String, String)>,
}

impl Request {
    /// The value of a field; none where it is missing, or there more than once: then nobody can say which one counts.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let first = found.next();
        first.filter(|_| found.next().is_none()).map(|(_, value)| value.as_str())
    }

    /// How often a field is there.
    pub fn count(&self, name: &str) -> usize {
        self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count()
    }
}

/// Whether a client meant this machine: by an address, as the machine itself, or by one of these names. A web page
/// reaches machines that its reader can reach by giving its own name their address, and then reads what they answer.
/// Clients that name no host are no browsers.
pub fn is_for_us(request: &Request, names: &[String]) -> bool {
    let Some(host) = request.host.as_deref() else { return true };
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => return address.parse::<Ipv6Addr>().is_ok(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.');
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    name.parse::<Ipv4Addr>().is_ok()
        || is("localhost")
        || names.iter().any(|known| !known.is_empty() && is(known))
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadHead {
    /// No HTTP.
    Garbage,
    /// Longer than [`HEAD_BYTES_MAX`], or with more than 64 fields.
    TooLarge,
}

/// Reads a head, or what is wrong with it. `read` gets some bytes until that moment.
///
/// # Errors
/// What is no TLS (`InvalidData`) is no head, and nobody who could be told.
pub fn read_head(
    mut read: impl FnMut(&mut [u8], Instant) -> IoResult<usize>,
) -> IoResult<Result<Request, Refusal>> {
    let until = Instant::now() + HEAD_WITHIN;
    let (mut data, mut room) = (Vec::new(), [0; 2048]);
    loop {
        match read(&mut room, until) {
            Ok(0) => return Ok(Err(Refusal(400, "The head has no end."))),
            Ok(bytes) => data.extend_from_slice(&room[..bytes]),
            Err(e) if e.kind() == ErrorKind::InvalidData => return Err(e),
            Err(_) => return Ok(Err(Refusal(408, "Too slow."))),
        }
        match parse(&data) {
            Ok(None) => {}
            Ok(Some(request)) => return Ok(Ok(request)),
            Err(BadHead::Garbage) => return Ok(Err(Refusal(400, "This is no HTTP."))),
            Err(BadHead::TooLarge) => return Ok(Err(Refusal(431, "The head is too large."))),
        }
    }
}

/// Reads what has come so far; `None`: the head goes on.
///
/// # Errors
/// What is wrong with it.
pub fn parse(data: &[u8]) -> Result<Option<Request>, BadHead> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    match head.parse(data) {
        Ok(httparse::Status::Partial) if data.len() >= HEAD_BYTES_MAX => Err(BadHead::TooLarge),
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(_)) => Ok(Some(request(&head))),
        Err(httparse::Error::TooManyHeaders) => Err(BadHead::TooLarge),
        Err(_) => Err(BadHead::Garbage),
    }
}

fn request(head: &httparse::Request<'_, '_>) -> Request {
    let text = |value: &[u8]| String::from_utf8_lossy(value).trim().to_owned();
    let field = |name: &str| {
        let found = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| text(field.value))
    };
    Request {
        method: head.method.unwrap_or_default().to_owned(),
        target: head.path.unwrap_or_default().to_owned(),
        is_1_1: head.version == Some(1),
        accept: field("Accept").unwrap_or_default(),
        range: field("Range"),
        host: field("Host"),
        fields: head
            .headers
            .iter()
            .map(|field| (field.name.to_owned(), text(field.value)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(data: &str, expected: &str) {
        let found = match parse(data.replace('|', "\r\n").as_bytes()) {
            Ok(None) => "more".to_owned(),
            Ok(Some(Request { method, target, is_1_1, accept, range, .. })) => {
                format!("{method} {target} {is_1_1} [{accept}] {}", range.unwrap_or_default())
            }
            Err(bad) => format!("{bad:?}"),
        };
        assert_eq!(found.trim(), expected, "{data}");
    }

    #[test]
    fn a_page_of_another_name_is_not_answered() {
        let names = ["web1".to_owned(), "logs.example".to_owned(), String::new()];
        let is_for_us = |host: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let request = parse(head.as_bytes()).expect("a head").expect("all of it");
            is_for_us(&request, &names)
        };
        for host in [
            "127.0.0.1:19531",
            "10.0.0.7",
            "[::1]:19531",
            "localhost:1",
            "WEB1",
            "logs.example.:80",
        ] {
            assert!(is_for_us(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:19531",
            "web1.evil.example",
            "127.0.0.1.evil.example",
            "[evil]",
            "",
        ] {
            assert!(!is_for_us(host), "{host}");
        }
        assert!(super::is_for_us(&Request::default(), &names), "HTTP/1.0 needs none");
    }

    #[test]
    fn a_field_that_is_there_twice_has_no_value() {
        let head = b"GET / HTTP/1.1\r\ncookie: a\r\nOrigin: b\r\nCookie: c\r\n\r\n";
        let request = parse(head).expect("a head").expect("all of it");
        assert_eq!((request.field("Origin"), request.field("Cookie")), (Some("b"), None));
        assert_eq!(["origin", "COOKIE", "Host"].map(|name| request.count(name)), [1, 2, 0]);
    }

    #[test]
    fn heads() {
        check("GET / HTTP/1.1||", "GET / true []");
        check("GET /entries?a=%20 HTTP/1.0|Host: x|ACCEPT: a/b |range: entries=:3||", {
            "GET /entries?a=%20 false [a/b] entries=:3"
        });
        check("POST /x HTTP/1.1|Accept: \u{e4}||", "POST /x true [\u{e4}]");
        check("", "more");
        check("GET / HTTP/1.1|Host: x|", "more");
        check("GET /\0 HTTP/1.1||", "Garbage");
        check("GET / HTTP/2.0||", "Garbage");
        check("\u{16}\u{3}\u{1}\u{2}", "Garbage");
        check(&format!("GET / HTTP/1.1|{}|", "A: b|".repeat(65)), "TooLarge");
        check(&format!("GET /{}", "x".repeat(HEAD_BYTES_MAX)), "TooLarge");
    }
}
