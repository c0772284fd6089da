//! The memory of a guest: address ranges, each a part of a mapped file.
//!
//! The front-end has its own addresses for the same bytes, and uses them for the location of rings.

use std::os::fd::AsFd;
use std::sync::Arc;

use burstline_peer::{PeerMemory, Window};

use crate::message::{Fault, u64_at};

/// The most regions in one message. Source: `VHOST_MEMORY_BASELINE_NREGIONS` of QEMU.
pub(crate) const TABLE_MAX: usize = 8;
/// The most regions that are added one by one.
pub(crate) const SLOTS_MAX: usize = 32;
/// The header before a packet: 10 bytes, or 12 with the number of buffers. Source: struct
/// virtio_net_hdr, section 5.1.6.
pub(crate) type Header = [u8; 12];
/// The size of a region in a message.
pub(crate) const REGION_BYTES: usize = 32;

/// The regions of one guest. Immutable: a change replaces the whole value.
#[derive(Clone, Debug, Default)]
pub(crate) struct GuestMemory {
    regions: Vec<Region>,
}

#[derive(Clone, Debug)]
struct Region {
    /// Its address in the guest.
    guest: u64,
    bytes: u64,
    /// Its address in the front-end.
    front: u64,
    /// Its offset in the file.
    at: usize,
    memory: Arc<PeerMemory>,
}

/// The location of some bytes.
struct Found<'a> {
    memory: &'a Arc<PeerMemory>,
    at: usize,
    /// Bytes up to the region's end.
    left: u64,
}

impl GuestMemory {
    pub(crate) fn len(&self) -> usize {
        self.regions.len()
    }

    /// Returns a copy with one more region, as described by a message.
    pub(crate) fn with(&self, body: &[u8], file: impl AsFd) -> Result<Self, Fault> {
        let [guest, bytes, front, offset] = [0, 8, 16, 24].map(|at| u64_at(body, at));
        let wrong = Fault::Region { at: guest, bytes };
        let ends = [guest, front, offset].map(|start| start.checked_add(bytes));
        let [Some(end), Some(_), Some(file_end)] = ends else { return Err(wrong) };
        let overlaps = |other: &Region| guest < other.guest + other.bytes && other.guest < end;
        if bytes == 0 || self.regions.iter().any(overlaps) {
            return Err(wrong);
        }
        let memory = Arc::new(PeerMemory::map(file.as_fd(), file_end)?);
        let mut regions = self.regions.clone();
        regions.push(Region { guest, bytes, front, at: offset as usize, memory });
        Ok(Self { regions })
    }

    /// Returns a copy without a region.
    pub(crate) fn without(&self, body: &[u8]) -> Result<Self, Fault> {
        let [guest, bytes, front] = [0, 8, 16].map(|at| u64_at(body, at));
        let mut regions = self.regions.clone();
        regions.retain(|one| (one.guest, one.bytes, one.front) != (guest, bytes, front));
        match regions.len() < self.regions.len() {
            true => Ok(Self { regions }),
            false => Err(Fault::NoRegion(guest)),
        }
    }

    /// Returns a window at an address of the front-end.
    pub(crate) fn window(&self, front: u64, bytes: usize, align: usize) -> Option<Window> {
        let region = self.regions.iter().find(|region| {
            front.checked_sub(region.front).is_some_and(|offset| offset < region.bytes)
        })?;
        let offset = front - region.front;
        if bytes as u64 > region.bytes - offset {
            return None;
        }
        region.memory.window(region.at + offset as usize, bytes, align)
    }

    /// Finds an address of the guest. `near` is the region that was found last.
    #[inline]
    fn find(&self, guest: u64, near: &mut usize) -> Option<Found<'_>> {
        let found = |region: &Region| {
            guest.checked_sub(region.guest).is_some_and(|offset| offset < region.bytes)
        };
        if !self.regions.get(*near).is_some_and(found) {
            *near = self.regions.iter().position(found)?;
        }
        let region = &self.regions[*near];
        let offset = guest - region.guest;
        let (memory, at) = (&region.memory, region.at + offset as usize);
        Some(Found { memory, at, left: region.bytes - offset })
    }

    /// Prefetches the first and the last line of a buffer to be read, or with `WRITE` written. Does
    /// nothing if it is not in the region that was found last.
    #[inline]
    pub(crate) fn prefetch<const WRITE: bool>(&self, guest: u64, bytes: usize, near: usize) {
        let Some(region) = self.regions.get(near) else { return };
        let offset = guest.wrapping_sub(region.guest);
        if offset < region.bytes {
            region.memory.prefetch::<WRITE>(region.at + offset as usize, bytes);
        }
    }

    /// Copies bytes out of the guest's memory. Returns false if some are in no region.
    #[inline]
    pub(crate) fn read(&self, mut guest: u64, mut into: &mut [u8], near: &mut usize) -> bool {
        loop {
            let Some(found) = self.find(guest, near) else { return into.is_empty() };
            let part = found.left.min(into.len() as u64) as usize;
            let (now, later) = into.split_at_mut(part);
            if !found.memory.read(found.at, now) {
                return false;
            }
            if later.is_empty() {
                return true;
            }
            // Continue in the next region, which may be in another file.
            into = later;
            guest += part as u64;
        }
    }

    /// Copies bytes out that are `before` bytes behind an address. Returns false, and copies
    /// nothing, if these and the bytes before them are not all in one region.
    #[inline]
    pub(crate) fn read_behind(
        &self,
        guest: u64,
        before: usize,
        into: &mut [u8],
        near: &mut usize,
    ) -> bool {
        let Some(found) = self.find(guest, near) else { return false };
        let is_inside = found.left >= (before + into.len()) as u64;
        is_inside && found.memory.read(found.at + before, into)
    }

    /// Copies bytes to the guest. Returns false if some are in no region.
    #[inline]
    pub(crate) fn write(&self, mut guest: u64, mut from: &[u8], near: &mut usize) -> bool {
        loop {
            let Some(found) = self.find(guest, near) else { return from.is_empty() };
            let part = found.left.min(from.len() as u64) as usize;
            let (now, later) = from.split_at(part);
            if !found.memory.write(found.at, now) {
                return false;
            }
            if later.is_empty() {
                return true;
            }
            from = later;
            guest += part as u64;
        }
    }

    /// Writes the first `bytes` bytes of a header, whose rest is zeros, unless they are already
    /// there. Then its line is only read, and stays in the caches of both cores.
    #[inline]
    pub(crate) fn write_header(
        &self,
        guest: u64,
        header: &Header,
        bytes: usize,
        near: &mut usize,
    ) -> bool {
        let mut there = Header::default();
        self.read(guest, &mut there[..bytes], near)
            && (there == *header || self.write(guest, &header[..bytes], near))
    }
}
