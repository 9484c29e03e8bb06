//! The command as a program: exit statuses and what is printed, against a manager that is played
//! by the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use warren_testkit::Scratch;

/// Runs the command; status, standard output and standard error as one text.
fn warren(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(args)
        .env_remove("SYSTEMD_COLORS")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .expect("the command can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    format!("{out}{err}= {}", output.status.code().unwrap_or(-1))
}

/// Plays a manager for one connection: gives the answers in turn, returns the requests.
fn manager(path: &Path, answers: &'static [&'static str]) -> JoinHandle<Vec<String>> {
    let listener = UnixListener::bind(path).expect("the socket can be made");
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the command connects");
        let mut reader = BufReader::new(&stream);
        let mut requests = Vec::new();
        for answer in answers {
            let mut request = Vec::new();
            reader.read_until(0, &mut request).expect("a request arrives");
            request.pop();
            requests.push(String::from_utf8_lossy(&request).into_owned());
            (&stream).write_all(format!("{answer}\0").as_bytes()).expect("it takes the answer");
        }
        requests
    })
}

/// One command, the manager's answers, what is expected.
#[track_caller]
fn check(
    test: &str,
    args: &[&str],
    answers: &'static [&'static str],
    expected: &str,
) -> Vec<String> {
    let scratch = Scratch::new(test);
    let socket = scratch.0.join("control");
    let played = manager(&socket, answers);
    let socket = socket.display().to_string();
    assert_eq!(warren(&[&["--socket", &socket], args].concat()), expected, "{args:?}");
    played.join().expect("the played manager ends well")
}

/// The answers to a request for jobs: a row for each unit, and the end.
macro_rules! rows {
    ($($row:literal),*) => {
        concat!($("{\"parameters\":", $row, ",\"continues\":true}\0",)* "{\"parameters\":{}}")
    };
}

