//! The loop and a shutdown that is planned.

use crate::base::clock::now;
use crate::base::say::say;
use crate::base::token;
use crate::daemon::Daemon;
use crate::published::scheduled::{Scheduled, Step, When};
use crate::shutdown::plan::{FILE, Planned, TOLD_APART, read_plan, write_plan};
use crate::shutdown::stages::WALL_EFFECT;
use crate::shutdown::words::AskedBy;
use crate::spawn::tools::TOOL;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;
use warren_core::model::ids::EffectId;
use warren_core::protocol::request::Asker;
use warren_init::protocol::exec::{CgroupPlace, ExecSpec};
use warren_sys::epoll::Interest;
use warren_sys::eventfd::{Clock, TimerFd};

impl Daemon {
    fn plan_path(&self) -> PathBuf {
        self.options.runtime_dir.join(FILE)
    }

    /// Plans an end, in place of one that was planned; not if the next manager could not know of it.
    pub(crate) fn plan_end(&mut self, asker: Asker, scheduled: Scheduled) -> Result<(), String> {
        if self.stages.shutdown.under_way.is_some() {
            return Err("the system is already shutting down".to_owned());
        }
        let path = self.plan_path();
        write_plan(&path, &scheduled)
            .map_err(|e| format!("cannot schedule the shutdown: {}: {e}", path.display()))?;
        let what = crate::base::power_action::name(scheduled.action);
        say!("{what} scheduled by {}", crate::base::process_name::client(asker));
        self.adopt_plan(Some(scheduled));
        Ok(())
    }

    /// The plan of an earlier manager.
    pub(crate) fn take_up_plan(&mut self) {
        if self.stages.shutdown.under_way.as_ref().is_some_and(|ending| ending.is_for_good()) {
            self.stages.shutdown.planned.has_begun = true;
            return;
        }
        let path = self.plan_path();
        match read_plan(&path) {
            Ok(Some(scheduled)) => self.set_plan(Some(scheduled)),
            Ok(None) => {}
            Err(e) => say!("cancelled the scheduled shutdown: {}: {e}", path.display()),
        }
    }

    /// There is to be no end; false if none was planned.
    pub(crate) fn cancel_end(&mut self, asker: Asker) -> bool {
        let planned = self.stages.shutdown.planned.scheduled.is_some();
        if planned {
            say!("scheduled shutdown cancelled by {}", crate::base::process_name::client(asker));
            self.set_plan(None);
            self.tell_all("The shutdown was cancelled.");
        }
        planned
    }

    /// What was planned begins now, or something else does; false if nothing was.
    pub(crate) fn forget_plan(&mut self) -> bool {
        let is_planned = self.stages.shutdown.planned.scheduled.is_some();
        if is_planned {
            self.shared.publish_plan(None);
            self.stages.shutdown.planned = Planned { has_begun: true, ..Planned::default() };
        }
        is_planned
    }

    /// What has begun is written down.
    pub(crate) fn forget_plan_that_began(&mut self) {
        if std::mem::take(&mut self.stages.shutdown.planned.has_begun) {
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
        self.stages.shutdown.planned.due = scheduled.is_some().then(|| now().monotonic);
        self.stages.shutdown.planned.clock =
            scheduled.as_ref().and_then(|scheduled| self.watch_clock(scheduled.when));
        self.stages.shutdown.planned.scheduled = scheduled;
    }

    fn watch_clock(&self, when: When) -> Option<TimerFd> {
        let When::At(at_us) = when else { return None };
        let watch = || {
            let clock = TimerFd::new(Clock::Realtime)?;
            clock.set(Some(at_us.saturating_mul(1000)))?;
            self.event_loop.epoll.add(clock.as_fd(), token::CLOCK, Interest::READ)?;
            Ok(clock)
        };
        let watched: warren_sys::Result<TimerFd> = watch();
        watched.inspect_err(|e| say!("cannot watch for clock changes: {e}")).ok()
    }

    /// The clock was set, or says the time that an end is planned for.
    pub(crate) fn clock_changed(&mut self) {
        if let Some(clock) = &self.stages.shutdown.planned.clock {
            let _ = clock.read();
        }
        self.look_at_plan();
    }

    /// A lock is gone: what waited for it is looked at.
    pub(crate) fn look_at_plan(&mut self) {
        self.stages.shutdown.planned.due =
            self.stages.shutdown.planned.scheduled.is_some().then(|| now().monotonic);
    }

    /// Does what is due of the plan.
    pub(crate) fn go_on_planned(&mut self) {
        let moment = now();
        if self.stages.shutdown.planned.due.is_none_or(|due| due > moment.monotonic) {
            return;
        }
        let Some(scheduled) = &mut self.stages.shutdown.planned.scheduled else { return };
        let step = scheduled.step(moment);
        let scheduled = scheduled.clone();
        match step {
            Step::Wait(time) => {
                self.stages.shutdown.planned.due = Some(moment.monotonic.after(time))
            }
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
        say!("the scheduled shutdown is waiting for {}", crate::shutdown::inhibitors::line(&locks));
        let awaited = self.shared.locks_awaited_until().map(|until| until - Instant::now());
        let again = awaited.filter(|time| !time.is_zero()).unwrap_or(TOLD_APART);
        self.stages.shutdown.planned.due = Some(now().monotonic.after(again));
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
        let _ = self.spawning.helpers.spawn(id, Box::new(spec), Vec::new());
    }
}
