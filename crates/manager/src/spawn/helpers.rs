//! The pool of exec helpers: requests go to the helper with the fewest under way; the rest wait.
//!
//! After a restart of the manager the helpers are asked to say when they have done everything that
//! was sent before: what they answered meanwhile is still in their sockets, so no spawn is lost or
//! done twice. One that makes a process just then may be held up for long, by a program on a file
//! system whose server does not answer, or whose automount waits for this very manager; so it is
//! waited for no longer than a moment, and what it may have been asked is settled when it answers.
//! At no other time either does anybody wait long behind one that is held up: init ends it and starts
//! another, and what it was at goes on alone ([`held`]).
//!
//! A helper may be of another program than this one: after an upgrade init starts what is on the
//! disk. So each is asked first, and gets no spawn before it has said that it speaks our language.

pub mod held;
mod kept;
mod long;
mod passed;
#[cfg(test)]
mod tests;

use crate::base::patience::Patient;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use warren_core::model::ids::EffectId;
use warren_init::protocol::birth::Birth;
use warren_init::protocol::exec::{
    ExecSpec, FromHelper, HelperReply, LARGE, MANY, REQUEST_FDS_MAX, SpawnError, SpawnReply,
    SpawnRequest, Sync, Synced,
};
use warren_init::protocol::{ExecStep, PACKET_BYTES_MAX, encode};
use warren_sys::fdpass::Credentials;
use warren_sys::{Result, fdpass, memfd, process};

use self::held::Held;
pub use self::kept::KeptHelpers;
pub use self::passed::Passed;

/// Spawns that one helper has under way at most.
const IN_FLIGHT_MAX: usize = 8;

/// Spawns that wait for a helper at most; the machine asks for one per unit, so this is memory
/// for every unit that can be.
const WAITING_MAX: usize = 1 << 20;

/// With so many that wait nothing else is made ready: enough for helpers to have something to do until the end of a turn.
const READY_MAX: usize = 128;

/// A new manager waits so long for all that helpers answered to the last one. Nobody else is
/// answered before.
const SYNC_WAIT: Duration = Duration::from_millis(50);

/// With somebody behind it, a helper is held up when a spawn takes so long; it takes a hundredth of
/// it otherwise. Less while processes are held up already: thousands may be, by one dead server.
const PATIENCE: Duration = Duration::from_millis(100);

/// The least of that, as a part of it by halves.
const PATIENCE_HALVED_MAX: usize = 4;

/// A spawn over which helpers ended is tried so often in all.
const DEATHS_MAX: u8 = 2;

/// A spawn that held up helpers before there was a process is given up when they were held up for so
/// long in all. Locks of the kernel that everybody wants are had sooner, a server that is gone is not.
const HOLD_UP_MAX: Duration = Duration::from_secs(10);

/// Why there is nobody to start a process.
pub const FOREIGN: &str = "warren-exec is of another version of Warrener than warrend";

/// A spawn that is to be sent.
struct Waiting {
    id: EffectId,
    packet: Vec<u8>,
    fds: Vec<Passed>,
    /// Helpers that ended by themselves over it.
    deaths: u8,
    /// Helpers that were ended over it.
    hold_ups: u32,
    /// How long they were at it.
    held_up: Duration,
    /// It takes long, though nothing holds it up: files of its directories change hands.
    is_long: bool,
}

/// A spawn that was sent, with what is needed to send it again.
pub struct Sent {
    number: u64,
    spawn: Waiting,
}

/// What a helper is good for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It was asked, or is to be asked, whether it speaks our language, and init is to keep the
    /// memory of how far it is.
    Asked,
    /// It takes spawns.
    Ready,
    /// Its end is on its way.
    Ending,
    /// It does not speak our language.
    Foreign,
}

struct Helper {
    socket: Option<OwnedFd>,
    standing: Standing,
    under_way: VecDeque<Sent>,
    /// The question that it has not answered: what comes before answers the last incarnation.
    owes: Option<Sync>,
    /// It is to end when it has answered that.
    ends_then: bool,
    pid: Option<i32>,
    /// How far it is with the process that it makes; it has one when it is ready.
    birth: Option<Rc<Birth>>,
    /// The same, as init is to keep it.
    to_keep: Option<OwnedFd>,
    /// Since when it has been at what it is at.
    since: Option<Instant>,
    /// What it had done when that was last asked: [`Birth::done`].
    done: u64,
    /// It is to end, and gets nothing more to do.
    given_up: Option<GivenUp>,
}

