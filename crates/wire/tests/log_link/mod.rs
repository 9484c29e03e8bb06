//! Messages of the link between the manager and the log daemon.

use warren_wire::log_link::{Copies, DaemonWord, Header, Packet, UnitSettings, VERSION, put_entry};

use super::check_bytes;

/// Names of the golden files.
pub fn names() -> Vec<String> {
    let names = ["unit.txt", "stream.txt", "bare.txt", "entry.txt", "words.txt", "header.txt"];
    names.map(str::to_owned).to_vec()
}

fn settings() -> UnitSettings<'static> {
    UnitSettings {
        unit: "a.service".into(),
        invocation: Some("0123456789abcdef0123456789abcdef".into()),
        cgroup: Some("/system.slice/a.service".into()),
        cgroup_id: Some(9),
        identifier: b"sh"[..].into(),
        priority: Some(30),
        level_prefix: true,
        copies: Copies { syslog: true, kmsg: true, console: true },
        level_max: Some(4),
        rate_interval_us: Some(2_000_000),
        rate_burst: Some(0),
        class: Some("web".into()),
        extra: vec![b"A=1", b"B=2 3"],
        filter: vec![b"~x", b"y"],
    }
}

/// Fields of one line each.
fn fields(packet: &[u8]) -> Vec<(&[u8], &[u8])> {
    let lines = packet.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let equals = line.iter().position(|&byte| byte == b'=').expect("a field of one line");
            (&line[..equals], &line[equals + 1..])
        })
        .collect()
}

#[track_caller]
fn check(name: &str, settings: &UnitSettings<'_>, stream: Option<u64>) {
    let (packet, is_long) = settings.write(stream, 1000);
    assert!(!is_long);
    check_bytes(&format!("log-link-{VERSION}/{name}"), &packet);
    let settings = settings.clone();
    let expected = match stream {
        Some(key) => Packet::Stream { key, settings },
        None => Packet::Unit(settings),
    };
    assert_eq!(Packet::read(&fields(&packet)), Some(expected));
}

#[test]
fn settings_of_units_and_streams() {
    check("unit.txt", &settings(), None);
    check("stream.txt", &settings(), Some(7));
    check("bare.txt", &UnitSettings { unit: "b.service".into(), ..Default::default() }, None);
}

#[test]
fn messages_of_the_manager() {
    let own = [("PRIORITY", "6"), ("MESSAGE", "hi"), ("UNIT", "a.service")];
    let mut packet = Vec::new();
    put_entry(&mut packet, 5, own);
    check_bytes(&format!("log-link-{VERSION}/entry.txt"), &packet);
    let own = own.map(|(name, value)| (name.as_bytes(), value.as_bytes())).to_vec();
    let expected = Packet::Entry { time_us: Some(5), fields: own };
    assert_eq!(Packet::read(&fields(&packet)), Some(expected));
}

#[test]
fn words_of_the_daemon() {
    let words = [DaemonWord::Hello, DaemonWord::Ended(7)].map(DaemonWord::write);
    check_bytes(&format!("log-link-{VERSION}/words.txt"), (words.join("\n") + "\n").as_bytes());
    let read = words.map(|word| DaemonWord::read(word.as_bytes()));
    assert_eq!(read, [Some(DaemonWord::Hello), Some(DaemonWord::Ended(7))]);
}

#[test]
fn headers_of_streams() {
    let header = Header {
        identifier: b"sh".to_vec(),
        unit: b"a.service".to_vec(),
        priority: 30,
        level_prefix: true,
        copies: Copies { console: true, ..Copies::default() },
    };
    check_bytes(&format!("log-link-{VERSION}/header.txt"), &header.to_bytes());
}
