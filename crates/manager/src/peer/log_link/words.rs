//! What is told of units and their streams, in words: names in init's store, packets, headers. Pure.

use crate::base::journal_field::put_field;
use warren_core::settings::{Compiled, TypeSettings};
use warren_unit::config::{Copies, ExecConfig};

/// A unit's settings are told up to this size of their packet, bytes: a socket takes 208 KiB by default (socket(7),
/// `wmem_default`).
pub(crate) const SETTINGS_BYTES_MAX: usize = 64 << 10;

/// Longest identifier of a unit's lines, bytes: as long as one that a client says in the header of a stream.
pub(crate) const OWN_IDENTIFIER_BYTES_MAX: usize = 255;

/// Begins the name of a stream in init's store.
pub(crate) const STREAM: &str = "stream/";

/// What is told of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamName {
    pub key: u64,
    pub unit: String,
    pub invocation: u128,
    pub identifier: String,
    /// Who else gets its lines.
    pub copies: Copies,
}

/// Words of who else gets a stream's lines.
fn words_of(Copies { kmsg, console }: Copies) -> Vec<&'static str> {
    let words = [("kmsg", kmsg), ("console", console)];
    words.into_iter().filter(|(_, is_said)| *is_said).map(|(word, _)| word).collect()
}

impl StreamName {
    /// `stream/KEY/UNIT/INVOCATION/IDENTIFIER`: no unit has a slash in its name. The words of who else gets it
    /// are with the number, as in `7+console`.
    pub fn stored(&self) -> String {
        let StreamName { key, unit, invocation, identifier, copies } = self;
        let words: String = words_of(*copies).into_iter().map(|word| format!("+{word}")).collect();
        format!("{STREAM}{key}{words}/{unit}/{invocation:032x}/{identifier}")
    }

    pub fn parse(name: &str) -> Option<StreamName> {
        let mut parts = name.strip_prefix(STREAM)?.splitn(4, '/');
        let mut next = || parts.next();
        let mut first = next()?.split('+');
        let key = first.next()?.parse().ok()?;
        let mut copies = Copies::default();
        for word in first {
            match word {
                "kmsg" => copies.kmsg = true,
                "console" => copies.console = true,
                _ => return None,
            }
        }
        Some(StreamName {
            key,
            copies,
            unit: next()?.to_owned(),
            invocation: u128::from_str_radix(next()?, 16).ok()?,
            identifier: next()?.to_owned(),
        })
    }
}

/// The settings that say how output is logged.
pub(crate) fn exec_of(settings: &Compiled) -> Option<&ExecConfig> {
    match &settings.own {
        TypeSettings::Service(config) => Some(&config.exec),
        TypeSettings::Socket(config) => Some(&config.exec),
        TypeSettings::Mount(config) => Some(&config.exec),
        _ => None,
    }
}

/// What the lines of a unit are called: by its settings, or else by the program.
fn identifier_of<'a>(exec: &'a ExecConfig, program: &'a str) -> &'a str {
    let identifier = exec.syslog_identifier.as_deref().unwrap_or(program);
    &identifier[..identifier.floor_char_boundary(OWN_IDENTIFIER_BYTES_MAX)]
}

/// What the daemon is told of a unit, and of a stream of it; and whether some settings have no room in it.
pub(crate) fn packet(
    name: &StreamName,
    is_stream: bool,
    cgroup: Option<(&str, Option<u64>)>,
    exec: &ExecConfig,
) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let mut put = |field: &str, value: &[u8]| put_field(&mut out, field, value);
    let mut number = |field: &str, value: u64| put(field, value.to_string().as_bytes());
    if is_stream {
        number("STREAM", name.key);
    }
    number("PRIORITY", u64::from(exec.syslog_facility) << 3 | u64::from(exec.syslog_level));
    number("LEVEL_PREFIX", u64::from(exec.syslog_level_prefix));
    if let Some((_, Some(id))) = cgroup {
        number("CGROUP_ID", id);
    }
    if let Some(level) = exec.log_level_max {
        number("LEVEL_MAX", u64::from(level));
    }
    if let Some(interval) = exec.log_rate_limit_interval {
        number("RATE_INTERVAL_US", u64::try_from(interval.as_micros()).unwrap_or(u64::MAX));
    }
    if let Some(burst) = exec.log_rate_limit_burst {
        number("RATE_BURST", u64::from(burst));
    }
    let copies = words_of(name.copies);
    if !copies.is_empty() {
        put("COPIES", copies.join(" ").as_bytes());
    }
    put("KIND", if is_stream { b"stream" } else { b"unit" });
    put("UNIT", name.unit.as_bytes());
    if name.invocation != 0 {
        put("INVOCATION", format!("{:032x}", name.invocation).as_bytes());
    }
    if let Some((cgroup, _)) = cgroup {
        put("CGROUP", format!("/{cgroup}").as_bytes());
    }
    if let Some(class) = &exec.log_class {
        put("CLASS", class.as_bytes());
    }
    put("IDENTIFIER", identifier_of(exec, &name.identifier).as_bytes());
    let extra = exec.log_extra_fields.iter().map(|field| ("EXTRA", field));
    let patterns = exec.log_filter_patterns.iter().map(|pattern| ("FILTER", pattern));
    let mut is_long = false;
    for (field, value) in extra.chain(patterns) {
        match out.len() + value.len() <= SETTINGS_BYTES_MAX {
            true => put_field(&mut out, field, value.as_bytes()),
            false => is_long = true,
        }
    }
    (out, is_long)
}

/// What a client says first of its stream: seven lines, which `warren_log_daemon::input::stream` reads.
pub(crate) fn stream_header(
    unit: &str,
    exec: &ExecConfig,
    (identifier, Copies { kmsg, console }): (&str, Copies),
) -> String {
    // A syslog daemon gets what the settings of the log daemon say.
    let copies = [false, kmsg, console].map(|copy| u8::from(copy).to_string()).join("\n");
    let identifier = identifier_of(exec, identifier).replace('\n', " ");
    let priority = u16::from(exec.syslog_facility) << 3 | u16::from(exec.syslog_level);
    let prefix = u8::from(exec.syslog_level_prefix);
    format!("{identifier}\n{unit}\n{priority}\n{prefix}\n{copies}\n")
}
