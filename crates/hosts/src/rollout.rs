//! A rollout: how a release reaches hosts wave by wave, stops by itself, and goes back.
//!
//! [`Rollout::step`] is a pure function of the rollout, of what hosts say and of the time. Its state is one value in
//! the store that is replaced only if nobody else has replaced it, so whoever drives may die at any step: the next one
//! goes on from the same value.
//!
//! What always holds: a host is assigned after all earlier waves are healthy; of the hosts that were there at the
//! beginning no more than `max_unavailable` of a wave are away, at work or sick before another one is assigned, and one
//! that is away is not assigned before it is back, as long as the wave waits for it; after the failure that is one too many
//! nothing is assigned forward.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::follower::Assignment;
use crate::host::{Host, Outcome, Report};
use crate::names::HostId;
use crate::policy::Policy;

/// Assignments of one step; a request to the store has at most 128 parts.
pub const ASSIGNMENTS_MAX: usize = 100;

/// While it is under way it is written this often though nothing happens, in seconds: that much time is lost when
/// another driver goes on.
const WRITTEN_EVERY: u64 = 10;

/// Characters of a reason that is kept for a host.
const REASON_CHARS_MAX: usize = 300;

/// What a rollout is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Waves are assigned.
    Forward,
    /// An operator has halted it; nothing is assigned.
    Paused,
    /// Hosts are assigned the way back.
    Back,
    /// All waves are healthy.
    Done,
    /// It ended before that.
    Stopped,
}

/// A host that was assigned and is looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// When it was assigned, seconds by the driver's clock.
    pub since: u64,
    /// Failed units that it had then.
    pub failed_before: u32,
    /// Since when it is healthy.
    #[serde(default)]
    pub healthy_since: Option<u64>,
    /// Since when it is away.
    #[serde(default)]
    pub away_since: Option<u64>,
    /// It was away when its turn came, and is not assigned before it is back and there is room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_held_back: bool,
}

/// Units of an application on a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AppUnits {
    /// Those that are unavailable at once while the host is at work.
    pub at_work: u32,
    /// All of them.
    pub all: u32,
}

/// An application of which few units may be unavailable at once, on all hosts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AppLimit {
    /// How many.
    pub most: u32,
    /// The hosts that have units of it.
    pub hosts: BTreeMap<HostId, AppUnits>,
}

/// A command of the operator's says whether the next wave may begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gate {
    /// It may.
    Open,
    /// Not yet.
    Hold,
    /// It must not: the rollout has failed.
    Shut(String),
}

/// Who drives, and seconds by a clock of his that is never set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock<'d> {
    /// Another one at each start of a driver.
    pub driver: &'d str,
    /// Seconds since whenever he likes.
    pub now: u64,
}

/// The state of a rollout, as the store has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rollout {
    /// The number of its release.
    pub release: u64,
    /// The release names a revision to go back to.
    pub has_way_back: bool,
    /// How it goes.
    pub policy: Policy,
    /// What it is doing.
    pub phase: Phase,
    /// Why it is paused, goes back or was stopped, for people.
    pub reason: String,
    /// Hosts go back, or have gone.
    #[serde(default)]
    pub is_back: bool,
    /// All hosts by wave.
    pub waves: Vec<Vec<HostId>>,
    /// The wave that is at work.
    pub wave: usize,
    /// Hosts that were away at the beginning: they are assigned, and nobody waits for them.
    pub absent: BTreeSet<HostId>,
    /// Hosts that operators have taken out of service: they are assigned, and nobody waits for them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub drained: BTreeSet<HostId>,
    /// Hosts of this wave, or on the way back all, that were assigned.
    pub progress: BTreeMap<HostId, Progress>,
    /// Hosts that are not healthy, and why: the policy counts all of them as sick.
    pub sick: BTreeMap<HostId, Trouble>,
    /// Sick hosts that an operator has seen and goes on with.
    #[serde(default)]
    pub forgiven: BTreeSet<HostId>,
    /// Applications whose units are bounded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub apps: BTreeMap<String, AppLimit>,
    /// Since when nothing is at work and nothing can be, though hosts of the wave are left.
    #[serde(default)]
    pub blocked_since: Option<u64>,
    /// Who wrote this: times are by his clock.
    #[serde(default)]
    pub driver: String,
    /// When he did.
    #[serde(default)]
    pub at: u64,
}

