//! Classic BPF: small programs that decide for each packet whether it is wanted.
//!
//! ```text
//! "udp port 53" --libpcap--> instructions --Program::new--> checked, decoded --run--> 0 or bytes
//!  tcpdump -ddd --------------^                             (never again per packet)
//! ```
//!
//! The machine has an accumulator A, an index X, 16 words of memory M and the packet, all in 32
//! bits. A program accepted by [`Program::new`] ends after at most as many steps as it has
//! instructions, because every jump goes forward.
//!
//! Programs see only the bytes of the packet, so they mean the same on every port. Loads from
//! negative offsets ask for data of a kernel socket (a VLAN tag that the NIC removed, the
//! interface). They are refused here. In one place the kernel runs our program. There
//! [`Program::for_packet_socket`] passes tagged packets on to where their bytes are restored, and
//! [`Program::complement_for_packet_socket`] counts what it rejects.
//!
//! # Invariants
//! - I1. Every program that runs was checked: known opcodes, forward jumps inside the program, a
//!   return at the end, no constant division by 0. Shifts are in [0, 32); M[] is in [0, 16) and
//!   stored before it is loaded. The kernel accepts what we accept.
//! - I2. Running neither panics nor allocates, and its verdict is that of libpcap's `bpf_filter`.
//!
//! Source: Linux `net/core/filter.c` (`bpf_check_classic`), libpcap `bpf_filter.c`; McCanne and
//! Jacobson, The BSD Packet Filter, USENIX 1993.

mod error;
mod interpreter;
mod opcode;
mod operation;
mod socket;
#[cfg(test)]
mod tests;
mod text;
mod verifier;

pub use error::FilterError;

use operation::Operation;

/// Instructions that a program may have. Source: `BPF_MAXINSNS`, `linux/bpf_common.h`.
pub const INSTRUCTIONS_MAX: usize = 4096;

/// Words of memory that a program has. Source: `BPF_MEMWORDS`, `linux/filter.h`.
pub const MEMORY_WORDS: usize = 16;

/// One instruction as libpcap and the kernel write it. Source: `struct sock_filter`,
/// `linux/filter.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// The opcode.
    pub code: u16,
    /// Instructions to skip if the test holds.
    pub jt: u8,
    /// Instructions to skip if the test fails.
    pub jf: u8,
    /// The constant: an offset, a value, a distance or a word of memory.
    pub k: u32,
}

/// A checked program, ready to run. Prints itself as `tcpdump -ddd` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<Instruction>,
    operations: Vec<Operation>,
}

impl Program {
    /// Checks and decodes a program.
    ///
    /// # Errors
    /// Describes the fault, with the instruction's number counted from 0, as `tcpdump -d` does.
    pub fn new(instructions: Vec<Instruction>) -> Result<Self, FilterError> {
        let operations = verifier::check(&instructions)?;
        Ok(Self { instructions, operations })
    }

    /// Reads a program in any form that tools print. `tcpdump -ddd` and `bpfc` print one
    /// instruction per line or all on one line with commas (as iptables takes it), with or without
    /// a leading count. `tcpdump -dd` prints braces.
    ///
    /// # Errors
    /// Text that cannot be read, or a program that [`Program::new`] refuses.
    pub fn from_tcpdump_ddd(text: &str) -> Result<Self, FilterError> {
        Self::new(text::parse(text)?)
    }

    /// Returns how many bytes of the packet are wanted: 0 filters it out; more than it has means
    /// all of it. Also 0 for a program that loads from outside of `packet` or divides by an X of 0.
    ///
    /// `original_length` is the packet's length on the wire; `packet` may be shorter.
    ///
    /// Cost: a few CPU instructions per executed instruction; no allocation.
    #[inline]
    pub fn run(&self, packet: &[u8], original_length: u32) -> u32 {
        interpreter::run(&self.operations, packet, original_length).unwrap_or(0)
    }

    /// Returns the program as it was given, `[1, INSTRUCTIONS_MAX]` instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }
}
