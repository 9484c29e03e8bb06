//! Who calls over the control socket, and waits for the answer.

use crate::base::answers::{AnswerTo, Awaited, Bell, Unanswered, awaited};
use crate::control::answer::{Refused, refused};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use warren_core::protocol::request::Asker;

/// A client that waits for the answer as long as it is connected.
pub struct Caller<'a> {
    /// Its user and process, as the kernel says.
    pub asker: Asker,
    /// Its connection.
    pub(crate) socket: BorrowedFd<'a>,
    /// Rings with the answers.
    pub(crate) bell: Arc<Bell>,
}

impl Caller<'_> {
    /// Room for an answer of the loop.
    pub(crate) fn awaited<T>(&self) -> (AnswerTo<T>, Awaited<T>) {
        awaited(&self.bell)
    }

    /// Waits for it; refused if the manager ends, which is told in these words, or the caller hangs up.
    pub(crate) fn wait<T>(&self, answer: Awaited<T>, restarted: &str) -> Result<T, Refused> {
        answer.wait_beside(self.socket).map_err(|why| match why {
            Unanswered::Dropped => refused(restarted),
            // Who is not told.
            Unanswered::HungUp => refused("the client has disconnected"),
        })
    }
}

/// Root, or the manager's own user.
pub(crate) fn is_privileged(asker: Asker) -> bool {
    asker.uid == 0 || asker.uid == warren_sys::process::own_ids().0
}
