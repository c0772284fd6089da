//! Programs for packet sockets: one that accepts the wanted packets, and its complement.
//!
//! ```text
//! | was a VLAN tag removed? pass, or not | program, every load after a check | ret, ret |
//! ```
//!
//! In the kernel as in libpcap a load from outside of the packet ends a program with "not wanted".
//! Swapping the returns of a program does not give its exact complement: both would reject such a
//! packet. So a check of the packet's length precedes each load and jumps to the return for "not
//! wanted". Then no load fails, and the two verdicts are opposites on every packet. An index below
//! 0 then also means the same in the kernel and here.
//!
//! Checks make programs longer. A jump that no longer fits its eight bits goes through an
//! unconditional one, which has 32.

use super::opcode::*;
use super::operation::{Operation, Operator};
use super::{FilterError, INSTRUCTIONS_MAX, Instruction, Program};

/// Instructions that callers may prepend, to select by direction.
const ROOM_IN_FRONT: usize = 8;

/// The target of a jump.
#[derive(Clone, Copy)]
enum Target {
    /// The next item.
    Next,
    /// An instruction of the program as given.
    Instruction(usize),
    /// The returns of "wanted" and "not wanted".
    Wanted,
    Unwanted,
}

/// One instruction with symbolic targets.
enum Item {
    Plain(Instruction),
    Jump(Target),
    /// A test; a long one is followed by two unconditional jumps.
    Test {
        code: u16,
        k: u32,
        yes: Target,
        no: Target,
        is_long: bool,
    },
}

impl Item {
    fn instructions(&self) -> usize {
        match self {
            Self::Test { is_long: true, .. } => 3,
            _ => 1,
        }
    }
}

/// A program with a check before every load.
struct Checked {
    items: Vec<Item>,
    /// The item at which each instruction of the original program begins.
    starts: Vec<usize>,
}

impl Program {
    /// Returns the program for `SO_ATTACH_FILTER` on a packet socket. It keeps up to `keep_bytes`
    /// bytes (above 0) of a wanted packet.
    ///
    /// The kernel shows a filter the packet without its outermost VLAN tag, if the NIC or the
    /// kernel removed it. There this program would judge other bytes than those on the wire. So a
    /// packet without its tag is passed whole. The receiver restores the tag, and has to
    /// [`run`](Self::run) the program on it. On all other packets the kernel's verdict is final,
    /// and the same as here.
    ///
    /// # Errors
    /// [`FilterError::Length`] if that makes more instructions than a socket takes,
    /// [`FilterError::DivisionByIndex`] if the program divides by X.
    pub fn for_packet_socket(&self, keep_bytes: u32) -> Result<Vec<Instruction>, FilterError> {
        debug_assert!(keep_bytes > 0, "a packet of which nothing is kept is rejected");
        self.with_returns(keep_bytes, 0, u32::MAX)
    }

    /// Returns the complement. It accepts exactly the packets that the kernel rejects by
    /// [`for_packet_socket`](Self::for_packet_socket), one byte of each, for a socket that only
    /// counts them.
    ///
    /// # Errors
    /// As [`for_packet_socket`](Self::for_packet_socket).
    pub fn complement_for_packet_socket(&self) -> Result<Vec<Instruction>, FilterError> {
        self.with_returns(0, 1, 0)
    }

    /// Builds the program with a return value for each of the three kinds of packets.
    fn with_returns(
        &self,
        wanted: u32,
        unwanted: u32,
        stripped: u32,
    ) -> Result<Vec<Instruction>, FilterError> {
        let mut out = vec![
            plain(LD | B | ABS, STRIPPED_TAG),
            Instruction { code: JMP | JEQ | K, jt: 1, jf: 0, k: 0 },
            plain(RET | K, stripped),
        ];
        let mut checked = Checked { items: Vec::new(), starts: Vec::new() };
        for (at, operation) in self.operations.iter().enumerate() {
            checked.starts.push(checked.items.len());
            checked.push(at, *operation, self.instructions[at])?;
        }
        checked.assemble(&mut out);
        out.extend([plain(RET | K, wanted), plain(RET | K, unwanted)]);
        match out.len() {
            instructions if instructions > INSTRUCTIONS_MAX - ROOM_IN_FRONT => {
                Err(FilterError::Length { instructions })
            }
            _ => Ok(out),
        }
    }
}

