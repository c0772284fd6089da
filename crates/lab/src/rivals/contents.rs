//! A matcher that searches for contents in packets, like the first stage of a sensor. It works on
//! contiguous bursts and on buffers of a pool.
//!
//! ```text
//!   contiguous   |p0|p1|p2|...|            one call for a burst; a match counts for the packet
//!                                          that contains it, and is ignored if it spans two
//!   scattered    |p0.......|p1.......|     one call for each packet, through its header
//!   vectored     the same buffers          one call for a burst: a list of starts and lengths
//! ```
//!
//! All three find the same: each match enters a sum by packet, content and position.
//!
//! Invariants:
//! - M1: a match counts if its first and its last byte are in one packet. Contents have a fixed
//!   length, so the last byte determines the first.

use std::time::Instant;

use burstline_log::Writer;
use burstline_log::{Appended, Burst, Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start};
use burstline_sys::memory::{PageChoice, PageKind};
use burstline_sys::prefetch;

use super::behind::put;
use super::hyperscan::{Database, Memory};
use super::pool::{Cache, HEADER_BYTES, Pool, STRIDE_BYTES};
use super::scattered::{AHEAD, Header};
use super::staged::cpu_ns;
use super::{Address, BURST};
use crate::arena::Arena;

/// Number of content rules of a figure.
pub const RULES: usize = 5000;
/// Lengths of contents, in bytes. Shorter ones would match too often.
const CONTENT_BYTES: std::ops::RangeInclusive<usize> = 6..=20;
/// Lengths of packets, in bytes. Source: the document's Snort table, "random from 68 to 256".
const PACKET_BYTES: std::ops::RangeInclusive<usize> = 68..=256;
/// Size of the headers: Ethernet, IPv4, UDP.
const HEADERS_BYTES: usize = 42;
/// Maximum packets per call of the contiguous and the vectored matcher.
pub const SCANNED: usize = 256;
/// Number of flows.
const FLOWS: u64 = 1024;
const SEGMENT_BYTES: usize = 256 << 10;

/// The matches found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Number of matches.
    pub matches: u64,
    /// Sum over all matches of packet, content and end.
    sum: u64,
}

impl Found {
    #[inline]
    pub(super) fn add(&mut self, packet: u64, content: u32, end: u64) {
        let mixed =
            (packet << 24 ^ u64::from(content) << 9 ^ end).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum = self.sum.wrapping_add(mixed ^ mixed >> 29);
        self.matches += 1;
    }
}

/// Repeatable pseudo-random numbers. Source: Knuth's MMIX.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * most as u64) >> 32) as usize
    }

    fn within(&mut self, range: std::ops::RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// Returns a text of letters, digits and the two punctuation marks of base64.
    fn text(&mut self, bytes: usize) -> Vec<u8> {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        (0..bytes).map(|_| LETTERS[self.below(64)]).collect()
    }
}

/// Returns this many different contents.
pub fn rules(count: usize) -> Vec<Vec<u8>> {
    let (mut random, mut rules) = (Random(1), Vec::with_capacity(count));
    let mut known = std::collections::HashSet::new();
    while rules.len() < count {
        let length = random.within(CONTENT_BYTES);
        let content = random.text(length);
        if known.insert(content.clone()) {
            rules.push(content);
        }
    }
    rules
}

/// Returns UDP packets of several flows with text as payload; one in `match_every` has a content.
pub fn packets(count: usize, rules: &[Vec<u8>], match_every: Option<u64>) -> Vec<Vec<u8>> {
    let mut random = Random(2);
    let packet = |number: u64| {
        let length = random.within(PACKET_BYTES);
        let mut packet = crate::live::udp_frame(length);
        // The flow's address and its complement, so that the header's checksum stays the same.
        let flow = (number % FLOWS) as u16;
        packet[28..30].copy_from_slice(&flow.to_be_bytes());
        packet[18..20].copy_from_slice(&(!flow).to_be_bytes());
        packet[HEADERS_BYTES..].copy_from_slice(&random.text(length - HEADERS_BYTES));
        let content = &rules[random.below(rules.len())];
        let at = HEADERS_BYTES + random.below(length - HEADERS_BYTES - content.len() + 1);
        if match_every.is_some_and(|every| number.is_multiple_of(every)) {
            packet[at..at + content.len()].copy_from_slice(content);
        }
        packet
    };
    (0..count as u64).map(packet).collect()
}