/// What came of a rollout, as it is kept after others have begun.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct End {
    /// For people: `went back`.
    pub words: String,
    /// Why, for people; empty if all went well.
    pub reason: String,
    /// When, seconds since 1970.
    pub at: u64,
}

/// Hosts of a wave that are not healthy, by what is known of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// They were away when the rollout began, and nobody waited for them.
    pub absent: usize,
    /// An operator has taken them out of service, and nobody waits for them.
    pub drained: usize,
    /// They went away, and were waited for.
    pub away: usize,
    /// They are there, and have not said that they are done.
    pub late: usize,
    /// They are worse than before, or do not take the rules.
    pub sick: usize,
}

/// What is said of a host whose lease is over.
const IS_AWAY: &str = "it is away";

/// What kind of trouble a host is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    /// Its lease is over, for longer than the policy waits.
    Away,
    /// It is there, and has not said in time that it is done.
    Late,
    /// It is worse than before, or does not take the rules.
    Sick,
}

/// Why a host that was assigned is not healthy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "StoredTrouble")]
pub struct Trouble {
    /// Of which kind it is.
    pub kind: TroubleKind,
    /// The reason, for people.
    pub why: String,
}

/// A trouble as the store may have it: drivers of older versions wrote the reason alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredTrouble {
    OfAKind { kind: TroubleKind, why: String },
    Reason(String),
}

impl From<StoredTrouble> for Trouble {
    fn from(stored: StoredTrouble) -> Trouble {
        match stored {
            StoredTrouble::OfAKind { kind, why } => Trouble { kind, why },
            StoredTrouble::Reason(why) => Trouble { kind: TroubleKind::Sick, why },
        }
    }
}

impl Trouble {
    /// Trouble of a kind, with the reason for people.
    pub fn new(kind: TroubleKind, why: impl Into<String>) -> Trouble {
        Trouble { kind, why: why.into() }
    }
}

/// How an assigned host does.
enum Health {
    Waiting,
    Healthy,
    InTrouble(Trouble),
}

impl Rollout {
    /// A rollout that has not begun; `hosts` are those that there are now.
    pub fn new(
        release: u64,
        has_way_back: bool,
        policy: Policy,
        waves: Vec<Vec<HostId>>,
        hosts: &BTreeMap<HostId, Host>,
    ) -> Rollout {
        let is_there = |id: &HostId| hosts.get(id).is_some_and(Host::is_there);
        let absent = waves.iter().flatten().filter(|id| !is_there(id)).cloned().collect();
        Rollout {
            release,
            has_way_back,
            policy,
            phase: Phase::Forward,
            reason: String::new(),
            is_back: false,
            waves,
            wave: 0,
            absent,
            drained: BTreeSet::new(),
            progress: BTreeMap::new(),
            sick: BTreeMap::new(),
            forgiven: BTreeSet::new(),
            apps: BTreeMap::new(),
            blocked_since: None,
            driver: String::new(),
            at: 0,
        }
    }

    /// Keeps to these bounds, too.
    pub fn within(mut self, apps: BTreeMap<String, AppLimit>) -> Rollout {
        self.apps = apps;
        self
    }

