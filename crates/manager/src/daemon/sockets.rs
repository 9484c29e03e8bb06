//! Listening sockets, as the loop opens and closes them.

use crate::base::clock::now;
use crate::base::say::say;
use crate::base::token;
use crate::daemon::Daemon;
use crate::socket::deferred;
use crate::socket::deferred::{GONE_WITHIN, Late, OPEN_WITHIN};
use crate::socket::opening;
use crate::socket::opening::Opened;
use crate::socket::poll_limits::Found;
use crate::socket::shortage;
use crate::socket::sockets::{LEFT, Open, parse_stored_name, stored_name};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::state::{Socket, TypeState};
use warren_core::protocol::event::{Done, Event};
use warren_core::settings::{Compiled, TypeSettings};
use warren_init::protocol::control::Refusal;
use warren_sys::descriptors::Allowance;
use warren_sys::epoll::Interest;
use warren_sys::socket;
use warren_unit::UnitName;
use warren_unit::config::TriggerLimit;
use warren_unit::settings::{Group, Id};

impl Daemon {
    /// Opens what a unit listens at.
    pub(crate) fn listen(&mut self, id: EffectId, unit: UnitId, settings: Arc<Compiled>) {
        match self.triggers.sockets.get(unit).len() {
            0 => {}
            // They were open when the last manager was killed.
            fds if fds == settings.socket().listen.len() => {
                return self.done(id, Done::Listening { fds: fds as u16 });
            }
            // It had given not all of them to init.
            _ => self.close_sockets(unit, None),
        }
        let asked = self
            .triggers
            .sockets
            .closing
            .asked
            .filter(|_| opening::may_be_in_use(settings.socket()));
        if let Some(asked) = asked {
            return self.triggers.sockets.closing.waiting.push_back((asked, id, unit, settings));
        }
        self.open_sockets(id, unit, settings);
    }

    /// Init has closed what it was told to before this ping.
    pub(crate) fn listen_where_closed(&mut self, number: u64) {
        for (id, unit, settings) in self.triggers.sockets.closing.answered(number) {
            if self.core.effect_unit(id).is_some() {
                self.open_sockets(id, unit, settings);
            }
        }
    }

    fn open_sockets(&mut self, id: EffectId, unit: UnitId, settings: Arc<Compiled>) {
        match self.triggers.sockets.is_near(unit, &settings) {
            true => self.listens(id, unit, &settings, opening::open_all(settings.socket())),
            false => self.triggers.sockets.beside.open(id, unit, settings),
        }
    }

    /// What a unit listens at is open, or not.
    fn listens(
        &mut self,
        id: EffectId,
        unit: UnitId,
        settings: &Compiled,
        opened: Result<Opened, String>,
    ) {
        let Opened { fds, refused } = match opened {
            Ok(opened) => opened,
            Err(error) => return self.done(id, Done::Failed { error }),
        };
        let allowance = Allowance::of_process();
        if !fds.iter().all(|fd| allowance.covers(fd.as_fd())) {
            self.triggers.sockets.shortage.refuse(fds.len());
            drop(fds);
            opening::remove_all(settings.socket(), true);
            return self.done(id, Done::NoDescriptors { error: shortage::reason(allowance) });
        }
        let name = self.unit_name(unit);
        refused.iter().for_each(|refused| say!("{name}: not applied: {refused}"));
        for (index, fd) in fds.iter().enumerate() {
            if let Err(e) = self.process.init.store(&stored_name(&name, index), fd.as_fd()) {
                say!("{name}: cannot save its socket with init: {e}");
            }
        }
        let listening = Done::Listening { fds: fds.len() as u16 };
        let fd_name = settings.socket().fd_name.as_deref().unwrap_or(&name);
        let open = fds.into_iter().map(|fd| Open { fd, name: fd_name.to_owned() }).collect();
        self.triggers.sockets.open.insert(unit, open);
        self.done(id, listening);
    }

