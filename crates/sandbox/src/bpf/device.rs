//! Which devices may be used (systemd.resource-control(5), "DeviceAllow=", "DevicePolicy=").

use super::instruction::{
    CONTEXT, Instruction, R, and, answer, copy, load, shift_right, skip_unless, to_end,
};
use super::{ALLOW, DENY};

/// Kinds of devices: BPF_DEVCG_DEV_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A block device.
    Block = 1,
    /// A character device.
    Character = 2,
}

/// What may be done: bits of BPF_DEVCG_ACC_*.
pub mod access {
    /// mknod(2).
    pub const MAKE: u8 = 1;
    /// Reading.
    pub const READ: u8 = 2;
    /// Writing.
    pub const WRITE: u8 = 4;
    /// All of it.
    pub const ALL: u8 = MAKE | READ | WRITE;
}

/// Devices that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Which kind.
    pub kind: Kind,
    /// Major number; none for all.
    pub major: Option<u32>,
    /// Minor number; none for all of the major one.
    pub minor: Option<u32>,
    /// Bits of [`access`].
    pub access: u8,
}

/// What everybody may use unless a policy is strict: null, zero, full, random, urandom, tty, ptmx, the terminals of
/// pts, and the nodes that stand for what is not accessible.
pub const PSEUDO: [Rule; 10] = {
    const fn one(major: u32, minor: u32) -> Rule {
        let (major, minor) = (Some(major), Some(minor));
        Rule { kind: Kind::Character, major, minor, access: access::ALL }
    }
    const fn terminals(major: u32) -> Rule {
        let access = access::READ | access::WRITE;
        Rule { kind: Kind::Character, major: Some(major), minor: None, access }
    }
    let block = Rule { kind: Kind::Block, ..one(0, 0) };
    // Of the eight major numbers for terminals of pts Linux uses the first.
    [
        one(1, 3),
        one(1, 5),
        one(1, 7),
        one(1, 8),
        one(1, 9),
        one(5, 0),
        one(5, 2),
        one(0, 0),
        block,
        terminals(136),
    ]
};

/// Most rules of a program.
pub const RULES_MAX: usize = 4096;

const KIND: R = R(2);
const ACCESS: R = R(3);
const MAJOR: R = R(4);
const MINOR: R = R(5);
const ASKED: R = R(6);

/// The program that allows what the rules allow, and nothing else. Rules beyond [`RULES_MAX`] are left out.
pub fn program(rules: &[Rule]) -> Vec<Instruction> {
    // struct bpf_cgroup_dev_ctx: kind in the low and access in the high half of the first word.
    let mut out = vec![
        load(KIND, CONTEXT, 0),
        copy(ACCESS, KIND),
        and(KIND, 0xffff),
        shift_right(ACCESS, 16),
        load(MAJOR, CONTEXT, 4),
        load(MINOR, CONTEXT, 8),
    ];
    rules.iter().take(RULES_MAX).for_each(|rule| out.extend(block(rule)));
    out.extend(answer(DENY));
    out
}

fn block(rule: &Rule) -> Vec<Instruction> {
    let mut conditions = vec![(KIND, rule.kind as i32)];
    conditions.extend(rule.major.map(|major| (MAJOR, major.cast_signed())));
    conditions.extend(rule.minor.map(|minor| (MINOR, minor.cast_signed())));
    let asked = [copy(ASKED, ACCESS), and(ASKED, i32::from(!rule.access & access::ALL))];
    let all = conditions.len() + asked.len() + 1 + answer(ALLOW).len();
    let conditions = conditions.iter().enumerate();
    let mut out: Vec<Instruction> = conditions
        .map(|(at, (register, value))| skip_unless(*register, *value, to_end(at, all)))
        .collect();
    out.extend(asked);
    out.push(skip_unless(ASKED, 0, to_end(out.len(), all)));
    out.extend(answer(ALLOW));
    out
}
