//! The pool of exec helpers: requests go to the helper with the fewest under way; the rest wait.
//!
//! After a restart of the manager the helpers are asked to say when they have done everything that
//! was sent before: what they answered meanwhile is still in their sockets, so no spawn is lost or
//! done twice.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_core::ids::EffectId;
use warren_init::protocol::exec::{
    ExecSpec, HelperReply, HelperRequest, LARGE, SpawnReply, SpawnRequest,
};
use warren_init::protocol::{PACKET_BYTES_MAX, decode, encode};
use warren_sys::{Result, fdpass, memfd};

/// Spawns that one helper has under way at most.
const IN_FLIGHT_MAX: usize = 8;

/// Spawns that wait for a helper at most; the machine asks for one per unit, so this is memory
/// for every unit that can be.
const WAITING_MAX: usize = 1 << 20;

/// A spawn that is to be sent.
struct Waiting {
    id: EffectId,
    packet: Vec<u8>,
    fds: Vec<OwnedFd>,
    /// It is the second try.
    again: bool,
}

/// A spawn that was sent, with what is needed to send it again.
struct Sent {
    number: u64,
    spawn: Waiting,
}

struct Helper {
    socket: Option<OwnedFd>,
    under_way: VecDeque<Sent>,
}

/// What a helper said.
pub enum FromHelper {
    /// A spawn is done; the pidfd comes with a success.
    Spawned(SpawnReply, Option<OwnedFd>),
    /// The helper is gone.
    Lost(Lost),
}

/// What went with a helper. It does one spawn after the other, so only the oldest can have begun.
#[derive(Default)]
pub struct Lost {
    /// This spawn may have been done, and is done again or given up.
    pub begun: Option<EffectId>,
    /// This one is not tried again.
    pub given_up: Option<EffectId>,
}

/// All helpers.
pub struct Helpers {
    helpers: Vec<Helper>,
    waiting: VecDeque<Waiting>,
    buffer: Vec<u8>,
    /// Spawns sent so far.
    sent: u64,
}