/// Init was asked to end a helper.
#[derive(Clone, Copy)]
struct GivenUp {
    at: Instant,
    /// After so much of it; none where nothing held it up but those behind it had to go on.
    patience: Duration,
    /// What init says when it has killed it.
    answer: Option<u64>,
}

/// What a helper said.
pub enum Said {
    /// A spawn is done; the pidfd comes with a success.
    Spawned(SpawnReply, Option<OwnedFd>),
    /// The same of a spawn that the last incarnation asked for.
    Earlier(SpawnReply, Option<OwnedFd>),
    /// It has answered all that the last incarnation asked for.
    Settled,
    /// It is of another program. These spawns have nobody left who could do them.
    Foreign(Vec<EffectId>),
    /// It speaks our language: see [`Helpers::take_to_keep`].
    Keep,
    /// The helper is gone. What it had not begun is sent by [`Helpers::send_waiting`].
    Lost(Lost),
}

/// What went with a helper. It does one spawn after the other, so only the oldest can have begun.
#[derive(Default)]
pub struct Lost {
    /// It was at this spawn.
    pub begun: Option<Sent>,
    /// How far that one was.
    pub birth: Option<Rc<Birth>>,
    /// What it was heard by: init has it too, so that it goes on being ready until it is unwatched.
    pub socket: Option<OwnedFd>,
    /// It had not answered all that the last incarnation asked for.
    pub owed: bool,
    /// It was ended because it was held up, for so long.
    pub held_up: Option<Duration>,
}

impl Sent {
    /// Which spawn.
    pub fn id(&self) -> EffectId {
        self.spawn.id
    }

    /// Which in the order of sending.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// What helpers answered to the last incarnation.
#[derive(Default)]
pub struct Answered {
    /// By spawn.
    pub replies: BTreeMap<EffectId, (SpawnReply, Option<OwnedFd>)>,
    /// How far they, and those before them, were with what they have not answered.
    pub births: Vec<Rc<Birth>>,
    /// There may be more, of helpers that are gone or could not be understood.
    pub is_partial: bool,
}

/// All helpers.
pub struct Helpers {
    helpers: Vec<Helper>,
    waiting: VecDeque<Waiting>,
    buffer: Vec<u8>,
    /// Spawns sent so far.
    sent: u64,
    /// What helpers that were ended were at.
    pub held: Held,
    /// Pids of helpers that are gone and of whom init keeps something.
    unneeded: Vec<i32>,
    /// Spawns that could not be sent, and why.
    refused: Vec<(EffectId, String)>,
}

impl Helpers {
    /// The pool with the sockets that init handed over.
    pub fn new(sockets: Vec<OwnedFd>) -> Helpers {
        Helpers {
            helpers: sockets.into_iter().map(|socket| Helper::new(Some(socket))).collect(),
            waiting: VecDeque::new(),
            buffer: vec![0; PACKET_BYTES_MAX],
            sent: 0,
            held: Held::default(),
            unneeded: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.helpers.len()
    }

    /// Whether helper `index` has nothing to answer.
    pub fn is_idle(&self, index: usize) -> bool {
        self.helpers.get(index).is_none_or(|helper| helper.under_way.is_empty())
    }

    /// Whether a helper has not answered yet all that the last incarnation asked for.
    pub fn owe(&self) -> bool {
        self.helpers.iter().any(|helper| helper.owes.is_some())
    }

    /// Whether a helper is no older than a moment of CLOCK_MONOTONIC, in nanoseconds: what another
    /// one in its place was asked for since then may have been done without an answer.
    pub fn is_replaced_since(&self, since_ns: u64) -> bool {
        let pids = self.helpers.iter().filter_map(|helper| helper.pid);
        pids.into_iter().any(|pid| process::is_younger(pid, since_ns))
    }

    /// The number of the oldest spawn that is under way; 0 while there may be earlier ones.
    pub fn oldest_under_way(&self) -> Option<u64> {
        if self.owe() {
            return Some(0);
        }
        let under_way = self.helpers.iter().filter_map(|h| h.under_way.front());
        under_way.map(|sent| sent.number).chain(self.held.oldest()).min()
    }

    /// The number of the spawn that was sent last, if any is under way.
    pub fn last_sent(&self) -> Option<u64> {
        self.oldest_under_way().map(|_| self.sent)
    }

    /// The socket of helper `index`, while it lives.
    pub fn socket(&self, index: usize) -> Option<BorrowedFd<'_>> {
        Some(self.helpers.get(index)?.socket.as_ref()?.as_fd())
    }

