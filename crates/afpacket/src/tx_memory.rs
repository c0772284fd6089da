//! The slots of a tx ring, shared with the kernel.
//!
//! ```text
//! slot:  | header, 32: status, length, ... | virtio, 10: length to copy | packet ...    |
//! ```
//!
//! The length in the first header includes the second header.
//!
//! Source: include/uapi/linux/if_packet.h, `struct tpacket2_hdr`; net/packet/af_packet.c of Linux
//! 6.18, `tpacket_parse_header` and `tpacket_snd`; virtio 1.2, section
//! 5.1.6, the header without number of buffers, little-endian here.

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

use libc::tpacket2_hdr;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Offset of the virtio header.
const COPY_AT: usize = 32;
/// Offset of the virtio header's length to copy.
const COPY_LENGTH_AT: usize = COPY_AT + 2;
const PACKET_AT: usize = COPY_AT + 10;

const STATUS_AT: usize = offset_of!(tpacket2_hdr, tp_status);
const LENGTH_AT: usize = offset_of!(tpacket2_hdr, tp_len);

const _: () = assert!(size_of::<tpacket2_hdr>() == COPY_AT && STATUS_AT == 0 && LENGTH_AT == 4);

/// All slots, mapped contiguously.
///
/// # Invariants
/// `start` is the first of `slots * slot_bytes` bytes, mapped readable and writable from creation
/// to drop, initially zeroed by the kernel. `slot_bytes` is a power of two above [`PACKET_AT`].
pub(super) struct TxMemory {
    start: NonNull<u8>,
    slot_bytes: usize,
    slots: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and nothing else here has its
// address.
unsafe impl Send for TxMemory {}

impl TxMemory {
    /// Maps the tx ring of a socket whose ring has exactly this shape.
    pub(super) fn map(socket: BorrowedFd<'_>, slot_bytes: usize, slots: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let flags = flags | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other mapping.
        let start = unsafe { mmap(ptr::null_mut(), slots * slot_bytes, access, flags, socket, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, slot_bytes, slots })
    }

    /// Returns the bytes of a slot for packets of at most `longest` bytes.
    pub(super) fn slot_for(longest: usize) -> usize {
        (PACKET_AT + longest).next_power_of_two()
    }

    #[inline]
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Length of the longest packet, in bytes.
    #[inline]
    pub(super) fn longest(&self) -> usize {
        self.slot_bytes - PACKET_AT
    }

    /// Returns the status word of a slot: its owner.
    #[inline]
    pub(super) fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: an aligned offset inside a slot, whose word both sides access as an atomic (K1 of
        // `burstline_sys`). It has no other kind of reference: `packet` begins behind the headers.
        unsafe { AtomicU32::from_ptr(self.slot(slot).as_ptr().add(STATUS_AT).cast()) }
    }

    /// Writes a packet into a slot.
    ///
    /// # Safety
    /// The kernel does not own the slot: its status is not `SENDING`, and no system call that sends
    /// is running.
    ///
    /// # Panics
    /// If the packet is longer than [`longest`](Self::longest).
    #[inline]
    pub(super) unsafe fn write(&mut self, slot: usize, packet: &[u8]) {
        assert!(packet.len() <= self.longest(), "{} bytes", packet.len());
        // The kernel wants a 16-bit length; it lends the uncopied rest to the driver.
        let copied = packet.len().min(u16::MAX.into()) as u16;
        // SAFETY: in bounds by the assertion; the caller guarantees that the kernel does not touch
        // the slot, and there are no references into it. The length field is aligned; the rest of
        // the virtio header stays zero, as the kernel made it.
        unsafe {
            let start = self.slot(slot).as_ptr();
            let length = (packet.len() + PACKET_AT - COPY_AT) as u32;
            start.add(LENGTH_AT).cast::<u32>().write(length);
            start.add(COPY_LENGTH_AT).cast::<[u8; 2]>().write(copied.to_le_bytes());
            start.add(PACKET_AT).copy_from_nonoverlapping(packet.as_ptr(), packet.len());
        }
    }

    /// Returns the packet of a slot.
    ///
    /// # Safety
    /// As for [`write`](Self::write); and a packet was written.
    pub(super) unsafe fn packet(&self, slot: usize) -> &[u8] {
        let start = self.slot(slot);
        // SAFETY: in bounds, as `write` guarantees; nothing writes there while `self` is borrowed.
        unsafe {
            let length = start.add(LENGTH_AT).cast::<u32>().read() as usize;
            let length = length.saturating_sub(PACKET_AT - COPY_AT).min(self.longest());
            std::slice::from_raw_parts(start.add(PACKET_AT).as_ptr(), length)
        }
    }

    /// Copies the packet of one slot to another, which may be the same.
    ///
    /// # Safety
    /// As for [`packet`](Self::packet), for both slots.
    pub(super) unsafe fn copy(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let behind_status = self.slot_bytes - LENGTH_AT;
        let (from, to) = (self.slot(from), self.slot(to));
        // SAFETY: two different slots inside the mapping, and the kernel owns neither.
        unsafe {
            to.add(LENGTH_AT).copy_from_nonoverlapping(from.add(LENGTH_AT), behind_status);
        }
    }

    #[inline]
    fn slot(&self, slot: usize) -> NonNull<u8> {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: the slot is inside the mapping.
        unsafe { self.start.add(slot * self.slot_bytes) }
    }
}

impl Drop for TxMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every reference into it borrowed `self`. An error would
        // leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.slots * self.slot_bytes) };
    }
}
