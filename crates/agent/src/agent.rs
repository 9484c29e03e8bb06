//! The agent of a host: registers it, follows what it is assigned to, reports.
//!
//! - Owns: the host's lease, registration, report and claims in the store, and the state directory.
//! - Must not: stop anything because the store is away, or write to keys of others.
//! - Runs on one thread; one for each watch only tells that something changed, one keeps the lease meanwhile. Start at
//!   [`run`].

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use warren_hosts::digest::Digest;
use warren_hosts::follower::{Applied, Assignment, Decision, decide, effective, needs_release};
use warren_hosts::host::{Facts, Outcome, Registration, Report};
use warren_hosts::keys;
use warren_hosts::names::HostId;
use warren_hosts::placement::{self, Claim, Copies, Place, Replicated, Seen, TAKES_OVER};
use warren_hosts::plan::Rules as _;
use warren_hosts::policy::Policy;
use warren_hosts::release::{self, Release, Signed, read_keys};
use warren_sys::tell;

use crate::disk::{Disk, Kept};
use crate::manager::{Health, Manager, Todo};
use crate::restarts::Restarts;
use crate::rules::{self, Evaluated};
use crate::settings::{Settings, read_file};
use crate::signing::verify;
use crate::site::{fetch, read_claim};
use crate::store::{Compare, Fault, Store, Write};

/// The stack of a thread that watches.
const WATCH_STACK_BYTES: usize = 256 << 10;

/// How often the manager is asked how it is.
const HEALTH_EVERY: Duration = Duration::from_secs(10);

/// How often it is asked after rules were applied, and for how long: a failure in the last seconds of a soak must reach
/// the driver before the wave counts as healthy.
const HEALTH_EVERY_AT_FIRST: Duration = Duration::from_secs(2);
const AT_FIRST: Duration = Duration::from_secs(600);

/// Changes that come so close together are looked at once.
const CALM: Duration = Duration::from_millis(200);

/// Changes that never stop coming are looked at after so long: the lease has to be kept, too.
const CALM_MAX: Duration = Duration::from_secs(2);

/// How long a watch that failed rests before it is begun again.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(30);

/// How long a disk that did not keep what it was given rests before it is tried again.
const DISK_REST: Duration = Duration::from_secs(10);

/// How long a manager that went away is given to come back before it is asked again.
const MANAGER_REST: Duration = Duration::from_secs(2);

/// How long a command that did not undrain the host rests before it is tried again.
const DRAIN_REST: Duration = Duration::from_secs(5);

/// How long rules that did not take this host's facts rest before they are tried again.
const FACTS_REST: Duration = Duration::from_secs(60);

/// How long a drain command may take.
const DRAIN_MAX: Duration = Duration::from_secs(300);

/// The file of the manager's rules that includes those of many hosts.
const INCLUDED_AS: &str = "00-hosts.conf";

/// What a watch tells: that something changed. It is read again, so that nothing is missed however often watches end.
struct Poke;

struct Agent {
    id: HostId,
    settings: Settings,
    store: Store,
    disk: Disk,
    manager: Manager,
    kept: Kept,
    facts: Facts,
    /// The registration is in the store under the own lease.
    is_registered: bool,
    /// The store did not answer the last time.
    is_away: bool,
    outcome: Option<(Assignment, Outcome)>,
    reported: Option<Report>,
    health: Option<Health>,
    restarts: Restarts,
    /// Rules in force may have containers with copies.
    has_copies: bool,
    /// Rules in force were evaluated with these facts.
    knows_facts: bool,
    /// Another machine has taken this one's name.
    is_doubled: bool,
    /// After its lease was lost this host takes no new copies until then.
    takes_new_from: Instant,
    /// When to look again, even if no watch tells of a change.
    wakes_at: Option<Instant>,
    /// What the release that is being applied bounds.
    policy: Policy,
    /// Containers with copies, of these rules.
    replicated: Option<(Digest, Vec<Replicated>)>,
    poke: Sender<Poke>,
    /// The number of the watch that counts.
    watch: Arc<AtomicU64>,
    /// The watch covers other hosts and claims.
    watches_copies: bool,
    /// What [`Store::moves`] was when the watch began.
    watch_moves: u64,
    /// The lease while this thread is at work, else 0: another thread keeps it then.
    lease_at_work: Arc<AtomicI64>,
}

/// Runs the agent until it fails.
///
/// # Errors
/// What keeps it from beginning: no name, no state directory, no settings that mean anything.
pub fn run(settings: Settings) -> Result<(), String> {
    let (poke, pokes) = channel();
    let mut agent = Agent::new(settings, poke)?;
    agent.watch()?;
    agent.keep_lease_at_work()?;
    // A store that is away keeps no host from starting.
    notify("READY=1\n");
    agent.serve(&pokes)
}