#[test]
fn jobs_that_fail_say_whose_fault_it_is_and_where_to_look() {
    let requests = check(
        "job-failed",
        &["start", "web"],
        &[rows!(r#"{"unit":"web.service","result":"failed"}"#)],
        "Job for web.service failed. See 'warren why web.service'.\n= 3",
    );
    let request: serde_json::Value = serde_json::from_str(&requests[0]).expect("it is JSON");
    assert_eq!(request["method"], "io.warrener.Manager.Jobs");
    assert_eq!(request["more"], true);
    assert_eq!(request["parameters"]["units"], serde_json::json!(["web.service"]));
    assert_eq!(request["parameters"]["wait"], true);
    check(
        "job-dependency",
        &["start", "web"],
        &[rows!(r#"{"unit":"web.service","result":"dependency"}"#)],
        "Job for web.service failed because of a dependency. See 'warren why web.service'.\n= 4",
    );
    check(
        "job-cancelled",
        &["start", "web"],
        &[rows!(r#"{"unit":"web.service","result":"canceled"}"#)],
        "Job for web.service was cancelled. See 'warren why web.service'.\n= 1",
    );
    const DONE: &str =
        rows!(r#"{"unit":"a.service","result":"done"}"#, r#"{"unit":"b.service","result":"done"}"#);
    check("job-done", &["stop", "a", "b"], &[DONE], "= 0");
    check(
        "job-missing",
        &["start", "web"],
        &[rows!(
            r#"{"unit":"web.service","error":"io.warrener.Refused","message":"Unit web.service not found."}"#
        )],
        "Failed to start web.service: Unit web.service not found.\n= 5",
    );
    check(
        "job-denied",
        &["start", "web"],
        &[r#"{"error":"io.warrener.AccessDenied","parameters":{"message":"only root may"}}"#],
        "warren: only root may\n= 1",
    );
    check(
        "no-block",
        &["--no-block", "start", "a"],
        &[rows!(r#"{"unit":"a.service","job":4}"#)],
        "= 0",
    );
}

#[test]
fn a_shutdown_is_planned_as_the_options_say() {
    let options = ["shutdown", "--in", "5min", "--reboot", "-m", "disks"];
    let requests = check("planned", &options, &[r#"{"parameters":{}}"#], "= 0");
    let request: serde_json::Value = serde_json::from_str(&requests[0]).expect("it is JSON");
    assert_eq!(request["method"], "io.warrener.Manager.Leave");
    let expected = r#"{"after":"5min","at":null,"how":"reboot","message":"disks"}"#;
    let expected: serde_json::Value = serde_json::from_str(expected).expect("it is JSON");
    assert_eq!(request["parameters"], expected);
}

#[test]
fn a_restart_with_a_dump_starts_what_has_no_process_to_dump() {
    let answers = &[
        r#"{"error":"io.warrener.NoSuchProcess","parameters":{"message":"none"}}"#,
        r#"{"error":"io.warrener.NoSuchUnit","parameters":{"message":"none"}}"#,
        r#"{"parameters":{}}"#,
        rows!(r#"{"unit":"a.service","result":"done"}"#),
    ];
    let requests = check("dump", &["restart", "--dump", "a", "b", "c"], answers, "= 0");
    assert!(requests[3].contains(r#"["a.service","b.service","c.service"]"#), "{requests:?}");
    let denied =
        &[r#"{"error":"io.warrener.AccessDenied","parameters":{"message":"only root may"}}"#];
    check("dump-denied", &["restart", "--dump", "a"], denied, "warren: only root may\n= 1");
}

#[test]
fn paths_of_unit_files_are_absolute_for_the_manager_and_names_for_jobs() {
    const DONE: &str = r#"{"parameters":{"changes":[]}}"#;
    let check = |test: &str, args: &[&str], files: &str, unit: &str| {
        let played = &[DONE, DONE, rows!(r#"{"unit":"web.service","result":"done"}"#)];
        let answers: &'static [&'static str] = if unit.is_empty() { &[DONE, DONE] } else { played };
        let requests = check(test, args, answers, "= 0");
        let asked = |at: usize, key: &str| {
            let request: serde_json::Value = serde_json::from_str(&requests[at]).expect("JSON");
            request["parameters"][key][0].as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(asked(0, "files"), files);
        assert_eq!(if unit.is_empty() { String::new() } else { asked(2, "units") }, unit);
    };
    let here = std::env::current_dir().expect("there is one").display().to_string();
    check("path-now", &["enable", "--now", "/x/web.service"], "/x/web.service", "web.service");
    check("path-stop", &["disable", "--now", "/x/web.service"], "web.service", "web.service");
    check("path-here", &["link", "./web.service"], &format!("{here}/web.service"), "");
    check("path-below", &["reenable", "a/web.service"], &format!("{here}/a/web.service"), "");
    check("name-now", &["enable", "--now", "web"], "web.service", "web.service");
}

#[test]
fn what_was_passed_over_is_said_beside_what_was_done() {
    const DONE: &str = r#"{"parameters":{"changes":[{"kind":"unlink","path":"/x","source":""}],"remarks":["No."]}}"#;
    let answers =
        &[DONE, r#"{"parameters":{}}"#, rows!(r#"{"unit":"web.service","result":"done"}"#)];
    check("remarks", &["disable", "--now", "web"], answers, "Removed /x.\nNo.\n= 0");
}

#[test]
fn verify_looks_where_the_manager_has_units_of_its_own() {
    let scratch = Scratch(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("verify-own"));
    let _ = std::fs::remove_dir_all(&scratch.0);
    scratch.write("lib/warren/warrend", "");
    scratch.write("lib/warren/system/own-of-warrener.service", "[Service]\nExecStart=/bin/true\n");
    let program = scratch.write("bin/placeholder", "");
    let program = Path::new(&program).with_file_name("warren");
    std::fs::hard_link(env!("CARGO_BIN_EXE_warren"), &program).expect("the same file system");
    let output = Command::new(program)
        .args(["verify", "own-of-warrener.service"])
        .env_remove("SYSTEMD_UNIT_PATH")
        .output()
        .expect("the command can be run");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn states_have_systemctls_exit_statuses() {
    let dead = &[
        r#"{"parameters":{"name":"a.service","load":"loaded","active":"inactive","sub":"dead"}}"#,
    ];
    check("dead", &["is-active", "a"], dead, "inactive\n= 3");
    check("not-failed", &["is-failed", "a"], dead, "inactive\n= 1");
    let up = &[
        r#"{"parameters":{"name":"a.service","load":"loaded","active":"active","sub":"running"}}"#,
    ];
    check("up", &["is-active", "-q", "a"], up, "= 0");
    let one = "{\"unit\":\"a.service\",\"active\":\"active\",\"format\":1}\n= 0";
    check("up-json", &["is-active", "--json", "a"], up, one);
    let one = "{\"unit\":\"a.service\",\"state\":\"static\",\"format\":1}\n= 0";
    check(
        "enabled-json",
        &["is-enabled", "--json", "a"],
        &[r#"{"parameters":{"state":"static"}}"#],
        one,
    );
    let missing = &[
        r#"{"error":"io.warrener.NoSuchUnit","parameters":{"message":"Unit a.service not found."}}"#,
    ];
    check("missing", &["status", "a"], missing, "Unit a.service could not be found.\n= 4");
}

#[test]
fn a_name_that_is_wrong_keeps_no_other_from_being_shown() {
    const UP: &str =
        r#"{"parameters":{"name":"x.service","load":"loaded","active":"active","sub":"running"}}"#;
    const MISSING: &str = r#"{"error":"io.warrener.NoSuchUnit","parameters":{"message":"Unit no.service not found."}}"#;
    const INVALID: &str =
        r#"{"error":"org.varlink.service.InvalidParameter","parameters":{"message":"a template"}}"#;
    let up = r#"{"name":"x.service","load":"loaded","active":"active","sub":"running","format":1}"#;
    let shown = format!("{up}\n{up}\nwarren: Unit no.service not found.\n= 1");
    check("show", &["show", "--json", "a", "no", "b"], &[UP, MISSING, UP], &shown);
    check("cat", &["cat", "--json", "a", "no", "b"], &[UP, MISSING, UP], &shown);
    check("active", &["is-active", "t@", "a"], &[INVALID, UP], "active\nwarren: a template\n= 0");
    check("inactive", &["is-active", "t@"], &[INVALID], "warren: a template\n= 3");
}

#[test]
fn json_is_one_object_a_line_with_its_version() {
    let answer = &[
        r#"{"parameters":{"units":[{"name":"a.service","load":"loaded","active":"active"},{"name":"b.mount","load":"loaded","active":"inactive"}]}}"#,
    ];
    let expected =
        "{\"name\":\"a.service\",\"load\":\"loaded\",\"active\":\"active\",\"format\":1}\n= 0";
    check("json", &["--json", "list"], answer, expected);
}

#[test]
fn wrong_usage_ends_with_2_and_no_manager_with_1() {
    assert!(warren(&["start"]).ends_with("= 2"));
    assert!(warren(&["frobnicate"]).ends_with("= 2"));
    for of_an_end in ["--reboot", "--halt", "--kexec", "--soft-reboot", "--exit", "--message=x"] {
        let said = warren(&["shutdown", of_an_end]);
        assert!(said.contains("<--in <SPAN>|--at <TIME>>") && said.ends_with("= 2"), "{said}");
    }
    let said = warren(&["--socket", "/nonexistent/control", "totals"]);
    assert!(said.starts_with("warren: no manager answers at /nonexistent/control: "), "{said}");
    assert!(said.ends_with("= 1"), "{said}");
}

#[test]
fn an_answer_cut_short_is_an_error() {
    let scratch = Scratch::new("cut");
    let socket = scratch.0.join("control");
    let listener = UnixListener::bind(&socket).expect("the socket can be made");
    let played = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the command connects");
        stream.write_all(b"{\"param").expect("it can be written");
    });
    let said = warren(&["--socket", &socket.display().to_string(), "totals"]);
    assert!(said.starts_with("warren: the manager's answer cannot be read"), "{said}");
    played.join().expect("it ends well");
}

#[test]
fn what_a_manager_does_not_answer_is_said_in_words() {
    let unknown = &[
        r#"{"error":"org.varlink.service.MethodNotFound","parameters":{"message":"io.warrener.Manager.Totals"}}"#,
    ];
    let said = "warren: the running manager is of another version and does not support Totals\n= 1";
    check("unknown", &["totals"], unknown, said);
    let said = "warren: the manager's answer cannot be read: it takes no parameters\n= 1";
    check("empty", &["totals"], &["{}"], said);
    let scratch = Scratch::new("killed");
    let socket = scratch.0.join("control");
    let listener = UnixListener::bind(&socket).expect("the socket can be made");
    let played = std::thread::spawn(move || drop(listener.accept().expect("it connects")));
    let said = warren(&["--socket", &socket.display().to_string(), "totals"]);
    let is_told = said == "warren: the manager ended before it answered\n= 1"
        // Closed with the request in it.
        || said.contains("Connection reset by peer") || said.contains("Broken pipe");
    assert!(is_told, "{said}");
    played.join().expect("it ends well");
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_a_reader_that_went_is_none() {
    let run = |to: std::process::Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren"));
        command.args(["completion", "bash"]).stdout(to).output().expect("it can be run")
    };
    let full = std::fs::File::options().write(true).open("/dev/full").expect("there is one");
    let output = run(full.into());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "warren: standard output: No space left on device\n");
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let output = run(writer.into());
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
}

/// What was asked for is done to its end, and how that went is the exit status, also if nobody reads of it.
#[test]
fn a_reader_that_went_keeps_nothing_from_being_done() {
    const FAILED: &str = rows!(
        r#"{"unit":"a.service","result":"failed"}"#,
        r#"{"unit":"b.service","result":"done"}"#
    );
    const ANSWERS: &[&str] = &[
        r#"{"parameters":{"changes":[],"carries_install_info":true,"remarks":[]}}"#,
        r#"{"parameters":{}}"#,
        FAILED,
    ];
    let check = |test: &str, to: std::process::Stdio, expected: &str| {
        let scratch = Scratch::new(test);
        let socket = scratch.0.join("control");
        let played = manager(&socket, ANSWERS);
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren"));
        command.arg("--socket").arg(socket).args(["--json", "enable", "a", "b", "--now"]);
        let output = command.stdout(to).output().expect("the command can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(3), expected));
        let requests = played.join().expect("the played manager ends well");
        assert!(requests[1].contains("ReloadConfiguration"), "{requests:?}");
        assert!(requests[2].contains(r#""type":"start""#), "{requests:?}");
    };
    let job = "Job for a.service failed. See 'warren why a.service'.\n";
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    check("untold", writer.into(), job);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("there is one");
    let disk = "warren: standard output: No space left on device\n";
    check("untold-full", full.into(), &format!("{disk}{job}"));
}

/// A command that runs under a lock, in a group of processes of its own, once it says that it is up.
fn inhibited(
    socket: &Path,
    script: &str,
) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    // A shell cannot trap what its parent ignored, and `nohup` or `&` around the tests has them ignored.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_warren"), "--socket"]);
    command.arg(socket).args(["inhibit", "--", "sh", "-c", script]);
    let (stdin, stdout) = (std::process::Stdio::piped(), std::process::Stdio::piped());
    let child = command.process_group(0).stdin(stdin).stdout(stdout).spawn();
    let mut child = child.expect("the command can be run");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("it says something");
    assert_eq!(line, "up\n");
    (child, out)
}

#[test]
fn a_lock_stays_until_the_command_has_ended_whatever_ends_it() {
    const TAKEN: &[&str] = &[r#"{"parameters":{}}"#];
    let check = |test: &str, script: &str, signal: Option<(i32, i32)>, expected: i32| {
        let scratch = Scratch::new(test);
        let socket = scratch.0.join("control");
        let listener = UnixListener::bind(&socket).expect("the socket can be made");
        let played = std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("the command connects");
            BufReader::new(&stream).read_until(0, &mut Vec::new()).expect("a request arrives");
            (&stream).write_all(format!("{}\0", TAKEN[0]).as_bytes()).expect("it takes the answer");
            // Until the lock is gone.
            let _ = (&stream).read(&mut [0]);
        });
        let (mut child, mut out) = inhibited(&socket, script);
        let pid = i32::try_from(child.id()).expect("a pid");
        if let Some((whom, signal)) = signal {
            warren_sys::process::kill(whom * pid, signal).expect("it is there");
        }
        let mut line = String::new();
        if signal.is_some() {
            out.read_line(&mut line).expect("it says something");
            assert_eq!(line, "cleaning up\n", "{test}");
            assert!(!played.is_finished(), "{test}: the lock is gone");
        }
        // It cleans up until now.
        drop(child.stdin.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(expected), "{test}");
        played.join().expect("the played manager ends well");
    };
    let cleans = |signal: &str| {
        format!(
            "trap 'echo cleaning up; read -r x; kill -9 $!; exit 5' {signal}; sleep 1000 & echo up; wait"
        )
    };
    check("lock-int", &cleans("INT"), Some((-1, 2)), 5);
    check("lock-quit", &cleans("QUIT"), Some((-1, 3)), 5);
    // What only this program gets is for the command.
    check("lock-term", &cleans("TERM"), Some((1, 15)), 5);
    check("lock-hup", &cleans("HUP"), Some((1, 1)), 5);
    check("lock-killed", "echo up; kill -9 $$", None, 128 + 9);
    check("lock-exit", "echo up; exit 7", None, 7);
}

#[test]
fn a_chart_of_what_is_yet_to_come_is_refused() {
    let said = warren(&["--socket", "/nonexistent/control", "chart", "@99999999999.."]);
    assert_eq!(said, "warren: nothing was recorded at that time\n= 1");
}

#[test]
fn json_that_there_is_not_is_refused() {
    for option in ["--disk-usage", "--header", "-N", "-FX"] {
        let said = warren(&["logs", "--json", option]);
        assert!(said.ends_with(" prints text alone, not JSON\n= 2"), "{said}");
    }
    const TOP: &[&str] = &[r#"{"parameters":{"jobs":0}}"#];
    check("top-json", &["top", "--json"], TOP, "{\"jobs\":0,\"format\":1}\n= 0");
    const RECORDS: &[&str] = &[r#"{"parameters":{"records":[{"name":"a"}]}}"#];
    let row = "{\"name\":\"a\",\"format\":1}\n= 0";
    check("records-json", &["chart", "--list", "--json"], RECORDS, row);
}

/// What bash(1) would offer for a line, by the script that `completion` prints.
fn offered_by_bash(line: &str, current: &str) -> Option<String> {
    const SCRIPT: &str = r#"
warren() { "$PROGRAM" "$@"; }
source <("$PROGRAM" completion bash)
COMP_LINE=$1 COMP_POINT=${#1}
read -ra COMP_WORDS <<<"$COMP_LINE"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_WORDS[COMP_CWORD]=$2
_warren_with_names warren "$2" "${COMP_WORDS[COMP_CWORD-1]}"
echo "${COMPREPLY[@]}"
"#;
    let mut bash = Command::new("bash");
    let bash = bash
        .args(["-c", SCRIPT, "bash", line, current])
        .env("PROGRAM", env!("CARGO_BIN_EXE_warren"));
    let output = bash.output().ok()?;
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[test]
fn names_of_units_are_completed() {
    const UNITS: &[&str] = &[
        r#"{"parameters":{"units":[{"name":"web@a.service"},{"name":"web@b\\x2dc.service"},{"name":"x.service"}]}}"#,
    ];
    let scratch = Scratch::new("completed");
    let socket = scratch.0.join("control");
    let check = |typed: &str, current: &str, expected: &str| {
        let _ = std::fs::remove_file(&socket);
        let played = manager(&socket, UNITS);
        let line = format!("warren --socket {} stop {typed}", socket.display());
        let Some(offered) = offered_by_bash(&line, current) else {
            drop(std::os::unix::net::UnixStream::connect(&socket));
            return;
        };
        assert_eq!(offered, expected, "{line}");
        let asked = played.join().expect("the played manager ends well");
        assert!(asked[0].contains(&format!("[\"{typed}*\"]")), "{asked:?}");
    };
    check("we", "we", r"web@a.service web@b\\x2dc.service");
    check("web@", "", r"a.service b\\x2dc.service");
    check(r"web@b\\x", r"b\\x", r"b\\x2dc.service");
    // Without a manager the options are offered, and nothing is said.
    let _ = std::fs::remove_file(&socket);
    let line = format!("warren --socket {} stop --qu", socket.display());
    assert!(offered_by_bash(&line, "--qu").is_none_or(|offered| offered == "--quiet"));
    let nobody = ["complete-words", "--", "--socket", "/nonexistent", "stop", "w"];
    assert_eq!(warren(&nobody), "= 0");
    assert_eq!(warren(&["complete-words", "--", "chart", "s"]), "shutdown\n= 0");
}

#[test]
fn patterns_are_refused_where_unit_files_are_changed() {
    let said = warren(&["enable", "g*"]);
    assert_eq!(said, "warren: g* is a pattern; name each unit to enable\n= 1");
}

#[test]
fn verify_names_file_line_and_column() {
    let scratch = Scratch::new("verify");
    let good = scratch.write("good.service", "[Service]\nExecStart=/bin/true\n");
    assert_eq!(warren(&["verify", &good]), "= 0");
    let bad =
        scratch.write("bad.service", "[Service]\nExecStart=/bin/true\nFoo=1\nType=sometimes\n");
    let said = warren(&["verify", &bad]);
    assert!(said.contains(&format!("{bad}:3:")) && said.contains("[unknown-setting]"), "{said}");
    assert!(said.contains(&format!("{bad}:4:")) && said.contains("[bad-value]"), "{said}");
    let empty = scratch.write("empty.service", "[Service]\n");
    assert!(warren(&["verify", &empty]).ends_with("= 1"), "{}", warren(&["verify", &empty]));
    let large = format!("[Service]\nExecStart=/bin/true\n{}", "#\n".repeat(8 << 20));
    let large = scratch.write("large.service", &large);
    let said = warren(&["verify", &large]);
    assert!(said.contains("[file-too-large]") && said.ends_with("= 1"), "{said}");
    scratch.write("good.service.d/x.conf", "[Service]\nNice=99\n");
    let said = warren(&["verify", &good]);
    assert!(said.contains("good.service.d/x.conf:2:"), "{said}");
    let directory = scratch.0.display().to_string();
    scratch.write("stronger/good.service/no-file", "");
    let stronger = scratch.0.join("stronger").display().to_string();
    let said =
        warren(&["verify", "--units-in", &stronger, "--units-in", &directory, "good.service"]);
    assert!(said.contains("good.service.d/x.conf:2:"), "{said}");
    let said = warren(&["verify", "--units-in", &directory, "absent"]);
    assert_eq!(said, "Unit absent.service could not be found.\n= 1");
    let said = warren(&["verify", "--units-in", "/nonexistent", "absent"]);
    assert_eq!(said, "warren: /nonexistent: not a directory\n= 1");
}

#[test]
fn verify_checks_a_drop_in_with_its_unit_or_alone_where_it_is_for_many() {
    let scratch = Scratch::new("verify-dropin");
    let wrong = "[Slice]\nMemoryMax=many\n[Service]\nNice=1\n";
    let file =
        |directory: &str, text: &str| scratch.write(&format!("{directory}/10-limits.conf"), text);
    let said = warren(&["verify", &file("customers-.slice.d", wrong)]);
    assert!(said.contains("10-limits.conf:2:11: "), "{said}");
    assert!(said.contains("10-limits.conf:3:"), "a slice has no such section: {said}");
    for alone in ["service.d", "foo-.service.d", "foo-@.service.d", "absent.service.d"] {
        assert_eq!(warren(&["verify", &file(alone, "[Service]\nNice=1\n")]), "= 0", "{alone}");
    }
    let unit = scratch.write("a@.service", "[Service]\nExecStart=/bin/true\nNice=x\n");
    let said = warren(&["verify", &file("a@b.service.d", "[Service]\nNice=y\n")]);
    assert!(
        said.contains("10-limits.conf:2:6: ") && said.contains(&format!("{unit}:3:")),
        "{said}"
    );
    let said = warren(&["verify", &file("elsewhere", "[Service]\n")]);
    assert!(
        said.contains("elsewhere is not a directory UNIT.d") && said.ends_with("= 1"),
        "{said}"
    );
}

#[test]
fn verify_checks_a_template_as_an_instance_of_it() {
    let scratch = Scratch::new("verify-template");
    let service = "[Service]\nExecStart=/bin/true\nSlice=user-%i.slice\n";
    let service = scratch.write("user@.service", service);
    let socket = "[Socket]\nListenStream=/run/%i\nService=log@%i.service\n";
    let socket = scratch.write("log@.socket", socket);
    assert_eq!(warren(&["verify", &service, &socket]), "= 0");
}

#[test]
fn completions_and_manual_pages_come_from_the_table() {
    let scratch = Scratch::new("man");
    let directory = scratch.0.join("man").display().to_string();
    assert_eq!(warren(&["man", &directory]), "= 0");
    let page = std::fs::read_to_string(scratch.0.join("man/warren-refresh.1"));
    assert!(page.expect("the page is there").contains("dry\\-run"));
    let page = |name: &str| {
        let page = std::fs::read_to_string(scratch.0.join(format!("man/{name}.1")));
        page.expect("the page is there").replace("\\-", "-")
    };
    assert!(page("warren").contains("\\fB/run/warren/control\\fR\n"));
    for (name, status) in
        [("warren-stop", "5"), ("warren-is-failed", "1"), ("warren-fleet-diff", "2")]
    {
        let page = page(name);
        let statuses = page.split_once(".SH \"EXIT STATUS\"\n").expect("it has that section").1;
        assert_eq!(statuses.matches(&format!("\\fB{status}\\fR\n")).count(), 1, "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(warren(&["completion", shell]).contains("reload-or-restart"), "{shell}");
    }
}

#[test]
fn who_says_something_to_nobody_ends_as_if_it_had_been_heard() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    drop(ours);
    let status = Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(["--socket", "/nowhere/control", "list"])
        .stderr(std::os::fd::OwnedFd::from(theirs))
        .status()
        .expect("the command can be run");
    assert_eq!(status.code(), Some(1));
}
