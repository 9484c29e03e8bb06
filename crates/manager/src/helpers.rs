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
}

struct Helper {
    socket: Option<OwnedFd>,
    under_way: VecDeque<EffectId>,
}

/// What a helper said.
pub enum FromHelper {
    /// A spawn is done; the pidfd comes with a success.
    Spawned(SpawnReply, Option<OwnedFd>),
    /// The helper is gone; these spawns may or may not have been done.
    Lost(Vec<EffectId>),
}

/// All helpers.
pub struct Helpers {
    helpers: Vec<Helper>,
    waiting: VecDeque<Waiting>,
    buffer: Vec<u8>,
}

impl Helpers {
    /// The pool with the sockets that init handed over.
    pub fn new(sockets: Vec<OwnedFd>) -> Helpers {
        let helper = |socket| Helper { socket: Some(socket), under_way: VecDeque::new() };
        Helpers {
            helpers: sockets.into_iter().map(helper).collect(),
            waiting: VecDeque::new(),
            buffer: vec![0; PACKET_BYTES_MAX],
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.helpers.len()
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
    pub fn synchronise(&mut self) -> Result<BTreeMap<EffectId, (SpawnReply, Option<OwnedFd>)>> {
        let mut replies = BTreeMap::new();
        let sync = encode(&HelperRequest::Sync(1)).expect("a small packet");
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
                        replies.insert(EffectId(reply.id), (reply, fds.pop()));
                    }
                    Ok(HelperReply::Refused { .. }) => {}
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
        self.waiting.push_back(Waiting { id, packet, fds });
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
                Ok(()) => helper.under_way.push_back(next.id),
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
                    helper.under_way.retain(|id| id.0 != reply.id);
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
        FromHelper::Lost(helper.under_way.drain(..).collect())
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
