//! The link to the executor: what is to be done is asked for once in a turn, and what came of it is
//! taken. Without one nothing is done, only told.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use warren_sys::errno::EPIPE;

use warren_sys::{Result, fdpass, memfd};

use crate::activate::Command;
use crate::executor::ORDERS;
use crate::index::GroupId;
use crate::orders::{self, Answer, ExecutorOrder, Run};

/// Largest answer, in bytes: the last words of a program, each byte escaped.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Answers taken at a time.
const ANSWERS_PER_TURN_MAX: usize = 1024;

/// How soon orders that found no room are sent again, in milliseconds.
const AGAIN_AFTER_MS: u64 = 100;

/// What happened since the last turn.
pub(super) enum ExecutorNews {
    /// What was to be done for these groups is done.
    Ended(Vec<GroupId>, std::result::Result<(), String>),
    /// Something else went wrong.
    Trouble(String),
}

/// This end of the link.
pub(super) struct Hands {
    socket: OwnedFd,
    orders: Vec<ExecutorOrder>,
    running: BTreeMap<u64, Vec<GroupId>>,
    next_id: u64,
    /// Where answers are put: made once, for it is large.
    buffer: Vec<u8>,
}

impl Hands {
    pub(super) fn over(socket: OwnedFd) -> Hands {
        let buffer = vec![0; ANSWER_BYTES_MAX];
        Hands { socket, orders: Vec::new(), running: BTreeMap::new(), next_id: 0, buffer }
    }

    pub(super) fn order(&mut self, order: ExecutorOrder) {
        self.orders.push(order);
    }

    pub(super) fn run(&mut self, command: Command, udev: bool) {
        self.next_id += 1;
        self.running.insert(self.next_id, command.groups);
        self.orders.push(ExecutorOrder::Run(Run { id: self.next_id, udev, words: command.words }));
    }

    /// Has the kernel told of a member of a file system on several devices.
    pub(super) fn register(&mut self, group: GroupId, node: String) {
        self.next_id += 1;
        self.running.insert(self.next_id, vec![group]);
        self.orders.push(ExecutorOrder::Register(self.next_id, node));
    }

    /// Whether something was asked for that group and is not done yet.
    pub(super) fn is_busy_with(&self, group: GroupId) -> bool {
        self.running.values().any(|groups| groups.contains(&group))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.orders.is_empty()
    }

    /// Sends what was asked for; what finds no room stays for the next time.
    pub(super) fn send(&mut self) -> Result<()> {
        if self.orders.is_empty() {
            return Ok(());
        }
        let content = memfd::sealed("warren-orders", orders::write(&self.orders).as_bytes())?;
        match fdpass::try_send(self.socket.as_fd(), ORDERS, &[content.as_fd()]) {
            Ok(()) => self.orders.clear(),
            Err(error) if error.is_would_block() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// When [`Hands::send`] is to be called again although nothing happens.
    pub(super) fn deadline_ms(&self, now_ms: u64) -> Option<u64> {
        (!self.orders.is_empty()).then(|| now_ms.saturating_add(AGAIN_AFTER_MS))
    }

    /// What came of it. `EPIPE` when the executor is gone: nothing can be done any more.
    pub(super) fn done(&mut self) -> Result<Vec<ExecutorNews>> {
        let mut out = Vec::new();
        for _ in 0..ANSWERS_PER_TURN_MAX {
            match fdpass::recv_plain(self.socket.as_fd(), &mut self.buffer) {
                Ok(received) if received.bytes == 0 => {
                    return Err(warren_sys::Error::new("the executor", EPIPE));
                }
                Ok(received) => {
                    let text = self.buffer.get(..received.bytes).unwrap_or_default();
                    let text = String::from_utf8_lossy(text).into_owned();
                    out.extend(self.take(&text));
                }
                Err(error) if error.is_would_block() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(out)
    }

    fn take(&mut self, text: &str) -> Option<ExecutorNews> {
        match Answer::read(text)? {
            Answer::Ended(id, result) => {
                Some(ExecutorNews::Ended(self.running.remove(&id)?, result))
            }
            Answer::Trouble(line) => Some(ExecutorNews::Trouble(line)),
        }
    }
}

impl AsFd for Hands {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