    /// Takes the socket of a helper that was started anew, and what went with the one before, if
    /// nothing was heard of its end: what it made may hold its socket open.
    pub fn replace(&mut self, index: usize, socket: OwnedFd) -> Option<Lost> {
        while self.helpers.len() <= index {
            self.helpers.push(Helper::new(None));
        }
        let lost = self.helpers[index].socket.is_some().then(|| self.lose(index));
        self.helpers[index] = Helper::new(Some(socket));
        self.ask(index);
        lost
    }

    /// Helpers that may be held up while somebody waits behind them, and the spawn that each is at.
    pub fn late(&self, now: Instant) -> Vec<(usize, Option<EffectId>)> {
        let is_late = |helper: &&Helper| {
            let patience = self.patience(helper);
            self.waits_behind(helper) && helper.since.is_some_and(|since| now >= since + patience)
        };
        let row =
            |(index, helper): (usize, &Helper)| (index, helper.under_way.front().map(Sent::id));
        self.helpers.iter().enumerate().filter(|(_, helper)| is_late(helper)).map(row).collect()
    }

    /// Whether nothing holds helper `index` up but want of a processor, its own or the manager's.
    pub fn is_busy(&self, index: usize) -> bool {
        let helper = &self.helpers[index];
        let said = |socket: &OwnedFd| fdpass::wait_readable(socket.as_fd(), Duration::ZERO);
        helper.pid.is_some_and(process::is_runnable)
            || helper.socket.as_ref().is_some_and(|socket| said(socket).unwrap_or(false))
    }

    /// Has patience with helper `index` once more.
    pub fn go_on(&mut self, index: usize, now: Instant) {
        let helper = &mut self.helpers[index];
        (helper.since, helper.given_up) = (Some(now), None);
    }

    /// Helper `index` is to be ended; false if too much is held already: then patience with it goes on. What
    /// `goes_on` was not held up.
    pub fn give_up(&mut self, index: usize, goes_on: bool, now: Instant) -> bool {
        let may_be = self.held.count() < held::HELD_MAX;
        match may_be {
            true => {
                let patience = self.patience(&self.helpers[index]);
                let patience = if goes_on { Duration::ZERO } else { patience };
                let given_up = GivenUp { at: now, patience, answer: None };
                self.helpers[index].given_up = Some(given_up);
            }
            false => self.go_on(index, now),
        }
        may_be
    }

    /// Init will say this number when it has killed all that were given up so far.
    pub fn killed_by(&mut self, number: u64) {
        let given_up = self.helpers.iter_mut().filter_map(|helper| helper.given_up.as_mut());
        given_up.for_each(|given_up| _ = given_up.answer.get_or_insert(number));
    }

    /// Init has said this number. Who was killed before it begins with nothing more, even if the kernel
    /// holds it: it does not come back to its program, and clone3(2) fails with SIGKILL pending. So what
    /// its memory does not know was not begun and never is, and others do it.
    pub fn take_back(&mut self, number: u64) {
        let is_killed = |helper: &&mut Helper| {
            let answer = helper.given_up.and_then(|given_up| given_up.answer);
            answer.is_some_and(|answer| answer <= number)
        };
        let behind = self.helpers.iter_mut().filter(is_killed).flat_map(Helper::take_not_begun);
        for sent in behind.collect::<Vec<_>>().into_iter().rev() {
            self.waiting.push_front(sent.spawn);
        }
        self.send_waiting();
    }

    fn waits_behind(&self, helper: &Helper) -> bool {
        let spawns = helper.under_way.len();
        let waits = helper.owes.is_some() || spawns > 1 || (spawns > 0 && !self.waiting.is_empty());
        waits && helper.given_up.is_none()
    }

    /// Each time that a spawn has held a helper up it gets longer, so that it comes to its end when
    /// all that it wants is a lock.
    fn patience(&self, helper: &Helper) -> Duration {
        match helper.hold_ups() {
            0 => PATIENCE / (1 << self.held.count().min(PATIENCE_HALVED_MAX)),
            hold_ups => PATIENCE * (1 + hold_ups),
        }
    }

