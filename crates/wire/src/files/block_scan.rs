//! Finds the next block after damage.

mod rivals;

use super::block_type::{ENHANCED_PACKET, INTERFACE, SECTION};
use super::blocks::{MIN_BLOCK, is_known};
use super::chains::Place;
use super::decoder::{Mode, Turn};
use super::segment::TAIL_BYTES;
use super::{
    BYTE_ORDER_MAGIC, DamageKind, Decoder, MAX_BLOCK, MAX_CAPTURED, MAX_CONTIGUOUS, USUAL_NEED,
    word,
};

/// Shortest section header.
const MIN_HEADER: u32 = 28;

/// Consecutive blocks that confirm a section header in a pipe that is silent behind them.
const LIVE_CHAIN: usize = 3;

/// Blocks that lead this far are real, unless others of the same section do, too. They start within
/// [`USUAL_NEED`] bytes then.
const REACH: usize = USUAL_NEED - MAX_CONTIGUOUS as usize;

const _: () = assert!(REACH > MAX_CAPTURED as usize);

/// Whether a block starts somewhere.
#[derive(Clone, Copy, Debug)]
pub(super) enum Candidate {
    Yes,
    No,
    /// Undecided with fewer contiguous bytes than this.
    Need(usize),
}

impl Decoder {
    /// Looks for the next block, at multiples of 4 from the section's start. Outside of segmented
    /// sections it also looks for a section header anywhere: a file may have been appended to a
    /// truncated one.
    pub(super) fn scan_blocks(&mut self, here: &[u8], at_end: bool) -> Turn {
        if self.slots.is_some() {
            return self.scan_slot(here, at_end);
        }
        for at in 0..here.len() {
            let aligned = (self.offset + at as u64 - self.section_start).is_multiple_of(4);
            if !aligned && here[at] != SECTION as u8 {
                continue;
            }
            let chosen = match self.candidate(&here[at..], at as u64, aligned, at_end) {
                Candidate::Yes => self.choose(&here[at..], at as u64, at_end),
                other => Err(other),
            };
            match chosen {
                Ok(0) => return self.found(at, Mode::Blocks),
                Ok(further) => return Turn::pass(at + further),
                Err(Candidate::Need(bytes)) => {
                    return Turn::say(at, super::Step::NeedMore { bytes });
                }
                Err(_) => {}
            }
        }
        if at_end { self.found(here.len(), Mode::Ended) } else { Turn::need(here.len() + 1) }
    }

    /// Looks for the next block of the current slot, which is broken, or else for the next slot.
    fn scan_slot(&mut self, here: &[u8], at_end: bool) -> Turn {
        let (within, is_whole) = match self.within_slot(here, at_end) {
            Ok(within) => within,
            Err(turn) => {
                let at = turn.pass;
                return if turn.step.is_some() { turn } else { self.found(at, Mode::Slot) };
            }
        };
        if !is_whole {
            return Turn::need(here.len() + 1);
        }
        let first = (self.section_start.wrapping_sub(self.offset) % 4) as usize;
        let first = first + zeros(within.get(first..).unwrap_or_default());
        for at in (first..within.len()).step_by(4) {
            let block_type = word(within, at, false);
            if is_header(&within[at..]) {
                self.set_aside(self.offset + at as u64 + u64::from(word(within, at + 4, false)));
            }
            if is_known(block_type) && block_type != SECTION && self.leads_on(&within[at..], at) {
                return self.found(at, Mode::Careful);
            }
        }
        self.found(within.len(), Mode::Slot)
    }

    /// Returns whether a block of known type and matching lengths starts here, `ahead` bytes after
    /// the offset, and has a plausible successor. A packet block without options that fits exactly
    /// needs none.
    fn candidate(&mut self, here: &[u8], ahead: u64, aligned: bool, at_end: bool) -> Candidate {
        let cut = |bytes: usize| if at_end { Candidate::No } else { Candidate::Need(bytes) };
        if here.len() < MIN_BLOCK as usize {
            return cut(MIN_BLOCK as usize);
        }
        let block_type = word(here, 0, self.swapped);
        let mut swapped = self.swapped;
        if block_type == SECTION {
            swapped = word(here, 8, true) == BYTE_ORDER_MAGIC;
            if word(here, 8, swapped) != BYTE_ORDER_MAGIC {
                return Candidate::No;
            }
        } else if !aligned || !is_known(block_type) {
            return Candidate::No;
        }
        let length = word(here, 4, swapped);
        let possible = self.length_is_possible(block_type, length, self.offset + ahead);
        if possible.is_err() || length > MAX_CONTIGUOUS {
            return Candidate::No;
        }
        let bytes = length as usize;
        if here.len() < bytes {
            return cut(bytes);
        }
        if word(here, bytes - 4, swapped) != length {
            return Candidate::No;
        }
        if block_type == SECTION {
            return self.section_leads_on(here, ahead, at_end);
        }
        if block_type == ENHANCED_PACKET {
            let captured = word(here, 20, swapped);
            if captured > MAX_CAPTURED || length < 32 + captured.next_multiple_of(4) {
                return Candidate::No;
            }
            if length == 32 + captured.next_multiple_of(4) {
                return Candidate::Yes;
            }
        }
        let behind = &here[bytes..];
        if behind.len() < 8 {
            return if at_end { Candidate::Yes } else { Candidate::Need(bytes + 8) };
        }
        let next = word(behind, 4, swapped);
        let plausible = word(behind, 0, swapped) == SECTION
            || (next >= MIN_BLOCK && next.is_multiple_of(4) && next <= MAX_BLOCK);
        if plausible { Candidate::Yes } else { Candidate::No }
    }

