//! `warren devices scan`: run as users run it, fed rubbish and what does not answer.

use std::fs;
use std::process::{Command, Output};

use warren_device::Uuid;
use warren_device::image::{self, Disk};
use warren_device::luks::Luks;
use warren_device::lvm::LvmId;
use warren_device::lvm::group::{Marks, Member, VolumeGroup};
use warren_device::lvm::label::{Area, PvHeader};

fn run(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_warren");
    Command::new(program).arg("devices").args(args).output().expect("the program can be started")
}

/// Exit status, standard output, whether anything went to standard error.
fn check(args: &[&str], code: i32, expected: &str, errors: bool) {
    let output = run(args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), text.as_str()), (Some(code), expected), "{args:?}: {said}");
    assert_eq!(!said.is_empty(), errors, "{args:?}: {said}");
}

#[test]
fn images_are_read_and_rubbish_is_survived() {
    let dir = std::env::temp_dir().join(format!("warren-scan-{}", std::process::id()));
    fs::create_dir(&dir).expect("the temporary directory takes one more");
    let path = |name: &str| dir.join(name).to_str().expect("a plain path").to_owned();
    let mut disk = Disk::new(1 << 20);
    let luks = Luks { version: 1, uuid: Uuid([9; 16]), label: String::new(), from_second: false };
    image::put_luks(&mut disk, &luks, 0x4000);
    write(&disk, &path("luks"));
    fs::write(path("empty"), b"").expect("it can be written");
    let (luks, empty, gone) = (path("luks"), path("empty"), path("gone"));
    let uuid = "09090909-0909-0909-0909-090909090909";
    let shown = format!("luks {uuid}: encrypted\n  {luks}: luks1 {uuid}, 1 MiB\n");
    check(&["scan", &luks], 0, &shown, false);
    check(&["scan", "--", &luks], 0, &shown, false);
    check(&["scan", &empty], 0, &format!("{empty}: nothing known\n"), false);
    let not_there = format!("{gone}: cannot be read: No such file or directory (os error 2)\n");
    check(&["scan", &gone], 1, &not_there, false);
    let json = format!(
        "{{\"v\":1,\"kind\":\"disk\",\"name\":\"{empty}\",\"bytes\":0,\"what\":\"nothing known\",\
         \"notes\":[],\"read\":true}}\n"
    );
    check(&["scan", &empty, "--json"], 0, &json, false);
    let json = format!(
        "{{\"v\":1,\"kind\":\"disk\",\"name\":\"{gone}\",\"bytes\":0,\"what\":\"cannot be read: No such file \
         or directory (os error 2)\",\"notes\":[],\"read\":false}}\n"
    );
    check(&["scan", &gone, "--json"], 1, &json, false);
    // What is no disk is not opened: of a pipe that would wait, of a watchdog it would do something.
    let fifo = path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
    for odd in ["/dev/null", "/dev/zero", dir.to_str().expect("a plain path"), &fifo] {
        let shown = format!("{odd}: cannot be read: neither a block device nor a file\n");
        check(&["scan", odd], 1, &shown, false);
    }
    if let Some(needs) = lacks() {
        warren_testkit::not_run(&format!("what a scan leaves behind is counted with {needs}"));
    } else {
        assert_eq!(left_behind(&empty), "0\n");
    }
    fs::remove_dir_all(&dir).expect("it was made here");
}

