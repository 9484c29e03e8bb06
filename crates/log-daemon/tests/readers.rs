//! Who may read the log: members of the groups that systemd's journal has for it, and nobody else.

mod daemon_lab;
#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use daemon_lab::{DONE, Lab, PERSISTENT, VOLATILE, ask, not_run, send, start_below_a_root};

const ADM: u32 = 70_004;
const JOURNAL: u32 = 70_099;

/// The reader in a place where everybody can run it.
fn reader(lab: &Lab) -> PathBuf {
    let copy = lab.path("reader");
    std::fs::copy(reader::journalctl(), &copy).expect("it was built");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("ours");
    copy
}

/// What a user of nothing but a group is shown: lines, what is said of it, and whether that is a success.
fn read_as(lab: &Lab, gid: u32, options: &[&str]) -> (usize, String, bool) {
    let groups = format!("--groups={gid}");
    let output = Command::new("setpriv")
        .args(["--reuid=70001", "--regid=70001", &groups, "--no-new-privs"])
        .arg(lab.path("reader"))
        .args(["-o", "cat", "--root"])
        .arg(&lab.root)
        .args(options)
        .arg("_TRANSPORT=journal")
        .output()
        .expect("setpriv(1)");
    let lines = String::from_utf8_lossy(&output.stdout).lines().count();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (lines, said, output.status.success())
}

fn files(directory: &Path) -> Vec<(String, u32, u32)> {
    let listing = std::fs::read_dir(directory).expect("it is there").flatten();
    let about = |entry: std::fs::DirEntry| {
        let stat = entry.metadata().expect("it can be asked");
        (entry.file_name().into_string().expect("ours"), stat.gid(), stat.mode() & 0o7777)
    };
    listing.map(about).collect()
}

#[test]
fn members_of_the_groups_read_the_log_and_nobody_else_does() {
    if !rustix::process::geteuid().is_root() {
        return not_run("only root gives files to groups");
    }
    let mut lab = Lab::new("readers");
    std::fs::set_permissions(&lab.root, std::fs::Permissions::from_mode(0o755)).expect("ours");
    std::fs::create_dir_all(lab.path("etc")).expect("a directory");
    let groups = format!("root:x:0:\nadm:x:{ADM}:\nsystemd-journal:x:{JOURNAL}:\n");
    std::fs::write(lab.path("etc/group"), groups).expect("a file");
    std::fs::create_dir_all(lab.path(PERSISTENT)).expect("a directory");
    // What an earlier version left is for root alone.
    let old = lab.path(PERSISTENT).join("other-0000000000000001.log");
    std::fs::write(&old, []).expect("a file");
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o640)).expect("ours");
    reader(&lab);
    start_below_a_root(&mut lab, &[]);
    send(&lab, 0..5);
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    send(&lab, 5..10);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE));
    for (name, gid, mode) in files(&lab.path(PERSISTENT)) {
        let wanted = if name == "lock" { 0o600 } else { 0o640 };
        assert_eq!((gid, mode), (JOURNAL, wanted), "{name}");
    }
    for gid in [ADM, JOURNAL] {
        let (lines, said, is_good) = read_as(&lab, gid, &[]);
        assert_eq!((lines, said.as_str(), is_good), (10, "", true), "{gid}");
    }
    let (lines, said, is_good) = read_as(&lab, 70_001, &[]);
    assert_eq!((lines, is_good), (0, false), "{said}");
    assert!(said.contains("Permission denied") && said.contains("'systemd-journal'"), "{said}");

    // One file that may not be read leaves the others.
    let hidden = files(&lab.path(PERSISTENT)).into_iter().find(|file| file.0.ends_with(".seg"));
    let hidden = lab.path(PERSISTENT).join(hidden.expect("it was sealed").0);
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let (lines, said, is_good) = read_as(&lab, ADM, &[]);
    assert_eq!((lines, is_good), (5, true), "{said}");
    assert!(said.contains(&*hidden.to_string_lossy()), "{said}");
    assert_eq!(read_as(&lab, ADM, &["-q"]), (5, String::new(), true));
    // A directory, too.
    let closed = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(lab.path(VOLATILE), closed).expect("ours");
    let (lines, said, is_good) = read_as(&lab, ADM, &[]);
    assert_eq!((lines, is_good), (5, true), "{said}");
    assert!(said.contains(&*lab.path(VOLATILE).to_string_lossy()), "{said}");
    lab.stop();
}

