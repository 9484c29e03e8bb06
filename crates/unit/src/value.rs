//! Values: text to numbers, spans, sizes, sets, words, commands and addresses.
//!
//! Each function takes the text after specifiers were replaced, and says what is wrong with it
//! and where. None of them looks at the host.

mod address;
mod check;
mod command;
mod environment;
mod fault;
mod log;
mod open_file;
mod output;
mod paths;
mod timer;
mod words;

pub use address::{below_run, listen_address, netlink_address};
pub use check::check;
pub(crate) use check::condition_prefixes;
pub use command::{commands, is_bus_name};
pub use environment::environment_file;
pub use fault::Fault;
use fault::Parsed;
pub use log::{by_name, log_level, log_target};
pub use open_file::{is_descriptor_name, open_file};
pub use output::output;
pub use paths::path;
pub use timer::{calendar, timer_event};
pub use words::{Words, plain_words, quoted, split, unescape_c};

use std::time::Duration;

use crate::config::{
    CapabilitySet, CpuWeight, CrashAction, ExitStatusSet, IndexSet, Limit, Resource, Rlimit,
    ShowStatus, TasksLimit,
};
use crate::signal::Signal;

/// `1 yes y true t on` and `0 no n false f off`, in any case (systemd.syntax(7)).
pub fn boolean(text: &str) -> Parsed<bool> {
    let is = |words: &[&str]| words.iter().any(|w| w.eq_ignore_ascii_case(text));
    if is(&["1", "yes", "y", "true", "t", "on"]) {
        Ok(true)
    } else if is(&["0", "no", "n", "false", "f", "off"]) {
        Ok(false)
    } else {
        Err(Fault::new(0, format!("'{text}' is neither yes nor no")))
    }
}

/// Units of systemd.time(7), "PARSING TIME SPANS", in nanoseconds.
const SPAN_UNITS: &[(&[&str], u64)] = &[
    (&["seconds", "second", "sec", "s"], 1_000_000_000),
    (&["minutes", "minute", "min", "m"], 60_000_000_000),
    (&["hours", "hour", "hr", "h"], 3_600_000_000_000),
    (&["days", "day", "d"], 86_400_000_000_000),
    (&["weeks", "week", "w"], 604_800_000_000_000),
    (&["months", "month", "M"], 2_629_800_000_000_000),
    (&["years", "year", "y"], 31_557_600_000_000_000),
    (&["msec", "ms"], 1_000_000),
    (&["usec", "us", "µs", "μs"], 1_000),
];

/// The longest time span that is one, in nanoseconds: systemd counts microseconds in 64 bits.
const SPAN_NANOS_MAX: u128 = u64::MAX as u128 * 1_000;

/// A time span; `None` is `infinity`. A number without a unit counts `default_unit`. One of more than
/// 584 years is as good as 584 years.
pub fn span_with_unit(text: &str, default_unit: Duration) -> Parsed<Option<Duration>> {
    let bad = |at: usize| Fault::new(at, format!("'{text}' is not a time span"));
    if text.trim() == "infinity" {
        return Ok(None);
    }
    let default_nanos = u64::try_from(default_unit.as_nanos()).unwrap_or(u64::MAX);
    let (mut total, mut rest, mut seen) = (0u128, text.trim_start(), false);
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let (number, after) = decimal(rest).ok_or_else(|| bad(at))?;
        let fraction =
            rest[..rest.len() - after.len()].split_once('.').map_or("", |(_, digits)| digits);
        let after = after.trim_start();
        let length = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        let nanos = match unit {
            "" => default_nanos,
            unit => unit_nanos(unit).ok_or_else(|| bad(text.len() - after.len() - length))?,
        };
        // Where no unit is so short, what is less than a µs counts nothing, in each part.
        let grain = if default_nanos < 1000 { 1 } else { 1000 };
        let whole = u128::from(number.whole) * u128::from(nanos);
        total += whole - whole % grain + part_of(u128::from(nanos) / grain, fraction) * grain;
        if total > SPAN_NANOS_MAX {
            return Err(bad(at));
        }
        rest = after.trim_start();
        seen = true;
    }
    let nanos = u64::try_from(total).unwrap_or(u64::MAX);
    if seen { Ok(Some(Duration::from_nanos(nanos))) } else { Err(bad(0)) }
}

