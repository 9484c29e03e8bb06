//! Values of properties as the text of a setting.

use super::Fault;
use crate::error::BusError;
use crate::wire::{Reader, WireError};
use std::fmt::Write as _;
use std::net::IpAddr;
use warren_unit::Signal;
use warren_unit::config::OpenOptions;
use warren_unit::settings::{Kind, Setting};
use warren_unit::value::{SECURE_BITS, capability_name};

/// A property and the setting that it writes.
pub struct Property<'a> {
    /// The property's name.
    pub name: &'a str,
    /// Type of its value.
    pub signature: &'a str,
    /// The setting.
    pub row: &'static Setting,
}

type Texts = Result<Option<Vec<String>>, Fault>;

/// The values of the setting's lines, or none if values of this type do not write it.
pub fn texts(property: &Property<'_>, body: &mut Reader<'_>) -> Texts {
    let one = |text: String| Ok(Some(vec![text]));
    let name = property.name;
    match property.signature {
        "s" if !is_textual(property.row.kind) => Ok(None),
        "s" => one(text(property, body.str()?)?),
        "b" => match property.row.kind {
            Kind::Bool | Kind::BoolOr(_) | Kind::Raw => one(yes_no(body.bool()?).to_owned()),
            _ => Ok(None),
        },
        "t" => Ok(number(property, body.u64()?).map(|text| vec![text])),
        "u" => Ok(small_number(property, body.u32()?).map(|text| vec![text])),
        "i" => Ok(signed_number(property, body.i32()?)?.map(|text| vec![text])),
        "q" => one(body.u16()?.to_string()),
        "as" => list(property, &body.strs()?),
        "ay" => bytes(property, body.bytes()?),
        "aay" => {
            let items = body.array(b'a', |r| r.bytes())?;
            let items: Result<Vec<String>, Fault> =
                items.into_iter().map(|item| Ok(quoted(utf8(item, name)?))).collect();
            lines_or_reset(items?)
        }
        "a(ss)" => pairs(property, body),
        "a(st)" => {
            let items = body.array(b'(', |r| {
                r.align(8)?;
                Ok((r.str()?, r.u64()?))
            })?;
            let is_span = name.ends_with("USec");
            let of = |value| if is_span { span(value) } else { or_infinity(value) };
            let items: Result<Vec<String>, Fault> = items
                .into_iter()
                .map(|(path, value)| Ok(format!("{} {}", word(path, name)?, of(value))))
                .collect();
            lines_or_reset(items?)
        }
        "a(sb)" => {
            let items = body.array(b'(', |r| {
                r.align(8)?;
                Ok((r.str()?, r.bool()?))
            })?;
            let items: Result<Vec<String>, Fault> = items
                .into_iter()
                .map(|(path, ignore)| Ok(format!("{}{}", dash(ignore), literal(path, name)?)))
                .collect();
            lines_or_reset(items?)
        }
        "a(sst)" => {
            let items = body.array(b'(', |r| {
                r.align(8)?;
                Ok((r.str()?, r.str()?, r.u64()?))
            })?;
            let items: Result<Vec<String>, Fault> = items
                .into_iter()
                .map(|(from, to, flags)| match property.row.kind {
                    Kind::OpenFile => open_file(name, (from, to, flags)),
                    _ => Ok(quoted(&format!("{}:{}", colons(from), colons(to)))),
                })
                .collect();
            lines_or_reset(items?)
        }
        "a(ssbt)" => mounts(body),
        "a(iayu)" => addresses(body),
        "a(say)" => credentials(property, body),
        "a(iiqq)" => ports(body),
        "(bas)" => {
            body.align(8)?;
            let (allow, words) = (body.bool()?, body.strs()?);
            let words: Result<Vec<String>, Fault> =
                words.into_iter().map(|text| word(text, name)).collect();
            one(format!("{}{}", if allow { "" } else { "~" }, words?.join(" ")))
        }
        "(bs)" => {
            body.align(8)?;
            let (ignore, text) = (body.bool()?, body.str()?);
            one(format!("{}{}", dash(ignore), literal(text, name)?))
        }
        "(aiai)" => {
            body.align(8)?;
            let codes = body.array(b'i', |r| r.i32())?;
            let signals = body.array(b'i', |r| r.i32())?;
            let mut words: Vec<String> = codes.iter().map(i32::to_string).collect();
            for number in signals {
                words.push(signal(number, name)?);
            }
            one(words.join(" "))
        }
        "a(sasb)" | "a(sasas)" => commands(property, body),
        _ => Ok(None),
    }
}