/// What the daemon answers a user of nothing but a group, or why he cannot ask.
fn ask_as(lab: &Lab, gid: u32, method: &str) -> String {
    const CLIENT: &str = "import socket, sys\n\
        client = socket.socket(socket.AF_UNIX)\n\
        client.connect(sys.argv[1])\n\
        client.sendall(sys.argv[2].encode() + b'\\0')\n\
        sys.stdout.write(client.recv(4096).decode())";
    let groups = format!("--groups={gid}");
    let output = Command::new("setpriv")
        .args([
            "--reuid=70001",
            "--regid=70001",
            &groups,
            "--no-new-privs",
            "/usr/bin/python3",
            "-c",
            CLIENT,
        ])
        .arg(lab.path("run/io.warrener.journal"))
        .arg(format!("{{\"method\":\"io.warrener.Journal.{method}\"}}"))
        .output();
    let output = output.expect("setpriv(1)");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// Who may read the log may have it written, and change nothing.
#[test]
fn members_of_the_group_have_the_log_written_and_order_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        return not_run("only root gives files to groups");
    }
    let mut lab = Lab::new("readers-ask");
    std::fs::set_permissions(&lab.root, std::fs::Permissions::from_mode(0o755)).expect("ours");
    std::fs::create_dir_all(lab.path("etc")).expect("a directory");
    let groups = format!("root:x:0:\nadm:x:{ADM}:\nsystemd-journal:x:{JOURNAL}:\n");
    std::fs::write(lab.path("etc/group"), groups).expect("a file");
    start_below_a_root(&mut lab, &[]);
    send(&lab, 0..3);
    assert_eq!(ask_as(&lab, JOURNAL, "Write"), DONE);
    for order in ["Synchronize", "Rotate", "FlushToVar", "RelinquishVar"] {
        let answer = ask_as(&lab, JOURNAL, order);
        assert!(answer.contains("only root may order that"), "{order}: {answer}");
    }
    let outsider = ask_as(&lab, 70_001, "Write");
    assert!(outsider.contains("PermissionError"), "he is in no group: {outsider}");
    assert_eq!(ask(&lab, "Rotate").ok().as_deref(), Some(DONE), "root may");
    lab.stop();
}

/// What somebody has given to a group is left as it is.
#[test]
fn a_directory_that_has_a_group_keeps_it() {
    if !rustix::process::geteuid().is_root() {
        return not_run("only root gives files to groups");
    }
    let mut lab = Lab::new("readers-own");
    std::fs::create_dir_all(lab.path("etc")).expect("a directory");
    std::fs::write(lab.path("etc/group"), format!("adm:x:{ADM}:\n")).expect("a file");
    std::fs::create_dir_all(lab.path(PERSISTENT)).expect("a directory");
    let given = std::os::unix::fs::chown(lab.path(PERSISTENT), None, Some(70_042));
    given.expect("root may");
    start_below_a_root(&mut lab, &[]);
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    lab.stop();
    let stat = lab.path(PERSISTENT).metadata().expect("it is there");
    assert_eq!((stat.gid(), stat.mode() & 0o7777), (70_042, 0o755));
    assert_eq!(lab.path(VOLATILE).metadata().expect("it is there").gid(), ADM);
}

/// Who is in no group sees what he logged himself, and nobody else does.
#[test]
fn a_user_reads_what_he_logged_himself() {
    const USERS: [u32; 2] = [4201, 4202];
    if !rustix::process::geteuid().is_root() {
        return not_run("only root is another user");
    }
    let mut lab = Lab::new("readers-user");
    let open = |path: &Path, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, permissions).expect("ours");
    };
    open(&lab.root, 0o755);
    reader(&lab);
    start_below_a_root(&mut lab, &["Mirror=2M"]);
    open(&lab.path("run/dev-log"), 0o666);
    let log = |uid: u32, text: &str| {
        let user =
            [format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".to_owned()];
        let mut command = Command::new("setpriv");
        command.args(user).args(["logger", "-u"]).arg(lab.path("run/dev-log")).arg(text);
        command.status().is_ok_and(|status| status.success())
    };
    if !USERS.iter().all(|uid| log(*uid, &format!("of {uid}"))) {
        return not_run("setpriv(1) and logger(1)");
    }
    send(&lab, 0..3);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    let shown = |program: &Path, uid: u32| {
        let output = Command::new("setpriv")
            .args([&*format!("--reuid={uid}"), &*format!("--regid={uid}"), "--clear-groups"])
            .arg(program)
            .args(["-o", "cat", "-q", "--root"])
            .arg(&lab.root)
            .output()
            .expect("setpriv(1)");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let ours = lab.path("reader");
    for uid in USERS {
        assert_eq!(shown(&ours, uid), format!("of {uid}"));
    }
    assert_eq!(shown(&ours, 4203), "");
    let debian = Path::new("journalctl");
    if Command::new(debian).arg("--version").output().is_ok() {
        for uid in USERS {
            assert_eq!(shown(debian, uid), format!("of {uid}"), "with systemd's own reader");
        }
        let all = Command::new(debian)
            .args(["-o", "cat", "-q", "--root"])
            .arg(&lab.root)
            .output()
            .expect("it was there");
        let all = String::from_utf8_lossy(&all.stdout).into_owned();
        let count = |text: &str| all.lines().filter(|line| *line == text).count();
        for text in ["of 4201", "of 4202", "number 0", "number 2"] {
            assert_eq!(count(text), 1, "root sees it once: {all}");
        }
    }
    lab.stop();
}