    /// Init does not keep something under this name.
    pub(crate) fn not_kept(&mut self, why: Refusal, name: &str) {
        match why {
            Refusal::StoreFull => self.triggers.sockets.shortage.refuse(1),
            _ => say!("init refused to keep {name}: {why:?}"),
        }
        let unit = parse_stored_name(name).and_then(|(unit, _)| UnitName::parse(unit).ok());
        if let Some(unit) = unit.and_then(|unit| self.core.graph().lookup_own(&unit)) {
            let why = format!("init cannot keep its sockets: {why:?}");
            self.event_loop.events.push_back(Event::SocketsLost { unit, why });
        }
    }

    /// Tells of descriptors that units did not get, once no job is left that may want more.
    pub(crate) fn tell_of_shortage(&mut self) {
        if self.core.totals().jobs == 0
            && let Some(news) = self.triggers.sockets.shortage.take_news(Allowance::of_process())
        {
            say!("{news}");
        }
    }

    /// After a restart, when what init kept is taken up: a unit that lacks something would wait for who cannot come.
    pub(crate) fn look_for_lost_sockets(&mut self, unit: UnitId) {
        let TypeState::Socket(Socket::Up(run)) = &self.core.unit_run(unit).state else { return };
        let (had, has) = (usize::from(run.fds), self.triggers.sockets.get(unit).len());
        if run.listen_asked.is_none() && has < had {
            let why = format!("init has kept {has} of its {had} sockets");
            self.event_loop.events.push_back(Event::SocketsLost { unit, why });
        }
    }

    /// Takes in what was opened beside the loop.
    pub(crate) fn hear_of_sockets(&mut self) {
        for heard in self.triggers.sockets.beside.hear() {
            let deferred::OpeningResults { effect, unit, settings, result } = heard;
            let wanted = effect.filter(|effect| self.core.effect_unit(*effect).is_some());
            match (wanted, result) {
                (Some(effect), result) => self.listens(effect, unit, &settings, result),
                // Nobody waits for them any more, and they are closed. Who opens them anew meanwhile takes
                // their places.
                (None, Ok(_))
                    if settings.socket().remove_on_stop
                        && !self.triggers.sockets.beside.is_at(unit)
                        && self.triggers.sockets.get(unit).is_empty() =>
                {
                    if self.triggers.sockets.remove(unit, settings, true) {
                        self.keep_left(unit);
                    }
                }
                (None, _) => {}
            }
        }
        self.forget_left();
        self.triggers.sockets.flushes.hear();
    }

    /// Has init keep that something is to be removed of a unit's sockets.
    fn keep_left(&mut self, unit: UnitId) {
        let name = format!("{LEFT}{}", self.unit_name(unit));
        if let Err(e) = self.process.init.store(&name, self.process.notify.fd()) {
            say!("cannot save {name} with init: {e}");
        }
        self.triggers.sockets.left.insert(unit, name);
    }

    /// Has init forget what has been removed.
    fn forget_left(&mut self) {
        for name in self.triggers.sockets.no_longer_left() {
            let _ = self.process.init.drop_stored(&name);
        }
    }

    /// Waits no longer for what the way to does not answer.
    pub(crate) fn leave_late_sockets(&mut self) {
        for late in self.triggers.sockets.beside.leave_late(Instant::now()) {
            match late {
                Late::Open(effect, settings) => {
                    let paths: Vec<&str> = opening::paths(settings.socket()).collect();
                    let (paths, seconds) = (paths.join(", "), OPEN_WITHIN.as_secs());
                    let error =
                        format!("{paths}: the file system has not responded within {seconds} s");
                    self.event_loop
                        .events
                        .push_back(Event::Done { effect, result: Done::Failed { error } });
                }
                Late::Remove(unit) => {
                    let (name, seconds) = (self.unit_name(unit), GONE_WITHIN.as_secs());
                    say!("{name}: could not remove its sockets within {seconds} s; leaving them");
                }
            }
        }
        self.forget_left();
    }