/// Whether D-Bus has the value as one text.
fn is_textual(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Text
            | Kind::Raw
            | Kind::Path
            | Kind::Word(_)
            | Kind::BoolOr(_)
            | Kind::Names
            | Kind::Calendar
    )
}

/// One line for each; none at all empties the list.
fn lines_or_reset(items: Vec<String>) -> Texts {
    Ok(Some(if items.is_empty() { vec![String::new()] } else { items }))
}

const fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

const fn dash(on: bool) -> &'static str {
    if on { "-" } else { "" }
}

/// A time span of µs.
pub fn span(usec: u64) -> String {
    match usec {
        u64::MAX => "infinity".to_owned(),
        usec => format!("{usec}us"),
    }
}

fn or_infinity(value: u64) -> String {
    match value {
        u64::MAX => "infinity".to_owned(),
        value => value.to_string(),
    }
}

fn invalid(name: &str, why: &str) -> Fault {
    BusError::invalid_args(format!("The value of property {name} {why}.")).into()
}

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| invalid(name, "is not UTF-8"))
}

/// A text that stands for itself to the end of its line: its `%` are no specifiers.
pub fn literal(text: &str, name: &str) -> Result<String, Fault> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(invalid(name, "has a control character"));
    }
    if text.ends_with('\\') || text.trim() != text {
        return Err(invalid(name, "begins or ends with what a unit file does not keep"));
    }
    Ok(text.replace('%', "%%"))
}

/// A text of a property whose value is one text.
fn text(property: &Property<'_>, text: &str) -> Result<String, Fault> {
    // What people are told may come from anywhere.
    match property.row.name {
        "Description" => {
            let clean: String =
                text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            literal(clean.trim().trim_end_matches('\\'), property.name)
        }
        _ => literal(text, property.name),
    }
}

/// A text as one word of several.
fn word(text: &str, name: &str) -> Result<String, Fault> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"\"'\\".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => literal(text, name),
        false => Ok(quoted(text)),
    }
}

/// A text in quotes, as systemd.syntax(7) has it.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '%' => out.push_str("%%"),
            c if c.is_control() => {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    write!(out, "\\x{byte:02x}").expect("writing to a String does not fail");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A path in a list of paths with colons between.
fn colons(path: &str) -> String {
    path.replace('\\', "\\\\").replace(':', "\\:")
}

/// `t`
fn number(property: &Property<'_>, value: u64) -> Option<String> {
    Some(match (property.row.kind, property.row.name) {
        (_, "CPUQuota") => match value {
            u64::MAX => String::new(),
            // Of a second, in hundredths of a per cent.
            value => format!("{}.{:02}%", value / 10_000, value % 10_000 / 100),
        },
        (_, "TimerSlackNSec") => format!("{value}ns"),
        (_, "RestrictNamespaces") => namespaces(value),
        (_, "MountFlags") => match value {
            0 => String::new(),
            flags if flags & (1 << 20) != 0 => "shared".to_owned(),
            flags if flags & (1 << 19) != 0 => "slave".to_owned(),
            flags if flags & (1 << 18) != 0 => "private".to_owned(),
            _ => return None,
        },
        (_, "CoredumpFilter") => format!("{value:#x}"),
        (_, "CPUWeight" | "StartupCPUWeight") => match value {
            u64::MAX => String::new(),
            0 => "idle".to_owned(),
            value => value.to_string(),
        },
        (_, "IOWeight" | "StartupIOWeight") if value == u64::MAX => String::new(),
        (Kind::Span, _) => span(value),
        (Kind::Memory | Kind::Tasks | Kind::Bytes, _) => or_infinity(value),
        (Kind::Capabilities, _) => capabilities(value),
        (Kind::Number(..), _) => value.to_string(),
        (
            Kind::Raw,
            "CPUShares" | "StartupCPUShares" | "BlockIOWeight" | "StartupBlockIOWeight",
        ) => value.to_string(),
        _ => return None,
    })
}

/// A set of capabilities that is no change of another.
fn capabilities(set: u64) -> String {
    let names: Vec<String> = (0..64)
        .filter(|bit| set & (1 << bit) != 0)
        .filter_map(capability_name)
        .map(|name| format!("CAP_{name}"))
        .collect();
    let all = (0..64).filter_map(capability_name).count();
    match names.len() == all {
        true => "~".to_owned(),
        false => names.join(" "),
    }
}

/// `RestrictNamespaces=` by the flags of clone(2) that are allowed.
fn namespaces(flags: u64) -> String {
    const NAMES: [(u64, &str); 7] = [
        (0x0200_0000, "cgroup"),
        (0x0800_0000, "ipc"),
        (0x4000_0000, "net"),
        (0x0002_0000, "mnt"),
        (0x2000_0000, "pid"),
        (0x1000_0000, "user"),
        (0x0400_0000, "uts"),
    ];
    let allowed: Vec<&str> =
        NAMES.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name).collect();
    match allowed.len() {
        0 => "yes".to_owned(),
        7 => "no".to_owned(),
        _ => allowed.join(" "),
    }
}

