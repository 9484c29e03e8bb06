//! File descriptors that services store, as the loop takes them.

use crate::base::say::say;
use crate::base::token;
use crate::daemon::Daemon;
use crate::process::notify_socket::Datagram;
use crate::process::stored_fds::{
    ReceivedFd, Stored, is_passed, let_go, parse_stored_name, passed_name,
};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use warren_bus::backend::Transient;
use warren_core::model::ids::UnitId;
use warren_core::model::job::JobKind;
use warren_core::protocol::event::Event;
use warren_core::settings::TypeSettings;
use warren_sys::epoll::Interest;
use warren_sys::{file, waits};
use warren_unit::UnitName;
use warren_unit::config::Preserve;

impl Daemon {
    /// Stores or removes what a datagram says.
    pub(crate) fn store_fds(&mut self, unit: UnitId, datagram: &Datagram) {
        if datagram.store.is_none() && datagram.unstore.is_none() {
            return;
        }
        let definition = self.core.graph().definition(unit).clone();
        let TypeSettings::Service(config) = self.core.settings().compile_running(&definition).own
        else {
            return;
        };
        if !self.core.hears(unit, datagram.pid as u32, config.notify_access) {
            return;
        }
        if let Some(wanted) = &datagram.unstore {
            self.remove_stored(unit, |s| s.name == *wanted);
        }
        let max = config.fd_store_max as usize;
        if let Some(store) = datagram.store.as_ref().filter(|_| max > 0) {
            let fds = self.process.notify.descriptors(store);
            if fds.is_empty() {
                say!("{}: cannot store its file descriptors: they are lost", definition.name);
            }
            for fd in fds {
                self.store_fd(unit, &store.name, fd, datagram.polls, max);
            }
        }
        self.tell_stored(unit);
    }

    /// Stores one, unless there is no room or it is there already.
    fn store_fd(&mut self, unit: UnitId, name: &str, fd: OwnedFd, polls: bool, max: usize) {
        let stored = Stored::new(name, self.process.stored_fds.next, polls, fd);
        let is_same = |s: &Stored| {
            s.file == stored.file && file::is_same(s.fd.as_fd(), stored.fd.as_fd()) == Ok(true)
        };
        let count = self.process.stored_fds.count(unit);
        if count >= max || self.process.stored_fds.of(unit).iter().any(is_same) {
            return;
        }
        self.keep(unit, stored);
    }

    /// Keeps one, and has init keep it; whether that could be done.
    fn keep(&mut self, unit: UnitId, stored: Stored) -> bool {
        self.process.stored_fds.next += 1;
        let unit_name = self.core.graph().name(unit).to_string();
        let is_kept =
            self.process.init.store(&stored.kept_as(&unit_name), stored.fd.as_fd()).is_ok();
        if is_kept {
            self.watch_stored(&stored);
            self.process.stored_fds.of(unit).push(stored);
        }
        is_kept
    }

    /// Keeps what a client passed for the processes of a unit that it makes. It goes when the unit is down for good:
    /// whoever reads at the other end of a pipe waits for that.
    pub(crate) fn keep_passed(&mut self, unit: UnitId, made: &Transient) -> Result<(), String> {
        for (place, index) in &made.places {
            let fd = made.fds.get(*index).ok_or("a file descriptor did not come along")?;
            let fd = fd.try_clone_to_owned().map_err(|e| e.to_string())?;
            let key = self.process.stored_fds.next;
            if !self.keep(unit, Stored::new(&passed_name(place), key, false, fd)) {
                return Err("init cannot keep a file descriptor".to_owned());
            }
        }
        Ok(())
    }

    /// Takes up one that init kept; one of a unit that is not there any more goes, or that went down for good and
    /// would have given it up, had its manager not been killed over that.
    pub(crate) fn take_up_stored_fd(&mut self, kept_as: &str, fd: OwnedFd) {
        let Some((name, rest)) = parse_stored_name(kept_as) else { return };
        let unit = UnitName::parse(name).ok().and_then(|name| self.core.graph().lookup_own(&name));
        let parsed = unit.zip(Stored::parse(rest));
        let kept = parsed.filter(|(unit, (_, _, name))| {
            self.is_up_or_to_come(*unit) || !is_passed(name) && self.keeps_stored(*unit)
        });
        let Some((unit, (key, polls, name))) = kept else {
            drop(ReceivedFd::new(fd));
            return drop(self.process.init.drop_stored(kept_as));
        };
        let stored = Stored::new(name, key, polls, fd);
        self.process.stored_fds.next = self.process.stored_fds.next.max(stored.key + 1);
        self.watch_stored(&stored);
        self.process.stored_fds.of(unit).push(stored);
    }

