//! A small assembler: instructions in order, jumps to labels.
//!
//! ```
//! use burstline_xdp::bpf::{Assembler, Compare, Register::*, Size, xdp_action, xdp_context};
//!
//! // Drops packets of fewer than 60 bytes and passes the others.
//! let mut code = Assembler::new();
//! let drop = code.label();
//! code.load(Size::Word, R2, R1, xdp_context::DATA)
//!     .load(Size::Word, R3, R1, xdp_context::DATA_END)
//!     .add(R2, 60)
//!     .mov(R0, xdp_action::DROP)
//!     .jump_if(Compare::Above, R2, R3, drop)
//!     .mov(R0, xdp_action::PASS)
//!     .bind(drop)
//!     .exit();
//! assert_eq!(code.finish()?.len(), 7);
//! # Ok::<(), burstline_xdp::bpf::BpfError>(())
//! ```
//!
//! The kernel's verifier checks the program; the assembler checks only that every label is bound
//! and near enough.

use std::os::fd::{AsFd, AsRawFd};

use super::{Alu, BpfError, Compare, Helper, Instruction, Map, Operand, Register, Size};

/// Instruction classes. Source: RFC 9669, section 3.1.
const CLASS_LOAD_WIDE: u8 = 0x00;
const CLASS_LOAD: u8 = 0x01;
const CLASS_STORE_IMMEDIATE: u8 = 0x02;
const CLASS_STORE: u8 = 0x03;
const CLASS_ALU_32: u8 = 0x04;
const CLASS_JUMP: u8 = 0x05;
const CLASS_JUMP_32: u8 = 0x06;
const CLASS_ALU_64: u8 = 0x07;

/// The second operand is a register. Source: RFC 9669, section 4.
const FROM_REGISTER: u8 = 0x08;
const NEGATE: u8 = 0x80;
const BYTE_SWAP: u8 = 0xd0;
/// For a byte swap: to network order.
const TO_BIG_ENDIAN: u8 = 0x08;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

/// Address modes of loads and stores. Source: RFC 9669, section 5.
const MODE_MEMORY: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;

/// The kind of the constant of a wide load. Source: RFC 9669, section 5.4.
const PSEUDO_MAP: Register = Register::R1;
const PSEUDO_MAP_VALUE: Register = Register::R2;

/// Returns the positions of the instructions whose constant is the descriptor of a map.
pub(super) fn maps_of(code: &[Instruction]) -> Vec<usize> {
    let kinds = [PSEUDO_MAP as u8, PSEUDO_MAP_VALUE as u8];
    let is_wide = |one: &Instruction| one.code == CLASS_LOAD_WIDE | Size::Double as u8;
    let names_map = |one: &Instruction| is_wide(one) && kinds.contains(&one.source());
    (0..code.len()).filter(|&at| names_map(&code[at])).collect()
}

/// Returns whether instructions name something besides maps, and helpers by their numbers: by the
/// source register of a wide load or of a call. Source: linux/bpf.h, `BPF_PSEUDO_`.
pub(super) fn has_foreign_names(code: &[Instruction]) -> bool {
    let none = Register::R0 as u8;
    code.iter().any(|one| match one.code {
        code if code == CLASS_LOAD_WIDE | Size::Double as u8 => {
            ![none, PSEUDO_MAP as u8, PSEUDO_MAP_VALUE as u8].contains(&one.source())
        }
        code if code == CLASS_JUMP | CALL => one.source() != none,
        _ => false,
    })
}

