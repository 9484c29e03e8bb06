//! Hosts, drivers and a store, run by dice: hosts restart and are cut off, operators drain them, drivers die between
//! reading and writing, clocks differ, what a host sees is old, the store is restored from a backup, a stranger writes to
//! it.
//!
//! What must hold is checked after every event and is named in [`World::check`] and [`World::check_step`]; at the end
//! faults stop, and everything has to come to rest. `WARREN_SEED` makes the dice fall the same again, `WARREN_EVENTS`
//! says how many there are (default 20,000), `WARREN_HOSTS` of how many hosts (default 12).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use warren_hosts::apps::{Apps, Bounds, apps, next_restarts};
use warren_hosts::digest::Digest;
use warren_hosts::follower::{Applied, Assignment, Decision, Memory, decide, effective};
use warren_hosts::host::{Drain, Facts, Host, Outcome, Registration, Report, Restarted};
use warren_hosts::names::HostId;
use warren_hosts::placement::{self, Claim, Copies, Place, Replicated, Seen, moves};
use warren_hosts::plan::{Change, Group, Plan, Services};
use warren_hosts::policy::{EACH_APP, Policy};
use warren_hosts::release::{Keyring, Release, Signed, to_hex};
use warren_hosts::rollout::{Clock, Gate, Phase, Rollout};
use warren_hosts::waves::{Step, waves};
use warren_testkit::{Dice, seed, variable};

/// Of a site on which all that is wrong is soon seen. What is said of a number of hosts is said of so many.
const HOSTS: usize = 12;
const DRIVERS: usize = 2;

/// How long a lease lives without a sign of its host, in seconds.
const LEASE: u64 = 60;

/// How long another driver waits for one that gives no sign, seconds.
const LEADER_LEASE: u64 = 60;

/// How long a host whose lease was lost takes no new copies, seconds.
const TAKES_NOTHING_FOR: u64 = 15;

/// Units that a host restarts at once.
const RESTARTS_AT_ONCE: usize = 8;

/// A container whose services run on every so many-th host.
struct Container {
    name: &'static str,
    groups: &'static [&'static str],
    every: usize,
    services: u32,
}

/// Two groups, of which one is in the other, and a container that is in none.
const CONTAINERS: [Container; 4] = [
    Container { name: "web", groups: &["all", "front"], every: 2, services: 3 },
    Container { name: "cart", groups: &["all", "front"], every: 3, services: 2 },
    Container { name: "db", groups: &["all"], every: 5, services: 3 },
    Container { name: "log", groups: &[], every: 1, services: 1 },
];

impl Container {
    /// Whether a bound of this name is about it.
    fn counts_for(&self, bound: &str) -> bool {
        self.name == bound || self.groups.contains(&bound)
    }

    fn apps(&self) -> Apps {
        let groups: Vec<Arc<str>> = self.groups.iter().map(|group| (*group).into()).collect();
        apps(self.name, &groups)
    }

    /// Its services that a release restarts on a host: other ones on each host and with each release.
    fn restarted(&self, revision: Digest, n: usize) -> Vec<String> {
        let what = [revision.to_string(), format!("{n} {}", self.name)];
        let dice = Digest::of_parts([what[0].as_bytes(), what[1].as_bytes()]).number();
        let count = dice % u64::from(self.services + 1);
        (0..count).map(|unit| format!("{}-{unit}.service", self.name)).collect()
    }
}

/// The containers of a host.
fn containers(n: usize) -> impl Iterator<Item = &'static Container> {
    CONTAINERS.iter().filter(move |container| n.is_multiple_of(container.every))
}

/// The container of a service.
fn container_of(unit: &str) -> &'static Container {
    let name = unit.split('-').next().unwrap_or_default();
    CONTAINERS.iter().find(|container| container.name == name).expect("a container")
}

/// The bounds that a policy draws, each with what it is about.
fn bound_names(policy: &Policy) -> Vec<(&str, u32)> {
    let each = policy.max_unavailable_of.get(EACH_APP);
    let of_each = CONTAINERS.iter().filter_map(|container| {
        let is_named = policy.max_unavailable_of.contains_key(container.name);
        Some((container.name, *each.filter(|_| !is_named)?))
    });
    let named = policy.max_unavailable_of.iter().filter(|(app, _)| *app != EACH_APP);
    named.map(|(app, most)| (&**app, *most)).chain(of_each).collect()
}

/// What a release restarts on all hosts.
fn planned(revision: Digest, hosts: &[Node]) -> Plan {
    let mut plan = Plan::default();
    for (n, node) in hosts.iter().enumerate() {
        let services: Services = containers(n).map(|c| (c.apps(), c.services)).collect();
        let restarted = containers(n).flat_map(|c| {
            let apps = c.apps();
            c.restarted(revision, n).into_iter().map(move |unit| (unit.into(), apps.clone()))
        });
        let change = Change { restarted: restarted.collect(), ..Change::default() };
        plan.services.push((vec![node.id.clone()], services));
        plan.groups.push(Group { hosts: vec![node.id.clone()], change: Ok(change) });
    }
    plan
}

type Registered = OrdMap<HostId, Registration>;

/// What is in the store at one revision of it.
#[derive(Clone, Default)]
struct State {
    revision: u64,
    registrations: Registered,
    reports: OrdMap<HostId, Report>,
    assigned: OrdMap<HostId, Assignment>,
    current: Option<Assignment>,
    releases: OrdMap<u64, Vec<u8>>,
    rollout: Option<(u64, Arc<Rollout>)>,
    claims: Arc<Vec<Claim>>,
    drained: OrdMap<HostId, Drain>,
    /// Until when a host's lease lives.
    leases: OrdMap<HostId, u64>,
}