/// `u`
fn small_number(property: &Property<'_>, value: u32) -> Option<String> {
    let share = |most: f64| format!("{:.2}%", f64::from(value) / most * 100.0);
    Some(match property.row.kind {
        Kind::Memory | Kind::Tasks if property.name.ends_with("Scale") => {
            share(f64::from(u32::MAX))
        }
        Kind::Percent => share(f64::from(u32::MAX)),
        Kind::Mode => format!("{value:04o}"),
        Kind::CountOrInfinity if value == u32::MAX => "infinity".to_owned(),
        Kind::CountOrInfinity | Kind::Number(..) => value.to_string(),
        _ => return None,
    })
}

/// `i`
fn signed_number(property: &Property<'_>, value: i32) -> Result<Option<String>, Fault> {
    const POLICIES: [&str; 6] = ["other", "fifo", "rr", "batch", "", "idle"];
    const MEMORY: [&str; 5] = ["default", "preferred", "bind", "interleave", "local"];
    let index = usize::try_from(value).ok();
    let name_of = |names: &[&str]| {
        index
            .and_then(|index| names.get(index))
            .filter(|name| !name.is_empty())
            .map(|n| (*n).to_owned())
    };
    let name = property.name;
    Ok(match (property.row.kind, property.row.name) {
        (Kind::Signal, _) => Some(signal(value, name)?),
        (_, "CPUSchedulingPolicy") => name_of(&POLICIES),
        (_, "NUMAPolicy") => name_of(&MEMORY),
        (_, "SecureBits") => Some(
            (0..6)
                .filter(|bit| value & (1 << bit) != 0)
                .map(|bit| SECURE_BITS[bit])
                .collect::<Vec<_>>()
                .join(" "),
        ),
        (_, "SyslogFacility") => Some((value >> 3).to_string()),
        (_, "LogLevelMax") if value < 0 => Some("debug".to_owned()),
        (_, "IOSchedulingClass" | "SyslogLevel" | "LogLevelMax" | "SystemCallErrorNumber") => {
            Some(value.to_string())
        }
        (Kind::Number(..), _) => Some(value.to_string()),
        _ => None,
    })
}

fn signal(number: i32, name: &str) -> Result<String, Fault> {
    match Signal::new(number) {
        Some(signal) => Ok(signal.to_string()),
        None => Err(invalid(name, "is not a signal")),
    }
}

/// `as`
fn list(property: &Property<'_>, items: &[&str]) -> Texts {
    let name = property.name;
    if items.is_empty() {
        return Ok(Some(vec![String::new()]));
    }
    let joined = |items: Result<Vec<String>, Fault>| Ok(Some(vec![items?.join(" ")]));
    match property.row.kind {
        Kind::Environment => joined(Ok(items.iter().map(|item| quoted(item)).collect())),
        Kind::Units(_) | Kind::Names => {
            joined(items.iter().map(|item| literal(item, name)).collect())
        }
        Kind::Words | Kind::MountsFor | Kind::Raw | Kind::Text | Kind::Capabilities => {
            joined(items.iter().map(|item| word(item, name)).collect())
        }
        Kind::Calendar => {
            items.iter().map(|item| literal(item, name)).collect::<Result<_, _>>().map(Some)
        }
        _ => Ok(None),
    }
}

