//! Classic pcap. Records have no marker, so a record is recognized by a plausible one after it.
//!
//! A record is delivered if its successor is plausible. Otherwise one of the two is damaged:
//! - another plausible chain starts inside this record's bytes: its length is wrong, it is damage;
//! - possible records follow from the successor on: the successor is only odd (a jump in time, or a
//!   writer that fills in no original lengths);
//! - else this record is delivered, and the decoder looks for the next chain after its end.

use super::decoder::{Mode, Turn};
use super::record::{Damage, DamageKind, Record, Step};
use super::{Decoder, MAX_CAPTURED, word};
use crate::headers::LinkType;

/// Consecutive records that must be plausible before decoding continues after damage.
const CHAIN: usize = 3;

/// No packet had more bytes than this on the wire (BIG TCP has 512 KiB).
const MAX_ORIGINAL: u32 = 16 << 20;

/// Most seconds between neighbours of a plausible chain.
const NEAR_SECONDS: u32 = 7 * 86_400;

/// Without a good record to compare to, a chain starts in July 1978 or later: data full of zeros
/// looks like 1970.
const ERA_SECONDS: u32 = 1 << 28;

/// The constants of a classic file, and the time of the last good record.
#[derive(Debug)]
pub(super) struct Classic {
    pub(super) header_bytes: usize,
    /// Fractions per second: 10^6 or 10^9.
    pub(super) fractions: u32,
    fraction_ns: u64,
    link: LinkType,
    pub(super) last_seconds: Option<u32>,
}

/// A record header in our byte order.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) seconds: u32,
    fraction: u32,
    pub(super) captured: u32,
    pub(super) original: u32,
}

/// The headers that a chain may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Belief {
    /// Plausible ones near these seconds, or near the first of them.
    Near(Option<u32>),
    /// Possible ones, counted from these seconds: a whole file may be odd.
    Possible(u32),
}

/// Whether a chain starts somewhere.
enum Verdict {
    Yes,
    No,
    /// Undecided with fewer contiguous bytes than this.
    Need(usize),
}

impl Header {
    /// Returns whether this could be a header near `reference` seconds.
    #[inline(always)]
    pub(super) fn is_plausible(&self, fractions: u32, reference: u32) -> bool {
        let apart = self.seconds.wrapping_sub(reference).wrapping_add(NEAR_SECONDS);
        self.fraction < fractions
            && self.captured <= self.original
            && self.original.wrapping_sub(1) < MAX_ORIGINAL
            && self.captured <= MAX_CAPTURED
            && apart <= 2 * NEAR_SECONDS
    }

    /// Returns whether this could be a header that is odd in one way: far in time, with an
    /// impossible original length, or with a fraction above a second. Data full of zeros is odd in
    /// several ways.
    fn is_possible(&self, fractions: u32, reference: u32) -> bool {
        let far = self.seconds.abs_diff(reference) > NEAR_SECONDS;
        let lengths = self.captured > self.original || self.original == 0;
        let fraction = self.fraction >= fractions;
        u8::from(far) + u8::from(lengths) + u8::from(fraction) <= 1
            && !(far && self.captured == 0)
            && self.captured <= MAX_CAPTURED
            && self.original <= MAX_ORIGINAL
    }

    fn is_zero(&self) -> bool {
        self.seconds | self.fraction | self.captured | self.original == 0
    }
}

impl Classic {
    pub(super) fn new(nanoseconds: bool, modified: bool, link: LinkType) -> Classic {
        Classic {
            header_bytes: if modified { 24 } else { 16 },
            fractions: if nanoseconds { 1_000_000_000 } else { 1_000_000 },
            fraction_ns: if nanoseconds { 1 } else { 1000 },
            link,
            last_seconds: None,
        }
    }

