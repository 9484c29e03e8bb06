//! The watchdog of the machine, as the loop follows it.

use crate::base::clock::now;
use crate::base::host::{ends_container, owns_machine};
use crate::base::patience::Patient;
use crate::base::say::say;
use crate::daemon::Daemon;
use crate::process::watchdog::{Change, WATCHDOG_NAME, wanted};
use crate::shutdown::stages::Stage;
use std::sync::Arc;
use warren_bus::Backend;
use warren_core::persist::run_state::ClientWatchdog;
use warren_unit::config::{Watchdog, WatchdogTime};

impl Daemon {
    /// Has the device wait as long as the manager's file says for what the machine is at: another file, or the last
    /// steps of a shutdown, may say something else.
    pub(crate) fn follow_watchdog(&mut self) {
        let Some(stated) = self.stated_watchdog() else { return };
        let ending = self.stages.shutdown.under_way.as_ref();
        let ending = ending.filter(|ending| ending.stage != Stage::Units).and_then(|it| it.action);
        let change = self.process.watchdog.set(&stated, wanted(&stated, ending), now().monotonic);
        self.keep_watchdog(change);
    }

    /// Tells the device that we are there, if that is due.
    pub(crate) fn tell_watchdog(&mut self) {
        let moment = now().monotonic;
        if self.process.watchdog.deadline().is_none_or(|due| due > moment) {
            return;
        }
        let Some(stated) = self.stated_watchdog() else { return };
        let change = self.process.watchdog.go_on(&stated, moment);
        self.keep_watchdog(change);
    }

    /// What is said of the device of this machine. Beside another process 1 it is somebody else's, and in a container
    /// only one that is named is there for it.
    fn stated_watchdog(&self) -> Option<Arc<Watchdog>> {
        let stated = self.shared.facts().watchdog.clone();
        let scope = self.options.scope;
        // One that is named no more is to be disarmed.
        let is_named = stated.device.is_some() || self.process.watchdog.fd().is_some();
        let is_ours = owns_machine(scope) || is_named && ends_container(scope);
        is_ours.then_some(stated)
    }

    /// What the manager's file says of the watchdog, where clients say nothing else.
    pub(super) fn watchdog_with(stated: &Arc<Watchdog>, set: &ClientWatchdog) -> Arc<Watchdog> {
        if *set == ClientWatchdog::default() {
            return stated.clone();
        }
        let time = |set: Option<u64>, stated| set.map_or(stated, WatchdogTime::of_usec);
        let governor =
            set.governor.as_deref().map(|name| Some(name).filter(|name| !name.is_empty()));
        Arc::new(Watchdog {
            device: stated.device.clone(),
            runtime: time(set.runtime_us, stated.runtime),
            pre: time(set.pre_us, stated.pre),
            reboot: time(set.reboot_us, stated.reboot),
            kexec: time(set.kexec_us, stated.kexec),
            governor: governor.map_or(stated.governor.clone(), |name| name.map(Into::into)),
        })
    }

    fn keep_watchdog(&mut self, change: Option<Change>) {
        let kept = match (change, self.process.watchdog.fd()) {
            (Some(Change::Opened), Some(fd)) => self.process.init.store(WATCHDOG_NAME, fd),
            (Some(Change::Closed), _) => self.process.init.drop_stored(WATCHDOG_NAME),
            _ => return,
        };
        if let Err(e) = kept {
            say!("init does not keep the watchdog: {e}");
        }
    }
}
