//! `drive`: one of all drivers holds a key under a lease and steps the rollout; when it is gone, another one does.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use warren_hosts::digest::Digest;
use warren_hosts::follower::Assignment;
use warren_hosts::host::Host;
use warren_hosts::keys;
use warren_hosts::names::HostId;
use warren_hosts::rollout::{Clock, Gate, Phase, Rollout};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::signal::{SIGHUP, SIGINT, SIGTERM, SignalFd, SignalSet};
use warren_sys::tell;

use crate::site::Site;
use crate::store::{Compare, Fault, Write};

/// How long another driver waits for one that is gone, seconds.
const LEASE: u64 = 15;

/// How often the rollout is stepped.
const EVERY: Duration = Duration::from_secs(1);

/// How long the gate command may take.
const GATE_MAX: Duration = Duration::from_secs(60);

/// How long a gate that holds rests before it is asked again.
const GATE_REST: Duration = Duration::from_secs(5);

/// This driver and its lease.
struct Driver<'s> {
    site: &'s Site,
    /// Another one at each start, under which it has the key, and the machine after an `@`.
    name: String,
    began: Instant,
    lease: i64,
    is_leading: bool,
    gate: Option<GateCommand>,
    /// Hosts that others had assigned elsewhere, of which that was told, by release.
    assigned_again: BTreeSet<(u64, HostId)>,
}

/// The gate command. It may take longer than the lease, so each turn only looks whether it has ended.
struct GateCommand {
    command: String,
    running: Option<(Child, Instant)>,
    rests_until: Instant,
}

impl GateCommand {
    fn new(command: &str) -> GateCommand {
        GateCommand { command: command.to_owned(), running: None, rests_until: Instant::now() }
    }

    fn ask(&mut self) -> Gate {
        let now = Instant::now();
        let Some((child, end)) = &mut self.running else {
            if now >= self.rests_until {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &self.command]).stdin(Stdio::null());
                match shell.spawn() {
                    Ok(child) => self.running = Some((child, now + GATE_MAX)),
                    Err(e) => return Gate::Shut(format!("it cannot be run: {e}")),
                }
            }
            return Gate::Hold;
        };
        let gate = match child.try_wait() {
            Ok(Some(status)) => match status.code() {
                Some(0) => Gate::Open,
                Some(1) => Gate::Hold,
                _ => Gate::Shut(status.to_string()),
            },
            Ok(None) if now < *end => return Gate::Hold,
            _ => {
                tell!("the gate command took more than {} s", GATE_MAX.as_secs());
                let _ = child.kill();
                let _ = child.wait();
                Gate::Hold
            }
        };
        self.running = None;
        self.rests_until = now + if gate == Gate::Hold { GATE_REST } else { Duration::ZERO };
        gate
    }
}

pub(super) fn run(site: &Site, gate: Option<&str>, until_over: bool) -> Result<i32> {
    let random = std::fs::read("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let machine = rustix::system::uname();
    let name = format!("{}@{}", Digest::of(&random).short(), machine.nodename().to_string_lossy());
    let mut driver = Driver {
        site,
        name,
        began: Instant::now(),
        lease: 0,
        is_leading: false,
        gate: gate.map(GateCommand::new),
        assigned_again: BTreeSet::new(),
    };
    let mut is_away = false;
    let signals = SignalFd::new(SignalSet::EMPTY.with(SIGTERM).with(SIGINT).with(SIGHUP))?;
    let (epoll, mut ready) = (Epoll::new()?, Events::with_capacity(1));
    epoll.add(&signals, 0, Interest::READ)?;
    while signals.read()?.is_none() {
        let turn = driver.turn();
        if turn.is_ok() && std::mem::take(&mut is_away) {
            tell!("the store answers again");
        }
        match turn {
            Ok(Turn::Assigned) => continue,
            Ok(turn) => {
                if turn == Turn::Over && until_over {
                    site.store.revoke(driver.lease)?;
                    let phase = site.rollout()?.map(|(_, rollout)| rollout.phase);
                    return Ok(i32::from(phase != Some(Phase::Done)));
                }
            }
            // What is under way goes on by itself as far as hosts were assigned.
            Err(fault) => {
                if !is_away {
                    tell!("{fault}");
                }
                (is_away, driver.is_leading) = (true, false);
            }
        }
        epoll.wait(&mut ready, Some(EVERY))?;
    }
    // Another one need not wait until the lease is over.
    if driver.lease != 0 {
        site.store.revoke(driver.lease)?;
    }
    Ok(0)
}

/// What came of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Hosts were assigned; there may be more of them.
    Assigned,
    /// Something is under way.
    Waiting,
    /// Nothing is.
    Over,
}

