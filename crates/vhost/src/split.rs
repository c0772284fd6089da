//! A split ring: three tables in the guest's memory.
//!
//! ```text
//!   descriptors  | address 8 | length 4 | flags 2 | next 2 | ...     the guest writes
//!   available    | flags 2 | index 2 | head 2 ... | used_event 2 |   the guest writes
//!   used         | flags 2 | index 2 | head 4, length 4 ... | avail_event 2 |   we write
//! ```
//!
//! A head names a chain of descriptors. The guest publishes heads by `available.index`; we say by
//! `used.index` that we are done with them. Both indices only grow, modulo 2^16.
//!
//! - E1: `available.index` is loaded with Acquire, before heads and descriptors; the guest stored
//!   them before it.
//! - E2: `used.index` is stored with Release, behind used elements and what was copied.
//! - E3: who sleeps and who wakes: store, fence, load on both sides. We store `used.index`, then
//!   look at `used_event`; the guest stores `used_event`, then looks at `used.index`. The same the
//!   other way round for `avail_event`.
//!
//! Source: Virtual I/O Device (VIRTIO) Version 1.1, section 2.6.

use burstline_peer::{Refusal, Window, store_then_load};

/// How many chains ahead buffers are prefetched, and their descriptors before that: a line that the
/// guest's core wrote last takes longer than several packets.
const BUFFERS_AHEAD: u16 = 8;
const DESCS_AHEAD: u16 = 8;
/// The same for the entries of the rings, many to a line: the guest's, which we read, and ours,
/// which we write over lines that the guest has read.
const HEADS_AHEAD: u16 = 48;
const USED_AHEAD: u16 = 24;

/// Flags of a descriptor.
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;
/// Bytes of a descriptor.
pub(crate) const DESC_BYTES: usize = 16;

/// Flag of the available ring: the guest polls. Of the used ring: we do.
const NO_WAKE: u16 = 1;
const INDEX_AT: usize = 2;
const ENTRIES_AT: usize = 4;

/// One descriptor, read once (V1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Desc {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) flags: u16,
    pub(crate) next: u16,
}

impl Desc {
    /// From its two words.
    pub(crate) fn of(address: u64, rest: u64) -> Self {
        let (bytes, flags, next) = (rest as u32, (rest >> 32) as u16, (rest >> 48) as u16);
        Self { address, bytes, flags, next }
    }
}

/// What is wrong with a ring, which is stopped by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingFault {
    /// The guest says that there are more chains than descriptors.
    #[error("{chains} chains are available in a ring of {size} descriptors")]
    Index {
        /// How many.
        chains: u16,
        /// Of how many.
        size: u16,
    },
    /// A head names no descriptor.
    #[error("a chain begins at descriptor {head} of {size}")]
    Head {
        /// Which.
        head: u16,
        /// Of how many.
        size: u16,
    },
    /// The file of its memory was cut.
    #[error("the guest has cut the file of its memory")]
    Lost,
}

/// What is wrong with a chain, which is given back with nothing done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainFault {
    /// It has more descriptors than its table.
    Endless,
    /// A descriptor names one that is not in the table.
    Next,
    /// A table of descriptors inside another, of odd size, or not alone.
    Indirect,
    /// A buffer to read where one to write was expected, or the reverse.
    Direction,
    /// An address that is not in the guest's memory.
    Address,
    /// Less than a header, or an empty buffer.
    Short,
    /// More than the longest packet.
    Long,
}

impl ChainFault {
    /// What is said of it outside.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::Short => Refusal::Short,
            Self::Long => Refusal::Long,
            _ => Refusal::Malformed,
        }
    }
}

/// Where the tables are.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) descs: Window,
    pub(crate) available: Window,
    pub(crate) used: Window,
}

/// The device's side of a ring.
#[derive(Debug)]
pub(crate) struct Split {
    tables: Tables,
    size: u16,
    has_event_index: bool,
    /// The next chain to take.
    next: u16,
    /// The guest's index when last seen.
    seen: u16,
    /// Our index as the guest last saw it.
    published: u16,
    /// The first chain whose buffer was not asked for yet.
    asked: u16,
}

/// Bytes of the three tables; `has_event_index` has two words more.
pub(crate) fn table_bytes(size: u16, has_event_index: bool) -> [usize; 3] {
    let (size, event) = (usize::from(size), if has_event_index { 2 } else { 0 });
    [DESC_BYTES * size, ENTRIES_AT + 2 * size + event, ENTRIES_AT + 8 * size + event]
}

impl Split {
    /// One that goes on at `base`. It wants no wakes yet.
    pub(crate) fn new(tables: Tables, size: u16, base: u16, has_event_index: bool) -> Self {
        let (next, seen, published, asked) = (base, base, base, base);
        let split = Self { tables, size, has_event_index, next, seen, published, asked };
        split.disarm();
        split
    }

