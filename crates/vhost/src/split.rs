//! A split ring: three tables in the guest's memory.
//!
//! ```text
//!   descriptors  | address 8 | length 4 | flags 2 | next 2 | ...     the guest writes
//!   available    | flags 2 | index 2 | head 2 ... | used_event 2 |   the guest writes
//!   used         | flags 2 | index 2 | head 4, length 4 ... | avail_event 2 |   we write
//! ```
//!
//! A head is the first descriptor of a chain. The guest publishes heads through `available.index`;
//! we return used chains through `used.index`. Both indices only grow, modulo 2^16.
//!
//! - E1: `available.index` is loaded with Acquire, before heads and descriptors; the guest stored
//!   them before it.
//! - E2: `used.index` is stored with Release, after used elements and copied data.
//! - E3: sleep and wake-up: store, fence, load on both sides. We store `used.index`, then load
//!   `used_event`; the guest stores `used_event`, then loads `used.index`. For `avail_event` the
//!   roles are reversed.
//!
//! Source: Virtual I/O Device (VIRTIO) Version 1.1, section 2.6.

use burstline_peer::{Refusal, Window, store_then_load};

/// The number of chains by which buffers are prefetched ahead, and before that their descriptors. A
/// line last written by the guest's core takes longer than several packets.
const BUFFERS_AHEAD: u16 = 8;
const DESCS_AHEAD: u16 = 8;
/// The prefetch distance for ring entries, many to a line: the guest's, which we read, and ours,
/// which we write over lines that the guest has read.
const HEADS_AHEAD: u16 = 48;
const USED_AHEAD: u16 = 24;

/// Flags of a descriptor.
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;
/// The size of a descriptor.
pub(crate) const DESC_BYTES: usize = 16;

/// Flag of the available ring: the guest polls. Flag of the used ring: we poll.
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
    /// Decodes a descriptor from its two words.
    pub(crate) fn of(address: u64, rest: u64) -> Self {
        let (bytes, flags, next) = (rest as u32, (rest >> 32) as u16, (rest >> 48) as u16);
        Self { address, bytes, flags, next }
    }
}

/// The reason why a ring was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingFault {
    /// The guest's index claims more chains than the ring has descriptors.
    #[error("{chains} chains are available in a ring of {size} descriptors")]
    Index {
        /// The number of chains.
        chains: u16,
        /// The size of the ring.
        size: u16,
    },
    /// A head is not the number of a descriptor.
    #[error("a chain begins at descriptor {head} of {size}")]
    Head {
        /// The head.
        head: u16,
        /// The size of the ring.
        size: u16,
    },
    /// The file of the ring's memory was truncated.
    #[error("the guest has truncated the file of its memory")]
    Lost,
}

/// The reason why a chain is given back unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainFault {
    /// The chain has more descriptors than its table.
    Endless,
    /// The next descriptor is not in the table.
    Next,
    /// A table of descriptors is inside another, has an odd size, or is not alone.
    Indirect,
    /// A buffer has the wrong direction: to be read instead of written, or the reverse.
    Direction,
    /// An address is not in the guest's memory.
    Address,
    /// The chain is shorter than a header, or has an empty buffer.
    Short,
    /// The chain is longer than the longest packet.
    Long,
}

impl ChainFault {
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::Short => Refusal::Short,
            Self::Long => Refusal::Long,
            _ => Refusal::Malformed,
        }
    }
}

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
    /// The guest's index when it was last loaded.
    seen: u16,
    /// Our last published index.
    published: u16,
    /// The first chain whose buffer was not prefetched yet.
    asked: u16,
}

/// Returns the sizes of the three tables; `has_event_index` adds two bytes to two of them.
pub(crate) fn table_bytes(size: u16, has_event_index: bool) -> [usize; 3] {
    let (size, event) = (usize::from(size), if has_event_index { 2 } else { 0 });
    [DESC_BYTES * size, ENTRIES_AT + 2 * size + event, ENTRIES_AT + 8 * size + event]
}

impl Split {
    /// Creates a ring that continues at `base`. It requests no wake-ups yet.
    pub(crate) fn new(tables: Tables, size: u16, base: u16, has_event_index: bool) -> Self {
        let (next, seen, published, asked) = (base, base, base, base);
        let split = Self { tables, size, has_event_index, next, seen, published, asked };
        split.disarm();
        split
    }

    /// Returns the index of the next chain, where another device would continue.
    pub(crate) fn base(&self) -> u16 {
        self.next
    }

    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// Returns the chains that may be taken. Reads the index anew if fewer than `wanted` are known.
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

    /// Returns the head of an available chain, `ahead` of the next.
    #[inline]
    pub(crate) fn head(&self, ahead: u16) -> Result<u16, RingFault> {
        let slot = self.slot(self.next.wrapping_add(ahead));
        let head = self.tables.available.load_u16(ENTRIES_AT + 2 * slot);
        match head < self.size {
            true => Ok(head),
            false => Err(RingFault::Head { head, size: self.size }),
        }
    }

    /// Reads a descriptor; `index` must be less than the size.
    #[inline]
    pub(crate) fn desc(&self, index: u16) -> Desc {
        let at = DESC_BYTES * usize::from(index);
        Desc::of(self.tables.descs.load_u64(at), self.tables.descs.load_u64(at + 8))
    }

    /// Returns the next available buffer to prefetch; `None` if enough were prefetched. Its
    /// contents are unchecked and only good for a prefetch.
    #[inline]
    pub(crate) fn next_ahead(&mut self) -> Option<Desc> {
        let known = self.seen.wrapping_sub(self.next);
        let asked = self.asked.wrapping_sub(self.next);
        if known == 0 || asked >= known.min(BUFFERS_AHEAD) && asked <= known {
            return None;
        }
        // Some chains were taken without a prefetch.
        let chain = if asked > known { self.next } else { self.asked };
        self.asked = chain.wrapping_add(1);
        // Behind the available chains the guest is writing: a read would take its lines away.
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

    /// Records a used chain with `bytes` written bytes. It is not published yet.
    #[inline]
    pub(crate) fn note_used(&self, ahead: u16, head: u16, bytes: u32) {
        let at = ENTRIES_AT + 8 * self.slot(self.next.wrapping_add(ahead));
        self.tables.used.store_u32(at, u32::from(head));
        self.tables.used.store_u32(at + 4, bytes);
    }

    /// Advances past chains that were recorded as used.
    #[inline]
    pub(crate) fn advance(&mut self, chains: u16) {
        self.next = self.next.wrapping_add(chains);
    }

    /// Publishes the used chains (V3). Returns their number, and whether the guest wants its bell
    /// rung.
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

    /// Asks the guest to ring when it makes a chain available. Returns whether one is available.
    pub(crate) fn arm(&mut self) -> Result<bool, RingFault> {
        match self.has_event_index {
            true => self.tables.used.store_u16(self.event_at(), self.next),
            false => self.tables.used.store_u16(0, 0),
        }
        // E3.
        store_then_load();
        Ok(self.available(1)? > 0)
    }

    /// Asks the guest not to ring.
    pub(crate) fn disarm(&self) {
        match self.has_event_index {
            // An index that was just passed: it comes again after 65,535 chains.
            true => self.tables.used.store_u16(self.event_at(), self.next.wrapping_sub(1)),
            false => self.tables.used.store_u16(0, NO_WAKE),
        }
    }

    fn event_at(&self) -> usize {
        ENTRIES_AT + 8 * usize::from(self.size)
    }

    /// Moves the ring to other addresses.
    pub(crate) fn moved(&mut self, tables: Tables) {
        self.tables = tables;
    }
}