/// A jump target in a program. It belongs to the assembler that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<Instruction>,
    /// Position of each label, in instructions from the start.
    places: Vec<Option<usize>>,
    /// Positions of jumps, and their targets.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// Starts an empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a new label, which is not bound yet.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Binds a label to the next instruction.
    ///
    /// # Panics
    /// If the label is already bound, or belongs to another assembler.
    pub fn bind(&mut self, label: Label) -> &mut Self {
        let place = self.places[label.0].replace(self.code.len());
        assert!(place.is_none(), "{label:?} is at {place:?} already");
        self
    }

    /// Arithmetic on 64 bits: `to = to OPERATION by`.
    pub fn alu(&mut self, operation: Alu, to: Register, by: impl Into<Operand>) -> &mut Self {
        self.operate(CLASS_ALU_64 | operation as u8, to, by.into(), 0)
    }

    /// Arithmetic on the low 32 bits; the high ones become 0.
    pub fn alu32(&mut self, operation: Alu, to: Register, by: impl Into<Operand>) -> &mut Self {
        self.operate(CLASS_ALU_32 | operation as u8, to, by.into(), 0)
    }

    /// `to = from`, 64 bits.
    pub fn mov(&mut self, to: Register, from: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Move, to, from)
    }

    /// `to += by`, 64 bits.
    pub fn add(&mut self, to: Register, by: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Add, to, by)
    }

    /// `to = -to` on the low 32 bits; the high ones become 0.
    pub fn negate32(&mut self, to: Register) -> &mut Self {
        self.push(Instruction::new(CLASS_ALU_32 | NEGATE, to, Register::R0, 0, 0))
    }

    /// Swaps the low bytes of `to`, as many as `size` has, between machine order and network order.
    /// The others become 0.
    ///
    /// # Panics
    /// If `size` is a byte.
    pub fn swap_network(&mut self, to: Register, size: Size) -> &mut Self {
        let bits = match size {
            Size::Byte => panic!("a byte has no order"),
            Size::Half => 16,
            Size::Word => 32,
            Size::Double => 64,
        };
        let code = CLASS_ALU_32 | BYTE_SWAP | TO_BIG_ENDIAN;
        self.push(Instruction::new(code, to, Register::R0, 0, bits))
    }

    /// `to = value`, all of it.
    pub fn load_constant(&mut self, to: Register, value: u64) -> &mut Self {
        self.load_wide(to, Register::R0, value as u32, (value >> 32) as u32)
    }

    /// `to` = the map, as helpers expect it. The map must live until the program is loaded.
    pub fn load_map(&mut self, to: Register, map: &Map) -> &mut Self {
        self.load_wide(to, PSEUDO_MAP, map.as_fd().as_raw_fd() as u32, 0)
    }

    /// `to` = the address of the byte at `offset` in the first value of an array map (not a per-CPU
    /// map). The map must live until the program is loaded.
    pub fn load_map_value(&mut self, to: Register, map: &Map, offset: u32) -> &mut Self {
        self.load_wide(to, PSEUDO_MAP_VALUE, map.as_fd().as_raw_fd() as u32, offset)
    }

    /// `to` = the value at address `from + offset`; the high bits become 0.
    pub fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) -> &mut Self {
        let code = CLASS_LOAD | MODE_MEMORY | size as u8;
        self.push(Instruction::new(code, to, from, offset, 0))
    }

    /// Stores `value` at address `to + offset`.
    pub fn store(
        &mut self,
        size: Size,
        to: Register,
        offset: i16,
        value: impl Into<Operand>,
    ) -> &mut Self {
        let code = MODE_MEMORY | size as u8;
        self.push(match value.into() {
            Operand::Register(value) => Instruction::new(CLASS_STORE | code, to, value, offset, 0),
            Operand::Immediate(value) => {
                let code = CLASS_STORE_IMMEDIATE | code;
                Instruction::new(code, to, Register::R0, offset, value)
            }
        })
    }

    /// Adds `value` to the value at address `to + offset`, atomically across all cores.
    ///
    /// # Panics
    /// If `size` is neither a word nor a double word.
    pub fn atomic_add(
        &mut self,
        size: Size,
        to: Register,
        offset: i16,
        value: Register,
    ) -> &mut Self {
        assert!(matches!(size, Size::Word | Size::Double), "no atomic operation on a {size:?}");
        let code = CLASS_STORE | MODE_ATOMIC | size as u8;
        self.push(Instruction::new(code, to, value, offset, Alu::Add as i32))
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(Instruction::new(CLASS_JUMP, Register::R0, Register::R0, 0, 0))
    }

    /// Jumps to `label` if the comparison of all 64 bits holds.
    pub fn jump_if(
        &mut self,
        compare: Compare,
        left: Register,
        right: impl Into<Operand>,
        label: Label,
    ) -> &mut Self {
        self.branch(CLASS_JUMP | compare as u8, left, right.into(), label)
    }

    /// Jumps to `label` if the comparison of the low 32 bits holds.
    pub fn jump32_if(
        &mut self,
        compare: Compare,
        left: Register,
        right: impl Into<Operand>,
        label: Label,
    ) -> &mut Self {
        self.branch(CLASS_JUMP_32 | compare as u8, left, right.into(), label)
    }

    fn branch(&mut self, code: u8, left: Register, right: Operand, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.operate(code, left, right, 0)
    }

    /// Calls a kernel helper.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        let (code, none) = (CLASS_JUMP | CALL, Register::R0);
        self.push(Instruction::new(code, none, none, 0, helper as i32))
    }

    /// Ends the program; its result is in `R0`.
    pub fn exit(&mut self) -> &mut Self {
        self.push(Instruction::new(CLASS_JUMP | EXIT, Register::R0, Register::R0, 0, 0))
    }

    /// Returns the program with all jumps resolved.
    ///
    /// # Errors
    /// - [`BpfError::UndefinedLabel`]: a jump goes to a label that was never bound.
    /// - [`BpfError::FarJump`]: a jump over more than 2^15 instructions.
    pub fn finish(mut self) -> Result<Vec<Instruction>, BpfError> {
        for (at, label) in self.jumps {
            let undefined = BpfError::UndefinedLabel { label: label.0, at };
            let place = self.places[label.0].ok_or(undefined)?;
            // A program has far fewer than 2^63 instructions.
            let distance = place as i64 - at as i64 - 1;
            let offset = i16::try_from(distance);
            self.code[at].offset = offset.map_err(|_| BpfError::FarJump { at, distance })?;
        }
        Ok(self.code)
    }

    fn operate(&mut self, code: u8, to: Register, by: Operand, offset: i16) -> &mut Self {
        self.push(match by {
            Operand::Register(by) => Instruction::new(code | FROM_REGISTER, to, by, offset, 0),
            Operand::Immediate(by) => Instruction::new(code, to, Register::R0, offset, by),
        })
    }

    /// Pushes the one instruction that takes two slots.
    fn load_wide(&mut self, to: Register, kind: Register, low: u32, high: u32) -> &mut Self {
        let code = CLASS_LOAD_WIDE | Size::Double as u8;
        self.push(Instruction::new(code, to, kind, 0, low as i32));
        self.push(Instruction::new(0, Register::R0, Register::R0, 0, high as i32))
    }

    fn push(&mut self, instruction: Instruction) -> &mut Self {
        self.code.push(instruction);
        self
    }
}
