//! Which host runs which copies of a replicated container.
//!
//! A copy is held by the host whose claim of it is the oldest; a claim lives under its host's lease. So while leases
//! hold, no copy runs twice, whatever hosts think of each other: a host runs a copy only when it has seen that no older
//! claim of it is there. Who claims what is free is computed by every host with the same function from what it sees;
//! hosts that see different things may claim the same copy, and the younger claim is given up.
//!
//! - A copy stays where it is as long as its host does: a host that comes back, or a new one, moves nothing.
//! - Of a lost host only its own copies move.
//! - A host that is away for less than its lease keeps its claims.

use std::collections::{BTreeMap, BTreeSet};

pub use warren_fleet::engine::copies::Replicated;

use crate::digest::Digest;
use crate::names::HostId;

/// A host that can take copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// How many it takes.
    pub capacity: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A claim of a copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Claim {
    /// The container.
    pub app: String,
    /// Which copy, from 0.
    pub slot: u32,
    /// When it was made, by the store's own count: the lowest holds.
    pub created: u64,
    /// Who made it.
    pub host: HostId,
}

/// Copies by container.
pub type Copies = BTreeMap<String, Vec<u32>>;

/// What a host is to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Moves {
    /// Copies that are to run.
    pub run: Copies,
    /// Copies to claim.
    pub claim: Vec<(String, u32)>,
    /// Claims to give up, once the copies do not run any more.
    pub give_up: Vec<(String, u32)>,
}

/// What a host knows when it decides.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Containers with copies.
    pub apps: &'a [Replicated],
    /// Hosts that are there.
    pub places: &'a BTreeMap<HostId, Place>,
    /// All claims.
    pub claims: &'a [Claim],
}

/// Who holds each copy that is claimed: the oldest claim.
pub fn holders(claims: &[Claim]) -> BTreeMap<(&str, u32), &HostId> {
    let mut out: BTreeMap<(&str, u32), &Claim> = BTreeMap::new();
    for claim in claims {
        let slot = out.entry((&claim.app, claim.slot)).or_insert(claim);
        if (claim.created, &claim.host) < (slot.created, &slot.host) {
            *slot = claim;
        }
    }
    out.into_iter().map(|(slot, claim)| (slot, &claim.host)).collect()
}

/// The copies that a host runs.
pub fn held(me: &HostId, claims: &[Claim]) -> Copies {
    let mut out = Copies::new();
    for ((app, slot), host) in holders(claims) {
        if host == me {
            out.entry(app.to_owned()).or_default().push(slot);
        }
    }
    out
}

/// What a host runs, claims and gives up.
///
/// A copy that it runs and that nobody holds goes on and is claimed again: the store has forgotten it, or its lease was
/// over while the store was away. Other free copies are claimed if it `takes_new` ones, which it does not for a while
/// after its lease was lost, so that those that still run somewhere are claimed from there.
pub fn moves(me: &HostId, seen: Seen<'_>, runs: &Copies, takes_new: bool) -> Moves {
    let Seen { apps, places, claims } = seen;
    let wanted: BTreeMap<&str, u32> = apps.iter().map(|app| (&*app.name, app.replicas)).collect();
    let is_wanted = |app: &str, slot: u32| wanted.get(app).is_some_and(|replicas| slot < *replicas);
    let mut holders = holders(claims);
    let mut out = Moves::default();
    let each = runs.iter().flat_map(|(app, slots)| slots.iter().map(move |slot| (&**app, *slot)));
    let forgotten: Vec<(&str, u32)> = each
        .filter(|(app, slot)| is_wanted(app, *slot) && !holders.contains_key(&(*app, *slot)))
        .collect();
    for (app, slot) in forgotten {
        holders.insert((app, slot), me);
        out.claim.push((app.to_owned(), slot));
    }
    let mine: BTreeSet<(&str, u32)> = claims
        .iter()
        .filter(|claim| claim.host == *me)
        .map(|claim| (&*claim.app, claim.slot))
        .collect();
    for (app, slot) in mine {
        if !is_wanted(app, slot) || holders.get(&(app, slot)) != Some(&me) {
            out.give_up.push((app.to_owned(), slot));
        }
    }
    for ((app, slot), _) in
        holders.iter().filter(|((app, slot), host)| **host == me && is_wanted(app, *slot))
    {
        out.run.entry((*app).to_owned()).or_default().push(*slot);
    }
    // Most often nothing is free: then nothing is shared out.
    let taken = holders.keys().filter(|(app, slot)| is_wanted(app, *slot)).count();
    let all: u64 = apps.iter().map(|app| u64::from(app.replicas)).sum();
    if takes_new && (taken as u64) < all {
        let mut shares = Free::new(apps, places, &holders).share(apps);
        out.claim.extend(shares.remove(me).unwrap_or_default());
    }
    out
}

