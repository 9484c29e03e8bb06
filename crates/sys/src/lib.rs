//! Linux, for the rest of Warrener: the only crate with `unsafe` code.
//!
//! What is here: thin, typed wrappers around system calls and the kernel's text interfaces.
//! What must not be here: decisions. Nothing in this crate knows units, jobs or policy, keeps state of its
//! own, starts a thread or logs. Calls are repeated on `EINTR` and where the kernel wants a larger buffer.
//! Some rooms are exceptions: [`passwd`] waits for another program, getent(1), for whom no file has; [`arguments`]
//! and [`endings`] have threads, as what they read or close may never answer; [`terminal`] counts lines that nobody
//! took; [`progress`] writes a line to a terminal while others work.
//!
//! Start reading at [`error`], then `clone` (how a service process is made), [`cgroup`] and
//! [`process`]. Parsers of kernel text are pure functions beside the code that reads the file.

pub mod activation;
pub mod arguments;
pub mod autofs;
pub mod block;
pub mod bpf;
pub mod cgroup;
pub mod child;
pub mod clone;
pub mod copying;
pub mod crash;
pub mod credentials;
pub mod datagrams;
pub mod descriptors;
pub mod disposal;
pub mod endings;
pub mod epoll;
pub mod errno;
pub mod error;
pub mod eventfd;
pub mod fdpass;
pub mod file;
pub mod heap;
pub mod inotify;
pub mod ipc;
pub mod letting_go;
pub mod loop_device;
pub mod memfd;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod nftables;
pub mod notify;
pub mod pam;
pub mod passwd;
pub mod process;
pub mod progress;
pub mod ptrace;
pub mod random;
pub mod reboot;
pub mod removal;
pub mod root;
pub mod seccomp;
pub mod signal;
pub mod socket;
pub mod socket_owner;
pub mod storage;
pub mod terminal;
pub mod text;
pub mod time;
pub mod tree;
pub mod usage;
pub mod utmp;
pub mod virtualization;
pub mod waits;
pub mod watchdog;

pub use error::{Error, Result};

/// Says loudly, past the test runner's capture, that a test could not run here and what it needs.
#[cfg(test)]
fn test_not_run(test: &str, needs: &str) {
    warren_testkit::not_run_of(test, &format!("needs {needs}"));
}

/// Sockets of which each takes an hour to close, as long as the listener that they are connected to is there.
#[cfg(test)]
fn test_lingering<const N: usize>() -> (std::net::TcpListener, [std::net::TcpStream; N]) {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    const LINGER: std::time::Duration = std::time::Duration::from_secs(3600);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("bound");
    let sockets = [(); N].map(|()| {
        let mut stream = TcpStream::connect(to).expect("it listens");
        rustix::net::sockopt::set_socket_linger(&stream, Some(LINGER)).expect("known");
        stream.set_nonblocking(true).expect("it can be set");
        while stream.write(&[0; 1 << 16]).is_ok() {}
        stream
    });
    (listener, sockets)
}
