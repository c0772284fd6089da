//! The interpreter. Source: libpcap `bpf_filter.c`, whose every verdict it reproduces.

use super::MEMORY_WORDS;
use super::operation::{Operation, Operator, Test};
use crate::headers::bytes_at;

/// Runs a program that keeps invariant I1 of the module; `None` if a load is outside of `packet`,
/// or a divisor is 0.
pub(super) fn run(program: &[Operation], packet: &[u8], original_length: u32) -> Option<u32> {
    let (mut a, mut x) = (0_u32, 0_u32);
    let mut memory = [0_u32; MEMORY_WORDS];
    let mut next = 0;
    loop {
        // I1: the program ends in a return, and no jump goes past it.
        let operation = *program.get(next)?;
        next += 1;
        match operation {
            Operation::LoadWord(k) => a = word(packet, k)?,
            Operation::LoadHalf(k) => a = half(packet, k)?,
            Operation::LoadByte(k) => a = byte(packet, k)?,
            Operation::LoadWordAtIndex(k) => a = word(packet, x.checked_add(k)?)?,
            Operation::LoadHalfAtIndex(k) => a = half(packet, x.checked_add(k)?)?,
            Operation::LoadByteAtIndex(k) => a = byte(packet, x.checked_add(k)?)?,
            Operation::LoadConstant(k) => a = k,
            Operation::LoadLength => a = original_length,
            Operation::LoadMemory(word) => a = memory[usize::from(word)],
            Operation::IndexConstant(k) => x = k,
            Operation::IndexLength => x = original_length,
            Operation::IndexMemory(word) => x = memory[usize::from(word)],
            Operation::IndexHeaderLength(k) => x = (byte(packet, k)? & 0xf) << 2,
            Operation::StoreAccumulator(word) => memory[usize::from(word)] = a,
            Operation::StoreIndex(word) => memory[usize::from(word)] = x,
            Operation::Compute(operator, k) => a = operator.apply(a, k)?,
            Operation::ComputeWithIndex(operator) => a = operator.apply(a, x)?,
            Operation::Negate => a = a.wrapping_neg(),
            Operation::Jump(distance) => next += distance as usize,
            Operation::JumpIfEqual(yes, no, k) => next += side(a == k, yes, no),
            Operation::JumpIfGreater(yes, no, k) => next += side(a > k, yes, no),
            Operation::JumpIfAtLeast(yes, no, k) => next += side(a >= k, yes, no),
            Operation::JumpIfSharesBits(yes, no, k) => next += side(a & k != 0, yes, no),
            Operation::JumpIfIndex(test, yes, no) => next += side(test.holds(a, x), yes, no),
            Operation::AccumulatorToIndex => x = a,
            Operation::IndexToAccumulator => a = x,
            Operation::Return(k) => return Some(k),
            Operation::ReturnAccumulator => return Some(a),
        }
    }
}

impl Operator {
    /// Wraps around; a shift by more than 31 leaves 0. `None` for a division by 0.
    #[inline]
    fn apply(self, a: u32, operand: u32) -> Option<u32> {
        Some(match self {
            Self::Add => a.wrapping_add(operand),
            Self::Subtract => a.wrapping_sub(operand),
            Self::Multiply => a.wrapping_mul(operand),
            Self::Divide => a.checked_div(operand)?,
            Self::Remainder => a.checked_rem(operand)?,
            Self::Or => a | operand,
            Self::And => a & operand,
            Self::Xor => a ^ operand,
            Self::ShiftLeft => a.checked_shl(operand).unwrap_or(0),
            Self::ShiftRight => a.checked_shr(operand).unwrap_or(0),
        })
    }
}

impl Test {
    #[inline]
    fn holds(self, a: u32, x: u32) -> bool {
        match self {
            Self::Equal => a == x,
            Self::Greater => a > x,
            Self::AtLeast => a >= x,
            Self::SharesBits => a & x != 0,
        }
    }
}

#[inline]
fn side(holds: bool, yes: u8, no: u8) -> usize {
    usize::from(if holds { yes } else { no })
}

#[inline]
fn word(packet: &[u8], at: u32) -> Option<u32> {
    bytes_at(packet, at as usize).map(u32::from_be_bytes)
}

#[inline]
fn half(packet: &[u8], at: u32) -> Option<u32> {
    bytes_at(packet, at as usize).map(|bytes| u16::from_be_bytes(bytes).into())
}

#[inline]
fn byte(packet: &[u8], at: u32) -> Option<u32> {
    packet.get(at as usize).map(|byte| u32::from(*byte))
}
