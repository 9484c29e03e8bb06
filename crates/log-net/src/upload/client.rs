//! One receiver over one connection: a batch out, an answer in.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use warren_sys::passwd;

use crate::tls::Connected;
use crate::tls::renewed::Renewed;
use crate::upload::url::Url;

/// How long a connection may take to come about, seconds.
const CONNECT_SECONDS_MAX: u64 = 10;

/// How long the receiver may take nothing, or not answer, seconds, if nothing else is said.
const ANSWER_SECONDS_MAX: u64 = 60;

/// Longest head of an answer, bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Most header fields of an answer.
const FIELDS_MAX: usize = 64;

/// Longest body of an answer that is read to use its connection again, bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Most interim answers (1xx) before the one that counts.
const INTERIM_MAX: usize = 16;

/// Most fields that are added to the head of a request, and the longest of them, bytes.
const HEADERS_MAX: usize = 16;
const HEADER_BYTES_MAX: usize = 4096;

/// Fields of a head that this program writes itself.
const OWN_FIELDS: [&str; 6] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
];

/// Fields of the head of each request: lines `Name: value`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(String);

// Tokens are among them.
impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} fields", self.0.lines().count())
    }
}

impl Headers {
    /// Reads lines `Name: value`; empty ones, and those that begin with `#`, are left out.
    ///
    /// # Errors
    /// Which line is none, without what it says.
    pub fn parse(text: &str) -> std::result::Result<Headers, String> {
        let mut out = String::new();
        let lines = text.lines().map(str::trim).enumerate();
        for (at, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let bad = || format!("line {} is no `Name: value` of a head", at + 1);
            let (name, value) = line.split_once(':').ok_or_else(bad)?;
            let is_name = |c: u8| c.is_ascii_alphanumeric() || b"-_".contains(&c);
            let is_text = |c: u8| c == b' ' || c.is_ascii_graphic();
            let is_own = OWN_FIELDS.contains(&&*name.to_ascii_lowercase());
            if name.is_empty()
                || is_own
                || !name.bytes().all(is_name)
                || !value.bytes().all(is_text)
            {
                return Err(bad());
            }
            let line = format!("{name}: {}\r\n", value.trim());
            if line.len() > HEADER_BYTES_MAX || out.lines().count() >= HEADERS_MAX {
                return Err(bad());
            }
            out += &line;
        }
        Ok(Headers(out))
    }
}

/// The receiver.
pub struct Client {
    url: Url,
    headers: Headers,
    /// Bodies are JSON.
    is_json: bool,
    patience: Duration,
    /// What is shown to a receiver that speaks TLS, and which ones are taken.
    tls: Option<Arc<Renewed<ClientConfig>>>,
    connection: Option<Connected>,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// The beginning of its text.
    pub text: String,
    /// It says that it unpacks zstd.
    pub takes_zstd: bool,
    /// Seconds after which it wants to be asked again.
    pub retry_after: Option<u64>,
    /// Its connection can be used again.
    reusable: bool,
}

impl Client {
    /// Not connected yet; over TLS with a configuration.
    pub fn new(
        url: Url,
        tls: Option<Arc<Renewed<ClientConfig>>>,
        headers: Headers,
        is_json: bool,
    ) -> Client {
        let patience = Duration::from_secs(ANSWER_SECONDS_MAX);
        Client { url, headers, is_json, patience, tls, connection: None }
    }

    /// Says how long the receiver may take nothing, or not answer.
    pub fn answers_within(&mut self, time: Duration) {
        self.patience = time;
    }

    /// Sends a batch and gives the answer. A connection that was used before and turns out to be gone
    /// is made anew, once.
    pub fn post(&mut self, body: &[u8], encoding: Option<&str>) -> Result<Answer> {
        if self.connection.as_mut().is_some_and(Connected::has_ended) {
            // Between two batches there is nothing to say but that it ends.
            self.connection = None;
        }
        let used = self.connection.is_some();
        match self.try_post(body, encoding) {
            Err(e) if used && is_gone(&e) => self.try_post(body, encoding),
            done => done,
        }
    }

