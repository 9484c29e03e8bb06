//! Lines of /dev/log: `<PRI>Mmm dd hh:mm:ss TAG[PID]: text`, every part but the text optional;
//! RFC 3164 as syslog(3) writes it.

use crate::entry::Fields;
use crate::input::{split_priority, take_priority};

/// Bytes of `Mmm dd hh:mm:ss` and the blank behind it.
const TIMESTAMP_BYTES: usize = 16;

/// Longest tag that is taken for one, bytes.
const TAG_BYTES_MAX: usize = 128;

/// `user.info`: what a line without a priority has; syslog(3).
const PRIORITY_DEFAULT: u32 = 1 << 3 | 6;

/// Reads a line. Trailing blanks, newlines and zero bytes are no part of the text; a text that
/// loses more than a newline keeps the whole line as `SYSLOG_RAW`.
pub fn parse(datagram: &[u8]) -> Fields {
    let mut fields = Fields::new();
    parse_into(datagram, &mut fields);
    fields
}

/// As [`parse`], into fields that are used again.
pub fn parse_into(datagram: &[u8], fields: &mut Fields) {
    let whole = datagram.strip_suffix(b"\0").unwrap_or(datagram);
    let whole = whole.strip_suffix(b"\n").unwrap_or(whole);
    let line = whole.trim_ascii_end();
    let line = &line[..memchr::memchr(0, line).unwrap_or(line.len())];
    let altered = line.len() != whole.len();
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
    if altered {
        fields.push(b"SYSLOG_RAW", datagram);
    }
}

/// `Mmm dd hh:mm:ss `, with the blank.
fn take_timestamp(line: &[u8]) -> (Option<&[u8]>, &[u8]) {
    const SHAPE: &[u8; TIMESTAMP_BYTES] = b"Aaa #9 #9:99:99 ";
    let Some((stamp, rest)) = line.split_at_checked(TIMESTAMP_BYTES) else { return (None, line) };
    let fits = stamp.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'A' => byte.is_ascii_uppercase(),
        b'a' => byte.is_ascii_lowercase(),
        b'9' => byte.is_ascii_digit(),
        b'#' => byte.is_ascii_digit() || *byte == b' ',
        other => byte == other,
    });
    if fits { (Some(stamp), rest) } else { (None, line) }
}

/// `TAG: ` or `TAG[PID]: `: identifier and process id.
type Tag<'a> = (&'a [u8], Option<&'a [u8]>);

fn take_tag(line: &[u8]) -> (Option<Tag<'_>>, &[u8]) {
    let end = line.iter().take(TAG_BYTES_MAX).position(|byte| byte.is_ascii_whitespace());
    let head = &line[..end.unwrap_or(line.len().min(TAG_BYTES_MAX))];
    let Some(tag) = head.strip_suffix(b":").filter(|tag| !tag.is_empty()) else {
        return (None, line);
    };
    let text = &line[head.len()..];
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let split = tag.strip_suffix(b"]").and_then(|tag| {
        let at = memchr::memrchr(b'[', tag)?;
        Some((&tag[..at], &tag[at + 1..]))
    });
    match split {
        Some((identifier, pid)) if !identifier.is_empty() => {
            let number = !pid.is_empty() && pid.iter().all(u8::is_ascii_digit);
            (Some((identifier, number.then_some(pid))), text)
        }
        _ => (Some((tag, None)), text),
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
        for (key, name) in [("I", "IDENTIFIER"), ("P", "PID"), ("T", "TIMESTAMP"), ("R", "RAW")] {
            if let Some(value) = get(&format!("SYSLOG_{name}")) {
                shown += &format!(" {key}={value:?}");
            }
        }
        shown += &format!(" | {}", get("MESSAGE").expect("always there"));
        assert_eq!(shown, expected, "{line:?}");
    }

    #[test]
    fn lines() {
        check(
            "<13>Feb  5 17:32:18 su[77]: hi there",
            r#"5 1 I="su" P="77" T="Feb  5 17:32:18 " | hi there"#,
        );
        check("<30>daemon: up\n", r#"6 3 I="daemon" | up"#);
        check("<30>daemon: up\0", r#"6 3 I="daemon" | up"#);
        check("no header", "6 1 | no header");
        check("<999>x", "7 124 | x");
        check("<1000>x", "6 1 | <1000>x");
        check("<>x", "6 1 | <>x");
        check("<6", "6 1 | <6");
        check("", "6 1 | ");
        check("a[x]: b", r#"6 1 I="a" | b"#);
        check("[1]: b", r#"6 1 I="[1]" | b"#);
        check("trailing  ", r#"6 1 R="trailing  " | trailing"#);
        check("a\0b", r#"6 1 R="a\0b" | a"#);
        check("Feb 30 1x:00:00 a: b", "6 1 | Feb 30 1x:00:00 a: b");
    }
}
