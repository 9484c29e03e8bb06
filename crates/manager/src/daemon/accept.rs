//! Connections of `Accept=yes` sockets, as the loop takes them.

use crate::base::clock::now;
use crate::base::say::say;
use crate::daemon::Daemon;
use crate::daemon::loads::AfterLoad;
use crate::published::orders::LoaderOrder;
use crate::socket::accept::{
    Connection, Door, EAGAIN, Source, TRY_AGAIN_AFTER, WaitingConnection, describe, is_for_later,
    parse_stored_name, stored_name,
};
use crate::socket::{opening, sockets};
use std::os::fd::{AsFd, OwnedFd};
use warren_core::model::ids::UnitId;
use warren_core::model::state::TypeState;
use warren_core::protocol::event::Event;
use warren_core::settings::TypeSettings;
use warren_sys::fdpass;
use warren_unit::UnitName;
use warren_unit::config::SocketConfig;

impl Daemon {
    /// Connections to this socket unit are wanted.
    pub(crate) fn open_door(&mut self, unit: UnitId) {
        let accepted = self.core.unit_run(unit).history.as_ref().map_or(0, |h| h.accepted);
        let door = self.triggers.accepting.doors.door(unit);
        door.open = true;
        door.next = door.next.max(accepted);
        if door.asked.is_none() {
            self.watch_sockets(unit, true);
        }
    }

    /// They are not wanted any more. What init is taking just now is closed when it comes.
    pub(crate) fn close_door(&mut self, unit: UnitId) {
        self.triggers.accepting.doors.door(unit).open = false;
        self.watch_sockets(unit, false);
    }

    /// Somebody waits at one of the unit's sockets. False if the unit takes no connections itself.
    pub(crate) fn knock(&mut self, unit: UnitId) -> bool {
        if !self.triggers.accepting.doors.is_open(unit) {
            return false;
        }
        if self.triggers.accepting.doors.door(unit).asked.is_none() {
            self.watch_sockets(unit, false);
            self.ask_for_connection(unit, 0);
        }
        true
    }

    /// Asks init for one connection from the socket with this index; past the last of them nobody
    /// waits, and they are watched again.
    fn ask_for_connection(&mut self, unit: UnitId, index: usize) {
        if index >= self.triggers.sockets.get(unit).len() {
            self.triggers.accepting.doors.door(unit).asked = None;
            if self.triggers.accepting.doors.is_open(unit) {
                self.watch_sockets(unit, true);
            }
            return;
        }
        let token = self.triggers.accepting.doors.new_token(unit);
        let door = self.triggers.accepting.doors.door(unit);
        door.asked = Some((token, index));
        let socket = self.core.graph().name(unit).as_str();
        let (listener, name) =
            (sockets::stored_name(socket, index), stored_name(socket, door.next));
        if let Err(e) = self.process.init.accept(token, &listener, &name) {
            say!("{socket}: cannot ask init for connections: {e}");
        }
    }

    /// Init's answer.
    pub(crate) fn accepted(&mut self, token: u64, answer: Result<OwnedFd, i32>) {
        let unit = UnitId(token as u32);
        let door = self.triggers.accepting.doors.door(unit);
        let Some((_, index)) = door.asked.filter(|asked| asked.0 == token) else { return };
        let open = door.open;
        match answer {
            Ok(fd) => {
                self.take_connection(unit, fd);
                self.ask_for_connection(unit, if open { index } else { usize::MAX });
            }
            Err(EAGAIN) => self.ask_for_connection(unit, index + 1),
            Err(errno) => {
                let socket = self.core.graph().name(unit).as_str();
                let why = warren_sys::error::errno_text(errno);
                say!("{socket}: cannot accept a connection: {why}");
                let door = self.triggers.accepting.doors.door(unit);
                door.asked = None;
                // If it was we who had no room for it, init has one, which nobody will serve.
                drop(self.process.init.drop_stored(&stored_name(socket, door.next)));
                self.triggers.accepting.doors.again_at =
                    Some(now().monotonic.after(TRY_AGAIN_AFTER));
            }
        }
    }

