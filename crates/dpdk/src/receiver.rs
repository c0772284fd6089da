//! A receive queue, and the mbufs that it holds.
//!
//! ```text
//! mbufs   | given back | delivered, lent perhaps | to be delivered |
//!         0            freed                     next              count
//! ```
//!
//! One burst of the device is delivered before the next is requested. Delivered packets are given
//! back at the next call.
//!
//! Most bursts are plain: each packet in one mbuf of the device's own pool, without marks. Such a
//! burst is described in one pass over the first line of each mbuf, and returns to its pool
//! unchanged. Its base is the pool's first byte. Only if that is not possible, or the caller wants
//! to inspect each packet, are the mbufs read one by one.
//!
//! A lent burst is a base address and 32-bit offsets. The base is the lowest packet of the device's
//! burst, at any address. Packets of a pool are close enough. If a burst spans more than 4 GiB, or
//! a packet is in several mbufs, that packet is its own burst. In the second case we join it in our
//! own memory: the only copy that lending can cost.

mod copy;

use std::ptr::NonNull;
use std::sync::Arc;

use burstline_log::{Burst, Meta, Scratch};

use crate::device::Device;
use crate::error::DpdkError;
use crate::marks::Marks;
use crate::{ffi, thread};

/// Maximum packets of a burst: the headers of the usual 32 fit into the first cache; more reduce a
/// call's fixed cost.
pub const BURST_MOST: usize = 256;

/// One receive queue of a device.
#[derive(Debug)]
pub struct Receiver {
    held: Held,
    queue: u16,
    most: u16,
    taken: u64,
    device: Arc<Device>,
}

/// Mbufs that are ours, freed when this is dropped.
///
/// # Invariants
/// H1. `mbufs[freed..count]` are live and belong to nothing else.
/// H2. `freed <= next <= count <= BURST_MOST`.
/// H3. If `is_looked_at`, `packets[freed..count]` describe them, and `batch` all of them.
/// H4. If `is_plain`, they belong to the pool of `home`, and are in the state of a free mbuf.
struct Held {
    mbufs: Box<[*mut ffi::Mbuf; BURST_MOST]>,
    packets: Box<[ffi::Packet; BURST_MOST]>,
    batch: ffi::Batch,
    home: ffi::Home,
    is_looked_at: bool,
    is_plain: bool,
    freed: usize,
    next: usize,
    count: usize,
    /// The packet of several mbufs that was joined last, and its index.
    side: Vec<u8>,
    side_of: Option<usize>,
    lent: Lent,
}

const NOTHING: ffi::Packet =
    ffi::Packet { data: std::ptr::null(), length: 0, marks: 0, time: 0, hash: 0 };

/// Properties of each packet of a plain burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// The interface that received it.
    pub port: u8,
    /// Receive time, in ns since 1970.
    pub time_ns: u64,
}

/// The packets lent last: from `first` up to `next`.
#[derive(Clone, Copy)]
struct Lent {
    base: *const u8,
    extent: usize,
    first: usize,
}

// SAFETY: by H1 the mbufs belong to this value alone, and their memory moves with them.
unsafe impl Send for Held {}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held = (self.freed, self.next, self.count);
        f.debug_struct("Held").field("freed_next_count", &held).finish_non_exhaustive()
    }
}

