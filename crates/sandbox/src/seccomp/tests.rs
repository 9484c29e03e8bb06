//! Programs are run by a machine for them and compared with the rules that they were made from.

use super::program::{AND, EQUAL, JUMP, LOAD, NOT_LESS, RETURN};
use super::rules::{Action, Rules, rules};
use super::*;
use std::collections::BTreeMap;
use warren_testkit::Dice;

/// A call as the kernel shows it to a filter.
#[derive(Clone, Copy, Debug)]
struct Call {
    number: u32,
    audit: u32,
    arguments: [u64; 6],
}

fn run(program: &[Instruction], call: Call) -> u32 {
    let load = |offset: u32| match offset {
        0 => call.number,
        4 => call.audit,
        offset => (call.arguments[(offset as usize - 16) / 8] >> (8 * ((offset - 16) % 8))) as u32,
    };
    let (mut at, mut accumulator) = (0, 0u32);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        let skipped = |holds: bool| usize::from(if holds { jt } else { jf });
        at += 1;
        match code {
            LOAD => accumulator = load(k),
            AND => accumulator &= k,
            JUMP => at += k as usize,
            EQUAL => at += skipped(accumulator == k),
            NOT_LESS => at += skipped(accumulator >= k),
            RETURN => return k,
            other => panic!("instruction {other:#x}"),
        }
    }
}

/// What the rules say of a call.
fn verdict(rules: &Rules, call: Call) -> Action {
    let is_x32 = call.audit == Arch::X32.audit() && call.number & 0x4000_0000 != 0;
    let is_it = |arch: &Arch| match is_x32 {
        true => *arch == Arch::X32,
        false => *arch != Arch::X32 && arch.audit() == call.audit,
    };
    let Some((_, own)) = rules.archs.iter().find(|(arch, _)| is_it(arch)) else {
        return rules.foreign;
    };
    if is_x32 {
        return own.otherwise;
    }
    let Some(verdict) = own.verdicts.get(&call.number) else { return own.otherwise };
    let holds = |test: &rules::Test| {
        let value = call.arguments[usize::from(test.argument)] as u32 & test.mask;
        test.values.contains(&value) == test.is_one_of
    };
    let check = verdict.checks.iter().find(|check| check.tests.iter().all(holds));
    check.map_or(verdict.otherwise, |check| check.action)
}

/// A filter of settings, one `NAME=value` each; lines of one value are put together.
fn filter(text: &str) -> (Filter, Vec<String>) {
    let (mut filter, mut problems) = (Filter::default(), Vec::new());
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('=').expect("a setting");
        values.entry(name).or_default().push(value);
    }
    for (name, lines) in values {
        assert!(filter.take(name, &lines.join("\n"), Arch::X86_64, &mut problems), "{name}");
    }
    (filter, problems.into_iter().map(|p| format!("{}: {}", p.setting, p.word)).collect())
}

fn call(name: &str, arguments: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let number = Arch::X86_64.number(name).expect("it is a system call");
    Call { number, audit: Arch::X86_64.audit(), arguments: all }
}

/// Checks what a filter says of calls: `name(arguments) => allow|log|kill|ERRNO`.
fn check(settings: &str, calls: &str) {
    let (filter, problems) = filter(settings);
    assert!(problems.is_empty(), "{problems:?}");
    let program = compile(&filter, Arch::X86_64).expect("it is small").expect("it has one");
    for line in calls.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (asked, expected) = line.split_once(" => ").expect("a verdict");
        let (name, arguments) = asked.trim_end_matches(')').split_once('(').expect("arguments");
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).expect("a number"),
            None => text.parse().expect("a number"),
        };
        let arguments: Vec<u64> =
            arguments.split(',').map(str::trim).filter(|a| !a.is_empty()).map(number).collect();
        let action = match expected {
            "allow" => Action::Allow,
            "log" => Action::Log,
            errno => settings::denial(errno).expect("an action").into(),
        };
        assert_eq!(run(&program, call(name, &arguments)), action.code(), "{settings}: {line}");
    }
}

