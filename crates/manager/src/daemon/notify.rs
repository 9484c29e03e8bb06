//! Messages of the notify socket, as the loop takes them.

use crate::base::say::say;
use crate::base::token;
use crate::daemon::Daemon;
use crate::daemon::start::NOTIFY_NAME;
use crate::process::notify_messages::{
    DATAGRAMS_PER_TURN_MAX, EarlyNotice, HELD_NOTICES_MAX, notify_interest,
};
use crate::process::notify_socket::Datagram;
use std::time::Instant;
use warren_core::model::ids::UnitId;
use warren_core::protocol::event::Event;
use warren_sys::{process, time};

impl Daemon {
    pub(crate) fn read_notify(&mut self) {
        for _ in 0..DATAGRAMS_PER_TURN_MAX {
            let Some(datagram) = self.process.notify.receive() else { break };
            let pid = datagram.pid as u32;
            let unit = self
                .core
                .unit_of_pid(pid)
                .or_else(|| self.cgroup.groups.unit_of_process(&self.core, datagram.pid));
            // Who is in no group of a unit is nobody's, now and later.
            let is_nobodys = || self.cgroup.groups.can_tell(datagram.pid);
            let under_way =
                self.spawning.helpers.last_sent().filter(|_| unit.is_none() && !is_nobodys());
            match (unit, under_way) {
                (Some(unit), _) => self.take_notice(unit, datagram),
                (None, Some(sent)) if !self.process.table.early_notices.is_full() => {
                    let heard_ns = time::monotonic_ns();
                    self.process.table.early_notices.keep(EarlyNotice { datagram, sent, heard_ns });
                }
                _ => {}
            }
        }
    }

    fn take_notice(&mut self, unit: UnitId, mut datagram: Datagram) {
        self.store_fds(unit, &datagram);
        let main =
            datagram.message.main_pid.filter(|&main| self.may_be_main(unit, main, &datagram));
        datagram.message.main_pid = main;
        main.into_iter().for_each(|main| self.process.table.name_main(unit, main));
        let (pid, message) = (datagram.pid as u32, datagram.message);
        self.event_loop.events.push_back(Event::Notify { unit, pid, message });
    }

    /// Whether the sender may name this process: it is there, and of the unit, or root says so.
    fn may_be_main(&self, unit: UnitId, main: u32, datagram: &Datagram) -> bool {
        let own = [std::process::id(), std::os::unix::process::parent_id()];
        let is_its = || {
            !self.cgroup.groups.exist()
                || self.cgroup.groups.unit_of_process(&self.core, main as i32) == Some(unit)
        };
        !own.contains(&main) && process::exists(main as i32) && (datagram.uid == 0 || is_its())
    }

    /// A process is known now: what it said before. What was heard before `since_ns`, when it was made, another
    /// one with its number has said.
    pub(crate) fn take_early_notices(&mut self, unit: UnitId, pid: u32, since_ns: u64) {
        let its = self.process.table.early_notices.take(pid, since_ns);
        its.into_iter().for_each(|early| self.take_notice(unit, early.datagram));
    }

    /// While a sender is not known what was heard stays in the socket, but for too much of it: all
    /// other senders would have to wait.
    pub(crate) fn forget_notices(&mut self) {
        let held = !self.process.table.early_notices.is_empty()
            && self.process.notify.seen() <= HELD_NOTICES_MAX;
        if held || self.process.notify.seen() == 0 {
            return;
        }
        self.process.notify.release();
        self.follow_notify_socket();
        self.ask_for_arrivals();
    }

    /// What could not be let go of is tried again, and what came meanwhile is heard.
    pub(crate) fn go_on_hearing(&mut self) {
        self.process.notify.look_after(Instant::now());
        self.follow_notify_socket();
        if self.process.notify.has_old() {
            self.read_notify();
        }
    }

    /// Another socket may have taken the place of the one that was watched.
    fn follow_notify_socket(&mut self) {
        let Some(old) = self.process.notify.replaced() else { return };
        let _ = self.event_loop.epoll.remove(old);
        if let Err(error) =
            self.event_loop.epoll.add(self.process.notify.fd(), token::NOTIFY, notify_interest())
        {
            say!("cannot watch the notify socket: {error}");
        }
        if let Err(error) = self.process.init.store(NOTIFY_NAME, self.process.notify.fd()) {
            say!("init cannot keep the notify socket: {error}");
        }
    }

    /// Arrivals are reported, not what is there: what this turn left has to be asked for.
    fn ask_for_arrivals(&self) {
        let _ = self.event_loop.epoll.modify(
            self.process.notify.fd(),
            token::NOTIFY,
            notify_interest(),
        );
    }
}