impl Receiver {
    /// Takes `queue` of a device, to request up to `burst` packets at a time, at most
    /// [`BURST_MOST`].
    ///
    /// # Errors
    /// [`DpdkError::Taken`].
    pub fn new(device: &Arc<Device>, queue: u16, burst: u16) -> Result<Self, DpdkError> {
        device.own_receiver(queue)?;
        let (held, most) = (Held::new(device.home()), burst.min(BURST_MOST as u16));
        Ok(Self { held, queue, most, taken: 0, device: Arc::clone(device) })
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Packets received from the device so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Received packets that are not delivered yet.
    pub fn undelivered(&self) -> usize {
        self.held.count - self.held.next
    }

    /// Packets known to wait in the queue; 0 if the driver does not report it.
    pub fn waiting(&self) -> u64 {
        // SAFETY: the device is open.
        unsafe { ffi::shim_waiting(self.device.port(), self.queue) }.into()
    }

    /// Requests a burst of up to `most` packets, if all packets of the last one were delivered.
    /// Returns the number of packets to deliver now. Some drivers of cards return nothing for
    /// requests below 4 or 32.
    ///
    /// Cost: no system call except the driver's own.
    #[inline]
    pub fn poll(&mut self, most: usize) -> usize {
        let held = &mut self.held;
        if held.next < held.count {
            return held.count - held.next;
        }
        thread::enter();
        held.release();
        let (port, most) = (self.device.port(), self.most.min(most.min(BURST_MOST) as u16));
        // SAFETY: nothing is held, and there is room for BURST_MOST.
        let count = unsafe { ffi::shim_take(port, self.queue, held.mbufs.as_mut_ptr(), most) };
        held.count = usize::from(count).min(BURST_MOST);
        self.taken += held.count as u64;
        held.count
    }

    /// Returns the next received packet, without delivering it.
    #[inline]
    pub fn peek(&mut self) -> Option<(&[u8], Marks)> {
        let held = &mut self.held;
        (held.next < held.count).then(|| held.packet(held.next))
    }

    /// Marks the next packet as delivered.
    #[inline]
    pub fn advance(&mut self) {
        assert!(self.held.next < self.held.count, "there is no next packet");
        self.held.next += 1;
    }

    /// Gives delivered packets back.
    #[inline]
    pub fn release(&mut self) {
        thread::enter();
        self.held.release();
    }

    /// Lends up to `most` of the received packets, as far as they make one burst. `pick` returns
    /// how many bytes of a packet are wanted, and its metadata, or `None` to skip the packet.
    /// `plain` holds for any packet without a mark, which is wanted whole. A burst of only those is
    /// lent without calling `pick`.
    ///
    /// Cost: some 20 instructions a packet of a plain burst, otherwise some 60.
    #[inline]
    pub fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        most: usize,
        first_packet: u64,
        plain: Option<Plain>,
        pick: impl FnMut(&[u8], Marks) -> Option<(u32, Meta)>,
    ) -> Burst<'a> {
        scratch.clear();
        let held = &mut self.held;
        if !plain.is_some_and(|plain| held.describe(scratch, most, plain)) {
            held.pick(scratch, most, pick);
        }
        let (base, extent) = held.lent();
        // SAFETY: each desc is of a packet between `first` and `next`. By H1 the packet stays
        // unchanged until the next call, and the borrow ends before.
        unsafe { scratch.burst_in_memory(base, extent, first_packet) }
    }

    /// Returns the burst that was lent last again, if `scratch` describes it.
    pub fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Burst<'a> {
        let (base, extent) = self.held.lent();
        let mut fresh = [NOTHING; BURST_MOST];
        let mut packets = self.held.lent_packets(&mut fresh);
        // The worklist is in reverse order, and each packet occurs once.
        let holds = |offset: u32, length: u32| {
            packets.any(|(start, most)| start == offset as usize && length <= most)
        };
        // SAFETY: `holds` accepts only packets that are held, as in `lend`.
        unsafe { scratch.burst_of_held(base, extent, 0, holds) }
    }

    /// Passes each packet of a fresh burst to `judge`, which may write to its first mbuf. Frees the
    /// packets that `judge` rejects.
    pub fn treat(&mut self, mut judge: impl FnMut(&mut [u8]) -> bool) {
        let held = &mut self.held;
        held.look();
        let mut kept = held.next;
        for index in held.next..held.count {
            if judge(held.first_bytes_mut(index)) {
                held.mbufs.swap(kept, index);
                held.packets.swap(kept, index);
                kept += 1;
            }
        }
        // SAFETY: these are the rejected ones, and by H1 ours.
        unsafe { ffi::shim_free(held.mbufs[kept..].as_mut_ptr(), (held.count - kept) as u32) };
        held.count = kept;
    }

    /// Returns the undelivered mbufs, for an [`Exit`](crate::Exit).
    pub(crate) fn undelivered_mbufs(&mut self) -> &mut [*mut ffi::Mbuf] {
        let held = &mut self.held;
        &mut held.mbufs[held.next..held.count]
    }

    /// Hands the next `sent` mbufs over to another owner.
    pub(crate) fn hand_over(&mut self, sent: usize) {
        self.held.release();
        self.held.next += sent;
        assert!(self.held.next <= self.held.count, "{sent} mbufs are more than there were");
        self.held.freed = self.held.next;
        // Packets lent before must not be lent again.
        self.held.lent.first = self.held.next;
    }

    /// Discards undelivered packets. Returns their number.
    pub fn discard(&mut self) -> usize {
        let discarded = self.undelivered();
        self.held.next = self.held.count;
        self.release();
        discarded
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.device.disown(Some(self.queue), None);
    }
}

