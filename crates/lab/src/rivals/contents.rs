//! A matcher that looks for contents in packets, as a sensor's first stage does. It works over a
//! burst that lies back to back, and over buffers of a pool.
//!
//! ```text
//!   contiguous   |p0|p1|p2|...|            one call for a burst; a match is of the packet that
//!                                          has all of it, and of none where it lies in two
//!   scattered    |p0.......|p1.......|     one call for each packet, through its header
//!   vectored     the same buffers          one call for a burst: a list of starts and lengths
//! ```
//!
//! All three find the same: each match goes into a sum by packet, content and place.
//!
//! Invariants:
//! - M1: a match counts if its first and its last byte are of one packet. Contents have a fixed
//!   length, so its first byte is known by its last.

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

/// Content rules of a figure.
pub const RULES: usize = 5000;
/// Lengths of contents, in bytes. Shorter ones would be found anywhere.
const CONTENT_BYTES: std::ops::RangeInclusive<usize> = 6..=20;
/// Lengths of packets, in bytes. Source: the document's Snort table, "random from 68 to 256".
const PACKET_BYTES: std::ops::RangeInclusive<usize> = 68..=256;
/// Ethernet, IPv4, UDP.
const HEADERS_BYTES: usize = 42;
/// Packets that one call of the contiguous and of the vectored matcher looks through, at most.
pub const SCANNED: usize = 256;
/// Flows of packets.
const FLOWS: u64 = 1024;
const SEGMENT_BYTES: usize = 256 << 10;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Matches.
    pub matches: u64,
    /// Of each: its packet, its content, and where it ends.
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

/// Numbers that repeat from run to run. Source: Knuth's MMIX.
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

    /// A text of letters, digits and the two marks of base64.
    fn text(&mut self, bytes: usize) -> Vec<u8> {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        (0..bytes).map(|_| LETTERS[self.below(64)]).collect()
    }
}

/// This many contents, all different.
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

/// Packets of UDP of several flows, whose payload is text; one in `match_every` has a content.
pub fn packets(count: usize, rules: &[Vec<u8>], match_every: Option<u64>) -> Vec<Vec<u8>> {
    let mut random = Random(2);
    let packet = |number: u64| {
        let length = random.within(PACKET_BYTES);
        let mut packet = crate::live::udp_frame(length);
        // The flow's address, and its complement, so that the header's checksum stays.
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

/// What a matcher took for all packets once.
#[derive(Clone, Copy, Debug)]
pub struct Scanned {
    /// What it found.
    pub found: Found,
    /// Of its thread, in ns.
    pub cpu_ns: u64,
}

/// Packets in a log, looked through burst by burst.
pub struct Contiguous {
    database: Database,
    lengths: Vec<u64>,
    log: Log,
    writer: Writer,
    reader: Reader,
}

impl Contiguous {
    /// With a log that has room for `bytes` bytes of packets, and as much again.
    ///
    /// # Errors
    /// Those of the log and of Hyperscan.
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

    /// The kind of page that packets lie in.
    pub fn page(&self) -> PageKind {
        self.log.placement().page
    }

    /// What looks for contents, their lengths, and both ends of the log.
    pub(super) fn parts(&mut self) -> (&mut Database, &[u64], &mut Writer, &mut Reader) {
        (&mut self.database, &self.lengths, &mut self.writer, &mut self.reader)
    }

    /// Writes all packets, and then looks through them.
    ///
    /// # Errors
    /// They have no room; Hyperscan's.
    pub fn turn(&mut self, packets: &[Vec<u8>]) -> Result<Scanned, String> {
        for (number, packet) in packets.iter().enumerate() {
            let meta = Meta::new(number as u64, packet.len() as u32, 0);
            if self.writer.append(packet, &meta) == Appended::Full {
                return Err(format!("the log has no room for {} packets", packets.len()));
            }
        }
        self.writer.publish();
        let (mut found, mut done, mut outcome) = (Found::default(), 0, Ok(()));
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
        outcome.map(|()| Scanned { found, cpu_ns })
    }
}

/// Looks through a burst in one call. Its first packet is `first`.
#[inline]
pub(super) fn scan(
    database: &mut Database,
    lengths: &[u64],
    burst: &Burst<'_>,
    first: u64,
    found: &mut Found,
) -> Result<(), String> {
    // In memory order: the newest packet's first.
    let descs = burst.worklist();
    let (oldest, newest) = (descs[descs.len() - 1], descs[0]);
    let start = oldest.offset() as usize;
    let bytes = (newest.offset() + newest.length()) as usize - start;
    // SAFETY: the burst's packets lie in this order in the memory that its offsets count from, of
    // which nothing changes while it is lent (`Burst::start`).
    let memory = unsafe { std::slice::from_raw_parts(burst.start().as_ptr().add(start), bytes) };
    // The packet that the last match was in: the next one ends there or later, as a rule.
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

/// Packets in buffers of a pool that has been in use.
pub struct Scattered<'a> {
    database: Database,
    memory: Memory,
    lengths: Vec<u64>,
    buffers: Vec<Address>,
    _pool: Pool<'a>,
}

impl<'a> Scattered<'a> {
    /// Bytes of an arena for this many packets.
    pub fn bytes(packets: usize) -> usize {
        let objects = packets + BURST;
        objects * STRIDE_BYTES + 2 * objects.next_power_of_two() * size_of::<Address>() + (1 << 16)
    }

    /// With a buffer for each of `packets` packets, in no order: so a pool gives them that has
    /// been in use for a while.
    ///
    /// # Errors
    /// Hyperscan's.
    pub fn new(
        rules: &[Vec<u8>],
        memory: Memory,
        arena: &'a Arena,
        packets: usize,
    ) -> Result<Self, String> {
        let database = Database::of(rules, memory)?;
        let pool = Pool::new("contents", arena, packets + BURST);
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

    /// Writes all packets, at most as many as there are buffers, and then looks through them.
    ///
    /// # Errors
    /// Hyperscan's.
    pub fn turn(&mut self, packets: &[Vec<u8>]) -> Result<Scanned, String> {
        for (buffer, packet) in self.buffers.iter().zip(packets) {
            // SAFETY: the buffer is this side's own since it was taken, and has room for a header
            // and any packet of these.
            unsafe { put(*buffer, packet) };
        }
        let (mut found, mut outcome) = (Found::default(), Ok(()));
        let cpu_ns = cpu_ns(|| {
            outcome = match self.memory {
                Memory::One => self.each(packets.len(), &mut found),
                Memory::Several => self.by_lists(packets.len(), &mut found),
            };
        });
        outcome.map(|()| Scanned { found, cpu_ns })
    }

    /// A call for each packet, while the headers and packets behind it are prefetched.
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

    /// A call for [`SCANNED`] packets.
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
    use burstline_skip::{skip, test_name};

    use super::super::behind::{self, Pooled};
    use super::super::hyperscan;
    use super::*;
    use crate::threads::Cores;

    /// By comparing at every place.
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
            return skip(test_name(), why);
        }
        let mut rules = rules(50);
        rules.push(b"ab".to_vec()); // which lies in two packets at times
        let mut packets = packets(600, &rules, Some(4));
        packets[7].push(b'a');
        packets[8][0] = b'b'; // no match: its bytes are of two packets
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
            return skip(test_name(), why);
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
