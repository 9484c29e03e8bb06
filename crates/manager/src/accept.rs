//! `Accept=yes`: each connection gets an instance of the service's template (systemd.socket(5)).

use std::os::fd::{AsFd, OwnedFd};

use warren_core::event::Event;
use warren_core::ids::UnitId;
use warren_core::state::TypeState;
use warren_sys::{credentials, socket};
use warren_unit::UnitName;
use warren_unit::config::SocketConfig;

use crate::daemon::Daemon;
use crate::orders::LoaderOrder;
use crate::requests::AfterLoad;
use crate::say;

/// The connection that an instance serves, until it was handed over. Init keeps it too.
pub struct Connection {
    /// It.
    pub fd: OwnedFd,
    /// `REMOTE_ADDR` and `REMOTE_PORT`.
    pub environment: Vec<(&'static str, String)>,
    /// What init keeps it under.
    stored: String,
}

/// The name under which init keeps a connection.
fn stored_name(socket: &str, instance: &str) -> String {
    format!("connection/{socket}/{instance}")
}

/// The socket unit and the instance of such a name.
pub fn parse_stored_name(name: &str) -> Option<(UnitName, UnitName)> {
    let (socket, instance) = name.strip_prefix("connection/")?.split_once('/')?;
    Some((UnitName::parse(socket).ok()?, UnitName::parse(instance).ok()?))
}

/// `REMOTE_ADDR` and `REMOTE_PORT` (systemd.socket(5), `Accept=`).
fn environment(peer: std::net::SocketAddr) -> Vec<(&'static str, String)> {
    vec![("REMOTE_ADDR", peer.ip().to_string()), ("REMOTE_PORT", peer.port().to_string())]
}

/// A connection whose instance is being loaded.
pub struct Waiting {
    socket: UnitId,
    instance: UnitName,
    connection: Connection,
}

impl Daemon {
    /// Names the instance for a connection and has it loaded.
    pub(crate) fn take_connection(&mut self, unit: UnitId, config: &SocketConfig, fd: OwnedFd) {
        let (number, current) = match &self.core.unit_run(unit).state {
            TypeState::Socket(warren_core::state::Socket::Up(run)) => {
                (run.accepted + self.accepting, run.connections.len())
            }
            _ => return,
        };
        if current >= config.max_connections as usize {
            return say!("{}: too many connections, one is refused", self.core.graph().name(unit));
        }
        self.accepting += 1;
        let addresses = socket::addresses(fd.as_fd()).ok().flatten();
        let (instance, environment) = match addresses {
            Some((own, peer)) => {
                let name =
                    format!("{number}-{}:{}-{}:{}", own.ip(), own.port(), peer.ip(), peer.port());
                (name, environment(peer))
            }
            None => {
                let peer = credentials::peer(fd.as_fd()).map_or((0, 0), |p| (p.pid, p.uid));
                (format!("{number}-{}-{}", peer.0, peer.1), Vec::new())
            }
        };
        let Some(instance) = self.instance_of(unit, config, &instance) else {
            return say!(
                "{}: it has no template to serve connections",
                self.core.graph().name(unit)
            );
        };
        let stored = stored_name(self.core.graph().name(unit).as_str(), instance.as_str());
        if let Err(e) = self.init.store(&stored, fd.as_fd()) {
            say!("{instance}: init cannot keep its connection: {e}");
        }
        self.load_instance(unit, instance, Connection { fd, environment, stored });
    }

    fn load_instance(&mut self, socket: UnitId, instance: UnitName, connection: Connection) {
        let name = instance.clone();
        let waiting = Waiting { socket, instance, connection };
        let after = AfterLoad::Connection(Box::new(waiting));
        self.load(|token| LoaderOrder::LoadOne { name, token }, after);
    }

    /// `Service=`, else the template of the socket's own name.
    fn instance_of(&self, unit: UnitId, config: &SocketConfig, instance: &str) -> Option<UnitName> {
        let own = || {
            let name = self.core.graph().name(unit);
            UnitName::parse(&format!("{}@.service", name.prefix())).ok()
        };
        let template = config.service.clone().or_else(own)?;
        let template = if template.is_template() { template } else { template.template()? };
        template.with_instance(&warren_unit::escape::escape(instance)).ok()
    }

    /// After a restart: a connection that was not handed over. Its instance may be under way.
    pub(crate) fn take_up_connection(&mut self, name: &str, fd: OwnedFd) {
        let Some((socket, instance)) = parse_stored_name(name) else { return };
        let graph = self.core.graph();
        let units = (graph.lookup(&socket), graph.lookup(&instance));
        let addresses = socket::addresses(fd.as_fd()).ok().flatten();
        let environment = addresses.map_or(Vec::new(), |(_, peer)| environment(peer));
        let connection = Connection { fd, environment, stored: name.to_owned() };
        match units {
            (_, Some(unit)) if self.is_under_way(unit) => {
                self.connections.insert(unit, connection);
            }
            (_, Some(unit)) if self.core.unit_run(unit).history.is_some() => {
                let _ = self.init.drop_stored(name);
            }
            (Some(socket), _) if !self.core.unit_run(socket).active_state().is_down() => {
                self.accepting += 1;
                self.load_instance(socket, instance, connection);
            }
            _ => drop(self.init.drop_stored(name)),
        }
    }

    fn is_under_way(&self, instance: UnitId) -> bool {
        let run = self.core.unit_run(instance);
        run.job.is_some() || !run.active_state().is_down()
    }

    /// It was handed over, or will never be.
    pub(crate) fn drop_connection(&mut self, unit: UnitId) {
        if let Some(connection) = self.connections.remove(&unit) {
            let _ = self.init.drop_stored(&connection.stored);
        }
    }

    pub(crate) fn connection_loaded(&mut self, waiting: Waiting) {
        self.accepting = self.accepting.saturating_sub(1);
        let Waiting { socket, instance, connection } = waiting;
        let Some(instance) = self.core.graph().lookup(&instance) else { return };
        self.connections.insert(instance, connection);
        self.events.push_back(Event::Connection { socket, instance });
    }
}
