//! Decoded instructions.
//!
//! They have eight bytes like the original, but are dense: the interpreter's `match` has no holes
//! and no impossible cases. A value exists only if the instruction alone was valid. The `verifier`
//! decides whether its jumps and its memory are valid in their place.

use super::opcode::*;
use super::{FilterError, Instruction, MEMORY_WORDS};

const _: () = assert!(size_of::<Operation>() == 8);

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// A = the packet at an offset, big-endian.
    LoadWord(u32),
    LoadHalf(u32),
    LoadByte(u32),
    /// The same at X plus an offset.
    LoadWordAtIndex(u32),
    LoadHalfAtIndex(u32),
    LoadByteAtIndex(u32),
    /// A = a constant, the packet's length, a word of memory in `[0, MEMORY_WORDS)`.
    LoadConstant(u32),
    LoadLength,
    LoadMemory(u8),
    /// X = a constant, the packet's length, a word of memory, the length of an IPv4 header.
    IndexConstant(u32),
    IndexLength,
    IndexMemory(u8),
    IndexHeaderLength(u32),
    /// A word of memory = A, or X.
    StoreAccumulator(u8),
    StoreIndex(u8),
    /// A = A operator constant, or X.
    Compute(Operator, u32),
    ComputeWithIndex(Operator),
    Negate,
    /// Skip this many instructions.
    Jump(u32),
    /// Skip one of two numbers of instructions by a test of A and a constant. Each test has its own
    /// case: half of a program are these, and a second branch would make each a third slower.
    JumpIfEqual(u8, u8, u32),
    JumpIfGreater(u8, u8, u32),
    JumpIfAtLeast(u8, u8, u32),
    JumpIfSharesBits(u8, u8, u32),
    /// The same with a test of A and X, which is rare.
    JumpIfIndex(Test, u8, u8),
    /// X = A, and A = X.
    AccumulatorToIndex,
    IndexToAccumulator,
    /// Return: the filter wants this many bytes.
    Return(u32),
    ReturnAccumulator,
}

/// An arithmetic operator on A and an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// A comparison of A and X.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Equal,
    Greater,
    AtLeast,
    SharesBits,
}

impl Operation {
    /// Decodes instruction `at`.
    pub(super) fn decode(at: usize, instruction: Instruction) -> Result<Self, FilterError> {
        let Instruction { code, jt, jf, k } = instruction;
        let unknown = FilterError::Opcode { at, code };
        if code > 0xff {
            return Err(unknown);
        }
        match code & 0x07 {
            LD | LDX => load(at, code, k),
            ST if code == ST => Ok(Self::StoreAccumulator(memory_word(at, k)?)),
            STX if code == STX => Ok(Self::StoreIndex(memory_word(at, k)?)),
            ALU => arithmetic(at, code, k),
            JMP if code == JMP | JA => Ok(Self::Jump(k)),
            JMP => {
                let test = Test::decode(code).ok_or(unknown)?;
                Ok(match test {
                    _ if code & X != 0 => Self::JumpIfIndex(test, jt, jf),
                    Test::Equal => Self::JumpIfEqual(jt, jf, k),
                    Test::Greater => Self::JumpIfGreater(jt, jf, k),
                    Test::AtLeast => Self::JumpIfAtLeast(jt, jf, k),
                    Test::SharesBits => Self::JumpIfSharesBits(jt, jf, k),
                })
            }
            RET if code == RET | K => Ok(Self::Return(k)),
            RET if code == RET | A => Ok(Self::ReturnAccumulator),
            MISC if code == MISC | TAX => Ok(Self::AccumulatorToIndex),
            MISC if code == MISC | TXA => Ok(Self::IndexToAccumulator),
            _ => Err(unknown),
        }
    }
}

impl Test {
    fn decode(code: u16) -> Option<Self> {
        match code & 0xf0 {
            JEQ => Some(Self::Equal),
            JGT => Some(Self::Greater),
            JGE => Some(Self::AtLeast),
            JSET => Some(Self::SharesBits),
            _ => None,
        }
    }
}