/// The digits after a point, of a unit: each counts as often as its tenth, hundredth and so on goes into the unit, which
/// is rounded down from one to the next, as systemd does it.
fn part_of(unit: u128, digits: &str) -> u128 {
    let (mut total, mut place) = (0, unit);
    for digit in digits.bytes() {
        place /= 10;
        total += place * u128::from(digit - b'0');
    }
    total
}

fn unit_nanos(unit: &str) -> Option<u64> {
    SPAN_UNITS.iter().find(|(names, _)| names.contains(&unit)).map(|(_, nanos)| *nanos)
}

/// A time span in seconds where no unit is given; `None` is `infinity`.
pub fn span(text: &str) -> Parsed<Option<Duration>> {
    span_with_unit(text, Duration::from_secs(1))
}

/// A non-negative decimal number: digits before the point, and up to nine after it.
#[derive(Clone, Copy)]
struct Decimal {
    whole: u64,
    billionths: u64,
}

impl Decimal {
    fn times(self, unit: u64) -> Option<u64> {
        u64::try_from(self.wide_times(unit)).ok()
    }

    /// Two factors of 64 bits and less than one unit have room in 128.
    fn wide_times(self, unit: u64) -> u128 {
        let part = u128::from(self.billionths) * u128::from(unit) / 1_000_000_000;
        u128::from(self.whole) * u128::from(unit) + part
    }
}

