//! Whom a unit may talk to (systemd.resource-control(5), "IPAddressAllow=").

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::instruction::{
    CONTEXT, FRAME, Instruction, R, RESULT, add, and, answer, call, copy, exit, load, set,
    skip_unless, to_end,
};
use super::{ALLOW, DENY, interface};

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// The first bits count.
    pub address: IpAddr,
    /// How many, 32 or 128 at most.
    pub bits: u8,
}

/// Names for prefixes (systemd.resource-control(5), table 1).
const NAMES: [(&str, Prefix, Prefix); 4] = {
    const fn four(a: u8, b: u8, bits: u8) -> Prefix {
        Prefix { address: IpAddr::V4(Ipv4Addr::new(a, b, 0, 0)), bits }
    }
    const fn six(first: u16, last: u16, bits: u8) -> Prefix {
        Prefix { address: IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last)), bits }
    }
    [
        ("any", four(0, 0, 0), six(0, 0, 0)),
        ("localhost", four(127, 0, 8), six(0, 1, 128)),
        ("link-local", four(169, 254, 16), six(0xfe80, 0, 64)),
        ("multicast", four(224, 0, 4), six(0xff00, 0, 8)),
    ]
};

impl Prefix {
    /// The prefixes that a word stands for; none if it stands for none.
    pub fn parse(word: &str) -> Option<Vec<Prefix>> {
        if let Some((_, four, six)) = NAMES.iter().find(|(name, ..)| *name == word) {
            return Some(vec![*four, *six]);
        }
        let (address, bits) = word.split_once('/').unwrap_or((word, ""));
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let is_number = bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            "" if !word.contains('/') => bits_max,
            bits => bits.parse().ok().filter(|bits| is_number && *bits <= bits_max)?,
        };
        Some(vec![Prefix { address: network(address, bits), bits }])
    }

    /// The bytes of the address.
    fn bytes(self) -> Vec<u8> {
        match self.address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        }
    }
}

/// The address of a network: without what is behind its bits.
fn network(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

/// Who is allowed, and who of the others is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lists {
    /// IPAddressAllow=
    pub allow: Vec<Prefix>,
    /// IPAddressDeny=
    pub deny: Vec<Prefix>,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the unit: from whom.
    Ingress,
    /// From the unit: to whom.
    Egress,
}

/// Most prefixes of both lists.
pub const PREFIXES_MAX: usize = 2048;

const PACKET: R = R(6);
const PROTOCOL: R = R(7);
const WORD: R = R(2);

/// `struct __sk_buff`
const PROTOCOL_AT: i16 = 16;

/// bpf_skb_load_bytes(), bpf-helpers(7).
const LOAD_BYTES: i32 = 26;

/// Where the address is on the stack.
const STACK_AT: i16 = -16;

/// The program for packets of one direction. `devices`: which network devices may be used, by lists of numbers that
/// each have to agree, and whether they say which may or which may not.
///
/// # Errors
/// There are more than [`PREFIXES_MAX`].
pub fn program(
    lists: &Lists,
    devices: &[(bool, Vec<u32>)],
    direction: Direction,
) -> Result<Vec<Instruction>, String> {
    let count = lists.allow.len() + lists.deny.len();
    if count > PREFIXES_MAX {
        return Err(format!("{count} addresses are more than {PREFIXES_MAX}"));
    }
    const IP4: u16 = 0x0800;
    const IP6: u16 = 0x86dd;
    let (at4, at6) = match direction {
        Direction::Ingress => (12, 8),
        Direction::Egress => (16, 24),
    };
    let mut out = Vec::new();
    for (is_allowed, indexes) in devices {
        if *is_allowed && indexes.is_empty() {
            // The kernel takes no instructions that are never reached.
            out.extend(answer(DENY));
            return Ok(out);
        }
        out.extend(interface::refusals(*is_allowed, indexes));
    }
    if count == 0 {
        out.extend(answer(ALLOW));
        return Ok(out);
    }
    out.extend([copy(PACKET, CONTEXT), load(PROTOCOL, CONTEXT, PROTOCOL_AT)]);
    for (protocol, at, bytes) in [(IP4, at4, 4), (IP6, at6, 16)] {
        let family = family(lists, at, bytes);
        out.push(skip_unless(PROTOCOL, i32::from(protocol.to_be()), to_end(0, family.len() + 1)));
        out.extend(family);
    }
    out.extend(answer(ALLOW));
    Ok(out)
}

/// What is said of packets of one protocol, whose address is `bytes` long and begins at a byte of the header.
fn family(lists: &Lists, at: i32, bytes: usize) -> Vec<Instruction> {
    let mut out = vec![
        copy(R(1), PACKET),
        set(R(2), at),
        copy(R(3), FRAME),
        add(R(3), i32::from(STACK_AT)),
        set(R(4), bytes as i32),
        call(LOAD_BYTES),
        // A packet that is shorter is none of this protocol.
        skip_unless(RESULT, 0, 1),
        // Over the two of the refusal.
        Instruction { code: 0x05, registers: 0, offset: 2, constant: 0 },
    ];
    out.extend(answer(DENY));
    for (prefixes, result) in [(&lists.allow, ALLOW), (&lists.deny, DENY)] {
        for prefix in prefixes.iter().filter(|prefix| prefix.bytes().len() == bytes) {
            out.extend(block(*prefix, result));
            if prefix.bits == 0 {
                // The kernel takes no instructions that are never reached.
                return out;
            }
        }
    }
    out.extend([set(RESULT, ALLOW), exit()]);
    out
}

/// Answers for addresses of a prefix.
fn block(prefix: Prefix, result: i32) -> Vec<Instruction> {
    let mut words = Vec::new();
    for (at, word) in prefix.bytes().chunks(4).enumerate() {
        let bits = usize::from(prefix.bits).saturating_sub(at * 32).min(32) as u32;
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        let mask = u32::from_ne_bytes(mask.to_be_bytes());
        let word = u32::from_ne_bytes(word.try_into().expect("addresses are whole words"));
        if mask != 0 {
            words.push((STACK_AT + at as i16 * 4, mask, word & mask));
        }
    }
    let all = words.len() * 3 + answer(result).len();
    let mut out = Vec::with_capacity(all);
    for (at, mask, word) in words {
        out.extend([load(WORD, FRAME, at), and(WORD, mask.cast_signed())]);
        out.push(skip_unless(WORD, word.cast_signed(), to_end(out.len(), all)));
    }
    out.extend(answer(result));
    out
}