#[test]
fn a_list_of_what_is_allowed() {
    check(
        "SystemCallFilter=read write @io-event
         SystemCallFilter=~write
         SystemCallFilter=openat:EACCES",
        "read() => allow
         write() => kill
         epoll_wait() => allow
         openat() => EACCES
         execve() => allow
         exit_group() => allow
         clock_nanosleep() => allow
         mount() => kill",
    );
    check(
        "SystemCallFilter=@system-service
         SystemCallErrorNumber=EPERM",
        "read() => allow
         socket(2) => allow
         mount() => EPERM
         reboot() => EPERM
         ptrace() => EPERM",
    );
}

#[test]
fn a_list_of_what_is_denied() {
    check(
        "SystemCallFilter=~@mount ptrace:ENOSYS
         SystemCallFilter=umount2",
        "mount() => kill
         umount2() => allow
         ptrace() => ENOSYS
         read() => allow",
    );
    check("SystemCallFilter=~\nSystemCallLog=chmod", "read() => allow\nchmod() => log");
    check(
        "SystemCallFilter=read\nSystemCallFilter=\nSystemCallFilter=~write",
        "mount() => allow\nwrite() => kill",
    );
}

#[test]
fn address_families() {
    check(
        "RestrictAddressFamilies=AF_UNIX AF_INET
         RestrictAddressFamilies=~AF_INET",
        "socket(1) => allow
         socket(2) => EAFNOSUPPORT
         socket(10) => EAFNOSUPPORT
         socket(0x100000001) => allow",
    );
    check("RestrictAddressFamilies=~AF_PACKET", "socket(17) => EAFNOSUPPORT\nsocket(2) => allow");
    check("RestrictAddressFamilies=none", "socket(1) => EAFNOSUPPORT\nbind() => allow");
}

#[test]
fn namespaces() {
    check(
        "RestrictNamespaces=yes",
        "unshare(0x10000000) => EPERM
         unshare(0x400) => allow
         clone(0x1200011) => allow
         clone(0x20000011) => EPERM
         setns(3, 0) => EPERM
         setns(3, 0x40000000) => EPERM
         clone3() => ENOSYS",
    );
    check(
        "RestrictNamespaces=cgroup ipc
         RestrictNamespaces=~cgroup net",
        "unshare(0x8000000) => allow
         unshare(0x2000000) => EPERM
         unshare(0x40000000) => EPERM",
    );
    check("RestrictNamespaces=~user", "unshare(0x10000000) => EPERM\nunshare(0x20000) => allow");
    assert!(filter("RestrictNamespaces=no").0.is_empty());
}

#[test]
fn memory_personality_realtime_and_modes() {
    check(
        "MemoryDenyWriteExecute=yes
         LockPersonality=yes
         RestrictRealtime=yes
         RestrictSUIDSGID=yes",
        "mmap(0, 4096, 3) => allow
         mmap(0, 4096, 7) => EPERM
         mmap(0, 4096, 5) => allow
         mprotect(0, 4096, 4) => EPERM
         mprotect(0, 4096, 3) => allow
         shmat(1, 0, 0x8000) => EPERM
         personality(0) => allow
         personality(0xffffffff) => allow
         personality(8) => EPERM
         sched_setscheduler(0, 0) => allow
         sched_setscheduler(0, 1) => EPERM
         chmod(0, 0x1ff) => allow
         chmod(0, 0x800) => EPERM
         fchmodat(0, 0, 0x400) => EPERM
         openat(0, 0, 0x0, 0x800) => allow
         openat(0, 0, 0x40, 0x800) => EPERM
         openat2() => ENOSYS",
    );
}

#[test]
fn calls_that_other_settings_forbid() {
    check(
        "ProtectClock=yes
         ProtectKernelModules=yes
         ProtectKernelLogs=yes
         ProtectHostname=yes
         PrivateDevices=yes",
        "settimeofday() => EPERM
         init_module() => EPERM
         syslog() => EPERM
         sethostname() => EPERM
         iopl() => EPERM
         read() => allow",
    );
}