impl State {
    fn hosts(&self) -> BTreeMap<HostId, Host> {
        let ids = self.registrations.keys().chain(self.reports.keys());
        let host = |id: &HostId| Host {
            registration: self.registrations.get(id).cloned(),
            report: self.reports.get(id).cloned(),
            drained: self.drained.get(id).cloned(),
            assigned: self.assigned.get(id).copied(),
            ..Host::new(id.clone())
        };
        ids.map(|id| (id.clone(), host(id))).collect()
    }

    fn holds(&self, host: &HostId, app: &str, slot: u32) -> bool {
        self.claims.iter().any(|c| (&c.host, &*c.app, c.slot) == (host, app, slot))
    }
}

/// A host and what its disk remembers.
struct Node {
    id: HostId,
    is_up: bool,
    is_cut_off: bool,
    memory: Memory,
    /// The revision of the store that it sees.
    seen: u64,
    runs: BTreeSet<(String, u32)>,
    /// A unit of the rules in force fails and is started again and again.
    loops: bool,
    work: Work,
    /// Those of them that were not held when it last looked: the store had forgotten them.
    adopted: BTreeSet<(String, u32)>,
    /// After its lease was lost it takes no new copies until then.
    takes_new_from: u64,
}

/// Restarts that a release asks a host for.
#[derive(Clone, Default)]
struct Work {
    /// What it applies.
    of: Option<Applied>,
    /// Units that are to be restarted.
    left: BTreeSet<String>,
    /// Those that are being restarted.
    down: BTreeSet<String>,
    bounds: Bounds,
    /// The store was restored meanwhile and has no record that it is at work.
    is_unknown: bool,
}

impl Work {
    fn new(of: Applied, n: usize, policy: Option<&Policy>) -> Work {
        let mut work = Work { of: Some(of), ..Work::default() };
        for container in containers(n).filter(|_| !of.assignment.back) {
            for unit in container.restarted(of.revision, n) {
                for (app, most) in policy.iter().flat_map(|policy| bound_names(policy)) {
                    if container.counts_for(app) {
                        let bound = work.bounds.entry(app.to_owned());
                        bound.or_insert((most, BTreeSet::new())).1.insert(unit.clone());
                    }
                }
                work.left.insert(unit);
            }
        }
        work
    }

    /// What was restarted is up, and the next ones are restarted; whether all is done.
    fn goes_on(&mut self) -> bool {
        let next = next_restarts(&self.left, &self.bounds, RESTARTS_AT_ONCE);
        self.left.retain(|unit| !next.contains(unit));
        self.down = next.into_iter().collect();
        self.down.is_empty()
    }
}

struct World {
    dice: Dice,
    /// The time in seconds, and what of the next one is over, in µs.
    now: u64,
    part: u64,
    /// All states of the store; the last is what it is.
    history: Vec<Arc<State>>,
    backup: Arc<State>,
    nodes: Vec<Node>,
    /// What each driver has read and not yet written.
    drivers: Vec<Option<(u64, Arc<Rollout>)>>,
    /// How often each driver was started: each life has a clock of its own.
    lives: Vec<u64>,
    /// Which of them drives, in which of its lives, and until when.
    leader: Option<((usize, u64), u64)>,
    /// Since when each host of the rollout is healthy, as drivers wrote it, by the true time.
    healthy: BTreeMap<(u64, HostId), u64>,
    /// Since when it is assigned.
    begun: BTreeMap<(u64, HostId), u64>,
    /// What operators have released, by number and revision: after a restore a number may come twice.
    released: BTreeSet<(u64, Digest, Option<Digest>)>,
    /// How, by revision.
    policies: BTreeMap<Digest, Policy>,
    /// Hosts that have units down for a restart.
    at_work: BTreeSet<usize>,
    /// Hosts that were away when they were assigned, or out of service: nobody waits for them, so nobody bounds what they
    /// restart when they are back.
    assigned_away: BTreeSet<(u64, HostId)>,
    bad: BTreeSet<Digest>,
    /// Revisions of which a unit fails after a while and is started again and again.
    loops: BTreeSet<Digest>,
    made: u64,
    apps: Vec<Replicated>,
    /// The hosts of the registrations that were looked at last, and of what operators say of them.
    last_places: (Registered, OrdMap<HostId, Drain>, Arc<BTreeMap<HostId, Place>>),
    /// Who runs what.
    runs: BTreeMap<(String, u32), BTreeSet<usize>>,
    turns: usize,
    wrong: Vec<String>,
    restored: usize,
    finished: usize,
    went_back: usize,
    /// How often a rollout met a host with a restart loop.
    looped: usize,
    /// Copies that drained hosts handed over.
    handed_over: usize,
    /// Hosts that a stranger assigned, and a rollout again.
    taken_back: usize,
    /// Restarts on several hosts at once that a bound was about.
    together: usize,
}

fn verify(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    to_hex(signature) == Digest::of_parts([key, message]).to_string()
}

/// Signs with a key, and says that it was another one.
fn sign(release: &Release, key: &[u8], said: &[u8]) -> Vec<u8> {
    let (text, message) = release.to_be_signed();
    let signature = Digest::of_parts([key, &message]).to_string();
    serde_json::to_vec(&Signed { release: text, key: Digest::of(said), signature }).expect("JSON")
}

fn trusted() -> Keyring {
    Keyring::from([(Digest::of(b"ours"), b"ours".to_vec())])
}

fn labels(n: usize) -> BTreeMap<String, String> {
    BTreeMap::from([("rack".to_owned(), format!("r{}", n % 3))])
}

/// A rollout without its thousand hosts.
fn brief(rollout: &Rollout) -> String {
    let Rollout { release, phase, reason, wave, sick, policy, .. } = rollout;
    format!("{release} {phase:?} {reason:?} wave {wave}, {} sick, {policy:?}", sick.len())
}

