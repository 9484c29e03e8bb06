//! Records of the kernel's audit system, as they come over netlink(7): a header, and a text
//! `audit(SECONDS.MILLISECONDS:SERIAL): NAME=VALUE ...`, in which what a program of user space says
//! stands in `msg='...'`. Field names are those that systemd's journald gives, which was asked by
//! experiment. Pure.

use warren_log_store::entry::{Fields, NAME_BYTES_MAX, is_valid_name};

/// Bytes of a netlink message before its text.
const HEADER_BYTES: usize = 16;

/// Lower types are answers, not records; linux/audit.h.
const FIRST_RECORD: u16 = 1100;

/// Most fields of a record that are told apart; the message has all.
const FIELDS_MAX: usize = 256;

/// The end of an event of several records.
const END_OF_EVENT: u16 = 1320;

/// Facility `auth`.
const FACILITY: &[u8] = b"4";

/// Values in which the kernel puts a text in quotes, or in hexadecimal digits when it has bytes
/// that would confuse.
const TEXTS: [&[u8]; 9] =
    [b"acct", b"cmd", b"comm", b"cwd", b"exe", b"key", b"name", b"path", b"proctitle"];

/// Names of types; linux/audit.h.
const TYPES: [(u16, &str); 56] = [
    (1100, "USER_AUTH"),
    (1101, "USER_ACCT"),
    (1102, "USER_MGMT"),
    (1103, "CRED_ACQ"),
    (1104, "CRED_DISP"),
    (1105, "USER_START"),
    (1106, "USER_END"),
    (1107, "USER_AVC"),
    (1108, "USER_CHAUTHTOK"),
    (1109, "USER_ERR"),
    (1110, "CRED_REFR"),
    (1111, "USYS_CONFIG"),
    (1112, "USER_LOGIN"),
    (1113, "USER_LOGOUT"),
    (1114, "ADD_USER"),
    (1115, "DEL_USER"),
    (1116, "ADD_GROUP"),
    (1117, "DEL_GROUP"),
    (1123, "USER_CMD"),
    (1124, "USER_TTY"),
    (1127, "SYSTEM_BOOT"),
    (1128, "SYSTEM_SHUTDOWN"),
    (1129, "SYSTEM_RUNLEVEL"),
    (1130, "SERVICE_START"),
    (1131, "SERVICE_STOP"),
    (1300, "SYSCALL"),
    (1302, "PATH"),
    (1303, "IPC"),
    (1304, "SOCKETCALL"),
    (1305, "CONFIG_CHANGE"),
    (1306, "SOCKADDR"),
    (1307, "CWD"),
    (1309, "EXECVE"),
    (1311, "IPC_SET_PERM"),
    (1312, "MQ_OPEN"),
    (1313, "MQ_SENDRECV"),
    (1314, "MQ_NOTIFY"),
    (1315, "MQ_GETSETATTR"),
    (1318, "OBJ_PID"),
    (1319, "TTY"),
    (1321, "BPRM_FCAPS"),
    (1322, "CAPSET"),
    (1323, "MMAP"),
    (1324, "NETFILTER_PKT"),
    (1325, "NETFILTER_CFG"),
    (1326, "SECCOMP"),
    (1327, "PROCTITLE"),
    (1328, "FEATURE_CHANGE"),
    (1330, "KERN_MODULE"),
    (1331, "FANOTIFY"),
    (1334, "BPF"),
    (1335, "EVENT_LISTENER"),
    (1400, "AVC"),
    (1404, "MAC_CONFIG_CHANGE"),
    (1700, "ANOM_PROMISCUOUS"),
    (1701, "ANOM_ABEND"),
];

