//! Listening sockets: opened by their units' settings, kept by init over restarts of the manager.
//!
//! What is the kernel's alone, or lies on the very file system of run-time files, is opened and removed on
//! the loop; anything else by threads (`sockets/beside`).

use crate::base::patience::Patient;
use crate::socket::deferred::Beside;
use crate::socket::flush::Flushes;
use crate::socket::opening;
use crate::socket::poll_limits::PollLimits;
use crate::socket::shortage::Shortage;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::settings::Compiled;
use warren_sys::eventfd::EventFd;
use warren_sys::{fdpass, socket};

/// One open socket or FIFO.
pub struct Open {
    /// It.
    pub fd: OwnedFd,
    /// The name that services know it by.
    pub name: String,
}

/// All open sockets, by unit.
pub struct Sockets {
    pub(crate) open: BTreeMap<UnitId, Vec<Open>>,
    /// Those in which traffic is looked for.
    watched: BTreeSet<UnitId>,
    pub(crate) beside: Beside,
    pub(crate) flushes: Flushes,
    /// What init keeps for those of which something is removed beside the loop that their sockets are known
    /// by: once these are closed, nothing else tells the next manager that they were open.
    pub(crate) left: BTreeMap<UnitId, String>,
    pub(crate) closing: Closing,
    pub(crate) shortage: Shortage,
    /// How often traffic may be found in them.
    pub(crate) poll_limits: PollLimits,
    /// The directory of run-time files.
    runtime: PathBuf,
}

/// An address is free when init has closed its socket there too, which it says by the answer to a ping.
#[derive(Default)]
pub(crate) struct Closing {
    /// The ping behind what it was told to close last, until that is answered.
    pub(crate) asked: Option<u64>,
    /// Who is to listen then, and behind which ping.
    pub(crate) waiting: VecDeque<(u64, EffectId, UnitId, Arc<Compiled>)>,
}

impl Closing {
    /// Who waited for this ping.
    pub(crate) fn answered(&mut self, number: u64) -> Vec<(EffectId, UnitId, Arc<Compiled>)> {
        self.asked = self.asked.filter(|&asked| asked > number);
        let due = self.waiting.partition_point(|(asked, ..)| *asked <= number);
        self.waiting
            .drain(..due)
            .map(|(_, effect, unit, settings)| (effect, unit, settings))
            .collect()
    }
}

/// The name under which init keeps a socket.
pub fn stored_name(unit: &str, index: usize) -> String {
    format!("socket/{unit}/{index}")
}

/// The unit and index of such a name.
pub fn parse_stored_name(name: &str) -> Option<(&str, usize)> {
    let (unit, index) = name.strip_prefix("socket/")?.rsplit_once('/')?;
    Some((unit, index.parse().ok()?))
}

/// Begins the name under which init keeps that something is to be removed of a unit's sockets.
pub const LEFT: &str = "left-of-socket/";

impl Sockets {
    /// None is open. The loop is woken through `wake`; what lies on the file system of `runtime` keeps nobody
    /// waiting.
    pub fn new(wake: Arc<EventFd>, runtime: &Path) -> Sockets {
        Sockets {
            open: BTreeMap::new(),
            watched: BTreeSet::new(),
            beside: Beside::new(wake.clone()),
            flushes: Flushes::new(wake),
            left: BTreeMap::new(),
            closing: Closing::default(),
            shortage: Shortage::default(),
            poll_limits: PollLimits::default(),
            runtime: runtime.to_owned(),
        }
    }

    /// Takes up a socket that init kept.
    pub fn take_up(&mut self, unit: UnitId, fd: OwnedFd, name: String) {
        self.open.entry(unit).or_default().push(Open { fd, name });
    }

    /// Takes up what init keeps of a unit whose sockets the last manager had closed.
    pub fn take_up_left(&mut self, unit: UnitId, name: String) {
        self.left.insert(unit, name);
    }

    /// Takes note whether traffic is looked for in a unit's sockets; false if that is as it was.
    pub(crate) fn set_watched(&mut self, unit: UnitId, on: bool) -> bool {
        match on {
            true => self.watched.insert(unit),
            false => self.watched.remove(&unit),
        }
    }

    /// Whether traffic is looked for in a unit's sockets.
    pub(crate) fn is_watched(&self, unit: UnitId) -> bool {
        self.watched.contains(&unit)
    }

    /// What is open for a unit.
    pub fn get(&self, unit: UnitId) -> &[Open] {
        self.open.get(&unit).map_or(&[], |open| open)
    }

    /// The names and descriptors that a service gets from these socket units, in order.
    pub fn for_service(&self, units: &[UnitId]) -> Vec<(String, BorrowedFd<'_>)> {
        let all = units.iter().flat_map(|unit| self.get(*unit));
        all.map(|open| (open.name.clone(), open.fd.as_fd())).collect()
    }

    /// Whether nothing for the unit waits for others, or has to wait for what does.
    pub(crate) fn is_near(&self, unit: UnitId, settings: &Compiled) -> bool {
        !self.beside.is_at(unit) && opening::is_near(settings.socket(), &self.runtime)
    }

    /// Removes the links of a unit, and with `listed` what its sockets are known by; true if that is done
    /// beside the loop.
    pub(crate) fn remove(&mut self, unit: UnitId, settings: Arc<Compiled>, listed: bool) -> bool {
        let config = settings.socket();
        if !listed && config.symlinks.is_empty() {
            return false;
        }
        let is_near = self.is_near(unit, &settings);
        match is_near {
            true => opening::remove_all(config, listed),
            false => self.beside.remove(unit, settings, listed),
        }
        listed && !is_near
    }

    /// Those of [`Sockets::left`] of which all has been removed or is given up.
    pub(crate) fn no_longer_left(&mut self) -> Vec<String> {
        if self.left.is_empty() {
            return Vec::new();
        }
        let removing: BTreeSet<UnitId> = self.beside.removing().collect();
        self.left.extract_if(.., |unit, _| !removing.contains(unit)).map(|(_, name)| name).collect()
    }

    /// Closes a unit's sockets; returns the indices of those that init is to close too, and whether something
    /// of them is removed beside the loop. If it `ends` soon by itself, those who connect are refused without
    /// it. What `remove` lists is removed.
    pub(crate) fn close(
        &mut self,
        unit: UnitId,
        remove: Option<Arc<Compiled>>,
        ends: bool,
    ) -> (Vec<usize>, bool) {
        self.watched.remove(&unit);
        self.poll_limits.forget(unit);
        let open = self.open.remove(&unit).unwrap_or_default();
        let refuses: Vec<bool> =
            open.iter().map(|open| ends && socket::is_listening(open.fd.as_fd())).collect();
        let closed = open.iter().zip(&refuses).filter(|(_, refuses)| **refuses);
        closed.for_each(|(open, _)| fdpass::hang_up(open.fd.as_fd()));
        let listed = !open.is_empty() || self.left.contains_key(&unit);
        let leaves = remove.is_some_and(|settings| self.remove(unit, settings, listed));
        ((0..open.len()).filter(|&index| !refuses[index]).collect(), leaves)
    }

    /// Has done beside the loop what is to be done there.
    pub fn begin(&mut self) {
        self.beside.begin();
    }

    /// Units of which something is removed beside the loop and may still be there.
    pub fn removing(&self) -> impl Iterator<Item = UnitId> + '_ {
        self.beside.removing()
    }
}

impl Patient for Sockets {
    // How long nothing is to be done about what is late, if something may be.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        self.beside.patience_left(now)
    }

    fn relieve(&self, now: Instant) {
        self.beside.relieve(now);
    }
}
