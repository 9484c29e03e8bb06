//! What clients send, turned into fields: the native protocol, syslog lines, output streams; and
//! what the daemon knows about the sender.
//!
//! Pure: bytes in, fields out. Nothing a client sends is trusted; a field whose name begins with
//! `_` never comes from a client. The sockets are in [`crate::daemon`].

pub mod audit;
pub mod cgroup;
pub mod command_line;
pub mod handover;
pub mod kmsg;
pub mod limit;
pub mod loss;
pub mod native;
pub mod pending;
pub mod stream;
pub mod syslog;

/// What counts as blank around messages.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Without blanks at its end.
fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| !is_blank(byte)).map_or(0, |at| at + 1);
    &text[..end]
}

/// Without blanks at its beginning.
fn trim_start(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|&byte| !is_blank(byte)).unwrap_or(text.len());
    &text[begin..]
}

/// Splits a priority with its facility, as in `<30>`: priority 0 to 7, facility 0 to 127.
fn split_priority(number: u32) -> (u32, u32) {
    (number & 7, number >> 3)
}

/// Takes a prefix `<N>` off a line, N of one to three digits; gives N and the rest.
fn take_priority(line: &[u8]) -> Option<(u32, &[u8])> {
    /// A priority and a facility, syslog(3).
    const NUMBER_MAX: u32 = 999;
    let rest = line.strip_prefix(b"<")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number: u32 = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let rest = rest[digits..].strip_prefix(b">")?;
    (digits <= 3 && number <= NUMBER_MAX).then_some((number, rest))
}
