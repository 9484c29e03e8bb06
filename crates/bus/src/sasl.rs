//! The greeting: SASL EXTERNAL as a server (D-Bus Specification, "Authentication Protocol").
//!
//! Pure: bytes in, bytes out. Who the peer is was read from the socket (SO_PEERCRED); what the
//! client claims is only compared with it. Clients may send the whole greeting at once, as
//! systemctl does, without waiting for an answer.

/// Longest line, and most bytes of greeting in all.
pub const MAX_GREETING_BYTES: usize = 4096;

/// Where the greeting is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Nul,
    Auth,
    Data,
    Begin,
    Done,
}

/// The greeting of one connection.
#[derive(Clone, Debug)]
pub struct Greeting {
    phase: Phase,
    peer_uid: u32,
    server_id: [u8; 32],
    consumed: usize,
    /// File descriptors are agreed on if the client asks for it.
    allows_fds: bool,
    has_fds: bool,
}

/// The client does not speak the protocol: drop it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoGreeting;

impl Greeting {
    /// Waits for the greeting of a peer with this user id. `server_id` is 32 hexadecimal digits.
    pub fn new(peer_uid: u32, server_id: [u8; 32]) -> Greeting {
        Greeting {
            phase: Phase::Nul,
            peer_uid,
            server_id,
            consumed: 0,
            allows_fds: false,
            has_fds: false,
        }
    }

    /// The client may send file descriptors, if it asks.
    pub fn allow_fds(&mut self) {
        self.allows_fds = true;
    }

    /// Whether file descriptors were agreed on.
    pub fn has_fds(&self) -> bool {
        self.has_fds
    }

    /// Whether messages follow.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Takes what it can from the front of `received`; answers go to `answer`. Returns how many
    /// bytes were used. What comes after the greeting is left alone.
    pub fn feed(&mut self, received: &[u8], answer: &mut Vec<u8>) -> Result<usize, NoGreeting> {
        let mut used = 0;
        if self.phase == Phase::Nul && !received.is_empty() {
            if received[0] != 0 {
                return Err(NoGreeting);
            }
            used = 1;
            self.phase = Phase::Auth;
        }
        while !self.is_done() {
            let rest = &received[used..];
            let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { break };
            self.line(&rest[..end], answer)?;
            used += end + 2;
        }
        self.consumed += used;
        let waiting = if self.is_done() { 0 } else { received.len() - used };
        if self.consumed + waiting > MAX_GREETING_BYTES { Err(NoGreeting) } else { Ok(used) }
    }

    fn line(&mut self, line: &[u8], answer: &mut Vec<u8>) -> Result<(), NoGreeting> {
        let line = std::str::from_utf8(line).map_err(|_| NoGreeting)?;
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (self.phase, command) {
            (Phase::Auth, "AUTH") => self.auth(rest, answer),
            (Phase::Data, "DATA") => self.identity(rest, answer),
            (Phase::Begin, "BEGIN") => self.phase = Phase::Done,
            (Phase::Begin, "NEGOTIATE_UNIX_FD") if self.allows_fds => {
                self.has_fds = true;
                answer.extend(b"AGREE_UNIX_FD\r\n");
            }
            (Phase::Begin, "NEGOTIATE_UNIX_FD") => answer.extend(b"ERROR no file descriptors\r\n"),
            (Phase::Data | Phase::Begin, "CANCEL" | "ERROR") => self.reject(answer),
            (Phase::Auth, "ERROR") => self.reject(answer),
            (_, "BEGIN") => return Err(NoGreeting),
            _ => answer.extend(b"ERROR\r\n"),
        }
        Ok(())
    }

    fn auth(&mut self, rest: &str, answer: &mut Vec<u8>) {
        match rest.split_once(' ').unwrap_or((rest, "")) {
            ("EXTERNAL", "") => {
                self.phase = Phase::Data;
                answer.extend(b"DATA\r\n");
            }
            ("EXTERNAL", identity) => self.identity(identity, answer),
            _ => self.reject(answer),
        }
    }

    /// An empty identity is whoever the socket says it is.
    fn identity(&mut self, hex: &str, answer: &mut Vec<u8>) {
        let same = hex.is_empty() || decode_uid(hex) == Some(self.peer_uid);
        if !same {
            return self.reject(answer);
        }
        self.phase = Phase::Begin;
        answer.extend(b"OK ");
        answer.extend(self.server_id);
        answer.extend(b"\r\n");
    }

    fn reject(&mut self, answer: &mut Vec<u8>) {
        self.phase = Phase::Auth;
        answer.extend(b"REJECTED EXTERNAL\r\n");
    }
}

/// The other side: the greeting of a client, sent whole; one that wants to receive file descriptors, too, asks for it.
pub fn client_greeting(uid: u32, wants_fds: bool) -> Vec<u8> {
    let hex: String = uid.to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
    let asks = if wants_fds { "NEGOTIATE_UNIX_FD\r\n" } else { "" };
    format!("\0AUTH EXTERNAL {hex}\r\n{asks}BEGIN\r\n").into_bytes()
}

/// The answer to [`client_greeting`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GreetingAnswer {
    /// How many bytes it has.
    pub bytes: usize,
    /// Whether file descriptors are agreed on.
    pub has_fds: bool,
}