/// Lays out the state directory, and has the manager's rules include what will be in it.
///
/// # Errors
/// As the file system says.
pub fn prepare(settings: &Settings, rules: &std::path::Path) -> Result<(), String> {
    let text = Disk::open(&settings.state)?.include();
    let path = rules.join(INCLUDED_AS);
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::create_dir_all(rules).map_err(wrong)?;
    if std::fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    std::fs::write(&path, text).map_err(wrong)
}

/// Tells the manager something of this service.
fn notify(state: &str) {
    if let Err(e) = warren_sys::notify::send(state, &[]) {
        tell!("NOTIFY_SOCKET: {e}");
    }
}

/// What the administrator says of this host. Units that are assigned by a label stop where it is gone, so a file that is
/// gone is a fault; `had_labels`: there were some before.
fn labels(settings: &Settings, had_labels: bool) -> Result<BTreeMap<String, String>, String> {
    let file = settings.labels.display();
    if !settings.labels.try_exists().map_err(|e| format!("{file}: {e}"))? {
        let why = match (settings.needs_labels, had_labels) {
            (true, _) => "which Labels= names",
            (false, true) => "though this host had labels before",
            (false, false) => return Ok(BTreeMap::new()),
        };
        return Err(format!(
            "{file} is not there, {why}: units that are assigned by labels would be stopped. If this host is to have no \
             labels, make an empty file"
        ));
    }
    let text = String::from_utf8_lossy(&read_file(&settings.labels)?).into_owned();
    Facts::read_labels(&text).map_err(|e| format!("{file}: {e}"))
}

/// Facts that the kernel tells, and labels.
fn facts(id: &HostId, settings: &Settings, labels: BTreeMap<String, String>) -> Facts {
    let info = rustix::system::sysinfo();
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get()) as u32;
    Facts {
        name: id.to_string(),
        labels,
        cpus,
        memory: (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)),
        kernel,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        capacity: settings.capacity,
        address: settings
            .address
            .clone()
            .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned()),
    }
}

/// The name that the settings give, else the machine's id.
fn name(settings: &Settings) -> Result<HostId, String> {
    if let Some(name) = &settings.name {
        return Ok(name.clone());
    }
    let text =
        std::fs::read_to_string("/etc/machine-id").map_err(|e| format!("/etc/machine-id: {e}"))?;
    text.trim().parse().map_err(|e| format!("/etc/machine-id: {e}; set Name="))
}

