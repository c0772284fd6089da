//! eBPF instructions: their eight bytes, and names for their operands.
//!
//! Source: RFC 9669; Documentation/bpf/standardization/instruction-set.rst.

/// One instruction, or one half of a wide one, in the kernel's format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// The operation.
    pub code: u8,
    /// Destination and source register, four bits each.
    pub registers: u8,
    /// Bytes from an address, or instructions to skip.
    pub offset: i16,
    /// The constant operand.
    pub immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8 && align_of::<Instruction>() == 4);

impl Instruction {
    pub(super) const fn new(
        code: u8,
        to: Register,
        from: Register,
        offset: i16,
        immediate: i32,
    ) -> Self {
        let (to, from) = (to as u8, from as u8);
        // The two are bit fields, so their order depends on the machine.
        let registers =
            if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        Self { code, registers, offset, immediate }
    }

    /// Returns its bytes.
    pub(super) fn to_bytes(self) -> [u8; 8] {
        let ([low, high], immediate) = (self.offset.to_ne_bytes(), self.immediate.to_ne_bytes());
        let [a, b, c, d] = immediate;
        [self.code, self.registers, low, high, a, b, c, d]
    }

    /// Returns the instruction of these bytes.
    pub(super) fn from_bytes([code, registers, low, high, a, b, c, d]: [u8; 8]) -> Self {
        let (offset, immediate) =
            (i16::from_ne_bytes([low, high]), i32::from_ne_bytes([a, b, c, d]));
        Self { code, registers, offset, immediate }
    }

    /// Returns the number of the source register, which also says what a constant stands for.
    pub(super) fn source(self) -> u8 {
        if cfg!(target_endian = "little") { self.registers >> 4 } else { self.registers & 15 }
    }
}

/// A register of 64 bits.
///
/// A call takes its arguments in `R1` to `R5`, clobbers them, and returns in `R0`, which also holds
/// a program's result. `R6` to `R9` survive calls. `R10` is the end of a stack of 512 bytes, and is
/// read-only. A program starts with its context in `R1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the standard")]
pub enum Register {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The second operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The value of a register.
    Register(Register),
    /// A constant, sign-extended for 64-bit operations.
    Immediate(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(immediate: i32) -> Self {
        Self::Immediate(immediate)
    }
}

/// Arithmetic operations. Division by 0 gives 0, and the remainder by 0 leaves the dividend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is what its name says")]
pub enum Alu {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Divide = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Remainder = 0x90,
    ExclusiveOr = 0xa0,
    Move = 0xb0,
    /// Arithmetic shift right.
    ShiftRightSigned = 0xc0,
}

/// The condition of a jump. Operands are unsigned unless the name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is what its name says")]
pub enum Compare {
    Equal = 0x10,
    Above = 0x20,
    AboveOrEqual = 0x30,
    /// The operands have a bit in common.
    AnyBit = 0x40,
    NotEqual = 0x50,
    AboveSigned = 0x60,
    AboveOrEqualSigned = 0x70,
    Below = 0xa0,
    BelowOrEqual = 0xb0,
    BelowSigned = 0xc0,
    BelowOrEqualSigned = 0xd0,
}

/// The size of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Size {
    /// 1 byte.
    Byte = 0x10,
    /// 2 bytes.
    Half = 0x08,
    /// 4 bytes.
    Word = 0x00,
    /// 8 bytes.
    Double = 0x18,
}

/// Kernel helper functions, by their numbers.
///
/// Source: `___BPF_FUNC_MAPPER`, include/uapi/linux/bpf.h, which documents arguments and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `(map, key address)`: the address of the value, or 0.
    MapLookup = 1,
    /// `()`: nanoseconds of the monotonic clock.
    TimeNs = 5,
    /// `()`: number of the core that this runs on.
    CurrentCore = 8,
    /// `(context, program array, index)`: continues in that program, and returns only if there is
    /// none.
    TailCall = 12,
    /// `(context, bytes)`: moves the start of the packet.
    AdjustHead = 44,
    /// `(map, key, flags)`: sends the packet to the map's target for this key. The low bits of
    /// `flags` are the result if there is none.
    RedirectMap = 51,
    /// `(context, bytes)`: makes room in front of the packet, if `bytes` is negative.
    AdjustMeta = 54,
    /// `(context, bytes)`: moves the end of the packet, and clears what is new.
    AdjustTail = 65,
    /// `()`: nanoseconds of International Atomic Time. Kernel 6.1.
    TimeTaiNs = 208,
    /// `(context)`: bytes of the packet, all buffers together. Kernel 5.18.
    PacketLength = 188,
    /// `(context, offset, address, bytes)`: copies from the packet, over all its buffers. 0, or
    /// negative if the packet ends before. Kernel 5.18.
    LoadBytes = 189,
    /// `(context, offset, address, bytes)`: copies into the packet, over all its buffers. 0, or
    /// negative if the packet ends before. Kernel 5.18.
    StoreBytes = 190,
}