impl Driver<'_> {
    /// Says, once for each host, that others had assigned it to something else. The store does not know who.
    fn say_assigned_again(
        &mut self,
        before: &Rollout,
        hosts: &BTreeMap<HostId, Host>,
        orders: &[(HostId, Assignment)],
    ) -> Result<(), Fault> {
        self.assigned_again.retain(|(release, _)| *release == before.release);
        for (id, assignment) in orders.iter().filter(|(id, _)| before.has_assigned(id)) {
            if !self.assigned_again.insert((before.release, id.clone())) {
                continue;
            }
            let taken = hosts.get(id).and_then(|host| host.assigned);
            let taken = taken.map_or_else(|| "nothing".to_owned(), Assignment::words);
            let detail =
                format!("{id} to {}; others had assigned it to {taken}", assignment.words());
            tell!("assigned again: {detail}");
            self.site.note("warren-hosts drive", "assigned again", &detail)?;
        }
        Ok(())
    }

    /// Keeps the lease, and steps the rollout if this one drives.
    fn turn(&mut self) -> Result<Turn, Fault> {
        let store = &self.site.store;
        if self.lease == 0 || !store.keep_alive(self.lease)? {
            self.lease = store.grant(LEASE)?;
            self.is_leading = false;
        }
        if !self.is_leading {
            let key = keys::DRIVER.to_owned();
            let compare = [Compare::Modified(key.clone(), 0)];
            let write = [Write::Put(key.clone(), self.name.clone().into_bytes(), self.lease)];
            // This driver may still hold the key, under a lease that it has kept: then it goes on.
            self.is_leading = store.transact(&compare, &write)?
                || store.get(&key)?.is_some_and(|value| value.value == self.name.as_bytes());
            if self.is_leading {
                tell!("this one drives");
            }
        }
        let Some((modified, mut rollout)) = self.site.rollout()? else { return Ok(Turn::Over) };
        if !self.is_leading || rollout.is_over() {
            return Ok(if rollout.is_over() { Turn::Over } else { Turn::Waiting });
        }
        let before = rollout.clone();
        let hosts = self.site.hosts()?;
        let clock = Clock { driver: &self.name, now: self.began.elapsed().as_secs() + 1 };
        let gate = match &mut self.gate {
            None => Gate::Open,
            Some(gate) if rollout.waits_for_gate(clock) => gate.ask(),
            Some(_) => Gate::Hold,
        };
        let orders = rollout.step(&hosts, &gate, clock);
        if rollout == before && orders.is_empty() {
            return Ok(Turn::Waiting);
        }
        let mut writes: Vec<Write> = orders
            .iter()
            .map(|(id, assignment)| {
                let bytes = serde_json::to_vec(assignment).unwrap_or_default();
                Write::Put(keys::assigned(id), bytes, 0)
            })
            .collect();
        writes.push(Write::Put(
            keys::ROLLOUT.to_owned(),
            serde_json::to_vec(&rollout).unwrap_or_default(),
            0,
        ));
        let is_over = rollout.phase != before.phase && rollout.is_over();
        writes.extend(Site::write_of_end(&rollout).filter(|_| is_over));
        // One that was on all hosts and went back: hosts that come later must not take what the others gave up.
        let was_current = is_over
            && rollout.is_back
            && self.site.current()?.is_some_and(|current| current.release == rollout.release);
        if rollout.phase == Phase::Done || was_current {
            let current = Assignment { release: rollout.release, back: rollout.is_back };
            let bytes = serde_json::to_vec(&current).unwrap_or_default();
            writes.push(Write::Put(keys::CURRENT.to_owned(), bytes, 0));
        }
        let compare = [
            Compare::Modified(keys::ROLLOUT.to_owned(), modified),
            Compare::Is(keys::DRIVER.to_owned(), self.name.clone().into_bytes()),
        ];
        if self.site.store.transact(&compare, &writes)? {
            if rollout.phase != before.phase {
                let detail = format!("{}: {}", rollout.release, rollout.reason);
                self.site.note("warren-hosts drive", rollout.words(), &detail)?;
            }
            self.say_assigned_again(&before, &hosts, &orders)?;
            if !orders.is_empty() {
                let way = if orders[0].1.back { "back" } else { "forward" };
                let count = super::text::count_of(orders.len(), "host");
                tell!("release {}: {count} assigned, {way}", rollout.release);
            }
            if rollout.phase != before.phase {
                let reason = match rollout.reason.is_empty() {
                    true => String::new(),
                    false => format!(": {}", rollout.reason),
                };
                tell!("release {} {}{reason}", rollout.release, rollout.words());
            }
        } else {
            self.is_leading = false;
        }
        Ok(match (rollout.is_over(), orders.is_empty()) {
            (true, _) => Turn::Over,
            (false, false) if self.is_leading => Turn::Assigned,
            (false, _) => Turn::Waiting,
        })
    }
}
