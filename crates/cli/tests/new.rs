//! `warren new` as somebody uses it who has a command and no unit.

mod real;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use warren_testkit::Scratch;

fn warren(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warren")).args(words).output().expect("it runs")
}

/// The unit that is written for a shell's script, run for two seconds at most.
#[track_caller]
fn of(script: &str) -> (String, Option<i32>) {
    let words =
        ["new", "app", "--quiet", "--run-for", "2", "--no-try", "--", "/bin/sh", "-c", script];
    let output = warren(&words);
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
        "--no-try",
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
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"), "{again:?}");
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

/// A unit that is written and tried: its text, what is said, and the exit status.
#[track_caller]
fn tried(seconds: u32, command: &[&str]) -> (String, String, Option<i32>) {
    let seconds = seconds.to_string();
    let mut words = vec!["new", "app", "--run-for", &seconds, "--"];
    words.extend(command);
    let child = Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(&words)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it can be started");
    let pid = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(left_behind(pid), Vec::<PathBuf>::new());
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// Cgroups of machines, and directories, that a run of this number left.
fn left_behind(pid: u32) -> Vec<PathBuf> {
    let groups = warren_sys::cgroup::mount_point().ok().flatten();
    let in_directory = |directory: PathBuf| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let names = [format!("warren-try-{pid}-"), format!("warren-new-{pid}-")];
    let all = groups.into_iter().chain([std::env::temp_dir()]).flat_map(in_directory);
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        names.iter().any(|own| name.starts_with(own))
    };
    all.filter(is_ours).collect()
}

/// A directory that is not temporary: of those a trial compares nothing.
struct Lasting(PathBuf);

impl Lasting {
    fn new(name: &str) -> Lasting {
        let name = format!("{name}-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        Lasting(directory)
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_unit_that_was_tried_says_what_it_did() {
    let test = "a_unit_that_was_tried_says_what_it_did";
    if let Some(why) = real::lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    if !Path::new("/usr/bin/python3").exists() {
        return warren_testkit::not_run_of(test, "no Python is installed");
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free.expect("a port is free").port().to_string();
    let command = ["python3", "-m", "http.server", "--bind", "127.0.0.1", &port];
    let (text, said, status) = tried(3, &command);
    let expected =
        format!("Tried for 3 s in a nested manager: it goes on, listens at TCP 127.0.0.1:{port}.");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.lines().any(|line| line == expected), "{said}");
    assert!(has(&text, &format!("# {expected}")), "{text}");
    assert!(has(&text, "DynamicUser=yes") && !text.contains("Not tried"), "{text}");
}

#[test]
fn a_trial_writes_what_the_run_wrote_and_keeps_nothing_of_it() {
    let test = "a_trial_writes_what_the_run_wrote_and_keeps_nothing_of_it";
    if let Some(why) = real::lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    let directory = Lasting::new("trial-writes");
    let (old, new) = (directory.0.join("old"), directory.0.join("new/file"));
    std::fs::write(&old, "before\n").expect("it can be written");
    // What the run made is not there in the trial: it can be made again.
    let script = format!(
        "echo again >> {0}/old; mkdir {0}/new && echo x > {0}/new/file && exec sleep 100",
        directory.0.display()
    );
    let (text, said, status) = tried(2, &["/bin/sh", "-c", &script]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("in a nested manager: it goes on, writes 2 files."), "{said}");
    assert!(has(&text, &format!("ReadWritePaths={}", directory.0.display())), "{text}");
    let read = |path: &Path| std::fs::read_to_string(path).expect("the run wrote it");
    assert_eq!((read(&old).as_str(), read(&new).as_str()), ("before\nagain\n", "x\n"));
}

#[test]
fn a_setting_that_is_in_the_way_is_found_and_left_out() {
    let test = "a_setting_that_is_in_the_way_is_found_and_left_out";
    if let Some(why) = real::lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    // Calls show neither: it only asks who it is, and what it could do.
    let check = |script: &str, status: u32, settings: &[&str], kept: &str| {
        let (text, said, code) = tried(2, &["/bin/sh", "-c", script]);
        assert_eq!(code, Some(0), "{said}");
        let found = format!("Left out, as it was in the way: {}=.", settings.join("=, "));
        assert!(said.lines().any(|line| line == found), "{said}");
        let reason = format!("with it the main process exited with code {status}");
        assert!(said.contains(&format!("W{}.", &reason[1..])), "{said}");
        for name in settings {
            assert!(text.contains(&format!("# without {name}=: {reason}")), "{text}");
            assert!(!text.lines().any(|line| line.starts_with(&format!("{name}="))), "{text}");
        }
        assert!(has(&text, kept), "{text}");
        assert!(text.contains("# Tried for 2 s in a nested manager"), "{text}");
    };
    let is_root = "id -u | grep -qx 0 || { echo I am not root; exit 7; }; exec sleep 100";
    check(is_root, 7, &["DynamicUser"], "ProtectSystem=strict");
    let is_writable = "[ -w /etc/passwd ] || exit 3";
    check(is_writable, 3, &["DynamicUser", "ProtectSystem"], "ProtectHome=yes");
}

#[test]
fn what_needs_more_than_the_trial_has_blames_no_setting() {
    let test = "what_needs_more_than_the_trial_has_blames_no_setting";
    if let Some(why) = real::lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    // A directory that nested machines alone have.
    let script = "[ ! -d /run/warren/base ] || { echo I am in a machine; exit 5; }";
    let (text, said, status) = tried(2, &["/bin/sh", "-c", script]);
    assert_eq!(status, Some(1), "{said}");
    let expected =
        "Tried, and it does not do what the command did: the main process exited with code 5.";
    assert!(said.lines().any(|line| line == expected), "{said}");
    assert!(said.contains("It does not do so without its sandbox either"), "{said}");
    assert!(said.contains("I am in a machine"), "{said}");
    assert!(has(&text, &format!("# {expected}")) && has(&text, "DynamicUser=yes"), "{text}");
}

#[test]
fn a_socket_of_the_host_can_be_reached_in_a_trial() {
    let test = "a_socket_of_the_host_can_be_reached_in_a_trial";
    if let Some(why) = real::lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    if !Path::new("/usr/bin/python3").exists() {
        return warren_testkit::not_run_of(test, "no Python is installed");
    }
    let directory = Lasting::new("trial-socket");
    let path = directory.0.join("server");
    let server = std::os::unix::net::UnixListener::bind(&path).expect("a socket can be made");
    let connect = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])";
    let path = path.to_string_lossy();
    let (_, said, status) = tried(2, &["/usr/bin/python3", "-c", connect, &path]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("in a nested manager: it ends well."), "{said}");
    server.set_nonblocking(true).expect("it can be set");
    let connections = server.incoming().take_while(Result::is_ok).count();
    assert!(connections >= 2, "the run and the trial");
}

#[test]
fn a_unit_that_cannot_be_tried_says_so() {
    let directory = Lasting::new("trial-alone");
    let program = directory.0.join("warren");
    std::fs::hard_link(env!("CARGO_BIN_EXE_warren"), &program).expect("on one file system");
    if Path::new("/usr/lib/warren/warren-init").exists() {
        return warren_testkit::not_run("a host where no Warrener is installed");
    }
    let run = |words: &[&str]| {
        let output = Command::new(&program).args(words).output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr), output.status.code())
    };
    let (text, said, status) = run(&["new", "app", "--run-for", "1", "--", "true"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("Not tried: ") && said.contains("is not installed"), "{said}");
    assert!(text.contains("# Not tried: ") && !text.contains("Tried for"), "{text}");
    let (text, said, _) = run(&["new", "app", "--run-for", "1", "--no-try", "--", "true"]);
    assert!(has(&text, "# Not tried.") && !said.contains("ried"), "{text}{said}");
}

#[test]
fn protection_that_was_not_in_force_in_a_trial_is_named() {
    let test = "protection_that_was_not_in_force_in_a_trial_is_named";
    if let Some(why) = real::lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    // In mounts of its own, where there are no cgroups.
    const WITHOUT_CGROUPS: &str = "for place in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts | sort -r); do \
        umount $place || exit 9; done; exec \"$@\"";
    let warren = env!("CARGO_BIN_EXE_warren");
    let words = ["new", "app", "--run-for", "1", "--", "/bin/sh", "-c", "exec sleep 100"];
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", WITHOUT_CGROUPS, "sh", warren])
        .args(words)
        .output()
        .expect("util-linux is there");
    let [text, said] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert_eq!(output.status.code(), Some(0), "{said}");
    let expected = "# Tried for 1 s in a nested manager: it goes on. Not in force then: running without cgroups: ";
    let line = text.lines().find(|line| line.starts_with(expected));
    let line = line.unwrap_or_else(|| panic!("{text}{said}"));
    assert!(line.contains("PrivateDevices= is not applied: there are no control groups"), "{line}");
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let test = "a_signal_leaves_nothing_behind";
    if let Some(why) = real::lacks() {
        return warren_testkit::not_run_of(test, why);
    }
    let begins = ["Running the command", "Trying the unit"];
    for (begin, seconds) in begins.into_iter().zip(["1000", "2"]) {
        let words = ["new", "app", "--run-for", seconds, "--", "/bin/sh", "-c", "exec sleep 9472"];
        let mut child = Command::new(env!("CARGO_BIN_EXE_warren"))
            .args(words)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut lines = std::io::BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        while !line.starts_with(begin) {
            line.clear();
            let read = std::io::BufRead::read_line(&mut lines, &mut line).expect("it is told");
            assert!(read > 0, "it has ended before: {begin}");
        }
        let pid = child.id();
        warren_testkit::wait_until("its directory", || !left_behind(pid).is_empty());
        warren_sys::process::kill(pid as i32, 2).expect("it is there");
        assert_eq!(child.wait().expect("it ends").code(), Some(128 + 2), "{begin}");
        warren_testkit::wait_until("nothing is left", || left_behind(pid).is_empty());
        let is_ours = |entry: std::fs::DirEntry| {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            command.starts_with(b"sleep\x009472")
        };
        let none = || !std::fs::read_dir("/proc").expect("it is there").flatten().any(is_ours);
        warren_testkit::wait_until("the program is gone", none);
    }
}