/// Reads a datagram of the audit system; `None` for what is no record.
pub fn parse(datagram: &[u8]) -> Option<Fields> {
    let (head, text) = datagram.split_at_checked(HEADER_BYTES)?;
    let kind = u16::from_ne_bytes([head[4], head[5]]);
    if kind < FIRST_RECORD || kind == END_OF_EVENT {
        return None;
    }
    let text = text.strip_prefix(b"audit(")?;
    let close = memchr::memmem::find(text, b"): ").or_else(|| memchr::memmem::find(text, b"):"))?;
    let (time_us, serial) = parse_stamp(&text[..close])?;
    let text = text[close + 2..].trim_ascii_start();
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b"\0").unwrap_or(text).trim_ascii_end();
    let name = type_name(kind);
    let mut fields = Fields::new();
    let mut put = |name: &str, value: &[u8]| fields.push(name.as_bytes(), value);
    put("MESSAGE", &[name.as_bytes(), b" ", text].concat());
    put("SYSLOG_IDENTIFIER", b"audit");
    put("SYSLOG_FACILITY", FACILITY);
    put("_AUDIT_TYPE", kind.to_string().as_bytes());
    put("_AUDIT_TYPE_NAME", name.as_bytes());
    put("_AUDIT_ID", serial.to_string().as_bytes());
    put("_SOURCE_REALTIME_TIMESTAMP", time_us.to_string().as_bytes());
    put_values(text, Speaker::Kernel, &mut fields);
    Some(fields)
}

fn type_name(kind: u16) -> String {
    let known = TYPES.iter().find(|(number, _)| *number == kind);
    known.map_or_else(|| format!("AUDIT{kind}"), |(_, name)| (*name).to_owned())
}

/// `SECONDS.MILLISECONDS:SERIAL`; µs and the serial.
fn parse_stamp(text: &[u8]) -> Option<(u64, u64)> {
    let (time, serial) = std::str::from_utf8(text).ok()?.split_once(':')?;
    let (seconds, milliseconds) = time.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    let milliseconds: u64 = milliseconds.parse().ok()?;
    let time_us = seconds.checked_mul(1_000_000)?.checked_add(milliseconds.checked_mul(1000)?)?;
    Some((time_us, serial.parse().ok()?))
}

/// Who says it: names of what a program says have no `_` first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Kernel,
    Program,
}

/// The values in a text, each as a field. Words that are none are in the message alone.
fn put_values(text: &[u8], speaker: Speaker, fields: &mut Fields) {
    let mut rest = text;
    for _ in 0..FIELDS_MAX {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return;
        }
        if speaker == Speaker::Kernel
            && let Some(said) = rest.strip_prefix(b"msg='")
        {
            let end = said.iter().rposition(|&byte| byte == b'\'').unwrap_or(said.len());
            return put_values(&said[..end], Speaker::Program, fields);
        }
        let (word, after) = take_word(rest);
        rest = after;
        let Some(equals) = memchr::memchr(b'=', word) else { continue };
        put_value(&word[..equals], &word[equals + 1..], speaker, fields);
    }
}

/// The text up to a blank that is not in quotes, and what is behind it.
fn take_word(text: &[u8]) -> (&[u8], &[u8]) {
    let mut quoted = false;
    let end = text.iter().position(|&byte| {
        quoted ^= byte == b'"';
        byte.is_ascii_whitespace() && !quoted
    });
    text.split_at(end.unwrap_or(text.len()))
}

fn put_value(name: &[u8], value: &[u8], speaker: Speaker, fields: &mut Fields) {
    let of_process: Option<&[u8]> = match name {
        b"pid" => Some(b"_PID"),
        b"uid" => Some(b"_UID"),
        b"gid" => Some(b"_GID"),
        b"auid" => Some(b"_AUDIT_LOGINUID"),
        b"ses" => Some(b"_AUDIT_SESSION"),
        _ => None,
    };
    if let Some(known) = of_process.filter(|_| speaker == Speaker::Kernel) {
        return fields.push(known, value);
    }
    let prefix: &[u8] = if speaker == Speaker::Kernel { b"_AUDIT_FIELD_" } else { b"AUDIT_FIELD_" };
    let name_of = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
    let full: Vec<u8> = prefix.iter().copied().chain(name.iter().map(name_of)).collect();
    if full.len() <= NAME_BYTES_MAX && is_valid_name(&full) && !name.is_empty() {
        let value = if TEXTS.contains(&name) { unquoted(value) } else { value.to_vec() };
        fields.push(&full, &value);
    }
}

