//! What users who may change nothing can have of the bus, where they can connect to it.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::client::Client;
use support::{Machine, Scratch};
use warren_bus::wire::Kind;
use warren_testkit::{not_run, wait_until};

const UNITS: &str = "== a.service\n[Service]\nExecStart=/bin/true\n";

/// The first of some users.
const FIRST: u32 = 200_000;

/// The same as the bus's own.
const CONNECTIONS_OF_ONE: usize = 64;
const STRANGERS: usize = 3840;
const MESSAGE_BYTES_MAX: usize = 64 << 10;

fn serve(test: &str) -> (Scratch, std::sync::Arc<Machine>) {
    let dir = Scratch::new(test);
    let machine = Machine::new(UNITS);
    machine.serve(&dir.path("private"));
    (dir, machine)
}

/// Opens the socket to all, and connects as each of these users so often; none where that is not possible.
fn strangers(path: &Path, users: std::ops::Range<u32>, each: usize) -> Option<Vec<Client>> {
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    mode(path, 0o666);
    mode(path.parent().expect("it has one"), 0o755);
    let path = path.to_owned();
    let connect = move |uid: u32| {
        // Of this thread alone.
        warren_sys::child::set_uid(uid).ok()?;
        Some((0..each).map(|_| Client::raw(&path)).collect::<Vec<Client>>())
    };
    let mut all = Vec::new();
    for uid in users {
        let connect = connect.clone();
        all.extend(std::thread::spawn(move || connect(uid)).join().expect("no panic")?);
    }
    Some(all)
}

/// The greeting, and a part of a message of so many bytes.
fn begin(client: &mut Client, bytes: u32) {
    let greeting = b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n";
    let mut head = b"l\x01\0\x01".to_vec();
    head.extend(bytes.to_le_bytes());
    head.extend(1u32.to_le_bytes());
    // What the bus closed takes nothing.
    let _ = client.stream.write_all(&[greeting, &*head].concat());
}

/// Reads all that comes; whether the bus has closed the connection within the time of a read.
fn is_closed(client: &mut Client) -> bool {
    let mut room = [0; 256];
    loop {
        match client.stream.read(&mut room) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn only_the_own_user_can_connect() {
    let (dir, _machine) = serve("strangers-mode");
    let found = std::fs::metadata(dir.path("private")).expect("it is there");
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
}

#[test]
fn messages_of_strangers_are_short_and_come_in_time() {
    let (dir, _machine) = serve("strangers-messages");
    let Some(mut clients) = strangers(&dir.path("private"), FIRST..FIRST + 1, 2) else {
        return not_run("needs root");
    };
    let [long, half] = &mut clients[..] else { panic!("two") };
    begin(long, MESSAGE_BYTES_MAX as u32 + 1);
    begin(half, 4096);
    assert!(is_closed(long), "at once");
    assert!(is_closed(half), "when he has had 10 seconds");
    let mut own = Client::new(&dir.path("private"));
    assert_eq!(own.manager("ListJobs", &[]).kind, Kind::MethodReturn);
}

/// Any number of users, each with as many connections as he may: root has room, and the silent make room for others.
#[test]
fn strangers_leave_places_to_root() {
    check_places("strangers-places");
}

/// The same where the kernel cannot refuse file descriptors, so that each connection is looked at before it is closed.
#[test]
fn strangers_leave_places_to_root_on_an_old_kernel() {
    let check = || {
        warren_sys::seccomp::without_refusal().expect("a filter");
        check_places("strangers-places-old");
    };
    // The filter is the thread's, and of what it starts.
    std::thread::spawn(check).join().expect("no panic");
}

fn check_places(name: &str) {
    let (dir, _machine) = serve(name);
    warren_sys::process::raise_open_files(16_384).expect("the limit of this process");
    let last = FIRST + (STRANGERS / CONNECTIONS_OF_ONE) as u32 + 6;
    let Some(mut clients) = strangers(&dir.path("private"), FIRST..last, CONNECTIONS_OF_ONE) else {
        return not_run("needs root");
    };
    clients
        .iter_mut()
        .for_each(|client| _ = client.stream.write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n"));
    let mut own = Client::new(&dir.path("private"));
    assert_eq!(own.manager("ListJobs", &[]).kind, Kind::MethodReturn);
    wait_until("a late client is let in when a silent connection is closed", || {
        let late =
            strangers(&dir.path("private"), last..last + 1, 1).expect("it was possible before");
        late.into_iter().any(|mut client| {
            let _ = client.stream.write_all(b"\0AUTH EXTERNAL\r\n");
            client.stream.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0)
        })
    });
    drop(clients);
}