/// The copies that each host will run once all have claimed and given up what is theirs.
pub fn settled(
    apps: &[Replicated],
    places: &BTreeMap<HostId, Place>,
    claims: &[Claim],
) -> BTreeMap<HostId, Copies> {
    let wanted: BTreeMap<&str, u32> = apps.iter().map(|app| (&*app.name, app.replicas)).collect();
    let stays =
        |claim: &&Claim| wanted.get(&*claim.app).is_some_and(|replicas| claim.slot < *replicas);
    let claims: Vec<Claim> = claims.iter().filter(stays).cloned().collect();
    let holders = holders(&claims);
    let new = Free::new(apps, places, &holders).share(apps);
    let new = new
        .into_iter()
        .flat_map(|(host, slots)| slots.into_iter().map(move |slot| (host.clone(), slot)));
    let kept =
        holders.iter().map(|((app, slot), host)| ((*host).clone(), ((*app).to_owned(), *slot)));
    let mut out: BTreeMap<HostId, Copies> = BTreeMap::new();
    for (host, (app, slot)) in kept.chain(new) {
        out.entry(host).or_default().entry(app).or_default().push(slot);
    }
    out.values_mut().flat_map(BTreeMap::values_mut).for_each(|slots| slots.sort_unstable());
    out
}

/// How full hosts are while free copies are shared out.
struct Free<'a> {
    /// Hosts in the order of their names.
    hosts: Vec<Room<'a>>,
    /// Copies that somebody holds, with the host's place in `hosts` if it is there.
    held: BTreeMap<&'a str, BTreeMap<u32, Option<usize>>>,
}

/// A host that may have room.
struct Room<'a> {
    id: &'a HostId,
    place: &'a Place,
    /// Copies that it holds.
    load: u32,
    /// A number of its own.
    number: u64,
}

impl<'a> Free<'a> {
    fn new(
        apps: &'a [Replicated],
        places: &'a BTreeMap<HostId, Place>,
        holders: &BTreeMap<(&str, u32), &HostId>,
    ) -> Free<'a> {
        let room = |(id, place): (&'a HostId, &'a Place)| {
            let number = Digest::of(id.as_str().as_bytes()).number();
            Room { id, place, load: 0, number }
        };
        let mut hosts: Vec<Room<'a>> = places.iter().map(room).collect();
        let mut held: BTreeMap<&str, BTreeMap<u32, Option<usize>>> =
            apps.iter().map(|app| (&*app.name, BTreeMap::new())).collect();
        for ((app, slot), host) in holders {
            let Some(slots) = held.get_mut::<str>(app) else { continue };
            let at = hosts.binary_search_by(|room| room.id.cmp(host)).ok();
            slots.insert(*slot, at);
            if let Some(at) = at {
                hosts[at].load += 1;
            }
        }
        Free { hosts, held }
    }

    /// Shares all free copies out: each to the emptiest value of the label, there to the host with the fewest copies of
    /// the container, and among those by a number that each host and copy have for one another.
    fn share(mut self, apps: &[Replicated]) -> BTreeMap<HostId, Vec<(String, u32)>> {
        let mut out: BTreeMap<HostId, Vec<(String, u32)>> = BTreeMap::new();
        let mut apps: Vec<&Replicated> = apps.iter().collect();
        apps.sort_by(|a, b| a.name.cmp(&b.name));
        for app in apps {
            let held = self.held.remove(&*app.name).unwrap_or_default();
            let mut counts = Counts::new(app, &self.hosts, &held);
            for slot in (0..app.replicas).filter(|slot| !held.contains_key(slot)) {
                let Some(at) = counts.choose(slot, &self.hosts) else { break };
                counts.add(at);
                self.hosts[at].load += 1;
                let host = self.hosts[at].id.clone();
                out.entry(host).or_default().push((app.name.clone(), slot));
            }
        }
        out
    }
}