    /// Closes what a unit listens at, and removes what `remove` lists.
    pub(crate) fn close_sockets(&mut self, unit: UnitId, remove: Option<Arc<Compiled>>) {
        let name = self.unit_name(unit);
        let ends =
            self.stages.shutdown.under_way.as_ref().is_some_and(|ending| ending.takes_init());
        let (closed, leaves) = self.triggers.sockets.close(unit, remove, ends);
        if leaves {
            self.keep_left(unit);
        }
        if closed.is_empty() {
            return;
        }
        for index in closed {
            let _ = self.process.init.drop_stored(&stored_name(&name, index));
        }
        self.triggers.sockets.closing.asked = Some(self.ask_init());
    }

    /// Throws away what waits in a unit's sockets.
    pub(crate) fn flush_sockets(&mut self, unit: UnitId) {
        let open = self.triggers.sockets.get(unit).iter();
        let scrap = open.flat_map(|open| socket::flush(open.fd.as_fd())).collect();
        self.triggers.sockets.flushes.close(scrap);
    }

    /// Looks for traffic in a unit's sockets, or no longer.
    pub(crate) fn watch_sockets(&mut self, unit: UnitId, on: bool) {
        if !self.triggers.sockets.set_watched(unit, on) {
            return;
        }
        if on {
            let limit = self.poll_limit(unit);
            self.triggers.sockets.poll_limits.set(unit, limit);
        }
        let limits = &self.triggers.sockets.poll_limits;
        for (index, open) in self.triggers.sockets.get(unit).iter().enumerate() {
            let _ = match on {
                true if limits.is_paused((unit, index as u16)) => Ok(()),
                true => {
                    let token = token::socket(unit, index);
                    self.event_loop.epoll.add(&open.fd, token, Interest::READ)
                }
                false => self.event_loop.epoll.remove(&open.fd),
            };
        }
    }

    /// How often traffic may be found in each of a unit's sockets.
    fn poll_limit(&self, unit: UnitId) -> Option<TriggerLimit> {
        const POLL_LIMIT: [Id; 2] = [
            Id::of(Group::Socket, "PollLimitIntervalSec"),
            Id::of(Group::Socket, "PollLimitBurst"),
        ];
        let definition = self.core.graph().definition(unit);
        if !POLL_LIMIT.into_iter().any(|setting| definition.mentions(setting)) {
            return None;
        }
        match self.core.settings().compile_running(definition).own {
            TypeSettings::Socket(config) => config.poll_limit,
            _ => None,
        }
    }

    /// Sockets that were not looked at for a while are looked at again.
    pub(crate) fn end_pauses(&mut self) {
        for (unit, index) in self.triggers.sockets.poll_limits.take_over(now().monotonic) {
            let open = self.triggers.sockets.get(unit).get(usize::from(index));
            if let Some(open) = open.filter(|_| self.triggers.sockets.is_watched(unit)) {
                let token = token::socket(unit, index.into());
                let _ = self.event_loop.epoll.add(&open.fd, token, Interest::READ);
            }
        }
    }

    /// Whether traffic is found in a socket too often: then it is not looked at for a while.
    fn is_too_busy(&mut self, unit: UnitId, index: u16) -> bool {
        let found = self.triggers.sockets.poll_limits.found((unit, index), now().monotonic);
        let Found::Pause(pause, is_first) = found else { return false };
        if let Some(open) = self.triggers.sockets.get(unit).get(usize::from(index)) {
            let _ = self.event_loop.epoll.remove(&open.fd);
        }
        if is_first {
            let (name, ms) = (self.unit_name(unit), pause.as_millis());
            say!(
                "{name}: traffic more often than PollLimitBurst= allows; its socket is not looked at for {ms} ms"
            );
        }
        true
    }

    /// Traffic: with `Accept=no` the service is started, else each connection gets an instance.
    pub(crate) fn socket_ready(&mut self, unit: UnitId, index: u16) {
        if !self.is_too_busy(unit, index) && !self.knock(unit) {
            self.event_loop.events.push_back(Event::Incoming { unit });
        }
    }
}
