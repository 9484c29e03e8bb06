//! The loop's part in an end that is to come: kept in a file, told, begun, taken back.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warren_core::model::ids::EffectId;
use warren_core::model::time::Monotonic;
use warren_core::protocol::request::Asker;
use warren_init::protocol::control::{PowerAction, SOFT_REBOOTS_ENV};
use warren_init::protocol::exec::{CgroupPlace, ExecSpec};
use warren_sys::epoll::Interest;
use warren_sys::eventfd::{Clock, TimerFd};
use warren_unit::Scope;

use super::WALL_EFFECT;
use super::scheduled::{Scheduled, Step, When};
use super::words::{self, AskedBy};
use crate::daemon::{Daemon, now, token};
use crate::say;
use crate::tools::TOOL;

/// Where it is written, below the manager's directory of run-time files.
const FILE: &str = "warren/scheduled";

/// How often it is told that a lock holds an end up.
const TOLD_APART: Duration = Duration::from_secs(60);

/// An end that is to come, and when the loop looks at it again.
#[derive(Debug, Default)]
pub struct Planned {
    scheduled: Option<Scheduled>,
    due: Option<Monotonic>,
    /// Readable at the time of day that it is planned for, and when the clock is set or the machine wakes up.
    clock: Option<TimerFd>,
    /// What was planned has begun: its file goes when that is written down.
    has_begun: bool,
}

impl Planned {
    /// When to look at it again.
    pub fn deadline(&self) -> Option<Monotonic> {
        self.due
    }
}

impl Daemon {
    fn plan_path(&self) -> PathBuf {
        self.options.runtime_dir.join(FILE)
    }

    /// Plans an end, in place of one that was planned; not if the next manager could not know of it.
    pub(crate) fn plan_end(&mut self, asker: Asker, scheduled: Scheduled) -> Result<(), String> {
        if self.ending.is_some() {
            return Err("everything is being stopped already".to_owned());
        }
        let path = self.plan_path();
        write_plan(&path, &scheduled)
            .map_err(|e| format!("{}: {e}: it is not planned", path.display()))?;
        let what = super::code::name(scheduled.action);
        say!("a {what} is planned by {}", words::client(asker));
        self.adopt_plan(Some(scheduled));
        Ok(())
    }

    /// The plan of an earlier manager.
    pub(crate) fn take_up_plan(&mut self) {
        if self.ending.as_ref().is_some_and(|ending| ending.is_for_good()) {
            self.planned.has_begun = true;
            return;
        }
        let path = self.plan_path();
        match read_plan(&path) {
            Ok(Some(scheduled)) => self.set_plan(Some(scheduled)),
            Ok(None) => {}
            Err(e) => say!("{}: {e}: no shutdown is planned any more", path.display()),
        }
    }

    /// There is to be no end; false if none was planned.
    pub(crate) fn cancel_end(&mut self, asker: Asker) -> bool {
        let planned = self.planned.scheduled.is_some();
        if planned {
            say!("what was planned is taken back by {}", words::client(asker));
            self.set_plan(None);
            self.tell_all("The shutdown was cancelled.");
        }
        planned
    }

    /// What was planned begins now, or something else does; false if nothing was.
    pub(crate) fn forget_plan(&mut self) -> bool {
        let is_planned = self.planned.scheduled.is_some();
        if is_planned {
            self.shared.publish_plan(None);
            self.planned = Planned { has_begun: true, ..Planned::default() };
        }
        is_planned
    }

    /// What has begun is written down.
    pub(crate) fn forget_plan_that_began(&mut self) {
        if std::mem::take(&mut self.planned.has_begun) {
            let _ = std::fs::remove_file(self.plan_path());
        }
    }

    fn set_plan(&mut self, scheduled: Option<Scheduled>) {
        let written = match &scheduled {
            Some(scheduled) => write_plan(&self.plan_path(), scheduled),
            None => std::fs::remove_file(self.plan_path()),
        };
        if let Err(e) = written {
            say!("{}: {e}", self.plan_path().display());
        }
        self.adopt_plan(scheduled);
    }

    fn adopt_plan(&mut self, scheduled: Option<Scheduled>) {
        self.shared.publish_plan(scheduled.clone());
        self.planned.due = scheduled.is_some().then(|| now().monotonic);
        self.planned.clock =
            scheduled.as_ref().and_then(|scheduled| self.watch_clock(scheduled.when));
        self.planned.scheduled = scheduled;
    }

    fn watch_clock(&self, when: When) -> Option<TimerFd> {
        let When::At(at_us) = when else { return None };
        let watch = || {
            let clock = TimerFd::new(Clock::Realtime)?;
            clock.set(Some(at_us.saturating_mul(1000)))?;
            self.epoll.add(clock.as_fd(), token::CLOCK, Interest::READ)?;
            Ok(clock)
        };
        let watched: warren_sys::Result<TimerFd> = watch();
        watched.inspect_err(|e| say!("whether the clock is set is not seen: {e}")).ok()
    }