    /// Whether what a unit stored stays: while it is up or has a job that is to bring it up, or as its file says.
    fn keeps_stored(&self, unit: UnitId) -> bool {
        if self.is_up_or_to_come(unit) {
            return true;
        }
        match self.core.settings().compile_running(self.core.graph().definition(unit)).own {
            TypeSettings::Service(config) => config.fd_store_preserve == Preserve::Yes,
            _ => false,
        }
    }

    fn is_up_or_to_come(&self, unit: UnitId) -> bool {
        let run = self.core.unit_run(unit);
        let is_to_come = run.job.as_ref().is_some_and(|job| job.kind != JobKind::Stop);
        !run.active_state().is_down() || is_to_come
    }

    /// Files do not hang up, and those that others serve ask a server whether they do.
    fn watch_stored(&self, stored: &Stored) {
        if stored.polls && waits::may_be_polled(stored.fd.as_fd()) {
            let token = token::STORED | u64::from(stored.key);
            let _ = self.event_loop.epoll.add(stored.fd.as_fd(), token, Interest::NONE);
        }
    }

    /// Whoever was at the other end is gone: nobody needs it any more (sd_notify(3), `FDPOLL=`).
    pub(crate) fn stored_fd_hung_up(&mut self, key: u32) {
        let has = |all: &[Stored]| all.iter().any(|s| s.key == key);
        let unit =
            self.process.stored_fds.stored.iter().find_map(|(&unit, all)| has(all).then_some(unit));
        if let Some(unit) = unit {
            self.remove_stored(unit, |s| s.key == key);
            self.tell_stored(unit);
        }
    }

    /// The machine knows how many there are.
    pub(crate) fn tell_stored(&mut self, unit: UnitId) {
        if self.process.stored_fds.stored.contains_key(&unit) {
            let count = self.process.stored_fds.count(unit) as u32;
            self.event_loop.events.push_back(Event::FdsStored { unit, count });
        }
    }

    fn remove_stored(&mut self, unit: UnitId, goes: impl Fn(&Stored) -> bool) {
        let gone: Vec<Stored> =
            self.process.stored_fds.of(unit).extract_if(.., |s| goes(s)).collect();
        let name = self.core.graph().name(unit).to_string();
        let kept_as: Vec<String> = gone.iter().map(|stored| stored.kept_as(&name)).collect();
        for stored in &gone {
            let _ = self.event_loop.epoll.remove(stored.fd.as_fd());
        }
        // While init has them, too, no socket lingers. What a spawn has goes with it.
        let_go(gone.into_iter().filter_map(|stored| Rc::into_inner(stored.fd)?.0.take()));
        for kept_as in kept_as {
            let _ = self.process.init.drop_stored(&kept_as);
        }
    }

    /// The unit is down for good: what a client passed for its processes goes.
    pub(crate) fn drop_passed(&mut self, unit: UnitId) {
        let all = self.process.stored_fds.stored.get(&unit);
        if all.is_some_and(|all| all.iter().any(Stored::is_passed)) {
            self.remove_stored(unit, Stored::is_passed);
        }
    }

    /// The unit is down for good: what it stored goes.
    pub(crate) fn drop_stored(&mut self, unit: UnitId) {
        if self.process.stored_fds.stored.contains_key(&unit) {
            self.remove_stored(unit, |_| true);
            self.process.stored_fds.stored.remove(&unit);
        }
    }

    /// What those of these units stored goes that were to come again and for which there is no job any more
    /// (systemd.service(5), `FileDescriptorStoreMax=`).
    pub(crate) fn drop_kept_in_vain(&mut self, changed: &BTreeSet<UnitId>) {
        let stored = changed
            .iter()
            .copied()
            .filter(|unit| self.process.stored_fds.stored.contains_key(unit));
        let (down, kept): (Vec<UnitId>, Vec<UnitId>) =
            stored.partition(|unit| !self.keeps_stored(*unit));
        down.into_iter().for_each(|unit| self.drop_stored(unit));
        let kept = kept.into_iter().filter(|unit| !self.is_up_or_to_come(*unit));
        kept.collect::<Vec<_>>().into_iter().for_each(|unit| self.drop_passed(unit));
    }
}