    fn try_post(&mut self, body: &[u8], encoding: Option<&str>) -> Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let message = self.message(body, encoding);
        let sent = connection.write_all(&message).and_then(|()| connection.flush());
        // A receiver that refuses may have said why before it took everything.
        let answer = read_answer(&mut connection);
        let answer = match (sent, answer) {
            (Err(e), Err(_)) => return Err(e),
            (_, answer) => answer?,
        };
        if answer.reusable {
            self.connection = Some(connection);
        }
        Ok(answer)
    }

    fn connect(&self) -> Result<Connected> {
        let mut last = Error::new(ErrorKind::NotFound, "its name has no address");
        for address in addresses(&self.url.host) {
            let address = SocketAddr::from((address, self.url.port));
            match TcpStream::connect_timeout(&address, Duration::from_secs(CONNECT_SECONDS_MAX)) {
                Ok(connection) => {
                    let patience = Some(self.patience);
                    connection.set_read_timeout(patience)?;
                    connection.set_write_timeout(patience)?;
                    connection.set_nodelay(true)?;
                    return match &self.tls {
                        None => Ok(Connected::Plain(connection)),
                        Some(tls) => Connected::tls(connection, tls.current(), &self.url.host),
                    };
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// A request with its body: as one chunk in the protocol of journals.
    fn message(&self, body: &[u8], encoding: Option<&str>) -> Vec<u8> {
        let encoding =
            encoding.map_or(String::new(), |name| format!("Content-Encoding: {name}\r\n"));
        let (path, host, length) = (&self.url.path, self.url.authority(), body.len());
        let begin = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: warren-journal-upload\r\n{}",
            self.headers.0
        );
        if self.is_json {
            let head = format!(
                "{begin}Accept: application/json\r\nContent-Type: application/json\r\n{encoding}\
                 Content-Length: {length}\r\n\r\n"
            );
            return [head.as_bytes(), body].concat();
        }
        let head = format!(
            "{begin}Accept: text/plain\r\nContent-Type: application/vnd.fdo.journal\r\n{encoding}\
             Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n"
        );
        [head.as_bytes(), body, b"\r\n0\r\n\r\n"].concat()
    }
}

/// The addresses of a host. Names are looked up by a program of the machine: its libraries for that do not belong into
/// this one, which is static and may be of another version, and has the log open.
fn addresses(host: &str) -> Vec<IpAddr> {
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
    literal.map_or_else(|_| passwd::served_addresses(host), |address| vec![address])
}

/// The connection ended, as one that was idle may.
fn is_gone(error: &Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&error.kind())
}

fn read_answer(from: &mut impl Read) -> Result<Answer> {
    let mut data = Vec::new();
    for _ in 0..INTERIM_MAX {
        let (mut answer, length, body) = read_head(from, &mut data)?;
        data.drain(..length);
        if (100..200).contains(&answer.status) {
            continue;
        }
        match body {
            Some(body) if body <= BODY_BYTES_MAX => {
                while data.len() < body {
                    read_more(from, &mut data)?;
                }
                data.truncate(body);
            }
            // Without a length it may never end, and nothing of it is needed.
            _ => answer.reusable = false,
        }
        answer.text = String::from_utf8_lossy(&data).trim().to_owned();
        return Ok(answer);
    }
    Err(Error::new(ErrorKind::InvalidData, "too many interim answers"))
}

/// The head, its length, and the length of its body if it is told.
fn read_head(from: &mut impl Read, data: &mut Vec<u8>) -> Result<(Answer, usize, Option<usize>)> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        match head.parse(data) {
            Ok(httparse::Status::Complete(length)) => {
                let (answer, body) = understand(&head);
                return Ok((answer, length, body));
            }
            Ok(httparse::Status::Partial) if data.len() < HEAD_BYTES_MAX => {}
            _ => return Err(Error::new(ErrorKind::InvalidData, "the answer is no HTTP")),
        }
        read_more(from, data)?;
    }
}

fn understand(head: &httparse::Response<'_, '_>) -> (Answer, Option<usize>) {
    let field = |name: &str| {
        let found = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| String::from_utf8_lossy(field.value).trim().to_ascii_lowercase())
    };
    // `zstd;q=0` is a no.
    let takes = |list: String| {
        list.split(',').any(|one| one.trim() == "zstd" || one.trim().starts_with("zstd;q=1"))
    };
    let answer = Answer {
        status: head.code.unwrap_or(0),
        text: String::new(),
        takes_zstd: field("Accept-Encoding").is_some_and(takes),
        // A date, which it may be as well, is not read: the wait is ours then.
        retry_after: field("Retry-After").and_then(|seconds| seconds.parse().ok()),
        reusable: head.version == Some(1) && field("Connection").is_none_or(|it| it != "close"),
    };
    (answer, field("Content-Length").and_then(|length| length.parse().ok()))
}