    /// Reads the header at the start of `bytes`, if it is complete.
    #[inline(always)]
    pub(super) fn header(&self, bytes: &[u8], swapped: bool) -> Option<Header> {
        if bytes.len() < self.header_bytes {
            return None;
        }
        let head: &[u8; 16] = bytes.first_chunk()?;
        let read = |at| word(head, at, swapped);
        Some(Header { seconds: read(0), fraction: read(4), captured: read(8), original: read(12) })
    }

    /// Returns the record whose header is at `at`.
    #[inline(always)]
    pub(super) fn record(&self, head: Header, at: usize) -> Record {
        let fraction_ns = u64::from(head.fraction) * self.fraction_ns;
        Record {
            offset: at + self.header_bytes,
            time_ns: u64::from(head.seconds) * 1_000_000_000 + fraction_ns,
            captured_length: head.captured,
            original_length: head.original,
            interface: 0,
            link: self.link,
            has_options: false,
            timed: true,
        }
    }
}

impl Decoder {
    /// Decodes the record at the start of `here`.
    pub(super) fn classic(&mut self, here: &[u8], at_end: bool) -> Turn {
        let Some(head) = self.classic.header(here, self.swapped) else {
            return match (here.len(), at_end) {
                (0, true) => Turn::say(0, Step::End),
                (_, true) => {
                    self.lose_record(here, self.cut_short(here, self.classic.header_bytes))
                }
                (_, false) => Turn::need(self.classic.header_bytes),
            };
        };
        if head.is_zero() {
            return self.lose_record(here, DamageKind::Zeroed);
        }
        if head.captured > MAX_CAPTURED {
            let kind = DamageKind::CapturedLength { captured: head.captured, limit: MAX_CAPTURED };
            return self.lose_record(here, kind);
        }
        let bytes = self.classic.header_bytes + head.captured as usize;
        if here.len() < bytes {
            return if at_end {
                self.lose_record(here, self.cut_short(here, bytes))
            } else {
                Turn::need(bytes)
            };
        }
        let reference = self.classic.last_seconds.unwrap_or(head.seconds);
        let mut near = head.seconds.abs_diff(reference) <= NEAR_SECONDS;
        match self.successor(here, bytes, head.seconds, at_end) {
            Verdict::Yes => near = true,
            Verdict::Need(_) if self.live => {}
            Verdict::Need(bytes) => return Turn::need(bytes),
            Verdict::No => match self.judge(here, bytes, reference, at_end) {
                Judgement::Need(bytes) if !self.live => return Turn::need(bytes),
                Judgement::Shorter(at) => return self.pass_damaged(at),
                Judgement::Broken => {
                    self.lost = Some((self.offset + bytes as u64, DamageKind::BrokenChain));
                    self.mode = Mode::ScanClassic;
                }
                Judgement::Odd | Judgement::Need(_) => {}
            },
        }
        if near || self.classic.last_seconds.is_none() {
            self.classic.last_seconds = Some(head.seconds);
        }
        Turn::say(bytes, Step::Packet(self.classic.record(head, 0)))
    }

    /// Looks for the next chain, skipping everything before it.
    pub(super) fn scan_classic(&mut self, here: &[u8], at_end: bool) -> Turn {
        for at in 0..here.len() {
            match self.chain(&here[at..], Belief::Near(self.classic.last_seconds), at_end) {
                Verdict::Yes => return self.found(at, Mode::Classic),
                Verdict::Need(bytes) => return Turn::say(at, Step::NeedMore { bytes }),
                Verdict::No => {}
            }
        }
        if at_end { self.found(here.len(), Mode::Ended) } else { Turn::need(here.len() + 1) }
    }

    /// Returns whether a record of `bytes` bytes is followed by the end or a plausible header.
    fn successor(&self, here: &[u8], bytes: usize, seconds: u32, at_end: bool) -> Verdict {
        let rest = &here[bytes..];
        match self.classic.header(rest, self.swapped) {
            Some(next) if next.is_plausible(self.classic.fractions, seconds) => Verdict::Yes,
            Some(_) => Verdict::No,
            None if !at_end => Verdict::Need(bytes + self.classic.header_bytes),
            None if rest.is_empty() => Verdict::Yes,
            None => Verdict::No,
        }
    }