/// The result of scanning all packets once.
#[derive(Clone, Copy, Debug)]
pub struct Scanned {
    /// The matches.
    pub found: Found,
    /// CPU time of its thread, in ns.
    pub cpu_ns: u64,
    /// Wall time.
    pub seconds: f64,
}

/// Packets in a log, scanned burst by burst.
pub struct Contiguous {
    database: Database,
    lengths: Vec<u64>,
    log: Log,
    writer: Writer,
    reader: Reader,
}

impl Contiguous {
    /// Creates one with a log for twice `bytes` bytes of packets.
    ///
    /// # Errors
    /// Errors of the log and of Hyperscan.
    pub fn new(rules: &[Vec<u8>], bytes: usize, pages: PageChoice) -> Result<Self, String> {
        let database = Database::of(rules, Memory::One)?;
        let bytes = (2 * bytes).next_multiple_of(SEGMENT_BYTES).max(16 * SEGMENT_BYTES);
        let (name, segment_bytes) = ("contents".to_owned(), SEGMENT_BYTES);
        let config = LogConfig { name, bytes, segment_bytes, pages, ..LogConfig::default() };
        let (log, writer) = Log::create(config).map_err(|error| error.to_string())?;
        let seat = ReaderConfig { policy: Policy::Lossless, window: 1, start: Start::Now };
        let reader = log.attach(seat).map_err(|error| error.to_string())?;
        let lengths = rules.iter().map(|rule| rule.len() as u64).collect();
        Ok(Self { database, lengths, log, writer, reader })
    }

    /// Returns the page kind of the packets.
    pub fn page(&self) -> PageKind {
        self.log.placement().page
    }

    /// Returns the matcher, the lengths of the contents, and both ends of the log.
    pub(super) fn parts(&mut self) -> (&mut Database, &[u64], &mut Writer, &mut Reader) {
        (&mut self.database, &self.lengths, &mut self.writer, &mut self.reader)
    }

    /// Writes all packets and then scans them.
    ///
    /// # Errors
    /// If the packets do not fit; those of Hyperscan.
    pub fn turn(&mut self, packets: &[Vec<u8>]) -> Result<Scanned, String> {
        for (number, packet) in packets.iter().enumerate() {
            let meta = Meta::new(number as u64, packet.len() as u32, 0);
            if self.writer.append(packet, &meta) == Appended::Full {
                return Err(format!("the log has no room for {} packets", packets.len()));
            }
        }
        self.writer.publish();
        let (mut found, mut done, mut outcome) = (Found::default(), 0, Ok(()));
        let started = Instant::now();
        let cpu_ns = cpu_ns(|| {
            while outcome.is_ok() && done < packets.len() as u64 {
                let Some(mut rest) = self.reader.next_burst() else { continue };
                while !rest.is_empty() && outcome.is_ok() {
                    let (part, behind) = rest.split_at(rest.len().min(SCANNED));
                    outcome = scan(&mut self.database, &self.lengths, &part, done, &mut found);
                    (rest, done) = (behind, done + part.len() as u64);
                }
            }
        });
        let seconds = started.elapsed().as_secs_f64();
        outcome.map(|()| Scanned { found, cpu_ns, seconds })
    }
}

/// Scans a burst in one call. Its first packet is `first`.
#[inline]
pub(super) fn scan(
    database: &mut Database,
    lengths: &[u64],
    burst: &Burst<'_>,
    first: u64,
    found: &mut Found,
) -> Result<(), String> {
    // In memory order, the newest packet is first.
    let descs = burst.worklist();
    let (oldest, newest) = (descs[descs.len() - 1], descs[0]);
    let start = oldest.offset() as usize;
    let bytes = (newest.offset() + newest.length()) as usize - start;
    // SAFETY: the burst's packets are in this order in the memory that its offsets count from. That
    // memory does not change while the burst is lent (`Burst::start`).
    let memory = unsafe { std::slice::from_raw_parts(burst.start().as_ptr().add(start), bytes) };
    // The packet of the last match. The next match usually ends in it or a later one.
    let mut at = descs.len() - 1;
    database.scan(memory, |content, end| {
        let (begin, end) = (start as u64 + end - lengths[content as usize], start as u64 + end);
        while at > 0 && u64::from(descs[at - 1].offset()) < end {
            at -= 1;
        }
        while at + 1 < descs.len() && u64::from(descs[at].offset()) >= end {
            at += 1;
        }
        let (from, length) = (u64::from(descs[at].offset()), u64::from(descs[at].length()));
        if begin >= from && end <= from + length {
            found.add(first + (descs.len() - 1 - at) as u64, content, end - from);
        }
    })
}

