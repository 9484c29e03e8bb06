//! The instructions that the programs are made of (Documentation/bpf/standardization/instruction-set.rst).

/// `struct bpf_insn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Class, operation and source.
    pub code: u8,
    /// Destination register in the low four bits, source register in the high ones.
    pub registers: u8,
    /// Instructions to skip, or bytes behind an address.
    pub offset: i16,
    /// A constant.
    pub constant: i32,
}

impl Instruction {
    /// As the kernel reads it.
    pub fn bytes(self) -> [u8; 8] {
        let (offset, constant) = (self.offset.to_ne_bytes(), self.constant.to_ne_bytes());
        let [a, b, c, d] = constant;
        [self.code, self.registers, offset[0], offset[1], a, b, c, d]
    }
}

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct R(pub u8);

/// What a program is called with, what it answers, and the end of its stack.
pub const CONTEXT: R = R(1);
/// See [`CONTEXT`].
pub const RESULT: R = R(0);
/// See [`CONTEXT`].
pub const FRAME: R = R(10);

fn make(code: u8, to: R, from: R, offset: i16, constant: i32) -> Instruction {
    Instruction { code, registers: from.0 << 4 | to.0, offset, constant }
}

/// `to = constant`
pub fn set(to: R, constant: i32) -> Instruction {
    make(0xb7, to, R(0), 0, constant)
}

/// `to = from`
pub fn copy(to: R, from: R) -> Instruction {
    make(0xbf, to, from, 0, 0)
}

/// `to += constant`
pub fn add(to: R, constant: i32) -> Instruction {
    make(0x07, to, R(0), 0, constant)
}

/// `to &= constant`, 32 bits.
pub fn and(to: R, constant: i32) -> Instruction {
    make(0x54, to, R(0), 0, constant)
}

/// `to >>= constant`, 32 bits.
pub fn shift_right(to: R, constant: i32) -> Instruction {
    make(0x74, to, R(0), 0, constant)
}

/// `to = *(u32 *) (from + offset)`
pub fn load(to: R, from: R, offset: i16) -> Instruction {
    make(0x61, to, from, offset, 0)
}

/// `to = *(u64 *) (from + offset)`
pub fn load_64(to: R, from: R, offset: i16) -> Instruction {
    make(0x79, to, from, offset, 0)
}

/// `*(u32 *) (to + offset) = constant`
pub fn store(to: R, offset: i16, constant: i32) -> Instruction {
    make(0x62, to, R(0), offset, constant)
}

/// `if (register == 0) skip`, 64 bits: the kernel wants addresses that may be none asked so.
pub fn skip_if_0_64(register: R, skip: i16) -> Instruction {
    make(0x15, register, R(0), skip, 0)
}

/// `if (register != constant) skip`, 32 bits.
pub fn skip_unless(register: R, constant: i32, skip: i16) -> Instruction {
    make(0x56, register, R(0), skip, constant)
}

/// `if (register == constant) skip`, 32 bits.
pub fn skip_if(register: R, constant: i32, skip: i16) -> Instruction {
    make(0x16, register, R(0), skip, constant)
}

/// `if (register < constant) skip`, 32 bits without a sign.
pub fn skip_if_below(register: R, constant: i32, skip: i16) -> Instruction {
    make(0xa6, register, R(0), skip, constant)
}

/// `if (register > constant) skip`, 32 bits without a sign.
pub fn skip_if_above(register: R, constant: i32, skip: i16) -> Instruction {
    make(0x26, register, R(0), skip, constant)
}

/// The 16 bits of a register in the order of the network become those of this machine.
pub fn from_network_16(register: R) -> Instruction {
    make(0xdc, register, R(0), 0, 16)
}

/// Skips so many instructions.
pub fn jump(skip: i16) -> Instruction {
    make(0x05, R(0), R(0), skip, 0)
}

/// `to = the map of the program`: who loads it says which map that is.
pub fn map(to: R) -> [Instruction; 2] {
    [make(MAP_CODE, to, MAP_FD, 0, 0), make(0, R(0), R(0), 0, 0)]
}

/// The code of the first instruction of [`map`], and what it has as its source (BPF_PSEUDO_MAP_FD).
const MAP_CODE: u8 = 0x18;
const MAP_FD: R = R(1);

/// `*(u64 *) (to + offset) += from`, in one step for all processors.
pub fn add_atomic(to: R, from: R, offset: i16) -> Instruction {
    make(0xdb, to, from, offset, 0)
}

/// Calls a function of the kernel.
pub fn call(function: i32) -> Instruction {
    make(0x85, R(0), R(0), 0, function)
}

/// The end.
pub fn exit() -> Instruction {
    make(0x95, R(0), R(0), 0, 0)
}

/// Ends with an answer.
pub fn answer(result: i32) -> [Instruction; 2] {
    [set(RESULT, result), exit()]
}

/// The instructions of a block of those that skip to its end if a condition does not hold: how far that is for the one
/// at `at` of `all`.
pub fn to_end(at: usize, all: usize) -> i16 {
    i16::try_from(all - at - 1).expect("a block is short")
}