/// `ay`
fn bytes(property: &Property<'_>, bytes: &[u8]) -> Texts {
    let one = |text: String| Ok(Some(vec![text]));
    match (property.row.kind, property.row.name) {
        (Kind::Indexes, _) | (_, "NUMAMask") => one(indexes(bytes)),
        (_, "StandardInputData") => one(base64(bytes)),
        (_, "RootHash" | "RootHashSignature") => {
            one(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        }
        _ => Ok(None),
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Numbers of the bits that are set, as ranges.
fn indexes(bytes: &[u8]) -> String {
    let is_set = |bit: usize| bytes.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0);
    let mut ranges: Vec<String> = Vec::new();
    let mut bit = 0;
    while bit < bytes.len() * 8 {
        let first = bit;
        while is_set(bit) {
            bit += 1;
        }
        match bit - first {
            0 => {}
            1 => ranges.push(first.to_string()),
            _ => ranges.push(format!("{first}-{}", bit - 1)),
        }
        bit += 1;
    }
    ranges.join(" ")
}

/// `a(ss)`
fn pairs(property: &Property<'_>, body: &mut Reader<'_>) -> Texts {
    let items = body.array(b'(', |r| {
        r.align(8)?;
        Ok((r.str()?, r.str()?))
    })?;
    let name = property.name;
    let between = match property.row.name {
        "DeviceAllow" => " ",
        "LoadCredential"
        | "LoadCredentialEncrypted"
        | "TemporaryFileSystem"
        | "BPFProgram"
        | "RootImageOptions" => ":",
        _ => return Ok(None),
    };
    let mut lines = Vec::new();
    for (first, second) in items {
        lines.push(match (between, second) {
            (" ", second) => format!("{} {}", literal(first, name)?, literal(second, name)?)
                .trim_end()
                .to_owned(),
            (_, "") => literal(first, name)?,
            (_, second) if property.row.name == "TemporaryFileSystem" => {
                quoted(&format!("{}:{second}", colons(first)))
            }
            (between, second) => {
                format!("{}{between}{}", literal(first, name)?, literal(second, name)?)
            }
        });
    }
    lines_or_reset(lines)
}

/// One of `OpenFile`: a path, the name of the descriptor and the bits of the options.
fn open_file(property: &str, (path, name, bits): (&str, &str, u64)) -> Result<String, Fault> {
    let words = OpenOptions::WORDS;
    if bits >> words.len() != 0 {
        return Err(invalid(property, "has an option that is none"));
    }
    let is_set = |(at, word): (usize, &&'static str)| (bits >> at & 1 == 1).then_some(*word);
    let options: Vec<&str> = words.iter().enumerate().filter_map(is_set).collect();
    literal(format!("{path}:{name}:{}", options.join(",")).trim_end_matches(':'), property)
}

/// `a(ssbt)`: what is bound where, whether it may be missing, and flags of mount(2).
fn mounts(body: &mut Reader<'_>) -> Texts {
    const RECURSIVE: u64 = 16384;
    let items = body.array(b'(', |r| {
        r.align(8)?;
        Ok((r.str()?, r.str()?, r.bool()?, r.u64()?))
    })?;
    let line = |(from, to, ignore, flags): (&str, &str, bool, u64)| {
        let options = if flags & RECURSIVE != 0 { "rbind" } else { "norbind" };
        quoted(&format!("{}{}:{}:{options}", dash(ignore), colons(from), colons(to)))
    };
    lines_or_reset(items.into_iter().map(line).collect())
}

/// `a(iayu)`: family, address, bits that count.
fn addresses(body: &mut Reader<'_>) -> Texts {
    let items = body.array(b'(', |r| {
        r.align(8)?;
        Ok((r.i32()?, r.bytes()?, r.u32()?))
    })?;
    let mut words = Vec::new();
    for (_, bytes, prefix) in items {
        let address = match bytes.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(bytes).expect("there are four")),
            16 => IpAddr::from(<[u8; 16]>::try_from(bytes).expect("there are sixteen")),
            _ => return Err(Fault::Garbage(WireError::Malformed)),
        };
        words.push(format!("{address}/{prefix}"));
    }
    lines_or_reset(words)
}

/// `a(iiqq)`: family, protocol, how many ports and the first of them (systemd.resource-control(5), `SocketBindAllow=`).
fn ports(body: &mut Reader<'_>) -> Texts {
    let items = body.array(b'(', |r| {
        r.align(8)?;
        Ok((r.i32()?, r.i32()?, r.u16()?, r.u16()?))
    })?;
    let rule = |(family, protocol, count, first): (i32, i32, u16, u16)| {
        let family = match family {
            2 => "ipv4:",
            10 => "ipv6:",
            _ => "",
        };
        let protocol = match protocol {
            6 => "tcp:",
            17 => "udp:",
            _ => "",
        };
        let ports = match count {
            0 => "any".to_owned(),
            1 => first.to_string(),
            count => format!("{first}-{}", u32::from(first) + u32::from(count) - 1),
        };
        // A rule for everything has no colon at its end.
        match (protocol, count) {
            ("", 0) if !family.is_empty() => family.trim_end_matches(':').to_owned(),
            (protocol, 0) if !protocol.is_empty() => {
                format!("{family}{}", protocol.trim_end_matches(':'))
            }
            _ => format!("{family}{protocol}{ports}"),
        }
    };
    lines_or_reset(items.into_iter().map(rule).collect())
}

/// `a(say)`: `SetCredential=name:value`.
fn credentials(property: &Property<'_>, body: &mut Reader<'_>) -> Texts {
    let items = body.array(b'(', |r| {
        r.align(8)?;
        Ok((r.str()?, r.bytes()?))
    })?;
    let mut lines = Vec::new();
    for (id, data) in items {
        let mut line = format!("{}:", literal(id, property.name)?);
        if property.row.name.ends_with("Encrypted") {
            line.push_str(&base64(data));
        } else {
            for &byte in data {
                match byte {
                    b'%' => line.push_str("%%"),
                    b'\\' => line.push_str("\\\\"),
                    b' '..=b'~' => line.push(char::from(byte)),
                    byte => {
                        write!(line, "\\x{byte:02x}").expect("writing to a String does not fail");
                    }
                }
            }
            // Of what a line ends with a unit file does not keep everything.
            if let Some(end) = line.chars().last().filter(|c| c.is_ascii_whitespace()) {
                line.pop();
                write!(line, "\\x{:02x}", u32::from(end))
                    .expect("writing to a String does not fail");
            }
        }
        lines.push(line);
    }
    lines_or_reset(lines)
}

/// `a(sasb)` and `a(sasas)`: program, arguments with its name, and how it is run.
fn commands(property: &Property<'_>, body: &mut Reader<'_>) -> Texts {
    if property.row.kind != Kind::Command {
        return Ok(None);
    }
    let is_extended = property.signature == "a(sasas)";
    let items = body.array(b'(', |r| {
        r.align(8)?;
        let (program, arguments) = (r.str()?, r.strs()?);
        let flags = match is_extended {
            true => r.strs()?,
            false if r.bool()? => vec!["ignore-failure"],
            false => Vec::new(),
        };
        Ok((program, arguments, flags))
    })?;
    let mut lines = Vec::new();
    for (program, arguments, flags) in items {
        let Some((first, rest)) = arguments.split_first() else {
            return Err(invalid(property.name, "has a command without arguments"));
        };
        let mut line = String::new();
        for flag in flags {
            line.push_str(match flag {
                "ignore-failure" => "-",
                "privileged" => "+",
                "no-setuid" => "!",
                "ambient" => "!!",
                "no-env-expand" => ":",
                _ => return Err(invalid(property.name, "has an unknown flag")),
            });
        }
        let is_renamed = *first != program;
        if is_renamed {
            line.push('@');
        }
        line.push_str(&quoted(program));
        for argument in is_renamed.then_some(first).into_iter().chain(rest) {
            line.push(' ');
            // A `$` in it means the same as in a unit file.
            line.push_str(&quoted(argument));
        }
        lines.push(line);
    }
    lines_or_reset(lines)
}