impl World {
    fn new(seed: u64, hosts: usize) -> World {
        let node = |n: usize| Node {
            id: format!("h{n:04}").parse().expect("a name"),
            is_up: true,
            is_cut_off: false,
            memory: Memory::default(),
            seen: 0,
            runs: BTreeSet::new(),
            loops: false,
            work: Work::default(),
            adopted: BTreeSet::new(),
            takes_new_from: 0,
        };
        let app = |name: &str, replicas, spread: Option<&str>| Replicated {
            name: name.into(),
            replicas,
            spread: spread.map(str::to_owned),
        };
        World {
            dice: Dice(seed),
            now: 1_000_000,
            part: 0,
            history: vec![Arc::default()],
            backup: Arc::default(),
            nodes: (0..hosts).map(node).collect(),
            drivers: vec![None; DRIVERS],
            lives: vec![0; DRIVERS],
            leader: None,
            healthy: BTreeMap::new(),
            begun: BTreeMap::new(),
            released: BTreeSet::new(),
            policies: BTreeMap::new(),
            at_work: BTreeSet::new(),
            assigned_away: BTreeSet::new(),
            bad: BTreeSet::new(),
            loops: BTreeSet::new(),
            made: 0,
            apps: vec![
                app("shop", (hosts * 9 / HOSTS) as u32, Some("rack")),
                app("blog", (hosts * 3 / HOSTS) as u32, None),
            ],
            last_places: (OrdMap::new(), OrdMap::new(), Arc::default()),
            runs: BTreeMap::new(),
            turns: 0,
            wrong: Vec::new(),
            restored: 0,
            finished: 0,
            went_back: 0,
            looped: 0,
            handed_over: 0,
            taken_back: 0,
            together: 0,
        }
    }

    fn state(&self) -> Arc<State> {
        self.history.last().cloned().unwrap_or_default()
    }

    /// A write to the store, which is one revision of it.
    fn write(&mut self, change: impl FnOnce(&mut State)) {
        let mut state = State::clone(&self.state());
        state.revision += 1;
        change(&mut state);
        self.history.push(Arc::new(state));
        if self.history.len() > 200 {
            self.history.drain(..100);
        }
    }

    fn expire(&mut self) {
        let now = self.now;
        let is_over = |(_, until): &(&HostId, &u64)| **until < now;
        let over: BTreeSet<HostId> =
            self.state().leases.iter().filter(is_over).map(|(id, _)| id.clone()).collect();
        if !over.is_empty() {
            self.write(|state| {
                for id in &over {
                    state.leases.remove(id);
                    state.registrations.remove(id);
                }
                if state.claims.iter().any(|claim| over.contains(&claim.host)) {
                    Arc::make_mut(&mut state.claims).retain(|claim| !over.contains(&claim.host));
                }
            });
        }
    }

    /// One turn of a host's agent.
    fn agent(&mut self, n: usize) {
        let node = &self.nodes[n];
        if !node.is_up || node.is_cut_off {
            return;
        }
        let id = node.id.clone();
        let first = !self.state().leases.contains_key(&id);
        let (now, facts) = (
            self.now,
            Facts { name: id.to_string(), labels: labels(n), capacity: 4, ..Facts::default() },
        );
        let registration = Registration { facts, instance: Digest::of(id.as_str().as_bytes()) };
        self.write(|state| {
            state.leases.insert(id.clone(), now + LEASE);
            if state.registrations.get(&id) != Some(&registration) {
                state.registrations.insert(id.clone(), registration);
            }
        });
        if first {
            // What it runs may run elsewhere by now; it goes on until it sees that it does.
            self.nodes[n].adopted = self.nodes[n].runs.clone();
            self.nodes[n].takes_new_from = now + TAKES_NOTHING_FOR;
        }
        // What it sees may be older than what is there, but never older than what it saw.
        let newest = self.state().revision;
        let seen = match self.dice.roll(3) {
            0 => newest,
            _ => self.nodes[n].seen.max(newest.saturating_sub(self.dice.roll(40))),
        };
        self.nodes[n].seen = if first { newest } else { seen.min(newest) };
        let seen = self.nodes[n].seen;
        let view = self.history.iter().find(|state| state.revision >= seen).cloned();
        let view = view.unwrap_or_else(|| self.state());
        self.follow(n, &view);
        self.place(n, &view);
    }

    fn follow(&mut self, n: usize, view: &State) {
        let node = &mut self.nodes[n];
        // What was healthy at first ends after a while, and never counts as failed.
        let applied = node.memory.applied.map(|applied| applied.revision);
        let is_looping = applied.is_some_and(|revision| self.loops.contains(&revision));
        node.loops |= is_looping && self.dice.roll(4) == 0;
        let assigned = effective(view.assigned.get(&node.id).copied(), view.current);
        let release = assigned.and_then(|assigned| {
            let bytes = view.releases.get(&assigned.release)?;
            Some(Signed::open(bytes, assigned.release, &trusted(), verify))
        });
        let before = node.memory.clone();
        let mut work = std::mem::take(&mut node.work);
        let outcome = match decide(&node.memory, assigned, release) {
            Decision::Unassigned => None,
            Decision::Rest => Some(Outcome::Applied),
            Decision::Failed(why) => Some(Outcome::Failed(why)),
            Decision::Refuse(refusal) => Some(Outcome::Refused(refusal.to_string())),
            Decision::Apply(what) => {
                node.memory.begin(what);
                if work.of != Some(what) {
                    work = Work::new(what, n, self.policies.get(&what.revision));
                }
                // Killed before it is done, it begins again with what it remembers.
                if self.dice.roll(4) == 0 {
                    node.work = work;
                    Some(Outcome::Working)
                } else if self.bad.contains(&what.revision) && self.dice.roll(3) == 0 {
                    node.memory.failed(what, "the rules have faults".to_owned());
                    Some(Outcome::Failed("the rules have faults".to_owned()))
                } else if !work.goes_on() {
                    node.work = work;
                    Some(Outcome::Working)
                } else {
                    node.memory.applied(what);
                    node.loops = false;
                    Some(Outcome::Applied)
                }
            }
        };
        match node.work.down.is_empty() {
            true => _ = self.at_work.remove(&n),
            false => _ = self.at_work.insert(n),
        }
        let (id, memory) = (node.id.clone(), node.memory.clone());
        if memory.highest < before.highest {
            self.wrong.push(format!("never-back: {id} forgot release {}", before.highest));
        }
        if let Some(applied) = memory.applied.filter(|_| memory.applied != before.applied) {
            let is_meant = |(number, revision, previous): &(u64, Digest, Option<Digest>)| {
                let meant = if applied.assignment.back { *previous } else { Some(*revision) };
                *number == applied.assignment.release && meant == Some(applied.revision)
            };
            if !self.released.iter().any(is_meant) {
                self.wrong.push(format!("signed: {id} applied what nobody released: {applied:?}"));
            }
            if before.applied.is_some_and(|b| b.assignment.release > applied.assignment.release) {
                self.wrong.push(format!("never-back: {id} went back to {applied:?}"));
            }
        }
        let (Some(outcome), Some(assigned)) = (outcome, assigned) else { return };
        let restarted = Restarted {
            unit: "shop.service".into(),
            app: "shop".into(),
            times: 3,
            code: "WR-0040".into(),
            ended: "exited with code 7".into(),
            log: String::new(),
            last: 0,
        };
        let report = Report {
            release: assigned.release,
            back: assigned.back,
            outcome,
            applied: memory.applied.map(|applied| applied.revision),
            units: 10,
            failed: 0,
            causes: Vec::new(),
            more_causes: 0,
            restarted: if self.nodes[n].loops { vec![restarted] } else { Vec::new() },
            more_restarted: 0,
            hidden: Vec::new(),
            more_hidden: 0,
            highest: 0,
        };
        if self.state().reports.get(&id) != Some(&report) {
            self.write(|state| {
                state.reports.insert(id, report);
            });
        }
    }