/// Splits a decimal number off the start.
fn decimal(text: &str) -> Option<(Decimal, &str)> {
    let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
    let text = text.strip_prefix('+').unwrap_or(text);
    let (whole, rest) = text.split_at(digits(text));
    let Some(after) = rest.strip_prefix('.') else {
        return Some((Decimal { whole: whole.parse().ok()?, billionths: 0 }, rest));
    };
    let (fraction, rest) = after.split_at(digits(after));
    if fraction.is_empty() || rest.starts_with('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let billionths = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let billionths = billionths.fold(0, |n, b| n * 10 + u64::from(b - b'0'));
    Some((Decimal { whole, billionths }, rest))
}

/// Bytes: a number with an optional suffix K, M, G, T, P or E, base 1024.
pub fn bytes(text: &str) -> Parsed<u64> {
    let bad = || Fault::new(0, format!("'{text}' is not a size in bytes"));
    with_suffix(text, 1024).ok_or_else(bad)
}

/// What a disk may do in a second, IOReadBandwidthMax= and its relatives: the suffixes have base 1000, and
/// `infinity` is `u64::MAX`.
pub fn io_limit(text: &str) -> Parsed<u64> {
    let bad = || Fault::new(0, format!("'{text}' is not a number in each second"));
    if text == "infinity" {
        return Ok(u64::MAX);
    }
    with_suffix(text, 1000).filter(|&limit| limit > 0).ok_or_else(bad)
}

/// A number with an optional suffix K, M, G, T, P or E.
fn with_suffix(text: &str, base: u64) -> Option<u64> {
    let (number, rest) = decimal(text.trim())?;
    let power = match rest.trim() {
        "" | "B" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return None,
    };
    number.times(base.pow(power))
}

/// A percentage with at most two decimal places, in parts of 10,000. No upper bound.
pub fn percent(text: &str) -> Parsed<u32> {
    let bad = || Fault::new(0, format!("'{text}' is not a percentage"));
    let (number, rest) = text.strip_suffix('%').and_then(decimal).ok_or_else(bad)?;
    let parts = number.whole.checked_mul(100).map(|n| n + number.billionths / 10_000_000);
    let exact = rest.is_empty() && number.billionths.is_multiple_of(10_000_000);
    parts.filter(|_| exact).and_then(|n| u32::try_from(n).ok()).ok_or_else(bad)
}

/// A part of a whole, at most all of it, in parts of 10,000; in percent, `‰` or `‱`.
pub fn part_of_whole(text: &str) -> Parsed<u32> {
    let too_much = || Fault::new(0, format!("'{text}' is more than 100%"));
    let smaller = [("‰", 10), ("‱", 1)].into_iter().find_map(|(unit, parts)| {
        let number = text.strip_suffix(unit)?.parse::<u32>().ok()?;
        number.checked_mul(parts)
    });
    let part = smaller.map_or_else(|| percent(text), Ok)?;
    Some(part).filter(|part| *part <= 10_000).ok_or_else(too_much)
}

/// MemoryMax= and its relatives.
pub fn memory(text: &str) -> Parsed<Limit> {
    if text == "infinity" {
        return Ok(Limit::Infinity);
    }
    if !text.ends_with('%') {
        return bytes(text).map(Limit::Bytes);
    }
    part_of_whole(text).map(Limit::PerMyriad)
}

/// TasksMax=
pub fn tasks(text: &str) -> Parsed<TasksLimit> {
    let bad = || Fault::new(0, format!("'{text}' is not a number of tasks"));
    if text == "infinity" {
        return Ok(TasksLimit::Infinity);
    }
    if text.ends_with('%') {
        let numerator = percent(text)?;
        return match numerator {
            1..=10_000 => Ok(TasksLimit::Scale { numerator, denominator: 10_000 }),
            _ => Err(bad()),
        };
    }
    let tasks = whole(text).and_then(|n| u64::try_from(n).ok()).filter(|&n| n > 0);
    tasks.map(TasksLimit::Tasks).ok_or_else(bad)
}

/// `yes`, `no`, `error` or `auto` (systemd-system.conf(5), "ShowStatus=").
pub fn show_status(text: &str) -> Parsed<ShowStatus> {
    let bad = || Fault::new(0, format!("'{text}' is not one of: yes, no, error, auto"));
    match boolean(text) {
        Ok(true) => Ok(ShowStatus::Yes),
        Ok(false) => Ok(ShowStatus::No),
        Err(_) => ShowStatus::from_word(text).ok_or_else(bad),
    }
}

/// `freeze`, `reboot` or `poweroff` (systemd-system.conf(5) of systemd 256, "CrashAction=").
pub fn crash_action(text: &str) -> Parsed<CrashAction> {
    let bad =
        || Fault::new(0, format!("'{text}' is not one of: {}", CrashAction::WORDS.join(", ")));
    CrashAction::from_word(text).ok_or_else(bad)
}

/// A virtual terminal from 1 to 63; yes is 0, the one that the kernel writes to (systemd(1), "systemd.crash_chvt").
pub fn crash_terminal(text: &str) -> Parsed<Option<u8>> {
    let number = text.parse().ok().filter(|number| (1..=63).contains(number));
    match (number, boolean(text)) {
        (Some(number), _) => Ok(Some(number)),
        (None, Ok(is_shown)) => Ok(is_shown.then_some(0)),
        _ => Err(Fault::new(0, format!("'{text}' is neither yes, no nor a number from 1 to 63"))),
    }
}

/// A whole number within bounds: decimal, hexadecimal after `0x`, octal after `0` or `0o`, binary after
/// `0b`, as systemd 252 reads all of them.
pub fn number(text: &str, low: i64, high: i64) -> Parsed<i64> {
    let value = whole(text).and_then(|n| i64::try_from(n).ok());
    value
        .filter(|n| (low..=high).contains(n))
        .ok_or_else(|| Fault::new(0, format!("'{text}' is not a number from {low} to {high}")))
}

/// A count, or `infinity`, which is none. The largest number stands for that on the bus.
pub fn count_or_infinity(text: &str) -> Parsed<Option<u32>> {
    match text {
        "infinity" => Ok(None),
        text => {
            let count = number(text, 0, u32::MAX.into())?;
            Ok(u32::try_from(count).ok().filter(|&count| count < u32::MAX))
        }
    }
}

/// The same without bounds. A sign stands before the base.
fn whole(text: &str) -> Option<i128> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    let is_digit = |c: char| c.is_digit(radix);
    let value = u64::from_str_radix(digits, radix).ok().filter(|_| digits.starts_with(is_digit))?;
    Some(if is_negative { -i128::from(value) } else { i128::from(value) })
}

