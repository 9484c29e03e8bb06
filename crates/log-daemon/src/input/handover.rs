//! What the manager tells the log daemon over their link: streams, units and its own messages.
//!
//! [`warren_wire::log_link`] says what is said. The daemon answers with `HELLO` when it begins (the manager then hands
//! over every stream that there is; those that the daemon has are told by their number) and tells of a stream that has
//! ended and was read to its end, or a tenth of a second later, with others.
//!
//! Pure. The manager's side is its module `log_link`; only root's end of that socket pair speaks
//! here, but nothing is taken on trust that would hurt: what is not understood is left out.

use regex::bytes::{Regex, RegexBuilder};

use crate::input::cgroup;
use crate::input::native;
use crate::input::stream::Header;
use warren_log_store::entry::{Fields, Id128, is_valid_name};
use warren_log_store::store::names::is_valid_class;
use warren_wire::log_link::{self, UnitSettings};

/// Most patterns of one unit.
const PATTERNS_MAX: usize = 64;

/// Largest program of a pattern, bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// One packet.
#[derive(Debug)]
pub enum Packet {
    /// A stream is handed over.
    Stream {
        /// The manager's number for it.
        key: u64,
        /// What it belongs to.
        unit: UnitLog,
    },
    /// Settings of a unit.
    Unit(UnitLog),
    /// A message of the manager.
    Entry {
        /// When it was made, µs since 1970.
        time_us: Option<u64>,
        /// It.
        fields: Fields,
    },
}

/// How messages of one unit are treated: systemd.exec(5), "LOGGING AND STANDARD INPUT/OUTPUT".
#[derive(Debug, Clone, Default)]
pub struct UnitLog {
    /// Name of the unit.
    pub name: String,
    /// Its current run.
    pub invocation: Option<Id128>,
    /// Its cgroup, from the root of the tree; empty where there is none.
    pub cgroup: String,
    /// The kernel's id of that cgroup.
    pub cgroup_id: Option<u64>,
    /// Identifier, priority and prefix of lines of its output.
    pub header: Header,
    /// `LogLevelMax=`.
    pub level_max: Option<u8>,
    /// `LogRateLimitIntervalSec=`, µs.
    pub rate_interval_us: Option<u64>,
    /// `LogRateLimitBurst=`.
    pub rate_burst: Option<u64>,
    /// `LogExtraFields=`.
    pub extra: Fields,
    /// `[X-Warren] LogClass=`.
    pub class: Option<String>,
    /// `LogFilterPatterns=` without and with a `~`.
    allowed: Vec<Regex>,
    denied: Vec<Regex>,
}

/// What a packet says, and what of it was left out and why.
pub fn parse(packet: &[u8]) -> (Vec<Packet>, Vec<String>) {
    let (mut parsed, mut faults) = (Vec::new(), Vec::new());
    let native::Parsed { entries, left } = native::parse(packet);
    if !left.is_empty() {
        faults.push("Ignored a part of a message of the manager: unknown format".to_owned());
    }
    for fields in entries {
        match parse_one(&fields, &mut faults) {
            Some(one) => parsed.push(one),
            None => faults.push("Ignored a message of the manager: unknown format".to_owned()),
        }
    }
    (parsed, faults)
}

fn parse_one(fields: &Fields, faults: &mut Vec<String>) -> Option<Packet> {
    let fields: Vec<_> = fields.iter().collect();
    Some(match log_link::Packet::read(&fields)? {
        log_link::Packet::Stream { key, settings } => {
            Packet::Stream { key, unit: UnitLog::of(&settings, faults) }
        }
        log_link::Packet::Unit(settings) => Packet::Unit(UnitLog::of(&settings, faults)),
        log_link::Packet::Entry { time_us, fields: own } => {
            let mut fields = Fields::new();
            own.into_iter().for_each(|(name, value)| fields.push(name, value));
            Packet::Entry { time_us, fields }
        }
    })
}

