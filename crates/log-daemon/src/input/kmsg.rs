//! Records of /dev/kmsg; the kernel's `Documentation/ABI/testing/dev-kmsg`:
//! `PRIORITY,SEQUENCE,TIMESTAMP,FLAGS[,...];TEXT`, then lines ` NAME=value`.

use crate::input::split_priority;
use warren_log_store::entry::Fields;

/// Longest tag of a message that a process wrote to the kernel's log, bytes.
const TAG_BYTES_MAX: usize = 64;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number; rises by one.
    pub sequence: u64,
    /// As an entry.
    pub fields: Fields,
}

/// Reads a record; `None` for what is none.
pub fn parse(record: &[u8]) -> Option<Record> {
    let semicolon = memchr::memchr(b';', record)?;
    let head = std::str::from_utf8(&record[..semicolon]).ok()?;
    let mut numbers = head.split(',');
    let priority: u32 = numbers.next()?.parse().ok()?;
    let sequence = numbers.next()?.parse().ok()?;
    let timestamp_us: u64 = numbers.next()?.parse().ok()?;
    let mut lines = record[semicolon + 1..].split(|&byte| byte == b'\n');
    let text = unescape(lines.next().unwrap_or_default());
    let (level, facility) = split_priority(priority);
    let mut fields = Fields::new();
    fields.push(b"PRIORITY", level.to_string().as_bytes());
    fields.push(b"SYSLOG_FACILITY", facility.to_string().as_bytes());
    let message = match facility {
        0 => {
            fields.push(b"SYSLOG_IDENTIFIER", b"kernel");
            &text[..]
        }
        _ => put_tag(&text, &mut fields),
    };
    fields.push(b"MESSAGE", message);
    fields.push(b"_SOURCE_MONOTONIC_TIMESTAMP", timestamp_us.to_string().as_bytes());
    for line in lines {
        let Some((name, value)) = assignment(line) else { continue };
        match name {
            b"DEVICE" => fields.push(b"_KERNEL_DEVICE", &unescape(value)),
            b"SUBSYSTEM" => fields.push(b"_KERNEL_SUBSYSTEM", &unescape(value)),
            _ => {}
        }
    }
    Some(Record { sequence, fields })
}

fn assignment(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_prefix(b" ")?;
    let equals = memchr::memchr(b'=', line)?;
    Some((&line[..equals], &line[equals + 1..]))
}

/// `TAG[PID]: text` of a process; gives the text.
fn put_tag<'a>(text: &'a [u8], fields: &mut Fields) -> &'a [u8] {
    let Some(end) = text.windows(2).take(TAG_BYTES_MAX).position(|pair| pair == b": ") else {
        return text;
    };
    let (tag, message) = (&text[..end], &text[end + 2..]);
    if tag.is_empty() || tag.iter().any(u8::is_ascii_whitespace) {
        return text;
    }
    let pid = tag.strip_suffix(b"]").and_then(|tag| {
        let at = memchr::memrchr(b'[', tag)?;
        let (tag, pid) = (&tag[..at], &tag[at + 1..]);
        (!pid.is_empty() && pid.iter().all(u8::is_ascii_digit)).then_some((tag, pid))
    });
    fields.push(b"SYSLOG_IDENTIFIER", pid.map_or(tag, |(tag, _)| tag));
    pid.into_iter().for_each(|(_, pid)| fields.push(b"SYSLOG_PID", pid));
    message
}

/// The kernel writes what is not printable as `\xNN`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| rest.get(at).and_then(|d| char::from(*d).to_digit(16));
        match (byte, rest.get(1), digit(2), digit(3)) {
            (b'\\', Some(b'x'), Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                rest = &rest[4..];
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(record: &str, expected: &str) {
        let shown = parse(record.as_bytes()).map(|record| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let fields = record.fields.iter();
            let fields: Vec<String> = fields
                .map(|(name, value)| {
                    format!("{}={}", text(name).replace("SYSLOG_", ""), text(value))
                })
                .collect();
            format!("{} {}", record.sequence, fields.join(" "))
        });
        assert_eq!(shown.as_deref().unwrap_or("-"), expected, "{record:?}");
    }

    #[test]
    fn records() {
        check(
            "6,339,5140900,-;NET: Registered PF 10\n",
            "339 PRIORITY=6 FACILITY=0 IDENTIFIER=kernel MESSAGE=NET: Registered PF 10 _SOURCE_MONOTONIC_TIMESTAMP=5140900",
        );
        check(
            "4,1,2,-,caller=T1;sda: bad\n SUBSYSTEM=block\n DEVICE=b8:0\n OTHER=1\n",
            "1 PRIORITY=4 FACILITY=0 IDENTIFIER=kernel MESSAGE=sda: bad _SOURCE_MONOTONIC_TIMESTAMP=2 _KERNEL_SUBSYSTEM=block _KERNEL_DEVICE=b8:0",
        );
        check(
            "30,7,8,-;udevd[77]: x\\x0ay\n",
            "7 PRIORITY=6 FACILITY=3 IDENTIFIER=udevd PID=77 MESSAGE=x\ny _SOURCE_MONOTONIC_TIMESTAMP=8",
        );
        check(
            "14,7,8,-;no tag here: x",
            "7 PRIORITY=6 FACILITY=1 MESSAGE=no tag here: x _SOURCE_MONOTONIC_TIMESTAMP=8",
        );
        check(
            "12,1,2,-;tag: \\x",
            "1 PRIORITY=4 FACILITY=1 IDENTIFIER=tag MESSAGE=\\x _SOURCE_MONOTONIC_TIMESTAMP=2",
        );
        for bad in ["", "6,1,2,-", "x,1,2,-;a", "6,x,2,-;a", "6,1;a", ";"] {
            check(bad, "-");
        }
    }
}