/// Copies of one container, by host and by value of the label.
struct Counts {
    /// A number of the container's own.
    number: u64,
    /// Copies on each host.
    hosts: Vec<u32>,
    /// Which value of the label each host has.
    domains: Vec<usize>,
    /// Copies by value of the label.
    in_domains: Vec<u32>,
}

impl Counts {
    fn new(app: &Replicated, hosts: &[Room<'_>], held: &BTreeMap<u32, Option<usize>>) -> Counts {
        let value = |room: &Room<'_>| {
            app.spread.as_ref().and_then(|label| room.place.labels.get(label)).cloned()
        };
        let values: Vec<Option<String>> = hosts.iter().map(value).collect();
        let mut known: Vec<&Option<String>> = values.iter().collect();
        known.sort_unstable();
        known.dedup();
        let domains = values.iter().map(|v| known.binary_search(&v).unwrap_or_default()).collect();
        let mut counts = Counts {
            number: Digest::of(app.name.as_bytes()).number(),
            hosts: vec![0; hosts.len()],
            domains,
            in_domains: vec![0; known.len()],
        };
        held.values().flatten().for_each(|at| counts.add(*at));
        counts
    }

    fn add(&mut self, at: usize) {
        self.hosts[at] += 1;
        self.in_domains[self.domains[at]] += 1;
    }

