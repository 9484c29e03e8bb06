//! `Accept=yes`: each connection gets an instance of the service's template (systemd.socket(5)).
//!
//! Init takes the connections: one that this process took would be lost if it were killed before
//! init had it too. While init is asked, the socket is not watched; when nobody waits any more, it
//! is again. Start at `Daemon::open_door`.

use crate::base::patience::Patient;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use warren_core::model::ids::UnitId;
use warren_core::model::process::CommandList;
use warren_core::model::time::Monotonic;
use warren_core::settings::{Compiled, TypeSettings};
pub(crate) use warren_sys::errno::EAGAIN;
use warren_sys::{credentials, socket};
use warren_unit::UnitName;

/// After accept(2) has failed, for want of descriptors or memory.
pub(crate) const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// There is one line about refused connections of a socket in so long at most.
const REFUSALS_TOLD_APART: Duration = Duration::from_secs(10);

/// The connection that an instance serves, until it was handed over, or until it is down if commands behind
/// `ExecStart=` get it too. Init keeps it too.
pub struct Connection {
    /// It.
    pub fd: OwnedFd,
    /// `REMOTE_ADDR` and `REMOTE_PORT`.
    pub environment: Vec<(&'static str, String)>,
    /// What init keeps it under.
    pub(crate) stored: String,
    /// Later commands get it, too.
    pub is_kept: bool,
}

/// Whether commands of an instance get its connection when a main process has it.
pub fn is_for_later(settings: &Compiled) -> bool {
    use CommandList::{Reload, Start, StartPost, Stop, StopPost};
    let TypeSettings::Service(config) = &settings.own else { return false };
    let has = |list: &CommandList| !settings.commands(*list).is_empty();
    config.exec.takes_socket() && [StartPost, Reload, Stop, StopPost].iter().any(has)
        || settings.commands(Start).len() > 1
}

/// A connection whose instance is being loaded.
pub struct WaitingConnection {
    pub(crate) socket: UnitId,
    pub(crate) number: u64,
    pub(crate) instance: UnitName,
    pub(crate) connection: Connection,
}

/// Where the connections of one socket unit come in.
#[derive(Default)]
pub(crate) struct Door {
    /// Connections are wanted.
    pub(crate) open: bool,
    /// The number of the next connection.
    pub(crate) next: u64,
    /// The question to init that is not answered yet, and which of the unit's sockets it is about.
    pub(crate) asked: Option<(u64, usize)>,
    /// Where connections come from whose instances are being loaded, by their numbers.
    pub(crate) loading: BTreeMap<u64, Option<Source>>,
    /// Those that were too many.
    pub(crate) refusals: Refusals,
}

/// Connections that were refused. Anybody may have as many refused as he likes, so not each has a line in the log.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    told: Option<Monotonic>,
    untold: u64,
}