fn read_more(from: &mut impl Read, data: &mut Vec<u8>) -> Result<()> {
    let mut room = [0; 4096];
    match from.read(&mut room)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        count => {
            data.extend_from_slice(&room[..count]);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_or_a_name_that_the_machine_knows() {
        let shown = |host: &str| -> Vec<String> {
            addresses(host).iter().map(ToString::to_string).collect()
        };
        assert_eq!(shown("192.0.2.7"), ["192.0.2.7"]);
        assert_eq!(shown("[2001:db8::7]"), ["2001:db8::7"]);
        assert!(addresses("localhost").iter().all(IpAddr::is_loopback));
        assert!(!addresses("localhost").is_empty());
        assert_eq!(shown("no-such-host.invalid"), [""; 0]);
    }

    #[test]
    fn fields_of_the_head_are_names_and_values_and_none_of_our_own() {
        let read = |text: &str| Headers::parse(text).map(|headers| headers.0);
        let text = "# a tenant\nX-Scope-OrgID: one\n\nAuthorization:Bearer x y\n";
        let expected = "X-Scope-OrgID: one\r\nAuthorization: Bearer x y\r\n";
        assert_eq!(read(text).as_deref(), Ok(expected));
        assert_eq!(format!("{:?}", Headers::parse(text)), "Ok(2 fields)", "no token is shown");
        for bad in ["x", ": y", "Host: a", "content-length: 3", "A: \u{1}", "A b: c", "A: é"] {
            assert_eq!(read(bad), Err("line 1 is no `Name: value` of a head".to_owned()), "{bad}");
        }
        assert!(read(&"A: b\n".repeat(17)).is_err() && read(&"A: b\n".repeat(16)).is_ok());
        assert!(read(&format!("A: {}", "x".repeat(5000))).is_err());
    }

    fn check(answer: &str, expected: &str) {
        let answer = answer.replace('|', "\r\n");
        let found = match read_answer(&mut answer.as_bytes()) {
            Ok(Answer { status, text, takes_zstd, retry_after, reusable }) => {
                let after = retry_after.map_or(String::new(), |after| format!(" after {after}"));
                format!("{status} {text:?} {takes_zstd} {reusable}{after}")
            }
            Err(e) => format!("{:?}", e.kind()),
        };
        assert_eq!(found, expected, "{answer}");
    }

    #[test]
    fn answers() {
        check("HTTP/1.1 202 Accepted|Content-Length: 4||OK.\n", "202 \"OK.\" false true");
        check("HTTP/1.1 200 OK|content-length: 0|Accept-Encoding: lz4, ZSTD||", {
            "200 \"\" true true"
        });
        check("HTTP/1.1 200 OK|Content-Length: 0|Accept-Encoding: zstd;q=0||", {
            "200 \"\" false true"
        });
        check("HTTP/1.1 100 Continue||HTTP/1.1 204 No Content|Content-Length: 0||", {
            "204 \"\" false true"
        });
        check("HTTP/1.0 200 OK|Content-Length: 0||", "200 \"\" false false");
        check("HTTP/1.1 200 OK|Connection: close|Content-Length: 0||", "200 \"\" false false");
        check("HTTP/1.1 500 No||going on", "500 \"going on\" false false");
        check("HTTP/1.1 200 OK|Content-Length: 9||cut", "UnexpectedEof");
        check("HTTP/1.1 200 OK|", "UnexpectedEof");
        check("HTTP/1.1 429 No|Retry-After: 7|Content-Length: 0||", "429 \"\" false true after 7");
        check("HTTP/1.1 503 No|Retry-After: soon|Content-Length: 0||", "503 \"\" false true");
        check("rubbish", "InvalidData");
        check(&format!("HTTP/1.1 200 OK|A: {}", "x".repeat(20_000)), "InvalidData");
        check(&"HTTP/1.1 100 Continue||".repeat(17), "InvalidData");
    }
}
