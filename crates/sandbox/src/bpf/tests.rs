//! Programs are run by a small interpreter of their own.

use std::net::IpAddr;

use super::address::{self, Direction, Lists, PREFIXES_MAX, Prefix};
use super::device::{self, Kind, PSEUDO, Rule, access};
use super::{Instruction, account};

/// Runs a program over a context, and a packet for the function that loads bytes.
fn run(program: &[Instruction], context: &[u32], packet: &[u8]) -> u64 {
    run_counting(program, context, packet, &mut [0; 2])
}

/// The same, with counters of bytes and packets.
fn run_counting(
    program: &[Instruction],
    context: &[u32],
    packet: &[u8],
    counters: &mut [u64; 2],
) -> u64 {
    const COUNTERS: u64 = 1 << 50;
    const CONTEXT: u64 = 1 << 32;
    const STACK: u64 = 1 << 40;
    let mut r = [0u64; 11];
    let mut stack = [0u8; 512];
    (r[1], r[10]) = (CONTEXT, STACK + 512);
    let mut at = 0usize;
    for _ in 0..100_000 {
        let i = program[at];
        at += 1;
        let (to, from) = (usize::from(i.registers & 15), usize::from(i.registers >> 4));
        let skip = |at: usize| at.checked_add_signed(isize::from(i.offset)).expect("inside");
        match i.code {
            0xb7 => r[to] = i64::from(i.constant) as u64,
            0xbf => r[to] = r[from],
            0x07 => r[to] = r[to].wrapping_add_signed(i64::from(i.constant)),
            0x54 => r[to] = u64::from(r[to] as u32 & i.constant as u32),
            0x74 => r[to] = u64::from(r[to] as u32 >> i.constant),
            0x61 => {
                let address = r[from].wrapping_add_signed(i64::from(i.offset));
                r[to] = u64::from(match address.checked_sub(STACK) {
                    Some(at) => {
                        let at = at as usize;
                        u32::from_ne_bytes(stack[at..at + 4].try_into().expect("four"))
                    }
                    None => context[(address - CONTEXT) as usize / 4],
                });
            }
            0x56 if r[to] as u32 != i.constant as u32 => at = skip(at),
            0x56 => {}
            0x16 if r[to] as u32 == i.constant as u32 => at = skip(at),
            0x16 => {}
            0xa6 if (r[to] as u32) < i.constant as u32 => at = skip(at),
            0xa6 => {}
            0x26 if r[to] as u32 > i.constant as u32 => at = skip(at),
            0x26 => {}
            0xdc => r[to] = u64::from(u16::from_be(r[to] as u16)),
            0x05 => at = skip(at),
            0x18 => {
                r[to] = 7;
                at += 1;
            }
            0x85 if i.constant == 81 => {
                assert_eq!((r[1], r[2]), (7, 0));
                // What the program called it with is not there any more.
                (r[0], r[1], r[2], r[3], r[4], r[5]) = (COUNTERS, 1, 1, 1, 1, 1);
            }
            0xdb => counters[(r[to] - COUNTERS) as usize / 8 + i.offset as usize / 8] += r[from],
            0x85 => {
                assert_eq!(i.constant, 26);
                let (offset, bytes) = (r[2] as usize, r[4] as usize);
                let to = (r[3] - STACK) as usize;
                r[0] = match packet.get(offset..offset + bytes) {
                    Some(found) => {
                        stack[to..to + bytes].copy_from_slice(found);
                        0
                    }
                    None => -14i64 as u64,
                };
            }
            0x95 => return r[0],
            code => panic!("{code:#x}"),
        }
    }
    panic!("it does not end");
}

fn uses(rules: &[Rule], kind: Kind, numbers: (u32, u32), asked: u8) -> bool {
    let context = [u32::from(asked) << 16 | kind as u32, numbers.0, numbers.1];
    run(&device::program(rules), &context, &[]) == 1
}

