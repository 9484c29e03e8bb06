//! Reads what clients of the control socket send, but for file descriptors: before Linux 6.16 the kernel takes them, and
//! closes those that a read meets, for which it may wait for ever.
//! What must not be here: what is in a request. On the thread of the client, which waits for what comes.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use warren_sys::fdpass;

/// A wait that is over is begun again.
const LOOKS_APART: Duration = Duration::from_secs(3600);

/// A connection that ends where descriptors come; they stay in it, for who closes it.
pub struct CarefulReader<'a>(&'a UnixStream);

impl<'a> CarefulReader<'a> {
    /// Begins with what is there. `None`: the kernel cannot say whether there are descriptors.
    pub fn new(stream: &'a UnixStream) -> Option<CarefulReader<'a>> {
        fdpass::pass_credentials_alone(stream.as_fd()).ok().map(|()| CarefulReader(stream))
    }
}

impl Read for CarefulReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let of_kernel = |e: warren_sys::Error| std::io::Error::from_raw_os_error(e.errno);
        let stream = self.0.as_fd();
        while !fdpass::wait_readable(stream, LOOKS_APART).map_err(of_kernel)? {}
        match fdpass::peek_plain(stream, room).map_err(of_kernel)? {
            seen if seen.lost_fds => Err(std::io::ErrorKind::InvalidData.into()),
            seen if seen.bytes == 0 => Ok(0),
            // What has come meanwhile was not looked at.
            seen => {
                let taken = fdpass::recv_plain(stream, &mut room[..seen.bytes]);
                taken.map(|taken| taken.bytes).map_err(of_kernel)
            }
        }
    }
}
