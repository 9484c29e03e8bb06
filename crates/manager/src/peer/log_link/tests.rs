use crate::peer::log_link::words::{OWN_IDENTIFIER_BYTES_MAX, SETTINGS_BYTES_MAX, packet};
use crate::peer::log_link::*;
use warren_wire::log_link::put_field;

#[test]
fn names_of_streams_come_back() {
    let name = StreamName {
        key: 7,
        unit: "a@b.service".to_owned(),
        invocation: 0xabc,
        identifier: "sh".to_owned(),
        copies: Copies::default(),
    };
    assert_eq!(StreamName::parse(&name.stored()), Some(name.clone()));
    for (kmsg, console) in [(true, false), (false, true), (true, true)] {
        let copied = StreamName { copies: Copies { kmsg, console }, ..name.clone() };
        assert_eq!(StreamName::parse(&copied.stored()), Some(copied));
    }
    for bad in [
        "stream/7+wall/a/0/b",
        "stream/",
        "stream/x/a/0/b",
        "stream/1/a/z/b",
        "stream/1/a/0",
        "socket/a/0",
    ] {
        assert_eq!(StreamName::parse(bad), None, "{bad}");
    }
}

#[test]
fn a_value_of_several_lines_has_its_length() {
    let mut out = Vec::new();
    put_field(&mut out, "A", b"1");
    put_field(&mut out, "B", b"1\n2");
    assert_eq!(out, b"A=1\nB\n\x03\0\0\0\0\0\0\x001\n2\n");
}

#[test]
fn a_stream_to_a_namespace_says_whose_it_is() {
    let exec = ExecConfig { syslog_level_prefix: true, ..ExecConfig::default() };
    let none = Copies::default();
    let header = stream_header("a.service", &exec, ("s\nh", none));
    assert_eq!(header, "s h\na.service\n30\n1\n0\n0\n0\n");
    let console = Copies { console: true, ..none };
    assert!(stream_header("a.service", &exec, ("sh", console)).ends_with("\n1\n0\n0\n1\n"));
    let named = ExecConfig { syslog_identifier: Some("me".into()), ..exec };
    assert!(stream_header("a.service", &named, ("sh", none)).starts_with("me\na.service\n"));
}

#[test]
fn packets_say_what_the_settings_say() {
    let exec = ExecConfig {
        log_level_max: Some(4),
        log_class: Some("web".into()),
        log_extra_fields: vec!["A=1".into(), "B=2 3".into()],
        log_filter_patterns: vec!["~x".into()],
        log_rate_limit_interval: Some(std::time::Duration::from_secs(2)),
        log_rate_limit_burst: Some(0),
        ..ExecConfig::default()
    };
    let name = StreamName {
        key: 7,
        unit: "a.service".to_owned(),
        invocation: 1,
        identifier: "sh".to_owned(),
        copies: Copies { kmsg: true, console: true },
    };
    let text = |(bytes, is_long): (Vec<u8>, bool)| {
        assert!(!is_long);
        String::from_utf8(bytes).expect("text").replace('\n', " ")
    };
    assert_eq!(
        text(packet(&name, true, Some(("system.slice/a.service", Some(9))), &exec)),
        "STREAM=7 PRIORITY=30 LEVEL_PREFIX=1 CGROUP_ID=9 LEVEL_MAX=4 RATE_INTERVAL_US=2000000 RATE_BURST=0 \
         COPIES=kmsg console KIND=stream UNIT=a.service INVOCATION=00000000000000000000000000000001 \
         CGROUP=/system.slice/a.service CLASS=web IDENTIFIER=sh EXTRA=A=1 EXTRA=B=2 3 FILTER=~x "
    );
    let plain = StreamName { invocation: 0, copies: Copies::default(), ..name };
    assert_eq!(
        text(packet(&plain, false, None, &ExecConfig::default())),
        "PRIORITY=30 LEVEL_PREFIX=1 KIND=unit UNIT=a.service IDENTIFIER=sh "
    );
}

/// A packet that no socket takes would be tried for ever.
#[test]
fn settings_that_are_too_long_are_left_out_of_a_packet() {
    let patterns = (0..40).map(|at| format!("{at}{}", "x".repeat(10_000)).into()).collect();
    let identifier = "\u{e9}".repeat(100_000);
    let exec = ExecConfig {
        log_filter_patterns: patterns,
        syslog_identifier: Some(identifier.into()),
        log_extra_fields: vec!["A=1".into()],
        ..ExecConfig::default()
    };
    let (unit, identifier) = ("a.service".to_owned(), "sh".to_owned());
    let name = StreamName { unit, invocation: 1, identifier, ..StreamName::default() };
    let (bytes, is_long) = packet(&name, false, None, &exec);
    assert!(is_long && bytes.len() <= SETTINGS_BYTES_MAX + 1000, "{}", bytes.len());
    let text = String::from_utf8(bytes).expect("whole characters");
    assert!(text.contains("EXTRA=A=1\n") && text.contains("FILTER=0x"));
    assert!(!text.contains("FILTER=39x"));
    let header = stream_header("a.service", &exec, ("sh", Copies::default()));
    assert!(header.lines().all(|line| line.len() <= OWN_IDENTIFIER_BYTES_MAX), "{header}");
}
