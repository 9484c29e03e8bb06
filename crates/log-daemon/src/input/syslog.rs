//! Lines of /dev/log: `<PRI>Mmm dd hh:mm:ss TAG[PID]: text`, every part but the text optional;
//! RFC 3164 as syslog(3) writes it. What is odd is taken as systemd's daemon takes it.

use crate::input::{is_blank, split_priority, take_priority, trim_end, trim_start};
use warren_log_store::entry::Fields;

/// Bytes of `Mmm dd hh:mm:ss` and the blank behind it.
const TIMESTAMP_BYTES: usize = 16;

/// `user.info`: what a line without a priority has; syslog(3).
const PRIORITY_DEFAULT: u32 = 1 << 3 | 6;

/// Reads a line. Blanks around it, and a zero byte and what follows it, are no part of it. A line that
/// loses something, or has no timestamp that could be told again, is kept as `SYSLOG_RAW`, too;
/// systemd.journal-fields(7).
pub fn parse(datagram: &[u8]) -> Fields {
    let mut fields = Fields::new();
    parse_into(datagram, &mut fields);
    fields
}

/// As [`parse`], into fields that are used again.
pub fn parse_into(datagram: &[u8], fields: &mut Fields) {
    let text = &datagram[..memchr::memchr(0, datagram).unwrap_or(datagram.len())];
    let line = trim_start(trim_end(text));
    let (number, rest) = take_priority(line).unwrap_or((PRIORITY_DEFAULT, line));
    let (timestamp, rest) = take_timestamp(rest);
    let (tag, text) = take_tag(rest);
    let (priority, facility) = split_priority(number);
    fields.clear();
    fields.push(b"PRIORITY", priority.to_string().as_bytes());
    fields.push(b"SYSLOG_FACILITY", facility.to_string().as_bytes());
    if let Some((identifier, pid)) = tag {
        fields.push(b"SYSLOG_IDENTIFIER", identifier);
        pid.into_iter().for_each(|pid| fields.push(b"SYSLOG_PID", pid));
    }
    if let Some(timestamp) = timestamp {
        fields.push(b"SYSLOG_TIMESTAMP", timestamp);
    }
    fields.push(b"MESSAGE", text);
    if line.len() != datagram.len() || timestamp.is_none() {
        fields.push(b"SYSLOG_RAW", datagram);
    }
}

/// `Mmm dd hh:mm:ss `, with the blank.
fn take_timestamp(line: &[u8]) -> (Option<&[u8]>, &[u8]) {
    const SHAPE: &[u8; TIMESTAMP_BYTES] = b"aaa #9 #9:99:99 ";
    let Some((stamp, rest)) = line.split_at_checked(TIMESTAMP_BYTES) else { return (None, line) };
    let fits = stamp.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'a' => byte.is_ascii_alphabetic(),
        b'9' => byte.is_ascii_digit(),
        b'#' => byte.is_ascii_digit() || *byte == b' ',
        other => byte == other,
    });
    if fits { (Some(stamp), rest) } else { (None, line) }
}

/// `TAG: ` or `TAG[PID]: `: identifier and process id.
type Tag<'a> = (&'a [u8], Option<&'a [u8]>);

fn take_tag(whole: &[u8]) -> (Option<Tag<'_>>, &[u8]) {
    let line = trim_start(whole);
    let end = line.iter().position(|&byte| is_blank(byte)).unwrap_or(line.len());
    let (head, text) = line.split_at(end);
    let Some(tag) = head.strip_suffix(b":") else { return (None, whole) };
    let text = text.get(1..).unwrap_or(text);
    let split = tag.strip_suffix(b"]").and_then(|tag| {
        let at = memchr::memrchr(b'[', tag)?;
        Some((&tag[..at], &tag[at + 1..]))
    });
    match split {
        Some((identifier, pid)) => (Some((identifier, Some(pid))), text),
        None => (Some((tag, None)), text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields as `PRIORITY FACILITY [A=b ...] | text`; I, P, T, R for identifier, pid, time, raw.
    fn check(line: &str, expected: &str) {
        let fields = parse(line.as_bytes());
        let get = |name: &str| fields.get(name).map(|v| String::from_utf8_lossy(v).into_owned());
        let mut shown =
            [get("PRIORITY"), get("SYSLOG_FACILITY")].map(Option::unwrap_or_default).join(" ");
        for (key, name) in [("I", "IDENTIFIER"), ("P", "PID"), ("T", "TIMESTAMP")] {
            if let Some(value) = get(&format!("SYSLOG_{name}")) {
                shown += &format!(" {key}={value:?}");
            }
        }
        if let Some(raw) = fields.get("SYSLOG_RAW") {
            assert_eq!(raw, line.as_bytes());
            shown += " R";
        }
        shown += &format!(" | {}", get("MESSAGE").expect("always there"));
        assert_eq!(shown, expected, "{line:?}");
    }

    /// With a time, of which nothing more is said.
    fn check_timed(line: &str, expected: &str) {
        const TIME: &str = "Feb  5 17:32:18 ";
        let (numbers, rest) = expected.split_once(" | ").expect("a text");
        let (raw, numbers) = match numbers.strip_suffix(" R") {
            Some(numbers) => (" R", numbers),
            None => ("", numbers),
        };
        let expected = format!("5 1{numbers} T=\"{TIME}\"{raw} | {rest}");
        check(&format!("<13>{TIME}{line}"), &expected);
    }

    #[test]
    fn lines() {
        check_timed("su[77]: hi there", r#" I="su" P="77" | hi there"#);
        check_timed("su: hi\n", r#" I="su" R | hi"#);
        check_timed("su: hi\0", r#" I="su" R | hi"#);
        check_timed("su: a\0b", r#" I="su" R | a"#);
        check_timed("su: hi \t", r#" I="su" R | hi"#);
        check_timed("  su: hi", r#" I="su" | hi"#);
        check_timed("  no tag", " |   no tag");
        check_timed("a[x]: b", r#" I="a" P="x" | b"#);
        check_timed("a[]: b", r#" I="a" P="" | b"#);
        check_timed("a[1]x: b", r#" I="a[1]x" | b"#);
        check_timed("[1]: b", r#" I="" P="1" | b"#);
        check_timed(": b", r#" I="" | b"#);
        check_timed("a:\tb", r#" I="a" | b"#);
        check_timed("a:  b", r#" I="a" |  b"#);
        check_timed("a:b", " | a:b");
        check_timed("a:", r#" I="a" | "#);
    }

    #[test]
    fn lines_without_a_time() {
        check("<30>daemon: up", r#"6 3 I="daemon" R | up"#);
        check("no header", "6 1 R | no header");
        check(" \n<3>x", "3 0 R | x");
        check("<999>x", "7 124 R | x");
        check("<1000>x", "6 1 R | <1000>x");
        check("<>x", "6 1 R | <>x");
        check("<6", "6 1 R | <6");
        check("\n", "6 1 R | ");
        check("Feb 30 1x:00:00 a: b", "6 1 R | Feb 30 1x:00:00 a: b");
        check("feb 30 11:00:00 a: b", r#"6 1 I="a" T="feb 30 11:00:00 " | b"#);
    }
}
