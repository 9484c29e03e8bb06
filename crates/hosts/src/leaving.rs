//! Why copies are still on a host that an operator has taken out of service, copy by copy.
//!
//! Decides nothing: [`crate::placement`] says which host takes what, and the same functions are asked here. A label never
//! holds a copy back: `spread` chooses among hosts with room, it rules none out.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::HostId;
use crate::placement::{Claim, Place, Replicated, heirs, holders, is_drained, takers};

/// A copy that a drained host still has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// The container.
    pub app: String,
    /// Which copy.
    pub slot: u32,
    /// Why it is still there.
    pub hold: Hold,
}

/// Why a copy is still on a drained host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hold {
    /// No other host that is there and in service takes any copies.
    NoHost,
    /// All that do are full.
    NoRoom {
        /// How many hosts.
        hosts: usize,
        /// How many copies they take together.
        capacity: u64,
    },
    /// This host has room, and has not claimed it yet.
    Unclaimed(HostId),
    /// This host has claimed it, and waits for the drained one to stop it.
    Claimed(HostId),
    /// Another copy of the container moves first.
    Behind {
        /// Which.
        slot: u32,
        /// The host that takes that one.
        to: HostId,
    },
    /// The rules have no such copy any more, and the host has not given it up yet.
    Unwanted,
}

impl Hold {
    /// The word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Hold::NoHost => "no-host",
            Hold::NoRoom { .. } => "no-room",
            Hold::Unclaimed(_) => "unclaimed",
            Hold::Claimed(_) => "claimed",
            Hold::Behind { .. } => "behind",
            Hold::Unwanted => "unwanted",
        }
    }

    /// Whether it stays so until an operator does something.
    pub fn is_for_good(&self) -> bool {
        matches!(self, Hold::NoHost | Hold::NoRoom { .. })
    }

    /// The host that takes the copy, or the one before it.
    pub fn to(&self) -> Option<&HostId> {
        match self {
            Hold::Unclaimed(to) | Hold::Claimed(to) | Hold::Behind { to, .. } => Some(to),
            Hold::NoHost | Hold::NoRoom { .. } | Hold::Unwanted => None,
        }
    }
}

impl Left {
    /// For people; `from` is the drained host.
    pub fn words(&self, from: &HostId) -> String {
        let Left { app, slot, hold } = self;
        let why = match hold {
            Hold::NoHost => {
                "no other host is in service that takes copies: set Capacity= of one, or undrain one"
                    .to_owned()
            }
            Hold::NoRoom { hosts, capacity } => {
                let who = match hosts {
                    1 => "the 1 host in service takes".to_owned(),
                    n => format!("the {n} hosts in service take"),
                };
                format!(
                    "no room: {who} {capacity} in all, and no more: raise Capacity= of one, or undrain one"
                )
            }
            Hold::Unclaimed(to) => format!("{to} has room for it and has not claimed it yet"),
            Hold::Claimed(to) => format!("{to} has claimed it, and {from} has not stopped it yet"),
            Hold::Behind { slot, to } => format!("it waits for copy {slot}, which {to} brings up"),
            Hold::Unwanted => format!("no rules have it any more, and {from} has not given it up yet"),
        };
        format!("copy {slot} of {app}: {why}")
    }
}

/// The copies that a drained host still has, and why.
pub fn left(
    host: &HostId,
    apps: &[Replicated],
    places: &BTreeMap<HostId, Place>,
    claims: &[Claim],
) -> Vec<Left> {
    let (holders, heirs) = (holders(claims), heirs(claims, places));
    let takers = takers(apps, places, claims);
    let mut first = first_on_their_way(claims);
    let mine: BTreeSet<(&str, u32)> =
        holders.iter().filter(|(_, holder)| **holder == host).map(|(copy, _)| *copy).collect();
    let mut why = |(app, slot): (&str, u32)| {
        let wanted = apps.iter().find(|other| other.name == app).map_or(0, |app| app.replicas);
        if slot >= wanted {
            return Hold::Unwanted;
        }
        let heir = heirs.get(&(app, slot)).filter(|heir| !is_drained(heir, places));
        match (heir, takers.get(&(app.to_owned(), slot))) {
            (Some(heir), _) => {
                let (slot_before, to) =
                    first.entry(app.to_owned()).or_insert((slot, (*heir).clone()));
                match *slot_before == slot {
                    true => Hold::Claimed((*heir).clone()),
                    false => Hold::Behind { slot: *slot_before, to: to.clone() },
                }
            }
            (None, Some(taker)) => Hold::Unclaimed(taker.clone()),
            (None, None) => no_room(host, places),
        }
    };
    let left =
        |(app, slot): (&str, u32)| Left { app: app.to_owned(), slot, hold: why((app, slot)) };
    mine.into_iter().map(left).collect()
}

