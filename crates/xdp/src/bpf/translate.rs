//! Translates classic BPF to eBPF, as part of an XDP program.
//!
//! ```text
//! caller's code            R6 = context
//! translated program       A in R7, X in R8, M[] on the stack, the packet from R4 to R5
//!   |            |
//! accept:      reject:     caller's code again
//! ```
//!
//! The semantics are those of libpcap. A load outside the packet rejects it, and so does a division
//! by an X of 0. An index does not wrap around; a shift by more than 31 gives 0. Two things differ
//! from a packet socket. The length is the packet's length here, including tags. Features of
//! sockets only (negative offsets) are refused.
//!
//! The program reads a packet's first buffer in place, and further buffers by a kernel call.
//! Offsets above 65,531 are outside any packet.
//!
//! A call costs several times as much as a load in place, so indexed loads also try in place first.
//!
//! # Invariants
//! - C1. Every jump goes forward and stays inside, and only reachable code is translated: the
//!   verifier refuses unreachable code.
//! - C2. A, X and M[] are 32 bits wide: the high halves of their registers are 0.
//!
//! Source: libpcap `bpf_filter.c`; `bpf_convert_filter`, net/core/filter.c of Linux 6.18.

use super::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R10};
use super::{
    Alu, Assembler, BpfError, Compare, Helper, Label, Operand, Register, Size, xdp_context,
};
use burstline_sys::filter::Instruction as Classic;

/// Bytes of stack that a translated program uses: M[], a buffer for loads, and the length.
pub const TRANSLATED_STACK_BYTES: i16 = 80;

/// Stack slots, relative to the end of our part.
const MEMORY_AT: i16 = -64;
const LOADED_AT: i16 = -72;
const LENGTH_AT: i16 = -80;

/// Words of M[]. Source: BPF_MEMWORDS, uapi/linux/filter.h.
const MEMORY_WORDS: u32 = 16;

/// The highest offset at which a word may begin. Source: MAX_PACKET_OFF, kernel/bpf/verifier.c.
const OFFSET_MAX: i32 = 0xffff - 4;

/// Offsets up to here fit into a load instruction, with some margin.
const DIRECT_OFFSET_MAX: u32 = 0x7000;

const ACCUMULATOR: Register = R7;
const INDEX: Register = R8;

/// Instruction classes and other code fields. Source: uapi/linux/bpf_common.h, filter.h.
const CLASS: u16 = 0x07;
const LOAD: u16 = 0x00;
const LOAD_INDEX: u16 = 0x01;
const STORE: u16 = 0x02;
const STORE_INDEX: u16 = 0x03;
const ARITHMETIC: u16 = 0x04;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
const RETURN_ACCUMULATOR: u16 = 0x16;
const INDEX_FROM_ACCUMULATOR: u16 = 0x07;
const ACCUMULATOR_FROM_INDEX: u16 = 0x87;
const NEGATE: u16 = 0x84;
const JUMP_ALWAYS: u16 = 0x05;
/// For loads: mode and size.
const MODE: u16 = 0xe0;
const SIZE: u16 = 0x18;
const MODE_CONSTANT: u16 = 0x00;
const MODE_ABSOLUTE: u16 = 0x20;
const MODE_INDEXED: u16 = 0x40;
const MODE_MEMORY: u16 = 0x60;
const MODE_LENGTH: u16 = 0x80;
const MODE_HEADER_LENGTH: u16 = 0xa0;
/// For arithmetic and jumps: the operation, and whether it uses X.
const OPERATION: u16 = 0xf0;
const WITH_INDEX: u16 = 0x08;

/// The context in which a classic program is embedded.
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    /// Jump target for accepted packets.
    pub accept: Label,
    /// Jump target for rejected packets.
    pub reject: Label,
    /// Whether the program is loaded for packets of several buffers.
    pub has_fragments: bool,
    /// Bytes of stack that the caller uses: a multiple of 8 in `[0, 432]`.
    pub stack_bytes: i16,
}

