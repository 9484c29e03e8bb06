//! `warren run` and the tour with the real manager: that it works, and that nothing is left.
//!
//! Needs warren-init, warren-exec and warrend beside the command (`cargo build --workspace`), and
//! the right to make namespaces. Where one is missing, this says NOT RUN and why.

mod real;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use real::lacks;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::process;

/// What has not happened by then never will.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_warren"))
}

/// Says loudly, past the test runner's capture, that a test could not run.
fn not_run(test: &str, why: &str) {
    warren_testkit::not_run_of(test, why);
}

/// Cgroups and temporary directories that machines of this name left.
fn left_behind(pid: u32) -> Vec<PathBuf> {
    let groups = warren_sys::cgroup::mount_point().ok().flatten();
    let names = ["tour", "nested"].map(|kind| format!("warren-{kind}-{pid}"));
    let directories = groups.into_iter().chain([std::env::temp_dir()]);
    let all = directories.flat_map(|d| names.clone().map(|name| d.join(name)));
    all.filter(|path| path.exists()).collect()
}

fn wait_for_end(pid: i32) {
    let Ok(pidfd) = process::pidfd_open(pid) else { return };
    let epoll = Epoll::new().expect("an epoll can be made");
    epoll.add(&pidfd, 0, Interest::READ).expect("a pidfd can be watched");
    epoll.wait(&mut Events::with_capacity(1), None).expect("it can be waited for");
}