impl Checked {
    /// Adds instruction `at` after the checks that it needs.
    fn push(
        &mut self,
        at: usize,
        operation: Operation,
        instruction: Instruction,
    ) -> Result<(), FilterError> {
        let length = plain(LD | W | LEN, 0);
        let target = |skip: u32| Target::Instruction(at + 1 + skip as usize);
        match operation {
            Operation::LoadWord(k) => self.check(length, k + 4),
            Operation::LoadHalf(k) => self.check(length, k + 2),
            Operation::LoadByte(k) => self.check(length, k + 1),
            Operation::LoadWordAtIndex(k) => self.check_index(length, k + 4),
            Operation::LoadHalfAtIndex(k) => self.check_index(length, k + 2),
            Operation::LoadByteAtIndex(k) => self.check_index(length, k + 1),
            Operation::IndexHeaderLength(k) => {
                // A must survive the check; X is about to be loaded.
                self.items.push(Item::Plain(plain(MISC | TAX, 0)));
                self.check(length, k + 1);
                self.items.push(Item::Plain(plain(MISC | TXA, 0)));
            }
            Operation::ComputeWithIndex(Operator::Divide | Operator::Remainder) => {
                return Err(FilterError::DivisionByIndex { at });
            }
            Operation::Jump(skip) => {
                self.items.push(Item::Jump(target(skip)));
                return Ok(());
            }
            Operation::JumpIfEqual(yes, no, _)
            | Operation::JumpIfGreater(yes, no, _)
            | Operation::JumpIfAtLeast(yes, no, _)
            | Operation::JumpIfSharesBits(yes, no, _)
            | Operation::JumpIfIndex(_, yes, no) => {
                let (yes, no) = (target(yes.into()), target(no.into()));
                self.test(instruction.code, instruction.k, yes, no);
                return Ok(());
            }
            Operation::Return(0) => {
                self.items.push(Item::Jump(Target::Unwanted));
                return Ok(());
            }
            Operation::Return(_) => {
                self.items.push(Item::Jump(Target::Wanted));
                return Ok(());
            }
            Operation::ReturnAccumulator => {
                self.test(JMP | JEQ | K, 0, Target::Unwanted, Target::Wanted);
                return Ok(());
            }
            _ => {}
        }
        self.items.push(Item::Plain(instruction));
        Ok(())
    }

    /// Rejects unless the packet has `end` bytes. Leaves its length in A. Offsets are below 2^31
    /// (`Operation::decode`), so `end` does not wrap around.
    fn check(&mut self, length: Instruction, end: u32) {
        self.items.push(Item::Plain(length));
        self.test(JMP | JGE | K, end, Target::Next, Target::Unwanted);
    }

    /// Rejects unless the packet has X + `end` bytes. The sum must not wrap around either, so the
    /// test is length - `end` >= X.
    fn check_index(&mut self, length: Instruction, end: u32) {
        self.check(length, end);
        self.items.push(Item::Plain(plain(ALU | SUB | K, end)));
        self.test(JMP | JGE | X, 0, Target::Next, Target::Unwanted);
    }

    fn test(&mut self, code: u16, k: u32, yes: Target, no: Target) {
        self.items.push(Item::Test { code, k, yes, no, is_long: false });
    }

    /// Returns where each item begins, and after them the two returns.
    fn places(&self) -> Vec<usize> {
        let mut place = 0;
        let mut places = vec![0];
        for item in &self.items {
            place += item.instructions();
            places.push(place);
        }
        places
    }

    fn place_of(&self, target: Target, at: usize, places: &[usize]) -> usize {
        let end = places[self.items.len()];
        match target {
            Target::Next => places[at + 1],
            Target::Instruction(number) => places[self.starts[number]],
            Target::Wanted => end,
            Target::Unwanted => end + 1,
        }
    }

    /// Extends the tests that jump too far; extending one may push another over the limit.
    fn lengthen(&mut self) -> Vec<usize> {
        loop {
            let places = self.places();
            let is_far = |at: usize, item: &Item| match item {
                Item::Test { yes, no, is_long: false, .. } => [yes, no].iter().any(|target| {
                    self.place_of(**target, at, &places) - places[at + 1] > usize::from(u8::MAX)
                }),
                _ => false,
            };
            let far = self.items.iter().enumerate().filter(|(at, item)| is_far(*at, item));
            let far: Vec<usize> = far.map(|(at, _)| at).collect();
            if far.is_empty() {
                return places;
            }
            for at in far {
                if let Item::Test { is_long, .. } = &mut self.items[at] {
                    *is_long = true;
                }
            }
        }
    }

    fn assemble(mut self, out: &mut Vec<Instruction>) {
        let places = self.lengthen();
        for (at, item) in self.items.iter().enumerate() {
            // Counted from the instruction after the jump.
            let skip = |target, from| (self.place_of(target, at, &places) - from - 1) as u32;
            let place = places[at];
            match *item {
                Item::Plain(instruction) => out.push(instruction),
                Item::Jump(target) => out.push(plain(JMP | JA, skip(target, place))),
                Item::Test { code, k, yes, no, is_long: false } => {
                    let (jt, jf) = (skip(yes, place) as u8, skip(no, place) as u8);
                    out.push(Instruction { code, jt, jf, k });
                }
                Item::Test { code, k, yes, no, is_long: true } => {
                    out.push(Instruction { code, jt: 0, jf: 1, k });
                    out.push(plain(JMP | JA, skip(yes, place + 1)));
                    out.push(plain(JMP | JA, skip(no, place + 2)));
                }
            }
        }
    }
}

fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}
