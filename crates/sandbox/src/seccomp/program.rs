//! Rules as a program of the classic Berkeley packet filter, as seccomp(2) takes it.
//!
//! For each architecture a binary search over the numbers; what is allowed without a look at arguments the kernel
//! finds by a bit of its own and never runs the program for.

use super::arch::Arch;
use super::rules::{Action, ArchRules, Rules, Test, Verdict};
use std::collections::BTreeMap;

/// One instruction: `struct sock_filter` of linux/filter.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Instruction {
    /// What is done.
    pub code: u16,
    /// How many instructions are skipped if the test holds.
    pub jt: u8,
    /// How many if it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// `BPF_MAXINSNS`.
const INSTRUCTIONS_MAX: usize = 4096;

/// The program would have more instructions than the kernel takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge(pub usize);

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the filter has {} instructions, more than {INSTRUCTIONS_MAX}", self.0)
    }
}

pub(super) const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
pub(super) const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
pub(super) const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
pub(super) const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
pub(super) const NOT_LESS: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
pub(super) const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Calls of x32 have this bit.
const X32_BIT: u32 = 0x4000_0000;

impl Action {
    /// `SECCOMP_RET_*`.
    pub fn code(self) -> u32 {
        match self {
            Action::Allow => 0x7fff_0000,
            Action::Log => 0x7ffc_0000,
            Action::Errno(number) => 0x0005_0000 | u32::from(number),
            Action::Kill => 0x8000_0000,
        }
    }
}

/// The program of rules.
///
/// # Errors
/// It is too large.
pub fn assemble(rules: &Rules) -> Result<Vec<Instruction>, TooLarge> {
    let mut code = Code::default();
    code.push(LOAD, ARCH);
    for arch in [Arch::X86_64, Arch::X86, Arch::Arm64, Arch::Arm] {
        let (own, x32) = (rules.archs.get(&arch), rules.archs.get(&Arch::X32));
        let shares = arch == Arch::X86_64;
        if own.is_none() && (!shares || x32.is_none()) {
            continue;
        }
        let next = code.label();
        code.branch(EQUAL, arch.audit(), None, Some(next));
        code.push(LOAD, NUMBER);
        if shares {
            let plain = code.label();
            code.branch(NOT_LESS, X32_BIT, None, Some(plain));
            code.ret(x32.map_or(rules.foreign, |rules| rules.otherwise));
            code.place(plain);
        }
        match own {
            Some(rules) => code.numbers(rules),
            None => code.ret(rules.foreign),
        }
        code.place(next);
    }
    code.ret(rules.foreign);
    let program = code.finish();
    match program.len() {
        0..=INSTRUCTIONS_MAX => Ok(program),
        len => Err(TooLarge(len)),
    }
}

/// A place in the program that is jumped to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Label(usize);

/// Instructions as they are written. A conditional jump reaches 255 instructions, so one to a label is written as a
/// short one over an unconditional jump.
#[derive(Default)]
struct Code {
    program: Vec<Instruction>,
    labels: usize,
    /// Where labels are.
    places: BTreeMap<Label, usize>,
    /// Unconditional jumps by their place.
    jumps: BTreeMap<usize, Label>,
}

impl Code {
    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    fn place(&mut self, label: Label) {
        self.places.insert(label, self.program.len());
    }

    fn push(&mut self, code: u16, k: u32) {
        self.program.push(Instruction { code, jt: 0, jf: 0, k });
    }

    fn jump(&mut self, label: Label) {
        self.jumps.insert(self.program.len(), label);
        self.push(JUMP, 0);
    }

    fn ret(&mut self, action: Action) {
        self.push(RETURN, action.code());
    }

    /// Goes to a label if the test holds or does not hold, else on.
    fn branch(&mut self, test: u16, k: u32, holds: Option<Label>, fails: Option<Label>) {
        let (jt, jf) = if holds.is_some() { (0, 1) } else { (1, 0) };
        self.program.push(Instruction { code: test, jt, jf, k });
        if let Some(label) = holds.or(fails) {
            self.jump(label);
        }
    }

    /// A binary search over the numbers of calls, which is loaded.
    fn numbers(&mut self, rules: &ArchRules) {
        let rest = Verdict { checks: Vec::new(), otherwise: rules.otherwise };
        let mut starts: Vec<(u32, &Verdict)> = vec![(0, &rest)];
        for (&number, verdict) in &rules.verdicts {
            starts.push((number, verdict));
            starts.push((number + 1, &rest));
        }
        // The last that begins at a number counts, and neighbours that are alike are one.
        let mut ranges: Vec<(u32, &Verdict)> = Vec::new();
        for (start, verdict) in starts {
            if ranges.last().is_some_and(|(last, _)| *last == start) {
                ranges.pop();
            }
            if ranges.last().is_none_or(|(_, last)| *last != verdict) {
                ranges.push((start, verdict));
            }
        }
        self.search(&ranges);
    }

    fn search(&mut self, ranges: &[(u32, &Verdict)]) {
        let [(_, verdict)] = ranges else {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let right = self.label();
            self.branch(NOT_LESS, high[0].0, Some(right), None);
            self.search(low);
            self.place(right);
            return self.search(high);
        };
        self.verdict(verdict);
    }

    fn verdict(&mut self, verdict: &Verdict) {
        for check in &verdict.checks {
            let next = self.label();
            check.tests.iter().for_each(|test| self.test(test, next));
            self.ret(check.action);
            self.place(next);
        }
        self.ret(verdict.otherwise);
    }

    /// Goes on if the test holds, else to `fails`.
    fn test(&mut self, test: &Test, fails: Label) {
        self.push(LOAD, ARGUMENTS + 8 * u32::from(test.argument));
        if test.mask != u32::MAX {
            self.push(AND, test.mask);
        }
        let holds = self.label();
        for &value in &test.values {
            let target = if test.is_one_of { holds } else { fails };
            self.branch(EQUAL, value, Some(target), None);
        }
        if test.is_one_of {
            self.jump(fails);
        }
        self.place(holds);
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in &self.jumps {
            let distance = self.places[label] - at - 1;
            self.program[*at].k = u32::try_from(distance).unwrap_or(u32::MAX);
        }
        self.program
    }
}
