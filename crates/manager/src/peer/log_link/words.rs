//! What the log daemon is sent about units and their streams: names in init's store, and what settings come to in
//! packets and headers
//! of [`warren_wire::log_link`]. Pure.

use std::borrow::Cow;
use std::time::Duration;

use warren_core::settings::{Compiled, TypeSettings};
use warren_unit::config::{Copies, ExecConfig};
use warren_wire::log_link::{self, Header, UnitSettings};

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
    let interval = exec.log_rate_limit_interval;
    let interval_us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let settings = UnitSettings {
        unit: name.unit.as_str().into(),
        invocation: (name.invocation != 0).then(|| format!("{:032x}", name.invocation).into()),
        cgroup: cgroup.map(|(cgroup, _)| format!("/{cgroup}").into()),
        cgroup_id: cgroup.and_then(|(_, id)| id),
        identifier: identifier_of(exec, &name.identifier).as_bytes().into(),
        priority: Some(priority_of(exec).into()),
        level_prefix: exec.syslog_level_prefix,
        copies: copies_of(name.copies),
        level_max: exec.log_level_max.map(u64::from),
        rate_interval_us: interval.map(interval_us),
        rate_burst: exec.log_rate_limit_burst.map(u64::from),
        class: exec.log_class.as_deref().map(Cow::from),
        extra: exec.log_extra_fields.iter().map(|field| field.as_bytes()).collect(),
        filter: exec.log_filter_patterns.iter().map(|pattern| pattern.as_bytes()).collect(),
    };
    settings.write(is_stream.then_some(name.key), SETTINGS_BYTES_MAX)
}

fn priority_of(exec: &ExecConfig) -> u32 {
    u32::from(exec.syslog_facility) << 3 | u32::from(exec.syslog_level)
}

/// A syslog daemon gets what the settings of the log daemon say.
fn copies_of(Copies { kmsg, console }: Copies) -> log_link::Copies {
    log_link::Copies { syslog: false, kmsg, console }
}

/// What a client says first of its stream.
pub(crate) fn stream_header(
    unit: &str,
    exec: &ExecConfig,
    (identifier, copies): (&str, Copies),
) -> String {
    let header = Header {
        identifier: identifier_of(exec, identifier).replace('\n', " ").into_bytes(),
        unit: unit.as_bytes().to_vec(),
        priority: priority_of(exec),
        level_prefix: exec.syslog_level_prefix,
        copies: copies_of(copies),
    };
    String::from_utf8(header.to_bytes()).expect("it is made of texts")
}