    /// Has a spawn done again over which a helper ended. The text says why that is not done.
    pub fn again(
        &mut self,
        begun: Sent,
        held_up: Option<Duration>,
    ) -> Option<(EffectId, &'static str)> {
        let mut spawn = begun.spawn;
        let Some(held_up) = held_up else {
            spawn.deaths += 1;
            if spawn.deaths >= DEATHS_MAX {
                return Some((spawn.id, "exec helpers died over it"));
            }
            self.waiting.push_front(spawn);
            return None;
        };
        spawn.hold_ups += 1;
        spawn.held_up += held_up;
        if spawn.held_up >= HOLD_UP_MAX {
            return Some((spawn.id, "a file system that it needs does not respond"));
        }
        // Others first: it may take long again.
        self.waiting.push_back(spawn);
        None
    }

    /// Asks helper `index` whether it speaks our language; it gets no spawn before.
    pub fn ask(&mut self, index: usize) {
        let Some(helper) = self.helpers.get_mut(index) else { return };
        let Some(socket) = &helper.socket else { return };
        helper.standing = match fdpass::try_send(socket.as_fd(), &Sync(0).packet(), &[]) {
            Ok(()) => Standing::Asked,
            Err(_) => Standing::Ending,
        };
    }

    /// Helpers that init is to keep something of, with pid and memory; then [`Helpers::is_kept`].
    pub fn take_to_keep(&mut self) -> Vec<(usize, i32, OwnedFd)> {
        let helpers = self.helpers.iter_mut().enumerate();
        let row = |(index, helper): (usize, &mut Helper)| {
            Some((index, helper.pid?, helper.to_keep.take()?))
        };
        helpers.filter_map(row).collect()
    }

    /// Helper `index` may be asked for spawns.
    pub fn is_kept(&mut self, index: usize) {
        let Some(helper) = self.helpers.get_mut(index) else { return };
        self.unneeded.retain(|&pid| Some(pid) != helper.pid);
        if helper.standing == Standing::Asked {
            helper.standing = Standing::Ready;
        }
    }

    /// Takes what init kept of the last incarnation's helpers, and listens to those that are gone:
    /// processes that they made may be on the way to their programs. The slots to be watched.
    pub fn take_kept(&mut self, kept: KeptHelpers) -> (Vec<Rc<Birth>>, Vec<u32>) {
        let (mut births, mut slots) = (Vec::new(), Vec::new());
        for (pid, kept) in kept.0 {
            self.unneeded.push(pid);
            births.extend(kept.birth.map(Rc::new));
            if let Some(socket) = kept.socket.filter(|_| !held::is_helper(pid)) {
                let mut fds = Vec::new();
                // What it has answered is in its memory, too.
                while fdpass::recv(socket.as_fd(), &mut self.buffer, &mut fds, false)
                    .is_ok_and(|received| received.bytes > 0)
                {
                    fds.clear();
                }
                slots.push(self.held.take_socket(socket));
            }
        }
        (births, slots)
    }

    /// Helpers of whom init need not keep anything once all is written down that is known now.
    pub fn take_unneeded(&mut self) -> Vec<i32> {
        match self.owe() || self.held.count() > 0 {
            true => Vec::new(),
            false => std::mem::take(&mut self.unneeded),
        }
    }

    /// Has helper `index` end, when it has done what was sent to it: init starts the program that
    /// is on the disk in its place.
    pub fn dismiss(&mut self, index: usize) {
        let Some(helper) = self.helpers.get_mut(index) else { return };
        helper.ends_then = helper.owes.is_some();
        if let Some(socket) = helper.socket.as_ref().filter(|_| helper.owes.is_none()) {
            fdpass::hang_up(socket.as_fd());
            helper.standing = Standing::Ending;
        }
    }

    /// Whether helper `index` does not speak our language.
    pub fn is_foreign(&self, index: usize) -> bool {
        self.helpers.get(index).is_some_and(|helper| helper.standing == Standing::Foreign)
    }

