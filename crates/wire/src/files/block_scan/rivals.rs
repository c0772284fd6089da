//! Chooses between blocks after damage in a plain file that do not belong together.
//!
//! ```text
//!  file     | damaged     | real        | real        | real        | real     |
//!  packets        |forged |    forged     |   forged      |  no block: these lead less far
//! ```
//!
//! A packet may contain blocks. Several in a row may contain blocks that lead from one into the
//! next and pass over the real ones. But a block has its length at both ends, so only one leads to
//! the block behind it. So the real blocks lead past the place where the forged ones end, and start
//! before it: those that lead further are real.
//!
//! If both lead [`REACH`] bytes on, those of the current section are taken, not those of another.
//! Bytes may also be missing where the lengths of two packets agree: the first one then reaches over
//! those between them, and ends where no block starts. So a block in it is real if it leads on.
//!
//! If a section header is on the way to a bad block, it may be part of a packet, and is passed.

use super::super::block_type::SECTION;
use super::super::blocks::is_known;
use super::super::chains::{DeadEnds, Place};
use super::super::{Decoder, USUAL_NEED, word};
use super::{Candidate, REACH, block_behind, place};

/// The blocks that follow a candidate.
struct Chain {
    /// Where they start, as distances from the first one.
    starts: Vec<usize>,
    /// Where a rival leads at least.
    least: usize,
    /// Whether they end at bytes that are no block.
    is_dead: bool,
}

impl Decoder {
    /// Returns how many bytes behind a candidate its first rival starts: 0 if it has none, and is
    /// taken. `here` starts at the candidate, `ahead` bytes after the offset. `Err` if more bytes
    /// are needed.
    ///
    /// Cost: a step for each of the candidate's blocks, and one for each four bytes up to its rival
    /// or its end. What was looked through is passed then, or is decoded. Blocks on the way to a
    /// bad one are remembered with its place, and followed once.
    pub(super) fn choose(
        &mut self,
        here: &[u8],
        ahead: u64,
        at_end: bool,
    ) -> Result<usize, Candidate> {
        let start = self.offset + ahead;
        let is_section = word(here, 0, false) == SECTION;
        let chain = self.chain_from(here, start, at_end)?;
        if !is_section && !chain.is_dead {
            return Ok(0);
        }
        let (live, least) = (self.live, start + chain.least as u64);
        if live {
            // Nothing is learned from blocks that end where more bytes are to come.
            self.rival_ends = DeadEnds::default();
        }
        let first = (self.section_start.wrapping_sub(start + 1) % 4) as usize + 1;
        for at in (first..chain.least.min(here.len())).step_by(4) {
            let block_type = word(here, at, self.swapped);
            let is_other = block_type == SECTION || !is_known(block_type);
            if is_other || chain.starts.binary_search(&at).is_ok() {
                continue;
            }
            let rival = Place { offset: start + at as u64, swapped: self.swapped };
            let leads = self.rival_ends.follow(rival, least, |block| {
                let at = (block.offset - start) as usize;
                match block_behind(here, at, block.swapped, at_end) {
                    Ok(behind) => Ok(place(here, start, behind, block.swapped)),
                    // A pipe may stay silent for a long time.
                    Err(_) if live => Err(Candidate::No),
                    Err(other) => Err(other),
                }
            });
            match leads {
                Candidate::Yes => return Ok(at),
                Candidate::Need(bytes) => return Err(Candidate::Need(bytes)),
                Candidate::No => {}
            }
        }
        if chain.is_dead {
            self.doubtful_to = least;
        }
        Ok(0)
    }

    /// Returns whether the block of `bytes` bytes at the start of `here` is the start of one packet
    /// and the end of another. No block is behind it then, but one in it leads to the file's end or
    /// further than a packet is long.
    ///
    /// Cost: a step for each four bytes of the block, and for each block that they lead to.
    pub(in super::super) fn is_torn(
        &mut self,
        here: &[u8],
        bytes: usize,
        at_end: bool,
    ) -> Candidate {
        if here.len() < USUAL_NEED && !at_end {
            // A block behind it may be of a type that is not known here.
            let bytes = if here.len() < bytes + 8 { bytes + 8 } else { USUAL_NEED };
            return Candidate::Need(bytes);
        }
        let next = place(here, self.offset, bytes, self.swapped);
        let is_last = here.len() == bytes;
        if is_last || block_behind(here, bytes, next.swapped, true).is_ok() {
            return Candidate::No;
        }
        let (start, least) = (self.offset, self.offset + REACH as u64 + 1);
        for at in (4..bytes).step_by(4) {
            let block_type = word(here, at, self.swapped);
            if block_type == SECTION || !is_known(block_type) {
                continue;
            }
            let rival = Place { offset: start + at as u64, swapped: self.swapped };
            let leads = self.rival_ends.follow(rival, least, |block| {
                let at = (block.offset - start) as usize;
                if at == here.len() {
                    return Err(Candidate::Yes);
                }
                let behind = block_behind(here, at, block.swapped, true)?;
                Ok(place(here, start, behind, block.swapped))
            });
            if matches!(leads, Candidate::Yes) {
                return Candidate::Yes;
            }
        }
        Candidate::No
    }

    /// Follows the blocks from a candidate at `start` in the file.
    fn chain_from(&self, here: &[u8], start: u64, at_end: bool) -> Result<Chain, Candidate> {
        let mut starts = Vec::new();
        let mut block = place(here, start, 0, self.swapped);
        loop {
            let at = (block.offset - start) as usize;
            if at > REACH || (at == here.len() && at_end) {
                return Ok(Chain { starts, least: at.min(REACH + 1), is_dead: false });
            }
            match block_behind(here, at, block.swapped, at_end) {
                Ok(behind) => {
                    starts.push(at);
                    block = place(here, start, behind, block.swapped);
                }
                Err(Candidate::Need(_)) if self.live => {
                    return Ok(Chain { starts, least: at, is_dead: false });
                }
                Err(Candidate::Need(bytes)) => return Err(Candidate::Need(bytes)),
                Err(_) => return Ok(Chain { starts, least: at + 1, is_dead: true }),
            }
        }
    }
}