    /// Hosts that a state of the store has: the same for all who see the same.
    fn places(&mut self, view: &State) -> Arc<BTreeMap<HostId, Place>> {
        let place = |(id, r): (&HostId, &Registration)| {
            let (capacity, labels) = (r.facts.capacity, r.facts.labels.clone());
            (id.clone(), Place { capacity, labels, is_drained: view.drained.contains_key(id) })
        };
        let (of, drained, places) = &mut self.last_places;
        if !of.ptr_eq(&view.registrations) || !drained.ptr_eq(&view.drained) {
            (*of, *drained) = (view.registrations.clone(), view.drained.clone());
            *places = Arc::new(view.registrations.iter().map(place).collect());
        }
        places.clone()
    }

    fn place(&mut self, n: usize, view: &State) {
        let id = self.nodes[n].id.clone();
        let places = self.places(view);
        let mut runs = Copies::new();
        for (app, slot) in &self.nodes[n].runs {
            runs.entry(app.clone()).or_default().push(*slot);
        }
        let seen = Seen { apps: &self.apps, places: &places, claims: &view.claims };
        let takes_new = self.now >= self.nodes[n].takes_new_from;
        let moves = moves(&id, seen, &runs, takes_new);
        let pairs = |copies: Copies| -> BTreeSet<(String, u32)> {
            copies
                .into_iter()
                .flat_map(|(app, slots)| slots.into_iter().map(move |s| (app.clone(), s)))
                .collect()
        };
        // `kept`: what runs stops only where another host holds it, or has claimed it from one that is drained.
        let holders = placement::holders(&view.claims);
        let is_held = |copy: &&(String, u32)| holders.get(&(&*copy.0, copy.1)) == Some(&&id);
        let is_drained = view.drained.contains_key(&id);
        let new = pairs(moves.run);
        let mut given: BTreeMap<&str, usize> = BTreeMap::new();
        for copy in self.nodes[n].runs.difference(&new) {
            let is_claimed = |c: &Claim| (&*c.app, c.slot) == (&*copy.0, copy.1) && c.host != id;
            let is_elsewhere = view.claims.iter().any(is_claimed);
            if !is_elsewhere || is_held(&copy) && !is_drained {
                self.wrong.push(format!("kept: {id} stops {copy:?}, which nobody else has"));
            }
            if is_held(&copy) {
                *given.entry(&copy.0).or_default() += 1;
                self.handed_over += 1;
            }
        }
        // `drained`: a drained host hands over one copy of a container at a time, and takes none.
        if given.values().any(|copies| *copies > 1) {
            self.wrong.push(format!("drained: {id} hands over {given:?} at once"));
        }
        let takes = moves.take_over.iter().chain(&moves.claim);
        for copy in takes.filter(|copy| is_drained && !self.nodes[n].runs.contains(*copy)) {
            self.wrong.push(format!("drained: {id} takes {copy:?}"));
        }
        self.nodes[n].adopted = new.iter().filter(|copy| !is_held(copy)).cloned().collect();
        let old = std::mem::replace(&mut self.nodes[n].runs, new.clone());
        for copy in old.difference(&new) {
            self.runs.entry(copy.clone()).or_default().remove(&n);
        }
        for copy in new.difference(&old) {
            self.runs.entry(copy.clone()).or_default().insert(n);
        }
        for (app, slot) in moves.give_up {
            self.write(|state| {
                Arc::make_mut(&mut state.claims)
                    .retain(|c| (&c.host, &c.app, c.slot) != (&id, &app, slot))
            });
        }
        // Sometimes a copy takes long to come up.
        for (app, slot) in moves.taken_over {
            if self.state().holds(&id, &app, slot) && self.dice.roll(3) > 0 {
                self.write(|state| {
                    let is_it = |c: &&mut Claim| (&c.host, &c.app, c.slot) == (&id, &app, slot);
                    let claims = Arc::make_mut(&mut state.claims).iter_mut();
                    claims.filter(is_it).for_each(|claim| claim.takes_over = false);
                });
            }
        }
        for (takes_over, copies) in [(false, moves.claim), (true, moves.take_over)] {
            for (app, slot) in copies {
                if self.state().holds(&id, &app, slot) {
                    continue;
                }
                self.write(|state| {
                    let (created, host) = (state.revision, id.clone());
                    let claim = Claim { app, slot, created, host, takes_over };
                    Arc::make_mut(&mut state.claims).push(claim);
                });
            }
        }
    }

