use super::*;
use std::fmt::Write;

fn parse_text(text: &[u8]) -> (UnitFile, Vec<Diagnostic>) {
    parse(Arc::from("f"), text, UnitType::Service)
}

/// Parses and compares `line:column name=value` rows, then the diagnostics.
fn check(text: &[u8], want: &str) {
    let (file, diagnostics) = parse_text(text);
    let mut got = String::new();
    for e in file.entries() {
        let name = e.setting.setting().name;
        writeln!(got, "{}:{} {name}={}", e.line, e.column, e.value).expect("a string");
    }
    for d in diagnostics {
        writeln!(got, "{d}").expect("a string");
    }
    let want: String = want.lines().map(str::trim_start).filter(|l| !l.is_empty()).fold(
        String::new(),
        |mut all, l| {
            all.push_str(l);
            all.push('\n');
            all
        },
    );
    assert_eq!(got, want, "{}", String::from_utf8_lossy(text));
}

#[test]
fn sections_comments_and_space() {
    check(
        b"# c\n; c\n\n  [Service] \n ExecStart = /bin/true \nX-A=1\n[X-Foo]\nb\n[Unit]\nWants=\n",
        "5:13 ExecStart=/bin/true
         10:7 Wants=",
    );
    check(b"[X-Warren]\nStopPolicy = sudden\n", "2:14 StopPolicy=sudden");
}

#[test]
fn continuation_keeps_inner_space_and_drops_comments() {
    check(
        b"[Service]\nType=foo\\\n   bar \\\n# c\n;c2\n\tbaz\nKillMode=q\\",
        "2:6 Type=foo    bar  \tbaz
         7:10 KillMode=q",
    );
    check(b"[Unit]\nWants=a\\\n\nAfter=b\n", "2:7 Wants=a\n4:7 After=b");
}

#[test]
fn every_line_end_counts() {
    check(
        b"\xef\xbb\xbf[Unit]\r\nWants=a\\\r\nb\r\nAfter=c\rBefore=d\0x=y\n",
        "2:7 Wants=a b
         4:7 After=c
         5:8 Before=d
         f:5: warning: the line has a NUL byte; what follows it is ignored [nul-byte]
         f:6:1: warning: [Unit] has no setting x= [unknown-setting]",
    );
}

#[test]
fn faults_are_reported_where_they_are() {
    check(
        b"a=b\n[Service]\nfoo\n=bar\nFoo=1\n[Bar]\na=b\n[Socket]\nAccept=yes\n",
        "f:1:1: warning: this assignment stands before the first section [outside-section]
         f:3:1: warning: this line is not an assignment, Name=value [missing-equals]
         f:4:1: warning: this line is not an assignment, Name=value [missing-equals]
         f:5:1: warning: [Service] has no setting Foo= [unknown-setting]
         f:6:1: warning: a service unit has no section [Bar] [unknown-section]
         f:8:1: warning: a service unit has no section [Socket] [unknown-section]",
    );
    check(
        b"[Service]\nType=idle\n[broken\nType=exec\n",
        "2:6 Type=idle
         f:3:1: error: invalid section header '[broken' [bad-section-header]",
    );
}

/// Compared with systemd 252.
#[test]
fn only_an_odd_number_of_backslashes_joins_the_next_line() {
    check(
        b"[Service]\nEnvironment=A=C:\\\\\nUser=wine\n",
        r"2:13 Environment=A=C:\\
          3:6 User=wine",
    );
    check(
        b"[Service]\nEnvironment=A \\\nB\\\\\nUser=w\\\\\\\nine\n",
        r"2:13 Environment=A  B\\
          4:6 User=w\\ ine",
    );
}

/// Compared with systemd 252.
#[test]
fn bytes_that_are_no_text_are_allowed_in_comments_alone() {
    check(
        b"# \xff\n[Unit]\nWants=a \\\n  ; \xff \\\r\nb\rAfter=c\n#\xe9",
        "3:7 Wants=a  b
         6:7 After=c",
    );
    check(b"[Unit]\nWants=\xff\n", "f:2: error: the line is not UTF-8 [not-utf8]");
    check(b"#\xff\r[X-a]\rb=\xff\n", "f:3: error: the line is not UTF-8 [not-utf8]");
    check(b"[Unit]\n\xc2\xa0;\xff\n", "f:2: error: the line is not UTF-8 [not-utf8]");
    // What comes before counts, of a drop-in: a line that goes on in that one does not.
    check(
        b"#\xff\n[Unit]\nWants=a\nAfter=b \\\nc \\\nBefore=\xff\nAfter=d\n",
        "3:7 Wants=a
         f:6: error: the line is not UTF-8 [not-utf8]",
    );
}

#[test]
fn bounds_hold() {
    let mut long = b"[Unit]\nDescription=".to_vec();
    long.resize(LINE_BYTES_MAX + 100, b'x');
    assert!(parse_text(&long).0.is_broken());
    let huge = vec![b'\n'; FILE_BYTES_MAX + 1];
    assert!(parse_text(&huge).0.is_broken());
    let (_, diagnostics) = parse_text(&b"x=1\n".repeat(10_000));
    assert_eq!(diagnostics.len(), crate::diagnostic::DIAGNOSTICS_MAX);
    assert_eq!(diagnostics.last().map(|d| d.code), Some(Code::TooManyDiagnostics));
}

#[test]
fn a_small_file_is_kept_in_few_bytes() {
    let text = b"[Unit]\nDescription=test\n[Service]\nExecStart=/usr/sbin/nginx -c /etc/x\n";
    let (file, _) = parse_text(text);
    assert!(file.heap_bytes() <= 44, "{}", file.heap_bytes());
}

/// Printing what was parsed parses to the same values, and printing that gives the same text.
fn check_round_trip(text: &[u8]) {
    let (first, _) = parse_text(text);
    let printed = first.print(UnitType::Service);
    let (second, diagnostics) = parse_text(printed.as_bytes());
    assert_eq!(diagnostics, [], "{printed:?}");
    let pairs = |f: &UnitFile| -> Vec<(Id, String)> {
        f.entries().map(|e| (e.setting, e.value.to_owned())).collect()
    };
    assert_eq!(pairs(&first), pairs(&second), "{printed:?}");
    assert_eq!(second.print(UnitType::Service), printed);
}

#[test]
fn printing_is_stable() {
    const PIECES: &[&str] = &[
        "[Unit]",
        "[Service]",
        "[X-Warren]",
        "[Install]",
        "[X-q]",
        "\n",
        "\\\n",
        "\r\n",
        "Wants=",
        "a.service",
        " ",
        "\t",
        "#",
        ";",
        "ExecStart=",
        "/bin/x \"a b\"",
        "=",
        "\\",
        "A",
        "[",
        "]",
        "\0",
        "é",
    ];
    let mut seed = 1u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..24 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(PIECES[(seed >> 33) as usize % PIECES.len()]);
        }
        check_round_trip(text.as_bytes());
    }
}