    /// Decides between a record of `bytes` bytes and its implausible successor.
    fn judge(&self, here: &[u8], bytes: usize, reference: u32, at_end: bool) -> Judgement {
        let near = Belief::Near(Some(reference));
        match self.chain(&here[bytes..], near, at_end) {
            Verdict::Yes => return Judgement::Odd,
            Verdict::Need(more) => return Judgement::Need(bytes + more),
            Verdict::No => {}
        }
        for at in self.classic.header_bytes..bytes {
            match self.chain(&here[at..], near, at_end) {
                Verdict::Yes => return Judgement::Shorter(at),
                Verdict::Need(more) => return Judgement::Need(at + more),
                Verdict::No => {}
            }
        }
        if here.len() - bytes < self.classic.header_bytes {
            // The file ends inside the successor's header; the next call reports that.
            return Judgement::Odd;
        }
        match self.chain(&here[bytes..], Belief::Possible(reference), at_end) {
            Verdict::Yes => Judgement::Odd,
            Verdict::Need(more) => Judgement::Need(bytes + more),
            Verdict::No => Judgement::Broken,
        }
    }

    /// Returns whether [`CHAIN`] believable records, or fewer up to the file's end, form a chain.
    fn chain(&self, bytes: &[u8], mut belief: Belief, at_end: bool) -> Verdict {
        // The last record of a file has no successor; without a reference two records must agree.
        let last = if belief == Belief::Near(None) { 2 } else { 1 };
        let mut at = 0;
        for count in 0..CHAIN {
            let Some(rest) = bytes.get(at..) else {
                // The previous record reaches past the end of these bytes.
                return if !at_end { Verdict::Need(at) } else { yes_if(count >= 2) };
            };
            if rest.is_empty() && at_end {
                return yes_if(count >= last);
            }
            let Some(head) = self.classic.header(rest, self.swapped) else {
                let need = Verdict::Need(at + self.classic.header_bytes);
                return if at_end { yes_if(count >= 2) } else { need };
            };
            let believed = match &mut belief {
                Belief::Possible(near) => head.is_possible(self.classic.fractions, *near),
                Belief::Near(reference) => {
                    let known = reference.is_some();
                    let near = *reference.get_or_insert(head.seconds);
                    let in_era = known || head.seconds >= ERA_SECONDS;
                    in_era && head.is_plausible(self.classic.fractions, near)
                }
            };
            if !believed {
                return Verdict::No;
            }
            at += self.classic.header_bytes + head.captured as usize;
        }
        Verdict::Yes
    }

    fn lose_record(&mut self, here: &[u8], kind: DamageKind) -> Turn {
        self.lost = Some((self.offset, kind));
        self.mode = Mode::ScanClassic;
        Turn::pass(here.len().min(1))
    }

    /// Skips a record with a wrong length, up to the chain that starts inside it.
    fn pass_damaged(&mut self, bytes: usize) -> Turn {
        let (offset, skipped) = (self.offset, bytes as u64);
        let damage = Damage { offset, kind: DamageKind::BrokenChain, skipped };
        Turn::say(bytes, Step::Damage(damage))
    }

    /// Reports that the file ends inside something of `needed` bytes.
    pub(super) fn cut_short(&self, here: &[u8], needed: usize) -> DamageKind {
        DamageKind::Truncated { needed: needed as u64, left: here.len() as u64 }
    }
}

/// The verdict on a record and its implausible successor.
enum Judgement {
    /// The record is wrong: a chain starts this far inside it.
    Shorter(usize),
    /// Both are right: a plausible chain follows the successor.
    Odd,
    /// The successor is wrong; look for the next chain after the record.
    Broken,
    /// Undecided with fewer contiguous bytes than this.
    Need(usize),
}

fn yes_if(condition: bool) -> Verdict {
    if condition { Verdict::Yes } else { Verdict::No }
}