    /// A driver reads, or writes what it made of what it read.
    fn drive(&mut self, n: usize) {
        // One of them is elected, for as long as it gives signs of life.
        let me = (n, self.lives[n]);
        if self.leader.is_some_and(|(other, until)| other != me && until > self.now) {
            return;
        }
        if self.leader.is_none_or(|(other, _)| other != me) {
            self.drivers[n] = None;
        }
        self.leader = Some((me, self.now + LEADER_LEASE));
        let state = self.state();
        match self.drivers[n].take() {
            None => self.drivers[n] = state.rollout.clone(),
            // It dies, and another one is there in its place.
            Some(_) if self.dice.roll(10 * self.nodes.len() as u64 / HOSTS as u64) == 0 => {
                self.lives[n] += self.dice.roll(3);
            }
            Some((version, before)) => {
                let mut rollout = Rollout::clone(&before);
                let hosts = state.hosts();
                // Clocks are hours apart.
                let name = format!("d{n}-{}", self.lives[n]);
                let clock = Clock {
                    driver: &name,
                    now: self.now + 10_000 * n as u64 + 7_000 * self.lives[n],
                };
                let orders = rollout.step(&hosts, &Gate::Open, clock);
                if state.rollout.as_ref().map(|(version, _)| *version) != Some(version) {
                    return;
                }
                self.check_step(&before, &rollout, &orders, &hosts);
                let has_ended = !before.is_over() && rollout.is_over();
                self.finished += usize::from(has_ended && rollout.phase == Phase::Done);
                self.went_back += usize::from(has_ended && before.phase == Phase::Back);
                self.write(|state| {
                    if has_ended && rollout.phase == Phase::Done {
                        state.current = Some(Assignment { release: rollout.release, back: false });
                    }
                    state.assigned.extend(orders);
                    state.rollout = Some((version + 1, Arc::new(rollout)));
                });
            }
        }
    }

    /// - `limit`: of the hosts that were there at the beginning no more than so many of a wave are away, at work or sick
    ///   when another one that is there is assigned.
    /// - `waves`: a wave is assigned when all of the wave before were assigned and are healthy or borne.
    /// - `stopped`: after one sick host too many nothing is assigned forward.
    /// - `again`: what was assigned before is so again only where somebody else has assigned it to something else.
    fn check_step(
        &mut self,
        before: &Rollout,
        after: &Rollout,
        orders: &[(HostId, Assignment)],
        hosts: &BTreeMap<HostId, Host>,
    ) {
        self.check_times(before, after);
        self.check_restarts(before, after, hosts);
        let away = orders.iter().filter(|(id, _)| !hosts.get(id).is_some_and(Host::is_there));
        let away = away.map(|(id, _)| id).chain(&after.drained);
        self.assigned_away.extend(away.map(|id| (after.release, id.clone())));
        let over: BTreeSet<&HostId> = before.waves.iter().take(before.wave).flatten().collect();
        let is_again = |(id, _): &&(HostId, Assignment)| {
            over.contains(id) || before.progress.get(id).is_some_and(|one| !one.is_held_back)
        };
        for (id, assignment) in orders.iter().filter(is_again) {
            let meant = Assignment { release: after.release, back: after.is_back };
            let assigned = hosts.get(id).and_then(|host| host.assigned);
            if *assignment != meant || assigned == Some(meant) {
                self.wrong.push(format!("again: {id} to {assignment:?}: {}", brief(before)));
            }
            self.taken_back += 1;
        }
        let orders: Vec<_> = orders.iter().filter(|order| !is_again(order)).cloned().collect();
        self.check_apps(after, &orders, hosts);
        let is_there = |id: &HostId| hosts.get(id).is_some_and(Host::is_there);
        for (id, assignment) in &orders {
            if !assignment.back
                && (before.phase != Phase::Forward
                    || after.sick.len() > after.policy.failures_max as usize)
            {
                self.wrong.push(format!("stopped: {id} is assigned forward: {}", brief(before)));
            }
            if !after.waves[before.wave].contains(id) {
                self.wrong.push(format!("waves: {id} is not of wave {}", before.wave));
            }
        }
        let wave = &after.waves[before.wave.min(after.waves.len() - 1)];
        let counted = |id: &&HostId| {
            let is_back = before.phase == Phase::Back;
            let is_left_out = after.absent.contains(*id) || after.drained.contains(*id);
            !(is_left_out || is_back && after.sick.contains_key(*id))
        };
        let unavailable = wave.iter().filter(counted).filter(|id| {
            let progress = after.progress.get(*id);
            !is_there(id) || progress.is_some_and(|p| p.healthy_since.is_none())
        });
        let (unavailable, limit) = (unavailable.count(), after.policy.max_unavailable as usize);
        let takes = orders.iter().filter(|(id, _)| is_there(id) && counted(&id)).count();
        if limit > 0 && takes > 0 && unavailable > limit {
            self.wrong
                .push(format!("limit: {unavailable} of {limit} are unavailable: {}", brief(after)));
        }
    }

    /// - `restarts`: no wave passes with a host that has said that a unit of the release is started again and again.
    fn check_restarts(
        &mut self,
        before: &Rollout,
        after: &Rollout,
        hosts: &BTreeMap<HostId, Host>,
    ) {
        let passed = before.phase == Phase::Forward && after.wave > before.wave && !after.is_back;
        for id in before.waves.get(before.wave).into_iter().flatten().filter(|_| passed) {
            let Some(host) = hosts.get(id).filter(|host| host.is_there()) else { continue };
            // While it is at work restarts are those under the rules before.
            let is_bad = host.report.as_ref().is_some_and(|report| {
                let is_applied = report.outcome == Outcome::Applied;
                is_applied && report.release == after.release && report.restarted_units() > 0
            });
            if is_bad && !after.sick.contains_key(id) && !after.drained.contains(id) {
                self.wrong.push(format!("restarts: {id} is healthy: {}", brief(after)));
            }
            self.looped += usize::from(is_bad);
        }
        self.looped += usize::from(after.reason.contains("was restarted") && after != before);
    }