/// A text out of its quotes or its hexadecimal digits; anything else as it is.
fn unquoted(value: &[u8]) -> Vec<u8> {
    if let Some(inner) = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")) {
        return inner.to_vec();
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let pairs = value.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?));
    match pairs.collect::<Option<Vec<u8>>>() {
        Some(bytes) if !bytes.is_empty() => bytes,
        _ => value.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: u16, text: &str, expected: &str) {
        let mut datagram = vec![0; HEADER_BYTES];
        datagram[4..6].copy_from_slice(&kind.to_ne_bytes());
        datagram.extend_from_slice(text.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shown = parse(&datagram).map(|fields| {
            let all = fields.iter().skip(3).map(|(n, v)| format!("{}={}", text(n), text(v)));
            let message = text(fields.get("MESSAGE").unwrap_or_default());
            format!("{message} | {}", all.collect::<Vec<_>>().join("|"))
        });
        assert_eq!(shown.as_deref().unwrap_or("none"), expected);
    }

    #[test]
    fn records() {
        let stamp = "|_AUDIT_ID=7|_SOURCE_REALTIME_TIMESTAMP=1795353293689000";
        // As Debian's journald has them.
        check(
            1107,
            "audit(1795353293.689:7): pid=24354 uid=0 auid=4294967295 ses=1 msg='op=x acct=\"root\" \
             exe=2F62696E2F6120622F78 hostname=? apparmor=\"TEST\" comm=\"a b\" hex=616263 bare'\0",
            &format!(
                "USER_AVC pid=24354 uid=0 auid=4294967295 ses=1 msg='op=x acct=\"root\" \
                 exe=2F62696E2F6120622F78 hostname=? apparmor=\"TEST\" comm=\"a b\" hex=616263 bare' \
                 | _AUDIT_TYPE=1107|_AUDIT_TYPE_NAME=USER_AVC{stamp}|_PID=24354|_UID=0\
                 |_AUDIT_LOGINUID=4294967295|_AUDIT_SESSION=1|AUDIT_FIELD_OP=x\
                 |AUDIT_FIELD_ACCT=root|AUDIT_FIELD_EXE=/bin/a b/x|AUDIT_FIELD_HOSTNAME=?\
                 |AUDIT_FIELD_APPARMOR=\"TEST\"|AUDIT_FIELD_COMM=a b|AUDIT_FIELD_HEX=616263"
            ),
        );
        check(
            1326,
            "audit(1795353293.689:7): auid=1 uid=2 gid=3 ses=4 pid=5 comm=\"x\" sig=31 old-auid=6",
            &format!(
                "SECCOMP auid=1 uid=2 gid=3 ses=4 pid=5 comm=\"x\" sig=31 old-auid=6 \
                 | _AUDIT_TYPE=1326|_AUDIT_TYPE_NAME=SECCOMP{stamp}|_AUDIT_LOGINUID=1|_UID=2\
                 |_GID=3|_AUDIT_SESSION=4|_PID=5|_AUDIT_FIELD_COMM=x|_AUDIT_FIELD_SIG=31\
                 |_AUDIT_FIELD_OLD_AUID=6"
            ),
        );
        check(
            1999,
            "audit(1795353293.689:7): words",
            &format!("AUDIT1999 words | _AUDIT_TYPE=1999|_AUDIT_TYPE_NAME=AUDIT1999{stamp}"),
        );
    }

    #[test]
    fn a_program_cannot_say_what_the_kernel_says() {
        check(
            1107,
            "audit(0.001:1): pid=5 msg='pid=1 uid=0' msg='x=1'",
            "USER_AVC pid=5 msg='pid=1 uid=0' msg='x=1' | _AUDIT_TYPE=1107\
             |_AUDIT_TYPE_NAME=USER_AVC|_AUDIT_ID=1|_SOURCE_REALTIME_TIMESTAMP=1000|_PID=5\
             |AUDIT_FIELD_PID=1|AUDIT_FIELD_UID=0'|AUDIT_FIELD_MSG='x=1",
        );
    }

    #[test]
    fn what_is_no_record_is_left_out() {
        for (kind, text) in [
            (1000, "audit(1.1:1): x"),
            (1320, "audit(1.1:1): "),
            (1107, "nothing"),
            (1107, "audit("),
            (1107, "audit(1.1): x"),
            (1107, "audit(99999999999999999999.1:1): x"),
        ] {
            check(kind, text, "none");
        }
        assert_eq!(parse(b"short"), None);
    }
}