    /// Doors at which accept(2) has failed are watched again.
    pub(crate) fn try_doors_again(&mut self) {
        if self.triggers.accepting.doors.again_at.is_none_or(|at| now().monotonic < at) {
            return;
        }
        self.triggers.accepting.doors.again_at = None;
        let idle = |door: &Door| door.open && door.asked.is_none();
        let units: Vec<UnitId> = self
            .triggers
            .accepting
            .doors
            .doors
            .iter()
            .filter(|(_, door)| idle(door))
            .map(|(&unit, _)| unit)
            .collect();
        for unit in units {
            self.watch_sockets(unit, true);
        }
    }

    /// Names the instance for a connection and has it loaded.
    fn take_connection(&mut self, unit: UnitId, fd: OwnedFd) {
        let number = self.triggers.accepting.doors.door(unit).next;
        let socket = self.core.graph().name(unit).clone();
        let stored = stored_name(socket.as_str(), number);
        let TypeState::Socket(warren_core::model::state::Socket::Up(run)) =
            &self.core.unit_run(unit).state
        else {
            return self.turn_away(fd, &stored);
        };
        let settings = self.core.settings().compile(self.core.graph().definition(unit));
        let config = settings.socket();
        let loading = self.triggers.accepting.doors.doors.get(&unit).map(|door| &door.loading);
        let loading: Vec<Option<Source>> =
            loading.into_iter().flat_map(|all| all.values().copied()).collect();
        let refuse = |daemon: &mut Daemon, fd: OwnedFd, why: &str| {
            match daemon.triggers.accepting.doors.door(unit).refusals.note(now().monotonic) {
                Some(1) => say!("{socket}: too many connections{why}, refusing one"),
                Some(count) => say!(
                    "{socket}: too many connections{why}, refusing one; {} others were refused since this was said",
                    count - 1
                ),
                None => {}
            }
            daemon.event_loop.events.push_back(Event::ConnectionRefused { socket: unit });
            daemon.turn_away(fd, &stored);
        };
        // The machine is yet to hear of some that are loaded.
        let told = self.event_loop.events.iter().filter_map(|event| match event {
            Event::Connection { socket, instance, .. } if *socket == unit => Some(instance),
            _ => None,
        });
        let up: Vec<UnitId> = run.connections.iter().chain(told).copied().collect();
        if up.len() + loading.len() >= config.max_connections as usize {
            return refuse(self, fd, "");
        }
        if let (Some(source), Some(max)) = (Source::of(&fd), config.max_connections_per_source) {
            let up = up.iter().map(|&unit| Source::of_instance(self.core.graph().name(unit)));
            let same = up.chain(loading).filter(|other| *other == Some(source)).count();
            if same >= max as usize {
                return refuse(self, fd, &format!(" from {source}"));
            }
        }
        let refused = opening::mark_socket(fd.as_fd(), "XAttrAccept", &config.xattr_accept);
        // Of the first connection, as it is so for all.
        for why in refused.iter().filter(|_| number == 0) {
            say!("{socket}: {why}");
        }
        let (instance, environment) = describe(number, &fd);
        let Some(instance) = self.instance_of(unit, config, &instance) else {
            say!("{socket}: no template unit to serve connections");
            self.event_loop.events.push_back(Event::ConnectionUnserved { socket: unit });
            return self.turn_away(fd, &stored);
        };
        self.triggers.accepting.doors.door(unit).next += 1;
        let connection = Connection { fd, environment, stored, is_kept: false };
        self.load_instance(WaitingConnection { socket: unit, number, instance, connection });
    }

    /// Ends a connection that nobody serves: no more comes over it. It is init that closes it in the end, as
    /// what was sent may have descriptors that wait.
    fn turn_away(&self, fd: OwnedFd, stored: &str) {
        fdpass::hang_up(fd.as_fd());
        drop(fd);
        let _ = self.process.init.drop_stored(stored);
    }

