//! Verdicts: what a reader decides about each packet of a log whose publisher waits for it.
//!
//! ```text
//! the log's memory, read-only to readers          a column, the reader's to write
//! | packet n | ... | desc n |                     word   n mod 16384:  n << 8 | verdict
//!                                                 place  n mod 16384:  offset << 32 | length
//!  control: packets settled so far                bytes: | replacement | replacement | ...
//! ```
//!
//! Who owns what when: the column belongs to the reader and is hostile input to the publisher. The
//! publisher reads each word once, checks it, and writes nothing there. A replacement's bytes are
//! the reader's until it stores the packet's word, and then the publisher's to read until the
//! packet is settled. [`VerdictTaker`] is the publisher's end, [`VerdictGiver`] the reader's. See
//! Decision 0039.
//!
//! Invariants:
//! - V1: a word counts for the packet whose number it holds, and for no other.
//! - V2: no value in a column is used as an index or a length before it was checked.
//! - V3: a log has at most one column at a time; a packet's fate is decided once.
//!
//! Edges (loom models of the same names in `tests/loom.rs`):
//! - E5 verdict: word store (Release) -> word load (Acquire). The replacement is visible.
//! - E6 settled: count store (Release) -> count load (Acquire). The publisher's last reads of a
//!   replacement happen before the reader's first write of what takes its room.

mod column;
mod giver;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::protocol::Word64;

pub(crate) use column::{Column, ColumnView};
pub use column::{Replacement, Ruling, VerdictTaker};
pub use giver::{VerdictError, VerdictGiver};

/// Packets that a column has words for: as many can wait for a verdict at a time.
pub const VERDICTS_WAITING_MAX: u64 = 16_384;
/// The longest replacement, in bytes.
pub const REPLACEMENT_BYTES_MAX: usize = 65_535;
/// The shortest: an Ethernet header.
pub const REPLACEMENT_BYTES_MIN: usize = 14;

/// A word's number is above its verdict.
const NUMBER_SHIFT: u32 = 8;
const NUMBER_MASK: u64 = u64::MAX >> NUMBER_SHIFT;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It goes on as it is.
    Pass,
    /// It ends here.
    Drop,
    /// These bytes go on in its place, from the link header on.
    Replace(&'a [u8]),
    /// It ends here, and its sender gets an answer: a TCP reset, or ICMP.
    Reject,
    /// It goes on, and so do all later packets of its flow, without a verdict.
    PassFlow,
}

impl Verdict<'static> {
    /// Those without bytes, by the words that people and addresses say.
    const WORDS: [(&'static str, Self); 4] = [
        ("pass", Self::Pass),
        ("drop", Self::Drop),
        ("reject", Self::Reject),
        ("pass-flow", Self::PassFlow),
    ];

    /// The verdict of a word: `pass`, `drop`, `reject`, `pass-flow`.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|&(_, verdict)| verdict)
    }

    /// The verdict of a code: 1 passes, 2 drops, 4 rejects, 5 passes the flow. C and Python say
    /// these, too. A replacement is 3 and needs its bytes, so it is not among them.
    pub fn of_code(code: u32) -> Option<Self> {
        let mut verdicts = Self::WORDS.iter().map(|&(_, verdict)| verdict);
        verdicts.find(|verdict| u32::from(verdict.code()) == code)
    }
}

impl Verdict<'_> {
    fn code(&self) -> u8 {
        match self {
            Self::Pass => 1,
            Self::Drop => 2,
            Self::Replace(_) => 3,
            Self::Reject => 4,
            Self::PassFlow => 5,
        }
    }
}

/// The words that a verdict goes by: a column's, and one of control memory.
pub trait VerdictWords {
    /// Their 64-bit atomics.
    type Word: Word64;
    /// The word of a packet, which others have too.
    fn word(&self, number: u64) -> &Self::Word;
    /// The place of its replacement, likewise.
    fn place(&self, number: u64) -> &Self::Word;
    /// Packets settled so far: of those below this number the publisher reads nothing more.
    fn settled(&self) -> &Self::Word;
}

/// Reader: gives packet `number` a verdict's code, and the place of its replacement if it has one.
#[inline]
pub fn give<W: VerdictWords>(words: &W, number: u64, code: u8, place: Option<u64>) {
    if let Some(place) = place {
        words.place(number).store(place, Relaxed); // ordered by the next store
    }
    let word = number << NUMBER_SHIFT | u64::from(code);
    words.word(number).store(word, Release); // E5: pairs with the Acquire in `look`
}

/// Publisher: the code for packet `number`; `None` while there is none.
#[inline]
pub fn look<W: VerdictWords>(words: &W, number: u64) -> Option<u8> {
    let word = words.word(number).load(Acquire); // E5: pairs with the Release in `give`
    let code = word as u8;
    (word >> NUMBER_SHIFT == number & NUMBER_MASK && code != 0).then_some(code)
}

/// Publisher: where the replacement of packet `number` is, whose code was seen. Any value.
pub fn place<W: VerdictWords>(words: &W, number: u64) -> u64 {
    words.place(number).load(Relaxed) // ordered by the load in `look`
}

/// Publisher: nothing of packets below `number` is read any more.
#[inline]
pub fn settle<W: VerdictWords>(words: &W, number: u64) {
    words.settled().store(number, Release); // E6: pairs with the Acquire in `settled`
}

/// Reader: packets that the publisher no longer reads.
pub fn settled<W: VerdictWords>(words: &W) -> u64 {
    words.settled().load(Acquire) // E6: pairs with the Release in `settle`
}