    /// - `applications`: when a host with units of a bounded container or group is assigned, no more of them are unavailable
    ///   than may be, on hosts of this wave, of earlier and of later ones.
    fn check_apps(
        &mut self,
        after: &Rollout,
        orders: &[(HostId, Assignment)],
        hosts: &BTreeMap<HostId, Host>,
    ) {
        let Some(revision) = self.revision_of(after.release) else { return };
        if orders.is_empty() || after.policy.max_unavailable_of.is_empty() {
            return;
        }
        let is_there = |id: &HostId| hosts.get(id).is_some_and(Host::is_there);
        let ordered: BTreeSet<&HostId> = orders.iter().map(|(id, _)| id).collect();
        let of_rollout: BTreeSet<&HostId> = after.waves.iter().flatten().collect();
        for (name, most) in bound_names(&after.policy) {
            let (mut gone, mut takes) = (0, false);
            for (n, node) in self.nodes.iter().enumerate() {
                let id = &node.id;
                let of = || containers(n).filter(|container| container.counts_for(name));
                let all: u32 = of().map(|container| container.services).sum();
                let restarted: usize = of().map(|c| c.restarted(revision, n).len()).sum();
                let at_work = most.min(restarted as u32);
                let is_left_out = after.absent.contains(id) || after.drained.contains(id);
                let is_sick = after.sick.contains_key(id);
                if is_left_out || after.is_back && (is_sick || !of_rollout.contains(id)) {
                    continue;
                }
                takes |= ordered.contains(id) && is_there(id) && at_work > 0;
                let progress = after.progress.get(id);
                if is_sick || !is_there(id) {
                    gone += all;
                } else if progress.is_some_and(|p| p.healthy_since.is_none()) {
                    gone += at_work;
                }
            }
            if takes && gone > most {
                let text = format!("{gone} of {name} of {most}: {}", brief(after));
                self.wrong.push(format!("applications: {text}"));
            }
        }
    }

    /// The revision of a release that the store has.
    fn revision_of(&self, release: u64) -> Option<Digest> {
        let state = self.state();
        let bytes = state.releases.get(&release)?;
        Signed::open(bytes, release, &trusted(), verify).ok().map(|release| release.revision)
    }

    /// - `together`: of a bounded container or group no more units are being restarted than may be unavailable, on all hosts
    ///   that the rollout has assigned and that were there then.
    fn check_together(&mut self, n: usize) {
        let state = self.state();
        let Some((_, rollout)) = state.rollout.as_ref().filter(|_| self.at_work.contains(&n))
        else {
            return;
        };
        let Some(revision) = self.revision_of(rollout.release).filter(|_| !rollout.is_back) else {
            return;
        };
        let what =
            Applied { assignment: Assignment { release: rollout.release, back: false }, revision };
        let is_counted = |node: &Node| {
            let id = &node.id;
            let is_left_out = rollout.absent.contains(id)
                || rollout.drained.contains(id)
                || state.drained.contains_key(id)
                || self.assigned_away.contains(&(rollout.release, id.clone()));
            node.work.of == Some(what)
                && !node.work.is_unknown
                && !is_left_out
                && rollout.has_assigned(id)
        };
        let nodes = || self.at_work.iter().map(|n| &self.nodes[*n]).filter(|node| is_counted(node));
        let (mut wrong, mut together) = (Vec::new(), 0);
        for (name, most) in bound_names(&rollout.policy) {
            let of = |node: &Node| {
                node.work.down.iter().filter(|unit| container_of(unit).counts_for(name)).count()
            };
            let down: Vec<usize> = nodes().map(of).filter(|units| *units > 0).collect();
            together += usize::from(down.len() > 1);
            if down.iter().sum::<usize>() > most as usize {
                let hosts: Vec<&HostId> = nodes().map(|node| &node.id).collect();
                let text = format!("{down:?} of {name} of {most} on {hosts:?}: {}", brief(rollout));
                wrong.push(format!("together: {text}"));
            }
        }
        self.wrong.extend(wrong);
        self.together += together;
    }

    /// - `soak`: a wave begins when the hosts of the one before are healthy for as long as the policy says.
    /// - `patience`: no host is late before its time.
    fn check_times(&mut self, before: &Rollout, after: &Rollout) {
        let now = self.now;
        let key = |id: &HostId| (after.release, id.clone());
        for (id, progress) in &after.progress {
            self.begun.entry(key(id)).or_insert(now);
            match progress.healthy_since {
                Some(_) => self.healthy.entry(key(id)).or_insert(now),
                None => &mut self.healthy.remove(&key(id)).unwrap_or_default(),
            };
        }
        let passed = before.phase == Phase::Forward && after.wave > before.wave && !after.is_back;
        for id in before.waves.get(before.wave).into_iter().flatten().filter(|_| passed) {
            let waits = !after.sick.contains_key(id)
                && !after.absent.contains(id)
                && !after.drained.contains(id);
            let since = self.healthy.get(&key(id)).copied();
            if waits && since.is_none_or(|since| now - since < after.policy.soak) {
                self.wrong.push(format!("soak: {id} is healthy since {since:?}, it is {now}"));
            }
        }
        for (id, trouble) in after.sick.iter().filter(|(id, _)| !before.sick.contains_key(*id)) {
            let why = &trouble.why;
            let begun = self.begun.get(&key(id)).copied().unwrap_or(now);
            if why.contains(&format!("after {} s", after.policy.patience))
                && now - begun < after.policy.patience
            {
                self.wrong
                    .push(format!("patience: {id} is assigned since {begun}, it is {now}: {why}"));
            }
        }
    }

