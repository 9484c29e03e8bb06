//! Sets of nf_tables that are told of a unit (systemd.resource-control(5), "NFTSet=").

words! {
    /// What of a unit is told.
    NftSource {
        /// The kernel's id of its cgroup.
        Cgroup = "cgroup",
        /// The number of its user.
        User = "user",
        /// The number of its group.
        Group = "group",
    }
}

words! {
    /// The family of a table.
    NftFamily {
        /// ARP.
        Arp = "arp",
        /// Packets of bridges.
        Bridge = "bridge",
        /// IPv4 and IPv6.
        Inet = "inet",
        /// IPv4.
        Ip = "ip",
        /// IPv6.
        Ip6 = "ip6",
        /// Packets of one device.
        Netdev = "netdev",
    }
}

impl NftFamily {
    /// NFPROTO_* of linux/netfilter.h.
    pub fn number(self) -> u8 {
        match self {
            NftFamily::Inet => 1,
            NftFamily::Ip => 2,
            NftFamily::Arp => 3,
            NftFamily::Netdev => 5,
            NftFamily::Bridge => 7,
            NftFamily::Ip6 => 10,
        }
    }
}

/// One of `NFTSet=`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NftSet {
    /// What it is told.
    pub source: NftSource,
    /// Of its table.
    pub family: NftFamily,
    /// The name of its table.
    pub table: Box<str>,
    /// Its own name.
    pub name: Box<str>,
}

/// Most sets of a unit.
pub const NFT_SETS_MAX: usize = 256;

/// NFT_NAME_MAXLEN without its end.
const NAME_BYTES_MAX: usize = 255;

impl NftSet {
    /// `source:family:table:set`; none if it is something else.
    pub fn parse(text: &str) -> Option<NftSet> {
        let mut parts = text.split(':');
        let source = NftSource::from_word(parts.next()?)?;
        let family = NftFamily::from_word(parts.next()?)?;
        let mut name = || parts.next().filter(|name| is_name(name)).map(Box::from);
        let (table, name) = (name()?, name()?);
        parts.next().is_none().then_some(NftSet { source, family, table, name })
    }
}

/// nft(8), "LEXICAL CONVENTIONS".
fn is_name(word: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || br"/\_.".contains(&byte);
    word.len() <= NAME_BYTES_MAX
        && word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.bytes().all(is_inner)
}
