//! `Accept=yes`: each connection gets an instance of the service's template (systemd.socket(5)).

use std::os::fd::{AsFd, OwnedFd};

use warren_core::event::Event;
use warren_core::ids::UnitId;
use warren_core::state::TypeState;
use warren_sys::{credentials, socket};
use warren_unit::UnitName;
use warren_unit::config::SocketConfig;

use crate::daemon::Daemon;
use crate::effects::Connection;
use crate::orders::LoaderOrder;
use crate::requests::AfterLoad;
use crate::say;

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
                let environment = vec![
                    ("REMOTE_ADDR", peer.ip().to_string()),
                    ("REMOTE_PORT", peer.port().to_string()),
                ];
                let name =
                    format!("{number}-{}:{}-{}:{}", own.ip(), own.port(), peer.ip(), peer.port());
                (name, environment)
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
        let connection = Connection { fd, environment };
        let name = instance.clone();
        let waiting = Waiting { socket: unit, instance, connection };
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

    pub(crate) fn connection_loaded(&mut self, waiting: Waiting) {
        self.accepting = self.accepting.saturating_sub(1);
        let Waiting { socket, instance, connection } = waiting;
        let Some(instance) = self.core.graph().lookup(&instance) else { return };
        self.connections.insert(instance, connection);
        self.events.push_back(Event::Connection { socket, instance });
    }
}