    fn load_instance(&mut self, waiting: WaitingConnection) {
        let source = Source::of_instance(&waiting.instance);
        self.triggers.accepting.doors.door(waiting.socket).loading.insert(waiting.number, source);
        let name = waiting.instance.clone();
        let after = AfterLoad::Connection(Box::new(waiting));
        self.load(|token| LoaderOrder::LoadOne { name, goes_far: false, token }, after);
    }

    /// `Service=`, else the template of the socket's own name.
    fn instance_of(&self, unit: UnitId, config: &SocketConfig, instance: &str) -> Option<UnitName> {
        let own = || {
            let name = self.core.graph().name(unit);
            UnitName::parse(&format!("{}@.service", name.prefix())).ok()
        };
        let template = config.service.clone().or_else(own)?;
        let template = if template.is_template() { template } else { template.template()? };
        template.with_instance(instance).ok()
    }

    /// After a restart: a connection that was not handed over. Its instance may be under way.
    pub(crate) fn take_up_connection(&mut self, name: &str, fd: OwnedFd) {
        if !self.goes_on_with_connection(name, fd) {
            let _ = self.process.init.drop_stored(name);
        }
    }

    fn goes_on_with_connection(&mut self, name: &str, fd: OwnedFd) -> bool {
        let Some((socket, number)) = parse_stored_name(name) else { return false };
        let Some(socket) = self.core.graph().lookup_own(&socket) else { return false };
        let door = self.triggers.accepting.doors.door(socket);
        door.next = door.next.max(number + 1);
        let settings = self.core.settings().compile(self.core.graph().definition(socket));
        let TypeSettings::Socket(config) = &settings.own else {
            return false;
        };
        let (instance, environment) = describe(number, &fd);
        let Some(instance) = self.instance_of(socket, config, &instance) else { return false };
        let stored = name.to_owned();
        let connection = Connection { fd, environment, stored, is_kept: false };
        let graph = self.core.graph();
        match graph.lookup_own(&instance).or_else(|| graph.lookup(&instance)) {
            Some(unit) if self.is_under_way(unit) => {
                // Whether it was handed over may come to light only now.
                let settings = self.core.settings().compile_running(graph.definition(unit));
                let is_kept = is_for_later(&settings);
                self.triggers
                    .accepting
                    .connections
                    .insert(unit, Connection { is_kept, ..connection });
            }
            Some(unit) if self.core.unit_run(unit).history.is_some() => return false,
            _ if self.core.unit_run(socket).active_state().is_down() => return false,
            _ => self.load_instance(WaitingConnection { socket, number, instance, connection }),
        }
        true
    }

    fn is_under_way(&self, instance: UnitId) -> bool {
        let run = self.core.unit_run(instance);
        run.job.is_some() || !run.active_state().is_down()
    }

    /// It was handed over, or will never be.
    pub(crate) fn drop_connection(&mut self, unit: UnitId) {
        if let Some(Connection { fd, stored, .. }) =
            self.triggers.accepting.connections.remove(&unit)
        {
            // The process may have it, and is to go on with it.
            drop(fd);
            let _ = self.process.init.drop_stored(&stored);
        }
    }

    pub(crate) fn connection_loaded(&mut self, waiting: WaitingConnection) {
        let WaitingConnection { socket, number, instance, connection } = waiting;
        self.triggers.accepting.doors.door(socket).loading.remove(&number);
        let Some(instance) = self.core.graph().lookup(&instance) else {
            say!("{}: {instance} has no unit file", self.core.graph().name(socket));
            self.event_loop.events.push_back(Event::ConnectionUnserved { socket });
            return self.turn_away(connection.fd, &connection.stored);
        };
        self.triggers.accepting.connections.insert(instance, connection);
        self.event_loop.events.push_back(Event::Connection { socket, instance, number });
    }
}
