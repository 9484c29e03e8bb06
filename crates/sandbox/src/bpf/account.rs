//! Counting the traffic of a unit (systemd.resource-control(5), "IPAccounting="): a program for packets that also adds
//! up what it lets through, for each group that it is attached to.

use super::ALLOW;
use super::instruction::{
    CONTEXT, Instruction, R, RESULT, add_atomic, answer, call, copy, exit, jump, load, map, set,
};

/// Bytes of a group's counters: bytes and packets, 8 each.
pub const COUNTER_BYTES: u32 = 16;

/// Where counters are of a group.
const BYTES_AT: i16 = 0;
const PACKETS_AT: i16 = 8;

/// `bpf_get_local_storage()`, bpf-helpers(7).
const GET_LOCAL_STORAGE: i32 = 81;

/// `struct __sk_buff`
const LENGTH_AT: i16 = 0;

/// Keeps the context; no program for packets uses it otherwise.
const KEPT: R = R(9);
const NUMBER: R = R(1);

/// Whether an instruction is of a program that counts.
pub fn is_counting(instruction: &Instruction) -> bool {
    *instruction == map(NUMBER)[0]
}

/// Whether a program that counts forbids nothing.
pub fn only_counts(program: &[Instruction]) -> bool {
    counted(answer(ALLOW).to_vec()).is_ok_and(|all| all == program)
}

/// The same program, which counts what it allows.
///
/// # Errors
/// It is too long.
pub fn counted(program: Vec<Instruction>) -> Result<Vec<Instruction>, String> {
    let allow = [set(RESULT, ALLOW), exit()];
    let length = program.len() + 1;
    let mut out = Vec::with_capacity(length + 16);
    out.push(copy(KEPT, CONTEXT));
    out.extend(program);
    for at in 1..length - 1 {
        if out.get(at..at + 2) != Some(&allow) {
            continue;
        }
        let to_end = i16::try_from(length - at - 2);
        let skip = to_end.map_err(|_| "the program is too long to count".to_owned())?;
        if let Some(exit) = out.get_mut(at + 1) {
            *exit = jump(skip);
        }
    }
    out.extend(map(NUMBER));
    out.extend([
        set(R(2), 0),
        call(GET_LOCAL_STORAGE),
        load(NUMBER, KEPT, LENGTH_AT),
        add_atomic(RESULT, NUMBER, BYTES_AT),
        set(NUMBER, 1),
        add_atomic(RESULT, NUMBER, PACKETS_AT),
        set(RESULT, ALLOW),
        exit(),
    ]);
    Ok(out)
}
