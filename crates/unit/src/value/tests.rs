use super::*;
use std::process::Command;

/// Rows `text -> value`; a bad one gives `!`.
fn check_rows<T>(table: &str, parse: impl Fn(&str) -> Option<T>, show: impl Fn(T) -> String) {
    for row in table.lines().map(str::trim).filter(|r| !r.is_empty()) {
        let (text, want) = row.split_once(" -> ").expect("a row has an arrow");
        assert_eq!(parse(text).map_or_else(|| "!".to_owned(), &show), want, "{text}");
    }
}

#[test]
fn spans() {
    let show = |s: Option<Duration>| s.map_or("infinity".into(), |d| d.as_micros().to_string());
    check_rows(
        "5 -> 5000000
         2 h -> 7200000000
         1y 12month -> 63115200000000
         55s500ms -> 55500000
         300ms20s 5day -> 432020300000
         1.5s -> 1500000
         1.839us 59045.270usec -> 59046
         .5 -> 500000
         1y2 -> 31557602000000
         infinity -> infinity
         0 -> 0
         5 parsecs -> !
         -3 -> !
         s -> !
         . -> !
         1.s -> !
         99999999999999999999 -> !
         9999999999y -> !
         99999999999 -> 18446744073709551
         99999999999y -> !
         7µs -> 7",
        |text| span(text).ok(),
        show,
    );
    assert!(span("").is_err() && span("  ").is_err());
}

#[test]
fn spans_are_those_of_systemd_analyze() {
    let peer = |text: &str| -> Option<String> {
        let out = Command::new("systemd-analyze").args(["timespan", "--", text]).output().ok()?;
        let out = String::from_utf8(out.stdout).ok()?;
        let line = out.lines().find(|l| l.contains("s: "))?;
        Some(line.rsplit(' ').next()?.to_owned())
    };
    if peer("1").is_none() {
        warren_testkit::not_run("systemd-analyze timespan does not work here");
        return;
    }
    for text in [
        "5",
        "2 h",
        "2hours",
        "48hr",
        "1y 12month",
        "55s500ms",
        "300ms20s 5day",
        "1.5s",
        "1M",
        "1m",
        "1.25h",
        "1y2",
        "3us",
        "x",
        "-3",
        "5 parsecs",
        "1..5",
        "1.5.5",
        "2hx",
        "1 2 3",
        "1e3",
        "+5",
        "0x10",
        ".5",
        "1.",
        "1 .5",
        "5 S",
        "5 Min",
        "2.0000001s",
    ] {
        let ours = span(text).ok().flatten().map(|d| d.as_micros().to_string());
        assert_eq!(ours, peer(text), "{text:?}");
    }
}

#[test]
fn sizes_and_shares() {
    check_rows(
        "0 -> 0
         1K -> 1024
         1.5G -> 1610612736
         2T -> 2199023255552
         10x -> !
         -1 -> !
         16E -> !",
        |text| bytes(text).ok(),
        |n| n.to_string(),
    );
    check_rows(
        "20% -> 2000
         0.5% -> 50
         12.34% -> 1234
         12.345% -> !
         2000% -> 200000
         20 -> !
         x% -> !",
        |text| percent(text).ok(),
        |n| n.to_string(),
    );
    check_rows(
        "infinity -> Infinity
         10M -> Bytes(10485760)
         50% -> PerMyriad(5000)
         120% -> !",
        |text| memory(text).ok(),
        |m| format!("{m:?}"),
    );
    check_rows(
        "0 -> !
         10 -> Tasks(10)
         infinity -> Infinity
         0% -> !",
        |text| tasks(text).ok(),
        |t| format!("{t:?}"),
    );
}

