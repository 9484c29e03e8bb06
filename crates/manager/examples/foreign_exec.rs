//! An exec helper of another version, for the tests: tells so and does nothing.

use std::os::fd::AsFd;

use warren_init::protocol::exec::{Sync, Synced};
use warren_sys::fdpass;

/// Lowest number that the socket may have here.
const FDS_FROM: i32 = 10;

fn main() {
    let number = std::env::args().find_map(|arg| arg.strip_prefix("--socket=")?.parse().ok());
    let number: i32 = number.expect("init says which socket");
    let socket = fdpass::take_inherited(number, FDS_FROM).expect("init hands it over");
    let (mut packet, mut fds) = ([0; 64], Vec::new());
    loop {
        let received = fdpass::recv(socket.as_fd(), &mut packet, &mut fds, true);
        let Some(received) = received.ok().filter(|received| received.bytes > 0) else { return };
        if let Some(question) = Sync::parse(&packet[..received.bytes]) {
            let answer = Synced { requests: 200, ..Synced::to(question) };
            let _ = fdpass::send(socket.as_fd(), &answer.packet(), &[]);
        }
    }
}
