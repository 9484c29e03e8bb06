//! Another socket in the place of one in which there is a message that cannot be let go of: a file descriptor came with
//! it whose owner may never answer. What is behind it is read; the old socket is left to a process that may be held up
//! for ever; and until that has ended, the kernel refuses descriptors at the new one, where it can (Linux 6.16).
//!
//! What must not be here: what is said in messages. On the receiving thread, which never waits.

use std::os::fd::{AsFd, OwnedFd};

use warren_sys::epoll::Interest;
use warren_sys::fdpass;
use warren_sys::letting_go::QUEUES_MAX;

use crate::daemon::clock::now_us;
use crate::daemon::datagrams::Inlet;
use crate::daemon::inherit::{self, NATIVE_NAMES, SYSLOG_NAMES};
use crate::daemon::sender::Transport;
use crate::daemon::tokens::{TOKEN_NATIVE, TOKEN_SYSLOG};
use crate::daemon::{Daemon, RECEIVE_BUFFER_BYTES};

/// Another socket so often at most, and looks at what is held up, µs. Until then messages wait in the old one.
const APART_US: u64 = 1_000_000;

/// How it stands with sockets that were replaced.
#[derive(Default)]
pub struct Turnover {
    /// When the last one was.
    last_us: Option<u64>,
    /// When they are looked at next, as long as anything is held up.
    due_us: Option<u64>,
    /// No process could be had for these.
    left: Vec<OwnedFd>,
    /// It was said that there is no other socket.
    is_told: bool,
}

impl Turnover {
    /// When the sockets are to be looked at, µs.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }
}

fn token(transport: Transport) -> u64 {
    if transport == Transport::Journal { TOKEN_NATIVE } else { TOKEN_SYSLOG }
}

fn names(transport: Transport) -> &'static str {
    if transport == Transport::Journal { NATIVE_NAMES } else { SYSLOG_NAMES }
}

const BOTH: [Transport; 2] = [Transport::Journal, Transport::Syslog];

impl Daemon {
    /// Goes on with a socket that the last daemon had put in the place of a socket unit's, if its file is still there,
    /// and leaves the others.
    pub fn take_up_replaced(&mut self, replaced: Vec<(String, OwnedFd)>) {
        use std::os::unix::fs::MetadataExt;
        let current = BOTH.map(|transport| {
            let stat = std::fs::symlink_metadata(&self.inlet(transport).path);
            (transport, stat.map(|stat| format!("{}{}", names(transport), stat.ino())).ok())
        });
        for (name, socket) in replaced {
            let is_current =
                |(_, current): &&(Transport, Option<String>)| Some(&name) == current.as_ref();
            match current.iter().find(is_current) {
                Some((transport, _)) => {
                    let inlet = self.inlet(*transport);
                    let old = inlet.replace(socket);
                    inlet.kept_as = Some(name);
                    self.leave(old);
                }
                None => {
                    inherit::let_go(&name);
                    self.leave(socket);
                }
            }
        }
    }

    /// A socket that is stuck: another one takes its place, if it is time, and what is behind its front is read.
    pub fn turn_over(&mut self, transport: Transport) {
        let now = now_us();
        // It is ready all the time.
        let Daemon { native, syslog, epoll, .. } = self;
        let socket =
            if transport == Transport::Journal { native.socket() } else { syslog.socket() };
        let _ = epoll.remove(socket);
        self.turnover.due_us = Some(now + APART_US);
        let is_time = self.turnover.last_us.is_none_or(|last| now >= last + APART_US);
        let may_be =
            is_time && self.core.letting_go.has_room_for_queue() && self.turnover.left.is_empty();
        let (path, uid) = (self.inlet(transport).path.clone(), self.inlet(transport).stays_of);
        let fresh = may_be.then(|| inherit::replace(&path, RECEIVE_BUFFER_BYTES));
        let fresh = match fresh {
            Some(Ok(fresh)) => Some(fresh),
            None => None,
            Some(Err(error)) => {
                self.core.note(&format!("Cannot create a socket: {error}"));
                None
            }
        };
        if fresh.is_some() {
            // Who is connected connects again, as syslog(3) does.
            fdpass::take_no_more(self.inlet(transport).socket().as_fd());
        }
        self.with_inlet(transport, |inlet, (_, buffer), core, learn| {
            inlet.read_behind(buffer, core, learn);
        });
        match fresh {
            Some(fresh) => self.go_on_with(fresh, transport),
            None if is_time && !self.turnover.is_told => {
                self.turnover.is_told = true;
                self.core.note(&format!(
                    "{}: users sent file descriptors that cannot be closed, the last one user {uid}; {QUEUES_MAX} \
                     sockets are blocked by them. Messages are read once a second until the servers of those files \
                     respond or are stopped",
                    path.display()
                ));
            }
            None => {}
        }
    }

    fn go_on_with(&mut self, (fresh, inode): (OwnedFd, u64), transport: Transport) {
        self.turnover.last_us = Some(now_us());
        let name = format!("{}{inode}", names(transport));
        let is_kept = self.has_manager() && inherit::keep(&name, fresh.as_fd());
        let inlet = self.inlet(transport);
        let old = inlet.replace(fresh);
        let kept_as = std::mem::replace(&mut inlet.kept_as, is_kept.then_some(name));
        let (path, refuses, uid) =
            (inlet.path.display().to_string(), inlet.refuses, inlet.stays_of);
        kept_as.iter().for_each(|name| inherit::let_go(name));
        self.leave(old);
        let Daemon { native, syslog, epoll, .. } = self;
        let socket =
            if transport == Transport::Journal { native.socket() } else { syslog.socket() };
        let watched = epoll.add(socket, token(transport), Interest::READ);
        let until = match (refuses, transport) {
            (true, Transport::Journal) => ", which refuses messages sent as files until they are",
            _ => "",
        };
        self.core.note(&format!(
            "{path}: user {uid} sent file descriptors that cannot be closed now; a new socket replaced this one{until}"
        ));
        if let Err(error) = watched {
            self.core.note(&format!("Cannot read {path}: {error}"));
        }
    }

    fn has_manager(&self) -> bool {
        self.link.is_some() || self.unit_files.is_some()
    }

    /// Leaves a socket to a process; without one it is tried again.
    fn leave(&mut self, socket: OwnedFd) {
        fdpass::take_no_more(socket.as_fd());
        self.turnover.due_us.get_or_insert(now_us() + APART_US);
        self.turnover.left.extend(self.core.letting_go.give_up(socket).err());
    }

    /// While anything is held up: tries again what could not be done, and takes files again when all is let go of.
    pub fn look_after_sockets(&mut self) {
        if self.turnover.due_us.is_none_or(|due| now_us() < due) {
            return;
        }
        self.turnover.due_us = None;
        std::mem::take(&mut self.turnover.left).into_iter().for_each(|socket| self.leave(socket));
        for transport in BOTH {
            if self.inlet(transport).is_stuck() {
                self.turn_over(transport);
            }
        }
        match self.core.letting_go.count() {
            0 => {
                let inlets: [&mut Inlet; 2] = [&mut self.native, &mut self.syslog];
                inlets.into_iter().filter(|inlet| inlet.refuses).for_each(Inlet::allow_files);
                self.turnover.is_told = false;
            }
            _ => _ = self.turnover.due_us.get_or_insert(now_us() + APART_US),
        }
    }

    /// At the end: the next daemon is not to read again what was read behind a message that stays.
    pub fn leave_stuck(&mut self) {
        self.turnover.last_us = None;
        for transport in BOTH {
            if self.inlet(transport).is_stuck() {
                self.turn_over(transport);
            }
        }
    }
}
