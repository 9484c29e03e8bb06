//! Entries for collectors of logs: Loki's push API and OTLP/HTTP, both as JSON. Pure.
//!
//! - Owns: which fields become what, and the bound on how many values a label has.
//! - Must not: make a label of what may have any number of values: each set of labels is a stream that the receiver keeps
//!   in memory.
//!
//! Sources: Loki's HTTP API, `POST /loki/api/v1/push`; the OTLP specification, `OTLP/HTTP`, JSON encoding; OpenTelemetry's
//! log data model, appendix B (syslog).

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Value, json};
use warren_log_store::entry::Entry;

use crate::upload::batch::Batch;

/// Units that are labels by their own names, if units are labels at all; all others are `other` there.
const UNIT_LABELS_MAX: usize = 500;

/// The label of the other ones.
const OTHER: &str = "other";

/// Longest value of a field beside the message, bytes.
const VALUE_BYTES_MAX: usize = 1024;

/// Fields that go with a line, and the names that they have there: of Loki, and of OpenTelemetry.
const FIELDS: [(&str, &str, &str); 9] = [
    ("_SYSTEMD_UNIT", "unit", "systemd.unit"),
    ("UNIT", "about_unit", "systemd.about_unit"),
    ("SYSLOG_IDENTIFIER", "identifier", "syslog.identifier"),
    ("_PID", "pid", "process.pid"),
    ("_UID", "uid", "process.owner.id"),
    ("_TRANSPORT", "transport", "systemd.transport"),
    ("_BOOT_ID", "boot_id", "systemd.boot_id"),
    ("MESSAGE_ID", "message_id", "systemd.message_id"),
    ("WARREN_REASON", "reason", "warrener.reason"),
];

/// Which collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Loki.
    Loki,
    /// What speaks OTLP.
    Otlp,
}

/// Makes JSON of entries for one receiver.
#[derive(Debug)]
pub struct Collector {
    kind: Kind,
    /// The unit is a label.
    labels_units: bool,
    /// Units that are labels by their own names.
    units: BTreeSet<String>,
}

impl Collector {
    /// For a receiver; `labels_units` makes the unit a label, those of a template all one.
    pub fn new(kind: Kind, labels_units: bool) -> Collector {
        Collector { kind, labels_units, units: BTreeSet::new() }
    }

    /// What an entry has in common with others, and the entry.
    pub fn fragment(&mut self, entry: &Entry) -> (Vec<u8>, Vec<u8>) {
        let label = self.labels_units.then(|| self.unit_label(entry));
        let (head, line) = match self.kind {
            Kind::Loki => loki(entry, label),
            Kind::Otlp => otlp(entry, label),
        };
        (head.to_string().into_bytes(), line.to_string().into_bytes())
    }

    /// A request of some entries.
    pub fn body(&self, batch: &Batch, part: &Range<usize>) -> Vec<u8> {
        let (begin, between, end): (&[u8], &[u8], &[u8]) = match self.kind {
            Kind::Loki => (br#"{"stream":"#, br#","values":["#, b"]}"),
            Kind::Otlp => (
                br#"{"resource":"#,
                br#","scopeLogs":[{"scope":{"name":"warren-journal-upload"},"logRecords":["#,
                b"]}]}",
            ),
        };
        let mut out = match self.kind {
            Kind::Loki => br#"{"streams":["#.to_vec(),
            Kind::Otlp => br#"{"resourceLogs":["#.to_vec(),
        };
        for (number, (head, lines)) in batch.by_head(part).into_iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            for piece in [begin, head, between, &lines.join(&b","[..]), end] {
                out.extend_from_slice(piece);
            }
        }
        out.extend_from_slice(b"]}");
        out
    }

    fn unit_label(&mut self, entry: &Entry) -> String {
        let name = template(&text(entry, "_SYSTEMD_UNIT").unwrap_or_default());
        let is_known = self.units.contains(&name);
        if is_known || self.units.len() < UNIT_LABELS_MAX {
            self.units.insert(name.clone());
            return name;
        }
        OTHER.to_owned()
    }
}

/// The template of an instance, else the name.
fn template(name: &str) -> String {
    match (name.split_once('@'), name.rsplit_once('.')) {
        (Some((before, _)), Some((_, suffix))) => format!("{before}@.{suffix}"),
        _ => name.to_owned(),
    }
}

