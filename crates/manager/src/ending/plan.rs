//! The loop's part in an end that is to come: kept in a file, told, begun, taken back.

use std::path::PathBuf;
use std::time::Duration;

use warren_core::ids::EffectId;
use warren_core::time::Monotonic;
use warren_init::protocol::control::{PowerAction, SOFT_REBOOTS_ENV};
use warren_init::protocol::exec::{CgroupPlace, ExecSpec};
use warren_unit::Scope;

use super::WALL_EFFECT;
use super::scheduled::{Scheduled, Step};
use crate::daemon::{Daemon, now};
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

    /// Plans an end, in place of one that was planned.
    pub(crate) fn plan_end(&mut self, scheduled: Scheduled) -> Result<(), String> {
        if self.ending.is_some() {
            return Err("everything is being stopped already".to_owned());
        }
        self.set_plan(Some(scheduled));
        Ok(())
    }

    /// The plan of an earlier manager.
    pub(crate) fn take_up_plan(&mut self) {
        let text = std::fs::read_to_string(self.plan_path()).unwrap_or_default();
        if self.ending.as_ref().is_some_and(|ending| ending.is_for_good()) {
            self.planned.has_begun = true;
        } else if let Some(scheduled) = Scheduled::parse(&text) {
            self.set_plan(Some(scheduled));
        }
    }

    /// There is to be no end; false if none was planned.
    pub(crate) fn cancel_end(&mut self) -> bool {
        let planned = self.planned.scheduled.is_some();
        if planned {
            self.set_plan(None);
            self.tell_all("The shutdown was cancelled.");
        }
        planned
    }

    /// What was planned begins now, or something else does.
    pub(crate) fn forget_plan(&mut self) {
        if self.planned.scheduled.is_some() {
            self.shared.publish_plan(None);
            self.planned = Planned { has_begun: true, ..Planned::default() };
        }
    }

    /// What has begun is written down.
    pub(crate) fn forget_plan_that_began(&mut self) {
        if std::mem::take(&mut self.planned.has_begun) {
            let _ = std::fs::remove_file(self.plan_path());
        }
    }

    fn set_plan(&mut self, scheduled: Option<Scheduled>) {
        let written = match &scheduled {
            Some(scheduled) => std::fs::write(self.plan_path(), scheduled.to_line()),
            None => std::fs::remove_file(self.plan_path()),
        };
        if let Err(e) = written {
            say!("{}: {e}", self.plan_path().display());
        }
        self.shared.publish_plan(scheduled.clone());
        self.planned.due = scheduled.is_some().then(|| now().monotonic);
        self.planned.scheduled = scheduled;
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
            return self.begin_end_saying(scheduled.action, &scheduled.message);
        }
        say!("the planned shutdown waits for {}", crate::inhibit::line(&locks));
        self.planned.due = Some(now().monotonic.after(TOLD_APART));
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