impl Held {
    fn new(home: ffi::Home) -> Self {
        Self {
            mbufs: Box::new([std::ptr::null_mut(); BURST_MOST]),
            packets: Box::new([NOTHING; BURST_MOST]),
            batch: ffi::Batch::default(),
            home,
            is_looked_at: false,
            is_plain: false,
            freed: 0,
            next: 0,
            count: 0,
            side: Vec::new(),
            side_of: None,
            lent: Lent { base: NonNull::dangling().as_ptr(), extent: 0, first: 0 },
        }
    }

    #[inline]
    fn release(&mut self) {
        let done = self.freed..self.next;
        self.lent.first = self.next;
        if !done.is_empty() {
            self.freed = self.next;
            let mbufs = &mut self.mbufs[done];
            let (first, count) = (mbufs.as_mut_ptr(), mbufs.len() as u32);
            match self.is_plain {
                // SAFETY: by H1 they are live and ours, and H4 holds; now they belong to the pool.
                true => unsafe { ffi::shim_free_plain(self.home.pool, first, count) },
                // SAFETY: by H1 they are live and ours; now they belong to the pool.
                false => unsafe { ffi::shim_free(first, count) },
            }
        }
        if self.next == self.count {
            (self.freed, self.next, self.count) = (0, 0, 0);
            (self.is_looked_at, self.is_plain) = (false, false);
            (self.side_of, self.lent.first) = (None, 0);
        }
    }

    /// Describes a complete fresh burst, if it is plain and has at most `most` packets.
    #[inline]
    fn describe(&mut self, scratch: &mut Scratch, most: usize, plain: Plain) -> bool {
        let extent = self.home.end.saturating_sub(self.home.start);
        let is_fresh = self.next == 0 && !self.is_looked_at;
        if !is_fresh || self.count > most || extent > u64::from(u32::MAX) {
            return false;
        }
        let (mbufs, count) = (self.mbufs.as_ptr(), self.count as u32);
        let (home, port) = (&self.home, plain.port.into());
        self.is_plain = scratch.describe(self.count, plain.time_ns, |descs| {
            // SAFETY: by H1 all are live; there is room for that many descs, and any bits are a
            // valid desc.
            unsafe { ffi::shim_describe(mbufs, count, home, port, descs.as_mut_ptr()) }
        });
        if self.is_plain {
            let base = std::ptr::with_exposed_provenance(self.home.start as usize);
            self.lent = Lent { base, extent: extent as usize, first: 0 };
            self.next = self.count;
        }
        self.is_plain
    }

    /// Describes packets one by one.
    fn pick(
        &mut self,
        scratch: &mut Scratch,
        most: usize,
        mut pick: impl FnMut(&[u8], Marks) -> Option<(u32, Meta)>,
    ) {
        let end = self.begin_run();
        while scratch.len() < most && !scratch.is_full() && self.next < end {
            let base = self.lent.base.addr();
            let (bytes, marks) = self.packet(self.next);
            let (offset, length) = (bytes.as_ptr().addr() - base, bytes.len() as u32);
            if let Some((kept, meta)) = pick(bytes, marks) {
                scratch.push(offset as u32, length.min(kept), &meta);
            }
            self.next += 1;
        }
    }

    /// Reads the mbufs, if that was not done yet, so that packets can be inspected one by one.
    #[inline]
    fn look(&mut self) {
        if !self.is_looked_at {
            let held = self.freed..self.count;
            // SAFETY: by H1 the mbufs are live and ours.
            self.batch = unsafe { look_at(&self.mbufs[held.clone()], &mut self.packets[held]) };
            self.is_looked_at = true;
        }
    }

    /// Returns a held packet, whole.
    #[inline]
    fn packet(&mut self, index: usize) -> (&[u8], Marks) {
        assert!((self.freed..self.count).contains(&index), "packet {index} is not held");
        self.look();
        let packet = self.packets[index];
        let marks = Marks::new(&packet);
        if marks.is_chained() {
            return (self.put_together(index), marks);
        }
        // SAFETY: by H1 the mbuf is live, and DPDK guarantees that it has this many bytes.
        (unsafe { std::slice::from_raw_parts(packet.data, packet.length as usize) }, marks)
    }

