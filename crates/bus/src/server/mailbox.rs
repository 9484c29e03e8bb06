//! What others tell the bus's thread, and how it is woken for it.
//!
//! What waits here has no bound but time: the thread takes all of it each time that it waits.

use crate::authority::Authorize;
use crate::backend::Outcome;
use crate::signals::Announcement;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use warren_core::model::ids::UnitId;
use warren_core::protocol::request::Notice;
use warren_core::view::View;
use warren_unit::UnitName;

/// So long changes of units whose job goes on may wait to be told with the job's end: waking the thread and
/// its clients takes the processors from what the job waits for.
const QUIET_MAX: Duration = Duration::from_millis(5);

/// What others tell the bus's thread.
pub enum Mail {
    /// Units changed, what else there is to tell, and how many units are `failed` then.
    Published(Vec<UnitId>, Vec<Notice>, u32),
    /// Something that all subscribers are told.
    Announcement(Announcement),
    /// The manager's answer to a question.
    Answer(u64, Outcome),
    /// Ask polkit for a client of another socket.
    Authorize(Box<Authorize>),
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
    /// There is something in it that is to be told at once.
    is_urgent: bool,
    /// When the first of what may wait was put in.
    quiet_since: Option<Instant>,
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
        inside.is_urgent = true;
        self.ring(inside);
    }

    /// The same for changes, unless the thread has no use for them: waking it costs as much as what
    /// it would do. Changes of units whose job goes on wait for others, for a moment.
    pub fn tell(&self, view: &View, changed: Vec<UnitId>, notices: Vec<Notice>) {
        let mut inside = self.inside();
        let is_heard = match &inside.hears {
            Hears::All => true,
            Hears::Of(unit) => view.lookup(unit).is_some_and(|unit| changed.contains(&unit)),
            Hears::Nothing => false,
        };
        if is_heard {
            match is_quiet(view, &changed, &notices) {
                true => _ = inside.quiet_since.get_or_insert_with(Instant::now),
                false => inside.is_urgent = true,
            }
            inside.mail.push(Mail::Published(changed, notices, view.totals.failed));
            self.ring(inside);
        }
    }

    /// How long yet what may wait has its time.
    pub fn patience_left(&self, now: Instant) -> Option<Duration> {
        let since = self.inside().quiet_since?;
        Some(QUIET_MAX.saturating_sub(now.saturating_duration_since(since)))
    }

    /// Wakes the thread for what has waited long enough.
    pub fn relieve(&self, now: Instant) {
        let mut inside = self.inside();
        let is_over = |since| now.saturating_duration_since(since) >= QUIET_MAX;
        if inside.quiet_since.is_some_and(is_over) {
            inside.is_urgent = true;
            inside.quiet_since = None;
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
        if inside.is_held || inside.is_rung || !inside.is_urgent || inside.mail.is_empty() {
            return;
        }
        inside.is_rung = true;
        inside.quiet_since = None;
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
        inside.is_urgent = false;
        inside.quiet_since = None;
        std::mem::take(&mut inside.mail)
    }
}

/// Whether jobs go on and nobody hears anything of their ends.
fn is_quiet(view: &View, changed: &[UnitId], notices: &[Notice]) -> bool {
    notices.iter().all(|notice| matches!(notice, Notice::JobNew { .. }))
        && changed.iter().all(|&unit| view.job(unit).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use warren_core::machine::Core;
    use warren_core::model::ids::JobId;
    use warren_core::model::job::{JobKind, JobResult};
    use warren_core::settings::Settings;
    use warren_unit::{Context, Defaults};

    fn is_rung(mailbox: &Mailbox) -> bool {
        let mut count = [0; 8];
        rustix::io::read(&mailbox.bell, &mut count).is_ok()
    }

    #[test]
    fn the_begin_of_a_job_is_told_with_its_end_or_after_a_moment() {
        let (context, defaults) = (Arc::new(Context::system()), Arc::new(Defaults::default()));
        let view = Core::new(Settings { context, defaults }, 1).view();
        let (job, unit) = (JobId(1), UnitId(1));
        let begins = || vec![Notice::JobNew { job, unit }];
        let (kind, result) = (JobKind::Start, JobResult::Done);
        let ends = vec![Notice::JobRemoved { job, unit, kind, result, changed: true }];

        let mailbox = Mailbox::new().expect("an eventfd");
        mailbox.tell(&view, Vec::new(), begins());
        assert!(!is_rung(&mailbox));
        mailbox.tell(&view, Vec::new(), ends);
        assert!(is_rung(&mailbox));
        assert_eq!(mailbox.take().len(), 2);
        assert_eq!(mailbox.patience_left(Instant::now()), None);

        mailbox.tell(&view, Vec::new(), begins());
        let now = Instant::now();
        assert!(mailbox.patience_left(now).is_some_and(|left| left <= QUIET_MAX));
        mailbox.relieve(now.checked_sub(QUIET_MAX).expect("it is later than that"));
        assert!(!is_rung(&mailbox));
        mailbox.relieve(now + QUIET_MAX);
        assert!(is_rung(&mailbox));
    }
}