    /// Returns whether a section header may be real. Blocks must lead from it to the file's end, or
    /// further than the longest packet, so no packet can contain them all. A pipe may stay silent
    /// for a long time: a few blocks are enough if nothing follows them yet.
    fn section_leads_on(&mut self, here: &[u8], ahead: u64, at_end: bool) -> Candidate {
        let (start, live) = (self.offset + ahead, self.live);
        let (first, mut blocks) = (place(here, start, 0, self.swapped), 0);
        self.dead_ends.follow(first, start + REACH as u64 + 1, |block| {
            let at = (block.offset - start) as usize;
            let is_silent = live && blocks >= LIVE_CHAIN;
            if at == here.len() && (at_end || is_silent) {
                return Err(Candidate::Yes);
            }
            blocks += 1;
            let behind = block_behind(here, at, block.swapped, at_end)?;
            Ok(place(here, start, behind, block.swapped))
        })
    }

    /// Notes damage at the current offset, to be reported once the scan has found the next block.
    pub(super) fn lose_block(&mut self, here: &[u8], kind: DamageKind) -> Turn {
        self.heed_end(here);
        self.lost = Some((self.offset, kind));
        self.mode = Mode::ScanBlocks;
        // One byte, not four: the scan itself keeps the alignment.
        super::decoder::Turn::pass(here.len().min(1))
    }
}

/// Returns whether a section header starts the rest of a slot: its lengths agree, and a description
/// or the slot's end is behind it. Its first words alone may be part of any packet.
fn is_header(here: &[u8]) -> bool {
    let length = word(here, 4, false);
    let is_length = (MIN_HEADER..=MAX_CONTIGUOUS).contains(&length) && length.is_multiple_of(4);
    if word(here, 0, false) != SECTION || word(here, 8, false) != BYTE_ORDER_MAGIC || !is_length {
        return false;
    }
    let Some((header, behind)) = here.split_at_checked(length as usize) else {
        // It crosses the slot's end. So near to the end of a whole slot, no packet's bytes are.
        return here.len() < TAIL_BYTES;
    };
    let is_followed = behind.is_empty() || word(behind, 0, false) == INTERFACE;
    is_followed && word(header, header.len() - 4, false) == length
}

/// Returns how many bytes of zeros to skip at the start, a multiple of 4: no block starts there. A
/// segment that could not be decompressed has nothing else.
fn zeros(bytes: &[u8]) -> usize {
    let chunks = bytes.as_chunks::<64>().0.iter();
    64 * chunks.take_while(|chunk| **chunk == [0; 64]).count()
}

/// Returns the place of the block at `at` in `here`, which is at `start` in the file. `swapped` is
/// the byte order of the block before it.
fn place(here: &[u8], start: u64, at: usize, swapped: bool) -> Place {
    let is_section = word(here, at, false) == SECTION;
    let swapped = if is_section { word(here, at + 8, true) == BYTE_ORDER_MAGIC } else { swapped };
    Place { offset: start + at as u64, swapped }
}

/// Returns where the block at `at` ends. `Err` if it is none, or more bytes are needed.
fn block_behind(here: &[u8], at: usize, swapped: bool, at_end: bool) -> Result<usize, Candidate> {
    let cut = |bytes: usize| if at_end { Candidate::No } else { Candidate::Need(bytes) };
    let head = here.get(at..at + 12).ok_or(cut(at + 12))?;
    let magics = [word(head, 8, false), word(head, 8, true)];
    if word(head, 0, false) == SECTION && !magics.contains(&BYTE_ORDER_MAGIC) {
        return Err(Candidate::No);
    }
    let length = word(head, 4, swapped);
    let is_length = length >= MIN_BLOCK && length.is_multiple_of(4);
    if !is_length || length > MAX_CONTIGUOUS {
        return Err(Candidate::No);
    }
    let behind = at + length as usize;
    let trailing = here.get(behind - 4..behind).ok_or(cut(behind))?;
    if word(trailing, 0, swapped) == length { Ok(behind) } else { Err(Candidate::No) }
}
