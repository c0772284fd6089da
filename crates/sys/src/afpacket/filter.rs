//! Classic BPF programs for the kernel: what a direction adds to a filter, and what rejects all.
//!
//! Jumps are relative and go forward only, so a program can be put in front of another one.
//!
//! Source: Documentation/networking/filter.rst; uapi/linux/filter.h.

use super::Direction;

/// The most instructions of a program. Source: BPF_MAXINSNS, uapi/linux/bpf_common.h.
pub const FILTER_MAX: usize = 4096;

/// One classic BPF instruction, as `tcpdump -ddd` prints it: `code jt jf k`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip if true.
    pub jump_true: u8,
    /// Instructions to skip if false.
    pub jump_false: u8,
    /// The operand.
    pub operand: u32,
}

const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());
const _: () = assert!(align_of::<Instruction>() == align_of::<libc::sock_filter>());

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_LD | BPF_IMM`, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_RET | BPF_K`.
const LOAD_WORD: u16 = 0x20;
const LOAD_IMMEDIATE: u16 = 0x00;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Where the packet's type lies, as a load sees it: `SKF_AD_OFF + SKF_AD_PKTTYPE`.
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

impl Instruction {
    const fn new(code: u16, jump_true: u8, jump_false: u8, operand: u32) -> Self {
        Self { code, jump_true, jump_false, operand }
    }

    /// Ends the program: keep `bytes` bytes of the packet, 0 to reject it.
    pub const fn keep(bytes: u32) -> Self {
        Self::new(RETURN, 0, 0, bytes)
    }
}

/// `filter` for packets of `direction` only. Empty when there is nothing to filter.
///
/// Arriving packets need no instruction: the socket itself ignores outgoing ones.
pub(super) fn for_direction(filter: &[Instruction], direction: Direction) -> Vec<Instruction> {
    if direction != Direction::Out {
        return filter.to_vec();
    }
    let mut program = vec![
        Instruction::new(LOAD_WORD, 0, 0, PACKET_TYPE),
        Instruction::new(JUMP_EQUAL, 1, 0, u32::from(libc::PACKET_OUTGOING)),
        Instruction::keep(0),
        // The filter expects the accumulator as a program begins with it.
        Instruction::new(LOAD_IMMEDIATE, 0, 0, 0),
    ];
    match filter {
        [] => program.push(Instruction::keep(u32::MAX)),
        filter => program.extend_from_slice(filter),
    }
    program
}
