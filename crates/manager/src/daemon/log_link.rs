//! The loop and the log daemon: streams of new processes, and the link.

use crate::base::say;
use crate::base::say::say;
use crate::base::token;
use crate::daemon::Daemon;
use crate::peer::log_link::words::exec_of;
use crate::peer::log_link::words::{SETTINGS_BYTES_MAX, StreamName, packet, stream_header};
use crate::peer::log_link::{
    HEARD, IDENTIFIER_BYTES_MAX, LEFT_MAX, LOG_DAEMON, NewStream, OLD_UNIT_FILES_MAX,
    OUTGOING_PER_TURN_MAX, Outgoing, PACKET_BYTES_MAX, PACKETS_PER_TURN_MAX, STREAMS_MAX,
    UNITS_AT_ONCE, connect, lookup, put_unit_file, stream_name,
};
use crate::process::stored_fds;
use std::collections::BTreeSet;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use warren_core::model::ids::UnitId;
use warren_core::settings::Compiled;
use warren_init::protocol::exec::LOG_STREAMS;
use warren_sys::epoll::Interest;
use warren_sys::fdpass;
use warren_sys::socket::unconnected_stream;
use warren_unit::config::{Copies, ExecConfig};
use warren_unit::{Scope, UnitName, UnitType};
use warren_wire::log_link::DaemonWord;

impl Daemon {
    /// A stream for a process of a unit; `None` when there is no log daemon to read it.
    /// `identifier` is what its lines are called if the unit does not say, `copies` who else gets them.
    pub(crate) fn open_stream(
        &mut self,
        unit: UnitId,
        settings: &Arc<Compiled>,
        invocation: u128,
        (identifier, copies): (&str, Copies),
    ) -> Option<NewStream> {
        let name = self.core.graph().name(unit).as_str().to_owned();
        if name == LOG_DAEMON {
            return None;
        }
        if let Some(exec) = exec_of(settings).filter(|exec| exec.log_namespace.is_some()) {
            self.tell_namespace(unit, &name, exec, invocation);
            return connect(&name, exec, (identifier, copies))
                .inspect_err(|e| say!("{name}: writing its output to a file: {e}"))
                .ok();
        }
        if !self.has_log_daemon() || self.peers.log_link.streams.len() >= STREAMS_MAX {
            self.say_files();
            return None;
        }
        let identifier: String = identifier.chars().take(IDENTIFIER_BYTES_MAX / 4).collect();
        let key = self.peers.log_link.next;
        self.peers.log_link.next += 1;
        let name = StreamName { key, unit: name, invocation, identifier, copies };
        match self.make_stream(&name) {
            Ok((stream, reader)) => {
                self.peers.log_link.streams.insert(key, name);
                if self.peers.log_link.heard {
                    // A daemon that is behind hears of many much later.
                    let settings = (!self.peers.log_link.full).then(|| settings.clone());
                    self.tell_of_stream(Outgoing { key, reader, settings });
                } else {
                    // One that begins asks for all that init keeps.
                    self.peers.log_link.awaited.begin();
                }
                Some(stream)
            }
            Err(e) => {
                say!("{}: writing its output to a file: {e}", name.unit);
                None
            }
        }
    }

    /// A stream that a process of a user connects to the log daemon of the machine, and what it says first; `None` where
    /// there is no such daemon.
    pub(crate) fn own_stream(
        &self,
        unit: &str,
        exec: &ExecConfig,
        named: (&str, Copies),
    ) -> Option<(NewStream, String)> {
        let is_wanted = self.options.scope == Scope::User && exec.log_namespace.is_none();
        if !is_wanted || !Path::new(LOG_STREAMS).exists() {
            return None;
        }
        let stream = UnixStream::from(unconnected_stream().ok()?);
        let name = stream_name(&stream).ok()?;
        Some((NewStream { fd: stream.into(), name }, stream_header(unit, exec, named)))
    }

