//! `/machine` and `/fields/NAME`: facts about the machine, and the values of a field.

use std::path::Path;

use serde_json::{Value, json};
use warren_sys::virtualization;

use crate::gateway::Failure;
use warren_log_show::report::report;
use warren_log_store::error::Error;
use warren_log_store::host::Host;
use warren_log_store::query::Union;

/// Longest line of os-release(5) that counts, bytes.
const NAME_BYTES_MAX: usize = 256;

/// About this machine and what is kept of it: all values are texts, as the manual page has them.
pub fn machine(journal: &Union, bytes: u64) -> Result<Value, Failure> {
    let host = Host::read();
    let mut all = json!({
        "machine_id": host.machine.to_string(),
        "boot_id": host.boot.to_string(),
        "hostname": host.name(),
        "os_pretty_name": pretty_name(),
        "virtualization": virtualization(),
        "usage": bytes.to_string(),
    });
    let (boots, damage) = journal.boots()?;
    report(&damage);
    let first = boots.iter().map(|boot| boot.realtime_min_us).min();
    let last = boots.iter().map(|boot| boot.realtime_max_us).max();
    if let Some((first, last)) = first.zip(last) {
        all["cutoff_from_realtime"] = first.to_string().into();
        all["cutoff_to_realtime"] = last.to_string().into();
    }
    Ok(all)
}

/// The system's name in os-release(5).
fn pretty_name() -> String {
    let paths = ["/etc/os-release", "/usr/lib/os-release"];
    let path = paths.into_iter().find(|path| Path::new(path).exists()).unwrap_or(paths[0]);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux");
    let value = value.trim_matches(['"', '\'']);
    value.chars().take(NAME_BYTES_MAX).collect()
}

/// A name of systemd-detect-virt(1).
fn virtualization() -> &'static str {
    virtualization::container().or_else(virtualization::machine).unwrap_or("bare")
}

/// Most bytes of the values of a field, in memory: a client that wants those of `MESSAGE` wants the whole log.
const VALUES_BYTES_MAX: usize = 16 << 20;

/// Every value of a field, one a line; nothing where these are too many.
pub fn values(journal: &Union, name: &str, as_json: bool) -> Result<Option<Vec<u8>>, Failure> {
    let found = journal.values_within(name.as_bytes(), VALUES_BYTES_MAX);
    let (values, damage) = match found {
        Err(Error::TooLarge { .. }) => return Ok(None),
        found => found?,
    };
    report(&damage);
    let mut out = Vec::new();
    for value in values {
        match as_json {
            true => out.extend_from_slice(json!({ name: text(&value) }).to_string().as_bytes()),
            false => out.extend_from_slice(&value),
        }
        out.push(b'\n');
    }
    Ok(Some(out))
}

/// A value as the JSON of entries has it: a text, or its bytes as numbers.
fn text(value: &[u8]) -> Value {
    std::str::from_utf8(value).map_or_else(|_| value.into(), Value::from)
}
