//! Which calls a filter forbids: for each architecture and number what the call comes to, by its arguments.

use super::arch::Arch;
use super::groups;
use super::settings::{Calls, Denial, Filter, List};
use std::collections::{BTreeMap, BTreeSet};

/// What a call comes to, the mildest first: the kernel's order where several filters speak.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Action {
    /// It is made.
    Allow,
    /// It is made, and the kernel's audit logs it.
    Log,
    /// It fails with this error number.
    Errno(u16),
    /// The process is killed.
    Kill,
}

/// A test of the low 32 bits of an argument: all arguments that are looked at are ints or flags in them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Test {
    /// Which argument, 0 to 5.
    pub argument: u8,
    /// The bits that are looked at.
    pub mask: u32,
    /// What they are compared with.
    pub values: Vec<u32>,
    /// Whether the test is that they are one of these, or that they are none of them.
    pub is_one_of: bool,
}

/// What some calls with a number come to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Check {
    /// It comes to this if all tests hold.
    pub action: Action,
    /// The tests.
    pub tests: Vec<Test>,
}

/// What calls with one number come to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Verdict {
    /// Looked at one after the other, the most severe first; the first that holds counts.
    pub checks: Vec<Check>,
    /// If none holds.
    pub otherwise: Action,
}

/// The verdicts of one architecture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchRules {
    /// By number.
    pub verdicts: BTreeMap<u32, Verdict>,
    /// Of all other numbers.
    pub otherwise: Action,
}

/// The verdicts of all architectures. Calls by `X32` fail with ENOSYS, as in a kernel without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Those that may be used.
    pub archs: BTreeMap<Arch, ArchRules>,
    /// What a call by another one comes to.
    pub foreign: Action,
}

const EPERM: u16 = 1;
const ENOSYS: u16 = 38;
const EAFNOSUPPORT: u16 = 97;

/// The rules of a filter for a kernel.
pub fn rules(filter: &Filter, native: Arch) -> Rules {
    let is_used =
        |arch: &Arch| filter.architectures.as_ref().is_none_or(|archs| archs.contains(arch));
    let used = native.locals().iter().copied().filter(is_used);
    let archs = used.map(|arch| (arch, arch_rules(filter, arch))).collect();
    let foreign = match filter.architectures {
        Some(_) => Action::Kill,
        None => Action::Errno(ENOSYS),
    };
    Rules { archs, foreign }
}

impl From<Denial> for Action {
    fn from(denial: Denial) -> Action {
        match denial {
            Denial::Errno(number) => Action::Errno(number),
            Denial::Kill => Action::Kill,
        }
    }
}

fn arch_rules(filter: &Filter, arch: Arch) -> ArchRules {
    if arch == Arch::X32 {
        return ArchRules { verdicts: BTreeMap::new(), otherwise: Action::Errno(ENOSYS) };
    }
    let mut rules = ArchRules { verdicts: BTreeMap::new(), otherwise: Action::Allow };
    rules.list(arch, filter.calls.as_ref(), filter.denial.unwrap_or(Denial::Kill).into());
    rules.log(arch, filter.logged.as_ref());
    for name in &filter.forbidden {
        let calls = groups::members(name).unwrap_or_else(|| BTreeSet::from([*name]));
        calls.into_iter().for_each(|call| rules.deny(arch, call, Action::Errno(EPERM), vec![]));
    }
    rules.address_families(arch, filter);
    rules.namespaces(arch, filter.denied_namespaces);
    if filter.memory_deny_write_execute {
        rules.write_execute(arch);
    }
    if filter.restrict_realtime {
        // SCHED_OTHER, SCHED_BATCH, SCHED_IDLE.
        let other = Test { argument: 1, mask: u32::MAX, values: vec![0, 3, 5], is_one_of: false };
        rules.deny(arch, "sched_setscheduler", Action::Errno(EPERM), vec![other]);
    }
    if filter.restrict_suid_sgid {
        rules.suid_sgid(arch);
    }
    if let Some(personality) = filter.locked_personality {
        // All ones ask which one it is.
        let values = vec![personality, u32::MAX];
        let other = Test { argument: 0, mask: u32::MAX, values, is_one_of: false };
        rules.deny(arch, "personality", Action::Errno(EPERM), vec![other]);
    }
    rules.simplify();
    rules
}

/// Any of these bits.
fn any_of(argument: u8, mask: u32) -> Test {
    Test { argument, mask, values: vec![0], is_one_of: false }
}

/// All of these bits.
fn all_of(argument: u8, mask: u32) -> Test {
    Test { argument, mask, values: vec![mask], is_one_of: true }
}

impl ArchRules {
    fn verdict(&mut self, number: u32) -> &mut Verdict {
        let otherwise = self.otherwise;
        self.verdicts.entry(number).or_insert_with(|| Verdict { checks: Vec::new(), otherwise })
    }

    /// Denies a call whose arguments pass the tests, if the architecture has it.
    fn deny(&mut self, arch: Arch, call: &str, action: Action, tests: Vec<Test>) {
        let Some(number) = arch.number(call) else { return };
        let verdict = self.verdict(number);
        match tests.is_empty() {
            true => verdict.otherwise = verdict.otherwise.max(action),
            false => verdict.checks.push(Check { action, tests }),
        }
    }