    fn make_stream(&self, name: &StreamName) -> Result<(NewStream, OwnedFd), String> {
        let (writer, reader) = UnixStream::pair().map_err(|e| e.to_string())?;
        // Set before anything is written: each line is to come with its writer.
        fdpass::pass_credentials(reader.as_fd()).map_err(|e| e.to_string())?;
        writer.shutdown(Shutdown::Read).map_err(|e| e.to_string())?;
        self.process.init.store(&name.stored(), reader.as_fd()).map_err(|e| e.to_string())?;
        let stream = NewStream { name: stream_name(&writer)?, fd: writer.into() };
        Ok((stream, reader.into()))
    }

    /// Tells the daemon of the settings of a unit that gets no stream.
    pub(crate) fn tell_log_settings(
        &mut self,
        unit: UnitId,
        settings: &Compiled,
        invocation: u128,
    ) {
        let Some(exec) = exec_of(settings) else { return };
        if exec.log_namespace.is_some() {
            let name = self.core.graph().name(unit).as_str().to_owned();
            return self.tell_namespace(unit, &name, exec, invocation);
        }
        if self.peers.log_link.heard {
            let packet = self.packet_of_unit(unit, exec, invocation);
            say::packet(packet);
        }
    }

    fn packet_of_unit(&mut self, unit: UnitId, exec: &ExecConfig, invocation: u128) -> Vec<u8> {
        let name = self.core.graph().name(unit).as_str().to_owned();
        let name = StreamName { unit: name, invocation, ..StreamName::default() };
        let (packet, is_long) = packet(&name, false, self.cgroup.groups.path_and_id(unit), exec);
        if is_long {
            self.say_long(unit);
        }
        packet
    }

    /// Once for each run of a unit.
    fn say_long(&mut self, unit: UnitId) {
        if self.peers.log_link.said_long.insert(unit) {
            let (name, room) = (self.core.graph().name(unit), SETTINGS_BYTES_MAX >> 10);
            say!(
                "{name}: LogExtraFields= and LogFilterPatterns= exceed {room} KiB: ignoring the last ones"
            );
        }
    }

    /// Tells the daemon of the unit's namespace of its settings, which are kept for those that follow
    /// it.
    fn tell_namespace(&mut self, unit: UnitId, name: &str, exec: &ExecConfig, invocation: u128) {
        let sockets =
            crate::spawn::request::log_sockets(exec.log_namespace.as_deref().unwrap_or_default());
        let packet = self.packet_of_unit(unit, exec, invocation);
        match put_unit_file(Path::new(&sockets), name, &packet) {
            Ok(path) => _ = self.peers.log_link.unit_files.insert(unit, path),
            Err(e) => {
                say!("{name}: cannot send its log settings to the log daemon of its namespace: {e}")
            }
        }
    }

    /// The daemon hears of a stream at the end of the turn: whoever is to write to it is made first.
    fn tell_of_stream(&mut self, stream: Outgoing) {
        self.peers.log_link.queue(stream);
        if self.peers.log_link.outgoing.len() >= OUTGOING_PER_TURN_MAX {
            self.send_outgoing();
        }
    }

    /// Sends what waits, as far as the daemon takes it.
    pub(crate) fn send_outgoing(&mut self) {
        if !self.peers.log_link.full {
            self.try_outgoing();
        }
        self.watch_log_room();
    }

    fn try_outgoing(&mut self) {
        while self.peers.log_link.heard
            && let Some(mut stream) = self.peers.log_link.outgoing.pop_front()
        {
            let Some(name) = self.peers.log_link.streams.get(&stream.key).cloned() else {
                continue;
            };
            let packet = self.packet_of_stream(&name, stream.settings.take());
            let sent =
                fdpass::try_send(self.peers.log_link.fd(), &packet, &[stream.reader.as_fd()]);
            if sent.is_err() {
                // The files may say something else by then.
                self.peers.log_link.outgoing.push_front(stream);
                break;
            }
        }
        self.peers.log_link.full = !say::flush(self.peers.log_link.fd());
        self.tell_units();
        if self.peers.log_link.heard
            && self.peers.log_link.outgoing.is_empty()
            && !self.peers.log_link.left_out.is_empty()
        {
            self.ask_for_streams();
        }
    }

