//! The kernel's audit system: its records come to every process that may read them. Whether it makes
//! any is not decided here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use warren_sys::errno::ENOBUFS;

use warren_sys::netlink;
use warren_sys::socket::{SocketOptions, open_netlink};

use crate::daemon::core::Core;
use crate::input::audit::parse;
use crate::input::loss::Kind;

/// NETLINK_AUDIT, and the group of those who read along (AUDIT_NLGRP_READLOG); linux/audit.h.
const PROTOCOL: u32 = 9;
const READ_GROUP: u32 = 1;

/// Largest record, bytes; the kernel's own bound (MAX_AUDIT_MESSAGE_LENGTH) and its header.
const RECORD_BYTES_MAX: usize = 8970 + 16;

/// Room for records that wait, bytes.
const RECEIVE_BUFFER_BYTES: u32 = 1 << 20;

/// Most records in a turn.
const TURN_RECORDS_MAX: usize = 256;

/// The reader.
pub struct Audit(OwnedFd);

impl Audit {
    /// Joins those who read; needs CAP_AUDIT_READ.
    pub fn open() -> warren_sys::Result<Audit> {
        let room = Some(RECEIVE_BUFFER_BYTES);
        let options = SocketOptions { receive_buffer: room, ..SocketOptions::default() };
        open_netlink(PROTOCOL, READ_GROUP, &options).map(|socket| Audit(socket.fd))
    }

    /// To be watched.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes what is there, up to the bound of a turn; true when there may be more.
    pub fn read(&self, core: &mut Core) -> bool {
        let mut room = [0; RECORD_BYTES_MAX];
        for _ in 0..TURN_RECORDS_MAX {
            if core.is_full() {
                return true;
            }
            match netlink::receive(self.fd(), &mut room) {
                // Only the kernel is believed.
                Ok(datagram) if datagram.port == 0 => {
                    if let Some(fields) = parse(&room[..datagram.bytes.min(room.len())]) {
                        core.audit(&fields);
                    }
                }
                Ok(_) => {}
                Err(e) if e.errno == ENOBUFS => {
                    core.lose_of(b"", None, (Kind::Audit, "", 1));
                }
                Err(_) => return false,
            }
        }
        true
    }
}