    /// The next chain: where another device would go on.
    pub(crate) fn base(&self) -> u16 {
        self.next
    }

    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// Chains that may be taken, at least `wanted` if there are as many.
    #[inline]
    pub(crate) fn available(&mut self, wanted: u16) -> Result<u16, RingFault> {
        let known = self.seen.wrapping_sub(self.next);
        if known >= wanted {
            return Ok(known);
        }
        // E1.
        let index = self.tables.available.acquire_u16(INDEX_AT);
        let chains = index.wrapping_sub(self.next);
        if chains > self.size {
            return Err(match self.tables.available.is_lost() {
                true => RingFault::Lost,
                false => RingFault::Index { chains, size: self.size },
            });
        }
        self.seen = index;
        Ok(chains)
    }

    #[inline]
    fn slot(&self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    /// The head of a chain that is available, `ahead` of the next.
    #[inline]
    pub(crate) fn head(&self, ahead: u16) -> Result<u16, RingFault> {
        let slot = self.slot(self.next.wrapping_add(ahead));
        let head = self.tables.available.load_u16(ENTRIES_AT + 2 * slot);
        match head < self.size {
            true => Ok(head),
            false => Err(RingFault::Head { head, size: self.size }),
        }
    }

    /// Reads a descriptor; `index` is less than the size.
    #[inline]
    pub(crate) fn desc(&self, index: u16) -> Desc {
        let at = DESC_BYTES * usize::from(index);
        Desc::of(self.tables.descs.load_u64(at), self.tables.descs.load_u64(at + 8))
    }

    /// The next buffer to fetch ahead, of the chains that are available; `None`:
    /// enough was asked for. What it says may be anything, and is only good for a prefetch.
    #[inline]
    pub(crate) fn next_ahead(&mut self) -> Option<Desc> {
        let known = self.seen.wrapping_sub(self.next);
        let asked = self.asked.wrapping_sub(self.next);
        if known == 0 || asked >= known.min(BUFFERS_AHEAD) && asked <= known {
            return None;
        }
        // Chains went by without a request.
        let chain = if asked > known { self.next } else { self.asked };
        self.asked = chain.wrapping_add(1);
        // Behind what is available the guest writes now: to read there would take its lines away.
        let behind = self.seen.wrapping_sub(chain);
        if behind > HEADS_AHEAD {
            let heads = self.slot(chain.wrapping_add(HEADS_AHEAD));
            self.tables.available.prefetch::<false>(ENTRIES_AT + 2 * heads);
        }
        let used = self.slot(chain.wrapping_add(USED_AHEAD));
        self.tables.used.prefetch::<true>(ENTRIES_AT + 8 * used);
        if behind > DESCS_AHEAD {
            let later = self.slot(chain.wrapping_add(DESCS_AHEAD));
            let later = self.tables.available.load_u16(ENTRIES_AT + 2 * later);
            self.tables.descs.prefetch::<false>(DESC_BYTES * usize::from(later));
        }
        let head = self.tables.available.load_u16(ENTRIES_AT + 2 * self.slot(chain));
        (head < self.size).then(|| self.desc(head))
    }

    /// Notes that a chain is done with, into which `bytes` were written. Not published yet.
    #[inline]
    pub(crate) fn note_used(&self, ahead: u16, head: u16, bytes: u32) {
        let at = ENTRIES_AT + 8 * self.slot(self.next.wrapping_add(ahead));
        self.tables.used.store_u32(at, u32::from(head));
        self.tables.used.store_u32(at + 4, bytes);
    }

    /// Goes past chains that are noted as used.
    #[inline]
    pub(crate) fn advance(&mut self, chains: u16) {
        self.next = self.next.wrapping_add(chains);
    }

    /// Shows the guest which chains are done with (V3). Returns how many, and whether it wants its
    /// bell rung.
    #[inline]
    pub(crate) fn publish(&mut self) -> (u16, bool) {
        let (before, now) = (self.published, self.next);
        let chains = now.wrapping_sub(before);
        if chains == 0 {
            return (0, false);
        }
        // E2.
        self.tables.used.release_u16(INDEX_AT, now);
        self.published = now;
        // E3.
        store_then_load();
        let wants_bell = match self.has_event_index {
            true => {
                let at = ENTRIES_AT + 2 * usize::from(self.size);
                let event = self.tables.available.load_u16(at);
                now.wrapping_sub(event).wrapping_sub(1) < chains
            }
            false => self.tables.available.load_u16(0) & NO_WAKE == 0,
        };
        (chains, wants_bell)
    }

    /// Asks the guest to ring when it makes a chain available. Returns whether there is one.
    pub(crate) fn arm(&mut self) -> Result<bool, RingFault> {
        match self.has_event_index {
            true => self.tables.used.store_u16(self.event_at(), self.next),
            false => self.tables.used.store_u16(0, 0),
        }
        // E3.
        store_then_load();
        Ok(self.available(1)? > 0)
    }

    /// Asks it not to.
    pub(crate) fn disarm(&self) {
        match self.has_event_index {
            // An index that has just passed: it is passed again in 65,535 chains.
            true => self.tables.used.store_u16(self.event_at(), self.next.wrapping_sub(1)),
            false => self.tables.used.store_u16(0, NO_WAKE),
        }
    }

    fn event_at(&self) -> usize {
        ENTRIES_AT + 8 * usize::from(self.size)
    }

    /// The same ring at other addresses.
    pub(crate) fn moved(&mut self, tables: Tables) {
        self.tables = tables;
    }
}
