//! Who may be connected at the same time, so that those who are trusted less leave room for those who are trusted more.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::sockopt;
use warren_sys::passwd::is_of_people;
use warren_sys::{socket, socket_owner};

/// Who connections are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// A user of this host, over a Unix socket or over TCP.
    User(u32),
    /// Somebody on this host; the kernel does not say who.
    Somebody,
    /// Another host; with IPv6 all of the network that a host may choose its addresses from.
    Host(IpAddr),
}

/// Who leaves room for whom: each for those behind it, and the first two for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A person of this host may have as many users as he likes (subuid(5)).
    Person,
    /// A stranger may have more than one address.
    Host,
    /// The user of a service.
    Service,
    Root,
}

use Rank::{Host, Person, Root, Service};

/// Bits of an IPv6 address that say which network.
const NETWORK_BITS: u32 = 64;

impl Peer {
    pub fn of(connection: &OwnedFd) -> Peer {
        let user = |user: Option<u32>| user.map_or(Peer::Somebody, Peer::User);
        match socket::addresses(connection.as_fd()) {
            Ok(Some((own, peer))) if is_here(own, peer) => {
                user(socket_owner::of_peer(own, peer).ok().flatten())
            }
            Ok(Some((_, peer))) => Peer::Host(network(peer.ip())),
            _ => user(sockopt::socket_peercred(connection).ok().map(|who| who.uid.as_raw())),
        }
    }

    fn rank(self) -> Rank {
        match self {
            Peer::User(0) => Root,
            Peer::User(user) if !is_of_people(user) => Service,
            Peer::User(_) | Peer::Somebody => Person,
            Peer::Host(_) => Host,
        }
    }
}

/// Whether a peer is on this host.
fn is_here(own: SocketAddr, peer: SocketAddr) -> bool {
    let (own, peer) = (own.ip().to_canonical(), peer.ip().to_canonical());
    peer.is_loopback() || peer == own
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - NETWORK_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
        address => address,
    }
}

/// The connections that there are.
#[derive(Debug)]
pub(crate) struct Places {
    open: BTreeMap<Peer, usize>,
    /// Most of all, and of one peer; root is bounded by the first alone.
    most: usize,
    most_of_peer: usize,
}

impl Places {
    pub fn new(most: usize, most_of_peer: usize) -> Places {
        Places { open: BTreeMap::new(), most, most_of_peer }
    }

    fn count(&self, ranks: &[Rank]) -> usize {
        let of_ranks = self.open.iter().filter(|(peer, _)| ranks.contains(&peer.rank()));
        of_ranks.map(|(_, count)| count).sum()
    }

    /// Whether one more of this rank leaves room for all whom it is to leave room for.
    fn is_free(&self, rank: Rank) -> bool {
        let shares: [(&[Rank], usize); 5] = [
            (&[Person], self.most / 2),
            (&[Host], self.most / 2),
            (&[Person, Host], self.most / 4 * 3),
            (&[Person, Host, Service], self.most / 8 * 7),
            (&[Person, Host, Service, Root], self.most),
        ];
        let mut its = shares.iter().filter(|(ranks, _)| ranks.contains(&rank));
        its.all(|(ranks, share)| self.count(ranks) < *share)
    }

    /// Counts one more; false if that is too many.
    #[must_use = "when false, it is not counted"]
    pub fn take(&mut self, peer: Peer) -> bool {
        let of_peer = self.open.get(&peer).copied().unwrap_or(0);
        let has_many = peer.rank() != Root && of_peer >= self.most_of_peer;
        let is_free = !has_many && self.is_free(peer.rank());
        if is_free {
            *self.open.entry(peer).or_default() += 1;
        }
        is_free
    }

    /// One less.
    pub fn leave(&mut self, peer: Peer) {
        if let Some(count) = self.open.get_mut(&peer) {
            *count -= 1;
            self.open.retain(|_, count| *count > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn fill(places: &mut Places, peers: impl Iterator<Item = Peer>) -> usize {
        peers.filter(|peer| places.take(*peer)).count()
    }

    fn hosts() -> impl Iterator<Item = Peer> {
        (0..1000u32).map(|n| Peer::Host(IpAddr::V4(n.into())))
    }

    fn people() -> impl Iterator<Item = Peer> {
        (1000..2000).map(Peer::User)
    }

    #[test]
    fn people_and_other_hosts_leave_room_for_one_another() {
        let mut places = Places::new(64, 16);
        assert_eq!((fill(&mut places, hosts()), fill(&mut places, people())), (32, 16));
        let mut places = Places::new(64, 16);
        assert_eq!((fill(&mut places, people()), fill(&mut places, hosts())), (32, 16));
        assert_eq!(fill(&mut places, (1..1000).map(Peer::User)), 8);
        assert_eq!(fill(&mut places, std::iter::repeat_n(Peer::User(0), 1000)), 8);
    }

    #[test]
    fn services_leave_room_for_root_and_root_for_nobody() {
        let root = || std::iter::repeat_n(Peer::User(0), 1000);
        let mut places = Places::new(64, 16);
        assert_eq!(fill(&mut places, (1..1000).map(Peer::User)), 56);
        assert_eq!((fill(&mut places, people()), fill(&mut places, root())), (0, 8));
        let mut places = Places::new(64, 16);
        assert_eq!((fill(&mut places, root()), fill(&mut places, people())), (64, 0));
    }

    #[test]
    fn one_has_a_few_and_root_what_there_is() {
        for (peer, expected) in [
            (Peer::User(1000), 16),
            (Peer::User(7), 16),
            (Peer::Somebody, 16),
            (Peer::Host(IpAddr::from([192, 0, 2, 1])), 16),
            (Peer::User(0), 64),
        ] {
            let mut places = Places::new(64, 16);
            let taken = fill(&mut places, std::iter::repeat_n(peer, 1000));
            assert_eq!(taken, expected, "{peer:?}");
            (0..taken).for_each(|_| places.leave(peer));
            assert!(places.open.is_empty(), "{peer:?}");
        }
    }

    #[test]
    fn addresses_that_one_host_may_choose_are_one() {
        for (address, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(network(address).to_string(), expected);
        }
    }

    #[test]
    fn who_is_on_this_host_is_known_by_the_user() {
        let own = Peer::User(rustix::process::geteuid().as_raw());
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert_eq!(Peer::of(&one.into()), own);
        for address in ["127.0.0.1", "127.9.8.7"] {
            let listener = TcpListener::bind((address, 0)).expect("loopback");
            let at = listener.local_addr().expect("bound");
            let _client = TcpStream::connect(at).expect("it listens");
            assert_eq!(Peer::of(&listener.accept().expect("it connects").0.into()), own);
        }
    }
}