/// Appends a classic program to `code`. R6 must hold the context there. R6, R9 and the caller's
/// part of the stack are preserved, all other registers are clobbered. The program must store a
/// word of M[] before it loads it, as the kernel requires. Each label gets a jump only if the
/// program has a return of that kind.
///
/// Loading a program with indexed loads needs `CAP_PERFMON`. Without it the kernel allows no
/// addition of unknown values to a packet's address.
///
/// The length of the packet (`len`, `less`, `greater`) and several buffers need kernel 5.18.
///
/// # Errors
/// [`BpfError::NotTranslatable`]: the program is invalid, or uses a feature of packet sockets.
pub fn translate(
    code: &mut Assembler,
    program: &[Classic],
    embedding: &Embedding,
) -> Result<(), BpfError> {
    let is_reached = reached(program)?;
    let places = program.iter().map(|_| code.label()).collect();
    let mut translator = Translator { code, places, embedding };
    translator.begin(program);
    for (at, instruction) in program.iter().enumerate().filter(|(at, _)| is_reached[*at]) {
        let place = translator.places[at];
        translator.code.bind(place);
        let done = translator.instruction(at, *instruction);
        done.ok_or(BpfError::NotTranslatable {
            at,
            code: instruction.code,
            operand: instruction.operand,
        })?;
    }
    Ok(())
}

/// Returns which instructions can be reached from the first one. C1.
fn reached(program: &[Classic]) -> Result<Vec<bool>, BpfError> {
    let mut is_reached = vec![false; program.len()];
    let wrong = |at: usize| {
        let instruction = program.get(at).copied().unwrap_or_default();
        let Classic { code, operand, .. } = instruction;
        BpfError::NotTranslatable { at, code, operand }
    };
    *is_reached.first_mut().ok_or_else(|| wrong(0))? = true;
    for (at, instruction) in program.iter().enumerate() {
        if !is_reached[at] {
            continue;
        }
        let distances = match instruction.code {
            JUMP_ALWAYS => [instruction.operand, instruction.operand],
            code if code & CLASS == JUMP => {
                [instruction.jump_true.into(), instruction.jump_false.into()]
            }
            code if code & CLASS == RETURN => continue,
            _ => [0, 0],
        };
        for distance in distances {
            let target = (at + 1).checked_add(distance as usize);
            let target = target.and_then(|target| is_reached.get_mut(target));
            *target.ok_or_else(|| wrong(at))? = true;
        }
    }
    Ok(is_reached)
}

struct Translator<'a> {
    code: &'a mut Assembler,
    /// A label in front of each classic instruction.
    places: Vec<Label>,
    embedding: &'a Embedding,
}