/// An octal file mode, 0 to 7777.
pub fn mode(text: &str) -> Parsed<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let value = u32::from_str_radix(text, 8).ok().filter(|&m| digits && m <= 0o7777);
    value.ok_or_else(|| Fault::new(0, format!("'{text}' is not an octal mode")))
}

/// A signal's name or number.
pub fn signal(text: &str) -> Parsed<Signal> {
    Signal::parse(text).ok_or_else(|| Fault::new(0, format!("'{text}' is not a signal")))
}

/// CPUWeight=
pub fn cpu_weight(text: &str) -> Parsed<CpuWeight> {
    match text {
        "idle" => Ok(CpuWeight::Idle),
        text => Ok(CpuWeight::Weight(number(text, 1, 10_000)? as u32)),
    }
}

/// CPU or node numbers: blanks or commas between numbers and ranges `0-3`, which may be quoted.
pub fn indexes(text: &str) -> Parsed<IndexSet> {
    let mut set = IndexSet::default();
    let mut quote = None;
    let blank_for_comma = |c| match (c, quote) {
        (',', None) => ' ',
        ('"' | '\'', None) => *quote.insert(c),
        (c, Some(open)) if c == open => {
            quote = None;
            c
        }
        (c, _) => c,
    };
    let separated: String = text.chars().map(blank_for_comma).collect();
    for word in split(&separated) {
        let (at, word) = word?;
        let bad = || Fault::new(at, format!("'{word}' is not a number or range"));
        let (low, high) = word.split_once('-').unwrap_or((&word, &word));
        let parse = |n: &str| {
            let index = whole(n).and_then(|n| u16::try_from(n).ok());
            index.filter(|&n| n <= IndexSet::INDEX_MAX)
        };
        let (low, high) = (parse(low).ok_or_else(bad)?, parse(high).ok_or_else(bad)?);
        if low > high {
            return Err(bad());
        }
        set.insert(low, high);
    }
    Ok(set)
}

/// Limit*=: `soft:hard` or one value for both; units by resource (systemd.exec(5),
/// "PROCESS PROPERTIES").
pub fn rlimit(resource: Resource, text: &str) -> Parsed<Rlimit> {
    let (soft, hard) = text.split_once(':').unwrap_or((text, text));
    // Blanks may follow the colon, though not before `infinity`, as with systemd 252.
    let number = hard.trim_start();
    let hard = if number == "infinity" { hard } else { number };
    let (soft, hard) = (one_rlimit(resource, soft)?, one_rlimit(resource, hard)?);
    if soft > hard {
        return Err(Fault::new(0, format!("the soft limit of '{text}' is above the hard one")));
    }
    Ok(Rlimit { soft, hard })
}

