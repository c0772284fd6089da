//! Classic BPF programs for the kernel: the part for a direction, and a program that rejects all.
//!
//! Jumps are relative and go forward only, so a program can be put in front of another one.
//!
//! Source: Documentation/networking/filter.rst; uapi/linux/filter.h.

use burstline_sys::filter::Instruction;

use super::Direction;

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_LD | BPF_IMM`, `BPF_JMP | BPF_JEQ | BPF_K`.
const LOAD_WORD: u16 = 0x20;
const LOAD_IMMEDIATE: u16 = 0x00;
const JUMP_EQUAL: u16 = 0x15;

/// Offset of the packet's type, for a load: `SKF_AD_OFF + SKF_AD_PKTTYPE`.
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

/// Returns `filter` restricted to packets of `direction`. Empty if there is nothing to filter.
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
        // The filter expects the accumulator in its initial state.
        Instruction::new(LOAD_IMMEDIATE, 0, 0, 0),
    ];
    match filter {
        [] => program.push(Instruction::keep(u32::MAX)),
        filter => program.extend_from_slice(filter),
    }
    program
}