#[test]
fn the_tour_works_and_leaves_nothing() {
    if let Some(why) = lacks() {
        return not_run("the_tour_works_and_leaves_nothing", why);
    }
    let tour = command()
        .args(["tour", "--sets", "5", "--slices", "--once"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tour can be started");
    let pid = tour.id();
    let output = tour.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("\"ok 1\" from test-nginx-1.service"), "{said}");
    assert!(said.contains("0 added, 1 changed, 0 removed"), "{said}");
    assert_eq!(left_behind(pid), Vec::<PathBuf>::new());
}

#[test]
fn the_tour_of_rules_works() {
    if let Some(why) = lacks() {
        return not_run("the_tour_of_rules_works", why);
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hosting");
    let few = std::env::temp_dir().join(format!("warren-test-rules-{}", std::process::id()));
    std::fs::create_dir_all(&few).expect("a temporary directory can be made");
    for entry in std::fs::read_dir(example).expect("it is there").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("text");
        let text = text.replace("range(1, 5001)", "range(1, 21)");
        std::fs::write(few.join(entry.file_name()), text).expect("it can be written");
    }
    let tour = command().args(["tour", "--once", "--fleet"]).arg(&few).output();
    let tour = tour.expect("the tour can be started");
    std::fs::remove_dir_all(&few).expect("it is there");
    let (said, errors) =
        (String::from_utf8_lossy(&tour.stdout), String::from_utf8_lossy(&tour.stderr));
    assert!(tour.status.success(), "{said}{errors}");
    assert!(said.contains("\"ok shop\" from shop-web.service"), "{said}");
    assert!(said.contains("0 added, 1 changed, 0 removed"), "{said}");
    assert!(said.contains("~ shop-web.service  apply Service \"web\""), "{said}");
}

/// Starts an empty machine and waits until it is up. The name says whose it is. It ends with a test that fails.
fn start_machine(test: &str) -> (Child, i32) {
    start_machine_by(command(), test)
}

/// The same by a command that becomes `warren` with the arguments it is given.
fn start_machine_by(command: Command, test: &str) -> (Child, i32) {
    start_machine_with(command, test, &[])
}

fn start_machine_with(mut command: Command, test: &str, more: &[&str]) -> (Child, i32) {
    let path = std::env::temp_dir().join(format!("warren-test-{test}-{}", std::process::id()));
    let notify = std::os::unix::net::UnixDatagram::bind(&path).expect("a socket can be made");
    let machine = command
        .args(["run", "--quiet", "--with-parent"])
        .args(more)
        .env("NOTIFY_SOCKET", &path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the machine can be started");
    let mut buffer = [0u8; 4096];
    notify.set_read_timeout(Some(PATIENCE)).expect("a bound can be set");
    loop {
        let length = notify.recv(&mut buffer).expect("it tells that it is ready");
        if String::from_utf8_lossy(&buffer[..length]).contains("READY=1") {
            break;
        }
    }
    std::fs::remove_file(&path).expect("it is there");
    let name = format!("nested-{}", machine.id());
    let found = warren_cli::machine::find(&name).expect("the machine can be found");
    (machine, found.pid)
}

/// The boot that just ended, as a table and in every other form.
fn check_charts(ask: &dyn Fn(&[&str]) -> String) {
    let live = ask(&["chart", "-1h.."]);
    assert!(live.contains("multi-user.target start"), "{live}");
    // The boot's recording is written aside: readiness may have been told before.
    let (end, mut boot) = (std::time::Instant::now() + PATIENCE, String::new());
    while boot.is_empty() && std::time::Instant::now() < end {
        boot = ask(&["chart"]);
    }
    assert!(boot.contains("The system is up. Boot took"), "{boot}");
    assert!(boot.contains("Critical path\n"), "{boot}");
    assert!(ask(&["chart", "--list"]).contains(" bytes  boot-"));
    assert!(ask(&["chart", "--compare", "boot", "-1h.."]).contains("took the same time"));
    let directory = std::env::temp_dir().join(format!("warren-charts-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let begins = [("html", "<!doctype html>"), ("svg", "<svg "), ("json", "{\""), ("txt", "20")];
    for (form, begin) in begins {
        let path = directory.join(format!("boot.{form}"));
        ask(&["chart", "boot", "-o", path.to_str().expect("a text")]);
        let chart = std::fs::read_to_string(&path).expect("it is written");
        assert!(chart.starts_with(begin), "{form}: {}", &chart[..chart.len().min(80)]);
    }
    std::fs::remove_dir_all(&directory).expect("it is there");
}

#[test]
fn a_machine_can_be_asked_entered_stopped_and_killed() {
    if let Some(why) = lacks() {
        return not_run("a_machine_can_be_asked_entered_stopped_and_killed", why);
    }
    let (mut machine, init) = start_machine("asked");
    let name = format!("nested-{}", machine.id());
    let ask = |args: &[&str]| {
        let output = command().args(["-M", &name]).args(args).output().expect("it can be run");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(ask(&["is-active", "multi-user.target"]), "active\n");
    assert_eq!(ask(&["enter", "cat", "/proc/1/comm"]), "warren-init\n");
    let ended = |inside: &[&str]| {
        let status = command().args(["-M", &name, "enter"]).args(inside).status();
        status.expect("it can be run").code()
    };
    assert_eq!(ended(&["sh", "-c", "exit 3"]), Some(3));
    assert_eq!(ended(&["sh", "-c", "kill -9 $$"]), Some(128 + 9));
    assert_eq!(ended(&["no-such-command"]), Some(127));
    let twice = command().args(["run", "--name", &name]).output().expect("it can be run");
    let said = String::from_utf8_lossy(&twice.stderr);
    assert!(!twice.status.success() && said.contains("is already running"), "{said}");
    let check = |args: &[&str], expected: &str| assert!(ask(args).contains(expected), "{args:?}");
    check(
        &["enter", "sh", "-c", "echo '[Unit' >/run/systemd/system/broken.service; echo 1"],
        "1\n",
    );
    check(&["verify", "broken"], "/run/systemd/system/broken.service:1:");
    check(&["refresh"], "+ broken.service\n");
    check(&["status", "broken"], "Fault: /run/systemd/system/broken.service:1:");
    check_charts(&ask);
    let top = ask(&["top"]);
    assert!(top.starts_with("warren top") && top.contains("system.slice"), "{top}");
    process::kill(machine.id() as i32, 15).expect("it can be signalled");
    let status = machine.wait().expect("it ends");
    assert!(status.success(), "{status}");
    wait_for_end(init);
    assert_eq!(left_behind(machine.id()), Vec::<PathBuf>::new());
}

/// What `systemctl poweroff` asks for where there is no logind.
#[test]
fn a_machine_ends_by_the_target_of_an_end() {
    if let Some(why) = lacks() {
        return not_run("a_machine_ends_by_the_target_of_an_end", why);
    }
    for end in ["poweroff", "reboot", "halt", "exit"] {
        let (mut machine, init) = start_machine(&format!("ends-by-{end}"));
        let name = format!("nested-{}", machine.id());
        let target = format!("{end}.target");
        let asked = command().args(["-M", &name, "start", "--no-block", &target]).output();
        let asked = asked.expect("it can be run");
        assert!(asked.status.success(), "{end}: {}", String::from_utf8_lossy(&asked.stderr));
        assert!(machine.wait().expect("it ends").success(), "{end}");
        wait_for_end(init);
    }
}

#[test]
fn a_machine_whose_manager_takes_no_such_argument_ends_with_its_usage_error() {
    let test = "a_machine_whose_manager_takes_no_such_argument_ends_with_its_usage_error";
    if let Some(why) = lacks() {
        return not_run(test, why);
    }
    let run = command().args(["run", "--quiet", "--with-parent", "--", "--bogus"]).output();
    let run = run.expect("it can be run");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("unexpected argument '--bogus' found"), "{said}");
    assert_eq!(run.status.code(), Some(2), "{said}");
}

#[test]
fn a_machine_of_which_something_is_wrong_is_refused_before_anything_is_made() {
    let test = "a_machine_of_which_something_is_wrong_is_refused_before_anything_is_made";
    if let Some(why) = lacks() {
        return not_run(test, why);
    }
    let name = format!("nested-{}", std::process::id());
    let check = |args: &[&str], status, expected: &str| {
        let run = command().args(["run", "--name", &name]).args(args).output();
        let run = run.expect("it can be run");
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(status), "{said}");
        assert!(said.contains(expected) && !said.contains("runs"), "{said}");
        assert_eq!(left_behind(std::process::id()), Vec::<PathBuf>::new(), "{args:?}");
    };
    check(&["--units", "/nonexistent"], 1, "warren: /nonexistent: ");
    check(&["--fleet", "/nonexistent"], 1, "warren: /nonexistent: ");
    check(&["--init", "/nonexistent"], 1, "warren: /nonexistent: ");
    check(&["--units", "/etc/passwd"], 1, "warren: /etc/passwd: not a directory");
    check(&["--unit", "a b"], 2, "invalid value 'a b'");
    for name in ["", "a/b", "17"] {
        let run = command().args(["run", "--name", name]).output().expect("it can be run");
        assert_eq!(run.status.code(), Some(2), "{name}");
    }
}

/// A process that says of itself that it is a machine's process 1.
fn claim(program: &Path, name: &str, uid: u32) -> Child {
    use std::os::unix::process::CommandExt;
    Command::new(program)
        .arg("infinity")
        .env(warren_cli::machine::NAME_VARIABLE, name)
        .env(warren_cli::machine::CONTROL_VARIABLE, "/run/warren/control")
        .uid(uid)
        .spawn()
        .expect("it can be started")
}

#[test]
fn a_name_that_any_process_claims_is_no_machine_and_another_users_is_not_entered() {
    let test = "a_name_that_any_process_claims_is_no_machine_and_another_users_is_not_entered";
    if process::own_ids().0 != 0 {
        return not_run(test, "it needs root");
    }
    const NOBODY: u32 = 65534;
    let directory = std::env::temp_dir().join(format!("warren-test-claim-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let program = directory.join("warren-init");
    // Written by another process: a child of another test must not hold it open for writing.
    let written = Command::new("install").arg("/bin/sleep").arg(&program).status();
    assert!(written.expect("coreutils are there").success());
    let name = format!("claimed-{}", std::process::id());
    for (uid, stranger) in [(0, None), (NOBODY, Some(NOBODY))] {
        let mut claimed = claim(&program, &name, uid);
        let pid = claimed.id().to_string();
        let by_name = warren_cli::machine::find(&name);
        let by_pid = warren_cli::machine::find(&pid);
        let entered = command().args(["-M", &pid, "enter", "true"]).output();
        claimed.kill().and_then(|()| claimed.wait()).expect("it ends");
        assert_eq!(by_name, None, "{uid}");
        assert_eq!(by_pid.map(|machine| machine.stranger), Some(stranger), "{uid}");
        let entered = entered.expect("it can be run");
        let said = String::from_utf8_lossy(&entered.stderr);
        if stranger.is_some() {
            let expected = format!("warren: process {pid} is a machine of user {NOBODY}\n");
            assert!(!entered.status.success() && said.starts_with(&expected), "{said}");
            assert!(said.ends_with("run this as that user\n"), "{said}");
        }
    }
    std::fs::remove_dir_all(&directory).expect("it is there");
}

#[test]
fn a_killed_run_takes_its_machine_along() {
    if let Some(why) = lacks() {
        return not_run("a_killed_run_takes_its_machine_along", why);
    }
    let (mut machine, init) = start_machine("killed");
    let outer = process::parent(init).expect("it has a parent");
    machine.kill().expect("it can be killed");
    machine.wait().expect("it ends");
    // The middle stage kills process 1, removes the cgroup and ends.
    wait_for_end(outer);
    assert!(!Path::new(&format!("/proc/{init}")).exists(), "process 1 is gone");
    assert_eq!(left_behind(machine.id()), Vec::<PathBuf>::new());
}

/// A root directory that is no mount point, as of a plain chroot(8), with this machine's directories
/// and what is to be executed.
const CHROOT: &str = r#"
set -e
root=$1 program=$2; shift 2
mkdir -p "$root/proc" "$root/tmp" "$root/run"
for name in bin etc lib lib32 lib64 sbin usr dev sys; do
    if [ -L "/$name" ]; then cp -a "/$name" "$root/$name"
    elif [ -d "/$name" ]; then mkdir "$root/$name"; mount --rbind "/$name" "$root/$name"; fi
done
mount --rbind /proc "$root/proc"
mount --bind /tmp "$root/tmp"
mkdir "$root/programs"
mount --bind "${program%/*}" "$root/programs"
exec chroot "$root" "/programs/${program##*/}" "$@"
"#;

#[test]
fn a_machine_runs_in_a_plain_chroot() {
    if let Some(why) = lacks() {
        return not_run("a_machine_runs_in_a_plain_chroot", why);
    }
    if std::env::temp_dir() != Path::new("/tmp") {
        return not_run("a_machine_runs_in_a_plain_chroot", "temporary files in /tmp");
    }
    let root = std::env::temp_dir().join(format!("warren-test-root-{}", std::process::id()));
    std::fs::create_dir(&root).expect("a directory can be made");
    let mut chroot = Command::new("unshare");
    chroot.args(["--mount", "--propagation", "private", "sh", "-c", CHROOT, "sh"]);
    chroot.arg(&root).arg(env!("CARGO_BIN_EXE_warren"));
    let (mut machine, init) = start_machine_by(chroot, "chroot");
    let name = format!("nested-{}", machine.id());
    let ask = command().args(["-M", &name, "is-active", "multi-user.target"]).output();
    assert_eq!(ask.expect("it can be run").stdout, b"active\n");
    process::kill(machine.id() as i32, 15).expect("it can be signalled");
    let status = machine.wait().expect("it ends");
    assert!(status.success(), "{status}");
    wait_for_end(init);
    assert_eq!(left_behind(machine.id()), Vec::<PathBuf>::new());
    // Its mounts were in a namespace that is gone: what is left are directories and links.
    std::fs::remove_dir_all(&root).expect("it can be removed");
}

/// Debian mounts cgroup v2 at `/sys/fs/cgroup` itself: what a machine does there must not be done to the host's.
#[test]
fn a_machine_on_a_host_with_unified_cgroups_has_groups_of_its_own() {
    let test = "a_machine_on_a_host_with_unified_cgroups_has_groups_of_its_own";
    if let Some(why) = lacks() {
        return not_run(test, why);
    }
    if warren_sys::cgroup::mount_point().ok().flatten().is_none() {
        return not_run(test, "no cgroup2 file system is mounted");
    }
    const UNIFIED: &str = "mount -t tmpfs none /sys/fs/cgroup && \
        mount -t cgroup2 none /sys/fs/cgroup && exec \"$@\"";
    let mut on_unified = Command::new("unshare");
    on_unified.args(["--mount", "sh", "-c", UNIFIED, "sh", env!("CARGO_BIN_EXE_warren")]);
    let (mut machine, init) = start_machine_by(on_unified, "unified");
    let groups = std::fs::read_to_string(format!("/proc/{init}/cgroup")).expect("it runs");
    let own = format!("/warren-nested-{}/init.scope", machine.id());
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).expect("it is in one");
    assert!(group.ends_with(&own), "{group}");
    process::kill(machine.id() as i32, 15).expect("it runs");
    assert!(machine.wait().expect("it ends").success());
    wait_for_end(init);
    assert_eq!(left_behind(machine.id()), Vec::<PathBuf>::new());
}

/// A directory on the disk: of what is in `/tmp`, a machine may have its own.
#[test]
fn what_an_ephemeral_machine_writes_is_gone_with_it() {
    let test = "what_an_ephemeral_machine_writes_is_gone_with_it";
    if let Some(why) = lacks() {
        return not_run(test, why);
    }
    let name = format!("ephemeral-{}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let place = |name: &str| directory.join(name).display().to_string();
    std::fs::create_dir_all(place("kept")).expect("a directory can be made");
    for (file, text) in [("old", "old"), ("kept/x", "x"), ("kept/seen", "seen"), ("made", "made")] {
        std::fs::write(place(file), text).expect("it can be written");
    }
    let server = std::os::unix::net::UnixListener::bind(place("socket")).expect("a socket");
    // Where the manager says that it is ready.
    let shared = std::env::temp_dir().join(format!("warren-test-ephemeral-{}", std::process::id()));
    for name in ["units", "rules"] {
        std::fs::create_dir(place(name)).expect("a directory can be made");
        std::fs::write(place(&format!("{name}/old")), "old").expect("it can be written");
    }
    let words = [
        "--ephemeral",
        "--units",
        &place("units"),
        "--fleet",
        &place("rules"),
        "--bind",
        &place("socket"),
        "--bind",
        &shared.display().to_string(),
        "--without",
        &place("made"),
        "--without",
        &place("kept/x"),
    ];
    let (mut machine, init) = start_machine_with(command(), "ephemeral", &words);
    let name = format!("nested-{}", machine.id());
    let inside = |script: &str| {
        let words = ["-M", &name, "enter", "sh", "-c", script, "sh"];
        let output = command().args(words).arg(&directory).output().expect("it can be run");
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    let script = "cd $1; cat old kept/seen; ls made kept/x 2>/dev/null; \
        echo new > old; echo new > new; mv kept moved; rm moved/seen; ls; cat old; stat -c %a:%u . /dev/shm";
    let said = inside(script);
    let shown = inside(
        "cd /etc/systemd/system 2>/dev/null || cd /run/systemd/system; cat old; echo new >old; echo new >new; \
         cd /run/warren/fleet.d; cat old; rm old; echo new >new; ls",
    );
    let connected = inside("command -v python3 >/dev/null || { echo connected; exit; }
        python3 -c 'import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1] + \"/socket\"); print(\"connected\")' $1");
    process::kill(machine.id() as i32, 15).expect("it can be signalled");
    let status = machine.wait().expect("it ends");
    wait_for_end(init);
    drop(server);
    let read = |name: &str| std::fs::read_to_string(place(name)).unwrap_or_default();
    let host = ["old", "kept/x", "kept/seen", "made", "new", "moved/x"].map(read);
    let given = ["units/old", "rules/old", "units/new", "rules/new"].map(read);
    std::fs::remove_dir_all(&directory).expect("it is there");
    assert!(status.success(), "{status}: {said}");
    assert_eq!(said, "oldseenmoved\nnew\nold\nrules\nsocket\nunits\nnew\n755:0\n1777:0\n");
    assert_eq!(connected, "connected\n");
    assert_eq!(shown, "oldoldnew\n");
    assert_eq!(given, ["old", "old", "", ""], "nor where units and rules come from");
    assert_eq!(host, ["old", "x", "seen", "made", "", ""], "on the host nothing has changed");
    assert_eq!(left_behind(machine.id()), Vec::<PathBuf>::new());
}
