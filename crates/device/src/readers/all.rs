//! Reads many devices once, for callers that have nothing else to do.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use warren_sys::epoll::{Epoll, Events, Interest};

use super::{Outcome, Readers, now_ms};
use crate::index::DeviceNumber;
use crate::lvm::area::TextKey;
use crate::scan::{Content, Scan};

/// What became of each device, in their order.
pub type Scans = Vec<io::Result<Scan>>;

impl Readers {
    /// Reads all of these. One that does not answer in time is an error, and holds up nobody.
    ///
    /// # Errors
    /// The answers cannot be waited for.
    pub fn read_all(&self, nodes: &[PathBuf]) -> warren_sys::Result<Scans> {
        let all: Vec<usize> = (0..nodes.len()).collect();
        let mut scans: Vec<Option<io::Result<Scan>>> = nodes.iter().map(|_| None).collect();
        self.read_some(nodes, &all, false, &mut scans)?;
        // Who was to read a text for all others may have failed.
        let again = lacking(&scans);
        self.read_some(nodes, &again, true, &mut scans)?;
        Ok(scans.into_iter().map(|scan| scan.expect("each was answered")).collect())
    }

    fn read_some(
        &self,
        nodes: &[PathBuf],
        which: &[usize],
        whole: bool,
        scans: &mut [Option<io::Result<Scan>>],
    ) -> warren_sys::Result<()> {
        let epoll = Epoll::new()?;
        epoll.add(self.fd(), 0, Interest::READ)?;
        let mut events = Events::with_capacity(1);
        let mut waiting: BTreeSet<usize> = which.iter().copied().collect();
        for &at in which {
            self.submit(numbered(at), &nodes[at], whole);
        }
        while !waiting.is_empty() {
            let now = now_ms();
            let left = self.next_deadline_ms(now).map(|ms| ms.saturating_sub(now));
            epoll.wait(&mut events, left.map(Duration::from_millis))?;
            for answer in self.answers().into_iter().chain(self.give_up(now_ms())) {
                let at = answer.device.minor as usize;
                // A late answer of the first time comes too late.
                if waiting.remove(&at) {
                    scans[at] = Some(self.result(answer.outcome));
                }
            }
        }
        Ok(())
    }

    fn result(&self, outcome: Outcome) -> io::Result<Scan> {
        match outcome {
            Outcome::Scanned(scan) => Ok(*scan),
            Outcome::Failed(error) => Err(error),
            Outcome::TimedOut => {
                let why = format!("no answer within {} s", self.timeout_ms / 1000);
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
        }
    }
}

/// They are told apart by their places, which is all that is asked of these numbers.
fn numbered(at: usize) -> DeviceNumber {
    DeviceNumber { major: 0, minor: u32::try_from(at).unwrap_or(u32::MAX) }
}

/// Devices with a text that nobody read.
fn lacking(scans: &[Option<io::Result<Scan>>]) -> Vec<usize> {
    let found = || scans.iter().map(|scan| scan.as_ref()?.as_ref().ok());
    let read: BTreeSet<TextKey> =
        found().flatten().flat_map(Scan::texts_read).map(|(key, _)| key).collect();
    let lacks = |scan: &Scan| match &scan.content {
        Content::Lvm(member) => member.texts.iter().any(|text| !read.contains(&text.key)),
        _ => false,
    };
    let numbered = found().enumerate();
    numbered.filter(|(_, scan)| scan.is_some_and(lacks)).map(|(at, _)| at).collect()
}
