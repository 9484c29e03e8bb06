//! What is known of the process that writes to a stream. That it is the same process, pidfds say where
//! the kernel gives them (Linux 6.9); whether another program runs in it by now, as behind the `exec` of
//! a script, is looked at once in a while, in one file.

use std::sync::Arc;

use warren_sys::process::{self, Image};

use super::Origin;
use super::known::FRESH_US;

/// The trusted fields of a writer.
pub struct WriterFields {
    origin: Arc<Origin>,
    /// What ran in the process before they were read; none when it was gone.
    image: Option<Image>,
    looked_us: u64,
}

impl WriterFields {
    /// Has them read.
    pub fn read(pid: i32, now_us: u64, origin: impl FnOnce() -> Arc<Origin>) -> WriterFields {
        let image = process::image(pid).ok();
        WriterFields { origin: origin(), image, looked_us: now_us }
    }

    /// The fields.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Whether the process runs another program than the one that they are of. What has its id when it
    /// is gone is another process.
    pub fn is_outdated(&mut self, pid: i32, now_us: u64) -> bool {
        if now_us.saturating_sub(self.looked_us) < FRESH_US {
            return false;
        }
        self.looked_us = now_us;
        let is_other = |now: Image, then: &Image| now.started == then.started && now != *then;
        process::image(pid).ok().zip(self.image.as_ref()).is_some_and(|(n, t)| is_other(n, t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    use warren_log_store::entry::Fields;

    #[test]
    fn another_program_is_seen_after_a_while() {
        let script = "echo begun; read line; exec cat";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh(1)");
        let pid = child.id() as i32;
        let (mut to, from) = (child.stdin.take().expect("piped"), child.stdout.take());
        let mut lines = BufReader::new(from.expect("piped")).lines();
        let mut next = || lines.next().expect("a line").expect("text");
        assert_eq!(next(), "begun");
        let mut told =
            WriterFields::read(pid, 0, || Arc::new(Origin::new(Arc::new(Fields::new()), None)));
        assert!(!told.is_outdated(pid, FRESH_US), "the same program");
        to.write_all(b"go on\nfrom cat\n").expect("it reads");
        assert_eq!(next(), "from cat");
        assert!(!told.is_outdated(pid, 2 * FRESH_US - 1), "not looked at again yet");
        assert!(told.is_outdated(pid, 2 * FRESH_US));
        assert!(!told.is_outdated(1, 3 * FRESH_US), "another process");
        drop(to);
        child.wait().expect("it ends");
        assert!(!told.is_outdated(pid, 4 * FRESH_US), "it is gone");
    }
}
