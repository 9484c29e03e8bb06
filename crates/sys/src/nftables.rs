//! Elements of sets of nf_tables, over netlink(7): linux/netfilter/nfnetlink.h and nf_tables.h.
//!
//! A change is a batch with one message, which the kernel carries out or refuses as a whole.

use std::os::fd::OwnedFd;

use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::{Context, Error, Result};

/// A set of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set<'a> {
    /// Of the table: NFPROTO_* of linux/netfilter.h.
    pub family: u8,
    /// The table's name.
    pub table: &'a str,
    /// Its own name.
    pub name: &'a str,
}

/// What becomes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is in the set, if it was or not.
    Add,
    /// It is in the set no more.
    Remove,
}

/// NLMSG_ERROR: what the kernel answers with.
const ERROR: u16 = 2;

/// `struct nlmsghdr`, bytes.
const HEAD_BYTES: usize = 16;

/// `struct nfgenmsg`, bytes.
const FAMILY_BYTES: usize = 4;

/// NFNL_SUBSYS_NFTABLES
const NF_TABLES: u16 = 10;

/// NFNL_MSG_BATCH_BEGIN and its like.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

/// NFT_MSG_NEWSETELEM and its like.
const NEW_ELEMENT: u16 = 12;
const DELETE_ELEMENT: u16 = 14;

/// NLM_F_*
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const CREATE: u16 = 0x400;

/// Of an attribute that has others in it.
const NESTED: u16 = 0x8000;

/// The number by which the answer to the change is known.
const CHANGE_NUMBER: u32 = 2;

/// Messages that are read for one answer: there may be errors of the batch before it.
const ANSWERS_MAX: usize = 8;

/// Room for an answer, which repeats what was asked.
const ANSWER_BYTES: usize = 4096;

/// Puts an element into a set or takes it out, in the network namespace of the calling thread. `key` has the bytes that
/// the set's rules compare, in the order of this machine.
///
/// # Errors
/// `ENOENT`: there is no such table or set, or no such element to remove. `EINVAL`: the set's keys are of another
/// length. `EPERM` without CAP_NET_ADMIN. `EPROTONOSUPPORT`: a kernel without nf_tables.
pub fn change_element(set: Set<'_>, key: &[u8], change: Change) -> Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER))
            .call("socket")?;
    let kernel = SocketAddrNetlink::new(0, 0);
    let batch = batch(set, key, change);
    rustix::net::sendto(&socket, &batch, SendFlags::empty(), &kernel).call("sendto")?;
    answer(&socket)
}

/// Reads what the kernel says of the change: its answers are there when the batch was sent.
fn answer(socket: &OwnedFd) -> Result<()> {
    let mut buffer = [0u8; ANSWER_BYTES];
    for _ in 0..ANSWERS_MAX {
        let room = &mut buffer[..];
        let (bytes, _) = rustix::net::recv(socket, room, RecvFlags::DONTWAIT).call("recv")?;
        if let Some(errno) = errno_in(&buffer[..bytes]) {
            return match errno {
                0 => Ok(()),
                errno => Err(Error::new("nf_tables", errno)),
            };
        }
    }
    Err(Error::new("nf_tables", libc::EPROTO))
}

/// The error of a datagram of answers, 0 for none: of the change, or of the batch, which is then not carried out.
fn errno_in(mut messages: &[u8]) -> Option<i32> {
    let mut found = None;
    while let Some((head, rest)) = messages.split_at_checked(HEAD_BYTES) {
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, number) = (word(0) as usize, word(8));
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let errno = rest.first_chunk::<4>().map(|bytes| -i32::from_ne_bytes(*bytes));
        match (kind, errno) {
            (ERROR, Some(errno)) if errno != 0 => return Some(errno),
            (ERROR, Some(_)) if number == CHANGE_NUMBER => found = Some(0),
            _ => {}
        }
        let next = length.next_multiple_of(4).max(HEAD_BYTES);
        messages = messages.get(next..).unwrap_or_default();
    }
    found
}