#[test]
fn small_things() {
    check_rows(
        "yes -> true\n1 -> true\nOn -> true\nno -> false\nF -> false\nmaybe -> !\n2 -> !",
        |text| boolean(text).ok(),
        |b| b.to_string(),
    );
    check_rows(
        "0755 -> 755\n7777 -> 7777\n0899 -> !\n99999 -> !\n-1 -> !\n+7 -> !",
        |text| mode(text).ok(),
        |m| format!("{m:o}"),
    );
    check_rows(
        "0-3,8 -> 0-3,8\n3 2 1 -> 1-3\n3-1 -> !\nq -> !\n9999 -> !
         \"0\" 1 -> 0-1\n'0-1',\"4\" -> 0-1,4\n\"0,1\" -> !\n0,,0x2 -> 0,2\n010 -> 8\nnuma 1 -> !\n\"0 -> !",
        |text| indexes(text).ok(),
        |s| s.to_string(),
    );
    check_rows(
        "08 -> !\n010 -> 8\n0x10 -> 16\n0X10 -> 16\n0b11 -> 3\n0o17 -> 15\n+5 -> 5\n-0x2 -> -2\n-010 -> -8
         00 -> 0\n--2 -> !\n+-2 -> !\n0x+2 -> !\n0x -> !\n1 0 -> !\n65 -> !",
        |text| number(text, -20, 64).ok(),
        |n| n.to_string(),
    );
    assert_eq!(indexes("1, x").map_err(|f| f.offset), Err(3));
}

/// systemd 252 loads a unit with each of the first, and none with one of the others.
#[test]
fn users_have_names_or_plain_numbers() {
    let good =
        "0 1 4294967294 0x1 123abc 00a -12x +1 -a _a a..b .a a$ A@b \u{e4} ~x * 'root' 1.5 1-2";
    for text in good.split(' ').chain(["a b"]) {
        assert_eq!(user(text).as_deref(), Ok(text));
    }
    for text in "00 01 -1 65535 4294967295 4294967296 10000000000 .. . a:b a: a/b /x -".split(' ') {
        assert!(user(text).is_err(), "{text}");
    }
    assert!(user("").is_err() && user("a\tb").is_err());
}

#[test]
fn limits_by_resource() {
    let check = |resource, text, want| {
        assert_eq!(rlimit(resource, text).ok().map(|l| (l.soft, l.hard)), want, "{text}");
    };
    check(Resource::Nofile, "1024:4096", Some((1024, 4096)));
    check(Resource::Nofile, "10:5", None);
    check(Resource::Nofile, "infinity", Some((u64::MAX, u64::MAX)));
    check(Resource::Core, "1G", Some((1 << 30, 1 << 30)));
    check(Resource::Nice, "+10", Some((10, 10)));
    check(Resource::Nice, "30", Some((30, 30)));
    check(Resource::Nice, "+30", None);
    check(Resource::Nofile, "100: 200", Some((100, 200)));
    check(Resource::Nofile, "5 :6", None);
    check(Resource::Nofile, "100: infinity", None);
    check(Resource::Nofile, "-5", None);
    check(Resource::Nproc, "0x10: 020", Some((16, 16)));
    check(Resource::Nice, "5: 6", Some((5, 6)));
    check(Resource::Nice, "010", Some((8, 8)));
    check(Resource::Fsize, "010: 11", Some((10, 11)));
    check(Resource::Cpu, "2min", Some((120, 120)));
    check(Resource::Cpu, "1100ms", Some((2, 2)));
    check(Resource::Rttime, "1", Some((1, 1)));
    check(Resource::Rttime, "1s", Some((1_000_000, 1_000_000)));
}

#[test]
fn sets() {
    let (set, faults) = exit_statuses("CHDIR BPF EXCEPTION");
    assert_eq!((&*set.codes, faults.len()), (&[200, 244, 255][..], 0));
    let (set, faults) = exit_statuses("3 TEMPFAIL SIGKILL 300 SIGFOO 3");
    assert_eq!((&*set.codes, set.signals.len(), faults.len()), (&[3, 75][..], 1, 2));
    assert_eq!(faults[0].offset, 19);
    let (set, inverted, faults) = capabilities("~CAP_KILL CAP_FOO cap_chown");
    assert_eq!((set.0, inverted, faults.len()), (1 << 5 | 1, true, 1));
    let (set, _, faults) = capabilities("\"CAP_KILL\" '0' \"\" 010 \"CAP_FOO");
    assert_eq!((set.0, faults.len(), faults[0].offset), (1 << 8 | 1 << 5 | 1, 1, 22));
    let (set, faults) = exit_statuses("0x1 010 0b11 08");
    assert_eq!((&*set.codes, faults.len()), (&[1, 3, 8][..], 1));
    let (set, _, faults) = capabilities("21 0 63 CHOWN Cap_Kill");
    assert_eq!((set.0, faults.len()), (1 << 21 | 1 << 5 | 1, 2));
}