    /// What it is doing, in words.
    pub fn words(&self) -> &'static str {
        match (self.phase, self.is_back) {
            (Phase::Forward, _) => "is being rolled out",
            (Phase::Paused, _) => "is paused",
            (Phase::Back, _) => "goes back",
            (Phase::Done, _) if !self.sick.is_empty() => "is on the hosts that are healthy",
            (Phase::Done, _) => match (self.absent.is_empty(), self.drained.is_empty()) {
                (true, true) => "is on all hosts",
                (true, false) => "is on all hosts that are in service",
                (false, true) => "is on all hosts that were online",
                (false, false) => "is on all hosts that were online and are in service",
            },
            (Phase::Stopped, true) if self.wave < self.waves.len() => "was stopped on its way back",
            (Phase::Stopped, true) => "went back",
            (Phase::Stopped, false) => "was stopped",
        }
    }

    /// What came of it, if it is over; `at` seconds since 1970.
    pub fn end(&self, at: u64) -> Option<End> {
        let end = || End { words: self.words().to_owned(), reason: self.reason.clone(), at };
        self.is_over().then(end)
    }

    /// Whether it was stopped so that some hosts have the release and others have not.
    pub fn is_half_way(&self) -> bool {
        self.phase == Phase::Stopped && (!self.is_back || self.wave < self.waves.len())
    }

    /// Hosts of a wave that are not healthy, as far as that is known.
    pub fn tally(&self, wave: &[HostId]) -> Tally {
        let mut tally = Tally::default();
        for id in wave {
            let of = match self.sick.get(id).map(|trouble| trouble.kind) {
                Some(TroubleKind::Away) => &mut tally.away,
                Some(TroubleKind::Late) => &mut tally.late,
                Some(TroubleKind::Sick) => &mut tally.sick,
                None if self.drained.contains(id) => &mut tally.drained,
                None if self.absent.contains(id) => &mut tally.absent,
                None => continue,
            };
            *of += 1;
        }
        tally
    }

    /// Whether it is over, so that another one may begin.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Stopped)
    }

    /// Goes on as far as it may, and returns which hosts are to be assigned to what.
    pub fn step(
        &mut self,
        hosts: &BTreeMap<HostId, Host>,
        gate: &Gate,
        clock: Clock<'_>,
    ) -> Vec<(HostId, Assignment)> {
        let before = self.clone();
        self.tell_time_by(clock);
        if !self.is_over() {
            self.look_who_is_drained(hosts);
        }
        let now = clock.now;
        let out = match self.phase {
            Phase::Forward => self.forward(hosts, gate, now),
            Phase::Back => self.back(hosts, now),
            Phase::Paused | Phase::Done | Phase::Stopped => Vec::new(),
        };
        let is_quiet_for_long = !self.is_over() && now.saturating_sub(self.at) >= WRITTEN_EVERY;
        if *self != before || is_quiet_for_long {
            (self.driver, self.at) = (clock.driver.to_owned(), now);
        }
        out
    }

    /// Times are those of the clock of whoever drives, and clocks are minutes apart. Who goes on for another driver takes
    /// what that one wrote last for written now: a wave is healthy for too long rather than not for long enough.
    fn tell_time_by(&mut self, clock: Clock<'_>) {
        if self.driver == clock.driver {
            return;
        }
        let at = self.at;
        let shifted = |time: u64| clock.now.saturating_sub(at.saturating_sub(time));
        for progress in self.progress.values_mut() {
            progress.since = shifted(progress.since);
            progress.healthy_since = progress.healthy_since.map(shifted);
            progress.away_since = progress.away_since.map(shifted);
        }
        self.blocked_since = self.blocked_since.map(shifted);
    }

    /// Nobody waits for hosts that are out of service. One that is back in service while it is at work catches up, as one
    /// does that was away at the beginning: the time for which it was drained must not count as time that it took.
    fn look_who_is_drained(&mut self, hosts: &BTreeMap<HostId, Host>) {
        let is_drained = |id: &&HostId| hosts.get(*id).is_some_and(|host| host.drained.is_some());
        let drained: BTreeSet<HostId> =
            self.waves.iter().flatten().filter(is_drained).cloned().collect();
        let is_at_work = |id: &&HostId| {
            self.progress.get(*id).is_some_and(|progress| progress.healthy_since.is_none())
        };
        let returned = self.drained.difference(&drained).filter(is_at_work);
        self.absent.extend(returned.cloned());
        self.sick.retain(|id, _| !drained.contains(id));
        self.drained = drained;
    }

    /// Whether nobody waits for this host.
    fn is_left_out(&self, id: &HostId) -> bool {
        self.absent.contains(id) || self.drained.contains(id)
    }

    fn forward(
        &mut self,
        hosts: &BTreeMap<HostId, Host>,
        gate: &Gate,
        now: u64,
    ) -> Vec<(HostId, Assignment)> {
        self.take_back_returned(hosts);
        self.examine(hosts, false, now);
        if let Gate::Shut(why) = gate {
            return self.fail(format!("the gate said no: {why}"));
        }
        let counted = self.sick.keys().filter(|id| !self.forgiven.contains(*id)).count();
        let is_stuck = self.is_stuck(hosts);
        if counted > self.policy.failures_max as usize || is_stuck {
            let first = self.sick.iter().find(|(id, _)| !self.forgiven.contains(*id));
            let first =
                first.map(|(id, trouble)| format!("{id}: {}", trouble.why)).unwrap_or_default();
            let others = match counted {
                1 => String::new(),
                n => format!(" (and {} more)", n - 1),
            };
            let stuck = match is_stuck && counted <= self.policy.failures_max as usize {
                true => ": as many hosts of the wave are sick as may be unavailable",
                false => "",
            };
            return self.fail(first + &others + stuck);
        }
        let Some(wave) = self.waves.get(self.wave).cloned() else {
            self.phase = Phase::Done;
            return Vec::new();
        };
        let mut out = self.assign(&wave, hosts, false, now);
        self.blocked_since = match out.is_empty() && self.is_blocked(&wave, hosts) {
            true => self.blocked_since.or(Some(now)),
            false => None,
        };
        if self.blocked_since.is_some_and(|since| now.saturating_sub(since) > self.policy.patience)
        {
            let blocker = self.blocker(hosts);
            return self.fail(format!("{blocker} after {} s", self.policy.patience));
        }
        self.assign_again(hosts, false, &mut out);
        if out.is_empty() && *gate == Gate::Open && self.is_wave_over(&wave, now) {
            out = self.assign_held_back();
            if out.is_empty() {
                self.wave += 1;
                self.progress.clear();
                if self.wave == self.waves.len() {
                    self.phase = Phase::Done;
                }
            }
        }
        out
    }

    /// Assigns hosts of a wave that is over though they are still away: the rollout no longer waits for them, and they catch up
    /// when they are back.
    fn assign_held_back(&mut self) -> Vec<(HostId, Assignment)> {
        let assignment = Assignment { release: self.release, back: false };
        let held_back = self.progress.iter_mut().filter(|(_, progress)| progress.is_held_back);
        let assign = |(id, progress): (&HostId, &mut Progress)| {
            progress.is_held_back = false;
            (id.clone(), assignment)
        };
        held_back.take(ASSIGNMENTS_MAX).map(assign).collect()
    }

    /// Whether nothing but the gate keeps the next wave from beginning, or the release from being on all hosts.
    pub fn waits_for_gate(&self, clock: Clock<'_>) -> bool {
        let is_told = self.phase == Phase::Forward && self.driver == clock.driver;
        is_told && self.waves.get(self.wave).is_some_and(|wave| self.is_wave_over(wave, clock.now))
    }

    /// Every host of the wave was assigned, and is healthy for long enough, borne or not waited for.
    fn is_wave_over(&self, wave: &[HostId], now: u64) -> bool {
        wave.iter().all(|id| match self.progress.get(id) {
            None => false,
            Some(_) if self.sick.contains_key(id) || self.drained.contains(id) => true,
            Some(Progress { healthy_since: Some(since), .. }) => {
                now.saturating_sub(*since) >= self.policy.soak
            }
            Some(_) => self.absent.contains(id),
        })
    }

    /// Hosts of the wave are left, and none is at work for whose end they would have to wait.
    fn is_blocked(&self, wave: &[HostId], hosts: &BTreeMap<HostId, Host>) -> bool {
        let is_at_work = |id: &HostId| {
            self.progress.get(id).is_some_and(|p| p.healthy_since.is_none())
                && !self.sick.contains_key(id)
                && !self.is_left_out(id)
        };
        let is_left = |id: &HostId| !self.progress.contains_key(id) && is_there(hosts, id);
        wave.iter().any(is_left) && !wave.iter().any(is_at_work)
    }

    /// What keeps the hosts that are left from being assigned, for people.
    fn blocker(&self, hosts: &BTreeMap<HostId, Host>) -> String {
        let short = |(app, limit): &(&String, &AppLimit)| {
            let gone = self.unavailable_of(limit, hosts, None);
            let is_short = gone > 0
                && limit.hosts.iter().any(|(id, units)| {
                    !self.progress.contains_key(id) && gone + units.at_work > limit.most
                });
            is_short
                .then(|| format!("{gone} of {app} are unavailable, at most {} may be", limit.most))
        };
        self.apps
            .iter()
            .find_map(|app| short(&app))
            .unwrap_or_else(|| "as many hosts of the wave are unavailable as may be".to_owned())
    }

    /// Units of an application that are unavailable, or may be: on hosts that are away, at work or sick.
    fn unavailable_of(
        &self,
        limit: &AppLimit,
        hosts: &BTreeMap<HostId, Host>,
        goes_back: Option<&BTreeSet<&HostId>>,
    ) -> u32 {
        let of = |(id, units): (&HostId, &AppUnits)| {
            let is_sick = self.sick.contains_key(id);
            // On the way back nobody waits for hosts that are not of it, nor for sick ones.
            let is_not_of_it = goes_back.is_some_and(|all| is_sick || !all.contains(id));
            if self.is_left_out(id) || self.forgiven.contains(id) || is_not_of_it {
                return 0;
            }
            match self.progress.get(id) {
                _ if is_sick || !is_there(hosts, id) => units.all,
                Some(progress) if progress.healthy_since.is_none() => units.at_work,
                _ => 0,
            }
        };
        limit.hosts.iter().map(of).fold(0, u32::saturating_add)
    }

    /// Hosts of the wave are left, and sick ones alone are as many as may be unavailable: to wait would be for ever.
    fn is_stuck(&self, hosts: &BTreeMap<HostId, Host>) -> bool {
        let Some(wave) = self.waves.get(self.wave) else { return false };
        let counts = |id: &&HostId| {
            self.sick.contains_key(*id) && !self.forgiven.contains(*id) && !self.is_left_out(id)
        };
        let is_left = |id: &HostId| {
            !self.progress.contains_key(id) && !self.is_left_out(id) && is_there(hosts, id)
        };
        let limit = self.policy.max_unavailable as usize;
        limit > 0 && wave.iter().filter(counts).count() >= limit && wave.iter().any(is_left)
    }

    fn fail(&mut self, reason: String) -> Vec<(HostId, Assignment)> {
        match self.policy.goes_back && self.has_way_back {
            true => self.go_back(reason),
            false => self.stop(reason),
        }
        Vec::new()
    }

    /// Has all hosts that were assigned go back.
    pub fn go_back(&mut self, reason: String) {
        if !self.has_way_back || self.is_back {
            return;
        }
        self.waves.truncate(self.wave + 1);
        let wave = self.wave;
        let assigned = |at: usize, id: &HostId| at < wave || self.is_in_progress(id);
        let waves = self.waves.iter().enumerate();
        let all = waves.flat_map(|(at, wave)| wave.iter().filter(move |id| assigned(at, id)));
        self.waves = vec![all.cloned().collect()];
        (self.wave, self.phase, self.reason, self.is_back) = (0, Phase::Back, reason, true);
        self.progress.clear();
        self.sick.clear();
        self.forgiven.clear();
    }

    /// Ends it; hosts stay as they are. One that is over stays what it is.
    pub fn stop(&mut self, reason: String) {
        if !self.is_over() {
            (self.phase, self.reason) = (Phase::Stopped, reason);
        }
    }

    /// Halts it until [`Rollout::go_on`].
    pub fn pause(&mut self, reason: String) {
        if self.phase == Phase::Forward {
            (self.phase, self.reason) = (Phase::Paused, reason);
        }
    }

    /// Goes on with one that was paused or stopped, the way that it went; sick hosts are borne from now on.
    pub fn go_on(&mut self) {
        let halted = matches!(self.phase, Phase::Paused | Phase::Stopped);
        if !halted || self.wave >= self.waves.len() {
            return;
        }
        self.reason = String::new();
        if self.is_back {
            self.phase = Phase::Back;
            return;
        }
        self.forgiven.extend(self.sick.keys().cloned());
        self.phase = Phase::Forward;
    }

    fn back(&mut self, hosts: &BTreeMap<HostId, Host>, now: u64) -> Vec<(HostId, Assignment)> {
        self.examine(hosts, true, now);
        let Some(wave) = self.waves.first().cloned() else {
            self.phase = Phase::Stopped;
            return Vec::new();
        };
        let mut out = self.assign(&wave, hosts, true, now);
        self.assign_again(hosts, true, &mut out);
        let is_healthy = |id: &HostId| {
            self.progress.get(id).is_some_and(|progress| progress.healthy_since.is_some())
        };
        // One that is away goes back when it returns.
        let away = |id: &&HostId| !is_there(hosts, id) && !is_healthy(id);
        let is_settled = |id: &HostId| {
            // One that is still at work, be it on the way forward, is waited for: to say that all went back would not be
            // true. One that is not has ended with it, or was assigned to something else by others, and never comes to it.
            let is_given_up = away(&id)
                || self.drained.contains(id)
                || self.sick.contains_key(id) && !hosts.get(id).is_some_and(has_not_ended);
            self.progress.contains_key(id) && (is_healthy(id) || is_given_up)
        };
        if out.is_empty() && wave.iter().all(is_settled) {
            let away = wave.iter().filter(away).filter(|id| !self.drained.contains(*id));
            let away: Vec<HostId> = away.cloned().collect();
            let is_away = || Trouble::new(TroubleKind::Away, IS_AWAY);
            self.sick.extend(away.into_iter().map(|id| (id, is_away())));
            (self.phase, self.wave) = (Phase::Stopped, self.waves.len());
        }
        out
    }

    /// Assigns hosts of the wave that were not, as long as few enough of it are unavailable.
    fn assign(
        &mut self,
        wave: &[HostId],
        hosts: &BTreeMap<HostId, Host>,
        back: bool,
        now: u64,
    ) -> Vec<(HostId, Assignment)> {
        let is_there = |id: &HostId| hosts.get(id).is_some_and(Host::is_there);
        let is_available = |id: &HostId| match self.progress.get(id) {
            Some(progress) => {
                progress.healthy_since.is_some() && is_there(id) && !self.sick.contains_key(id)
            }
            None => is_there(id),
        };
        // On the way back a sick host is not one that anybody would miss; nor is one that an operator has seen.
        let is_borne =
            |id: &HostId| self.sick.contains_key(id) && (back || self.forgiven.contains(id));
        let counts = |id: &&HostId| !self.is_left_out(id) && !is_borne(id);
        let unavailable = wave.iter().filter(counts).filter(|id| !is_available(id)).count();
        let limit = match self.policy.max_unavailable {
            0 => usize::MAX,
            n => n as usize,
        };
        let mut room = limit.saturating_sub(unavailable);
        let goes_back: Option<BTreeSet<&HostId>> = back.then(|| wave.iter().collect());
        let room_of = |limit: &AppLimit| {
            limit.most.saturating_sub(self.unavailable_of(limit, hosts, goes_back.as_ref()))
        };
        let mut apps: Vec<(&AppLimit, u32)> =
            self.apps.values().map(|limit| (limit, room_of(limit))).collect();
        // Hosts that return together would all begin together. The way back does not wait for hosts that are away.
        let is_bounded = !back && (self.policy.max_unavailable > 0 || !self.apps.is_empty());
        let holds_back = |id: &HostId| is_bounded && !is_there(id) && !self.is_left_out(id);
        let (mut out, mut held_back) = (Vec::new(), Vec::new());
        for id in wave.iter().filter(|id| !self.progress.contains_key(*id)) {
            if holds_back(id) {
                held_back.push(id.clone());
                continue;
            }
            // One that is away is unavailable already: to assign it takes nothing from anybody.
            let takes_room = is_there(id) && !self.is_left_out(id);
            let takes_of = |limit: &AppLimit| limit.hosts.get(id).map_or(0, |units| units.at_work);
            let is_short = |(limit, room): &(&AppLimit, u32)| takes_of(limit) > *room;
            let has_no_room = takes_room && (room == 0 || apps.iter().any(is_short));
            if has_no_room || out.len() == ASSIGNMENTS_MAX {
                continue;
            }
            if takes_room {
                room -= 1;
                apps.iter_mut().for_each(|(limit, room)| *room -= takes_of(limit));
            }
            out.push((id.clone(), Assignment { release: self.release, back }));
        }
        let assigned = out.iter().map(|(id, _)| (id.clone(), false));
        let begun: Vec<(HostId, bool)> =
            assigned.chain(held_back.into_iter().map(|id| (id, true))).collect();
        for (id, is_held_back) in begun {
            let report = hosts.get(&id).and_then(|host| host.report.as_ref());
            let progress = Progress {
                since: now,
                failed_before: report.map_or(0, |report| report.failed),
                healthy_since: None,
                away_since: is_held_back.then_some(now),
                is_held_back,
            };
            self.progress.insert(id, progress);
        }
        out
    }

    /// Hosts that were away when their turn came and are back wait for room as if it had not come.
    fn take_back_returned(&mut self, hosts: &BTreeMap<HostId, Host>) {
        let is_back =
            |(id, progress): &(&HostId, &Progress)| progress.is_held_back && is_there(hosts, id);
        let back: Vec<HostId> =
            self.progress.iter().filter(is_back).map(|(id, _)| id.clone()).collect();
        for id in back {
            self.progress.remove(&id);
            self.sick.remove(&id);
        }
    }

    /// Whether it has assigned this host of the wave.
    fn is_in_progress(&self, id: &HostId) -> bool {
        self.progress.get(id).is_some_and(|progress| !progress.is_held_back)
    }

    /// Whether it has assigned this host, the way that it goes.
    pub fn has_assigned(&self, id: &HostId) -> bool {
        let is_before = || self.waves.iter().take(self.wave).flatten().any(|other| other == id);
        self.is_in_progress(id) || is_before()
    }

    /// Hosts that this rollout has assigned, and others to something else since then, are assigned again: whoever can write
    /// to the store can do so, and one rollout is under way at a time.
    fn assign_again(
        &self,
        hosts: &BTreeMap<HostId, Host>,
        back: bool,
        out: &mut Vec<(HostId, Assignment)>,
    ) {
        let assignment = Assignment { release: self.release, back };
        let new: BTreeSet<HostId> = out.iter().map(|(id, _)| id.clone()).collect();
        let before = self.waves.iter().take(self.wave).flatten();
        let of_wave = self.progress.keys().filter(|id| self.is_in_progress(id));
        let taken = before.chain(of_wave).filter(|id| {
            let host = hosts.get(*id).filter(|_| !new.contains(*id));
            host.is_some_and(|host| host.assigned != Some(assignment))
        });
        let room = ASSIGNMENTS_MAX.saturating_sub(out.len());
        out.extend(taken.take(room).map(|id| (id.clone(), assignment)));
    }

    /// Looks at the hosts that were assigned.
    fn examine(&mut self, hosts: &BTreeMap<HostId, Host>, back: bool, now: u64) {
        let assignment = Assignment { release: self.release, back };
        for (id, progress) in &mut self.progress {
            progress.away_since = match is_there(hosts, id) {
                true => None,
                false => progress.away_since.or(Some(now)),
            };
            match health(hosts.get(id), progress, assignment, &self.policy, now) {
                Health::Waiting if self.absent.contains(id) || self.drained.contains(id) => {}
                Health::Waiting => progress.healthy_since = None,
                Health::Healthy => {
                    progress.healthy_since.get_or_insert(now);
                    self.sick.remove(id);
                }
                Health::InTrouble(_) if self.drained.contains(id) => {}
                // Nobody waits for one that was away at the beginning: what fails on it counts, how long it takes does not.
                Health::InTrouble(Trouble { kind, .. })
                    if self.absent.contains(id) && kind != TroubleKind::Sick => {}
                Health::InTrouble(trouble) => {
                    progress.healthy_since = None;
                    self.sick.insert(id.clone(), trouble);
                }
            }
        }
    }
}