/// A report of a fault in rules has lines and columns; here it is one line.
fn one_line(why: &str) -> String {
    why.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn now() -> u64 {
    warren_sys::time::realtime_ns() / 1000
}

/// What a host is assigned to.
fn assignment(store: &Store, id: &HostId) -> Result<Option<Assignment>, Fault> {
    let read = |key: &str| -> Result<Option<Assignment>, Fault> {
        let value = store.get(key)?;
        Ok(value.and_then(|value| serde_json::from_slice(&value.value).ok()))
    };
    Ok(effective(read(&keys::assigned(id))?, read(keys::CURRENT)?))
}

/// A number that no other run of an agent has.
fn instance() -> Digest {
    let boot = std::fs::read("/proc/sys/kernel/random/uuid").unwrap_or_default();
    Digest::of_parts([&boot[..], &std::process::id().to_le_bytes(), &now().to_le_bytes()])
}

impl Agent {
    fn new(settings: Settings, poke: Sender<Poke>) -> Result<Agent, String> {
        let id = name(&settings)?;
        let disk = Disk::open(&settings.state)?;
        let mut kept = disk.kept()?;
        let labels = labels(&settings, kept.has_labels)?;
        if kept.has_labels == labels.is_empty() {
            kept.has_labels = !labels.is_empty();
            disk.keep(&kept)?;
        }
        let manager = Manager::new(&settings.control, settings.restarts, settings.tells_logs);
        let mut agent = Agent {
            facts: facts(&id, &settings, labels),
            store: Store::new(&settings.endpoints)?,
            id,
            settings,
            disk,
            manager,
            kept,
            is_registered: false,
            is_away: false,
            outcome: None,
            reported: None,
            health: None,
            restarts: Restarts::default(),
            has_copies: false,
            knows_facts: false,
            is_doubled: false,
            takes_new_from: Instant::now(),
            wakes_at: None,
            policy: Policy::default(),
            replicated: None,
            poke,
            watch: Arc::default(),
            watches_copies: false,
            watch_moves: 0,
            lease_at_work: Arc::default(),
        };
        agent.leave_old_name();
        if let Some(revision) = agent.disk.current() {
            agent.has_copies = agent.disk.files(revision).is_ok_and(|f| rules::may_have_copies(&f));
        }
        Ok(agent)
    }

    /// A host that was renamed lets the lease of its old name run out, so that other hosts get the copies of that name.
    fn leave_old_name(&mut self) {
        let name = self.kept.name.replace(self.id.clone());
        let Some(old) = name.filter(|old| *old != self.id) else { return };
        tell!("this host was {old} before");
        // The lease ends by itself. It is not revoked: it is another machine's if this one is a copy that got a name.
        (self.kept.lease, self.kept.instance, self.kept.instance_before) = (0, None, None);
    }

    /// Has a thread poke when something changes that this host follows. One that was there before ends when it hears
    /// of something, or nothing for long.
    fn watch(&mut self) -> Result<(), String> {
        let mut keys = vec![keys::assigned(&self.id), keys::CURRENT.to_owned()];
        match self.has_copies {
            true => keys.extend([keys::HOSTS, keys::CLAIMS, keys::DRAINED].map(str::to_owned)),
            false => keys.push(keys::drained(&self.id)),
        }
        let number = self.watch.fetch_add(1, Ordering::Relaxed) + 1;
        self.watches_copies = self.has_copies;
        self.watch_moves = self.store.moves();
        let (poke, current) = (self.poke.clone(), self.watch.clone());
        let store = Store::new(&self.settings.endpoints)?;
        let work = move || {
            let is_current = || current.load(Ordering::Relaxed) == number;
            let mut rest = REST_MIN;
            while is_current() {
                // What changed before the watch began is seen by the poke after it.
                let ended = store.revision(&keys[0]).and_then(|revision| {
                    if poke.send(Poke).is_err() {
                        return Ok(());
                    }
                    rest = REST_MIN;
                    store
                        .watch(&keys, revision, &mut |_, _| is_current() && poke.send(Poke).is_ok())
                });
                match ended {
                    Ok(()) => return,
                    Err(Fault::Compacted) => {}
                    Err(_) => {
                        store.try_another();
                        std::thread::park_timeout(rest);
                        rest = (rest * 2).min(REST_MAX);
                    }
                }
            }
        };
        std::thread::Builder::new()
            .name("watch".to_owned())
            .stack_size(WATCH_STACK_BYTES)
            .spawn(work)
            .map_err(|e| format!("cannot start a thread: {e}"))?;
        Ok(())
    }

    /// Has a thread keep the lease while the agent drains, restarts and waits, which may take many minutes: a host that is
    /// at work is not away.
    fn keep_lease_at_work(&self) -> Result<(), String> {
        let (lease, every) = (self.lease_at_work.clone(), self.keep_alive());
        let store = Store::new(&self.settings.endpoints)?;
        let work = move || {
            loop {
                std::thread::park_timeout(every);
                let lease = lease.load(Ordering::Relaxed);
                if lease != 0 {
                    // What becomes of it the agent sees when it is done.
                    let _ = store.keep_alive(lease);
                }
            }
        };
        std::thread::Builder::new()
            .name("lease".to_owned())
            .stack_size(WATCH_STACK_BYTES)
            .spawn(work)
            .map_err(|e| format!("cannot start a thread: {e}"))?;
        Ok(())
    }

    /// How often the lease is kept.
    fn keep_alive(&self) -> Duration {
        Duration::from_secs((self.settings.lease / 3).max(1))
    }

    fn serve(&mut self, pokes: &Receiver<Poke>) -> Result<(), String> {
        let keep_alive = self.keep_alive();
        let (mut next_sign, mut next_health) = (Instant::now(), Instant::now());
        let mut is_poked = true;
        loop {
            if Instant::now() >= next_sign {
                let was_away = self.is_away;
                self.sign_of_life();
                let has_moved = self.store.moves() != self.watch_moves;
                if (was_away || has_moved) && !self.is_away {
                    // A connection that was cut in between, or whose member hangs or has lost the others, may be silent
                    // for ever.
                    self.watch()?;
                    is_poked = true;
                }
                next_sign = Instant::now() + keep_alive;
            }
            is_poked |= self.wakes_at.take_if(|at| Instant::now() >= *at).is_some();
            if std::mem::take(&mut is_poked) && !self.is_doubled {
                self.lease_at_work.store(self.kept.lease, Ordering::Relaxed);
                self.look();
                self.lease_at_work.store(0, Ordering::Relaxed);
                if self.has_copies && !self.watches_copies {
                    self.watch()?;
                }
            }
            if Instant::now() >= next_health {
                self.report();
                next_health = Instant::now() + self.health_every();
            }
            let next = [Some(next_sign), Some(next_health), self.wakes_at];
            let until = next.into_iter().flatten().min().unwrap_or(next_sign);
            let until = until.saturating_duration_since(Instant::now());
            match pokes.recv_timeout(until) {
                Ok(Poke) => {
                    // What comes at once is looked at once.
                    let end = Instant::now() + CALM_MAX;
                    while Instant::now() < end && pokes.recv_timeout(CALM).is_ok() {}
                    is_poked = true;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("all watches have ended".to_owned());
                }
            }
        }
    }

    fn health_every(&self) -> Duration {
        let applied = now().saturating_sub(self.kept.restarts_before.at);
        match Duration::from_micros(applied) < AT_FIRST {
            true => HEALTH_EVERY_AT_FIRST,
            false => HEALTH_EVERY,
        }
    }

    /// Notes whether the store answers, and says it once.
    fn noted<T>(&mut self, result: Result<T, Fault>) -> Option<T> {
        match result {
            Ok(value) => {
                if std::mem::take(&mut self.is_away) {
                    tell!("the store answers again");
                }
                Some(value)
            }
            Err(fault) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    tell!("{fault}; this host keeps what it has");
                }
                None
            }
        }
    }

    /// Keeps the lease, and the registration under it.
    fn sign_of_life(&mut self) {
        let result = self.keep_registered();
        self.noted(result);
    }

    fn keep_registered(&mut self) -> Result<(), Fault> {
        if self.kept.lease == 0 || !self.store.keep_alive(self.kept.lease)? {
            let is_lost = self.kept.lease != 0;
            self.kept.lease = self.store.grant(self.settings.lease)?;
            self.is_registered = false;
            if is_lost {
                self.takes_new_from = Instant::now() + self.takes_nothing_for();
                self.wakes_at = Some(self.takes_new_from);
            }
            let _ = self.write_down();
        }
        let key = keys::host(&self.id);
        let there = self.store.get(&key)?;
        let read = |bytes: &[u8]| serde_json::from_slice::<Registration>(bytes).ok();
        let known = there.as_ref().and_then(|value| read(&value.value));
        // An agent that was killed between the two has written down another number than it registered.
        let own = [self.kept.instance, self.kept.instance_before];
        let is_ours = known.as_ref().is_none_or(|known| own.contains(&Some(known.instance)));
        if !is_ours {
            return self.is_a_double();
        }
        if std::mem::take(&mut self.is_doubled) {
            tell!("the other machine with the name {} is gone", self.id);
            self.store.transact(&[], &[Write::Delete(keys::double(&self.id))])?;
            // What was told meanwhile was not looked at.
            self.wakes_at = Some(Instant::now());
        }
        if self.is_registered && known.is_some() {
            return Ok(());
        }
        let instance = match self.is_registered {
            true => self.kept.instance.unwrap_or_else(instance),
            false => instance(),
        };
        let registration = Registration { facts: self.facts.clone(), instance };
        let before = there.map_or(0, |value| value.modified);
        let bytes = serde_json::to_vec(&registration).unwrap_or_default();
        // Written down first: one that is killed in between would not know itself again.
        let before_this = (self.kept.instance, self.kept.instance_before);
        if self.kept.instance != Some(instance) {
            let registered = known.as_ref().map(|known| known.instance);
            self.kept.instance_before = registered.or(self.kept.instance);
            self.kept.instance = Some(instance);
        }
        let _ = self.write_down();
        let compare = [Compare::Modified(key.clone(), before)];
        let is_done = self.store.transact(&compare, &[Write::Put(key, bytes, self.kept.lease)])?;
        match is_done {
            true => self.is_registered = true,
            false => (self.kept.instance, self.kept.instance_before) = before_this,
        }
        Ok(())
    }

    /// Says that another machine has this one's name. The lease may be that one's too: a copy has all that was written
    /// down.
    fn is_a_double(&mut self) -> Result<(), Fault> {
        if self.is_doubled {
            return Ok(());
        }
        tell!(
            "another machine is registered as {}: machines that were copied have the same machine id. This one follows \
             nothing until the other is gone; set Name= in one of them",
            self.id
        );
        (self.is_doubled, self.is_registered) = (true, false);
        self.kept.lease = self.store.grant(self.settings.lease)?;
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let say = Write::Put(keys::double(&self.id), name.into_bytes(), self.kept.lease);
        self.store.transact(&[], &[say]).map(|_| ())
    }

    fn write_down(&self) -> Result<(), String> {
        self.disk.keep(&self.kept).inspect_err(|why| tell!("{why}"))
    }

    /// A disk that does not keep what it is given is tried again.
    fn disk_fails(&mut self, why: String) -> Outcome {
        self.wakes_at = Some(Instant::now() + DISK_REST);
        Outcome::Held(why)
    }

    /// Goes on with what an agent before did not end, copies that moved when it was killed, and has the rules know facts
    /// that are other than before: labels, a kernel.
    fn go_on(&mut self) -> Outcome {
        let Some(applied) = self.kept.memory.applied else { return Outcome::Applied };
        if self.kept.todo.is_none() && self.knows_facts {
            return self.undrained();
        }
        match self.with_facts(applied.revision) {
            Ok(()) => {
                self.knows_facts = true;
                self.undrained()
            }
            Err(why) => {
                let why = one_line(&why);
                tell!("the rules in force do not take what this host is now: {why}");
                self.wakes_at = Some(Instant::now() + FACTS_REST);
                Outcome::Failed(why)
            }
        }
    }

    /// Puts the rules into force again if there is anything to do. If they do not take the facts, those of before stay.
    fn with_facts(&mut self, revision: Digest) -> Result<(), String> {
        let before = self.disk.prelude()?;
        let now = rules::named(&self.disk.files(revision)?).prelude(&self.facts, &self.kept.copies);
        if self.kept.todo.is_none() && before == now {
            return Ok(());
        }
        self.put_in_force(revision).inspect_err(|_| {
            if let Err(why) = self.disk.write_prelude(&before) {
                tell!("{why}");
            }
        })
    }

    /// Reads what is assigned, and does it.
    fn look(&mut self) {
        let result = self.assigned();
        let Some((assigned, release)) = self.noted(result) else { return };
        let result = self.store.get(&keys::drained(&self.id));
        let Some(drained) = self.noted(result) else { return };
        let in_service = self.follow_drain(drained.is_some());
        let policy = release.as_ref().and_then(|release| release.as_ref().ok());
        self.policy = policy.map_or_else(Policy::default, |release| release.policy.clone());
        let decision = decide(&self.kept.memory, assigned, release);
        let outcome = match decision {
            Decision::Unassigned => None,
            Decision::Rest => Some(self.go_on()),
            Decision::Failed(why) => Some(Outcome::Failed(why)),
            Decision::Refuse(why) => {
                let outcome = Outcome::Refused(why.to_string());
                if self.outcome.as_ref().map(|(_, outcome)| outcome) != Some(&outcome) {
                    tell!("{why}");
                }
                Some(outcome)
            }
            Decision::Apply(what) => self.follow(what),
        };
        let outcome = match (outcome, in_service) {
            (Some(Outcome::Applied), Err(why)) => Some(Outcome::Held(why)),
            (outcome, _) => outcome,
        };
        // The report says what the host has followed even if the store assigns it nothing.
        let followed = Assignment { release: self.kept.memory.highest, back: false };
        self.outcome = outcome.map(|outcome| (assigned.unwrap_or(followed), outcome));
        if self.has_copies || !self.kept.copies.is_empty() {
            let result = self.place();
            self.noted(result);
        }
        self.report();
    }

    /// What is assigned, and the release itself if it is new here.
    #[expect(clippy::type_complexity, reason = "what `decide` takes")]
    fn assigned(
        &self,
    ) -> Result<(Option<Assignment>, Option<Result<Release, release::Fault>>), Fault> {
        let assigned = assignment(&self.store, &self.id)?;
        let Some(number) = needs_release(&self.kept.memory, assigned) else {
            return Ok((assigned, None));
        };
        let Some(value) = self.store.get(&keys::release(number))? else {
            return Ok((assigned, None));
        };
        let trusted = read_file(&self.settings.trusted)
            .and_then(|bytes| read_keys(&String::from_utf8_lossy(&bytes)))
            .unwrap_or_else(|why| {
                tell!("{why}: no key is trusted");
                release::Keyring::new()
            });
        Ok((assigned, Some(Signed::open(&value.value, number, &trusted, verify))))
    }

    /// Fetches a revision and applies it. `None`: the store went away in between.
    fn follow(&mut self, what: Applied) -> Option<Outcome> {
        self.kept.memory.begin(what);
        if let Err(why) = self.write_down() {
            return Some(self.disk_fails(why));
        }
        tell!("release {}: revision {}", what.assignment.release, what.revision.short());
        self.outcome = Some((what.assignment, Outcome::Working));
        self.report();
        if !self.disk.has(what.revision) {
            let result = fetch(&self.store, what.revision, self.disk.chunks());
            match self.noted(result)? {
                Ok(files) => {
                    if let Err(why) = self.disk.store(what.revision, &files) {
                        tell!("{why}");
                        return Some(self.disk_fails(why));
                    }
                }
                Err(why) => return Some(self.failed(what, why)),
            }
        }
        // If the manager is away what was asked before stands: it is soon asked to take the rules.
        let _ = self.restarts.refresh(&self.manager);
        self.kept.restarts_before = self.restarts.before(now());
        match self.put_in_force(what.revision) {
            Ok(()) => {
                tell!("release {} is in force", what.assignment.release);
                let before = self.kept.memory.applied.map(|applied| applied.revision);
                self.kept.memory.applied(what);
                let _ = self.write_down();
                let kept: Vec<Digest> = before.into_iter().chain([what.revision]).collect();
                self.disk.forget_but(&kept);
                Some(self.undrained())
            }
            Err(why) => Some(self.failed(what, why)),
        }
    }

    fn failed(&mut self, what: Applied, why: String) -> Outcome {
        let why = one_line(&why);
        tell!("release {} did not do: {why}", what.assignment.release);
        self.kept.memory.failed(what, why.clone());
        let _ = self.write_down();
        Outcome::Failed(why)
    }

    /// Has the manager take rules. If it does not, those of before lie there again.
    fn put_in_force(&mut self, revision: Digest) -> Result<(), String> {
        let pending = self.kept.todo.clone();
        self.lay_out(revision)?;
        let difference = self.manager.difference().and_then(|mut difference| {
            self.bound(revision, &mut difference)?;
            self.kept.todo = Some(self.kept.todo.take().unwrap_or_default().and(difference));
            // What is not written down is forgotten by one that is killed.
            self.disk.keep(&self.kept)?;
            self.drain().and_then(|()| self.manager.reload())
        });
        if let Err(why) = difference {
            match self.kept.memory.applied {
                Some(before) => self.lay_out(before.revision)?,
                None => self.disk.switch(None)?,
            }
            self.kept.todo = pending;
            self.carry_out();
            // What was drained for this takes up its work again, whatever comes of it.
            let _ = self.undrain();
            return Err(why);
        }
        self.carry_out();
        Ok(())
    }

    /// Has no more units of an application restarted at once than the release lets be unavailable.
    fn bound(&self, revision: Digest, todo: &mut Todo) -> Result<(), String> {
        if self.policy.max_unavailable_of.is_empty() {
            return Ok(());
        }
        let files = self.disk.files(revision)?;
        let prelude = rules::named(&files).prelude(&self.facts, &self.kept.copies);
        let made =
            Evaluated::new(self.disk.directory_of(revision), &files, 1).evaluate(&prelude)?;
        let apps_of = made.into_iter().map(|(path, file)| (path, file.apps)).collect();
        todo.bound(&self.policy, &apps_of);
        Ok(())
    }

    /// Does what the rules in force still ask for.
    fn carry_out(&mut self) {
        let Some(mut todo) = self.kept.todo.take() else {
            let _ = self.write_down();
            return;
        };
        let memory = &self.kept.memory;
        let followed = memory.begun.or(memory.applied).map(|what| what.assignment);
        // A job that never ends must not keep this host from going back. A store that is away says nothing.
        let (store, id) = (&self.store, &self.id);
        let is_wanted = || match assignment(store, id) {
            Ok(assigned) => followed.is_none() || assigned.is_none() || assigned == followed,
            Err(_) => true,
        };
        let (disk, kept) = (&self.disk, &mut self.kept);
        let done = self.manager.carry_out(&mut todo, &is_wanted, |left| {
            kept.todo = Some(left.clone());
            if let Err(why) = disk.keep(kept) {
                tell!("{why}");
            }
        });
        self.kept.todo = done.is_err().then_some(todo);
        if let Err(why) = done {
            tell!("{why}; the rest is done afterwards");
            self.wakes_at = Some(Instant::now() + MANAGER_REST);
        }
        let _ = self.write_down();
    }

    /// Lays rules out for the manager, with what they know of this host.
    fn lay_out(&mut self, revision: Digest) -> Result<(), String> {
        let files = self.disk.files(revision)?;
        self.has_copies = rules::may_have_copies(&files);
        self.disk.write_prelude(&rules::named(&files).prelude(&self.facts, &self.kept.copies))?;
        self.disk.switch(Some(revision))
    }

    /// Has the drain command relieve the host of its work when an operator takes it out of service, and give it back when
    /// he puts it into service again. If it fails it is tried again.
    fn follow_drain(&mut self, is_out: bool) -> Result<(), String> {
        if self.kept.is_out_of_service != is_out {
            tell!(
                "an operator has {} service",
                if is_out { "taken this host out of" } else { "put this host into" }
            );
            (self.kept.is_out_of_service, self.kept.is_relieved) = (is_out, false);
            let _ = self.write_down();
            if !is_out && self.kept.todo.is_none() {
                return self.undrain();
            }
        }
        if !is_out || self.kept.is_relieved {
            return Ok(());
        }
        self.relieve().inspect_err(|why| {
            tell!("{why}");
            self.wakes_at = Some(Instant::now() + DRAIN_REST);
        })?;
        self.kept.is_relieved = true;
        let _ = self.write_down();
        Ok(())
    }

    /// Has the host relieved of its work for a release, if the settings say how.
    fn drain(&mut self) -> Result<(), String> {
        // One that is out of service is relieved of it, or will be.
        if self.kept.is_out_of_service { Ok(()) } else { self.relieve() }
    }

    fn relieve(&mut self) -> Result<(), String> {
        if self.settings.drain.is_none() {
            return Ok(());
        }
        // One that is killed meanwhile knows that the host has to take up its work again.
        self.kept.is_drained = true;
        self.disk.keep(&self.kept)?;
        self.run_drain_command("drain")
    }

    /// Has it take up its work again if it was relieved of it. If that fails it is tried again.
    fn undrain(&mut self) -> Result<(), String> {
        if !self.kept.is_drained || self.kept.is_out_of_service {
            return Ok(());
        }
        let done = self.run_drain_command("undrain").inspect_err(|why| tell!("{why}"));
        match &done {
            Ok(()) => {
                self.kept.is_drained = false;
                let _ = self.write_down();
            }
            Err(_) => self.wakes_at = Some(Instant::now() + DRAIN_REST),
        }
        done
    }

    /// What comes of rules that are in force once all that they ask for is done.
    fn undrained(&mut self) -> Outcome {
        match self.kept.todo.is_none().then(|| self.undrain()) {
            Some(Err(why)) => Outcome::Held(why),
            _ => Outcome::Applied,
        }
    }

    fn run_drain_command(&self, word: &str) -> Result<(), String> {
        let Some((program, words)) =
            self.settings.drain.as_ref().and_then(|words| words.split_first())
        else {
            return Ok(());
        };
        let mut command = Command::new(program);
        command.args(words).arg(word).stdin(Stdio::null());
        let wrong = |what: &dyn std::fmt::Display| format!("{program} {word}: {what}");
        let mut child = command.spawn().map_err(|e| wrong(&e))?;
        let end = Instant::now() + DRAIN_MAX;
        loop {
            match child.try_wait().map_err(|e| wrong(&e))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(wrong(&status)),
                None if Instant::now() > end => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(wrong(&format!("it took more than {} s", DRAIN_MAX.as_secs())));
                }
                None => std::thread::park_timeout(Duration::from_millis(100)),
            }
        }
    }

    /// Long enough for others that lost their leases, too, to claim what they still run.
    fn takes_nothing_for(&self) -> Duration {
        Duration::from_secs(self.settings.lease / 3 + 1)
    }

    /// Containers with copies. To know them all rules are evaluated, so it is kept.
    fn replicated(&mut self, revision: Digest) -> Result<Vec<Replicated>, String> {
        let files = self.disk.files(revision)?;
        let prelude = rules::named(&files).prelude(&self.facts, &Copies::new());
        let key = Digest::of_parts([&revision.to_string().into_bytes()[..], prelude.as_bytes()]);
        if let Some((_, apps)) = self.replicated.as_ref().filter(|(known, _)| *known == key) {
            return Ok(apps.clone());
        }
        let apps =
            Evaluated::new(self.disk.directory_of(revision), &files, 1).replicated(&prelude)?;
        self.replicated = Some((key, apps.clone()));
        Ok(apps)
    }

    /// Claims copies that are free, gives up those that are not this host's, and has the rules make what it holds.
    fn place(&mut self) -> Result<(), Fault> {
        let Some(revision) = self.disk.current() else { return Ok(()) };
        let apps = match self.replicated(revision) {
            Ok(apps) => apps,
            Err(why) => {
                tell!("copies stay where they are: {why}");
                return Ok(());
            }
        };
        let (_, hosts) = self.store.list(keys::HOSTS)?;
        let (_, claims) = self.store.list(keys::CLAIMS)?;
        let (_, drained) = self.store.list(keys::DRAINED)?;
        let drained: BTreeSet<&str> =
            drained.iter().filter_map(|value| keys::last(&value.key, keys::DRAINED)).collect();
        let place = |value: &crate::store::Value| {
            let id: HostId = keys::last(&value.key, keys::HOSTS)?.parse().ok()?;
            let facts = serde_json::from_slice::<Registration>(&value.value).ok()?.facts;
            let is_drained = drained.contains(id.as_str());
            Some((id, Place { capacity: facts.capacity, labels: facts.labels, is_drained }))
        };
        let places = hosts.iter().filter_map(place).collect();
        let claims: Vec<Claim> = claims.iter().filter_map(read_claim).collect();
        let seen = Seen { apps: &apps, places: &places, claims: &claims };
        let takes_new = Instant::now() >= self.takes_new_from;
        let moves = placement::moves(&self.id, seen, &self.kept.copies, takes_new);
        if moves.run != self.kept.copies {
            let before = std::mem::replace(&mut self.kept.copies, moves.run);
            if let Err(why) = self.put_in_force(revision) {
                tell!("copies: {why}");
                self.kept.copies = before;
                return Ok(());
            }
            self.undrained();
        }
        // What is given up runs no more; what is claimed runs when the claim has been seen to be the oldest. What the rules
        // in force still ask for may be to stop the one, or to start the other.
        let is_done = self.kept.todo.is_none();
        for (app, slot) in moves.give_up.into_iter().filter(|_| is_done) {
            self.store.transact(&[], &[Write::Delete(keys::claim(&self.id, &app, slot))])?;
        }
        for (app, slot) in moves.taken_over.into_iter().filter(|_| is_done) {
            let key = keys::claim(&self.id, &app, slot);
            let compare = [Compare::Is(key.clone(), TAKES_OVER.into())];
            self.store.transact(&compare, &[Write::Put(key, Vec::new(), self.kept.lease)])?;
        }
        if !self.is_registered {
            return Ok(());
        }
        for (value, copies) in [("", moves.claim), (TAKES_OVER, moves.take_over)] {
            for (app, slot) in copies {
                let key = keys::claim(&self.id, &app, slot);
                let compare = [Compare::Modified(key.clone(), 0)];
                self.store.transact(&compare, &[Write::Put(key, value.into(), self.kept.lease)])?;
            }
        }
        Ok(())
    }

    /// Reports if something is other than it was.
    fn report(&mut self) {
        if self.is_doubled || self.is_away {
            return;
        }
        let Some((assignment, outcome)) = self.outcome.clone() else { return };
        match self.manager.health(self.health.as_ref()) {
            Ok(health) => self.health = Some(health),
            Err(why) if self.health.is_none() => return tell!("no report: {why}"),
            // What it said last stands until it is back.
            Err(_) => {}
        }
        let Some(health) = self.health.clone() else { return };
        let (restarted, more_restarted) = match self.restarts.refresh(&self.manager) {
            Ok(()) => self.restarts.report(&self.manager, &self.kept.restarts_before, now()),
            // What was said last stands.
            Err(_) => self
                .reported
                .as_ref()
                .map(|report| (report.restarted.clone(), report.more_restarted))
                .unwrap_or_default(),
        };
        let (hidden, more_hidden) = self.restarts.hidden();
        let report = Report {
            release: assignment.release,
            back: assignment.back,
            outcome,
            applied: self.kept.memory.applied.map(|applied| applied.revision),
            units: health.units,
            failed: health.failed,
            causes: health.causes,
            more_causes: 0,
            restarted,
            more_restarted,
            hidden,
            more_hidden,
            highest: self.kept.memory.highest,
        };
        let report = report.bounded();
        if self.reported.as_ref() == Some(&report) {
            return;
        }
        let bytes = serde_json::to_vec(&report).unwrap_or_default();
        let result = self.store.put(&keys::report(&self.id), bytes);
        if self.noted(result).is_some() {
            self.reported = Some(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units that are assigned by a label would be stopped at once.
    #[test]
    fn a_file_of_labels_that_is_gone_is_a_fault() {
        let scratch = warren_testkit::Scratch::new("agent-labels");
        let file = scratch.path("labels");
        let settings =
            |needs_labels| Settings { labels: file.clone(), needs_labels, ..Settings::default() };
        assert_eq!(labels(&settings(false), false), Ok(BTreeMap::new()));
        for (needs_labels, had_labels, why) in [
            (true, false, "which Labels= names"),
            (true, true, "which Labels= names"),
            (false, true, "though this host had labels before"),
        ] {
            let expected = format!("{} is not there, {why}: units that", file.display());
            let fault = labels(&settings(needs_labels), had_labels).expect_err("a fault");
            assert!(fault.starts_with(&expected), "{fault}");
        }
        scratch.write("labels", "");
        assert_eq!(labels(&settings(true), true), Ok(BTreeMap::new()));
        scratch.write("labels", "role");
        let fault = labels(&settings(true), true).expect_err("a fault");
        assert_eq!(fault, format!("{}: line 1: no '=' in it", file.display()));
    }
}