    #[cold]
    fn put_together(&mut self, index: usize) -> &[u8] {
        if self.side_of != Some(index) {
            // This overwrites a packet lent before.
            self.lent.first = self.next;
            let length = self.packets[index].length as usize;
            self.side.resize(length, 0);
            // SAFETY: by H1 the mbuf is live; the shim writes at most the given length.
            let read =
                unsafe { ffi::shim_read(self.mbufs[index], self.side.as_mut_ptr(), length as u32) };
            self.side.truncate(read as usize);
            self.side_of = Some(index);
        }
        &self.side
    }

    /// Returns the bytes of a packet's first mbuf.
    fn first_bytes_mut(&mut self, index: usize) -> &mut [u8] {
        assert!((self.freed..self.count).contains(&index), "packet {index} is not held");
        self.look();
        let packet = self.packets[index];
        let mut length = packet.length;
        if Marks::new(&packet).is_chained() {
            // SAFETY: by H1 the mbuf is live.
            length = unsafe { ffi::shim_first_length(self.mbufs[index]) };
        }
        // SAFETY: by H1 the mbuf is live and only ours; its first segment has this many bytes.
        unsafe { std::slice::from_raw_parts_mut(packet.data.cast_mut(), length as usize) }
    }

    /// Sets the base for the next packets. Returns the end of the run that can be lent together.
    #[inline]
    fn begin_run(&mut self) -> usize {
        let next = self.next;
        if next == self.count {
            self.lent = Lent { base: NonNull::dangling().as_ptr(), extent: 0, first: next };
            return next;
        }
        self.look();
        let extent = self.batch.highest - self.batch.lowest;
        let is_plain = self.batch.marks & ffi::CHAINED == 0 && extent <= u64::from(u32::MAX);
        if !is_plain {
            return self.begin_odd_run(extent);
        }
        let base = std::ptr::with_exposed_provenance(self.batch.lowest as usize);
        self.lent = Lent { base, extent: extent as usize, first: next };
        self.count
    }

    #[cold]
    fn begin_odd_run(&mut self, extent: u64) -> usize {
        let next = self.next;
        let is_chained = |packet: &ffi::Packet| Marks::new(packet).is_chained();
        if is_chained(&self.packets[next]) || extent > u64::from(u32::MAX) {
            let (bytes, _) = self.packet(next);
            self.lent = Lent { base: bytes.as_ptr(), extent: bytes.len(), first: next };
            return next + 1;
        }
        let base = std::ptr::with_exposed_provenance(self.batch.lowest as usize);
        self.lent = Lent { base, extent: extent as usize, first: next };
        let rest = &self.packets[next..self.count];
        rest.iter().position(is_chained).map_or(self.count, |plain| next + plain)
    }

    fn lent(&self) -> (NonNull<u8>, usize) {
        let base = NonNull::new(self.lent.base.cast_mut()).unwrap_or(NonNull::dangling());
        (base, self.lent.extent)
    }

    /// Returns offset and length of the packets that were lent last; the last one comes first.
    /// `fresh` is a buffer for inspecting a plain burst.
    fn lent_packets<'a>(
        &'a self,
        fresh: &'a mut [ffi::Packet; BURST_MOST],
    ) -> impl Iterator<Item = (usize, u32)> + use<'a> {
        let (base, first, next) = (self.lent.base.addr(), self.lent.first, self.next);
        let packets = match self.is_looked_at {
            true => &self.packets[first..next],
            false => {
                // SAFETY: H1: lent packets are held.
                unsafe { look_at(&self.mbufs[first..next], &mut fresh[first..next]) };
                &fresh[first..next]
            }
        };
        packets.iter().rev().map(move |packet| match Marks::new(packet).is_chained() {
            true => (0, packet.length),
            false => (packet.data.addr().wrapping_sub(base), packet.length),
        })
    }
}

/// Describes mbufs one by one. There is a packet for each mbuf.
///
/// # Safety
/// The mbufs are live, and belong to the caller.
unsafe fn look_at(mbufs: &[*mut ffi::Mbuf], packets: &mut [ffi::Packet]) -> ffi::Batch {
    let mut batch = ffi::Batch::default();
    let count = mbufs.len().min(packets.len()) as u32;
    // SAFETY: the caller guarantees that they are live, and there is room for that many packets.
    unsafe { ffi::shim_look(mbufs.as_ptr(), count, packets.as_mut_ptr(), &mut batch) };
    batch
}

impl Drop for Held {
    fn drop(&mut self) {
        thread::enter();
        self.next = self.count;
        self.release();
    }
}

#[cfg(test)]
mod tests;