fn one_rlimit(resource: Resource, text: &str) -> Parsed<u64> {
    let bad = |_| Fault::new(0, format!("'{text}' is not a limit for {}", resource.as_str()));
    if text == "infinity" {
        return Ok(u64::MAX);
    }
    match resource {
        Resource::Cpu => {
            let nanos = span(text).map_err(bad)?.map_or(u128::MAX, |d| d.as_nanos());
            Ok(u64::try_from(nanos.div_ceil(1_000_000_000)).unwrap_or(u64::MAX))
        }
        Resource::Rttime => {
            let micros = span_with_unit(text, Duration::from_micros(1)).map_err(bad)?;
            Ok(micros.map_or(u64::MAX, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX)))
        }
        Resource::Nice => match text.starts_with(['+', '-']) {
            // The kernel counts 20 - nice.
            true => number(text, -20, 19).map_err(bad).map(|n| (20 - n) as u64),
            false => number(text, 1, 40).map_err(bad).map(|n| n as u64),
        },
        Resource::Nofile
        | Resource::Nproc
        | Resource::Locks
        | Resource::Sigpending
        | Resource::Rtprio => {
            // The largest number would be `infinity`.
            let limit = whole(text).and_then(|n| u64::try_from(n).ok()).filter(|&n| n < u64::MAX);
            limit.ok_or_else(|| bad(Fault::new(0, "")))
        }
        _ => bytes(text).map_err(bad),
    }
}

/// Names of exit statuses, systemd.exec(5), "PROCESS EXIT CODES": sysexits, the LSB's and the service
/// manager's own.
const EXIT_NAMES: &[(&str, u8)] = &[
    ("SUCCESS", 0),
    ("FAILURE", 1),
    ("INVALIDARGUMENT", 2),
    ("NOTIMPLEMENTED", 3),
    ("NOPERMISSION", 4),
    ("NOTINSTALLED", 5),
    ("NOTCONFIGURED", 6),
    ("NOTRUNNING", 7),
    ("USAGE", 64),
    ("DATAERR", 65),
    ("NOINPUT", 66),
    ("NOUSER", 67),
    ("NOHOST", 68),
    ("UNAVAILABLE", 69),
    ("SOFTWARE", 70),
    ("OSERR", 71),
    ("OSFILE", 72),
    ("CANTCREAT", 73),
    ("IOERR", 74),
    ("TEMPFAIL", 75),
    ("PROTOCOL", 76),
    ("NOPERM", 77),
    ("CONFIG", 78),
    ("CHDIR", 200),
    ("NICE", 201),
    ("FDS", 202),
    ("EXEC", 203),
    ("MEMORY", 204),
    ("LIMITS", 205),
    ("OOM_ADJUST", 206),
    ("SIGNAL_MASK", 207),
    ("STDIN", 208),
    ("STDOUT", 209),
    ("CHROOT", 210),
    ("IOPRIO", 211),
    ("TIMERSLACK", 212),
    ("SECUREBITS", 213),
    ("SETSCHEDULER", 214),
    ("CPUAFFINITY", 215),
    ("GROUP", 216),
    ("USER", 217),
    ("CAPABILITIES", 218),
    ("CGROUP", 219),
    ("SETSID", 220),
    ("CONFIRM", 221),
    ("STDERR", 222),
    ("PAM", 224),
    ("NETWORK", 225),
    ("NAMESPACE", 226),
    ("NO_NEW_PRIVILEGES", 227),
    ("SECCOMP", 228),
    ("SELINUX_CONTEXT", 229),
    ("PERSONALITY", 230),
    ("APPARMOR", 231),
    ("ADDRESS_FAMILIES", 232),
    ("RUNTIME_DIRECTORY", 233),
    ("CHOWN", 235),
    ("SMACK_PROCESS_LABEL", 236),
    ("KEYRING", 237),
    ("STATE_DIRECTORY", 238),
    ("CACHE_DIRECTORY", 239),
    ("LOGS_DIRECTORY", 240),
    ("CONFIGURATION_DIRECTORY", 241),
    ("NUMA_POLICY", 242),
    ("CREDENTIALS", 243),
    ("BPF", 244),
    ("EXCEPTION", 255),
];