    /// After a restart: collects what the helpers answered to the last incarnation.
    ///
    /// `number` is another for each incarnation: an answer to the last one's question may still be
    /// on its way.
    pub fn synchronise(&mut self, number: u64) -> Answered {
        let mut answered = Answered::default();
        let until = Instant::now() + SYNC_WAIT;
        for helper in &mut self.helpers {
            let sent = helper
                .socket
                .as_ref()
                .map(|socket| fdpass::try_send(socket.as_fd(), &Sync(number).packet(), &[]));
            helper.owes = sent.is_some_and(|sent| sent.is_ok()).then_some(Sync(number));
            helper.since = helper.owes.map(|_| Instant::now());
            answered.is_partial |= helper.owes.is_none();
        }
        for index in 0..self.helpers.len() {
            let collected = self.collect(index, until, &mut answered.replies);
            if !matches!(collected, Ok(true)) {
                answered.is_partial = true;
                self.helpers[index].owes.take_if(|_| collected.is_err());
            }
        }
        answered
    }

    /// What helper `index` answered until then; false if there was more that is lost.
    fn collect(
        &mut self,
        index: usize,
        until: Instant,
        replies: &mut BTreeMap<EffectId, (SpawnReply, Option<OwnedFd>)>,
    ) -> Result<bool> {
        let Helpers { helpers, buffer, .. } = self;
        let helper = &mut helpers[index];
        let (Some(socket), Some(question)) = (&helper.socket, helper.owes) else { return Ok(true) };
        let mut all = true;
        loop {
            let mut fds = Vec::new();
            let left = until.saturating_duration_since(Instant::now());
            if !fdpass::wait_readable(socket.as_fd(), left)? {
                return Ok(all);
            }
            let received = fdpass::recv(socket.as_fd(), buffer, &mut fds, false)?;
            match FromHelper::parse(&buffer[..received.bytes]) {
                Ok(FromHelper::Reply(HelperReply::Spawned(reply))) => {
                    // The repetition comes without the pidfd.
                    replies.entry(EffectId(reply.id)).or_insert((reply, fds.pop()));
                }
                Ok(FromHelper::Synced(answer)) if answer.number == question.0 => {
                    helper.settled(answer, received.credentials, fds.pop());
                    return Ok(all);
                }
                // The answer to the last one's question, or to what it could not understand.
                Ok(_) => {}
                Err(_) if received.bytes > 0 => all = false,
                Err(_) => {
                    helper.owes = None;
                    return Ok(false);
                }
            }
        }
    }

    /// The next thing that helper `index` said, which had not answered everything at our start.
    fn receive_owed(&mut self, index: usize, question: Sync) -> Option<Said> {
        let helper = self.helpers.get_mut(index)?;
        let socket = helper.socket.as_ref()?;
        let mut fds = Vec::new();
        let received = match fdpass::recv(socket.as_fd(), &mut self.buffer, &mut fds, false) {
            Err(e) if e.is_would_block() => return None,
            Err(_) => return Some(self.hang_up(index)),
            Ok(received) => received,
        };
        match FromHelper::parse(&self.buffer[..received.bytes]) {
            Ok(FromHelper::Reply(HelperReply::Spawned(reply))) => {
                Some(Said::Earlier(reply, fds.pop()))
            }
            Ok(FromHelper::Synced(answer)) if answer.number == question.0 => {
                helper.settled(answer, received.credentials, fds.pop());
                if helper.ends_then || helper.standing == Standing::Foreign {
                    self.dismiss(index);
                }
                Some(Said::Settled)
            }
            Ok(_) => None,
            Err(_) => Some(self.hang_up(index)),
        }
    }

    /// Sends a spawn, now or when a helper has room. The text says why it cannot be sent.
    pub fn spawn(
        &mut self,
        id: EffectId,
        exec: Box<ExecSpec>,
        fds: Vec<Passed>,
    ) -> std::result::Result<(), String> {
        if self.waiting.len() >= WAITING_MAX {
            return Err("too many processes wait to be started".to_owned());
        }
        if self.helpers.iter().all(|helper| helper.standing == Standing::Foreign) {
            return Err(FOREIGN.to_owned());
        }
        let request = SpawnRequest { id: id.0, exec };
        let packet = encode(&request).map_err(|e| e.to_string())?;
        if fds.len() > REQUEST_FDS_MAX {
            let (count, most) = (fds.len(), REQUEST_FDS_MAX);
            return Err(format!(
                "a process is handed {most} file descriptors at most, not {count}"
            ));
        }
        let (packet, fds) = large(packet, fds).map_err(|e| e.to_string())?;
        self.waiting.push_back(Waiting {
            id,
            packet,
            fds,
            deaths: 0,
            hold_ups: 0,
            held_up: Duration::ZERO,
            is_long: false,
        });
        self.send_waiting();
        Ok(())
    }