/// Processes that are there after a scan, on a machine whose first process takes up no orphans.
fn left_behind(path: &str) -> String {
    let first = "import os, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); \
                 print(sum(name.isdigit() for name in os.listdir('/proc')) - 1)";
    let unshare = ["-m", "--propagation", "private", "--fork", "--pid", "--mount-proc"];
    let output = Command::new("unshare")
        .args(unshare)
        .args(["python3", "-c", first, env!("CARGO_BIN_EXE_warren"), "devices", "scan", path])
        .output()
        .expect("it can be started");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write(disk: &Disk, path: &str) {
    let mut bytes = vec![0; 1 << 20];
    for (at, block) in disk.extents() {
        bytes[at as usize..at as usize + block.len()].copy_from_slice(block);
    }
    fs::write(path, &bytes).expect("it can be written");
}

/// A disk whose group belongs to the host `owner`.
fn owned_disk(owner: &str) -> Disk {
    let (id, area) = (
        |c: &str| LvmId::parse(&c.repeat(32)).expect("an id"),
        Area { offset: 4096, bytes: 65536 },
    );
    let member = Member {
        id: id("p"),
        device_hint: String::new(),
        device_bytes: 1 << 20,
        written_off: false,
    };
    let group = VolumeGroup {
        id: id("g"),
        name: "data".to_owned(),
        seqno: 1,
        system_id: owner.to_owned(),
        marks: Marks::default(),
        members: vec![member],
        volumes: Vec::new(),
    };
    let header = PvHeader {
        id: id("p"),
        device_bytes: 1 << 20,
        data_areas: Vec::new(),
        metadata_areas: vec![area],
        extension_version: 2,
        flags: 1,
    };
    let mut disk = Disk::new(1 << 20);
    image::put_label(&mut disk, 1, &header);
    image::put_area(&mut disk, area, 512, &image::group_text(&group));
    disk
}

#[test]
fn a_group_of_this_host_is_not_called_anothers() {
    let dir = std::env::temp_dir().join(format!("warren-owner-{}", std::process::id()));
    fs::create_dir(&dir).expect("the temporary directory takes one more");
    let path = |name: &str| dir.join(name).to_str().expect("a plain path").to_owned();
    write(&owned_disk("here"), &path("here"));
    write(&owned_disk("there"), &path("there"));
    fs::write(path("script"), "#!/bin/sh\necho '  system ID: here'\n").expect("it can be written");
    // By another process: a child of another test must not hold it open for writing.
    let installed = Command::new("install").args([path("script"), path("lvm")]).status();
    assert!(installed.expect("coreutils are there").success());
    for (name, at, expected) in [
        ("here", dir.as_path(), "complete\n"),
        (
            "there",
            dir.as_path(),
            "complete, not started automatically: owned by system \"there\"\n",
        ),
        // Nobody knows what this host is called.
        ("here", "/nowhere".as_ref(), "not started automatically: owned by system \"here\"\n"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren"));
        let output = command.args(["devices", "scan", &path(name)]).env("PATH", at).output();
        let text = String::from_utf8_lossy(&output.expect("it can be started").stdout).into_owned();
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        assert!(first.ends_with(expected), "{name}: {text}");
    }
    fs::remove_dir_all(&dir).expect("it was made here");
}

/// Why a file system that does not answer cannot be had, if so.
fn lacks() -> Option<&'static str> {
    let script =
        "unshare -m --propagation private true && python3 -c 'import ctypes' && : <> /dev/fuse";
    let works = Command::new("sh").args(["-c", script]).output().is_ok_and(|o| o.status.success());
    (!works).then_some("a mount namespace (root), python3 and FUSE")
}

/// Not even a kill ends a read that a dead disk holds, so the process that reads does not end either.
#[test]
fn the_scan_ends_before_the_reads_of_a_dead_disk_do() {
    if let Some(needs) = lacks() {
        warren_testkit::not_run(&format!("needs {needs}"));
        return;
    }
    let dir = std::env::temp_dir().join(format!("warren-dead-{}", std::process::id()));
    fs::create_dir(&dir).expect("the temporary directory takes one more");
    let path = |name: &str| dir.join(name).to_str().expect("a plain path").to_owned();
    let (dead, empty) = (path("dead"), path("empty"));
    fs::write(&dead, b"").expect("it can be written");
    fs::write(&empty, b"").expect("it can be written");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dead_disk/dead_disk.py");
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "python3", script, &dead])
        .args([env!("CARGO_BIN_EXE_warren"), "devices", "scan", &dead, &empty])
        .output()
        .expect("it can be started");
    let expected = format!(
        "{dead}: cannot be read: no answer within 10 s\n{empty}: nothing known\nstatus 1\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    fs::remove_dir_all(&dir).expect("it was made here");
}

#[test]
fn a_wrong_command_line_shows_the_help() {
    for args in [&["scan"][..], &["scan", "--yaml", "x"], &["probe", "x"]] {
        check(args, 2, "", true);
    }
    let help = String::from_utf8_lossy(&run(&["scan", "--help"]).stdout).into_owned();
    assert!(help.contains("Usage: warren devices scan"), "{help}");
}
