//! What several tests use: a directory for one of them, which is gone with its value, and sockets that linger.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

pub(crate) use warren_testkit::Scratch;

/// Sockets of which each takes an hour to close, as long as the listener that they are connected to is there.
pub(crate) fn lingering(count: usize) -> (TcpListener, Vec<TcpStream>) {
    const LINGER: Duration = Duration::from_secs(3600);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("bound");
    let one = |_| {
        let mut stream = TcpStream::connect(to).expect("it listens");
        rustix::net::sockopt::set_socket_linger(&stream, Some(LINGER)).expect("known");
        stream.set_nonblocking(true).expect("it can be set");
        while stream.write(&[0; 1 << 16]).is_ok() {}
        stream
    };
    let sockets = (0..count).map(one).collect();
    (listener, sockets)
}