/// Packets in buffers of a used pool.
pub struct Scattered<'a> {
    database: Database,
    memory: Memory,
    lengths: Vec<u64>,
    buffers: Vec<Address>,
    _pool: Pool<'a>,
}

impl<'a> Scattered<'a> {
    /// Returns the arena size for this many packets.
    pub fn bytes(packets: usize) -> usize {
        let objects = packets + BURST;
        objects * STRIDE_BYTES + 2 * objects.next_power_of_two() * size_of::<Address>() + (1 << 16)
    }

    /// Creates one with a buffer for each of `packets` packets, in random order, as from a pool
    /// that has been in use for a while.
    ///
    /// # Errors
    /// Errors of Hyperscan.
    pub fn new(
        rules: &[Vec<u8>],
        memory: Memory,
        arena: &'a Arena,
        packets: usize,
    ) -> Result<Self, String> {
        let database = Database::of(rules, memory)?;
        let pool = Pool::new(arena, packets + BURST);
        let (mut cache, mut buffers) = (Cache::new(0), vec![Address::NOWHERE; packets]);
        for buffer in &mut buffers {
            assert!(pool.take(&mut cache, std::slice::from_mut(buffer)), "it has one for each");
        }
        let mut random = Random(3);
        for last in (1..packets).rev() {
            buffers.swap(last, random.below(last + 1));
        }
        let lengths = rules.iter().map(|rule| rule.len() as u64).collect();
        Ok(Self { database, memory, lengths, buffers, _pool: pool })
    }

    /// Writes all packets, at most one per buffer, and then scans them.
    ///
    /// # Errors
    /// Errors of Hyperscan.
    pub fn turn(&mut self, packets: &[Vec<u8>]) -> Result<Scanned, String> {
        for (buffer, packet) in self.buffers.iter().zip(packets) {
            // SAFETY: this side owns the buffer since it was taken, and the buffer has room for a
            // header and any of these packets.
            unsafe { put(*buffer, packet) };
        }
        let (mut found, mut outcome) = (Found::default(), Ok(()));
        let started = Instant::now();
        let cpu_ns = cpu_ns(|| {
            outcome = match self.memory {
                Memory::One => self.each(packets.len(), &mut found),
                Memory::Several => self.by_lists(packets.len(), &mut found),
            };
        });
        let seconds = started.elapsed().as_secs_f64();
        outcome.map(|()| Scanned { found, cpu_ns, seconds })
    }

    /// Makes a call for each packet, prefetching the headers and packets after it.
    fn each(&mut self, packets: usize, found: &mut Found) -> Result<(), String> {
        let buffers = &self.buffers[..packets];
        for (number, buffer) in buffers.iter().enumerate() {
            if let Some(later) = buffers.get(number + AHEAD) {
                prefetch::to_read(later.0);
                prefetch::to_read(later.0.wrapping_add(HEADER_BYTES));
            }
            // SAFETY: `turn` has filled it.
            let bytes = unsafe { (*buffer.0.cast::<Header>()).bytes() };
            self.database.scan(bytes, |content, end| found.add(number as u64, content, end))?;
        }
        Ok(())
    }

