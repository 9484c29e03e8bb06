//! Stands in for the manager in warren-init's tests: hands its control socket to the test, then
//! does what single bytes tell it: `x` exits 0, `r` exits asking for a restart, end of file
//! exits 9.
//!
//! Usage: relay SOCKET-PATH

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use warren_init::protocol::control::{CONTROL_FD, EXIT_RESTART};
use warren_sys::fdpass;

fn main() {
    let path = std::env::args().nth(1).expect("usage: relay SOCKET-PATH");
    let mut test = UnixStream::connect(path).expect("the test listens");
    let control = fdpass::take_inherited(CONTROL_FD, 10).expect("init passed the control socket");
    let pid = std::process::id().to_le_bytes();
    fdpass::send(test.as_fd(), &pid, &[control.as_fd()]).expect("the test listens");
    let mut command = [0u8];
    let code = match test.read(&mut command) {
        Ok(1) if command == *b"x" => 0,
        Ok(1) if command == *b"r" => EXIT_RESTART,
        _ => 9,
    };
    std::process::exit(code);
}