fn load(at: usize, code: u16, k: u32) -> Result<Operation, FilterError> {
    const LOAD_WORD: u16 = LD | W | ABS;
    const LOAD_HALF: u16 = LD | H | ABS;
    const LOAD_BYTE: u16 = LD | B | ABS;
    const LOAD_WORD_AT_INDEX: u16 = LD | W | IND;
    const LOAD_HALF_AT_INDEX: u16 = LD | H | IND;
    const LOAD_BYTE_AT_INDEX: u16 = LD | B | IND;
    const LOAD_CONSTANT: u16 = LD | W | IMM;
    const LOAD_LENGTH: u16 = LD | W | LEN;
    const LOAD_MEMORY: u16 = LD | W | MEM;
    const INDEX_CONSTANT: u16 = LDX | W | IMM;
    const INDEX_LENGTH: u16 = LDX | W | LEN;
    const INDEX_MEMORY: u16 = LDX | W | MEM;
    const INDEX_HEADER_LENGTH: u16 = LDX | B | MSH;
    Ok(match code {
        LOAD_WORD => Operation::LoadWord(packet_offset(at, k)?),
        LOAD_HALF => Operation::LoadHalf(packet_offset(at, k)?),
        LOAD_BYTE => Operation::LoadByte(packet_offset(at, k)?),
        LOAD_WORD_AT_INDEX => Operation::LoadWordAtIndex(packet_offset(at, k)?),
        LOAD_HALF_AT_INDEX => Operation::LoadHalfAtIndex(packet_offset(at, k)?),
        LOAD_BYTE_AT_INDEX => Operation::LoadByteAtIndex(packet_offset(at, k)?),
        LOAD_CONSTANT => Operation::LoadConstant(k),
        LOAD_LENGTH => Operation::LoadLength,
        LOAD_MEMORY => Operation::LoadMemory(memory_word(at, k)?),
        INDEX_CONSTANT => Operation::IndexConstant(k),
        INDEX_LENGTH => Operation::IndexLength,
        INDEX_MEMORY => Operation::IndexMemory(memory_word(at, k)?),
        INDEX_HEADER_LENGTH => Operation::IndexHeaderLength(packet_offset(at, k)?),
        _ => return Err(FilterError::Opcode { at, code }),
    })
}

fn arithmetic(at: usize, code: u16, k: u32) -> Result<Operation, FilterError> {
    if code == ALU | NEG {
        return Ok(Operation::Negate);
    }
    let operator = match code & 0xf0 {
        ADD => Operator::Add,
        SUB => Operator::Subtract,
        MUL => Operator::Multiply,
        DIV => Operator::Divide,
        MOD => Operator::Remainder,
        OR => Operator::Or,
        AND => Operator::And,
        XOR => Operator::Xor,
        LSH => Operator::ShiftLeft,
        RSH => Operator::ShiftRight,
        _ => return Err(FilterError::Opcode { at, code }),
    };
    if code & X != 0 {
        return Ok(Operation::ComputeWithIndex(operator));
    }
    match operator {
        Operator::Divide | Operator::Remainder if k == 0 => Err(FilterError::DivisionByZero { at }),
        Operator::ShiftLeft | Operator::ShiftRight if k > 31 => {
            Err(FilterError::Shift { at, bits: k })
        }
        _ => Ok(Operation::Compute(operator, k)),
    }
}

/// Offsets with the top bit set are negative to the kernel and out of bounds to libpcap. A program
/// that has one would have different meanings in different places.
fn packet_offset(at: usize, k: u32) -> Result<u32, FilterError> {
    match k as i32 {
        offset if offset < 0 => Err(FilterError::KernelOnly { at, offset }),
        _ => Ok(k),
    }
}

fn memory_word(at: usize, k: u32) -> Result<u8, FilterError> {
    let word = u8::try_from(k).ok().filter(|word| usize::from(*word) < MEMORY_WORDS);
    word.ok_or(FilterError::MemoryWord { at, word: k })
}
