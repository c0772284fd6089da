//! The opcodes of the instructions.
//!
//! A code is a class, plus a size and a mode (loads), an operator and an operand (arithmetic and
//! jumps), or a return value. Source: `linux/bpf_common.h`; `MOD` and `XOR` from `linux/filter.h`.

/// Class: load into A.
pub(super) const LD: u16 = 0x00;
/// Class: load into X.
pub(super) const LDX: u16 = 0x01;
/// Class: store A.
pub(super) const ST: u16 = 0x02;
/// Class: store X.
pub(super) const STX: u16 = 0x03;
/// Class: arithmetic on A.
pub(super) const ALU: u16 = 0x04;
/// Class: jump.
pub(super) const JMP: u16 = 0x05;
/// Class: return.
pub(super) const RET: u16 = 0x06;
/// Class: between A and X.
pub(super) const MISC: u16 = 0x07;

/// Size: 4 bytes.
pub(super) const W: u16 = 0x00;
/// Size: 2 bytes.
pub(super) const H: u16 = 0x08;
/// Size: 1 byte.
pub(super) const B: u16 = 0x10;

/// Mode: the constant k.
pub(super) const IMM: u16 = 0x00;
/// Mode: the packet at k.
pub(super) const ABS: u16 = 0x20;
/// Mode: the packet at X + k.
pub(super) const IND: u16 = 0x40;
/// Mode: memory word k.
pub(super) const MEM: u16 = 0x60;
/// Mode: the packet's length on the wire.
pub(super) const LEN: u16 = 0x80;
/// Mode: four times the low half of the packet's byte at k: the length of an IPv4 header.
pub(super) const MSH: u16 = 0xa0;

pub(super) const ADD: u16 = 0x00;
pub(super) const SUB: u16 = 0x10;
pub(super) const MUL: u16 = 0x20;
pub(super) const DIV: u16 = 0x30;
pub(super) const OR: u16 = 0x40;
pub(super) const AND: u16 = 0x50;
pub(super) const LSH: u16 = 0x60;
pub(super) const RSH: u16 = 0x70;
pub(super) const NEG: u16 = 0x80;
pub(super) const MOD: u16 = 0x90;
pub(super) const XOR: u16 = 0xa0;

pub(super) const JA: u16 = 0x00;
pub(super) const JEQ: u16 = 0x10;
pub(super) const JGT: u16 = 0x20;
pub(super) const JGE: u16 = 0x30;
pub(super) const JSET: u16 = 0x40;

/// Operand or returned value: the constant k.
pub(super) const K: u16 = 0x00;
/// Operand: X.
pub(super) const X: u16 = 0x08;
/// Returned value: A.
pub(super) const A: u16 = 0x10;

/// Copy A to X.
pub(super) const TAX: u16 = 0x00;
/// Copy X to A.
pub(super) const TXA: u16 = 0x80;

/// The offset that asks the kernel whether a VLAN tag was removed from the packet.
/// Source: `SKF_AD_OFF` + `SKF_AD_VLAN_TAG_PRESENT`, `linux/filter.h`.
pub(super) const STRIPPED_TAG: u32 = (-0x1000_i32 + 48) as u32;