    /// Tells a daemon that has begun of units, as far as it takes it: by the settings that their files have now.
    fn tell_units(&mut self) {
        while !self.peers.log_link.full && !self.peers.log_link.untold.is_empty() {
            for _ in 0..UNITS_AT_ONCE {
                let Some(unit) = self.peers.log_link.untold.pop_first() else { break };
                self.tell_unit(unit);
            }
            self.peers.log_link.full = !say::flush(self.peers.log_link.fd());
        }
    }

    fn tell_unit(&mut self, unit: UnitId) {
        let Some(definition) = self.core.graph().get(unit) else { return };
        let settings = self.core.settings().compile(definition);
        // What a namespace is told stays in a file.
        let Some(exec) = exec_of(&settings).filter(|exec| exec.log_namespace.is_none()) else {
            return;
        };
        let invocation = self.core.unit_run(unit).history.as_ref().map_or(0, |h| h.invocation);
        let packet = self.packet_of_unit(unit, exec, invocation);
        say::packet(packet);
    }

    /// Units that run, but for those that the daemon is told of with their streams.
    fn units_to_tell(&self) -> BTreeSet<UnitId> {
        let graph = self.core.graph();
        let streams = self.peers.log_link.streams.values();
        let told: BTreeSet<UnitId> = streams.filter_map(|name| lookup(graph, &name.unit)).collect();
        let logs = |name: &UnitName| {
            matches!(name.unit_type(), UnitType::Service | UnitType::Socket | UnitType::Mount)
        };
        let runs = |unit: &UnitId| !self.core.unit_run(*unit).active_state().is_down();
        let units = graph.names().filter(|(name, _)| logs(name)).map(|(_, unit)| unit);
        units.filter(|unit| !told.contains(unit) && runs(unit)).collect()
    }

    /// Asks init for the streams that are left out; [`Daemon::take_listed`] gets them.
    pub(crate) fn ask_for_streams(&mut self) {
        if std::mem::replace(&mut self.peers.log_link.asked, true) {
            return;
        }
        if let Err(e) = self.process.init.list_stored() {
            say!("cannot get the output streams of services from init: {e}");
        }
    }

    /// What is told of a stream: by these settings, or by what the unit's files say now.
    fn packet_of_stream(&mut self, name: &StreamName, settings: Option<Arc<Compiled>>) -> Vec<u8> {
        let unit = lookup(self.core.graph(), &name.unit);
        let settings = settings.or_else(|| {
            let definition = self.core.graph().get(unit?)?;
            Some(Arc::new(self.core.settings().compile(definition)))
        });
        let default = ExecConfig::default();
        let exec = settings.as_deref().and_then(exec_of).unwrap_or(&default);
        let group = unit.and_then(|unit| self.cgroup.groups.path_and_id(unit));
        let (packet, is_long) = packet(name, true, group, exec);
        if let Some(unit) = unit.filter(|_| is_long) {
            self.say_long(unit);
        }
        packet
    }

    fn watch_log_room(&mut self) {
        let link = &self.peers.log_link;
        let waits = !link.outgoing.is_empty() || !link.untold.is_empty() || say::is_behind();
        let wanted = link.heard && waits;
        if wanted != self.peers.log_link.watches_room {
            let interest = if wanted { Interest::READ | Interest::WRITE } else { Interest::READ };
            let changed =
                self.event_loop.epoll.modify(self.peers.log_link.fd(), token::LOG, interest);
            self.peers.log_link.watches_room = wanted && changed.is_ok();
        }
    }

    /// Takes what the daemon said, and goes on with what waits for it.
    pub(crate) fn read_log_link(&mut self) {
        self.peers.log_link.full = false;
        if !self.peers.log_link.heard && self.is_greeted() {
            self.note_log_daemon();
        }
        let (mut buffer, mut fds) = ([0; PACKET_BYTES_MAX], Vec::new());
        for _ in 0..PACKETS_PER_TURN_MAX {
            let own = self.peers.log_link.own.as_fd();
            let Ok(received) = fdpass::recv(own, &mut buffer, &mut fds, false) else { break };
            fds.clear();
            let said = buffer.get(..received.bytes).unwrap_or_default();
            match DaemonWord::read(said) {
                None if said.is_empty() => break,
                None => {}
                Some(DaemonWord::Hello) => self.greet_log_daemon(),
                Some(DaemonWord::Ended(key)) => self.stream_ended(key),
            }
        }
        self.send_outgoing();
    }