    /// Whether another spawn is worth being made ready.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < READY_MAX
    }

    /// Spawns that the kernel did not let be sent since the last call, and why.
    pub fn take_refused(&mut self) -> Vec<(EffectId, String)> {
        std::mem::take(&mut self.refused)
    }

    /// Sends what waits, as far as there are helpers that have room.
    pub fn send_waiting(&mut self) {
        while !self.waiting.is_empty() {
            let ready = self
                .helpers
                .iter_mut()
                .filter(|h| h.takes_spawns())
                .min_by_key(|h| (h.hold_ups() > 0, h.under_way.len()));
            let Some(helper) = ready else { return };
            let Some(socket) = &helper.socket else { return };
            let Some(next) = self.waiting.pop_front() else { return };
            let borrowed: Vec<BorrowedFd<'_>> = next.fds.iter().map(|fd| fd.as_fd()).collect();
            match send_spawn(socket.as_fd(), &next.packet, &borrowed) {
                Ok(()) => {
                    self.sent += 1;
                    helper.under_way.push_back(Sent { number: self.sent, spawn: next });
                    helper.since = helper.since.or_else(|| Some(Instant::now()));
                }
                Err(e) if e.is_would_block() => {
                    self.waiting.push_front(next);
                    return;
                }
                // The helper is dying: its end arrives as an event, another takes the request.
                Err(e) if e.is_closed() => {
                    helper.standing = Standing::Ending;
                    self.waiting.push_front(next);
                }
                Err(e) => self.refused.push((next.id, e.to_string())),
            }
        }
    }

    /// The next thing that helper `index` said, if there is one.
    pub fn receive(&mut self, index: usize) -> Option<Said> {
        if let Some(question) = self.helpers.get(index)?.owes {
            return self.receive_owed(index, question);
        }
        let helper = self.helpers.get_mut(index)?;
        let socket = helper.socket.as_ref()?;
        let mut fds = Vec::new();
        let received = match fdpass::recv(socket.as_fd(), &mut self.buffer, &mut fds, false) {
            Err(e) if e.is_would_block() => return None,
            Err(_) => return Some(self.hang_up(index)),
            Ok(received) => received,
        };
        match FromHelper::parse(&self.buffer[..received.bytes]) {
            Ok(FromHelper::Reply(HelperReply::Spawned(reply))) => {
                helper.under_way.retain(|sent| sent.spawn.id.0 != reply.id);
                helper.did_one();
                self.send_waiting();
                Some(Said::Spawned(reply, fds.pop()))
            }
            // It does one after the other.
            Ok(FromHelper::Reply(HelperReply::Refused { message })) => {
                let refused = helper.under_way.pop_front()?;
                helper.did_one();
                self.send_waiting();
                let error = SpawnError { step: ExecStep::Request, errno: 0, message, pid: None };
                Some(Said::Spawned(SpawnReply { id: refused.spawn.id.0, result: Err(error) }, None))
            }
            Ok(FromHelper::Synced(answer)) => {
                helper.settled(answer, received.credentials, fds.pop());
                match helper.standing {
                    Standing::Foreign => Some(Said::Foreign(self.left_to_nobody())),
                    _ => Some(Said::Keep),
                }
            }
            Err(_) => Some(self.hang_up(index)),
        }
    }

    /// What waits, if no helper can do it.
    fn left_to_nobody(&mut self) -> Vec<EffectId> {
        if self.helpers.iter().any(|helper| helper.standing != Standing::Foreign) {
            return Vec::new();
        }
        self.waiting.drain(..).map(|spawn| spawn.id).collect()
    }

    /// The helper is gone, or it has said what nobody understands.
    fn hang_up(&mut self, index: usize) -> Said {
        let lost = self.lose(index);
        lost.socket.iter().for_each(|socket| fdpass::hang_up(socket.as_fd()));
        Said::Lost(lost)
    }

    fn lose(&mut self, index: usize) -> Lost {
        let mut lost = std::mem::replace(&mut self.helpers[index], Helper::new(None));
        let begun = lost.under_way.pop_front();
        for sent in lost.under_way.into_iter().rev() {
            self.waiting.push_front(sent.spawn);
        }
        self.unneeded.extend(lost.pid);
        let owed = lost.owes.is_some();
        // The kernel may have held it for a while still.
        let held_up = lost.given_up.map(|given_up| given_up.patience + given_up.at.elapsed());
        Lost { begun, birth: lost.birth, socket: lost.socket, owed, held_up }
    }
}