    /// The clock was set, or says the time that an end is planned for.
    pub(crate) fn clock_changed(&mut self) {
        if let Some(clock) = &self.planned.clock {
            let _ = clock.read();
        }
        self.look_at_plan();
    }

    /// A lock is gone: what waited for it is looked at.
    pub(crate) fn look_at_plan(&mut self) {
        self.planned.due = self.planned.scheduled.is_some().then(|| now().monotonic);
    }

    /// Does what is due of the plan.
    pub(crate) fn go_on_planned(&mut self) {
        let moment = now();
        if self.planned.due.is_none_or(|due| due > moment.monotonic) {
            return;
        }
        let Some(scheduled) = &mut self.planned.scheduled else { return };
        let step = scheduled.step(moment);
        let scheduled = scheduled.clone();
        match step {
            Step::Wait(time) => self.planned.due = Some(moment.monotonic.after(time)),
            Step::Warn(minutes) => {
                self.set_plan(Some(scheduled.clone()));
                self.tell_all(&scheduled.warning(minutes));
            }
            Step::Begin => self.begin_planned(&scheduled),
        }
    }

    fn begin_planned(&mut self, scheduled: &Scheduled) {
        let locks = self.shared.locks();
        if locks.is_empty() {
            return self.begin_end_saying(scheduled.action, AskedBy::Plan, &scheduled.message);
        }
        say!("the planned shutdown waits for {}", crate::inhibit::line(&locks));
        let awaited = self.shared.locks_awaited_until().map(|until| until - Instant::now());
        let again = awaited.filter(|time| !time.is_zero()).unwrap_or(TOLD_APART);
        self.planned.due = Some(now().monotonic.after(again));
    }

    /// Why this cannot follow an end; none if it can.
    pub(crate) fn cannot_follow(action: PowerAction, scope: Scope) -> Option<&'static str> {
        if action == PowerAction::SoftReboot && scope == Scope::User {
            return Some("Only the system's manager can do a soft reboot.");
        }
        // One of a version without it would never answer.
        if action == PowerAction::SoftReboot && std::env::var_os(SOFT_REBOOTS_ENV).is_none() {
            return Some("The running init is of a version without it: boot with a kernel once.");
        }
        let loaded = std::fs::read_to_string("/sys/kernel/kexec_loaded").unwrap_or_default();
        let is_missing = action == PowerAction::Kexec && loaded.trim() != "1";
        is_missing.then_some("No kernel is loaded to be started; see kexec(8), --load.")
    }

    /// Tells all who are logged in, by wall(1) where there is one, and the log.
    pub(super) fn tell_all(&mut self, text: &str) {
        self.say_dated(text);
        let spec = ExecSpec {
            path: "wall".to_owned(),
            search_path: "/usr/bin:/bin".to_owned(),
            argv: vec!["wall".to_owned(), text.to_owned()],
            cgroup: CgroupPlace::Inherit,
            ..ExecSpec::default()
        };
        // Who cannot be told is not.
        let id = EffectId(WALL_EFFECT.0 | TOOL);
        let _ = self.helpers.spawn(id, Box::new(spec), Vec::new());
    }
}

/// What is planned; nothing if nothing is.
fn read_plan(path: &Path) -> io::Result<Option<Scheduled>> {
    match std::fs::read_to_string(path) {
        Ok(text) => match Scheduled::parse(&text) {
            None => Err(io::Error::other("it is damaged")),
            scheduled => Ok(scheduled),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn write_plan(path: &Path, scheduled: &Scheduled) -> io::Result<()> {
    replace(path, &scheduled.to_line())
}

/// Has a file say this, as a whole: whoever is killed over it leaves what it said before.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let aside = path.with_extension("new");
    std::fs::write(&aside, text)?;
    std::fs::rename(&aside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_plan_is_there_as_a_whole_or_it_is_said_that_it_is_damaged() {
        let scratch = Scratch::new("plan");
        let path = scratch.0.join("scheduled");
        assert_eq!(read_plan(&path).expect("there is none"), None);
        let planned = Scheduled::new(PowerAction::Reboot, Some("5min"), None, "new disks");
        let scheduled = planned.expect("a plan");
        write_plan(&path, &scheduled).expect("it can be written");
        let text = std::fs::read_to_string(&path).expect("it is there");
        // The file is never written to while it has this name.
        std::fs::write(path.with_extension("new"), &text[..text.len() / 2]).expect("cut");
        assert_eq!(read_plan(&path).expect("it is whole"), Some(scheduled));
        std::fs::write(&path, "").expect("it can be written");
        assert!(read_plan(&path).is_err());
    }
}