/// Of each container the copy that a host has taken over and not brought up yet, with that host: the next one waits.
fn first_on_their_way(claims: &[Claim]) -> BTreeMap<String, (u32, HostId)> {
    let holders = holders(claims);
    let is_on_its_way = |claim: &&Claim| {
        claim.takes_over && holders.get(&(&*claim.app, claim.slot)) == Some(&&claim.host)
    };
    let on_their_way = claims.iter().filter(is_on_its_way);
    on_their_way.map(|claim| (claim.app.clone(), (claim.slot, claim.host.clone()))).collect()
}

fn no_room(host: &HostId, places: &BTreeMap<HostId, Place>) -> Hold {
    let takes =
        |(id, place): &(&HostId, &Place)| *id != host && !place.is_drained && place.capacity > 0;
    let capacities = places.iter().filter(takes).map(|(_, place)| u64::from(place.capacity));
    match capacities.clone().count() {
        0 => Hold::NoHost,
        hosts => Hold::NoRoom { hosts, capacity: capacities.sum() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> HostId {
        name.parse().expect("a name")
    }

    /// Hosts `NAME=CAPACITY`, of which `from` is drained; claims `HOST APP SLOT`, the oldest first, `~` before those that
    /// take over; containers `APP=REPLICAS`.
    fn check(hosts: &str, apps: &str, claims: &[&str], expected: &[&str]) {
        let pairs = |text: &str| -> Vec<(String, u32)> {
            let pair = |word: &str| {
                let (name, number) = word.split_once('=').expect("NAME=NUMBER");
                (name.to_owned(), number.parse().expect("a number"))
            };
            text.split_whitespace().map(pair).collect()
        };
        let place = |(name, capacity): (String, u32)| {
            let is_drained = name == "from";
            (id(&name), Place { capacity, labels: BTreeMap::new(), is_drained })
        };
        let places = pairs(hosts).into_iter().map(place).collect();
        let app = |(name, replicas)| Replicated { name, replicas, spread: Some("rack".into()) };
        let apps: Vec<Replicated> = pairs(apps).into_iter().map(app).collect();
        let claim = |(at, text): (usize, &&str)| {
            let words: Vec<&str> = text.trim_start_matches('~').split(' ').collect();
            Claim {
                app: words[1].to_owned(),
                slot: words[2].parse().expect("a number"),
                created: at as u64,
                host: id(words[0]),
                takes_over: text.starts_with('~'),
            }
        };
        let claims: Vec<Claim> = claims.iter().enumerate().map(claim).collect();
        let left = left(&id("from"), &apps, &places, &claims);
        let words: Vec<String> = left.iter().map(|left| left.words(&id("from"))).collect();
        assert_eq!(words, expected);
    }

    #[test]
    fn each_copy_that_is_left_says_why() {
        check("from=4 h1=4", "shop=2", &["h1 shop 0", "h1 shop 1"], &[]);
        check(
            "from=4 h1=0",
            "shop=1",
            &["from shop 0"],
            &[
                "copy 0 of shop: no other host is in service that takes copies: set Capacity= of one, or undrain one",
            ],
        );
        let full = "no room: the 2 hosts in service take 2 in all, and no more: raise Capacity= of one, or undrain one";
        check(
            "from=4 h1=1 h2=1",
            "blog=1 shop=3",
            &["from shop 0", "from shop 1", "h1 shop 2", "from blog 0"],
            &[
                "copy 0 of blog: h2 has room for it and has not claimed it yet",
                &format!("copy 0 of shop: {full}"),
                &format!("copy 1 of shop: {full}"),
            ],
        );
        check(
            "from=4 h1=4",
            "shop=3",
            &["from shop 0", "from shop 1", "from shop 2", "~h1 shop 0", "~h1 shop 1"],
            &[
                "copy 0 of shop: h1 has claimed it, and from has not stopped it yet",
                "copy 1 of shop: it waits for copy 0, which h1 brings up",
                "copy 2 of shop: h1 has room for it and has not claimed it yet",
            ],
        );
        // One was handed over, and is not up yet.
        check(
            "from=4 h1=4",
            "shop=2",
            &["from shop 1", "~h1 shop 0", "~h1 shop 1"],
            &["copy 1 of shop: it waits for copy 0, which h1 brings up"],
        );
        check(
            "from=4 h1=4",
            "shop=1",
            &["from shop 0", "from shop 1", "from gone 0"],
            &[
                "copy 0 of gone: no rules have it any more, and from has not given it up yet",
                "copy 0 of shop: h1 has room for it and has not claimed it yet",
                "copy 1 of shop: no rules have it any more, and from has not given it up yet",
            ],
        );
    }
}