#[test]
fn what_is_let_through_is_counted() {
    let some = lists("10.0.0.0/8", "any");
    for (lists, from, lets) in [
        (&Lists::default(), [1, 2, 3, 4], true),
        (&some, [10, 2, 3, 4], true),
        (&some, [11, 2, 3, 4], false),
    ] {
        let plain =
            address::program(lists, &[(false, vec![5])], Direction::Ingress).expect("short");
        let program = account::counted(plain.clone()).expect("short");
        assert!(!account::only_counts(&program) && program.iter().any(account::is_counting));
        let mut packet = vec![0; 40];
        packet[12..16].copy_from_slice(&from);
        let mut context = [77, 0, 0, 0, u32::from(0x0800u16.to_be()), 0, 0, 0, 0, 0, 3];
        let mut counters = [0; 2];
        for times in 1..3 {
            let answer = run_counting(&program, &context, &packet, &mut counters);
            assert_eq!(answer, run(&plain, &context, &packet));
            assert_eq!(answer == 1, lets);
            let want = if lets { [77 * times, times] } else { [0, 0] };
            assert_eq!(counters, want, "{from:?}");
        }
        // What comes over another device is not.
        context[10] = 5;
        let before = counters;
        assert_eq!(run_counting(&program, &context, &packet, &mut counters), 0);
        assert_eq!(counters, before);
    }
    let free = address::program(&Lists::default(), &[], Direction::Egress).expect("short");
    assert!(account::only_counts(&account::counted(free).expect("short")));
    let long = vec![super::instruction::set(super::instruction::R(0), 1); 40_000];
    let long =
        [long, super::instruction::answer(1).to_vec(), vec![super::instruction::exit(); 40_000]]
            .concat();
    assert!(account::counted(long).is_err());
}

#[test]
fn devices_are_those_of_the_rules() {
    let disk = Rule { kind: Kind::Block, major: Some(8), minor: Some(1), access: access::READ };
    let tty = Rule { kind: Kind::Character, major: Some(4), minor: None, access: access::ALL };
    let all = Rule { kind: Kind::Block, major: None, minor: None, access: access::MAKE };
    let rules = [disk, tty, all];
    assert!(uses(&rules, Kind::Block, (8, 1), access::READ));
    assert!(!uses(&rules, Kind::Block, (8, 1), access::READ | access::WRITE));
    assert!(!uses(&rules, Kind::Block, (8, 2), access::READ));
    assert!(!uses(&rules, Kind::Character, (8, 1), access::READ));
    assert!(uses(&rules, Kind::Character, (4, 77), access::ALL));
    assert!(uses(&rules, Kind::Block, (253, 9), access::MAKE));
    assert!(!uses(&[], Kind::Character, (1, 3), access::READ));
    assert!(uses(&PSEUDO, Kind::Character, (1, 3), access::ALL));
    assert!(uses(&PSEUDO, Kind::Character, (136, 4), access::READ | access::WRITE));
    assert!(!uses(&PSEUDO, Kind::Character, (136, 4), access::MAKE));
    assert!(!uses(&PSEUDO, Kind::Block, (8, 0), access::READ));
}

fn lists(allow: &str, deny: &str) -> Lists {
    let read = |words: &str| {
        words.split_whitespace().flat_map(|w| Prefix::parse(w).expect("a prefix")).collect()
    };
    Lists { allow: read(allow), deny: read(deny) }
}

/// Whether a packet goes to this address, and one comes from it.
fn goes(lists: &Lists, address: &str) -> bool {
    let address: IpAddr = address.parse().expect("an address");
    let (protocol, octets) = match address {
        IpAddr::V4(a) => (0x0800u16, a.octets().to_vec()),
        IpAddr::V6(a) => (0x86ddu16, a.octets().to_vec()),
    };
    let one = |direction, at: usize| {
        let mut packet = vec![0xaa; 40];
        packet[at..at + octets.len()].copy_from_slice(&octets);
        let program = address::program(lists, &[], direction).expect("short");
        let context = [0, 0, 0, 0, u32::from(protocol.to_be())];
        assert_eq!(run(&program, &context, &packet[..4]), 0, "what is too short does not go");
        run(&program, &context, &packet) == 1
    };
    let (from, to) = if octets.len() == 4 { (12, 16) } else { (8, 24) };
    let both = [one(Direction::Ingress, from), one(Direction::Egress, to)];
    assert_eq!(both[0], both[1]);
    both[0]
}

#[test]
fn whom_a_unit_talks_to_is_on_the_lists() {
    let closed = lists("localhost 10.1.0.0/16 2001:db8::/33 192.0.2.7", "any");
    for (address, expected) in [
        ("127.3.4.5", true),
        ("128.0.0.1", false),
        ("10.1.255.255", true),
        ("10.2.0.0", false),
        ("192.0.2.7", true),
        ("192.0.2.8", false),
        ("::1", true),
        ("::2", false),
        ("2001:db8:7fff::1", true),
        ("2001:db8:8000::1", false),
    ] {
        assert_eq!(goes(&closed, address), expected, "{address}");
    }
    let open = lists("", "10.0.0.0/7 multicast");
    assert!(!goes(&open, "11.255.0.1") && goes(&open, "12.0.0.1"));
    assert!(!goes(&open, "ff02::1") && goes(&open, "fe80::1"));
    // What is no IP packet is not looked at.
    let program = address::program(&closed, &[], Direction::Egress).expect("short");
    assert_eq!(run(&program, &[0, 0, 0, 0, 0x0608], &[]), 1);
}

