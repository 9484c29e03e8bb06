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
//! - A host that an operator has drained runs what it has until another host has claimed that. Then it stops the copy and
//!   gives up its own claim, which makes the other one the oldest. It hands over one copy of a container at a time: the
//!   next one when the host that took the last one has brought it up. What no other host has room for stays.

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
    /// An operator has taken it out of service: it takes no copies, and others take over those that it has.
    pub is_drained: bool,
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
    /// Another host, which is drained, ran the copy when this was claimed, and the one that claimed it has not brought it
    /// up yet.
    pub takes_over: bool,
}

/// What the store has as the value of a claim that takes over; that of others is empty.
pub const TAKES_OVER: &str = "takes over";

/// Copies by container.
pub type Copies = BTreeMap<String, Vec<u32>>;

/// What a host is to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Moves {
    /// Copies that are to run.
    pub run: Copies,
    /// Copies to claim.
    pub claim: Vec<(String, u32)>,
    /// Copies to claim that a drained host runs until then.
    pub take_over: Vec<(String, u32)>,
    /// Copies among those that are to run whose claims say that they are taken over: once they run, that is done.
    pub taken_over: Vec<(String, u32)>,
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

/// Who is to have each copy that is claimed: who holds it, or, if that host is drained, the oldest claim of one that is
/// not.
pub(crate) fn heirs<'c>(
    claims: &'c [Claim],
    places: &BTreeMap<HostId, Place>,
) -> BTreeMap<(&'c str, u32), &'c HostId> {
    let rank = |claim: &'c Claim| (is_drained(&claim.host, places), claim.created, &claim.host);
    let mut out: BTreeMap<(&str, u32), &Claim> = BTreeMap::new();
    for claim in claims {
        let slot = out.entry((&claim.app, claim.slot)).or_insert(claim);
        if rank(claim) < rank(slot) {
            *slot = claim;
        }
    }
    out.into_iter().map(|(slot, claim)| (slot, &claim.host)).collect()
}

pub(crate) fn is_drained(host: &HostId, places: &BTreeMap<HostId, Place>) -> bool {
    places.get(host).is_some_and(|place| place.is_drained)
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
    let mut heirs = heirs(claims, places);
    let mut out = Moves::default();
    let each = runs.iter().flat_map(|(app, slots)| slots.iter().map(move |slot| (&**app, *slot)));
    let forgotten: Vec<(&str, u32)> = each
        .filter(|(app, slot)| is_wanted(app, *slot) && !holders.contains_key(&(*app, *slot)))
        .collect();
    for (app, slot) in forgotten {
        holders.insert((app, slot), me);
        heirs.insert((app, slot), me);
        out.claim.push((app.to_owned(), slot));
    }
    let handed_over = handed_over(me, claims, &holders, &heirs);
    let mine: BTreeSet<(&str, u32)> = claims
        .iter()
        .filter(|claim| claim.host == *me)
        .map(|claim| (&*claim.app, claim.slot))
        .collect();
    for copy in mine {
        let is_mine = [&holders, &heirs].iter().any(|hosts| hosts.get(&copy) == Some(&me));
        if !is_wanted(copy.0, copy.1) || !is_mine || handed_over.contains(&copy) {
            out.give_up.push((copy.0.to_owned(), copy.1));
        }
    }
    for (copy, _) in holders.iter().filter(|(copy, host)| {
        **host == me && is_wanted(copy.0, copy.1) && !handed_over.contains(*copy)
    }) {
        out.run.entry(copy.0.to_owned()).or_default().push(copy.1);
    }
    let is_run = |claim: &&Claim| {
        let copies = out.run.get(&claim.app);
        claim.host == *me && copies.is_some_and(|slots| slots.contains(&claim.slot))
    };
    let taken_over = claims.iter().filter(|claim| claim.takes_over).filter(is_run);
    out.taken_over = taken_over.map(|claim| (claim.app.clone(), claim.slot)).collect();
    // Most often nothing is free: then nothing is shared out.
    let takes = takes_new && !is_drained(me, places);
    heirs.retain(|_, host| !is_drained(host, places));
    let taken = heirs.keys().filter(|(app, slot)| is_wanted(app, *slot)).count();
    let all: u64 = apps.iter().map(|app| u64::from(app.replicas)).sum();
    if takes && (taken as u64) < all {
        let mut shares = Free::new(apps, places, &heirs).share(apps);
        for (app, slot) in shares.remove(me).unwrap_or_default() {
            match holders.contains_key(&(&*app, slot)) {
                true => out.take_over.push((app, slot)),
                false => out.claim.push((app, slot)),
            }
        }
    }
    out
}

/// What a drained host gives to others now: of each container the first copy that another host has claimed, if no copy
/// of it is on its way already.
fn handed_over<'c>(
    me: &HostId,
    claims: &'c [Claim],
    holders: &BTreeMap<(&'c str, u32), &HostId>,
    heirs: &BTreeMap<(&'c str, u32), &HostId>,
) -> BTreeSet<(&'c str, u32)> {
    let is_on_its_way = |claim: &&Claim| {
        claim.takes_over && holders.get(&(&*claim.app, claim.slot)) == Some(&&claim.host)
    };
    let mut on_their_way: BTreeSet<&str> =
        claims.iter().filter(is_on_its_way).map(|claim| &*claim.app).collect();
    let leaves = |(copy, host): &(&(&'c str, u32), &&HostId)| {
        **host == me && heirs.get(*copy).is_some_and(|heir| *heir != me)
    };
    let leaving = holders.iter().filter(leaves).map(|(copy, _)| *copy);
    leaving.filter(|(app, _)| on_their_way.insert(*app)).collect()
}

/// The host that would claim each copy now that no host in service has.
pub(crate) fn takers(
    apps: &[Replicated],
    places: &BTreeMap<HostId, Place>,
    claims: &[Claim],
) -> BTreeMap<(String, u32), HostId> {
    let mut kept = heirs(claims, places);
    kept.retain(|_, host| !is_drained(host, places));
    let shares = Free::new(apps, places, &kept).share(apps);
    let each = |(host, copies): (HostId, Vec<(String, u32)>)| {
        copies.into_iter().map(move |copy| (copy, host.clone()))
    };
    shares.into_iter().flat_map(each).collect()
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
    let (leaving, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
        heirs(&claims, places).into_iter().partition(|(_, host)| is_drained(host, places));
    let mut all: BTreeMap<(String, u32), HostId> = BTreeMap::new();
    // What no other host has room for stays on one that is drained.
    for ((app, slot), host) in leaving.into_iter().chain(kept.clone()) {
        all.insert((app.to_owned(), slot), host.clone());
    }
    for (host, slots) in Free::new(apps, places, &kept).share(apps) {
        all.extend(slots.into_iter().map(|copy| (copy, host.clone())));
    }
    let mut out: BTreeMap<HostId, Copies> = BTreeMap::new();
    for ((app, slot), host) in all {
        out.entry(host).or_default().entry(app).or_default().push(slot);
    }
    out
}

/// How many copies of wanted ones a drained host still has, and how many of these no other host has claimed.
pub fn left_on(host: &HostId, claims: &[Claim]) -> (usize, usize) {
    let mine: Vec<(&str, u32)> = holders(claims)
        .into_iter()
        .filter(|(_, holder)| *holder == host)
        .map(|(copy, _)| copy)
        .collect();
    let others: BTreeSet<(&str, u32)> = claims
        .iter()
        .filter(|claim| claim.host != *host)
        .map(|claim| (&*claim.app, claim.slot))
        .collect();
    (mine.len(), mine.iter().filter(|copy| !others.contains(*copy)).count())
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
        let has_room = |(_, room): &(usize, &Room<'_>)| {
            !room.place.is_drained && room.load < room.place.capacity
        };
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
            let place = Place { capacity, labels, is_drained: false };
            (format!("h{n:04}").parse().expect("a name"), place)
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
            let done = |c: &&mut Claim| {
                c.host == host && moves.taken_over.contains(&(c.app.clone(), c.slot))
            };
            claims.iter_mut().filter(done).for_each(|claim| claim.takes_over = false);
            for (takes_over, copies) in [(false, moves.claim), (true, moves.take_over)] {
                for (app, slot) in copies {
                    created += 1;
                    claims.push(Claim { app, slot, created, host: host.clone(), takes_over });
                }
            }
        }
        claims
    }

    fn on(claims: &[Claim], host: &HostId) -> usize {
        holders(claims).into_values().filter(|holder| *holder == host).count()
    }

    /// Not more than one copy of a container is stopped at once, and none that no other host has claimed.
    #[test]
    fn a_drained_host_hands_over_one_copy_after_the_other() {
        let mut places = places(3, 3, 8);
        let hosts: Vec<HostId> = places.keys().cloned().collect();
        let apps = [app("shop", 9), app("blog", 3)];
        let mut claims = settle(&apps, &places, Vec::new());
        let mut left = on(&claims, &hosts[0]);
        assert_eq!((claims.len(), left), (12, 4));
        places.get_mut(&hosts[0]).expect("it").is_drained = true;
        let mut steps = 0;
        while left > 0 {
            claims = settle(&apps, &places, claims);
            let now = on(&claims, &hosts[0]);
            assert_eq!(holders(&claims).len(), 12, "each copy is somebody's");
            assert!(now <= left && left - now <= 2, "{left} to {now}");
            (left, steps) = (now, steps + 1);
            assert!(steps < 20, "{claims:?}");
        }
        // What was taken over is brought up, and then claimed as all others are.
        claims = settle(&apps, &places, claims);
        assert!(claims.len() == 12 && claims.iter().all(|claim| !claim.takes_over));
        // It takes nothing while it is drained, and nothing moves back when it is not any more.
        places.get_mut(&hosts[0]).expect("it").is_drained = false;
        assert_eq!(holders(&settle(&apps, &places, claims.clone())), holders(&claims));
    }

    #[test]
    fn what_no_other_host_has_room_for_stays_on_a_drained_host() {
        let mut places = places(2, 1, 3);
        let hosts: Vec<HostId> = places.keys().cloned().collect();
        let apps = [app("shop", 5)];
        let mut claims = settle(&apps, &places, Vec::new());
        let (first, other) = (on(&claims, &hosts[0]), on(&claims, &hosts[1]));
        assert_eq!(first + other, 5);
        places.get_mut(&hosts[0]).expect("it").is_drained = true;
        let forecast = settled(&apps, &places, &claims);
        for _ in 0..12 {
            claims = settle(&apps, &places, claims);
        }
        assert_eq!((on(&claims, &hosts[0]), on(&claims, &hosts[1])), (2, 3));
        assert_eq!(left_on(&hosts[0], &claims), (2, 2));
        let count = |host: &HostId| forecast[host]["shop"].len();
        assert_eq!((count(&hosts[0]), count(&hosts[1])), (2, 3), "as was forecast");
        // Where all are drained nothing moves at all.
        places.get_mut(&hosts[1]).expect("it").is_drained = true;
        assert_eq!(settle(&apps, &places, claims.clone()), claims);
    }

    #[test]
    fn a_host_that_is_undrained_in_between_keeps_what_it_has() {
        let mut places = places(2, 1, 9);
        let hosts: Vec<HostId> = places.keys().cloned().collect();
        let apps = [app("shop", 4)];
        let before = settle(&apps, &places, Vec::new());
        places.get_mut(&hosts[0]).expect("it").is_drained = true;
        let between = settle(&apps, &places, before.clone());
        assert!(between.len() > before.len() && holders(&between) == holders(&before));
        places.get_mut(&hosts[0]).expect("it").is_drained = false;
        assert_eq!(settle(&apps, &places, between), before);
    }

    /// A copy that does not come up elsewhere holds the others back.
    #[test]
    fn the_next_copy_waits_for_the_one_before() {
        let mut places = places(2, 1, 9);
        let hosts: Vec<HostId> = places.keys().cloned().collect();
        let apps = [app("shop", 4)];
        let mut claims = settle(&apps, &places, Vec::new());
        places.get_mut(&hosts[0]).expect("it").is_drained = true;
        claims = settle(&apps, &places, claims);
        let moves_of = |claims: &[Claim]| {
            let seen = Seen { apps: &apps, places: &places, claims };
            moves(&hosts[0], seen, &Copies::new(), true)
        };
        let given = moves_of(&claims).give_up;
        assert_eq!(given.len(), 1);
        claims.retain(|c| c.host != hosts[0] || (c.app.clone(), c.slot) != given[0]);
        assert!(moves_of(&claims).give_up.is_empty(), "it is not up yet");
        let taken = |c: &&mut Claim| (c.app.clone(), c.slot) == given[0];
        claims.iter_mut().filter(taken).for_each(|claim| claim.takes_over = false);
        assert_eq!(moves_of(&claims).give_up.len(), 1);
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
            takes_over: false,
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
        let host = hosts[1].clone();
        let claims = [Claim { app: "shop".into(), slot: 2, created: 5, host, takes_over: false }];
        let apps = [app("shop", 6)];
        let seen = Seen { apps: &apps, places: &places, claims: &claims };
        let moves = moves(&hosts[0], seen, &runs, false);
        // Another host has 2, and 7 is one too many.
        let expected = Moves {
            run: Copies::from([("shop".to_owned(), vec![1])]),
            claim: vec![("shop".to_owned(), 1)],
            ..Moves::default()
        };
        assert_eq!(moves, expected);
    }
}
