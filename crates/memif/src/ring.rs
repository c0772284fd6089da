//! A ring: two indices, each on its own cache line, and descriptors.
//!
//! ```text
//!   0    cookie 4 | flags 2 | head 2        64   tail 2        128  descriptors of 16 bytes
//!        flags 2 | region 2 | length 4 | offset 4 | metadata 4
//! ```
//!
//! - E1: the peer's index is loaded with Acquire, before descriptors; the peer stored them before.
//! - E2: our index is stored with Release, after descriptors and copied data.
//! - E3: sleep and wake-up. We store our index, fence, then check whether a bell is wanted. The
//!   peer asks for the bell, then checks our index. The other direction works the same way.

use burstline_peer::{Bell, Window, store_then_load};

pub(crate) const COOKIE: u32 = 0x03e3_1f20;
const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;
const DESCS_AT: usize = 128;
const DESC_BYTES: usize = 16;

/// The reader of the ring polls it.
const POLLS: u16 = 1;
/// The packet continues in the next slot.
pub(crate) const NEXT: u16 = 1;

/// The role, which decides which index is ours: the client moves heads, the server tails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// A descriptor, read once (M1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Desc {
    pub(crate) flags: u16,
    pub(crate) region: u16,
    pub(crate) bytes: u32,
    pub(crate) offset: u32,
}

/// One side of a ring.
#[derive(Debug)]
pub(crate) struct Ring {
    window: Window,
    slots: u16,
    role: Role,
    /// The next slot to take or to fill.
    pub(crate) next: u16,
    /// The last loaded index of the peer.
    seen: u16,
    /// Our last published index.
    published: u16,
    /// The bell to ring, if we fill the ring.
    pub(crate) bell: Option<Bell>,
}

pub(crate) fn ring_bytes(slots: u16) -> usize {
    DESCS_AT + DESC_BYTES * usize::from(slots)
}

impl Ring {
    pub(crate) fn new(window: Window, slots: u16, role: Role) -> Self {
        Self { window, slots, role, next: 0, seen: 0, published: 0, bell: None }
    }

    /// Initializes the memory as an empty ring that is polled.
    pub(crate) fn format(&self) {
        self.window.store_u16(FLAGS_AT, POLLS);
        self.window.store_u16(HEAD_AT, 0);
        self.window.store_u16(TAIL_AT, 0);
        self.window.store_u32(0, COOKIE);
    }

    pub(crate) fn cookie(&self) -> u32 {
        self.window.load_u32(0)
    }

    pub(crate) fn slots(&self) -> u16 {
        self.slots
    }

    #[inline]
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.window.is_lost()
    }

    /// Returns how far the peer's index is ahead of `from`. It is loaded again if fewer than
    /// `wanted` are known. `None` if it is ahead by more than the ring's size.
    #[inline]
    pub(crate) fn ahead(&mut self, from: u16, wanted: u16) -> Option<u16> {
        let known = self.seen.wrapping_sub(from);
        if known >= wanted && known <= self.slots {
            return Some(known);
        }
        let at = if self.role == Role::Client { TAIL_AT } else { HEAD_AT };
        // E1.
        self.seen = self.window.acquire_u16(at);
        let ahead = self.seen.wrapping_sub(from);
        (ahead <= self.slots).then_some(ahead)
    }

    #[inline]
    fn at(&self, slot: u16) -> usize {
        DESCS_AT + DESC_BYTES * usize::from(slot & (self.slots - 1))
    }

    #[inline]
    pub(crate) fn desc(&self, slot: u16) -> Desc {
        let at = self.at(slot);
        let (first, second) = (self.window.load_u64(at), self.window.load_u64(at + 8));
        Desc {
            flags: first as u16,
            region: (first >> 16) as u16,
            bytes: (first >> 32) as u32,
            offset: second as u32,
        }
    }

    #[inline]
    pub(crate) fn set_desc(&self, slot: u16, desc: Desc) {
        let Desc { flags, region, bytes, offset } = desc;
        let at = self.at(slot);
        let first = u64::from(flags) | u64::from(region) << 16 | u64::from(bytes) << 32;
        self.window.store_u64(at, first);
        self.window.store_u64(at + 8, u64::from(offset));
    }

    #[inline]
    pub(crate) fn prefetch(&self, slot: u16) {
        self.window.prefetch::<false>(self.at(slot));
    }

    /// Publishes our index (M2), and rings if the peer wants it. Returns by how much it moved.
    #[inline]
    pub(crate) fn publish(&mut self, index: u16) -> u16 {
        let moved = index.wrapping_sub(self.published);
        if moved == 0 {
            return 0;
        }
        let at = if self.role == Role::Client { HEAD_AT } else { TAIL_AT };
        // E2.
        self.window.release_u16(at, index);
        self.published = index;
        if let Some(bell) = &self.bell {
            // E3.
            store_then_load();
            if self.window.load_u16(FLAGS_AT) & POLLS == 0 {
                bell.ring();
            }
        }
        moved
    }

    /// Asks the peer to ring, or not to. The caller must check the ring again afterwards.
    pub(crate) fn set_polling(&self, polls: bool) {
        self.window.store_u16(FLAGS_AT, if polls { POLLS } else { 0 });
        // E3.
        store_then_load();
    }
}
