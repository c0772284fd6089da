//! Verifies programs: each instruction alone, then its jumps and its memory in context.

use super::operation::Operation;
use super::{FilterError, INSTRUCTIONS_MAX, Instruction};

/// Decodes a program that keeps invariant I1 of the module, or returns why it does not.
///
/// Cost: one pass over the instructions.
pub(super) fn check(instructions: &[Instruction]) -> Result<Vec<Operation>, FilterError> {
    let count = instructions.len();
    if !(1..=INSTRUCTIONS_MAX).contains(&count) {
        return Err(FilterError::Length { instructions: count });
    }
    let decode = |(at, instruction): (usize, &Instruction)| Operation::decode(at, *instruction);
    let operations = instructions.iter().enumerate().map(decode).collect::<Result<Vec<_>, _>>()?;
    for (at, operation) in operations.iter().enumerate() {
        for distance in distances(*operation).into_iter().flatten() {
            check_jump(at, distance, count)?;
        }
    }
    let at = count - 1;
    if !matches!(operations[at], Operation::Return(_) | Operation::ReturnAccumulator) {
        return Err(FilterError::NoReturn { at, code: instructions[at].code });
    }
    check_memory(&operations)?;
    Ok(operations)
}

/// Returns how far an operation jumps, from the instruction after it.
fn distances(operation: Operation) -> [Option<u32>; 2] {
    match operation {
        Operation::Jump(distance) => [Some(distance), None],
        Operation::JumpIfEqual(yes, no, _)
        | Operation::JumpIfGreater(yes, no, _)
        | Operation::JumpIfAtLeast(yes, no, _)
        | Operation::JumpIfSharesBits(yes, no, _)
        | Operation::JumpIfIndex(_, yes, no) => [Some(yes.into()), Some(no.into())],
        _ => [None, None],
    }
}

fn check_jump(at: usize, distance: u32, count: usize) -> Result<(), FilterError> {
    let target = at as u64 + 1 + u64::from(distance);
    if target < count as u64 {
        return Ok(());
    }
    // Only an unconditional jump is wide enough to wrap around.
    Err(match distance as i32 {
        back if back < 0 => FilterError::JumpBack { at, distance: back.unsigned_abs() },
        _ => FilterError::JumpOutside { at, target, last: count - 1 },
    })
}

/// Checks that each word of memory is stored on every path to a load. As all jumps go forward, one
/// pass sees every path to an instruction before the instruction itself.
///
/// The kernel treats an instruction after a return as reached from it, and so do we: a program
/// accepted here must be accepted there. Source: `check_load_and_stores`, `net/core/filter.c`.
fn check_memory(operations: &[Operation]) -> Result<(), FilterError> {
    const ALL: u16 = u16::MAX;
    // Bit w of `stored_at[i]`: word w is stored on every jump to instruction i.
    let mut stored_at = vec![ALL; operations.len()];
    let mut stored = 0;
    for (at, operation) in operations.iter().enumerate() {
        stored &= stored_at[at];
        match *operation {
            Operation::StoreAccumulator(word) | Operation::StoreIndex(word) => stored |= 1 << word,
            Operation::LoadMemory(word) | Operation::IndexMemory(word) => {
                if stored & (1 << word) == 0 {
                    return Err(FilterError::MemoryUnset { at, word: word.into() });
                }
            }
            _ => {
                let mut is_jump = false;
                for distance in distances(*operation).into_iter().flatten() {
                    stored_at[at + 1 + distance as usize] &= stored;
                    is_jump = true;
                }
                if is_jump {
                    stored = ALL;
                }
            }
        }
    }
    Ok(())
}