impl Patient for Helpers {
    // How long nobody is taken for held up, if somebody may be.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        let until = |helper: &Helper| Some(helper.since? + self.patience(helper));
        let until = self.helpers.iter().filter(|h| self.waits_behind(h)).filter_map(until);
        until.min().map(|until| until.saturating_duration_since(now))
    }
}

impl Helper {
    fn new(socket: Option<OwnedFd>) -> Helper {
        // Without, it is not known when the helper was started.
        let _ = socket.as_ref().map(|socket| fdpass::pass_credentials(socket.as_fd()));
        Helper {
            socket,
            standing: Standing::Asked,
            under_way: VecDeque::new(),
            owes: None,
            ends_then: false,
            pid: None,
            birth: None,
            to_keep: None,
            since: None,
            done: 0,
            given_up: None,
        }
    }

    /// Whether it may be asked for more.
    fn takes_spawns(&self) -> bool {
        let has_room = self.under_way.len() < IN_FLIGHT_MAX;
        self.standing == Standing::Ready
            && has_room
            && self.given_up.is_none()
            && !self.takes_long()
    }

    /// What it has not begun, but for what may be the next.
    fn take_not_begun(&mut self) -> Vec<Sent> {
        let Some(birth) = &self.birth else { return Vec::new() };
        let behind = self.under_way.split_off(self.under_way.len().min(1));
        let is_begun = |sent: &Sent| birth.phase(sent.id().0).is_some();
        let (begun, not_begun) = behind.into_iter().partition::<Vec<_>, _>(is_begun);
        self.under_way.extend(begun);
        not_begun
    }

    /// How many before it were ended over what it is at.
    fn hold_ups(&self) -> u32 {
        self.under_way.front().map_or(0, |sent| sent.spawn.hold_ups)
    }

    /// What it is at, if anything, is the next.
    fn did_one(&mut self) {
        self.since = self.under_way.front().map(|_| Instant::now());
        self.done = self.birth.as_ref().map_or(0, |birth| birth.done());
    }

    /// It has answered everything that was sent before, and gets something to do when init keeps the
    /// memory of how far it is. Without that memory it ends, and init starts another.
    fn settled(&mut self, answer: Synced, sender: Option<Credentials>, birth: Option<OwnedFd>) {
        self.owes = None;
        self.did_one();
        self.pid = sender.map(|sender| sender.pid);
        self.birth = birth.as_ref().and_then(|fd| Birth::attach(fd.as_fd()).ok()).map(Rc::new);
        self.standing = match self.birth {
            _ if !answer.is_ours() => Standing::Foreign,
            Some(_) => {
                self.to_keep = birth;
                Standing::Asked
            }
            None => {
                self.socket.iter().for_each(|socket| fdpass::hang_up(socket.as_fd()));
                Standing::Ending
            }
        };
    }
}

/// Sends a packet with any number of fds: more than fit one come through a socket of their own, to the last
/// before the helper hears of it.
fn send_spawn(helper: BorrowedFd<'_>, packet: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    if fds.len() <= fdpass::FDS_PER_MESSAGE_MAX {
        return fdpass::try_send(helper, packet, fds);
    }
    let (ours, theirs) = fdpass::seqpacket_pair(false)?;
    let (first, others) = fds.split_at(fdpass::FDS_PER_MESSAGE_MAX);
    fdpass::try_send(ours.as_fd(), packet, first)?;
    for others in others.chunks(fdpass::FDS_PER_MESSAGE_MAX) {
        fdpass::try_send(ours.as_fd(), &[MANY], others)?;
    }
    drop(ours);
    fdpass::try_send(helper, &[MANY], &[theirs.as_fd()])
}

/// Packets beyond the bound of one datagram travel in a memfd.
fn large(packet: Vec<u8>, mut fds: Vec<Passed>) -> Result<(Vec<u8>, Vec<Passed>)> {
    if packet.len() <= PACKET_BYTES_MAX {
        return Ok((packet, fds));
    }
    fds.insert(0, Passed::Own(memfd::sealed("warren-spawn", &packet)?));
    Ok((vec![LARGE], fds))
}