    /// Makes a call for [`SCANNED`] packets.
    fn by_lists(&mut self, packets: usize, found: &mut Found) -> Result<(), String> {
        let (mut starts, mut sizes) = (Vec::with_capacity(SCANNED), Vec::with_capacity(SCANNED));
        let mut ends = Vec::with_capacity(SCANNED);
        for (chunk, buffers) in self.buffers[..packets].chunks(SCANNED).enumerate() {
            starts.clear();
            sizes.clear();
            ends.clear();
            let mut sum = 0;
            for (number, buffer) in buffers.iter().enumerate() {
                if let Some(later) = buffers.get(number + AHEAD) {
                    prefetch::to_read(later.0);
                    prefetch::to_read(later.0.wrapping_add(HEADER_BYTES));
                }
                // SAFETY: `turn` has filled it.
                let bytes = unsafe { (*buffer.0.cast::<Header>()).bytes() };
                sum += bytes.len() as u64;
                starts.push(bytes.as_ptr());
                sizes.push(bytes.len() as u32);
                ends.push(sum);
            }
            let (lengths, mut at) = (&self.lengths, 0);
            let first = (chunk * SCANNED) as u64;
            // SAFETY: the packets' own starts and lengths.
            unsafe {
                self.database.scan_several(&starts, &sizes, |content, end| {
                    while ends[at] < end {
                        at += 1;
                    }
                    while at > 0 && ends[at - 1] >= end {
                        at -= 1;
                    }
                    let from = ends[at] - u64::from(sizes[at]);
                    if end - lengths[content as usize] >= from {
                        found.add(first + at as u64, content, end - from);
                    }
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use burstline_skip::skip;

    use super::super::behind::{self, Pooled};
    use super::super::hyperscan;
    use super::*;
    use crate::threads::Cores;

    /// Searches by comparing at every position.
    fn plainly(packets: &[Vec<u8>], rules: &[Vec<u8>]) -> Found {
        let mut found = Found::default();
        for (number, packet) in packets.iter().enumerate() {
            for (content, rule) in rules.iter().enumerate() {
                for (at, _) in packet.windows(rule.len()).enumerate().filter(|(_, w)| w == rule) {
                    found.add(number as u64, content as u32, (at + rule.len()) as u64);
                }
            }
        }
        found
    }

    #[test]
    fn all_matchers_find_what_comparing_finds() {
        if let Err(why) = hyperscan::version() {
            return skip(why);
        }
        let mut rules = rules(50);
        rules.push(b"ab".to_vec()); // sometimes spans two packets
        let mut packets = packets(600, &rules, Some(4));
        packets[7].push(b'a');
        packets[8][0] = b'b'; // no match: its bytes are in two packets
        let expected = plainly(&packets, &rules);
        assert!(expected.matches > 150, "{expected:?}");
        let pages = PageChoice::Size4K;
        let bytes = packets.iter().map(Vec::len).sum();
        let mut contiguous = Contiguous::new(&rules, bytes, pages).unwrap();
        let arena = Arena::create(Scattered::bytes(packets.len()), pages).unwrap();
        let mut scattered = Scattered::new(&rules, Memory::One, &arena, packets.len()).unwrap();
        for _ in 0..3 {
            assert_eq!(contiguous.turn(&packets).unwrap().found, expected);
            assert_eq!(scattered.turn(&packets).unwrap().found, expected);
        }
        let arena = Arena::create(Scattered::bytes(packets.len()), pages).unwrap();
        let mut vectored = Scattered::new(&rules, Memory::Several, &arena, packets.len()).unwrap();
        assert_eq!(vectored.turn(&packets).unwrap().found, expected);
    }

    #[test]
    fn a_sensor_behind_a_switch_finds_the_same_either_way() {
        if let Err(why) = hyperscan::version() {
            return skip(why);
        }
        let rules = rules(50);
        let packets = packets(3200, &rules, Some(4));
        let (expected, pages) = (plainly(&packets, &rules), PageChoice::Size4K);
        let cores = Cores::allowed();
        let mut log = Contiguous::new(&rules, 1 << 20, pages).unwrap();
        let arena = Arena::create(Pooled::BYTES, pages).unwrap();
        let mut pool = Pooled::new(&rules, &arena).unwrap();
        for _ in 0..2 {
            assert_eq!(behind::contiguous(&mut log, cores, &packets).unwrap().found, expected);
            assert_eq!(pool.pass(cores, &packets).unwrap().found, expected);
        }
    }

    #[test]
    fn packets_without_matches_have_none_of_the_contents() {
        let rules = rules(200);
        assert_eq!(plainly(&packets(300, &rules, None), &rules).matches, 0);
        let lengths: Vec<usize> = packets(300, &rules, Some(4)).iter().map(Vec::len).collect();
        assert!(lengths.iter().all(|length| PACKET_BYTES.contains(length)));
        assert!(lengths.contains(&68) || lengths.iter().min() < Some(&75), "{lengths:?}");
    }
}
