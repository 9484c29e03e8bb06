//! A client's connection, over TCP or a Unix socket: what is read, written and waited for is the same.

use std::io::{ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};
use warren_sys::file::set_nonblocking;

/// What a client still sends is read for so long before the connection is closed.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// So much of it is read, bytes.
const LINGER_BYTES_MAX: usize = 16 << 10;

/// A connected stream socket.
#[derive(Debug)]
pub struct Client(OwnedFd);

impl Client {
    /// Over a connection, whose reads and writes wait from now on.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn new(socket: OwnedFd) -> Result<Client> {
        set_nonblocking(socket.as_fd(), false).map_err(failed)?;
        Ok(Client(socket))
    }

    /// Nothing waits any more.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn never_wait(&self) -> Result<()> {
        set_nonblocking(self.0.as_fd(), true).map_err(failed)
    }

    /// A read that waits for longer fails with `WouldBlock`.
    ///
    /// # Errors
    /// Those of setsockopt(2), `SO_RCVTIMEO`.
    pub fn bound_reads(&self, longest: Duration) -> Result<()> {
        Ok(sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, Some(longest))?)
    }

    /// A write that waits for longer fails with `WouldBlock`.
    ///
    /// # Errors
    /// Those of setsockopt(2), `SO_SNDTIMEO`.
    pub fn bound_writes(&self, longest: Duration) -> Result<()> {
        Ok(sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Send, Some(longest))?)
    }

    /// Reads until `until`, at most.
    ///
    /// # Errors
    /// `TimedOut` or `WouldBlock` after that time; what the connection says.
    pub fn read_until(mut self: &Client, room: &mut [u8], until: Instant) -> Result<usize> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.bound_reads(left)?;
            match self.read(room) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Ends an answer. Closing a connection on which something was not read would throw away the answer: what the
    /// client still sends is read for a moment.
    pub fn linger(mut self: &Client) {
        let _ = self.end_writes();
        let _ = self.bound_reads(LINGER_MAX);
        let mut scrap = [0; 4096];
        for _ in 0..LINGER_BYTES_MAX / scrap.len() {
            if !matches!(self.read(&mut scrap), Ok(1..)) {
                return;
            }
        }
    }

    /// Says that nothing more is written.
    ///
    /// # Errors
    /// Those of shutdown(2).
    pub fn end_writes(&self) -> Result<()> {
        Ok(shutdown(&self.0, Shutdown::Write)?)
    }
}

fn failed(error: warren_sys::Error) -> std::io::Error {
    std::io::Error::from_raw_os_error(error.errno)
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Read for &Client {
    fn read(&mut self, room: &mut [u8]) -> Result<usize> {
        let (bytes, _) = recv(&self.0, room, RecvFlags::empty())?;
        Ok(bytes)
    }
}

/// Who has gone is an error and no signal.
impl Write for &Client {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        Ok(send(&self.0, data, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A client and its other end.
    fn check(ours: impl Into<OwnedFd>, mut other: impl Read + Write) {
        let client = Client::new(ours.into()).expect("a socket");
        other.write_all(b"question").expect("sent");
        let mut room = [0; 16];
        let bytes = (&client).read(&mut room).expect("it is there");
        assert_eq!(&room[..bytes], b"question");
        client.bound_reads(Duration::from_millis(1)).expect("a socket");
        let late = (&client).read(&mut room).expect_err("nothing comes");
        assert_eq!(late.kind(), ErrorKind::WouldBlock);
        (&client).write_all(b"answer").expect("sent");
        client.end_writes().expect("connected");
        let mut answer = Vec::new();
        other.read_to_end(&mut answer).expect("it ends");
        assert_eq!(answer, b"answer");
    }

    /// Nobody takes what is written: it ends when the buffers are full, and not before.
    fn check_full(ours: impl Into<OwnedFd>) {
        const FULL_BYTES: usize = 64 << 20;
        let client = Client::new(ours.into()).expect("a socket");
        client.bound_writes(Duration::from_millis(1)).expect("a socket");
        let failed = (&client).write_all(&vec![0; FULL_BYTES]).expect_err("nobody reads");
        assert_eq!(failed.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn both_kinds_are_read_written_and_bounded_alike() {
        let (ours, other) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("a socket");
        check(ours, other);
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let connect = || TcpStream::connect(listener.local_addr().expect("bound")).expect("there");
        let other = connect();
        check(listener.accept().expect("it connects").0, other);
        let (ours, _other) = UnixStream::pair().expect("a pair");
        check_full(ours);
        let _other = connect();
        check_full(listener.accept().expect("it connects").0);
    }

    #[test]
    fn who_has_gone_is_no_signal() {
        let (ours, other) = UnixStream::pair().expect("a pair");
        drop(other);
        let client = Client::new(ours.into()).expect("a socket");
        let failed = (&client).write_all(b"x").expect_err("the peer has closed");
        assert_eq!(failed.kind(), ErrorKind::BrokenPipe);
    }
}
