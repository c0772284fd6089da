//! A burst: a run of consecutive descs and the bytes they point to, lent for a while.
//!
//! ```text
//! bytes     | packet 0 | packet 1 | packet 2 |           worklist (in memory: newest first)
//!             ^----------.                                | desc 2 | desc 1 | desc 0 |
//!                        '-- offset, length ------------------------------------'
//! ```
//!
//! The same type describes packets of a log and packets that lie in a file's buffer, a kernel
//! block or a frame: a burst is always a worklist over bytes, contiguous or not.

use crate::desc::{Desc, Facts, Flags, align_up};

/// A run of packets, borrowed from a reader or a port.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    bytes: &'a [u8],
    /// In memory order, which is the reverse of packet order.
    worklist: &'a [Desc],
    base_time_ns: u64,
    first_packet: u64,
    facts: FactsAt<'a>,
}

/// Where the facts of the few packets that have some stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FactsAt<'a> {
    /// After each packet's bytes, aligned.
    Behind,
    /// In a list by index from the worklist's end, ascending; the burst starts at `skipped`.
    Aside { list: &'a [(u32, Facts)], skipped: u32 },
}

impl<'a> Burst<'a> {
    /// `worklist` is in memory order: its last entry is the burst's first packet.
    pub(crate) fn new(
        bytes: &'a [u8],
        worklist: &'a [Desc],
        base_time_ns: u64,
        first_packet: u64,
        facts: FactsAt<'a>,
    ) -> Self {
        Self { bytes, worklist, base_time_ns, first_packet, facts }
    }

    /// How many packets it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.worklist.len()
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.worklist.is_empty()
    }

    /// The number of its first packet, counted over the life of the log or port.
    pub fn first_packet(&self) -> u64 {
        self.first_packet
    }

    /// All bytes that the descs' offsets count from.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Packet `index`, in `[0, len)`.
    #[inline]
    pub fn packet(&self, index: usize) -> Packet<'a> {
        let desc = self.worklist[self.worklist.len() - 1 - index];
        Packet { desc, index: index as u32, burst: *self }
    }

    /// The packets in order of arrival. Cost: a bounds check a packet, no allocation.
    #[inline]
    pub fn packets(&self) -> Packets<'a> {
        Packets { burst: *self, descs: self.worklist.iter().rev(), index: 0 }
    }

    /// Splits into the first `count` packets, in `[0, len]`, and the rest.
    pub fn split_at(&self, count: usize) -> (Self, Self) {
        let (rest, first) = self.worklist.split_at(self.worklist.len() - count);
        let facts = match self.facts {
            FactsAt::Behind => FactsAt::Behind,
            FactsAt::Aside { list, skipped } => {
                FactsAt::Aside { list, skipped: skipped + count as u32 }
            }
        };
        let first_packet = self.first_packet + count as u64;
        (Self { worklist: first, ..*self }, Self { worklist: rest, facts, first_packet, ..*self })
    }

    /// Takes everything by value and stays out of line: a reference would force each packet of a
    /// loop into memory for the sake of the few that have facts.
    #[cold]
    #[inline(never)]
    fn facts_of(self, desc: Desc, index: u32) -> Option<Facts> {
        match self.facts {
            FactsAt::Behind => {
                let at = align_up(desc.offset() as usize + desc.length() as usize);
                Facts::read(self.bytes.get(at..)?)
            }
            FactsAt::Aside { list, skipped } => {
                let wanted = index + skipped;
                let at = list.binary_search_by_key(&wanted, |&(index, _)| index).ok()?;
                Some(list[at].1)
            }
        }
    }
}

/// One packet of a burst.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    desc: Desc,
    index: u32,
    burst: Burst<'a>,
}

impl<'a> Packet<'a> {
    /// Its bytes, as on the wire, without FCS. Empty when the desc points outside the burst,
    /// which only a broken writer in another process can bring about.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        let start = self.desc.offset() as usize;
        self.burst.bytes.get(start..start + self.desc.length() as usize).unwrap_or(&[])
    }

    /// How many of its bytes are here.
    #[inline]
    pub fn length(&self) -> usize {
        self.desc.length() as usize
    }

    /// Its worklist entry.
    #[inline]
    pub fn desc(&self) -> Desc {
        self.desc
    }

    /// The port it came from.
    #[inline]
    pub fn port(&self) -> u8 {
        self.desc.port()
    }

    /// When it arrived, in ns since 1970.
    #[inline]
    pub fn time_ns(&self) -> u64 {
        match self.facts() {
            Some(facts) => facts.time_ns,
            None => self.burst.base_time_ns.wrapping_add(self.desc.time_delta_ns().into()),
        }
    }

    /// Its length on the wire, in bytes without FCS; more than [`length`](Self::length) when it
    /// was cut short.
    #[inline]
    pub fn original_length(&self) -> usize {
        self.facts().map_or(self.length(), |facts| facts.original_length as usize)
    }

    /// Packets that its port lost just before it.
    #[inline]
    pub fn drops_before(&self) -> u64 {
        self.facts().map_or(0, |facts| facts.drops_before)
    }

    /// What is true of few packets. Cost: one test of a flag for the others.
    #[inline]
    pub fn facts(&self) -> Option<Facts> {
        if !self.desc.flags().contains(Flags::FACTS) {
            return None;
        }
        self.burst.facts_of(self.desc, self.index)
    }
}

/// Iterator over the packets of a burst.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    burst: Burst<'a>,
    descs: std::iter::Rev<std::slice::Iter<'a, Desc>>,
    index: u32,
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        let desc = *self.descs.next()?;
        let index = self.index;
        self.index += 1;
        Some(Packet { desc, index, burst: self.burst })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.descs.size_hint()
    }
}

impl ExactSizeIterator for Packets<'_> {}