/// Exit codes, their names, and signals. Words that are none of these are in the faults; the
/// rest counts.
pub fn exit_statuses(text: &str) -> (ExitStatusSet, Vec<Fault>) {
    let (mut codes, mut signals, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for word in text.split_ascii_whitespace() {
        let named = EXIT_NAMES.iter().find(|(name, _)| *name == word).map(|(_, code)| *code);
        match named.or_else(|| whole(word).and_then(|code| u8::try_from(code).ok())) {
            Some(code) => codes.push(code),
            None => match Signal::parse(word).filter(|_| !word.starts_with(char::is_numeric)) {
                Some(signal) => signals.push(signal),
                None => faults.push(Fault::new(
                    word.as_ptr().addr() - text.as_ptr().addr(),
                    format!("'{word}' is neither an exit status nor a signal"),
                )),
            },
        }
    }
    codes.sort_unstable();
    codes.dedup();
    signals.sort_unstable();
    signals.dedup();
    (ExitStatusSet { codes: codes.into(), signals: signals.into() }, faults)
}

/// Names of capabilities(7) in the order of their numbers, without `CAP_`.
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// SecureBits= by bit; capabilities(7), "The securebits flags".
pub const SECURE_BITS: [&str; 6] = [
    "noroot",
    "noroot-locked",
    "no-setuid-fixup",
    "no-setuid-fixup-locked",
    "keep-caps",
    "keep-caps-locked",
];

/// The name of a capability by its number (capabilities(7)), in capitals.
pub fn capability_name(number: u8) -> Option<&'static str> {
    CAPABILITIES.get(usize::from(number)).copied()
}

/// The number of a capability by its name, `CAP_KILL`, or by itself.
pub fn capability(name: &str) -> Option<u8> {
    let number = whole(name).and_then(|n| u8::try_from(n).ok());
    if let Some(number) = number.filter(|&n| usize::from(n) < CAPABILITIES.len()) {
        return Some(number);
    }
    let (prefix, name) = name.split_at_checked(4)?;
    if !prefix.eq_ignore_ascii_case("CAP_") {
        return None;
    }
    let found = CAPABILITIES.iter().position(|c| c.eq_ignore_ascii_case(name));
    found.and_then(|at| u8::try_from(at).ok())
}

/// A list of capabilities, which may be quoted, and whether `~` inverted it. Unknown names are in the faults.
pub fn capabilities(text: &str) -> (CapabilitySet, bool, Vec<Fault>) {
    let inverted = text.starts_with('~');
    let mut set = CapabilitySet::default();
    let mut faults = Vec::new();
    let mark = usize::from(inverted);
    for word in split(&text[mark..]) {
        match word.map(|(at, word)| (at, capability(&word), word)) {
            Ok((_, Some(number), _)) => set.0 |= 1 << number,
            Ok((_, None, word)) if word.is_empty() => {}
            Ok((at, None, word)) => {
                faults.push(Fault::new(mark + at, format!("'{word}' is not a capability")));
            }
            Err(fault) => faults.push(Fault::new(mark + fault.offset, fault.message)),
        }
    }
    (set, inverted, faults)
}

/// The name or number of a user or group, whether there is one or not: what systemd 252 takes for User=
/// and its relatives. Numbers have no needless 0, and those that stand for none are none.
pub fn user(text: &str) -> Parsed<Box<str>> {
    let bad =
        || Fault::new(0, format!("'{text}' is not a valid name or number of a user or group"));
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_good = match digits.bytes().all(|b| b.is_ascii_digit()) {
        true => {
            let is_plain = text == "0" || !text.starts_with(['0', '-']);
            is_plain && text.parse().is_ok_and(|id: u32| id != u32::MAX && id != 0xffff)
        }
        false => {
            let never = |c: char| matches!(c, ':' | '/') || c.is_control();
            !matches!(text, "." | "..") && !text.contains(never)
        }
    };
    if is_good { Ok(text.into()) } else { Err(bad()) }
}

#[cfg(test)]
mod tests;