#[test]
fn other_architectures() {
    let (asked, _) = filter("SystemCallArchitectures=native");
    let program = compile(&asked, Arch::X86_64).expect("small").expect("one");
    let by = |arch: Arch, number: u32| Call { number, audit: arch.audit(), arguments: [0; 6] };
    assert_eq!(run(&program, by(Arch::X86_64, 0)), Action::Allow.code());
    assert_eq!(run(&program, by(Arch::X86, 3)), Action::Kill.code());
    assert_eq!(run(&program, by(Arch::X86_64, 0x4000_0000)), Action::Kill.code());
    let (asked, _) = filter("SystemCallFilter=~mount");
    let program = compile(&asked, Arch::X86_64).expect("small").expect("one");
    // mount(2) is 21 there, and 165 here.
    assert_eq!(run(&program, by(Arch::X86, 21)), Action::Kill.code());
    assert_eq!(run(&program, by(Arch::X86, 165)), Action::Allow.code());
    assert_eq!(run(&program, by(Arch::X86_64, 0x4000_0000)), Action::Errno(38).code());
}

/// As with systemd 252, and a call that is not made must not look as if it were.
#[test]
fn what_means_nothing_alone_is_as_if_it_were_not_there() {
    assert_eq!(filter("RestrictNamespaces=bogus").0.denied_namespaces, 0);
    assert_eq!(filter("SystemCallErrorNumber=0").0.denial, None);
    assert_eq!(filter("SystemCallErrorNumber=4096").0.denial, None);
    assert_eq!(
        filter("SystemCallErrorNumber=4095").0.denial,
        Some(super::settings::Denial::Errno(4095))
    );
}

#[test]
fn words_that_mean_nothing_are_told_and_left_out() {
    let (asked, problems) = filter(
        "SystemCallFilter=read nonsense @nothing write:EBADNAME
         RestrictAddressFamilies=AF_NONE
         RestrictNamespaces=~bogus user
         SystemCallArchitectures=native pdp11
         SystemCallErrorNumber=ENOTHING",
    );
    let expected = [
        "RestrictAddressFamilies: AF_NONE",
        "RestrictNamespaces: bogus",
        "SystemCallArchitectures: pdp11",
        "SystemCallErrorNumber: ENOTHING",
        "SystemCallFilter: nonsense",
        "SystemCallFilter: @nothing",
        "SystemCallFilter: write:EBADNAME",
    ];
    assert_eq!(problems, expected);
    assert!(asked.calls.expect("it has a list").items.contains_key("read"));
}

/// Settings drawn at random: the program says of every call what the rules say.
#[test]
fn programs_say_what_the_rules_say() {
    const SETTINGS: [&str; 14] = [
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@mount @swap openat:EACCES",
        "SystemCallFilter=~@resources",
        "SystemCallErrorNumber=ENOSYS",
        "SystemCallLog=@file-system",
        "SystemCallLog=~@basic-io",
        "SystemCallArchitectures=native x86",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
        "RestrictNamespaces=~user pid",
        "MemoryDenyWriteExecute=yes",
        "RestrictSUIDSGID=yes",
        "RestrictRealtime=yes",
        "LockPersonality=yes",
        "ProtectKernelModules=yes",
    ];
    const VALUES: [u64; 10] = [0, 1, 2, 4, 6, 7, 0x42, 0x800, 0x1000_0000, 0xffff_ffff_ffff_ffff];
    let mut dice = Dice(20_261_129);
    for _ in 0..60 {
        let chosen: Vec<&str> = SETTINGS.iter().copied().filter(|_| dice.roll(3) == 0).collect();
        let (asked, problems) = filter(&chosen.join("\n"));
        assert!(problems.is_empty());
        let Some(program) = compile(&asked, Arch::X86_64).expect("it is small") else { continue };
        let rules = rules(&asked, Arch::X86_64);
        for audit in [Arch::X86_64.audit(), Arch::X86.audit(), Arch::Arm64.audit()] {
            for number in (0..480).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
                let arguments =
                    std::array::from_fn(|_| VALUES[dice.roll(VALUES.len() as u64) as usize]);
                let call = Call { number, audit, arguments };
                let said = run(&program, call);
                assert_eq!(said, verdict(&rules, call).code(), "{chosen:?}: {call:?}");
            }
        }
    }
}