    pub(crate) fn stream_ended(&mut self, key: u64) {
        self.peers.log_link.left_out.remove(&key);
        let Some(name) = self.peers.log_link.streams.remove(&key) else { return };
        let link = &mut self.peers.log_link;
        if self.stages.shutdown.under_way.as_ref().is_some_and(|e| e.takes_init())
            && link.left_to_init < LEFT_MAX
        {
            link.left_to_init += 1;
            return;
        }
        let _ = self.process.init.drop_stored(&name.stored());
    }

    /// Whether a daemon has begun, and nothing was read of it yet.
    pub(crate) fn is_greeted(&self) -> bool {
        let mut said = [0; PACKET_BYTES_MAX];
        let next = fdpass::peek_plain(self.peers.log_link.fd(), &mut said);
        let word = next.ok().and_then(|next| DaemonWord::read(said.get(..next.bytes)?));
        word == Some(DaemonWord::Hello)
    }

    /// A daemon is there. Init hears of it before its word is read, which is said once.
    fn note_log_daemon(&mut self) {
        self.peers.log_link.heard = true;
        self.peers.log_link.said_files = false;
        self.peers.log_link.awaited.end();
        say::set_heard(true);
        if let Err(e) = self.process.init.store(HEARD, self.peers.log_link.daemon.as_fd()) {
            say!("cannot save with init that the log daemon is running: {e}");
        }
    }

    /// A daemon has begun: init is asked for all streams, as this process has none of them but what waits to be
    /// sent, and what is let go by who copies it.
    fn greet_log_daemon(&mut self) {
        if !self.peers.log_link.heard {
            self.note_log_daemon();
        }
        self.peers.log_link.leave_out_all();
        self.peers.log_link.untold = self.units_to_tell();
    }

    /// A part of what init keeps, as it was asked for.
    pub(crate) fn take_listed(&mut self, listed: Vec<(String, OwnedFd)>, last: bool) {
        // Init keeps the others: they may be of units', whatever they are.
        let mut others = Vec::new();
        for (name, fd) in listed {
            let Some(name) = StreamName::parse(&name) else {
                others.push(fd);
                continue;
            };
            if !self.peers.log_link.heard {
                self.peers.log_link.copy(name, fd);
            } else if self.peers.log_link.left_out.remove(&name.key) {
                self.peers.log_link.queue(Outgoing { key: name.key, reader: fd, settings: None });
            }
        }
        stored_fds::let_go(others);
        if last {
            self.peers.log_link.asked = false;
            let again = std::mem::take(&mut self.peers.log_link.ask_again);
            if !again
                && self.peers.log_link.outgoing.is_empty()
                && !self.peers.log_link.awaited.is_full()
            {
                // Init does not have the others.
                self.peers.log_link.left_out.clear();
            }
            if again && !self.peers.log_link.heard {
                self.ask_for_streams();
            }
        }
        self.send_outgoing();
    }

    /// The unit forgot what it was: nothing more is to be said of it.
    pub(crate) fn forget_log_settings(&mut self, unit: UnitId) {
        self.peers.log_link.untold.remove(&unit);
        self.peers.log_link.said_long.remove(&unit);
        let Some(path) = self.peers.log_link.unit_files.remove(&unit) else { return };
        self.peers.log_link.old_unit_files.push_back((unit, path));
        if self.peers.log_link.old_unit_files.len() > OLD_UNIT_FILES_MAX
            && let Some((unit, path)) = self.peers.log_link.old_unit_files.pop_front()
            && self.peers.log_link.unit_files.get(&unit) != Some(&path)
        {
            // It goes with the sockets' directory otherwise.
            let _ = std::fs::remove_file(path);
        }
    }
}
