//! A running ring: its tables, the guest's memory, and the guest's bell.

use std::sync::Arc;

use burstline_peer::Bell;

use crate::features;
use crate::memory::GuestMemory;
use crate::split::{ChainFault, DESC_BYTES, Desc, INDIRECT, NEXT, RingFault, Split};

/// Bytes behind a buffer's header that are prefetched: a short packet. The core itself prefetches
/// longer ones once they are read in sequence.
const FETCHED: usize = 64;

/// The common part of both directions.
#[derive(Debug)]
pub(crate) struct Vring {
    pub(crate) split: Split,
    pub(crate) memory: Arc<GuestMemory>,
    /// The region that was found last.
    pub(crate) near: usize,
    pub(crate) header_bytes: usize,
    pub(crate) heeds_headers: bool,
    pub(crate) has_merged_buffers: bool,
    pub(crate) takes_offloads: bool,
    pub(crate) is_enabled: bool,
    pub(crate) call: Option<Bell>,
    pub(crate) fault: Option<RingFault>,
}

pub(crate) struct Walk {
    /// Address and size of an indirect descriptor table in the guest's memory, if there is one.
    table: Option<(u64, u32)>,
    next: Option<u16>,
    /// The number of descriptors that may still follow.
    left: u32,
}

impl Vring {
    pub(crate) fn new(split: Split, memory: Arc<GuestMemory>, agreed: u64) -> Self {
        Self {
            split,
            memory,
            near: 0,
            header_bytes: features::header_bytes(agreed),
            heeds_headers: features::heeds_headers(agreed),
            has_merged_buffers: agreed & features::NET_MRG_RXBUF != 0,
            takes_offloads: features::takes_offloads(agreed),
            is_enabled: false,
            call: None,
            fault: None,
        }
    }

    /// Returns whether packets may be taken or put.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.is_enabled && self.fault.is_none()
    }

    /// Returns the chains that may be taken; a ring with a fault has none.
    #[inline]
    pub(crate) fn available(&mut self, wanted: u16) -> u16 {
        if !self.is_live() {
            return 0;
        }
        match self.split.available(wanted) {
            Ok(chains) => chains,
            Err(fault) => {
                self.fault = Some(fault);
                0
            }
        }
    }

    /// Prefetches buffers of the next chains, to be read, or with `WRITE` written. A header is only
    /// read, if at all.
    #[inline]
    pub(crate) fn fetch_ahead<const WRITE: bool>(&mut self) {
        let header_bytes = self.header_bytes;
        while let Some(desc) = self.split.next_ahead() {
            let (address, near) = (desc.address, self.near);
            if WRITE || self.heeds_headers {
                self.memory.prefetch::<false>(address, header_bytes, near);
            }
            let behind = address.wrapping_add(header_bytes as u64);
            let bytes = (desc.bytes as usize).saturating_sub(header_bytes).min(FETCHED);
            self.memory.prefetch::<WRITE>(behind, bytes, near);
        }
    }

    /// Publishes the used chains, and rings if the guest wants it. Returns their number.
    #[inline]
    pub(crate) fn publish(&mut self) -> u16 {
        let (chains, wants_bell) = self.split.publish();
        if wants_bell && let Some(call) = &self.call {
            call.ring();
        }
        chains
    }

    #[inline]
    pub(crate) fn walk(&self, head: u16) -> Walk {
        Walk { table: None, next: Some(head), left: u32::from(self.split.size()) }
    }

    /// Returns the next descriptor of a chain that is a buffer; `None` at the end of the chain.
    #[inline]
    pub(crate) fn step(&mut self, walk: &mut Walk) -> Result<Option<Desc>, ChainFault> {
        loop {
            let Some(index) = walk.next else { return Ok(None) };
            walk.left = walk.left.checked_sub(1).ok_or(ChainFault::Endless)?;
            let desc = match walk.table {
                None if index < self.split.size() => self.split.desc(index),
                Some((table, descs)) if u32::from(index) < descs => self.desc_of(table, index)?,
                _ => return Err(ChainFault::Next),
            };
            if desc.flags & INDIRECT == 0 {
                // No driver uses empty buffers, and QEMU refuses them. So a walk has at most as
                // many steps as a packet has bytes.
                if desc.bytes == 0 {
                    return Err(ChainFault::Short);
                }
                walk.next = (desc.flags & NEXT != 0).then_some(desc.next);
                return Ok(Some(desc));
            }
            let descs = desc.bytes / DESC_BYTES as u32;
            let is_odd = desc.bytes % DESC_BYTES as u32 != 0 || descs == 0;
            if walk.table.is_some() || desc.flags & NEXT != 0 || is_odd {
                return Err(ChainFault::Indirect);
            }
            // A chain has at most as many descriptors as the ring, in whichever table they are.
            *walk = Walk { table: Some((desc.address, descs)), next: Some(0), left: walk.left + 1 };
        }
    }

    fn desc_of(&mut self, table: u64, index: u16) -> Result<Desc, ChainFault> {
        let offset = DESC_BYTES as u64 * u64::from(index);
        let at = table.checked_add(offset).ok_or(ChainFault::Address)?;
        let mut bytes = [0; DESC_BYTES];
        if !self.memory.read(at, &mut bytes, &mut self.near) {
            return Err(ChainFault::Address);
        }
        let word = |at: usize| crate::message::u64_at(&bytes, at);
        Ok(Desc::of(word(0), word(8)))
    }
}