#[test]
fn words_that_are_no_addresses_are_none() {
    for wrong in ["", "x", "1.2.3", "1.2.3.4/33", "1.2.3.4/", "::/129", "1.2.3.4/+8", "ANY", "/8"] {
        assert_eq!(Prefix::parse(wrong), None, "{wrong}");
    }
    let first = |word: &str| Prefix::parse(word).expect("a prefix")[0];
    assert_eq!(first("10.1.2.3/8"), first("10.0.0.0/8"));
    assert_eq!(first("1.2.3.4/0"), first("0.0.0.0/0"));
    assert_eq!(first("fe80::1/64"), first("fe80::/64"));
    assert_ne!(first("fe80::1"), first("fe80::"));
    let many = Lists { allow: vec![lists("::1", "").allow[0]; PREFIXES_MAX + 1], deny: vec![] };
    assert!(address::program(&many, &[], Direction::Ingress).is_err());
    let most = Lists { allow: vec![lists("::1", "").allow[0]; PREFIXES_MAX], deny: vec![] };
    assert!(address::program(&most, &[], Direction::Ingress).is_ok());
}

#[test]
fn ports_are_bound_as_the_lists_say() {
    use super::bind::{self, Family, Rule, Rules};
    const TCP: u32 = 6;
    const UDP: u32 = 17;
    let rules = |allow: &str, deny: &str| {
        let list = |text: &str| {
            text.split_whitespace().map(|word| Rule::parse(word).expect("a rule")).collect()
        };
        Rules { allow: list(allow), deny: list(deny) }
    };
    let binds = |rules: &Rules, family, protocol: u32, port: u16| {
        let mut context = [0; 10];
        (context[6], context[9]) = (u32::from(port.to_be()), protocol);
        run(&bind::program(rules, family), &context, &[]) == 1
    };
    use Family::{Ip4, Ip6};
    let closed = rules("ipv6:10000-65535 tcp:80 ipv4:udp:53", "any");
    for (family, protocol, port, expected) in [
        (Ip6, TCP, 10000, true),
        (Ip6, UDP, 65535, true),
        (Ip6, TCP, 9999, false),
        (Ip4, TCP, 10000, false),
        (Ip4, TCP, 80, true),
        (Ip6, TCP, 80, true),
        (Ip4, UDP, 80, false),
        (Ip4, UDP, 53, true),
        (Ip6, UDP, 53, false),
        (Ip4, TCP, 0, false),
    ] {
        assert_eq!(
            binds(&closed, family, protocol, port),
            expected,
            "{family:?} {protocol} {port}"
        );
    }
    let open = rules("", "ipv6 1-1023");
    assert!(!binds(&open, Ip6, TCP, 5000) && binds(&open, Ip4, TCP, 1024));
    assert!(!binds(&open, Ip4, TCP, 1023) && binds(&open, Ip4, UDP, 0));
}

#[test]
fn packets_go_over_the_devices_of_the_lists() {
    let goes = |lists: &Lists, devices: &[(bool, Vec<u32>)], device: u32| {
        let program = address::program(lists, devices, Direction::Egress).expect("short");
        let mut context = [0; 11];
        (context[4], context[10]) = (u32::from(0x0608u16), device);
        run(&program, &context, &[]) == 1
    };
    let none = Lists::default();
    let two = [(true, vec![2, 3])];
    assert!(goes(&none, &two, 2) && goes(&none, &two, 3) && !goes(&none, &two, 4));
    let not = [(false, vec![2, 3])];
    assert!(!goes(&none, &not, 2) && !goes(&none, &not, 3) && goes(&none, &not, 4));
    let both = [(true, vec![2, 3]), (false, vec![3])];
    assert!(goes(&none, &both, 2) && !goes(&none, &both, 3) && !goes(&none, &both, 4));
    assert!(!goes(&none, &[(true, vec![])], 2) && goes(&none, &[(false, vec![])], 2));
    let closed = lists("localhost", "any");
    assert!(goes(&closed, &two, 2) && !goes(&closed, &two, 4));
}