/// The bytes of a batch with one change.
fn batch(set: Set<'_>, key: &[u8], change: Change) -> Vec<u8> {
    let value = attribute(1, key);
    let element = attribute(NESTED | 1, &attribute(NESTED | 1, &value));
    let mut content = attribute(1, &text(set.table));
    content.extend(attribute(2, &text(set.name)));
    content.extend(attribute(NESTED | 3, &element));
    let (kind, flags) = match change {
        Change::Add => (NEW_ELEMENT, REQUEST | ACKNOWLEDGE | CREATE),
        Change::Remove => (DELETE_ELEMENT, REQUEST | ACKNOWLEDGE),
    };
    let mut out = message(BATCH_BEGIN, REQUEST, 1, 0, NF_TABLES, &[]);
    let kind = NF_TABLES << 8 | kind;
    out.extend(message(kind, flags, CHANGE_NUMBER, set.family, 0, &content));
    out.extend(message(BATCH_END, REQUEST, 3, 0, NF_TABLES, &[]));
    out
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// `struct nlattr` and what is in it, to a multiple of four bytes.
fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    let bytes = u16::try_from(4 + content.len()).expect("names are short");
    let mut out = [bytes.to_ne_bytes(), kind.to_ne_bytes()].concat();
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn message(
    kind: u16,
    flags: u16,
    number: u32,
    family: u8,
    resource: u16,
    content: &[u8],
) -> Vec<u8> {
    let bytes = u32::try_from(HEAD_BYTES + FAMILY_BYTES + content.len()).expect("names are short");
    let mut out = bytes.to_ne_bytes().to_vec();
    out.extend(kind.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend(number.to_ne_bytes());
    out.extend([0; 4]);
    out.extend([family, 0]);
    out.extend(resource.to_be_bytes());
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The layout is that of the headers; nft(8) sends the same.
    #[test]
    #[cfg(target_endian = "little")]
    fn a_change_is_a_batch_of_its_own() {
        let set = Set { family: 1, table: "filter", name: "ids" };
        let bytes = batch(set, &7u32.to_ne_bytes(), Change::Add);
        let expected = [
            // The begin, for nf_tables.
            "14000000",
            "1000",
            "0100",
            "01000000",
            "00000000",
            "0000",
            "000a",
            // The change: inet.
            "3c000000",
            "0c0a",
            "0504",
            "02000000",
            "00000000",
            "0100",
            "0000",
            "0b000100",
            "66696c746572",
            "0000",
            "08000200",
            "69647300",
            "14000380",
            "10000180",
            "0c000180",
            "08000100",
            "07000000",
            // The end.
            "14000000",
            "1100",
            "0100",
            "03000000",
            "00000000",
            "0000",
            "000a",
        ];
        assert_eq!(hex(&bytes), expected.concat());
        let removal = batch(set, &7u32.to_ne_bytes(), Change::Remove);
        assert_eq!(hex(&removal[20..32]), ["3c000000", "0e0a", "0500", "02000000"].concat());
        assert_eq!(bytes.len(), removal.len());
    }

    #[test]
    fn the_answer_is_that_to_the_change_or_what_refused_the_batch() {
        let answer = |number: u32, errno: i32| {
            let mut out = message(ERROR, 0, number, 0, 0, &[]);
            out[HEAD_BYTES..].copy_from_slice(&(-errno).to_ne_bytes());
            out
        };
        assert_eq!(errno_in(&answer(CHANGE_NUMBER, 0)), Some(0));
        assert_eq!(errno_in(&answer(CHANGE_NUMBER, libc::ENOENT)), Some(libc::ENOENT));
        assert_eq!(errno_in(&answer(1, 0)), None, "of the batch");
        assert_eq!(errno_in(&answer(1, libc::EPERM)), Some(libc::EPERM));
        let both = [answer(1, 0), answer(CHANGE_NUMBER, libc::EINVAL)].concat();
        assert_eq!(errno_in(&both), Some(libc::EINVAL));
        for cut in 0..both.len() {
            errno_in(&both[..cut]);
        }
        assert_eq!(errno_in(&[0; 64]), None, "no length is no end of the search");
    }

    #[test]
    fn a_set_that_is_not_there_is_an_error() {
        let set = Set { family: 1, table: "warrener-none", name: "none" };
        let refused = change_element(set, &[0; 8], Change::Add).expect_err("it is not there");
        let known = [libc::ENOENT, libc::EPERM, libc::EPROTONOSUPPORT, libc::EINVAL];
        assert!(known.contains(&refused.errno), "{refused}");
    }
}