impl UnitLog {
    fn of(settings: &UnitSettings<'_>, faults: &mut Vec<String>) -> UnitLog {
        let name = settings.unit.clone().into_owned();
        let level_max = settings.level_max.and_then(|level| u8::try_from(level).ok());
        let class = settings.class.as_deref().filter(|class| is_valid_class(class));
        let mut unit = UnitLog {
            invocation: settings.invocation.as_deref().and_then(Id128::parse),
            cgroup: settings.cgroup.as_deref().unwrap_or_default().to_owned(),
            cgroup_id: settings.cgroup_id,
            header: Header {
                identifier: settings.identifier.to_vec(),
                unit: name.clone().into_bytes(),
                priority: settings.priority.map_or(6, |p| p.min(999) as u32),
                level_prefix: settings.level_prefix,
                copies: settings.copies,
            },
            level_max: level_max.filter(|level| *level < 8),
            rate_interval_us: settings.rate_interval_us,
            rate_burst: settings.rate_burst,
            class: class.map(str::to_owned),
            ..UnitLog::default()
        };
        settings.extra.iter().for_each(|field| unit.add_extra(field));
        settings.filter.iter().for_each(|pattern| unit.add_filter(&name, pattern, faults));
        unit.name = name;
        unit
    }

    fn add_extra(&mut self, assignment: &[u8]) {
        let Some(equals) = memchr::memchr(b'=', assignment) else { return };
        let (name, value) = (&assignment[..equals], &assignment[equals + 1..]);
        if is_valid_name(name) && name[0] != b'_' {
            self.extra.push(name, value);
        }
    }

    fn add_filter(&mut self, name: &str, pattern: &[u8], faults: &mut Vec<String>) {
        let pattern = String::from_utf8_lossy(pattern);
        let (list, pattern) = match pattern.strip_prefix('~') {
            Some(denied) => (&mut self.denied, denied),
            None => (&mut self.allowed, &*pattern),
        };
        if list.len() >= PATTERNS_MAX {
            return faults.push(format!("{name}: more than {PATTERNS_MAX} LogFilterPatterns="));
        }
        match RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build() {
            Ok(pattern) => list.push(pattern),
            Err(_) => {
                faults.push(format!("{name}: LogFilterPatterns={pattern}: not a valid pattern"))
            }
        }
    }

    /// Whether an entry of the unit is kept: `LogLevelMax=`, then `LogFilterPatterns=`, those
    /// that leave out before those that let in.
    pub fn keeps(&self, fields: &Fields) -> bool {
        if let (Some(max), Some([level])) = (self.level_max, fields.get("PRIORITY"))
            && level.is_ascii_digit()
            && level - b'0' > max
        {
            return false;
        }
        if self.denied.is_empty() && self.allowed.is_empty() {
            return true;
        }
        let Some(message) = fields.get("MESSAGE") else { return true };
        let any = |list: &[Regex]| list.iter().any(|pattern| pattern.is_match(message));
        !any(&self.denied) && (self.allowed.is_empty() || any(&self.allowed))
    }

    /// Appends the trusted fields that name the unit.
    pub fn put_identity(&self, fields: &mut Fields) {
        if self.cgroup.is_empty() {
            fields.push(b"_SYSTEMD_UNIT", self.name.as_bytes());
        } else {
            cgroup::put_fields(&self.cgroup, fields);
        }
        self.put_invocation(fields);
    }

    /// Appends the id of the unit's run.
    pub fn put_invocation(&self, fields: &mut Fields) {
        if let Some(id) = self.invocation {
            fields.push(b"_SYSTEMD_INVOCATION_ID", id.to_string().as_bytes());
        }
    }