/// A field as text: bytes that are no UTF-8 are U+FFFD.
fn text(entry: &Entry, name: &str) -> Option<String> {
    entry.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

fn short(entry: &Entry, name: &str) -> Option<String> {
    let value = entry.get(name)?;
    let kept = &value[..value.len().min(VALUE_BYTES_MAX)];
    Some(String::from_utf8_lossy(kept).into_owned())
}

/// The level of syslog(3); information where none is said.
fn level(entry: &Entry) -> u8 {
    let said =
        entry.get("PRIORITY").and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    said.filter(|level| *level <= 7).unwrap_or(6)
}

fn loki(entry: &Entry, unit: Option<String>) -> (Value, Value) {
    // Words that Grafana knows: five values.
    let level = match level(entry) {
        0..=2 => "critical",
        3 => "error",
        4 => "warn",
        5 | 6 => "info",
        _ => "debug",
    };
    let host = short(entry, "_HOSTNAME").unwrap_or_default();
    let mut labels = json!({"job": "warrener", "host": host, "level": level});
    if let Some(unit) = unit {
        labels["unit"] = Value::String(unit);
    }
    let fields: Map<String, Value> = FIELDS
        .iter()
        .filter_map(|(field, name, _)| Some(((*name).to_owned(), short(entry, field)?.into())))
        .collect();
    let at = time_ns(entry);
    (labels, json!([at, text(entry, "MESSAGE").unwrap_or_default(), fields]))
}

fn otlp(entry: &Entry, unit: Option<String>) -> (Value, Value) {
    let attribute =
        |name: &str, value: String| json!({"key": name, "value": {"stringValue": value}});
    let (number, word) = match level(entry) {
        0 => (21, "FATAL"),
        1 => (19, "ERROR3"),
        2 => (18, "ERROR2"),
        3 => (17, "ERROR"),
        4 => (13, "WARN"),
        5 => (10, "INFO2"),
        6 => (9, "INFO"),
        _ => (5, "DEBUG"),
    };
    let host = [("_HOSTNAME", "host.name"), ("_MACHINE_ID", "host.id")];
    let host = host.iter().filter_map(|(field, name)| Some(attribute(name, short(entry, field)?)));
    // Receivers make an index of it.
    let service = attribute("service.name", unit.unwrap_or_else(|| "journal".to_owned()));
    let resource: Vec<Value> = host.chain([service]).collect();
    let attributes: Vec<Value> = FIELDS
        .iter()
        .filter_map(|(field, _, name)| Some(attribute(name, short(entry, field)?)))
        .collect();
    let at = time_ns(entry);
    let record = json!({
        "timeUnixNano": at, "observedTimeUnixNano": at, "severityNumber": number, "severityText": word,
        "body": {"stringValue": text(entry, "MESSAGE").unwrap_or_default()}, "attributes": attributes,
    });
    (json!({"attributes": resource}), record)
}

/// Both want a text: no number of JSON has so many digits.
fn time_ns(entry: &Entry) -> String {
    format!("{}000", entry.stamp.realtime_us)
}

/// What a receiver of OTLP left out though it answered with success: how many, and why.
pub fn left_out(answer: &str) -> Option<(u64, String)> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let part = answer.get("partialSuccess")?;
    // 64 bits are a text in JSON of protocol buffers, and some receivers write a number.
    let rejected = part.get("rejectedLogRecords")?;
    let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok())?;
    let why = part.get("errorMessage").and_then(Value::as_str).unwrap_or_default();
    (rejected > 0).then(|| (rejected, why.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use warren_log_store::entry::{Fields, Id128, Stamp};
    use warren_log_store::query::Cursor;

    use super::*;

    fn entry(own: &[(&str, &str)], unit: &str) -> Entry {
        let context = [("_HOSTNAME", "h1"), ("_MACHINE_ID", "m1"), ("_SYSTEMD_UNIT", unit)];
        Entry {
            sequence: Id128([1; 16]),
            seqnum: 1,
            stamp: Stamp { realtime_us: 1_795_000_000_000_001, ..Stamp::default() },
            context: Arc::new(context.into_iter().collect()),
            fields: own.iter().copied().collect::<Fields>(),
        }
    }

    fn body(mut collector: Collector, entries: &[Entry]) -> Value {
        let mut batch = Batch::default();
        for entry in entries {
            let (head, line) = collector.fragment(entry);
            batch.add(&head, &line, Cursor::of(entry));
        }
        let body = collector.body(&batch, &(0..entries.len()));
        serde_json::from_slice(&body).expect("it is JSON")
    }

    #[test]
    fn loki_has_few_labels_and_the_rest_beside_the_line() {
        let entries = [
            entry(
                &[("MESSAGE", "one \"quoted\"\n"), ("PRIORITY", "3"), ("_PID", "7")],
                "a.service",
            ),
            entry(&[("MESSAGE", "two"), ("PRIORITY", "6")], "b.service"),
            entry(&[("MESSAGE", "three"), ("PRIORITY", "3")], "b.service"),
        ];
        let at = "1795000000000001000";
        let stream = |level: &str| json!({"job": "warrener", "host": "h1", "level": level});
        let expected = json!({"streams": [
            {"stream": stream("error"), "values": [
                [at, "one \"quoted\"\n", {"unit": "a.service", "pid": "7"}],
                [at, "three", {"unit": "b.service"}],
            ]},
            {"stream": stream("info"), "values": [[at, "two", {"unit": "b.service"}]]},
        ]});
        assert_eq!(body(Collector::new(Kind::Loki, false), &entries), expected);
    }

    #[test]
    fn otlp_has_a_resource_and_records() {
        let one = entry(&[("MESSAGE", "one"), ("PRIORITY", "4")], "a.service");
        let told = body(Collector::new(Kind::Otlp, true), &[one]);
        let resource = &told["resourceLogs"][0]["resource"]["attributes"];
        let names: Vec<&str> = (0..3).filter_map(|n| resource[n]["key"].as_str()).collect();
        assert_eq!(names, ["host.name", "host.id", "service.name"]);
        assert_eq!(resource[2]["value"]["stringValue"], "a.service");
        let record = &told["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!(record["timeUnixNano"], "1795000000000001000");
        assert_eq!(
            (&record["severityNumber"], &record["severityText"]),
            (&json!(13), &json!("WARN"))
        );
        assert_eq!(record["body"]["stringValue"], "one");
        assert_eq!(record["attributes"][0]["value"]["stringValue"], "a.service");
    }

    #[test]
    fn units_are_as_many_labels_as_there_is_room_for() {
        let mut collector = Collector::new(Kind::Loki, true);
        let mut label = |unit: &str| {
            let (head, _) = collector.fragment(&entry(&[("MESSAGE", "x")], unit));
            let labels: Value = serde_json::from_slice(&head).expect("it is JSON");
            labels["unit"].as_str().map(str::to_owned).unwrap_or_default()
        };
        assert_eq!(label("web@17.service"), "web@.service");
        assert_eq!(label("web@18.service"), "web@.service");
        for n in 1..UNIT_LABELS_MAX {
            assert_eq!(label(&format!("u{n}.service")), format!("u{n}.service"));
        }
        assert_eq!(label("more.service"), OTHER);
        assert_eq!(label("web@19.service"), "web@.service");
        assert_eq!(label("u1.service"), "u1.service");
    }

    #[test]
    fn bytes_that_are_no_text_and_no_level_do_no_harm() {
        let mut fields = Fields::new();
        fields.push(b"MESSAGE", b"\xff\x00x");
        fields.push(b"PRIORITY", b"99");
        fields.push(b"SYSLOG_IDENTIFIER", &[b'y'; 5000]);
        let odd = Entry { fields, ..entry(&[], "a.service") };
        let told = body(Collector::new(Kind::Loki, false), &[odd]);
        let value = &told["streams"][0]["values"][0];
        assert_eq!(value[1], "\u{fffd}\u{0}x");
        assert_eq!(told["streams"][0]["stream"]["level"], "info");
        assert_eq!(value[2]["identifier"].as_str().map(str::len), Some(VALUE_BYTES_MAX));
    }

    #[test]
    fn what_was_left_out_is_read() {
        let of = |text: &str| left_out(text);
        let three = r#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too old"}}"#;
        assert_eq!(of(three), Some((3, "too old".to_owned())));
        assert_eq!(of(r#"{"partialSuccess":{"rejectedLogRecords":1}}"#), Some((1, String::new())));
        for none in ["{}", "", "x", r#"{"partialSuccess":{"rejectedLogRecords":0}}"#] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