impl Refusals {
    /// One more: how many are to be told of with it, if there was no line for a while.
    pub(crate) fn note(&mut self, now: Monotonic) -> Option<u64> {
        self.untold += 1;
        if self.told.is_some_and(|told| now.since(told) < REFUSALS_TOLD_APART) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

/// The doors of all socket units with `Accept=yes`.
#[derive(Default)]
pub struct Doors {
    pub(crate) doors: BTreeMap<UnitId, Door>,
    asked: u64,
    /// When to try those again where accept(2) has failed.
    pub(crate) again_at: Option<Monotonic>,
}

impl Doors {
    pub(crate) fn door(&mut self, unit: UnitId) -> &mut Door {
        self.doors.entry(unit).or_default()
    }

    pub(crate) fn is_open(&self, unit: UnitId) -> bool {
        self.doors.get(&unit).is_some_and(|door| door.open)
    }

    /// Another number for each question, from which the unit can be told.
    pub(crate) fn new_token(&mut self, unit: UnitId) -> u64 {
        self.asked += 1;
        self.asked << 32 | u64::from(unit.0)
    }
}

/// The sockets with `Accept=yes`, and the connections that came in there.
#[derive(Default)]
pub(crate) struct Accepting {
    pub(crate) doors: Doors,
    /// The connections of instances.
    pub(crate) connections: BTreeMap<UnitId, Connection>,
    /// Instances whose process has its connection.
    pub(crate) handed_over: Vec<UnitId>,
}

impl Patient for Doors {
    // When `Daemon::try_doors_again` is due.
    fn deadline(&self) -> Option<Monotonic> {
        self.again_at
    }
}

/// The name under which init keeps a connection.
pub(crate) fn stored_name(socket: &str, number: u64) -> String {
    format!("connection/{socket}/{number}")
}

/// The socket unit and the connection's number of such a name.
pub fn parse_stored_name(name: &str) -> Option<(UnitName, u64)> {
    let (socket, number) = name.strip_prefix("connection/")?.split_once('/')?;
    Some((UnitName::parse(socket).ok()?, number.parse().ok()?))
}

/// What the instance of a connection is called, and the environment variables `REMOTE_ADDR` and
/// `REMOTE_PORT` (systemd.socket(5), `Accept=`).
pub(crate) fn describe(number: u64, fd: &OwnedFd) -> (String, Vec<(&'static str, String)>) {
    let Some((own, peer)) = socket::addresses(fd.as_fd()).ok().flatten() else {
        let peer = credentials::peer(fd.as_fd()).map_or((0, 0), |p| (p.pid, p.uid));
        return (format!("{number}-{}-{}", peer.0, peer.1), Vec::new());
    };
    // Who comes by IPv4 to a socket for both has its own address.
    let (own_ip, peer_ip) = (own.ip().to_canonical(), peer.ip().to_canonical());
    let instance = format!("{number}-{own_ip}:{}-{peer_ip}:{}", own.port(), peer.port());
    let environment =
        vec![("REMOTE_ADDR", peer_ip.to_string()), ("REMOTE_PORT", peer.port().to_string())];
    (instance, environment)
}

/// Whom connections are counted by (`MaxConnectionsPerSource=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Over IP.
    Address(IpAddr),
    /// Over a Unix socket.
    User(u32),
}

impl Source {
    /// Whom this connection is of.
    pub(crate) fn of(fd: &OwnedFd) -> Option<Source> {
        match socket::addresses(fd.as_fd()) {
            Ok(Some((_, peer))) => Some(Source::Address(peer.ip().to_canonical())),
            _ => credentials::peer(fd.as_fd()).ok().map(|peer| Source::User(peer.uid)),
        }
    }

    /// Whom an instance's connection is of, as [`describe`] made it part of its name.
    pub(crate) fn of_instance(instance: &UnitName) -> Option<Source> {
        let mut parts = instance.instance()?.rsplit('-');
        let (peer, own, _number) = (parts.next()?, parts.next()?, parts.next()?);
        match peer.rsplit_once(':') {
            Some((address, _port)) => address.parse().ok().map(Source::Address),
            // Behind the number of its process.
            None => own.parse::<u32>().ok().and_then(|_| peer.parse().ok()).map(Source::User),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Address(address) => write!(f, "{address}"),
            Source::User(uid) => write!(f, "user {uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refused_connections_has_few_lines_that_count_them() {
        let mut refusals = Refusals::default();
        let at = |seconds: u64| Monotonic(seconds * 1_000_000);
        assert_eq!(refusals.note(at(1)), Some(1));
        assert!((0..1000).all(|_| refusals.note(at(5)).is_none()));
        assert_eq!(refusals.note(at(11)), Some(1001));
        assert_eq!(refusals.note(at(20)), None);
        assert_eq!(refusals.note(at(21)), Some(2));
    }

    #[test]
    fn who_comes_by_ipv4_has_that_address() {
        let server = std::net::TcpListener::bind("[::]:0").expect("a port");
        let port = server.local_addr().expect("it is bound").port();
        for (from, to) in [("127.0.0.1", "127.0.0.1"), ("::1", "::1")] {
            let client = std::net::TcpStream::connect((from, port)).expect("it listens");
            let own = client.local_addr().expect("it is connected").port();
            let (fd, _) = server.accept().expect("a connection");
            let (instance, environment) = describe(7, &fd.into());
            assert_eq!(instance, format!("7-{to}:{port}-{from}:{own}"));
            assert_eq!(environment[0], ("REMOTE_ADDR", from.to_owned()));
        }
    }

    #[test]
    fn an_instance_tells_where_its_connection_comes_from() {
        let check = |name: &str, source: Option<&str>| {
            let template = UnitName::parse("web@.service").expect("a name");
            let instance = template.with_instance(name).expect("an instance");
            let found = Source::of_instance(&instance).map(|source| source.to_string());
            assert_eq!(found.as_deref(), source);
        };
        check("7-127.0.0.1:80-10.1.2.3:4711", Some("10.1.2.3"));
        check("0-::1:80-fe80::1:4711", Some("fe80::1"));
        check("3-4711-1000", Some("user 1000"));
        for unknown in ["3", "3-4711", "3-x-1000", "3-4711-x", "3-::1:80-x:1"] {
            check(unknown, None);
        }
    }

    #[test]
    fn a_stored_name_tells_socket_and_number() {
        let socket = UnitName::parse("a-b.socket").expect("a name");
        let name = stored_name(socket.as_str(), 7);
        assert_eq!(parse_stored_name(&name), Some((socket, 7)));
        for other in ["socket/a.socket/0", "connection/a.socket", "connection/a.socket/x", "state"]
        {
            assert_eq!(parse_stored_name(other), None, "{other}");
        }
    }
}