    /// Appends `LogExtraFields=`.
    pub fn put_extra(&self, fields: &mut Fields) {
        self.extra.iter().for_each(|(name, value)| fields.push(name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_one(packet: &str) -> (Option<Packet>, Vec<String>) {
        let (mut packets, faults) = parse(format!("{packet}\n").as_bytes());
        assert!(packets.len() <= 1, "{packets:?}");
        (packets.pop(), faults)
    }

    fn unit(more: &str) -> (UnitLog, Vec<String>) {
        match parse_one(&format!("KIND=unit\nUNIT=a.service\n{more}")) {
            (Some(Packet::Unit(unit)), faults) => (unit, faults),
            other => panic!("no unit: {other:?}"),
        }
    }

    /// Which of the messages `PRIORITY text` are kept.
    fn check(settings: &str, messages: &[&str], kept: &[&str]) {
        let (unit, faults) = unit(settings);
        assert_eq!(faults, Vec::<String>::new(), "{settings}");
        let keeps = |message: &&&str| {
            let (priority, text) = message.split_once(' ').expect("a priority and a text");
            unit.keeps(&[("PRIORITY", priority), ("MESSAGE", text)].into_iter().collect())
        };
        let got: Vec<&str> = messages.iter().filter(keeps).copied().collect();
        assert_eq!(got, kept, "{settings}");
    }

    #[test]
    fn levels_and_patterns() {
        let all = ["3 bad luck", "5 good luck", "7 ~tilde"];
        check("", &all, &all);
        check("LEVEL_MAX=5", &all, &["3 bad luck", "5 good luck"]);
        check("LEVEL_MAX=9", &all, &all);
        check("FILTER=luck", &all, &["3 bad luck", "5 good luck"]);
        check("FILTER=~^bad", &all, &["5 good luck", "7 ~tilde"]);
        check("FILTER=luck\nFILTER=~good", &all, &["3 bad luck"]);
        check("FILTER=\\x7etilde", &all, &["7 ~tilde"]);
        check("FILTER=~l\nFILTER=luck", &all, &[]);
    }

    #[test]
    fn bad_patterns_are_told_and_left_out() {
        let (unit, faults) = unit("FILTER=(\n");
        assert_eq!(faults, ["a.service: LogFilterPatterns=(: not a valid pattern"]);
        assert!(unit.keeps(&Fields::new()));
        let many = "FILTER=a\n".repeat(PATTERNS_MAX + 1);
        assert_eq!(super::tests::unit(&many).1.len(), 1);
    }

    #[test]
    fn identity_comes_from_the_manager() {
        let show = |more: &str| {
            let mut fields = Fields::new();
            unit(more).0.put_identity(&mut fields);
            format!("{fields:?}").replace("_SYSTEMD_", "")
        };
        assert_eq!(show(""), r#"{"UNIT": "a.service"}"#);
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(
            show(&format!("CGROUP=/system.slice/a.service\nINVOCATION={id}")),
            format!(
                r#"{{"CGROUP": "/system.slice/a.service", "UNIT": "a.service", "SLICE": "system.slice", "INVOCATION_ID": "{id}"}}"#
            )
        );
    }

    #[test]
    fn packets() {
        let (packet, _) = parse_one(
            "KIND=stream\nSTREAM=7\nUNIT=a.service\nPRIORITY=30\nEXTRA=A=1\nEXTRA=_B=2\nEXTRA=C\nCLASS=web\n",
        );
        let Some(Packet::Stream { key: 7, unit }) = packet else { panic!("{packet:?}") };
        assert_eq!((unit.header.priority, unit.class.as_deref()), (30, Some("web")));
        assert_eq!(unit.extra, [("A", "1")].into_iter().collect());
        let (packet, _) = parse_one("KIND=entry\nTIME_US=5\nMESSAGE=hi\nUNIT=a.service\n");
        let Some(Packet::Entry { time_us: Some(5), fields }) = packet else { panic!("{packet:?}") };
        assert_eq!(fields, [("MESSAGE", "hi"), ("UNIT", "a.service")].into_iter().collect());
        for bad in ["KIND=stream\nUNIT=a\n", "KIND=other\n", "UNIT=a\n"] {
            let (packet, faults) = parse_one(bad);
            assert!(packet.is_none() && faults.len() == 1, "{bad}");
        }
        assert!(parse(b"").0.is_empty());
        assert_eq!(parse(b"KIND=entry\nMESSAGE=1\nMESSAGE\n\xff").1.len(), 1, "cut");
        let two = parse(b"KIND=entry\nMESSAGE=1\n\nKIND=unit\nUNIT=a\n\nKIND=x\n");
        assert_eq!((two.0.len(), two.1.len()), (2, 1));
    }
}
