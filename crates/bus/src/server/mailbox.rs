//! What others tell the bus's thread, and how it is woken for it.
//!
//! What waits here has no bound but time: the thread takes all of it each time that it waits.

use crate::backend::Outcome;
use crate::signals::Announcement;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};
use warren_core::ids::UnitId;
use warren_core::request::Notice;
use warren_core::view::View;
use warren_unit::UnitName;

/// What others tell the bus's thread.
pub enum Mail {
    /// Units changed, what else there is to tell, and how many units are `failed` then.
    Published(Vec<UnitId>, Vec<Notice>, u32),
    /// Something that all subscribers are told.
    Announcement(Announcement),
    /// The manager's answer to a question.
    Answer(u64, Outcome),
    /// Send what there is to send, then end.
    Stop,
}

/// Where others put what they have to tell.
pub struct Mailbox {
    inside: Mutex<Inside>,
    pub(super) bell: OwnedFd,
}

#[derive(Default)]
struct Inside {
    mail: Vec<Mail>,
    /// The bell was rung for what is in it.
    is_rung: bool,
    /// Somebody puts in several things and rings once.
    is_held: bool,
    hears: Hears,
}

/// What the thread has use for, of the changes.
#[derive(Default, PartialEq, Eq)]
pub(super) enum Hears {
    /// There are clients to tell.
    #[default]
    All,
    /// This unit's: the message bus that is to be found is there when it is up.
    Of(UnitName),
    Nothing,
}

impl Mailbox {
    /// An empty mailbox.
    pub fn new() -> Result<Mailbox, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { inside: Mutex::default(), bell })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Nothing that is done under this lock can panic half-way.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something in and wakes the thread; never waits for it.
    pub fn put(&self, mail: Mail) {
        let mut inside = self.inside();
        inside.mail.push(mail);
        self.ring(inside);
    }

    /// The same for changes, unless the thread has no use for them: waking it costs as much as what
    /// it would do.
    pub fn tell(&self, view: &View, changed: Vec<UnitId>, notices: Vec<Notice>) {
        let mut inside = self.inside();
        let is_heard = match &inside.hears {
            Hears::All => true,
            Hears::Of(unit) => view.lookup(unit).is_some_and(|unit| changed.contains(&unit)),
            Hears::Nothing => false,
        };
        if is_heard {
            inside.mail.push(Mail::Published(changed, notices, view.totals.failed));
            self.ring(inside);
        }
    }

    /// Has the thread woken once for all that is put in until [`Mailbox::release`].
    pub fn hold(&self) {
        self.inside().is_held = true;
    }

    /// Wakes the thread for what was put in meanwhile.
    pub fn release(&self) {
        let mut inside = self.inside();
        inside.is_held = false;
        self.ring(inside);
    }

    fn ring(&self, mut inside: MutexGuard<'_, Inside>) {
        if inside.is_held || inside.is_rung || inside.mail.is_empty() {
            return;
        }
        inside.is_rung = true;
        drop(inside);
        // A counter of 64 bits is never full.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Says what there is a use for. Views that are taken after this call have what was left out
    /// before it.
    pub(super) fn hear(&self, hears: Hears) {
        self.inside().hears = hears;
    }

    pub(super) fn take(&self) -> Vec<Mail> {
        let mut inside = self.inside();
        inside.is_rung = false;
        std::mem::take(&mut inside.mail)
    }
}