impl Translator<'_> {
    fn begin(&mut self, program: &[Classic]) {
        let is_length = |i: &Classic| {
            matches!(i.code & CLASS, LOAD | LOAD_INDEX) && i.code & MODE == MODE_LENGTH
        };
        if program.iter().any(is_length) {
            let place = self.stack(LENGTH_AT);
            self.code.mov(R1, R6).call(Helper::PacketLength).store(Size::Word, R10, place, R0);
        }
        // Neither jump is ever taken, and the verifier removes both. But it refuses unreachable
        // code, and the caller's reject code would be unreachable if the program rejects nothing.
        self.code
            .alu32(Alu::Move, ACCUMULATOR, 0)
            .alu32(Alu::Move, INDEX, 0)
            .jump32_if(Compare::NotEqual, ACCUMULATOR, 0, self.embedding.accept)
            .jump32_if(Compare::NotEqual, INDEX, 0, self.embedding.reject);
        self.load_bounds();
    }

    /// R4 = start and R5 = end of the packet's first buffer.
    fn load_bounds(&mut self) {
        self.code.load(Size::Word, R4, R6, xdp_context::DATA).load(
            Size::Word,
            R5,
            R6,
            xdp_context::DATA_END,
        );
    }

    /// Translates one instruction. `None` if it does not exist.
    fn instruction(&mut self, at: usize, instruction: Classic) -> Option<()> {
        let Classic { code, operand, .. } = instruction;
        match code {
            0x100.. => return None,
            INDEX_FROM_ACCUMULATOR => _ = self.code.alu32(Alu::Move, INDEX, ACCUMULATOR),
            ACCUMULATOR_FROM_INDEX => _ = self.code.alu32(Alu::Move, ACCUMULATOR, INDEX),
            NEGATE => _ = self.code.negate32(ACCUMULATOR),
            JUMP_ALWAYS => _ = self.code.jump(self.places[at + 1 + operand as usize]),
            RETURN if operand == 0 => _ = self.code.jump(self.embedding.reject),
            RETURN => _ = self.code.jump(self.embedding.accept),
            RETURN_ACCUMULATOR => {
                self.code
                    .jump32_if(Compare::NotEqual, ACCUMULATOR, 0, self.embedding.accept)
                    .jump(self.embedding.reject);
            }
            STORE => self.store(ACCUMULATOR, operand)?,
            STORE_INDEX => self.store(INDEX, operand)?,
            _ => match code & CLASS {
                LOAD => self.load(ACCUMULATOR, code, operand)?,
                LOAD_INDEX => self.load(INDEX, code, operand)?,
                ARITHMETIC => self.arithmetic(code, operand)?,
                JUMP => self.jump(at, instruction)?,
                _ => return None,
            },
        }
        Some(())
    }

    fn store(&mut self, from: Register, word: u32) -> Option<()> {
        let place = self.memory(word)?;
        self.code.store(Size::Word, R10, place, from);
        Some(())
    }

    fn load(&mut self, to: Register, code: u16, operand: u32) -> Option<()> {
        let size = match code & SIZE {
            0x00 => Size::Word,
            0x08 => Size::Half,
            0x10 => Size::Byte,
            _ => return None,
        };
        match (code & MODE, size) {
            (MODE_CONSTANT, Size::Word) => _ = self.code.alu32(Alu::Move, to, operand as i32),
            (MODE_LENGTH, Size::Word) => {
                let place = self.stack(LENGTH_AT);
                self.code.load(Size::Word, to, R10, place);
            }
            (MODE_MEMORY, Size::Word) => {
                let place = self.memory(operand)?;
                self.code.load(Size::Word, to, R10, place);
            }
            (MODE_ABSOLUTE, _) if to == ACCUMULATOR => self.packet(to, size, operand, false)?,
            (MODE_INDEXED, _) if to == ACCUMULATOR => self.packet(to, size, operand, true)?,
            (MODE_HEADER_LENGTH, Size::Byte) if to == INDEX => {
                self.packet(to, size, operand, false)?;
                self.code.alu32(Alu::And, to, 0xf).alu32(Alu::ShiftLeft, to, 2);
            }
            _ => return None,
        }
        Some(())
    }

    /// `to` = the packet's value at an offset, or at X plus the offset, in machine order.
    fn packet(&mut self, to: Register, size: Size, offset: u32, is_indexed: bool) -> Option<()> {
        // Larger offsets are special to sockets.
        let offset = i32::try_from(offset).ok()?;
        let bytes = match size {
            Size::Byte => 1,
            Size::Half => 2,
            Size::Word | Size::Double => 4,
        };
        let reject = self.embedding.reject;
        let (beyond, done) = (self.code.label(), self.code.label());
        let outside = if self.embedding.has_fragments { beyond } else { reject };
        let (base, at) = if is_indexed || offset as u32 > DIRECT_OFFSET_MAX {
            // Index and offset have up to 32 bits each, so their sum fits into 64.
            self.code.mov(R2, offset);
            if is_indexed {
                self.code.add(R2, INDEX);
            }
            self.code.jump_if(Compare::Above, R2, OFFSET_MAX, reject).mov(R1, R4).add(R1, R2);
            (R1, 0)
        } else {
            if self.embedding.has_fragments {
                self.code.mov(R2, offset);
            }
            (R4, offset as i16)
        };
        self.code
            .mov(R3, base)
            .add(R3, i32::from(at) + bytes)
            .jump_if(Compare::Above, R3, R5, outside)
            .load(size, to, base, at);
        if self.embedding.has_fragments {
            let place = self.stack(LOADED_AT);
            self.code
                .jump(done)
                .bind(beyond)
                .mov(R1, R6)
                .mov(R3, R10)
                .add(R3, i32::from(place))
                .mov(R4, bytes)
                .call(Helper::LoadBytes)
                .jump_if(Compare::NotEqual, R0, 0, reject)
                .load(size, to, R10, place);
            self.load_bounds();
            self.code.bind(done);
        }
        if size != Size::Byte {
            self.code.swap_network(to, size);
        }
        Some(())
    }

    fn arithmetic(&mut self, code: u16, operand: u32) -> Option<()> {
        let operation = match code & OPERATION {
            0x00 => Alu::Add,
            0x10 => Alu::Subtract,
            0x20 => Alu::Multiply,
            0x30 => Alu::Divide,
            0x40 => Alu::Or,
            0x50 => Alu::And,
            0x60 => Alu::ShiftLeft,
            0x70 => Alu::ShiftRight,
            0x90 => Alu::Remainder,
            0xa0 => Alu::ExclusiveOr,
            _ => return None,
        };
        let is_division = matches!(operation, Alu::Divide | Alu::Remainder);
        let is_shift = matches!(operation, Alu::ShiftLeft | Alu::ShiftRight);
        if code & WITH_INDEX == 0 {
            let is_fine = !(is_division && operand == 0 || is_shift && operand > 31);
            return is_fine.then(|| _ = self.code.alu32(operation, ACCUMULATOR, operand as i32));
        }
        if is_division {
            self.code.jump32_if(Compare::Equal, INDEX, 0, self.embedding.reject);
        }
        if !is_shift {
            self.code.alu32(operation, ACCUMULATOR, INDEX);
            return Some(());
        }
        // The machine would use only the low five bits of the shift.
        let (shift, done) = (self.code.label(), self.code.label());
        self.code
            .jump32_if(Compare::BelowOrEqual, INDEX, 31, shift)
            .alu32(Alu::Move, ACCUMULATOR, 0)
            .jump(done)
            .bind(shift)
            .alu32(operation, ACCUMULATOR, INDEX)
            .bind(done);
        Some(())
    }

    fn jump(&mut self, at: usize, instruction: Classic) -> Option<()> {
        let compare = match instruction.code & OPERATION {
            0x10 => Compare::Equal,
            0x20 => Compare::Above,
            0x30 => Compare::AboveOrEqual,
            0x40 => Compare::AnyBit,
            _ => return None,
        };
        let right = match instruction.code & WITH_INDEX {
            0 => Operand::Immediate(instruction.operand as i32),
            _ => Operand::Register(INDEX),
        };
        let place = |distance: u8| self.places[at + 1 + usize::from(distance)];
        let (yes, no) = (place(instruction.jump_true), place(instruction.jump_false));
        if yes != no {
            self.code.jump32_if(compare, ACCUMULATOR, right, yes);
        }
        if instruction.jump_false > 0 {
            self.code.jump(no);
        }
        Some(())
    }

    /// Returns the stack offset of a word of M[].
    fn memory(&self, word: u32) -> Option<i16> {
        (word < MEMORY_WORDS).then(|| self.stack(MEMORY_AT) + 4 * word as i16)
    }

    fn stack(&self, at: i16) -> i16 {
        at - self.embedding.stack_bytes
    }
}
