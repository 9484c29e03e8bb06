//! `warren new` as somebody uses it who has a command and no unit.

use std::process::{Command, Output};

use warren_testkit::Scratch;

fn warren(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warren")).args(words).output().expect("it runs")
}

/// The unit that is written for a shell's script, run for two seconds at most.
#[track_caller]
fn of(script: &str) -> (String, Option<i32>) {
    let output =
        warren(&["new", "app", "--quiet", "--run-for", "2", "--", "/bin/sh", "-c", script]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("\n[Service]\n"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    (text, output.status.code())
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|own| own == line)
}

#[test]
fn a_unit_allows_what_the_command_did() {
    let directory = Scratch::new("new");
    let file = directory.join("out/file");
    let script =
        format!("mkdir -p {0}/out; echo x > {0}/out/file; exec sleep 100", directory.display());
    let (text, status) = of(&script);
    assert_eq!(status, Some(0));
    assert!(file.is_file(), "it did not run");
    for line in [
        "Type=exec",
        "ProtectSystem=strict",
        "PrivateNetwork=yes",
        "NoNewPrivileges=yes",
        "PrivateDevices=yes",
    ] {
        assert!(has(&text, line), "no {line} in\n{text}");
    }
    // A scratch directory may lie below /tmp, which is private in any case.
    let is_temporary = directory.starts_with("/tmp") || directory.starts_with("/var/tmp");
    assert_eq!(text.contains("ReadWritePaths="), !is_temporary, "{text}");
}

#[test]
fn the_type_is_what_the_command_turned_out_to_be() {
    assert!(has(&of("exit 0").0, "Type=oneshot"));
    let (text, status) = of("exit 3");
    assert!(has(&text, "Type=exec") && status == Some(1), "{text}");
    assert!(has(&of("sleep 100 & exit 0").0, "Type=forking"));
    let (text, _) = of("trap '' TERM; while :; do sleep 1; done");
    assert!(text.contains("did not end within 5 s"), "{text}");
}

#[test]
fn nothing_is_left_of_a_run() {
    let (text, _) = of("sleep 9471 & sleep 9471 & wait");
    assert!(has(&text, "Type=exec"), "{text}");
    let left = std::fs::read_dir("/proc").expect("it is there").flatten().filter(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command.windows(4).any(|part| part == b"9471") && command.starts_with(b"sleep")
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn a_written_file_is_not_replaced_and_passes_verify() {
    let directory = Scratch::new("new file");
    let path = directory.join("app.service");
    let file = path.to_string_lossy();
    let words = [
        "new",
        "app",
        "--quiet",
        "--run-for",
        "1",
        "-o",
        &file,
        "--",
        "cat",
        "/proc/meminfo",
        "/etc/passwd",
    ];
    let output = warren(&words);
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&path).expect("it is written");
    assert!(
        text.contains("ExecStart=/") && text.contains("/cat /proc/meminfo /etc/passwd\n"),
        "{text}"
    );
    assert!(text.contains("# without ProcSubset=: it reads /proc/meminfo"), "{text}");
    let verified = warren(&["verify", &file]);
    assert_eq!(String::from_utf8_lossy(&verified.stdout), "");
    let again = warren(&words);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is there already"), "{again:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
}

#[test]
fn what_cannot_be_run_is_an_error() {
    let errors = |words: &[&str]| {
        let output = warren(words);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(errors(&["new", "app", "--", "no-such-program"]).contains("no such program"));
    assert!(errors(&["new", "app", "--", "./x"]).contains("whole path"));
    assert!(errors(&["new", "app", "--", "/nonexistent/x"]).contains("cannot run the command"));
    assert!(errors(&["new", "app.timer", "--", "true"]).contains("only services"));
    assert!(
        errors(&["new", "app", "--run-as", "no-such-user", "--", "true"]).contains("no such user")
    );
}