    fn choose(&self, slot: u32, hosts: &[Room<'_>]) -> Option<usize> {
        let copy = mixed(self.number ^ u64::from(slot));
        let has_room = |(_, room): &(usize, &Room<'_>)| room.load < room.place.capacity;
        let rank = |(at, room): &(usize, &Room<'_>)| {
            (self.in_domains[self.domains[*at]], self.hosts[*at], mixed(copy ^ room.number))
        };
        hosts.iter().enumerate().filter(has_room).min_by_key(rank).map(|(at, _)| at)
    }
}

/// Another number for each number, without a pattern that can be seen: the last step of splitmix64.
fn mixed(number: u64) -> u64 {
    let x = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(hosts: usize, racks: usize, capacity: u32) -> BTreeMap<HostId, Place> {
        let place = |n: usize| {
            let labels = BTreeMap::from([("rack".to_owned(), format!("r{}", n % racks))]);
            (format!("h{n:04}").parse().expect("a name"), Place { capacity, labels })
        };
        (0..hosts).map(place).collect()
    }

    fn app(name: &str, replicas: u32) -> Replicated {
        Replicated { name: name.into(), replicas, spread: Some("rack".into()) }
    }

    /// Every host claims at once what it sees to be free.
    fn settle(
        apps: &[Replicated],
        places: &BTreeMap<HostId, Place>,
        mut claims: Vec<Claim>,
    ) -> Vec<Claim> {
        claims.retain(|claim| places.contains_key(&claim.host));
        let mut created = claims.iter().map(|claim| claim.created).max().unwrap_or_default();
        let all: Vec<(HostId, Moves)> = places
            .keys()
            .map(|me| {
                (
                    me.clone(),
                    moves(me, Seen { apps, places, claims: &claims }, &Copies::new(), true),
                )
            })
            .collect();
        for (host, moves) in all {
            claims.retain(|c| c.host != host || !moves.give_up.contains(&(c.app.clone(), c.slot)));
            for (app, slot) in moves.claim {
                created += 1;
                claims.push(Claim { app, slot, created, host: host.clone() });
            }
        }
        claims
    }

    #[test]
    fn copies_are_spread_and_each_is_claimed_once() {
        let places = places(30, 3, 100);
        let apps = [app("shop", 40), app("blog", 7)];
        let claims = settle(&apps, &places, Vec::new());
        assert_eq!((claims.len(), holders(&claims).len()), (47, 47));
        let in_rack = |name: &str, rack: &str| {
            let is_there = |c: &&Claim| c.app == name && places[&c.host].labels["rack"] == rack;
            claims.iter().filter(is_there).count()
        };
        let mut racks = ["r0", "r1", "r2"].map(|rack| in_rack("shop", rack));
        racks.sort_unstable();
        assert_eq!(racks, [13, 13, 14]);
        let most = places.keys().map(|id| claims.iter().filter(|c| c.host == *id).count()).max();
        assert!(most <= Some(4), "{most:?}");
    }

    #[test]
    fn thousands_of_copies_are_spread_evenly() {
        let places = places(1_000, 20, 12);
        let apps = [app("shop", 7_000), Replicated { spread: None, ..app("blog", 3_000) }];
        let all = settled(&apps, &places, &[]);
        let count = |name: &str, id: &HostId| {
            all.get(id).and_then(|copies| copies.get(name)).map_or(0, Vec::len)
        };
        let mut racks = BTreeMap::new();
        for (id, place) in &places {
            assert_eq!(count("blog", id), 3, "{id}");
            *racks.entry(&place.labels["rack"]).or_insert(0) += count("shop", id);
        }
        assert!(racks.values().all(|copies| *copies == 350), "{racks:?}");
        assert_eq!(all.values().flat_map(BTreeMap::values).map(Vec::len).sum::<usize>(), 10_000);
    }

    #[test]
    fn of_a_lost_host_only_its_own_copies_move() {
        let all = places(30, 3, 100);
        let apps = [app("shop", 40), app("blog", 7)];
        let before = settle(&apps, &all, Vec::new());
        for lost in all.keys() {
            let mut left = all.clone();
            left.remove(lost);
            let after = settle(&apps, &left, before.clone());
            assert_eq!(holders(&after).len(), 47);
            let (old, new) = (holders(&before), holders(&after));
            let moved = old.iter().filter(|(slot, host)| new[slot] != **host);
            assert!(moved.clone().all(|(_, host)| *host == lost));
            // When it comes back nothing moves.
            let again = settle(&apps, &all, after.clone());
            assert_eq!(holders(&again), holders(&after));
        }
    }

    #[test]
    fn a_full_host_takes_no_more_and_what_has_no_place_waits() {
        let small = places(3, 3, 4);
        let apps = [app("shop", 20)];
        let claims = settle(&apps, &small, Vec::new());
        assert_eq!(claims.len(), 12);
        let more = places(6, 3, 4);
        assert_eq!(settle(&apps, &more, claims).len(), 20);
    }

    #[test]
    fn fewer_copies_are_given_up_by_who_has_them() {
        let places = places(5, 2, 10);
        let claims = settle(&[app("shop", 9), app("blog", 2)], &places, Vec::new());
        let claims = settle(&[app("shop", 4)], &places, claims);
        let slots: Vec<_> = holders(&claims).into_keys().collect();
        assert_eq!(slots, [("shop", 0), ("shop", 1), ("shop", 2), ("shop", 3)]);
    }

    #[test]
    fn of_two_claims_the_older_holds_and_the_younger_is_given_up() {
        let places = places(2, 1, 10);
        let hosts: Vec<HostId> = places.keys().cloned().collect();
        let claim = |host: usize, created| Claim {
            app: "shop".into(),
            slot: 0,
            created,
            host: hosts[host].clone(),
        };
        let claims = [claim(0, 9), claim(1, 5)];
        assert_eq!(held(&hosts[1], &claims), BTreeMap::from([("shop".to_owned(), vec![0])]));
        assert!(held(&hosts[0], &claims).is_empty());
        let apps = [app("shop", 1)];
        let seen = Seen { apps: &apps, places: &places, claims: &claims };
        let moves = |me: usize| moves(&hosts[me], seen, &Copies::new(), true);
        assert_eq!(moves(0), Moves { give_up: vec![("shop".to_owned(), 0)], ..Moves::default() });
        assert_eq!(
            moves(1),
            Moves { run: Copies::from([("shop".to_owned(), vec![0])]), ..Moves::default() }
        );
    }

    #[test]
    fn what_runs_goes_on_when_the_store_has_forgotten_it() {
        let places = places(3, 1, 10);
        let hosts: Vec<HostId> = places.keys().cloned().collect();
        let runs = Copies::from([("shop".to_owned(), vec![1, 2, 7]), ("gone".to_owned(), vec![0])]);
        let claims = [Claim { app: "shop".into(), slot: 2, created: 5, host: hosts[1].clone() }];
        let apps = [app("shop", 6)];
        let seen = Seen { apps: &apps, places: &places, claims: &claims };
        let moves = moves(&hosts[0], seen, &runs, false);
        // Another host has 2, and 7 is one too many.
        let expected = Moves {
            run: Copies::from([("shop".to_owned(), vec![1])]),
            claim: vec![("shop".to_owned(), 1)],
            give_up: Vec::new(),
        };
        assert_eq!(moves, expected);
    }
}