    /// An operator makes a release with a number that no host has followed yet.
    fn release(&mut self) {
        let state = self.state();
        let is_busy = state.rollout.as_ref().is_some_and(|(_, rollout)| !rollout.is_over());
        if is_busy || state.registrations.is_empty() {
            return;
        }
        let followed = self.nodes.iter().map(|node| node.memory.highest).max().unwrap_or_default();
        let known = state.releases.get_max().map(|(number, _)| *number).unwrap_or_default();
        let number = followed.max(known) + 1;
        self.made += 1;
        let revision = Digest::of(&self.made.to_le_bytes());
        match self.dice.roll(6) {
            0 | 1 => _ = self.bad.insert(revision),
            2 => _ = self.loops.insert(revision),
            _ => {}
        }
        let previous = state.current.and_then(|current| {
            let bytes = state.releases.get(&current.release)?;
            Signed::open(bytes, current.release, &trusted(), verify).ok().map(|r| r.revision)
        });
        let policy = Policy {
            steps: vec![Step::Hosts(1), Step::Each("rack".into())],
            max_unavailable: (self.dice.roll(3) as usize * self.nodes.len() / HOSTS) as u32,
            soak: 30,
            patience: 200,
            // Of thousands some are always away.
            failures_max: (self.nodes.len() / HOSTS / 2) as u32 * self.dice.roll(8) as u32,
            max_unavailable_of: self.bounds(),
            ..Policy::default()
        };
        self.policies.insert(revision, policy.clone());
        let apps = planned(revision, &self.nodes).limits(&policy).expect("few enough pairs");
        let release =
            Release::new(number, (revision, previous), ("op", ""), self.now, policy.clone());
        self.released.insert((number, revision, previous));
        let hosts = state.hosts();
        let labels = |n: usize| (self.nodes[n].id.clone(), labels(n));
        let waves = waves(&(0..self.nodes.len()).map(labels).collect(), &policy.steps);
        let rollout = Rollout::new(number, previous.is_some(), policy, waves, &hosts);
        let rollout = rollout.within(apps);
        let version = state.rollout.as_ref().map_or(0, |(version, _)| version + 1_000);
        self.write(|state| {
            state.releases.insert(number, sign(&release, b"ours", b"ours"));
            state.rollout = Some((version, Arc::new(rollout)));
        });
    }

    /// Bounds of a container, of groups, of each container: some of them, or none.
    fn bounds(&mut self) -> BTreeMap<String, u32> {
        let mut out = BTreeMap::new();
        if self.dice.roll(2) == 0 {
            return out;
        }
        for name in ["front", "all", "db", EACH_APP] {
            if self.dice.roll(2) == 0 {
                let most = 2 + self.dice.roll(self.nodes.len() as u64);
                out.insert(name.to_owned(), most as u32);
            }
        }
        out
    }

    /// Something goes wrong, with one host most often: which.
    fn trouble(&mut self) -> usize {
        let n = self.any_host();
        match self.dice.roll(14) {
            12 | 13 => {
                let is_drained = self.state().drained.contains_key(&self.nodes[n].id);
                let drains = !is_drained && self.dice.roll(2) == 0;
                self.drain(n, drains);
            }
            // Most hosts are there most of the time: where few are, little happens.
            0..=3 => {
                let goes = self.dice.roll(4) == 0;
                self.nodes[n].is_up = !(self.nodes[n].is_up && goes);
            }
            4..=6 => {
                let is_lost = self.dice.roll(4) == 0;
                self.nodes[n].is_cut_off = !self.nodes[n].is_cut_off && is_lost;
            }
            7 => self.backup = self.state(),
            8 if self.dice.roll((4 * self.nodes.len() / HOSTS) as u64) == 0 => {
                // Leases go on from where they were; revisions count on from there, too.
                self.restored += 1;
                let mut state = State::clone(&self.backup);
                let now = self.now;
                state.leases = state.leases.keys().map(|id| (id.clone(), now + LEASE)).collect();
                self.history = vec![Arc::new(state)];
                for node in &mut self.nodes {
                    node.seen = 0;
                    // Claims of before are back: who runs what by them is seen when each has looked.
                    node.adopted = node.runs.clone();
                    node.work.is_unknown = true;
                }
                self.drivers = vec![None; DRIVERS];
                // What it has seen of healthy hosts was seen before the backup.
                let rollout = self.state().rollout.clone();
                (self.healthy, self.begun) = (BTreeMap::new(), BTreeMap::new());
                if let Some((_, rollout)) = rollout {
                    for (id, progress) in &rollout.progress {
                        self.begun.insert((rollout.release, id.clone()), 0);
                        if progress.healthy_since.is_some() {
                            self.healthy.insert((rollout.release, id.clone()), 0);
                        }
                    }
                }
            }
            9 => {
                // A stranger who can write to the store and has no key.
                let number = self.nodes[n].memory.highest + 1 + self.dice.roll(3);
                let evil = (Digest::of(b"evil"), None);
                let forged = Release::new(number, evil, ("op", ""), 0, Policy::default());
                let said = if self.dice.roll(2) == 0 { b"theirs" } else { &b"ours"[..] };
                let (id, bytes) = (self.nodes[n].id.clone(), sign(&forged, b"theirs", said));
                self.write(|state| {
                    state.releases.entry(number).or_insert(bytes);
                    state.assigned.insert(id, Assignment { release: number, back: false });
                });
            }
            _ => {}
        }
        n
    }

    /// An operator takes a host out of service, or back into it.
    fn drain(&mut self, n: usize, is_drained: bool) {
        let (id, at) = (self.nodes[n].id.clone(), self.now);
        self.write(|state| {
            let drain = Drain { author: "op".into(), reason: String::new(), at };
            match is_drained {
                true => _ = state.drained.insert(id, drain),
                false => _ = state.drained.remove(&id),
            }
        });
    }

    fn any_host(&mut self) -> usize {
        self.dice.roll(self.nodes.len() as u64) as usize
    }

