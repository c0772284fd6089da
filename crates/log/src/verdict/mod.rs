//! Verdicts: a reader's decisions about packets of a log whose publisher waits for them.
//!
//! ```text
//! the log's memory, read-only to readers          a column, written by the reader
//! | packet n | ... | desc n |                     word   n mod 16384:  n << 8 | verdict
//!                                                 place  n mod 16384:  offset << 32 | length
//!  control: packets settled so far                bytes: | replacement | replacement | ...
//! ```
//!
//! Ownership: the column belongs to the reader, and the publisher treats it as hostile input. The
//! publisher reads each word once, checks it, and writes nothing there. A replacement's bytes
//! belong to the reader until it stores the packet's word. Then the publisher may read them until
//! the packet is settled. [`VerdictTaker`] is the publisher's end, [`VerdictGiver`] the reader's.
//! See Decision 0039.
//!
//! Invariants:
//! - V1: a word applies only to the packet whose number it holds.
//! - V2: no value in a column is used as an index or a length before it was checked.
//! - V3: a log has at most one column at a time, and each packet's fate is decided once.
//!
//! Edges (loom models of the same names in `tests/loom.rs`):
//! - E5 verdict: word store (Release) -> word load (Acquire). The replacement is visible.
//! - E6 settled: count store (Release) -> count load (Acquire). The publisher's last reads of a
//!   replacement happen before the reader's first write of the next one in the same place.

mod column;
mod giver;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::protocol::Word64;

pub(crate) use column::{Column, ColumnView};
pub use column::{Replacement, Ruling, VerdictTaker};
pub use giver::{VerdictError, VerdictGiver};

/// Packets that a column has words for: the most that can wait for a verdict at a time.
pub const VERDICTS_WAITING_MAX: u64 = 16_384;
/// The longest replacement, in bytes.
pub const REPLACEMENT_BYTES_MAX: usize = 65_535;
/// The shortest replacement, in bytes: an Ethernet header.
pub const REPLACEMENT_BYTES_MIN: usize = 14;

/// In a word, the packet's number is above the verdict.
const NUMBER_SHIFT: u32 = 8;
const NUMBER_MASK: u64 = u64::MAX >> NUMBER_SHIFT;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The packet is forwarded unchanged.
    Pass,
    /// The packet is dropped.
    Drop,
    /// These bytes are forwarded in its place, from the link header on.
    Replace(&'a [u8]),
    /// The packet is dropped, and its sender gets an answer: a TCP reset, or ICMP.
    Reject,
    /// The packet is forwarded, and so are all later packets of its flow, without a verdict.
    PassFlow,
}

impl Verdict<'static> {
    /// Verdicts without bytes, by the words for them in commands and addresses.
    const WORDS: [(&'static str, Self); 4] = [
        ("pass", Self::Pass),
        ("drop", Self::Drop),
        ("reject", Self::Reject),
        ("pass-flow", Self::PassFlow),
    ];

    /// Parses a verdict: `pass`, `drop`, `reject`, `pass-flow`.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|&(_, verdict)| verdict)
    }

    /// Returns the verdict of a code: 1 passes, 2 drops, 4 rejects, 5 passes the flow. C and Python
    /// use the same codes. Code 3 is a replacement, which needs its bytes, so it is not accepted.
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

/// The words that a verdict uses: those of a column, and one of control memory.
pub trait VerdictWords {
    /// Its 64-bit atomics.
    type Word: Word64;
    /// Returns the word of a packet, shared with other packets.
    fn word(&self, number: u64) -> &Self::Word;
    /// Returns the place of its replacement, shared in the same way.
    fn place(&self, number: u64) -> &Self::Word;
    /// Packets settled so far: the publisher reads no word of packets below this number.
    fn settled(&self) -> &Self::Word;
}

/// Reader: stores a verdict's code for packet `number`, and the place of its replacement, if any.
#[inline]
pub fn give<W: VerdictWords>(words: &W, number: u64, code: u8, place: Option<u64>) {
    if let Some(place) = place {
        words.place(number).store(place, Relaxed); // ordered by the next store
    }
    let word = number << NUMBER_SHIFT | u64::from(code);
    words.word(number).store(word, Release); // E5: pairs with the Acquire in `look`
}

/// Publisher: returns the code for packet `number`; `None` if it has none yet.
#[inline]
pub fn look<W: VerdictWords>(words: &W, number: u64) -> Option<u8> {
    let word = words.word(number).load(Acquire); // E5: pairs with the Release in `give`
    let code = word as u8;
    (word >> NUMBER_SHIFT == number & NUMBER_MASK && code != 0).then_some(code)
}

/// Publisher: the unchecked place of packet `number`'s replacement, after its code was seen.
pub fn place<W: VerdictWords>(words: &W, number: u64) -> u64 {
    words.place(number).load(Relaxed) // ordered by the load in `look`
}

/// Publisher: announces that it reads nothing more of packets below `number`.
#[inline]
pub fn settle<W: VerdictWords>(words: &W, number: u64) {
    words.settled().store(number, Release); // E6: pairs with the Acquire in `settled`
}

/// Reader: the number of packets that the publisher no longer reads.
pub fn settled<W: VerdictWords>(words: &W) -> u64 {
    words.settled().load(Acquire) // E6: pairs with the Release in `settle`
}
