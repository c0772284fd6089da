//! The reasons why a program is refused.

use super::{INSTRUCTIONS_MAX, MEMORY_WORDS};

/// Why a program is refused. Instructions are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// Too long, or empty.
    #[error("filter: {instructions} instructions, a program has 1 to {INSTRUCTIONS_MAX}")]
    Length {
        /// Number of instructions.
        instructions: usize,
    },
    /// Unknown opcode.
    #[error("filter, instruction {at}: there is no opcode {code:#06x}")]
    Opcode {
        /// The instruction.
        at: usize,
        /// Its code.
        code: u16,
    },
    /// A jump past the last instruction.
    #[error("filter, instruction {at}: jumps to {target}, the last instruction is {last}")]
    JumpOutside {
        /// The instruction.
        at: usize,
        /// Where it jumps to.
        target: u64,
        /// The last instruction.
        last: usize,
    },
    /// A jump back, as libpcap makes it for `protochain`.
    #[error(
        "filter, instruction {at}: jumps back by {distance}, loops are not allowed; \
         write `proto` instead of `protochain`"
    )]
    JumpBack {
        /// The instruction.
        at: usize,
        /// Instructions back from the one after it.
        distance: u32,
    },
    /// The last instruction does not return.
    #[error("filter, instruction {at}: the last one, opcode {code:#06x}, is not a return")]
    NoReturn {
        /// The instruction.
        at: usize,
        /// Its code.
        code: u16,
    },
    /// A word of memory that does not exist.
    #[error("filter, instruction {at}: memory word {word}, there are {MEMORY_WORDS}")]
    MemoryWord {
        /// The instruction.
        at: usize,
        /// The word.
        word: u32,
    },
    /// A word of memory that may not have been stored yet.
    #[error("filter, instruction {at}: memory word {word} may be loaded before it is stored")]
    MemoryUnset {
        /// The instruction.
        at: usize,
        /// The word.
        word: u32,
    },
    /// Division or remainder by the constant 0.
    #[error("filter, instruction {at}: divides by 0")]
    DivisionByZero {
        /// The instruction.
        at: usize,
    },
    /// Division or remainder by X, in a program for a packet socket.
    #[error("filter, instruction {at}: divides by X, which may be 0, in a program for a socket")]
    DivisionByIndex {
        /// The instruction.
        at: usize,
    },
    /// A shift by 32 bits or more, which leaves nothing.
    #[error("filter, instruction {at}: shifts by {bits} bits, at most 31 are allowed")]
    Shift {
        /// The instruction.
        at: usize,
        /// The bits.
        bits: u32,
    },
    /// A load from a kernel extension (a negative offset).
    #[error(
        "filter, instruction {at}: loads from {offset}, which only a kernel socket supports; \
         compile for raw bytes: tcpdump -y EN10MB -ddd without -i"
    )]
    KernelOnly {
        /// The instruction.
        at: usize,
        /// The offset, always negative (`SKF_AD_OFF` and others).
        offset: i32,
    },
    /// The count before the instructions is wrong.
    #[error("filter: {stated} instructions announced, {found} given")]
    Count {
        /// The count as given.
        stated: u64,
        /// Number of instructions that follow.
        found: usize,
    },
    /// Text that is not four numbers, each in the range of its field.
    #[error("filter, instruction {at}: `{text}` is not code jt jf k")]
    Text {
        /// The instruction.
        at: usize,
        /// The beginning of the text.
        text: String,
    },
}