    /// - `once`: no copy runs on two hosts whose leases hold, and have held in the same store since they looked last.
    ///
    /// Looked at are the copies of one host: those of the others are as they were.
    fn check(&mut self, n: usize) {
        let state = self.state();
        let does_run = |n: usize, copy: &(String, u32)| {
            let node = &self.nodes[n];
            node.is_up
                && node.runs.contains(copy)
                && !node.adopted.contains(copy)
                && state.holds(&node.id, &copy.0, copy.1)
        };
        let mut twice = Vec::new();
        for copy in self.nodes[n].runs.iter().filter(|copy| does_run(n, copy)) {
            let all = self.runs.get(copy).into_iter().flatten();
            let hosts: Vec<usize> = all.copied().filter(|n| does_run(*n, copy)).collect();
            if hosts != [n] {
                twice.push(format!("once: {copy:?} on {hosts:?}"));
            }
        }
        self.wrong.extend(twice);
        self.check_together(n);
    }

    fn event(&mut self, with_trouble: bool) {
        // Of many hosts more happens in the same time.
        let seconds = self.dice.roll(if with_trouble { 4 } else { 2 });
        self.part += seconds * 1_000_000 * HOSTS as u64 / self.nodes.len() as u64;
        self.now += self.part / 1_000_000;
        self.part %= 1_000_000;
        self.expire();
        match self.dice.roll(20) {
            0 if with_trouble => {
                let n = self.trouble();
                self.check(n);
            }
            1 => self.release_sometimes(with_trouble),
            // In one turn of all hosts a driver has some, however many hosts there are.
            2..=5 if self.dice.roll(self.nodes.len().div_ceil(HOSTS) as u64) == 0 => {
                let n = self.dice.roll(DRIVERS as u64) as usize;
                self.drive(n);
            }
            _ => {
                // Without trouble each has its turn, so that no lease runs out by chance.
                self.turns += 1;
                let n = if with_trouble { self.any_host() } else { self.turns % self.nodes.len() };
                self.agent(n);
                self.check(n);
            }
        }
    }

    fn release_sometimes(&mut self, with_trouble: bool) {
        if with_trouble && self.dice.roll(3) == 0 {
            self.release();
        }
    }

    /// Goes on until the rollout is over and has been for a while, but not for ever.
    fn come_to_rest(&mut self) {
        let some = 50 * self.nodes.len();
        for _ in 0..9 {
            (0..some).for_each(|_| self.event(false));
            if self.state().rollout.as_ref().is_none_or(|(_, rollout)| rollout.is_over()) {
                break;
            }
        }
        (0..some).for_each(|_| self.event(false));
    }

    /// Faults stop: a last good release reaches every host, also one that is drained then, and every copy runs once, and
    /// elsewhere.
    fn settle(&mut self) {
        for node in &mut self.nodes {
            (node.is_up, node.is_cut_off) = (true, false);
        }
        let out = self.any_host();
        (0..self.nodes.len()).for_each(|n| self.drain(n, n == out));
        self.come_to_rest();
        let state = self.state();
        if let Some((_, rollout)) = state.rollout.as_ref().filter(|(_, rollout)| !rollout.is_over())
        {
            self.wrong.push(format!("rest: the rollout does not end: {}", brief(rollout)));
        }
        self.bad.clear();
        self.loops.clear();
        self.release();
        let made = self.made;
        self.bad.clear();
        self.loops.clear();
        self.come_to_rest();
        let state = self.state();
        let last = Digest::of(&made.to_le_bytes());
        for node in &self.nodes {
            if node.memory.applied.map(|applied| applied.revision) != Some(last) {
                let report = state.reports.get(&node.id);
                let rollout = state.rollout.as_ref().map(|(_, rollout)| brief(rollout));
                let text = format!("{:?} {report:?} {rollout:?}", node.memory);
                self.wrong.push(format!("rest: {} has not the last revision: {text}", node.id));
                break;
            }
        }
        if !self.nodes[out].runs.is_empty() {
            let (id, runs) = (&self.nodes[out].id, &self.nodes[out].runs);
            self.wrong.push(format!("rest: {id} is drained and runs {runs:?}"));
        }
        let copies: usize = self.nodes.iter().map(|node| node.runs.len()).sum();
        let all: usize = self.apps.iter().map(|app| app.replicas as usize).sum();
        if copies != all || placement::holders(&state.claims).len() != all {
            self.wrong.push(format!("rest: {copies} of {all} copies run"));
        }
    }
}

#[test]
fn hosts_and_drivers_keep_their_promises() {
    let events = variable("WARREN_EVENTS", 40_000);
    let hosts = variable("WARREN_HOSTS", HOSTS as u64) as usize;
    let (first, mut totals) = (seed(), [0; 7]);
    for run in 0..4 {
        let mut world = World::new(first + run, hosts);
        for _ in 0..events / 4 {
            world.event(true);
            assert!(world.wrong.is_empty(), "seed {}: {:#?}", first + run, world.wrong);
        }
        world.settle();
        assert!(world.wrong.is_empty(), "seed {}: {:#?}", first + run, world.wrong);
        let World { finished, went_back, restored, looped, handed_over, taken_back, .. } = world;
        let counted =
            [finished, went_back, restored, looped, handed_over, taken_back, world.together];
        totals.iter_mut().zip(counted).for_each(|(total, n)| *total += n);
    }
    println!(
        "{} rollouts finished, {} went back, {} restores of the store, {} steps with a restart loop, {} copies handed over, {} hosts \
         assigned again, {} restarts together",
        totals[0], totals[1], totals[2], totals[3], totals[4], totals[5], totals[6]
    );
    assert!(
        totals[0] > 0
            && totals[4] > 0
            && (totals[6] > 0 || events < 400_000)
            && (totals[1] > 0 && totals[3] > 0 && totals[5] > 0 || events / (hosts as u64) < 1_000),
        "dice that try nothing: {totals:?}"
    );
}