    fn list(&mut self, arch: Arch, list: Option<&List<Calls>>, denial: Action) {
        let Some(list) = list else { return };
        if list.is_allowed {
            self.otherwise = denial;
        }
        for (name, stated) in &list.items {
            let Some(number) = arch.number(name) else { continue };
            let stated = stated.map(Action::from);
            self.verdict(number).otherwise = match list.is_allowed {
                true => stated.unwrap_or(Action::Allow),
                false => stated.unwrap_or(denial),
            };
        }
    }

    fn log(&mut self, arch: Arch, list: Option<&List<Calls>>) {
        let Some(list) = list else { return };
        let listed: BTreeSet<u32> =
            list.items.keys().filter_map(|name| arch.number(name)).collect();
        let (inside, outside) = match list.is_allowed {
            true => (Action::Log, Action::Allow),
            false => (Action::Allow, Action::Log),
        };
        listed.iter().for_each(|&number| _ = self.verdict(number));
        for (number, verdict) in &mut self.verdicts {
            let action = if listed.contains(number) { inside } else { outside };
            verdict.otherwise = verdict.otherwise.max(action);
        }
        self.otherwise = self.otherwise.max(outside);
    }

    fn address_families(&mut self, arch: Arch, filter: &Filter) {
        let Some(list) = &filter.address_families else { return };
        let values = list.items.iter().copied().collect();
        let test = Test { argument: 0, mask: u32::MAX, values, is_one_of: !list.is_allowed };
        // On 32-bit x86 programs may also use socketcall(2), whose arguments lie in memory: it cannot be filtered.
        self.deny(arch, "socket", Action::Errno(EAFNOSUPPORT), vec![test]);
    }

    fn namespaces(&mut self, arch: Arch, denied: u32) {
        if denied == 0 {
            return;
        }
        let errno = Action::Errno(EPERM);
        self.deny(arch, "unshare", errno, vec![any_of(0, denied)]);
        self.deny(arch, "clone", errno, vec![any_of(0, denied)]);
        self.deny(arch, "setns", errno, vec![any_of(1, denied)]);
        // 0 is any.
        let zero = Test { argument: 1, mask: u32::MAX, values: vec![0], is_one_of: true };
        self.deny(arch, "setns", errno, vec![zero]);
        // Its flags lie in memory: programs go on with clone(2).
        self.deny(arch, "clone3", Action::Errno(ENOSYS), vec![]);
    }

    fn write_execute(&mut self, arch: Arch) {
        const PROT_WRITE: u32 = 2;
        const PROT_EXEC: u32 = 4;
        const SHM_EXEC: u32 = 0o100_000;
        let errno = Action::Errno(EPERM);
        // The first call of x86 takes its arguments in memory.
        let mmap: &[&str] = if arch == Arch::X86 { &["mmap2"] } else { &["mmap", "mmap2"] };
        if arch == Arch::X86 {
            self.deny(arch, "mmap", errno, vec![]);
        }
        for call in mmap {
            self.deny(arch, call, errno, vec![all_of(2, PROT_WRITE | PROT_EXEC)]);
        }
        for call in ["mprotect", "pkey_mprotect"] {
            self.deny(arch, call, errno, vec![any_of(2, PROT_EXEC)]);
        }
        self.deny(arch, "shmat", errno, vec![any_of(2, SHM_EXEC)]);
    }

    fn suid_sgid(&mut self, arch: Arch) {
        const S_ISUID_ISGID: u32 = 0o6000;
        const O_CREAT: u32 = 0o100;
        const O_TMPFILE: u32 = 0o20_000_000;
        let errno = Action::Errno(EPERM);
        let by_mode = [
            ("chmod", 1),
            ("fchmod", 1),
            ("fchmodat", 2),
            ("fchmodat2", 2),
            ("mkdir", 1),
            ("mkdirat", 2),
            ("mknod", 1),
            ("mknodat", 2),
            ("creat", 1),
        ];
        for (call, argument) in by_mode {
            self.deny(arch, call, errno, vec![any_of(argument, S_ISUID_ISGID)]);
        }
        for (call, flags) in [("open", 1), ("openat", 2)] {
            let makes = any_of(flags, O_CREAT | O_TMPFILE);
            self.deny(arch, call, errno, vec![makes, any_of(flags + 1, S_ISUID_ISGID)]);
        }
        // Its arguments lie in memory: programs go on with openat(2).
        self.deny(arch, "openat2", Action::Errno(ENOSYS), vec![]);
    }

    /// Puts the most severe check first, and leaves out those that are no more severe than what holds anyway.
    fn simplify(&mut self) {
        for verdict in self.verdicts.values_mut() {
            let otherwise = verdict.otherwise;
            verdict.checks.retain(|check| check.action > otherwise);
            verdict.checks.sort_by(|a, b| b.cmp(a));
            verdict.checks.dedup();
        }
        let otherwise = self.otherwise;
        self.verdicts
            .retain(|_, verdict| !verdict.checks.is_empty() || verdict.otherwise != otherwise);
    }
}