impl Helpers {
    /// The pool with the sockets that init handed over.
    pub fn new(sockets: Vec<OwnedFd>) -> Helpers {
        let helper = |socket| Helper { socket: Some(socket), under_way: VecDeque::new() };
        Helpers {
            helpers: sockets.into_iter().map(helper).collect(),
            waiting: VecDeque::new(),
            buffer: vec![0; PACKET_BYTES_MAX],
            sent: 0,
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

    /// The number of the oldest spawn that is under way.
    pub fn oldest_under_way(&self) -> Option<u64> {
        self.helpers.iter().filter_map(|h| h.under_way.front().map(|sent| sent.number)).min()
    }

    /// The number of the spawn that was sent last, if any is under way.
    pub fn last_sent(&self) -> Option<u64> {
        self.oldest_under_way().map(|_| self.sent)
    }

    /// The socket of helper `index`, while it lives.
    pub fn socket(&self, index: usize) -> Option<BorrowedFd<'_>> {
        Some(self.helpers.get(index)?.socket.as_ref()?.as_fd())
    }

    /// Takes the socket of a helper that was started anew.
    pub fn replace(&mut self, index: usize, socket: OwnedFd) {
        while self.helpers.len() <= index {
            self.helpers.push(Helper { socket: None, under_way: VecDeque::new() });
        }
        if let Some(helper) = self.helpers.get_mut(index) {
            helper.socket = Some(socket);
        }
        self.send_waiting();
    }

    /// After a restart: collects what the helpers answered to the last incarnation.
    ///
    /// `number` is another for each incarnation: an answer to the last one's question may still be
    /// on its way.
    pub fn synchronise(
        &mut self,
        number: u64,
    ) -> Result<BTreeMap<EffectId, (SpawnReply, Option<OwnedFd>)>> {
        let mut replies = BTreeMap::new();
        let sync = encode(&HelperRequest::Sync(number)).expect("a small packet");
        for index in 0..self.helpers.len() {
            let Some(socket) = self.socket(index) else { continue };
            if fdpass::send(socket, &sync, &[]).is_err() {
                continue;
            }
            loop {
                let mut fds = Vec::new();
                let socket = self.helpers[index].socket.as_ref().expect("looked at above");
                let received = fdpass::recv(socket.as_fd(), &mut self.buffer, &mut fds, true)?;
                match decode(&self.buffer[..received.bytes]) {
                    Ok(HelperReply::Spawned(reply)) => {
                        // The repetition comes without the pidfd.
                        replies.entry(EffectId(reply.id)).or_insert((reply, fds.pop()));
                    }
                    Ok(HelperReply::Refused { .. }) => {}
                    Ok(HelperReply::Synced(n)) if n != number => {}
                    _ => break,
                }
            }
        }
        Ok(replies)
    }

    /// Sends a spawn, now or when a helper has room. The text says why it cannot be sent.
    pub fn spawn(
        &mut self,
        id: EffectId,
        exec: Box<ExecSpec>,
        fds: Vec<OwnedFd>,
    ) -> std::result::Result<(), String> {
        if self.waiting.len() >= WAITING_MAX {
            return Err("too many processes wait to be started".to_owned());
        }
        let request = HelperRequest::Spawn(SpawnRequest { id: id.0, exec });
        let packet = encode(&request).map_err(|e| e.to_string())?;
        let (packet, fds) = large(packet, fds).map_err(|e| e.to_string())?;
        self.waiting.push_back(Waiting { id, packet, fds, again: false });
        self.send_waiting();
        Ok(())
    }

    fn send_waiting(&mut self) {
        while !self.waiting.is_empty() {
            let ready = self
                .helpers
                .iter_mut()
                .filter(|h| h.socket.is_some() && h.under_way.len() < IN_FLIGHT_MAX)
                .min_by_key(|h| h.under_way.len());
            let Some(helper) = ready else { return };
            let Some(next) = self.waiting.pop_front() else { return };
            let socket = helper.socket.as_ref().expect("filtered above");
            let borrowed: Vec<BorrowedFd<'_>> = next.fds.iter().map(|fd| fd.as_fd()).collect();
            match fdpass::try_send(socket.as_fd(), &next.packet, &borrowed) {
                Ok(()) => {
                    self.sent += 1;
                    helper.under_way.push_back(Sent { number: self.sent, spawn: next });
                }
                Err(e) if e.is_would_block() => {
                    self.waiting.push_front(next);
                    return;
                }
                // The helper is dying: its end arrives as an event, another takes the request.
                Err(_) => {
                    helper.socket = None;
                    self.waiting.push_front(next);
                }
            }
        }
    }

    /// The next thing that helper `index` said, if there is one.
    pub fn receive(&mut self, index: usize) -> Option<FromHelper> {
        let helper = self.helpers.get_mut(index)?;
        let socket = helper.socket.as_ref()?;
        let mut fds = Vec::new();
        match fdpass::recv(socket.as_fd(), &mut self.buffer, &mut fds, false) {
            Ok(received) if received.bytes > 0 => match decode(&self.buffer[..received.bytes]) {
                Ok(HelperReply::Spawned(reply)) => {
                    helper.under_way.retain(|sent| sent.spawn.id.0 != reply.id);
                    self.send_waiting();
                    Some(FromHelper::Spawned(reply, fds.pop()))
                }
                Ok(HelperReply::Synced(_)) => None,
                _ => Some(self.lose(index)),
            },
            Err(e) if e.is_would_block() => None,
            _ => Some(self.lose(index)),
        }
    }

    fn lose(&mut self, index: usize) -> FromHelper {
        let helper = &mut self.helpers[index];
        helper.socket = None;
        let begun = helper.under_way.pop_front().map(|sent| sent.spawn);
        let untouched: Vec<Waiting> = helper.under_way.drain(..).map(|sent| sent.spawn).collect();
        for spawn in untouched.into_iter().rev() {
            self.waiting.push_front(spawn);
        }
        let mut lost = Lost { begun: begun.as_ref().map(|spawn| spawn.id), given_up: None };
        match begun {
            Some(spawn) if spawn.again => lost.given_up = Some(spawn.id),
            Some(spawn) => self.waiting.push_front(Waiting { again: true, ..spawn }),
            None => {}
        }
        self.send_waiting();
        FromHelper::Lost(lost)
    }
}

/// Packets beyond the bound of one datagram travel in a memfd.
fn large(packet: Vec<u8>, mut fds: Vec<OwnedFd>) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
    if packet.len() <= PACKET_BYTES_MAX {
        return Ok((packet, fds));
    }
    fds.insert(0, memfd::sealed("warren-spawn", &packet)?);
    Ok((vec![LARGE], fds))
}