/// Whether a host has begun something and not said what came of it.
fn has_not_ended(host: &Host) -> bool {
    let outcome = host.report.as_ref().map(|report| &report.outcome);
    matches!(outcome, Some(Outcome::Working | Outcome::Held(_)))
}

fn is_there(hosts: &BTreeMap<HostId, Host>, id: &HostId) -> bool {
    hosts.get(id).is_some_and(Host::is_there)
}

fn health(
    host: Option<&Host>,
    progress: &Progress,
    assignment: Assignment,
    policy: &Policy,
    now: u64,
) -> Health {
    // One that restarts is away for a moment, whenever it was assigned.
    let since = progress.away_since.unwrap_or(progress.since);
    let overdue = |kind: TroubleKind, what: &str| match now.saturating_sub(since) > policy.patience
    {
        true => {
            let why = format!("{what} after {} s", policy.patience);
            Health::InTrouble(Trouble { kind, why })
        }
        false => Health::Waiting,
    };
    let late = |what: &str| overdue(TroubleKind::Late, what);
    let sick = |why: &str| Health::InTrouble(Trouble::new(TroubleKind::Sick, brief(why)));
    let Some(host) = host.filter(|host| host.is_there()) else {
        return overdue(TroubleKind::Away, IS_AWAY);
    };
    let last = host.report.as_ref();
    let report = last.filter(|r| (r.release, r.back) == (assignment.release, assignment.back));
    let Some(report) = report else {
        // What it waits for is known if it has not ended what it was assigned to before.
        let at_work = last.filter(|last| last.outcome == Outcome::Working).map(|last| {
            format!(
                ": it is at work on the way {} of release {}, and waits for its units",
                if last.back { "back" } else { "forward" },
                last.release
            )
        });
        let taken = host.assigned.filter(|assigned| *assigned != assignment);
        let taken = taken.map(|by| format!(": others have assigned it to {}", by.words()));
        return late(&format!("it has not reported{}", at_work.or(taken).unwrap_or_default()));
    };
    match &report.outcome {
        Outcome::Working => late("it is still at work"),
        Outcome::Held(why) => late(&format!("it is held up: {}", brief(why))),
        Outcome::Failed(why) | Outcome::Refused(why) => sick(why),
        Outcome::Applied => {
            worse(report, progress, policy).map_or(Health::Healthy, |why| sick(&why))
        }
    }
}

/// What is worse than before, if it is more than the policy bears: units that failed, units that are started again and
/// again since the release was applied. The latter count whatever was before: they are seen only while they do so.
fn worse(report: &Report, progress: &Progress, policy: &Policy) -> Option<String> {
    let failed = report.failed.saturating_sub(progress.failed_before);
    let restarted = report.restarted_units();
    if failed.saturating_add(restarted) <= policy.failed_units_max {
        return None;
    }
    let others = match restarted.saturating_sub(1) {
        0 => String::new(),
        1 => " (and 1 more unit)".to_owned(),
        n => format!(" (and {n} more units)"),
    };
    let restarts = report.restarted.first().map(|first| first.words() + &others);
    let failures = (failed > 0).then(|| {
        let cause = report.causes.first();
        let cause = cause.map_or(String::new(), |cause| format!(": {}", cause.words()));
        let units = if failed == 1 { "unit" } else { "units" };
        format!("{failed} more {units} failed than before{cause}")
    });
    Some([failures, restarts].into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// No more of a text than is kept.
fn brief(why: &str) -> String {
    why.chars().take(REASON_CHARS_MAX).collect()
}

mod waits;

pub use waits::Wait;

#[cfg(test)]
mod tests;