/// Looks for the answer to [`client_greeting`] at the front of `received`; nothing while its lines are not all there.
pub fn greeting_answer(
    received: &[u8],
    wants_fds: bool,
) -> Result<Option<GreetingAnswer>, NoGreeting> {
    let line_end = |from: &[u8]| from.windows(2).position(|pair| pair == b"\r\n");
    let may_come = received.len() <= MAX_GREETING_BYTES;
    match line_end(received) {
        Some(end) if received.starts_with(b"OK ") => {
            let first = end + 2;
            let rest = received.get(first..).unwrap_or_default();
            match line_end(rest) {
                _ if !wants_fds => Ok(Some(GreetingAnswer { bytes: first, has_fds: false })),
                Some(second) => {
                    let has_fds = rest.starts_with(b"AGREE_UNIX_FD");
                    Ok(Some(GreetingAnswer { bytes: first + second + 2, has_fds }))
                }
                None if may_come => Ok(None),
                None => Err(NoGreeting),
            }
        }
        None if may_come => Ok(None),
        _ => Err(NoGreeting),
    }
}

/// The number whose decimal digits are written in hexadecimal: `30` is user 0.
fn decode_uid(hex: &str) -> Option<u32> {
    let pairs = hex.as_bytes().chunks(2);
    let digits: Option<String> = pairs
        .map(|pair| {
            let code = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
            code.is_ascii_digit().then_some(char::from(code))
        })
        .collect();
    digits?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, want: &str) {
        check_of(Greeting::new(0, [b'f'; 32]), input, want);
    }

    /// Feeds `input` to the greeting of user 0; `|` marks the end of a write, `;` is CR LF.
    fn check_of(mut greeting: Greeting, input: &str, want: &str) {
        let (mut answer, mut buffer, mut result) = (Vec::new(), Vec::new(), "waits");
        for part in input.split('|') {
            buffer.extend(part.replace(';', "\r\n").bytes());
            match greeting.feed(&buffer, &mut answer) {
                Ok(used) => drop(buffer.drain(..used)),
                Err(NoGreeting) => {
                    result = "drop";
                    buffer.clear();
                }
            }
        }
        if greeting.is_done() {
            result = "done";
        }
        let answer = String::from_utf8(answer).expect("ASCII").replace("\r\n", ";");
        let answer = answer.replace(&"f".repeat(32), "ID");
        let left = String::from_utf8_lossy(&buffer).into_owned();
        assert_eq!(format!("{answer} {result} {left}").trim(), want, "{input:?}");
    }

    #[test]
    fn greetings() {
        check(
            "\0AUTH EXTERNAL;DATA;NEGOTIATE_UNIX_FD;BEGIN;lmsg",
            "DATA;OK ID;ERROR no file descriptors; done lmsg",
        );
        check("\0|AUTH EXT|ERNAL 30;|BEGIN;|", "OK ID; done");
        check("\0AUTH EXTERNAL 31303030;", "REJECTED EXTERNAL; waits");
        check(
            "\0AUTH EXTERNAL zz;AUTH ANONYMOUS;AUTH;",
            "REJECTED EXTERNAL;REJECTED EXTERNAL;REJECTED EXTERNAL; waits",
        );
        check(
            "\0AUTH EXTERNAL 30;CANCEL;AUTH EXTERNAL 30;BEGIN;",
            "OK ID;REJECTED EXTERNAL;OK ID; done",
        );
        check("\0BEGIN;", "drop");
        check("\0NONSENSE;", "ERROR; waits");
        check("GET / HTTP/1.1;;", "drop");
    }

    #[test]
    fn descriptors_are_agreed_on_with_who_may_send_some() {
        let mut greeting = Greeting::new(0, [b'f'; 32]);
        greeting.allow_fds();
        check_of(
            greeting,
            "\0AUTH EXTERNAL;DATA;NEGOTIATE_UNIX_FD;BEGIN;",
            "DATA;OK ID;AGREE_UNIX_FD; done",
        );
    }

    #[test]
    fn a_client_is_answered() {
        for (wants_fds, allows, has_fds) in
            [(false, true, false), (true, false, false), (true, true, true)]
        {
            let mut answer = Vec::new();
            let mut server = Greeting::new(1000, [b'f'; 32]);
            if allows {
                server.allow_fds();
            }
            let sent = client_greeting(1000, wants_fds);
            assert_eq!(server.feed(&sent, &mut answer), Ok(sent.len()));
            assert!(server.is_done());
            assert_eq!(server.has_fds(), has_fds);
            for end in 0..answer.len() {
                assert_eq!(greeting_answer(&answer[..end], wants_fds), Ok(None));
            }
            let bytes = answer.len();
            let got = greeting_answer(&[&answer[..], b"l"].concat(), wants_fds);
            assert_eq!(got, Ok(Some(GreetingAnswer { bytes, has_fds })));
        }
        assert_eq!(greeting_answer(b"REJECTED EXTERNAL\r\n", true), Err(NoGreeting));
        assert_eq!(greeting_answer(&[b'O'; 2 * MAX_GREETING_BYTES], false), Err(NoGreeting));
    }

    #[test]
    fn a_greeting_without_end_is_dropped() {
        let mut greeting = Greeting::new(0, [b'f'; 32]);
        let endless = [&b"\0AUTH "[..], &[b'x'; 2 * MAX_GREETING_BYTES]].concat();
        assert_eq!(greeting.feed(&endless, &mut Vec::new()), Err(NoGreeting));
    }
}
